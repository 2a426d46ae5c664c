//! Which parts of the polite yield are switched on.

/// Parts of the rules that can be switched off, to measure what each is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoliteSwitches {
    /// Rule 1, for locks and messages: else such yields are treated as 2.
    pub directed: bool,
    /// A vCPU that yields again keeps its place: else it goes to the tail of its stair.
    pub keep_place: bool,
    /// Rule 2's preference for vCPUs that compute: else the head.
    pub prefer_computing: bool,
    /// Rule 3's eviction.
    pub evict_for_peer: bool,
    /// Rule 1's eviction, for two that wait for each other's lock.
    pub pair_lockers: bool,
    /// Rule 3's going on.
    pub stay_with_running_peer: bool,
    /// Rule 3's pause.
    pub break_lockstep: bool,
    /// Rule 4's going on.
    pub forgive: bool,
    /// Rule 4's guess at who gets on: else all are asked in turn.
    pub order_by_progress: bool,
    /// Rule 4's guess at whom it waits for, from beside whom it got on: else nobody is known.
    pub guess_peer: bool,
    /// Guests are told which of their vCPUs have a pCPU.
    pub tell_presence: bool,
    /// Never go on while somebody waits, whatever the others say.
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
