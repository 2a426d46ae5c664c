//! Which parts of the polite yield are switched on.

/// The parts of `yield = "polite"`. Each can be switched on and off alone, to measure what it is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct PoliteSwitches {
    /// A yield that names a lock holder or a message peer hands its pCPU to it.
    pub directed: bool,
    /// A yield that asks *again* in the same wait keeps its place in the queue.
    pub keep_place: bool,
    /// While the named lock holder already runs, a vCPU that is not itself waiting is preferred.
    pub prefer_computing: bool,
    /// A yield that waits for a message may put its queued peer on another pCPU.
    pub evict_for_peer: bool,
    /// Two that wait for each other's lock get one pCPU each, as a message and its peer do.
    pub pair_lockers: bool,
    /// A yield that waits for a message resumes while its peer runs, a bounded number of times.
    pub stay_with_running_peer: bool,
    /// Of two vCPUs that wait for each other's messages, on pCPUs side by side, one pauses before it resumes, for a
    /// quarter of the time from one of its yields to the next, so that they do not look at each other in turns.
    pub break_lockstep: bool,
    /// A yield that says nothing of what it waits for resumes, as often in a row as that has paid lately.
    pub forgive: bool,
    /// Of those that say nothing, who got on least lately is asked first, and who did not get on keeps its place: whether
    /// it did is told from how long it ran.
    pub order_by_progress: bool,
    /// A yield that says nothing counts as one that names the vCPU beside which its vCPU has lately run without yielding.
    pub guess_peer: bool,
    /// Guests are told which of their vCPUs have a pCPU: who waits for one that has spins for longer before it yields, and
    /// who waits for one that has not yields at once.
    pub tell_presence: bool,
    /// A yield always switches when a vCPU waits, whatever the other switches say.
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
