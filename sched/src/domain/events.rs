//! Whether a vCPU is blocked and whether an event has come for it, in one word, so that no event is lost.
//!
//! Protocol:
//! 1. The sender of an event sets *event* ([`Events::signal`]), without a lock. If that finds *blocked* and no event
//!    before it, the sender completes the wake under the domain's lock ([`Events::unblock`]).
//! 2. The thread that blocks a vCPU sets *blocked* under the lock, but only if there is no event ([`Events::block`]).
//!    If there is one, the event is used up and the vCPU goes on.
//!
//! Both are read-modify-writes of one word, so one comes first. An event that comes second wakes the vCPU. A block that
//! comes second does not happen. Every transition back to *running* is one too. So the thread that runs the vCPU sees
//! what all senders wrote before their events, also those that found an event there already and left.
//!
//! A vCPU with a thread of its own may also *nap*: it is blocked, but the policy does not know, and its slot is its own
//! still ([`Events::nap`]). Then the sender only rouses the thread, which does the rest. A thread that takes the slot
//! meanwhile makes the nap a block ([`Events::settle`]), unless an event has come; then the vCPU's thread acts on the
//! event.
//!
//! When a vCPU leaves for another domain ([`Events::leave`]), what its word said goes with it. An event that comes
//! later is left in the word of the dead ([`Events::missed`]); its sender sees everything that was done before the vCPU
//! left.

use crate::sync::{AtomicU8, Ordering};

const DEAD: u8 = 0;
const RUNNING: u8 = 1;
const EVENT: u8 = 2;
const BLOCKED: u8 = 4;
const NAPPING: u8 = 8;
const ASLEEP: u8 = RUNNING | BLOCKED;
const DOZING: u8 = RUNNING | NAPPING;

/// What an event found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a vCPU may have to be woken"]
pub(super) enum Found {
    /// The vCPU runs or has an event already, or ended: nothing is to be done.
    Nothing,
    /// It is blocked, and the caller has to [`unblock`](Events::unblock) it.
    Blocked,
    /// It naps, and its thread has to be roused.
    Napping,
}

/// The word of one vCPU id; dead at first.
#[derive(Debug)]
pub(super) struct Events(AtomicU8);

impl Default for Events {
    fn default() -> Self {
        Self(AtomicU8::new(DEAD))
    }
}

impl Events {
    /// A vCPU of this id comes to life, blocked. Under the lock.
    pub(super) fn admit(&self) {
        self.0.store(ASLEEP, Ordering::Release);
    }

    /// The vCPU has ended; events for it are ignored from now on. Under the lock.
    pub(super) fn retire(&self) {
        self.0.store(DEAD, Ordering::Release);
    }

    /// Whether there is a vCPU of this id.
    pub(super) fn lives(&self) -> bool {
        self.0.load(Ordering::Relaxed) & RUNNING != 0
    }

    /// An event.
    pub(super) fn signal(&self) -> Found {
        // Release pairs with the Acquires below; Acquire with the Release in `missed`.
        match self.0.fetch_or(EVENT, Ordering::AcqRel) {
            ASLEEP => Found::Blocked,
            DOZING => Found::Napping,
            _ => Found::Nothing,
        }
    }

    /// Ends the block, or the settled nap, of a vCPU for which an event has come. False: another thread has. Under the
    /// lock.
    pub(super) fn unblock(&self) -> bool {
        [ASLEEP, DOZING]
            .iter()
            .any(|state| self.0.compare_exchange(state | EVENT, RUNNING, Ordering::Acquire, Ordering::Relaxed).is_ok())
    }

    /// Blocks a running vCPU. False: an event had come, and is used up. Under the lock.
    pub(super) fn block(&self) -> bool {
        self.rest(ASLEEP)
    }

    fn rest(&self, state: u8) -> bool {
        if self.0.compare_exchange(RUNNING, state, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return true;
        }
        self.use_up();
        false
    }

    /// A running vCPU takes notice of the events that have come.
    pub(super) fn use_up(&self) {
        self.0.swap(RUNNING, Ordering::Acquire);
    }
}

/// What a vCPU was about when it left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Leaving {
    /// It waited for an event.
    pub(super) rests: bool,
    /// An event had come.
    pub(super) event: bool,
}

/// Leaving for another domain.
impl Events {
    /// The vCPU leaves; it does not run. Under the lock.
    pub(super) fn leave(&self) -> Leaving {
        let word = self.0.swap(DEAD, Ordering::AcqRel);
        Leaving { rests: word & (BLOCKED | NAPPING) != 0, event: word & EVENT != 0 }
    }

    /// Whether an event came since the vCPU left. A sender whose event comes after this question sees what was done
    /// before it.
    pub(super) fn missed(&self) -> bool {
        self.0.swap(DEAD, Ordering::AcqRel) & EVENT != 0
    }
}

/// Naps: blocks that the policy does not know of.
impl Events {
    /// The running vCPU, on its own thread, naps. False: an event had come, and is used up.
    pub(super) fn nap(&self) -> bool {
        self.rest(DOZING)
    }

    /// The slot of the napping vCPU is taken away: it is blocked now, unless an event has come. Under the lock.
    pub(super) fn settle(&self) {
        let _ = self.0.compare_exchange(DOZING, ASLEEP, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The time has come that the vCPU waited for: an event, if it still waits.
    pub(super) fn time_out(&self) {
        // A nap may be settled meanwhile, and a block does not become a nap; so looked at in this order none is missed.
        for state in [DOZING, ASLEEP] {
            let _ = self.0.compare_exchange(state, state | EVENT, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Whether an event for a vCPU that does not run waits to be seen to.
    pub(super) fn pending(&self) -> bool {
        [ASLEEP | EVENT, DOZING | EVENT].contains(&self.0.load(Ordering::Relaxed))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn running() -> Events {
        let events = Events::default();
        events.admit();
        assert_eq!(events.signal(), Found::Blocked);
        assert!(events.unblock());
        events
    }

    #[test]
    fn the_first_event_for_a_blocked_vcpu_wakes_it_once() {
        let events = running();
        assert!(events.block());
        assert_eq!(events.signal(), Found::Blocked);
        assert_eq!(events.signal(), Found::Nothing, "the first sender completes the wake");
        assert!(events.unblock());
        assert!(!events.unblock());
    }

    #[test]
    fn an_event_for_a_napping_vcpu_rouses_its_thread_which_uses_it_up() {
        let events = running();
        assert!(events.nap());
        assert!(!events.pending());
        assert_eq!(events.signal(), Found::Napping);
        assert!(events.pending());
        events.use_up();
        assert!(!events.pending() && events.nap());
    }

    #[test]
    fn time_wakes_a_vcpu_that_waits_and_leaves_one_alone_that_does_not() {
        let events = running();
        events.time_out();
        assert!(events.nap(), "no event for a running one");
        events.time_out();
        assert!(events.pending() && events.unblock());
        assert!(events.block());
        events.settle();
        events.time_out();
        assert!(events.pending() && events.unblock());
    }

    #[test]
    fn a_settled_nap_is_a_block_unless_an_event_came_first() {
        let events = running();
        assert!(events.nap());
        events.settle();
        assert_eq!(events.signal(), Found::Blocked);
        assert!(events.unblock());
        assert!(events.nap());
        assert_eq!(events.signal(), Found::Napping);
        events.settle();
        assert!(events.pending() && events.unblock());
    }

    #[test]
    fn an_event_while_running_makes_the_next_block_return_at_once_and_only_that() {
        let events = running();
        assert_eq!(events.signal(), Found::Nothing);
        assert!(!events.block());
        assert!(events.block());
    }

    #[test]
    fn what_a_vcpu_was_about_goes_with_it_and_a_later_event_is_missed_once() {
        let events = running();
        assert_eq!(events.leave(), Leaving { rests: false, event: false });
        assert!(!events.missed());
        assert_eq!(events.signal(), Found::Nothing);
        assert!(events.missed() && !events.missed());
        let (blocked, napping) = (running(), running());
        assert!(blocked.block() && napping.nap());
        assert_eq!(napping.leave(), Leaving { rests: true, event: false });
        assert_eq!(blocked.signal(), Found::Blocked);
        assert_eq!(blocked.leave(), Leaving { rests: true, event: true });
        assert!(!blocked.unblock(), "it went with the vCPU");
    }

    #[test]
    fn events_for_the_dead_are_ignored() {
        let events = running();
        events.retire();
        assert_eq!(events.signal(), Found::Nothing);
        assert!(!events.unblock());
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::atomic::AtomicBool;
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    /// What senders have written, and what the vCPU saw of it when it last went on.
    #[derive(Default)]
    struct Model {
        events: Events,
        written: [AtomicBool; 2],
        state: Mutex<LockedState>,
    }

    #[derive(Default)]
    struct LockedState {
        blocked: bool,
        saw: [bool; 2],
    }

    impl Model {
        fn goes_on(&self, state: &mut LockedState) {
            state.blocked = false;
            state.saw = [0, 1].map(|sender: usize| self.written[sender].load(Ordering::Relaxed));
        }

        fn send(&self, sender: usize) {
            self.written[sender].store(true, Ordering::Relaxed);
            if self.events.signal() == Found::Blocked {
                let mut state = self.state.lock().unwrap();
                if self.events.unblock() {
                    self.goes_on(&mut state);
                }
            }
        }

        fn idle(&self) {
            let mut state = self.state.lock().unwrap();
            if self.events.block() {
                state.blocked = true;
            } else {
                self.goes_on(&mut state);
            }
        }
    }

    fn check(idles: usize) {
        loom::model(move || {
            let model = Arc::new(Model::default());
            model.events.use_up();
            let senders = [0, 1].map(|sender| {
                let model = Arc::clone(&model);
                thread::spawn(move || model.send(sender))
            });
            // While it is blocked, no thread has it in hand to block it again.
            for _ in 0..idles {
                if !model.state.lock().unwrap().blocked {
                    model.idle();
                }
            }
            senders.into_iter().for_each(|sender| sender.join().unwrap());
            let pending = !model.state.lock().unwrap().blocked && !model.events.block();
            let state = model.state.lock().unwrap();
            assert!(pending || state.saw == [true; 2], "saw {:?}, blocked {}", state.saw, state.blocked);
        });
    }

    #[test]
    fn loom_no_event_is_lost_by_a_vcpu_that_blocks() {
        check(1);
    }

    #[test]
    fn loom_no_event_is_lost_by_a_vcpu_that_blocks_again() {
        check(2);
    }

    #[test]
    fn loom_an_event_for_a_vcpu_that_leaves_goes_with_it_or_is_missed_or_its_sender_knows() {
        loom::model(|| {
            let shared = Arc::new((Events::default(), AtomicBool::new(false)));
            shared.0.use_up();
            let sender = thread::spawn({
                let shared = Arc::clone(&shared);
                move || {
                    let found = shared.0.signal();
                    assert_eq!(found, Found::Nothing);
                    shared.1.load(Ordering::Relaxed)
                }
            });
            let leaving = shared.0.leave();
            shared.1.store(true, Ordering::Relaxed);
            let missed = shared.0.missed();
            let knows = sender.join().unwrap();
            assert!(leaving.event || missed || knows);
        });
    }

    #[test]
    fn loom_a_deadline_that_meets_the_settling_of_its_nap_is_an_event() {
        loom::model(|| {
            let events = Arc::new(Events::default());
            events.use_up();
            assert!(events.nap());
            let settler = thread::spawn({
                let events = Arc::clone(&events);
                move || events.settle()
            });
            events.time_out();
            settler.join().unwrap();
            assert!(events.pending());
        });
    }
}
