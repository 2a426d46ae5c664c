//! Which parts of the polite yield are switched on.

/// The parts of `yield = "polite"`. Each can be switched on and off alone, to measure what it is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct PoliteSwitches {
    /// A yield that names a lock holder or a message peer gives its pCPU to that vCPU.
    pub directed: bool,
    /// A vCPU that yields again in the same wait keeps its place in the run queue.
    pub keep_place: bool,
    /// If the named lock holder already runs, the pCPU goes to a vCPU that does not itself wait for something.
    pub prefer_computing: bool,
    /// A yield for a message may put the peer, if it is in the run queue, on another pCPU.
    pub evict_for_peer: bool,
    /// Two vCPUs that wait for each other's locks get a pCPU each, as a sender of messages and its peer do.
    pub pair_lockers: bool,
    /// A vCPU that yields for a message goes on while its peer runs, a limited number of times.
    pub stay_with_running_peer: bool,
    /// If two vCPUs on different pCPUs wait for each other's messages and each looks only when the other does not, one
    /// of them pauses before it goes on, for a quarter of the time between two of its yields.
    pub break_lockstep: bool,
    /// A vCPU that yields without a hint goes on, as many times in a row as it lately made progress by that.
    pub forgive: bool,
    /// Among vCPUs that yield without a hint, the one that made progress least recently runs first, and one that made
    /// none keeps its place. A vCPU that ran for long before it yielded has made progress.
    pub order_by_progress: bool,
    /// A yield without a hint counts as if it named the vCPU beside which the yielder lately ran without yielding.
    pub guess_peer: bool,
    /// Guests are told which of their vCPUs have a pCPU. Waiters spin longer while the vCPU that they wait for runs,
    /// and yield at once if it does not.
    pub tell_presence: bool,
    /// A yield always gives the pCPU away if another vCPU waits, whatever the other switches say.
    pub strict: bool,
}

impl Default for PoliteSwitches {
    fn default() -> Self {
        Self {
            directed: true,
            keep_place: true,
            prefer_computing: true,
            evict_for_peer: true,
            pair_lockers: true,
            stay_with_running_peer: true,
            break_lockstep: true,
            forgive: true,
            order_by_progress: true,
            guess_peer: true,
            tell_presence: true,
            strict: false,
        }
    }
}
