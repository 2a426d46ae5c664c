//! Work that a vCPU has caused and not yet done: device work, and kicks of many vCPUs. It is done in turns, and after
//! each turn the scheduler decides whether the vCPU goes on. The guest is not entered before all of it is done.

use super::state::VmState;
use crate::devices::{PendingWrite, Written};
use crate::vm::between_turns;
use stile_abi::Queues;
use stile_sched::{Stop, Time};

/// vCPUs kicked in a turn. A kick may take a lock of the scheduler and a system call.
const KICKS: u32 = 32;

/// What a vCPU has to do before it enters its guest.
#[derive(Debug, Default)]
pub(super) struct Debt {
    /// A write to a register of a device that was busy.
    write: Option<PendingWrite>,
    /// The first vCPU that is still to be kicked, with all after it.
    kicks: Option<u32>,
    /// Queues that have more work.
    queues: Queues,
    /// The vCPU then idles until this time.
    idle: Option<Time>,
}

impl Debt {
    /// Whether there is nothing to do.
    #[inline]
    pub(super) fn is_none(&self) -> bool {
        self.write.is_none() && self.kicks.is_none() && self.queues.is_empty() && self.idle.is_none()
    }

    /// Takes note of what a write to a register has left to do.
    pub(super) fn written(&mut self, address: u64, data: &[u8], written: Written) {
        match written {
            Written::Done => {}
            Written::More(queue) if u32::from(queue) < u32::BITS => self.queues = self.queues.with(queue),
            // There is no such queue.
            Written::More(_) => {}
            Written::Busy => self.write = Some(PendingWrite::new(address, data)),
        }
    }

    /// All other vCPUs have to be kicked.
    pub(super) fn kicks_others(&mut self) {
        self.kicks = Some(0);
    }

    /// The vCPU idles until this time once these queues have been served.
    pub(super) fn idles_after(&mut self, queues: Queues, until: Time) {
        (self.queues, self.idle) = (queues, Some(until));
    }

    /// Does a part for the vCPU `index`, and returns what the scheduler has to know; `None` if all is done.
    pub(super) fn pay(&mut self, vm: &VmState, index: u32) -> Option<Stop> {
        if let Some(write) = self.write.take() {
            // The device is still there.
            let written = vm.mmio_write(write.address(), write.data()).unwrap_or(Written::Done);
            self.written(write.address(), write.data(), written);
            if self.write.is_some() {
                return Some(Stop::Idle(PendingWrite::again()));
            }
        }
        if let Some(from) = self.kicks.take() {
            let to = vm.vcpus().min(from.saturating_add(KICKS));
            (from..to).filter(|&vcpu| vcpu != index).for_each(|vcpu| vm.wake(vcpu));
            self.kicks = (to < vm.vcpus()).then_some(to);
            if self.kicks.is_some() || to - from > KICKS / 2 {
                return Some(between_turns());
            }
        }
        if !self.queues.is_empty() {
            self.queues = vm.serve(self.queues).unwrap_or_default();
            if !self.queues.is_empty() {
                return Some(between_turns());
            }
        }
        self.idle.take().map(Stop::Idle)
    }
}
