//! How a Linux guest ends its VM: off, to be started anew, or because its kernel panicked.
//!
//! A kernel that panics resets the machine like one that reboots. They are told apart by the *warm boot* flag, a word in
//! what was the BIOS' data area: x86 kernels write it at every reset, and have it say "warm" only if their reboot mode is
//! that. The [command line](super::cmdline) makes it so at panics and at no other time. This needs no driver in the guest,
//! unlike a pvpanic device, whose driver is a module in most distributions, and which would miss all panics before that is
//! loaded; and no guess from what the console says. A panic before the kernel has read its command line is not told: the
//! kernel hangs.

use super::ports::Power;
use crate::vm::Outcome;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

/// Where the flag lies.
const WARM_BOOT: GuestAddress = GuestAddress(0x472);
/// What it says of a warm boot.
const WARM: u16 = 0x1234;

/// How the VM ends by what its guest asked for; `tells_panic`, if the flag tells a panic from a reboot.
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
