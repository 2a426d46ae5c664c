//! Where a kicked vCPU stands.
//!
//! KVM copies the registers into the run page at every exit if it is asked to (KVM_CAP_SYNC_REGS); reading them there costs
//! nothing, but each exit becomes a little dearer. So it is asked only while looks find the vCPU spinning; otherwise a call
//! reads them.

use kvm_bindings::{KVM_SYNC_X86_REGS, kvm_regs};
use kvm_ioctls::{Cap, Kvm, SyncReg, VcpuFd};

/// Number of general registers.
pub(super) const GENERAL: usize = 16;

/// The general registers in the order in which instructions number them.
pub(super) fn general(r: &kvm_regs) -> [u64; GENERAL] {
    [r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15]
}

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

    /// The registers of a vCPU that has just made an exit.
    pub(super) fn read(self, fd: &VcpuFd) -> Option<kvm_regs> {
        if self.come { Some(fd.sync_regs().regs) } else { fd.get_regs().ok() }
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
