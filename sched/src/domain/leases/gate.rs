//! The gate between vCPUs that nap and vCPUs that wait: naps without the lock, and no free slot overlooked.
//!
//! A vCPU that blocks while no vCPU waits gives its slot up without telling the policy. The slot stays its own until
//! another vCPU needs it. That takes two parties to look at each other:
//!
//! *A vCPU naps* (no lock):
//! 1. swaps its slot word to `free(v)`,
//! 2. puts the slot into the set of [free slots](Gate::leave),
//! 3. fence,
//! 4. looks whether a vCPU waits; if so, takes the lock and settles as below.
//!
//! *A vCPU is queued* (under the lock):
//! 5. publishes that a vCPU waits ([`Gate::publish`]),
//! 6. fence,
//! 7. takes the free slots out and settles each: `free(v)` to `idle`, and the policy is told that v blocked.
//!
//! Of two fences one comes first: if 3 does, 7 finds the slot; if 6 does, 4 sees that a vCPU waits. So no waiter is
//! overlooked while a slot is free. A slot may stay in the set after its vCPU took it back: settling it fails and does
//! no harm. Once 5 has happened, every napping thread sees it, until the queue is empty again. So 6 and 7 are needed
//! only when the first vCPU begins to wait. The thread that has the lock settles before the policy is asked anything (7
//! alone), so that the policy decides by what is so.

use crate::ids::Slot;
use crate::sync::{AtomicBool, AtomicU64, Ordering, fence};
use std::ops::Range;

/// Free slots of a shard, and whether a vCPU waits there.
#[derive(Debug)]
pub(super) struct Gate {
    /// A bit for every word that may not be zero.
    summary: AtomicU64,
    words: Box<[AtomicU64]>,
    waiters: AtomicBool,
    /// The number of the first slot.
    first: u16,
}

impl Gate {
    /// For these slots, none free; no vCPU waits.
    pub(super) fn new(slots: Range<Slot>) -> Self {
        let count = slots.end.index() - slots.start.index();
        let words = (0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Self { summary: AtomicU64::new(0), words, waiters: AtomicBool::new(false), first: slots.start.0 }
    }

    /// Whether a vCPU waits. Read without the lock, where being late is made up for by the fences or by a kick.
    pub(super) fn waiters(&self) -> bool {
        self.waiters.load(Ordering::Relaxed)
    }

    /// Steps 2 to 4: the slot has become free. True: a vCPU waits, and the slot must be settled.
    #[must_use = "a waiter would be overlooked"]
    pub(super) fn leave(&self, slot: Slot) -> bool {
        let slot = usize::from(slot.0 - self.first);
        let (word, bit) = (slot / 64, 1 << (slot % 64));
        // Release pairs with the Acquires of `next_free`: the thread that takes the slot out sees that it is free. The
        // summary comes second, and is cleared first there, so that no slot is left out of it.
        self.words[word].fetch_or(bit, Ordering::Release);
        self.summary.fetch_or(1 << word, Ordering::Release);
        fence(Ordering::SeqCst);
        self.waiters()
    }

    /// Steps 5 and 6. True: a vCPU has begun to wait, and free slots must be settled. Under the lock.
    #[must_use = "a free slot would be overlooked"]
    pub(super) fn publish(&self, waiting: bool) -> bool {
        if self.waiters() == waiting {
            return false;
        }
        self.waiters.store(waiting, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        waiting
    }

    /// Takes out a slot that may be free. Under the lock.
    pub(super) fn next_free(&self) -> Option<Slot> {
        loop {
            // Relaxed: the swap below synchronises; a slot not seen yet is the business of its vCPU's step 4.
            let summary = self.summary.load(Ordering::Relaxed);
            if summary == 0 {
                return None;
            }
            let word = summary.trailing_zeros();
            let bits = &self.words[word as usize];
            // The summary first, lest it be cleared after another thread has set it meanwhile. AcqRel: the word is seen
            // as it was when the summary was set.
            self.summary.fetch_and(!(1 << word), Ordering::AcqRel);
            let seen = bits.load(Ordering::Acquire);
            if seen & seen.wrapping_sub(1) != 0 {
                self.summary.fetch_or(1 << word, Ordering::Release);
            }
            let bit = seen.trailing_zeros();
            if bit < 64 {
                bits.fetch_and(!(1 << bit), Ordering::Acquire);
                return Some(Slot(self.first + (word * 64 + bit) as u16));
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_slot_that_was_left_is_taken_out_once() {
        let gate = Gate::new(Slot(7)..Slot(207));
        let left: BTreeSet<_> = [7, 8, 63, 64, 70, 71, 130, 206].map(Slot).into();
        for slot in left.iter().chain(&left) {
            assert!(!gate.leave(*slot), "nobody waits");
        }
        let taken: Vec<_> = std::iter::from_fn(|| gate.next_free()).collect();
        assert_eq!(taken.len(), left.len());
        assert_eq!(taken.into_iter().collect::<BTreeSet<_>>(), left);
        assert_eq!(gate.next_free(), None);
    }

    #[test]
    fn free_slots_are_to_be_settled_when_somebody_begins_to_wait() {
        let gate = Gate::new(Slot(0)..Slot(1));
        assert!(!gate.publish(false));
        assert!(gate.publish(true));
        assert!(!gate.publish(true), "a vCPU that leaves from now on looks itself");
        assert!(gate.leave(Slot(0)));
        assert!(!gate.publish(false));
        assert!(!gate.leave(Slot(0)));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::domain::events::{Events, Found};
    use crate::domain::parker::Parker;
    use crate::ids::VcpuId;
    use crate::slot::SlotWord;
    use crate::time::Time;
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    const V: VcpuId = VcpuId(1);
    const W: VcpuId = VcpuId(2);
    const SLOT: Slot = Slot(0);

    /// One slot, on which v runs; w may come to wait for it.
    struct Model {
        word: SlotWord,
        gate: Gate,
        events: Events,
        parker: Parker,
        state: Mutex<LockedState>,
    }

    /// What the policy would know.
    #[derive(Default)]
    struct LockedState {
        w_waits: bool,
        w_handed: bool,
        v_waits: bool,
        v_blocked: bool,
    }

    impl Model {
        fn new() -> Arc<Self> {
            let model = Self {
                word: SlotWord::default(),
                gate: Gate::new(Slot(0)..Slot(1)),
                events: Events::default(),
                parker: Parker::default(),
                state: Mutex::default(),
            };
            model.word.occupy();
            model.events.use_up();
            Arc::new(model)
        }

        /// Takes free slots out; w gets one if it waits.
        fn settle(&self, state: &mut LockedState) {
            while let Some(slot) = self.gate.next_free() {
                assert_eq!(slot, SLOT);
                if self.word.settle() == Some(V) {
                    self.events.settle();
                    state.v_blocked = true;
                }
            }
            if state.v_blocked && state.w_waits {
                state.w_waits = false;
                state.w_handed = true;
                self.word.hand(W);
            }
        }

        fn turn(&self, something: impl FnOnce(&mut LockedState)) {
            let mut state = self.state.lock().unwrap();
            self.settle(&mut state);
            something(&mut state);
            self.settle(&mut state);
            while self.gate.publish(state.w_waits || state.v_waits) {
                self.settle(&mut state);
            }
        }

        /// w's wake finds the slot taken, or free.
        fn w_wakes(&self) {
            self.turn(|state| {
                state.w_waits = true;
                // The policy takes v for running, unless told otherwise.
                if !state.v_blocked {
                    self.word.want();
                }
            });
        }

        /// An event for v.
        fn event(&self) {
            match self.events.signal() {
                Found::Nothing => {}
                Found::Napping => _ = self.parker.wake(),
                Found::Blocked => {
                    self.turn(|state| self.unblock(state));
                    self.parker.wake();
                }
            }
        }

        /// v is to run again: on the slot, if it is idle.
        fn unblock(&self, state: &mut LockedState) {
            if self.events.unblock() {
                assert!(state.v_blocked, "the policy was told");
                state.v_blocked = false;
                state.v_waits = state.w_handed;
                if !state.v_waits {
                    self.word.hand(V);
                }
            }
        }

        /// v naps and is woken. True: it has the slot; false: it is queued behind w.
        fn nap(&self) -> bool {
            if self.gate.waiters() {
                return true;
            }
            if !self.events.nap() {
                return true;
            }
            let wanted = self.word.release(V);
            if self.gate.leave(SLOT) || wanted {
                self.turn(|_| ());
            }
            let mut napping = true;
            loop {
                if self.word.start(V) {
                    return true;
                }
                if self.events.pending() {
                    if std::mem::take(&mut napping) && self.word.acquire(V) {
                        self.events.use_up();
                        return true;
                    }
                    self.turn(|state| self.unblock(state));
                    continue;
                }
                if self.state.lock().unwrap().v_waits {
                    return false;
                }
                self.parker.wait(Time::NEVER);
            }
        }
    }

    #[test]
    fn loom_a_waiter_gets_the_slot_of_who_naps_or_is_seen_by_it() {
        loom::model(|| {
            let model = Model::new();
            let waker = thread::spawn({
                let model = Arc::clone(&model);
                move || model.w_wakes()
            });
            if !model.gate.waiters() {
                assert!(model.events.nap());
                let wanted = model.word.release(V);
                if model.gate.leave(SLOT) || wanted {
                    model.turn(|_| ());
                }
            } else {
                // It asks instead of napping.
                model.turn(|state| {
                    state.v_blocked = true;
                    model.word.vacate();
                });
            }
            waker.join().unwrap();
            assert!(model.state.lock().unwrap().w_handed, "w was overlooked while the slot was free");
            assert!(model.word.start(W) && !model.word.acquire(V));
        });
    }

    #[test]
    fn loom_an_event_ends_a_nap_on_the_slot_it_left() {
        loom::model(|| {
            let model = Model::new();
            let waker = thread::spawn({
                let model = Arc::clone(&model);
                move || model.event()
            });
            assert!(model.nap());
            waker.join().unwrap();
            assert!(model.word.want(), "held");
        });
    }

    #[test]
    fn loom_an_event_that_meets_a_waiter_leaves_one_of_them_on_the_slot_and_one_queued() {
        let mut builder = loom::model::Builder::new();
        // All schedules of three threads take minutes; nearly all bugs need fewer switches than this.
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let model = Model::new();
            let wakers = [Model::event as fn(&Model), Model::w_wakes].map(|wake| {
                let model = Arc::clone(&model);
                thread::spawn(move || wake(&model))
            });
            let mine = model.nap();
            wakers.into_iter().for_each(|waker| waker.join().unwrap());
            let state = model.state.lock().unwrap();
            assert!(mine != state.w_handed, "v has it: {mine}, w has it: {}", state.w_handed);
            assert!(mine == state.w_waits, "w waits: {}", state.w_waits);
            assert_eq!(state.v_waits, !mine);
            assert!(!mine || model.word.is_wanted(), "v runs on and does not ask");
        });
    }
}
