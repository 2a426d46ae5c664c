//! The slot word: who may use a pCPU, in one atomic.
//!
//! After the rump kernel's CPU scheduler (sys/rump/librump/rumpkern/scheduler.c), whose word says *free, and who had it
//! last*, *held*, or *held and wanted*. Whoever had it last takes it back, and whoever holds it finds it unwanted, with
//! one access to a cache line that nobody else touches meanwhile; a stamp tells the holder that somebody wants it.
//!
//! Transitions: `free(v)` → `held` ([`SlotWord::acquire`] by v or [`SlotWord::take`] by another), `held` → `wanted`
//! ([`SlotWord::want`]), `wanted` → `held` ([`SlotWord::acknowledge`]), `held`/`wanted` → `free(v)`
//! ([`SlotWord::release`]).

use crate::VcpuId;
use crate::sync::{AtomicU32, Ordering};

const HELD: u32 = u32::MAX;
const WANTED: u32 = u32::MAX - 1;
const NOBODY: u32 = u32::MAX - 2;

/// The word, on a cache line of its own (two, since they are fetched in pairs).
#[derive(Debug)]
#[repr(align(128))]
pub struct SlotWord(AtomicU32);

impl Default for SlotWord {
    /// Free, and nobody had it.
    fn default() -> Self {
        Self(AtomicU32::new(NOBODY))
    }
}

impl SlotWord {
    /// Takes the slot if it is free and this vCPU had it last: nothing it left there has changed.
    pub fn acquire(&self, vcpu: VcpuId) -> bool {
        // Acquire pairs with the Release of `release`.
        self.0.compare_exchange(vcpu.0, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes the slot if it is free, whoever had it last.
    pub fn take(&self) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        word < WANTED && self.0.compare_exchange(word, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Gives the slot up. True if somebody wanted it.
    pub fn release(&self, vcpu: VcpuId) -> bool {
        // Release pairs with the Acquire of the next holder; Acquire with the stamp of who wants it.
        self.0.swap(vcpu.0, Ordering::AcqRel) == WANTED
    }

    /// Stamps a held slot as wanted. True if this is the first stamp, so that its holder is to be kicked.
    pub fn want(&self) -> bool {
        // Release: what the stamper did before is seen by the holder when it acknowledges.
        self.0.compare_exchange(HELD, WANTED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Whether somebody wants the slot. Relaxed: a stamp not yet seen is followed by a kick.
    pub fn is_wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed) == WANTED
    }

    /// The holder takes notice of the stamp; later ones count anew.
    pub fn acknowledge(&self) {
        // Acquire pairs with the stamp's Release.
        let _ = self.0.compare_exchange(WANTED, HELD, Ordering::AcqRel, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const A: VcpuId = VcpuId(1);
    const B: VcpuId = VcpuId(2);

    #[test]
    fn only_the_last_owner_acquires_and_anybody_takes_a_free_slot() {
        let slot = SlotWord::default();
        assert!(!slot.acquire(A), "nobody had it");
        assert!(slot.take());
        assert!(!slot.take(), "held");
        assert!(!slot.release(A));
        assert!(!slot.acquire(B));
        assert!(slot.acquire(A));
    }

    #[test]
    fn the_first_stamp_on_a_held_slot_kicks_and_lasts_until_acknowledged() {
        let slot = SlotWord::default();
        assert!(!slot.want(), "free");
        assert!(slot.take());
        assert!(slot.want());
        assert!(!slot.want());
        assert!(slot.is_wanted());
        slot.acknowledge();
        assert!(!slot.is_wanted());
        assert!(slot.want());
        assert!(slot.release(A), "wanted when given up");
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::atomic::AtomicBool;
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    /// A pCPU: loom reports two vCPUs on it at once, and one that does not see what the one before it left.
    #[derive(Default)]
    struct Pcpu {
        word: SlotWord,
        state: UnsafeCell<u32>,
    }

    impl Pcpu {
        /// Uses the pCPU if it is free. Each use counts.
        #[allow(unsafe_code, reason = "loom's cell checks that the access is exclusive")]
        fn visit(&self, vcpu: VcpuId) -> bool {
            if !(self.word.acquire(vcpu) || self.word.take()) {
                return false;
            }
            // SAFETY: the slot is held.
            self.state.with_mut(|state| unsafe { *state += 1 });
            self.word.release(vcpu);
            true
        }
    }

    #[test]
    fn loom_a_slot_has_one_vcpu_at_a_time_which_sees_what_the_last_one_left() {
        loom::model(|| {
            let pcpu = Arc::new(Pcpu::default());
            let others = [1, 2].map(|v| {
                let pcpu = Arc::clone(&pcpu);
                thread::spawn(move || u32::from(pcpu.visit(VcpuId(v))))
            });
            // A stamp from outside must not let anybody in.
            pcpu.word.want();
            let visits: u32 = others.into_iter().map(|other| other.join().unwrap()).sum();
            assert!(pcpu.visit(VcpuId(3)), "free at the end");
            pcpu.state.with(|state| {
                #[allow(unsafe_code, reason = "as above")]
                // SAFETY: nobody else is left.
                let uses = unsafe { *state };
                assert_eq!(uses, visits + 1);
            });
        });
    }

    /// The slot of a running executor: others queue something, stamp the slot and kick; the executor, when it asks,
    /// takes the kick out, acknowledges, and looks into the queue.
    #[derive(Default)]
    struct Executor {
        word: SlotWord,
        kicked: AtomicBool,
        queue: Mutex<u32>,
    }

    impl Executor {
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
    fn loom_what_is_queued_after_the_answer_makes_the_executor_ask_again() {
        loom::model(|| {
            let executor = Arc::new(Executor::default());
            assert!(executor.word.take());
            let others = [(), ()].map(|()| {
                let executor = Arc::clone(&executor);
                thread::spawn(move || executor.push())
            });
            executor.ask();
            let seen = executor.ask();
            others.into_iter().for_each(|other| other.join().unwrap());
            let asks_again = executor.kicked.load(Ordering::Relaxed);
            assert!(seen == 2 || asks_again, "{seen} seen and no kick");
        });
    }
}
