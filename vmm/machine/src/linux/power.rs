//! How a Linux guest ends its VM: by power-off, by a reboot, or by a panic of its kernel.
//!
//! A kernel that panics resets the machine, as a kernel that reboots does. The *warm boot* flag tells the two apart. It
//! is a word in what was the BIOS' data area. x86 kernels write it at every reset, and write "warm" only if their
//! reboot mode is warm. The [command line](super::cmdline) makes it so for panics alone.
//!
//! This needs no driver in the guest, and no guess from the text on the console. A pvpanic device would need a driver,
//! which is a module in most distributions: all panics before the module is loaded would be missed. A panic before the
//! kernel has read its command line is not reported: the kernel hangs.

use super::ports::Power;
use crate::vm::Outcome;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

/// Address of the flag.
const WARM_BOOT: GuestAddress = GuestAddress(0x472);
/// Value of the flag for a warm boot.
const WARM: u16 = 0x1234;

/// How the VM ends after this request. `tells_panic`: whether the flag tells a panic from a reboot.
pub fn outcome(power: Power, memory: &GuestMemoryMmap, tells_panic: bool) -> Outcome {
    let warm = || memory.read_obj::<u16>(WARM_BOOT).is_ok_and(|flag| flag == WARM);
    match power {
        Power::Off => Outcome::PoweredOff,
        Power::Reset if tells_panic && warm() => Outcome::Panicked,
        Power::Reset => Outcome::Rebooted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_is_a_panic_only_with_the_flag_and_only_where_the_flag_tells() {
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 4096)]).unwrap();
        assert_eq!(outcome(Power::Reset, &memory, true), Outcome::Rebooted);
        memory.write_obj(WARM, WARM_BOOT).unwrap();
        assert_eq!(outcome(Power::Reset, &memory, true), Outcome::Panicked);
        assert_eq!(outcome(Power::Reset, &memory, false), Outcome::Rebooted);
        assert_eq!(outcome(Power::Off, &memory, true), Outcome::PoweredOff);
    }
}
