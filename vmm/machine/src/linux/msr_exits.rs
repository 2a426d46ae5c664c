//! Accesses of a guest to model-specific registers that come out of KVM, and how they are answered.
//!
//! [`let_out`] tells KVM once for a VM which accesses these are. From then on such an access is an exit of its vCPU,
//! which [`read()`] or [`write()`] answers. The registers themselves are elsewhere: the caller passes what reads or
//! writes one by its number, and `None` from there is a register or a value that does not exist, which the guest sees
//! as #GP. KVM carries the answer out at the next KVM_RUN.
//!
//! A VM has one filter, and another call replaces it: all registers of a VM are in one list. KVM does not filter the
//! registers of the x2APIC.

use kvm_bindings::{KVM_CAP_X86_USER_SPACE_MSR, kvm_enable_cap};
use kvm_ioctls::{
    Cap, Error, MsrExitReason, MsrFilterDefaultAction, MsrFilterRange, MsrFilterRangeFlags, ReadMsrExit, VmFd,
    WriteMsrExit,
};

/// Whether KVM can let accesses out. It has both parts since Linux 5.10.
pub(super) fn can_let_out(vm: &VmFd) -> bool {
    vm.check_extension(Cap::X86UserSpaceMsr) && vm.check_extension(Cap::X86MsrFilter)
}

/// Makes accesses for these reasons exits, and those to these registers (at most 16) a reason: the filter. Called
/// before the VM's vCPUs are made.
pub(super) fn let_out(vm: &VmFd, reasons: MsrExitReason, registers: &[u32]) -> Result<(), Error> {
    let args = [reasons.bits().into(), 0, 0, 0];
    vm.enable_cap(&kvm_enable_cap { cap: KVM_CAP_X86_USER_SPACE_MSR, args, ..kvm_enable_cap::default() })?;
    // A bit that is 0 keeps its register from KVM, which reads whole words of a bitmap.
    let kept = registers.iter().map(|register| MsrFilterRange {
        flags: MsrFilterRangeFlags::READ | MsrFilterRangeFlags::WRITE,
        base: *register,
        msr_count: 1,
        bitmap: &[0; size_of::<u64>()],
    });
    vm.set_msr_filter(MsrFilterDefaultAction::ALLOW, &kept.collect::<Vec<_>>())
}

/// Answers a guest's read with what `register` has of this number.
pub(super) fn read(exit: ReadMsrExit<'_>, register: impl FnOnce(u32) -> Option<u64>) {
    let value = register(exit.index);
    *exit.error = u8::from(value.is_none());
    *exit.data = value.unwrap_or(0);
}

/// Answers a guest's write with what `register` makes of this number and value.
pub(super) fn write(exit: WriteMsrExit<'_>, register: impl FnOnce(u32, u64) -> Option<()>) {
    let taken = register(exit.index, exit.data);
    *exit.error = u8::from(taken.is_none());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_gives_the_register_or_faults() {
        for (there, answer) in [(Some(7), (0, 7)), (None, (1, 0))] {
            let (mut error, mut data) = (9, 9);
            let exit = ReadMsrExit { error: &mut error, reason: MsrExitReason::Filter, index: 3, data: &mut data };
            read(exit, |index| there.filter(|_| index == 3));
            assert_eq!((error, data), answer);
        }
    }

    #[test]
    fn a_write_reaches_the_register_or_faults() {
        for (there, answer) in [(Some(()), 0), (None, 1)] {
            let (mut error, mut seen) = (9, None);
            let exit = WriteMsrExit { error: &mut error, reason: MsrExitReason::Filter, index: 3, data: 8 };
            write(exit, |index, data| {
                seen = Some((index, data));
                there
            });
            assert_eq!((error, seen), (answer, Some((3, 8))));
        }
    }
}
