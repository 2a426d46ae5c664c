//! Steal time of one vCPU of a Linux guest: KVM's register for it, and the structure in guest memory to which that
//! points (Linux: Documentation/virt/kvm/x86/msr.rst, MSR_KVM_STEAL_TIME; struct kvm_steal_time of asm/kvm_para.h).
//!
//! The guest writes an address and a bit to the register. From then on the structure there has the time for which the
//! vCPU could run and did not (*steal*), and whether it wants a pCPU and has none (*preempted*). As with KVM, what the
//! structure holds is added to, so a kernel that registers the same or another structure later loses nothing and sees
//! nothing twice.
//!
//! Only the thread that carries the vCPU writes, and the guest only reads: it is not offered KVM_FEATURE_PV_TLB_FLUSH,
//! by which guests write to `preempted`. The address was checked when the register was written; guest memory does not
//! change its shape. A store that fails nevertheless is left out.

use std::sync::atomic::{Ordering, fence};
use stile_sched::{Nanos, Presence};
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

/// MSR_KVM_STEAL_TIME.
pub(super) const MSR: u32 = 0x4b56_4d03;
/// The register's bit that turns it on; bits 1 to 5 have to be 0; the others are those of the address.
const ON: u64 = 1;
const RESERVED: u64 = 0x3e;
const ADDRESS: u64 = !0x3f;
/// The structure: its size, and the offsets of its fields. `flags` at 12 stays 0.
const SIZE: usize = 64;
const STEAL: u64 = 0;
const VERSION: u64 = 8;
const PREEMPTED: u64 = 16;
/// KVM_VCPU_PREEMPTED.
const IS_PREEMPTED: u8 = 1;

/// One vCPU's register and structure.
#[derive(Debug, Default)]
pub(super) struct StealTime {
    register: u64,
    /// What the vCPU has missed in all.
    missed: Nanos,
    /// How much of that has been added to a structure.
    told: Nanos,
    preempted: bool,
}

impl StealTime {
    /// The register.
    pub(super) fn register(&self) -> u64 {
        self.register
    }

    /// The guest writes to the register, while its vCPU runs. `None`: the value is not a valid one.
    pub(super) fn set_register(&mut self, value: u64, memory: &GuestMemoryMmap) -> Option<()> {
        let on = value & ON != 0;
        if value & RESERVED != 0 || on && !memory.check_range(GuestAddress(value & ADDRESS), SIZE) {
            return None;
        }
        self.register = value;
        if on {
            self.preempted = false;
            self.store_preempted(memory);
            self.add(memory);
        }
        Some(())
    }

    /// The vCPU, which is about to run, has missed so much in all.
    pub(super) fn set_missed(&mut self, missed: Nanos, memory: &GuestMemoryMmap) {
        self.missed = missed;
        if missed > self.told && self.structure().is_some() {
            self.add(memory);
        }
    }

    /// Whether the vCPU has a pCPU.
    pub(super) fn set_presence(&mut self, presence: Presence, memory: &GuestMemoryMmap) {
        let preempted = presence == Presence::Away;
        if std::mem::replace(&mut self.preempted, preempted) != preempted {
            self.store_preempted(memory);
        }
    }

    /// How much the guest has been told in all; `None` if it has not asked.
    pub(super) fn told(&self) -> Option<Nanos> {
        (self.told > Nanos::ZERO || self.structure().is_some()).then_some(self.told)
    }

    fn structure(&self) -> Option<GuestAddress> {
        (self.register & ON != 0).then_some(GuestAddress(self.register & ADDRESS))
    }

    fn store_preempted(&self, memory: &GuestMemoryMmap) {
        if let Some(structure) = self.structure() {
            let value = if self.preempted { IS_PREEMPTED } else { 0 };
            let _ = memory.store(value, GuestAddress(structure.0 + PREEMPTED), Ordering::Relaxed);
        }
    }

    /// Adds what has not been told. The version is odd meanwhile. The guest reads version, steal, version: the fence
    /// pairs with the read barrier before its second look, the Release with the one after its first.
    fn add(&mut self, memory: &GuestMemoryMmap) {
        let Some(GuestAddress(structure)) = self.structure() else { return };
        let field = |offset| GuestAddress(structure + offset);
        let Ok(version) = memory.load::<u32>(field(VERSION), Ordering::Relaxed) else { return };
        let Ok(steal) = memory.load::<u64>(field(STEAL), Ordering::Relaxed) else { return };
        // A structure that was never written may hold anything.
        let odd = version.wrapping_add(1) | 1;
        let sum = steal.wrapping_add((self.missed - self.told).0);
        let _ = memory.store(odd, field(VERSION), Ordering::Relaxed);
        fence(Ordering::Release);
        let _ = memory.store(sum, field(STEAL), Ordering::Relaxed);
        let _ = memory.store(odd.wrapping_add(1), field(VERSION), Ordering::Release);
        self.told = self.missed;
    }
}

#[cfg(test)]
mod tests;
