//! What goes into a vCPU of KVM from outside: interrupts, and the registers with which a processor begins.
#![allow(unsafe_code, reason = "an ioctl for which kvm-ioctls has no call, and a union of the run page")]

use super::msrs::apic_base;
use kvm_bindings::{KVMIO, kvm_interrupt, kvm_regs, kvm_run, kvm_run__bindgen_ty_1__bindgen_ty_23, kvm_sregs};
use kvm_ioctls::{Error, VcpuFd};
use vmm_sys_util::ioctl::ioctl_with_ref;
use vmm_sys_util::ioctl_iow_nr;

ioctl_iow_nr!(KVM_INTERRUPT, KVMIO, 0x86, kvm_interrupt);

/// Queues an interrupt, which the vCPU takes when it next runs. The vCPU must be ready for it.
pub(super) fn interrupt(fd: &VcpuFd, vector: u8) -> Result<(), Error> {
    let interrupt = kvm_interrupt { irq: vector.into() };
    // SAFETY: the structure is the one that the kernel reads.
    let failed = unsafe { ioctl_with_ref(fd, KVM_INTERRUPT(), &interrupt) };
    if failed == 0 { Ok(()) } else { Err(Error::last()) }
}

/// The access to a model-specific register for which the vCPU has left the guest.
///
/// The caller has seen that the exit was for one.
pub(super) fn msr_access(run: &mut kvm_run) -> &mut kvm_run__bindgen_ty_1__bindgen_ty_23 {
    // SAFETY: any bytes are a valid value of this structure of integers.
    unsafe { &mut run.__bindgen_anon_1.msr }
}

/// The registers with which KVM made a vCPU: those of a processor after its reset.
#[derive(Debug, Clone, Copy)]
pub(in crate::linux) struct Pristine {
    sregs: kvm_sregs,
    regs: kvm_regs,
}

impl Pristine {
    /// Those of the vCPU `index`, which has just been made and gets its APIC's mode here.
    pub(in crate::linux) fn of(fd: &VcpuFd, index: u32) -> Result<Self, Error> {
        let sregs = kvm_sregs { apic_base: apic_base(index), ..fd.get_sregs()? };
        fd.set_sregs(&sregs)?;
        Ok(Self { sregs, regs: fd.get_regs()? })
    }

    /// Resets the vCPU as an INIT does (SDM, volume 3, table "IA-32 and Intel 64 Processor States Following Power-up,
    /// Reset, or INIT"). Nothing that was on its way into the vCPU arrives.
    pub(super) fn reset(&self, fd: &VcpuFd) -> Result<(), Error> {
        self.enter(fd, self.sregs, self.regs)
    }

    /// Starts the vCPU in real mode, at the page with this number.
    pub(super) fn start(&self, fd: &VcpuFd, page: u8) -> Result<(), Error> {
        let mut sregs = self.sregs;
        sregs.cs.base = u64::from(page) << 12;
        sregs.cs.selector = u16::from(page) << 8;
        self.enter(fd, sregs, kvm_regs { rip: 0, ..self.regs })
    }

    fn enter(&self, fd: &VcpuFd, sregs: kvm_sregs, regs: kvm_regs) -> Result<(), Error> {
        let mut events = fd.get_vcpu_events()?;
        (events.interrupt.injected, events.nmi.injected, events.nmi.pending, events.nmi.masked) = (0, 0, 0, 0);
        (events.exception.injected, events.exception.pending) = (0, 0);
        fd.set_vcpu_events(&events)?;
        fd.set_sregs(&sregs)?;
        fd.set_regs(&regs)
    }
}
