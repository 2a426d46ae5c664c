//! Reads the general registers of a vCPU that was kicked.
//!
//! KVM can copy the registers into the run page at every exit (KVM_CAP_SYNC_REGS). Reading them there costs nothing,
//! but each exit costs a little more. So KVM is asked to do this only while the vCPU is found spinning. Otherwise a
//! system call reads them.

use kvm_bindings::{KVM_SYNC_X86_REGS, kvm_regs};
use kvm_ioctls::{Cap, Kvm, SyncReg, VcpuFd};

/// How the registers of one vCPU are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Registers {
    /// KVM can copy them into the run page.
    can_come: bool,
    /// KVM copies them at every exit.
    come: bool,
}

impl Registers {
    /// The way that this KVM supports.
    pub(super) fn new(kvm: &Kvm) -> Self {
        Self { can_come: kvm.check_extension_int(Cap::SyncRegs) as u32 & KVM_SYNC_X86_REGS != 0, come: false }
    }

    /// The registers of a vCPU that has just exited.
    pub(super) fn read(self, fd: &VcpuFd) -> Option<kvm_regs> {
        if self.come { Some(fd.sync_regs().regs) } else { fd.get_regs().ok() }
    }

    /// Asks KVM to copy the registers from the next exit on, or to stop that.
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
