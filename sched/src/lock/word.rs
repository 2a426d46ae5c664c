//! The lock's word: which thread may take it, in one number, and every move it can make.
//!
//! Pure: a state in, a state out. The lock makes each move with one compare-and-swap, so a move either happens on the
//! state it was worked out for or not at all.
//!
//! | bits | what |
//! |---|---|
//! | 0 | *held* |
//! | 1 | *named*: free, but for the first waiter, the pending owner |
//! | 2 | *awake*: the first waiter spins, or was woken and has not gone to sleep again; nobody need wake it |
//! | 3-9 | how often the pending owner was robbed |
//! | 10-27 | waiters of class rt |
//! | 28-45 | waiters |
//! | 46-63 | ticket of the first waiter; tickets are given in order |
//!
//! Invariants: never held and named at once; named, awake, robbed and rt waiters only while there are waiters.

use super::rules::{Caller, LockRules};

const HELD: u64 = 1;
const NAMED: u64 = 1 << 1;
const AWAKE: u64 = 1 << 2;
const ROBBED_SHIFT: u32 = 3;
const ROBBED: u64 = ((1 << 7) - 1) << ROBBED_SHIFT;
/// Bits of a number of waiters and of a ticket. More threads than this, a process does not get.
const COUNT_BITS: u32 = 18;
const COUNT: u64 = (1 << COUNT_BITS) - 1;
const RT_SHIFT: u32 = 10;
const WAITERS_SHIFT: u32 = RT_SHIFT + COUNT_BITS;
const FIRST_SHIFT: u32 = WAITERS_SHIFT + COUNT_BITS;

/// How often one pending owner is robbed at most; its next hand-over stands. Each robbery delays it by one critical
/// section, half a microsecond in the scheduler, and saves the thief a sleep and a wake-up, some ten microseconds; and
/// a pending owner that comes onto a CPU at once is rarely robbed more than a few times.
pub(super) const MOST_ROBBED: u64 = 64;

/// The lock's word, read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State(pub(super) u64);

/// A waiter's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket(pub(super) u32);

/// What a thread that asks for the lock does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// Takes the lock.
    Takes(State),
    /// Waits under this ticket.
    Waits(State, Ticket),
}

/// What the holder does when it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a waiter may have to be woken"]
pub(super) enum Departure {
    /// No thread waits, or the pending owner is awake.
    Leaves(State),
    /// It leaves and then wakes the pending owner.
    Wakes(State, Ticket),
}

impl State {
    pub(super) const FREE: Self = Self(0);

    pub(super) fn waiters(self) -> u64 {
        self.0 >> WAITERS_SHIFT & COUNT
    }

    fn rt_waiters(self) -> u64 {
        self.0 >> RT_SHIFT & COUNT
    }

    /// The first waiter, if there is one.
    pub(super) fn first(self) -> Option<Ticket> {
        (self.waiters() > 0).then_some(Ticket((self.0 >> FIRST_SHIFT) as u32))
    }

    pub(super) fn robbed(self) -> u64 {
        (self.0 & ROBBED) >> ROBBED_SHIFT
    }

    pub(super) fn is_named(self) -> bool {
        self.0 & NAMED != 0
    }

    pub(super) fn is_awake(self) -> bool {
        self.0 & AWAKE != 0
    }

    /// Free, without a pending owner: to be taken.
    pub(super) fn free_to_held(self) -> Option<Self> {
        (self.0 & (HELD | NAMED) == 0).then_some(Self(self.0 | HELD))
    }

    /// A thread asks for the lock.
    pub(super) fn arrive(self, caller: Caller, rules: LockRules) -> Arrival {
        if let Some(held) = self.free_to_held() {
            return Arrival::Takes(held);
        }
        if rules.lateral && caller == Caller::Normal && self.may_be_robbed() {
            return Arrival::Takes(Self((self.0 & !NAMED | HELD) + (1 << ROBBED_SHIFT)));
        }
        let ticket = ((self.0 >> FIRST_SHIFT) + self.waiters()) & COUNT;
        let rt = u64::from(caller == Caller::Rt);
        debug_assert!(self.waiters() < COUNT, "more waiters than a process has threads");
        // The first waiter looks before it sleeps.
        let awake = if rules.adaptive && self.waiters() == 0 { AWAKE } else { 0 };
        Arrival::Waits(Self((self.0 | awake) + (1 << WAITERS_SHIFT) + (rt << RT_SHIFT)), Ticket(ticket as u32))
    }

    /// The lock is free, and its pending owner may still be passed. No waiter before one of class rt is passed: each
    /// such robbery would delay the waiter of class rt as well.
    fn may_be_robbed(self) -> bool {
        self.is_named() && self.rt_waiters() == 0 && self.robbed() < MOST_ROBBED
    }

    /// The pending owner takes what it was named for.
    pub(super) fn claim(self, ticket: Ticket, caller: Caller) -> Option<Self> {
        if !self.is_named() || self.first() != Some(ticket) {
            return None;
        }
        let rt = u64::from(caller == Caller::Rt);
        let rest = self.0 & !(NAMED | AWAKE | ROBBED) | HELD;
        // The ticket is in the highest bits, so its overflow is gone.
        Some(Self((rest - (1 << WAITERS_SHIFT) - (rt << RT_SHIFT)).wrapping_add(1 << FIRST_SHIFT)))
    }

    /// The holder leaves.
    pub(super) fn depart(self) -> Departure {
        debug_assert!(self.0 & HELD != 0, "only the holder leaves");
        let free = self.0 & !HELD;
        match self.first() {
            None => Departure::Leaves(Self(free)),
            Some(_) if self.is_awake() => Departure::Leaves(Self(free | NAMED)),
            Some(first) => Departure::Wakes(Self(free | NAMED | AWAKE), first),
        }
    }

    /// The first waiter is about to look for itself.
    pub(super) fn watched(self) -> Self {
        Self(self.0 | AWAKE)
    }

    /// The first waiter goes to sleep and has to be woken.
    pub(super) fn unwatched(self) -> Self {
        Self(self.0 & !AWAKE)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    const HAND_OFF: LockRules = LockRules { lateral: false, adaptive: false };
    const LATERAL: LockRules = LockRules { lateral: true, adaptive: false };

    fn takes(state: State, caller: Caller, rules: LockRules) -> State {
        let Arrival::Takes(held) = state.arrive(caller, rules) else { panic!("{state:?} is not to be taken") };
        held
    }

    fn waits(state: State, caller: Caller) -> (State, Ticket) {
        let Arrival::Waits(state, ticket) = state.arrive(caller, LATERAL) else { panic!("{state:?} is to be taken") };
        (state, ticket)
    }

    fn leaves(state: State) -> State {
        let (Departure::Leaves(state) | Departure::Wakes(state, _)) = state.depart();
        state
    }

    fn held() -> State {
        takes(State::FREE, Caller::Normal, HAND_OFF)
    }

    #[test]
    fn a_free_lock_is_taken_and_given_back_without_a_wake() {
        assert_eq!(held().depart(), Departure::Leaves(State::FREE));
    }

    #[test]
    fn waiters_get_the_lock_in_the_order_they_came() {
        let (state, a) = waits(held(), Caller::Normal);
        let (state, b) = waits(state, Caller::Normal);
        assert_eq!(state.claim(a, Caller::Normal), None, "held");
        let Departure::Wakes(state, woken) = state.depart() else { panic!("the first waiter sleeps") };
        assert_eq!(woken, a);
        assert_eq!(state.claim(b, Caller::Normal), None, "not its turn");
        let state = leaves(state.claim(a, Caller::Normal).unwrap());
        let state = leaves(state.claim(b, Caller::Normal).unwrap());
        assert_eq!(state.first(), None);
        assert!(state.free_to_held().is_some());
    }

    #[test]
    fn nobody_passes_a_pending_owner_without_lateral_steal() {
        let (state, _) = waits(held(), Caller::Normal);
        assert!(matches!(leaves(state).arrive(Caller::Normal, HAND_OFF), Arrival::Waits(..)));
    }

    #[test]
    fn a_pending_owner_is_robbed_a_bounded_number_of_times() {
        let (state, ticket) = waits(held(), Caller::Normal);
        let mut named = leaves(state);
        for _ in 0..MOST_ROBBED {
            let stolen = takes(named, Caller::Normal, LATERAL);
            assert_eq!(stolen.claim(ticket, Caller::Normal), None, "robbed");
            named = leaves(stolen);
        }
        let (state, second) = waits(named, Caller::Normal);
        let state = leaves(state.claim(ticket, Caller::Normal).unwrap());
        assert_eq!(state.first(), Some(second));
        takes(state, Caller::Normal, LATERAL);
    }

    #[test]
    fn class_rt_neither_steals_nor_is_robbed_nor_are_those_before_it() {
        let (state, first) = waits(held(), Caller::Normal);
        let (state, rt) = waits(leaves(state), Caller::Rt);
        let (state, _) = waits(state, Caller::Normal);
        let state = leaves(state.claim(first, Caller::Normal).unwrap());
        let (state, _) = waits(state, Caller::Normal);
        let state = leaves(state.claim(rt, Caller::Rt).unwrap());
        takes(state, Caller::Normal, LATERAL);
    }

    #[test]
    fn a_waiter_that_is_awake_is_not_woken_and_one_that_sleeps_again_is() {
        let (state, ticket) = waits(held(), Caller::Normal);
        assert!(matches!(state.watched().depart(), Departure::Leaves(_)));
        let Departure::Wakes(named, _) = state.depart() else { panic!("it sleeps") };
        let stolen = takes(named, Caller::Normal, LATERAL);
        assert!(matches!(stolen.depart(), Departure::Leaves(_)), "woken once already");
        assert!(matches!(stolen.unwatched().depart(), Departure::Wakes(_, woken) if woken == ticket));
    }

    #[test]
    fn tickets_go_round() {
        let mut state = held();
        for _ in 0..3 << COUNT_BITS {
            let (queued, ticket) = waits(state, Caller::Rt);
            state = leaves(queued).claim(ticket, Caller::Rt).unwrap();
        }
        assert_eq!(state.depart(), Departure::Leaves(State::FREE));
    }
}
