//! Where a kicked vCPU stands.
//!
//! KVM copies the registers into the run page at every exit if it is asked to (KVM_CAP_SYNC_REGS); reading them there costs
//! nothing, but each exit becomes a little dearer. So it is asked only while looks find the vCPU spinning; otherwise a call
//! reads them.

use kvm_bindings::KVM_SYNC_X86_REGS;
use kvm_ioctls::{Cap, Kvm, SyncReg, VcpuFd};

/// How the registers of one vCPU are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Registers {
    /// KVM can put them into the run page.
    can_come: bool,
    /// It does, at every exit.
    come: bool,
}

impl Registers {
    /// The way this KVM allows.
    pub(super) fn new(kvm: &Kvm) -> Self {
        Self { can_come: kvm.check_extension_int(Cap::SyncRegs) as u32 & KVM_SYNC_X86_REGS != 0, come: false }
    }

    /// The address of the next instruction of a vCPU that has just made an exit.
    pub(super) fn rip(self, fd: &VcpuFd) -> Option<u64> {
        if self.come { Some(fd.sync_regs().regs.rip) } else { fd.get_regs().ok().map(|regs| regs.rip) }
    }

    /// From the next exit on the registers come with it, or do not.
    pub(super) fn come_with_exits(&mut self, fd: &mut VcpuFd, come: bool) {
        if !self.can_come || self.come == come {
            return;
        }
        self.come = come;
        if come {
            fd.set_sync_valid_reg(SyncReg::Register);
        } else {
            fd.clear_sync_valid_reg(SyncReg::Register);
        }
    }
}
