//! Whether a vCPU is blocked and whether an event has come for it, in one word, so that no event is lost.
//!
//! Protocol:
//! 1. Who sends an event sets *event* ([`Events::signal`]), without a lock. If that finds *blocked* and no event before
//!    it, the sender completes the wake under the domain's lock ([`Events::unblock`]).
//! 2. Who blocks a vCPU sets *blocked* under the lock, but only if there is no event ([`Events::block`]); if there is, the
//!    event is used up and the vCPU goes on.
//!
//! Both are read-modify-writes of one word, so one comes first: an event that comes second wakes, a block that comes
//! second does not happen. Every transition back to *running* is one too, so that whoever runs the vCPU sees what all
//! senders wrote before their events, also those that found an event there already and left.

use crate::sync::{AtomicU8, Ordering};

const DEAD: u8 = 0;
const RUNNING: u8 = 1;
const EVENT: u8 = 2;
const BLOCKED: u8 = 4;

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
        self.0.store(RUNNING | BLOCKED, Ordering::Release);
    }

    /// The vCPU has ended; events for it are ignored from now on. Under the lock.
    pub(super) fn retire(&self) {
        self.0.store(DEAD, Ordering::Release);
    }

    /// An event. True: the vCPU is blocked, and the caller has to [`unblock`](Self::unblock) it.
    pub(super) fn signal(&self) -> bool {
        // Release pairs with the Acquires below.
        self.0.fetch_or(EVENT, Ordering::Release) == RUNNING | BLOCKED
    }

    /// Ends the block of a vCPU for which an event has come. False: somebody else has. Under the lock.
    pub(super) fn unblock(&self) -> bool {
        let woken = RUNNING | BLOCKED | EVENT;
        self.0.compare_exchange(woken, RUNNING, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Blocks a running vCPU. False: an event had come, and is used up. Under the lock.
    pub(super) fn block(&self) -> bool {
        if self.0.compare_exchange(RUNNING, RUNNING | BLOCKED, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return true;
        }
        self.use_up();
        false
    }

    /// A running vCPU takes notice of the events that have come. Under the lock.
    pub(super) fn use_up(&self) {
        self.0.swap(RUNNING, Ordering::Acquire);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn running() -> Events {
        let events = Events::default();
        events.admit();
        events.signal();
        assert!(events.unblock());
        events
    }

    #[test]
    fn the_first_event_for_a_blocked_vcpu_wakes_it_once() {
        let events = running();
        assert!(events.block());
        assert!(events.signal());
        assert!(!events.signal(), "the first sender completes the wake");
        assert!(events.unblock());
        assert!(!events.unblock());
    }

    #[test]
    fn an_event_while_running_makes_the_next_block_return_at_once_and_only_that() {
        let events = running();
        assert!(!events.signal());
        assert!(!events.block());
        assert!(events.block());
    }

    #[test]
    fn events_for_the_dead_are_ignored() {
        let events = running();
        events.retire();
        assert!(!events.signal());
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
        core: Mutex<Core>,
    }

    #[derive(Default)]
    struct Core {
        blocked: bool,
        saw: [bool; 2],
    }

    impl Model {
        fn goes_on(&self, core: &mut Core) {
            core.blocked = false;
            core.saw = [0, 1].map(|sender: usize| self.written[sender].load(Ordering::Relaxed));
        }

        fn send(&self, sender: usize) {
            self.written[sender].store(true, Ordering::Relaxed);
            if self.events.signal() {
                let mut core = self.core.lock().unwrap();
                if self.events.unblock() {
                    self.goes_on(&mut core);
                }
            }
        }

        fn idle(&self) {
            let mut core = self.core.lock().unwrap();
            if self.events.block() {
                core.blocked = true;
            } else {
                self.goes_on(&mut core);
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
            // While it is blocked, nobody has it in hand to block it again.
            for _ in 0..idles {
                if !model.core.lock().unwrap().blocked {
                    model.idle();
                }
            }
            senders.into_iter().for_each(|sender| sender.join().unwrap());
            let pending = !model.core.lock().unwrap().blocked && !model.events.block();
            let core = model.core.lock().unwrap();
            assert!(pending || core.saw == [true; 2], "saw {:?}, blocked {}", core.saw, core.blocked);
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
}
