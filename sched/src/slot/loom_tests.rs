//! The slot word, model-checked: one vCPU at a time, which sees what the one before it left; no stamp is lost.

use super::*;
use crate::sync::Ordering;
use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicBool;
use loom::sync::{Arc, Mutex};
use loom::thread;

/// A pCPU: loom reports two vCPUs on it at once, and one that does not see what the one before it left.
#[derive(Default)]
struct Pcpu {
    word: SlotWord,
    uses: UnsafeCell<u32>,
    /// What the domain's lock guards: the vCPUs that wait.
    queue: Mutex<Vec<VcpuId>>,
}

impl Pcpu {
    /// The slot is held.
    #[allow(unsafe_code, reason = "loom's cell checks that the access is exclusive")]
    fn use_it(&self) {
        // SAFETY: the slot is held.
        self.uses.with_mut(|uses| unsafe { *uses += 1 });
    }

    #[allow(unsafe_code, reason = "as above")]
    fn uses(&self) -> u32 {
        // SAFETY: nobody else is left.
        self.uses.with(|uses| unsafe { *uses })
    }

    /// Takes a slot that was released, as a thread does that finds it free while a vCPU waits.
    fn settle(&self, next: VcpuId) -> bool {
        let _queue = self.queue.lock().unwrap();
        let settled = self.word.settle().is_some();
        if settled {
            self.word.hand(next);
        }
        settled
    }
}

#[test]
fn loom_a_released_slot_is_taken_back_or_settled_never_both() {
    loom::model(|| {
        let pcpu = Arc::new(Pcpu::default());
        let (a, b) = (VcpuId(1), VcpuId(2));
        pcpu.word.occupy();
        pcpu.use_it();
        pcpu.word.release(a);
        let other = thread::spawn({
            let pcpu = Arc::clone(&pcpu);
            move || {
                let mine = pcpu.settle(b) && pcpu.word.start(b);
                if mine {
                    pcpu.use_it();
                }
                mine
            }
        });
        let stamper = thread::spawn({
            let pcpu = Arc::clone(&pcpu);
            move || pcpu.word.want()
        });
        let mine = pcpu.word.acquire(a);
        if mine {
            pcpu.use_it();
        }
        let theirs = other.join().unwrap();
        stamper.join().unwrap();
        assert!(mine != theirs, "taken {mine}, settled {theirs}");
        assert_eq!(pcpu.uses(), 2);
    });
}

#[test]
fn loom_a_handed_slot_shows_what_the_last_holder_left() {
    loom::model(|| {
        let pcpu = Arc::new(Pcpu::default());
        let w = VcpuId(7);
        pcpu.word.occupy();
        let other = thread::spawn({
            let pcpu = Arc::clone(&pcpu);
            move || {
                while !pcpu.word.start(w) {
                    thread::yield_now();
                }
                pcpu.use_it();
            }
        });
        pcpu.use_it();
        pcpu.word.hand(w);
        let stamped = pcpu.word.want();
        other.join().unwrap();
        assert_eq!(pcpu.word.is_wanted(), stamped, "a stamp lives through the start");
        assert_eq!(pcpu.uses(), 2);
    });
}

/// The slot of a running vCPU: others queue something, stamp the slot and kick; the vCPU's thread, when it asks, takes
/// the kick out, acknowledges, and looks into the queue.
#[derive(Default)]
struct Asker {
    word: SlotWord,
    kicked: AtomicBool,
    queue: Mutex<u32>,
}

impl Asker {
    fn push(&self) {
        *self.queue.lock().unwrap() += 1;
        if self.word.want() {
            // A read-modify-write, as the kernel's pending signals are.
            self.kicked.swap(true, Ordering::AcqRel);
        }
    }

    fn ask(&self) -> u32 {
        self.kicked.swap(false, Ordering::Acquire);
        self.word.acknowledge();
        *self.queue.lock().unwrap()
    }
}

#[test]
fn loom_what_is_queued_after_the_answer_makes_the_holder_ask_again() {
    let mut builder = loom::model::Builder::new();
    // All schedules take a minute; nearly all bugs need fewer switches than this.
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let asker = Arc::new(Asker::default());
        asker.word.occupy();
        let others = [(), ()].map(|()| {
            let asker = Arc::clone(&asker);
            thread::spawn(move || asker.push())
        });
        asker.ask();
        let seen = asker.ask();
        others.into_iter().for_each(|other| other.join().unwrap());
        let asks_again = asker.kicked.load(Ordering::Relaxed);
        assert!(seen == 2 || asks_again, "{seen} seen and no kick");
    });
}

#[test]
fn loom_a_handed_slot_is_started_or_robbed_never_both() {
    loom::model(|| {
        let pcpu = Arc::new(Pcpu::default());
        let (w, thief) = (VcpuId(1), VcpuId(2));
        pcpu.word.occupy();
        pcpu.use_it();
        pcpu.word.hand(w);
        let other = thread::spawn({
            let pcpu = Arc::clone(&pcpu);
            move || {
                let mine = pcpu.word.start(w);
                if mine {
                    pcpu.use_it();
                }
                mine
            }
        });
        let stamper = thread::spawn({
            let pcpu = Arc::clone(&pcpu);
            move || pcpu.word.want()
        });
        let mine = pcpu.word.rob(w, thief);
        if mine {
            assert!(pcpu.word.start(thief), "it is the thief's now");
            pcpu.use_it();
        }
        let theirs = other.join().unwrap();
        assert!(stamper.join().unwrap() && pcpu.word.is_wanted(), "the stamp lives through it");
        assert!(mine != theirs, "robbed {mine}, started {theirs}");
        assert_eq!(pcpu.uses(), 2);
    });
}
