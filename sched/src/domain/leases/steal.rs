//! Lateral steal: a vCPU whose own thread finds it runnable takes a slot that was handed to a thread which does not run
//! yet.
//!
//! A handed slot lies idle until the thread it was handed to has been woken and scheduled. A thread that is on that
//! slot's pCPU meanwhile, because a deadline or an event has just brought it there, could use it at once. It may, if
//! the policy says that it stands no worse.
//!
//! Protocol, all under the domain's lock, which keeps all threads away but the robbed one:
//! 1. The grant of the robbed vCPU must have been delivered. Else it could arrive after that of another slot, and in
//!    its stead.
//! 2. One CAS takes the slot, unless its vCPU has started.
//! 3. The policy is asked. If it refuses, the slot is handed back and granted anew, since the robbed thread may have
//!    looked meanwhile and gone to sleep again.
//! 4. Else the thief is handed the slot as any vCPU is, and finds its grant when it looks.
//!
//! A vCPU is robbed, or nearly, at most once before it runs: then the hand-over stands.

use super::acts::{Act, Acts};
use super::locked_state::LockedState;
use super::shared::Shared;
use crate::ids::VcpuId;
use crate::policy::Why;
use crate::slot::Word;
use crate::time::Time;

impl<W: Word> Shared<W> {
    /// The calling thread's vCPU, which has just been made runnable, takes the slot to whose pCPU the thread is bound,
    /// if the slot was handed to another vCPU and may be had.
    pub(super) fn steal(&self, state: &mut LockedState, thief: VcpuId, now: Time, acts: &mut Acts) {
        let entry = state.entry(thief);
        let (None, Some(slot)) = (entry.on, entry.bound) else { return };
        // A vCPU that came from another shard may have its thread bound to a pCPU there.
        let Some(robbed) = state.on(slot) else { return };
        if state.entry(robbed).robbed || !self.records.of(robbed).is_granted(slot) {
            return;
        }
        let word = &self.slots[slot.index()].word;
        if !word.rob(robbed, thief) {
            return;
        }
        state.entry(robbed).robbed = true;
        if !state.ledger.steals(slot, thief, now) {
            word.rob(thief, robbed);
            acts.push(Act::Grant { vcpu: robbed, slot, bind: false });
            return;
        }
        state.entry(robbed).on = None;
        state.puts_on(slot, None);
        self.division.whereabouts.waits(robbed, true);
        word.start(thief);
        let decision = state.ledger.next(slot, Why::Free, now);
        self.follow(state, slot, decision, acts);
    }
}
