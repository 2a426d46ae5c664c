//! Two settings of a vCPU for which kvm-ioctls has no call: the signals that reach it, and a TSC equal to the host's.
#![allow(unsafe_code, reason = "ioctls on a vCPU descriptor")]

use kvm_bindings::{KVM_VCPU_TSC_CTRL, KVM_VCPU_TSC_OFFSET, KVMIO, kvm_device_attr, kvm_signal_mask};
use kvm_ioctls::{Error, VcpuFd};
use stile_sched::kick;
use vmm_sys_util::ioctl::ioctl_with_ref;
use vmm_sys_util::ioctl_iow_nr;

ioctl_iow_nr!(KVM_SET_SIGNAL_MASK, KVMIO, 0x8b, kvm_signal_mask);
ioctl_iow_nr!(KVM_SET_DEVICE_ATTR, KVMIO, 0xe1, kvm_device_attr);

/// The kernel's signal set, which is smaller than the C library's.
#[repr(C, packed)]
struct SignalMask {
    len: u32,
    set: u64,
}

/// Makes KVM_RUN unblock the kick signal and no other signal; see [`kick`].
pub fn kickable(fd: &VcpuFd) -> Result<(), Error> {
    let mask = SignalMask { len: 8, set: !(1 << (kick::signal() - 1)) };
    // SAFETY: the structure is what the kernel reads: a length and that many bytes.
    let failed = unsafe { ioctl_with_ref(fd, KVM_SET_SIGNAL_MASK(), &mask) };
    if failed == 0 { Ok(()) } else { Err(Error::last()) }
}

/// Makes the guest's TSC equal to the host's. Two kinds of hosts lack the attribute and are left as they are: Linux
/// before 5.16, and PVM, where guests read the hardware's TSC.
pub(crate) fn follow_host(fd: &VcpuFd) -> Result<(), Error> {
    let offset = 0u64;
    let attribute = kvm_device_attr {
        flags: 0,
        group: KVM_VCPU_TSC_CTRL,
        attr: u64::from(KVM_VCPU_TSC_OFFSET),
        addr: &raw const offset as u64,
    };
    // SAFETY: the attribute's address is that of a u64, which is what this attribute reads.
    let failed = unsafe { ioctl_with_ref(fd, KVM_SET_DEVICE_ATTR(), &attribute) };
    match Error::last() {
        _ if failed == 0 => Ok(()),
        unknown if [libc::ENXIO, libc::ENOTTY, libc::EINVAL].contains(&unknown.errno()) => Ok(()),
        other => Err(other),
    }
}
