//! The slot word: which vCPU may use a pCPU, in one atomic.
//!
//! After the rump kernel's CPU scheduler (sys/rump/librump/rumpkern/scheduler.c), whose word says *free* and the last
//! user, *held*, or *held and wanted*. The last user takes a free slot back with one access to a cache line that no
//! other thread touches meanwhile. With one access the holder also finds that its slot is not wanted. A stamp tells the
//! holder that a vCPU wants the slot.
//!
//! # States
//! * `idle` — free, and the policy knows. At first.
//! * `held` — a vCPU runs.
//! * `handed(w)` — granted to w. The thread of w does not run yet.
//! * `free(v)` — v blocked and the policy has not been told. v may take the slot back, and any thread may settle it.
//!
//! All but `idle` may bear a stamp, *wanted*: the vCPU has to ask the policy. On `free(v)` it is for v, should it come
//! back before the slot is settled.
//!
//! # Transitions
//! | from | to | by |
//! |---|---|---|
//! | `free(v)` | `held` | v, [`SlotWord::acquire`]: one CAS |
//! | `held` | `free(v)` | v, [`SlotWord::release`]: one swap |
//! | `free(v)` | `idle` | anybody, [`SlotWord::settle`] |
//! | `held`, `idle` | `handed(w)` | under the domain's lock, [`SlotWord::hand`] |
//! | `handed(w)` | `held` | w, [`SlotWord::start`] |
//! | `handed(w)` | `handed(u)` | under the domain's lock, [`SlotWord::rob`] |
//! | `held` | `idle` | under the domain's lock, [`SlotWord::vacate`] |
//! | `idle` | `held` | under the domain's lock, [`SlotWord::occupy`] |
//! | stamp on | | anybody, [`SlotWord::want`] |
//! | stamp off | | the holder, [`SlotWord::acknowledge`] |
//!
//! Only `acquire`, `settle`, `start` and `rob` compete, and each is one CAS from one state.
//!
//! ```
//! use stile_sched::VcpuId;
//! use stile_sched::slot::SlotWord;
//!
//! let (a, b) = (VcpuId(1), VcpuId(2));
//! let slot: SlotWord = SlotWord::default();
//!
//! // Under the domain's lock: the policy gave the slot to a, whose thread then starts.
//! slot.hand(a);
//! assert!(slot.start(a));
//!
//! // Without the lock: a blocks while no vCPU waits, and takes its slot back.
//! assert!(!slot.release(a), "there was no stamp");
//! assert!(slot.acquire(a));
//!
//! // A vCPU was queued: the first stamp is followed by a kick, and a asks the policy.
//! assert!(slot.want() && !slot.want());
//! assert!(slot.is_wanted());
//! slot.acknowledge();
//!
//! // The answer is b. Now a cannot start on the slot.
//! slot.hand(b);
//! assert!(!slot.start(a) && slot.start(b));
//!
//! // A slot that b has left and that was settled is lost to b. The policy is told that b is blocked.
//! slot.release(b);
//! assert_eq!(slot.settle(), Some(b));
//! assert!(!slot.acquire(b));
//! ```

mod list;
#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(target_arch = "x86_64")]
mod up;
mod word;

use crate::ids::VcpuId;
pub use list::FreeList;
#[cfg(target_arch = "x86_64")]
pub use up::Up;
pub use word::{Smp, Word};

/// Kinds of states, above the id.
const KIND: u32 = 3 << 30;
const FREE: u32 = 0;
const IDLE: u32 = 1 << 30;
const HELD: u32 = 2 << 30;
const HANDED: u32 = 3 << 30;
/// The stamp.
const WANTED: u32 = 1 << 29;
const ID: u32 = WANTED - 1;

/// The word, on a cache line of its own (two, since they are fetched in pairs).
#[derive(Debug)]
#[repr(align(128))]
pub struct SlotWord<W = Smp>(W);

impl<W: Word> Default for SlotWord<W> {
    fn default() -> Self {
        Self(W::new(IDLE))
    }
}

impl<W: Word> SlotWord<W> {
    /// The vCPU that released the slot takes it back: nothing it left there has changed. False: the slot was settled.
    pub fn acquire(&self, vcpu: VcpuId) -> bool {
        self.0.replace(FREE | vcpu.0, HELD) || self.0.replace(FREE | WANTED | vcpu.0, HELD | WANTED)
    }

    /// The holder gives the slot up and does not tell the policy. True if the slot bore a stamp.
    pub fn release(&self, vcpu: VcpuId) -> bool {
        self.0.swap(FREE | vcpu.0) & WANTED != 0
    }

    /// Moves `free(v)` to `idle`. Returns `v`, which the caller must report to the policy as blocked; `None` if the
    /// slot is not free.
    pub fn settle(&self) -> Option<VcpuId> {
        let word = self.0.load();
        (word & KIND == FREE && self.0.replace(word, IDLE)).then_some(VcpuId(word & ID))
    }

    /// Grants a held or idle slot to a vCPU. A stamp stays: it meant the slot. Under the lock.
    pub fn hand(&self, vcpu: VcpuId) {
        loop {
            let word = self.0.load();
            debug_assert!(matches!(word & KIND, HELD | IDLE), "{word:#x} cannot be handed on");
            // Only a stamp can come between.
            if self.0.replace(word, HANDED | (word & WANTED) | vcpu.0) {
                return;
            }
        }
    }

    /// The vCPU that was granted the slot begins to run. False: it is no longer granted.
    pub fn start(&self, vcpu: VcpuId) -> bool {
        self.0.replace(HANDED | vcpu.0, HELD) || self.0.replace(HANDED | WANTED | vcpu.0, HELD | WANTED)
    }

    /// Another vCPU takes a slot that was granted to one that has not begun to run. False: it has. Under the lock.
    pub fn rob(&self, vcpu: VcpuId, thief: VcpuId) -> bool {
        let exchange = |stamp| self.0.replace(HANDED | stamp | vcpu.0, HANDED | stamp | thief.0);
        // A stamp may come between, none goes.
        exchange(0) || exchange(WANTED)
    }

    /// A held slot becomes idle; an idle one stays so. Any stamp is void: a stamp follows the queueing of a vCPU, and
    /// no vCPU is queued. Under the lock.
    pub fn vacate(&self) {
        let word = self.0.swap(IDLE);
        debug_assert!(matches!(word & KIND, HELD | IDLE), "{word:#x} cannot be vacated");
    }

    /// An idle slot becomes held. Under the lock.
    pub fn occupy(&self) {
        let word = self.0.swap(HELD);
        debug_assert_eq!(word, IDLE, "{word:#x} cannot be occupied");
    }

    /// Whether the policy knows that the slot is free. Without the lock the answer may be late.
    pub fn is_vacant(&self) -> bool {
        self.0.load() & KIND == IDLE
    }

    /// Whether a vCPU has left the slot and the policy does not know. Without the lock the answer may be late.
    pub fn is_free(&self) -> bool {
        self.0.load() & KIND == FREE
    }

    /// Stamps a slot that is not idle as wanted. True if this is the first stamp, so that its vCPU is to be kicked.
    pub fn want(&self) -> bool {
        loop {
            let word = self.0.load();
            if word & KIND == IDLE || word & WANTED != 0 {
                return false;
            }
            if self.0.replace(word, word | WANTED) {
                return true;
            }
        }
    }

    /// Whether the slot is wanted. A stamp not yet seen is followed by a kick.
    pub fn is_wanted(&self) -> bool {
        self.0.load() & WANTED != 0
    }

    /// The holder takes notice of the stamp; later ones count anew.
    pub fn acknowledge(&self) {
        let _ = self.is_wanted() && self.0.replace(HELD | WANTED, HELD);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const A: VcpuId = VcpuId(1);
    const B: VcpuId = VcpuId(2);

    /// Runs a test on both kinds of words. The words of `Up` stay on this thread.
    macro_rules! on_both {
        ($($name:ident($slot:ident) $body:block)*) => {$(
            #[test]
            fn $name() {
                fn on<W: Word>() {
                    let $slot = SlotWord::<W>::default();
                    $body
                }
                on::<Smp>();
                #[cfg(target_arch = "x86_64")]
                on::<Up>();
            }
        )*};
    }

    on_both! {
        who_released_a_slot_takes_it_back_and_nobody_else_does(slot) {
            assert!(!slot.acquire(A), "idle");
            slot.occupy();
            assert!(!slot.acquire(A), "held");
            assert!(!slot.release(A));
            assert!(!slot.acquire(B));
            assert!(slot.acquire(A));
        }

        a_settled_slot_is_lost_to_who_released_it(slot) {
            slot.occupy();
            assert_eq!(slot.settle(), None, "held");
            slot.release(A);
            assert_eq!(slot.settle(), Some(A));
            assert_eq!(slot.settle(), None, "settled");
            assert!(!slot.acquire(A));
            slot.hand(B);
            assert!(slot.start(B));
        }

        a_handed_slot_is_started_by_whom_it_was_handed_to(slot) {
            slot.hand(A);
            assert_eq!(slot.settle(), None);
            assert!(!slot.start(B));
            assert!(slot.start(A));
            slot.hand(B);
            assert!(!slot.start(A) && slot.start(B));
            slot.vacate();
            assert!(!slot.start(B));
        }

        a_handed_slot_is_robbed_until_it_is_started_and_keeps_its_stamp(slot) {
            slot.hand(A);
            assert!(!slot.rob(B, A), "not B's");
            assert!(slot.rob(A, B) && !slot.start(A));
            assert!(slot.want() && slot.rob(B, A));
            assert!(slot.start(A) && slot.is_wanted());
            assert!(!slot.rob(A, B), "started");
        }

        the_first_stamp_kicks_and_lasts_until_acknowledged(slot) {
            assert!(!slot.want(), "idle");
            slot.occupy();
            assert!(slot.want());
            assert!(!slot.want());
            assert!(slot.is_wanted());
            slot.acknowledge();
            assert!(!slot.is_wanted());
            assert!(slot.want());
            assert!(slot.release(A), "wanted when given up");
            assert!(!slot.is_wanted(), "the stamp was taken notice of");
        }

        a_stamp_on_a_free_slot_meets_who_comes_back_and_is_void_when_settled(slot) {
            slot.occupy();
            slot.release(A);
            assert!(slot.want() && !slot.want());
            assert!(!slot.acquire(B));
            assert!(slot.acquire(A) && slot.is_wanted());
            slot.acknowledge();
            slot.release(A);
            assert!(slot.want());
            assert_eq!(slot.settle(), Some(A));
            assert!(!slot.is_wanted() && !slot.want(), "idle");
        }

        a_stamp_goes_with_the_slot_through_a_hand_over(slot) {
            slot.occupy();
            assert!(slot.want());
            slot.hand(A);
            assert!(!slot.want(), "stamped already");
            assert!(slot.start(A) && slot.is_wanted());
            slot.acknowledge();
            slot.hand(B);
            assert!(slot.want());
            assert!(slot.start(B) && slot.is_wanted());
        }
    }
}
