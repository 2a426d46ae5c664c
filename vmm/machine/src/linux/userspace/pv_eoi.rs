//! Ends of interrupts without an exit: KVM's paravirtual feature, carried out here.
//!
//! The guest names a word of its memory by a model-specific register (Linux, Documentation/virt/kvm/x86/msr.rst,
//! MSR_KVM_PV_EOI_EN). Protocol:
//! 1. Before the vCPU enters the guest while exactly one interrupt is in service, whose end would change nothing else,
//!    bit 0 of the word is set ([`offer`](PvEoi::offer)).
//! 2. A guest that finds the bit set clears it in place of the write that ends the interrupt.
//! 3. After the next exit, whatever it is for, the bit is looked at: if it is clear, the interrupt has ended. If it is
//!    set, it is cleared, and the guest will write ([`take_back`](PvEoi::take_back)).
//!
//! An interrupt that is posted meanwhile kicks the vCPU out of its guest, and so step 3 comes before it. Only the
//! vCPU's carrier touches the word, while the vCPU is outside the guest.

use crate::linux::apic::GeneralProtection;
use std::sync::atomic::Ordering::Relaxed;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

/// The register.
pub(super) const PV_EOI: u32 = 0x4b56_4d04;
/// In the register: the feature is on. The other bits are the word's address, a multiple of four.
const ON: u64 = 1;
const UNALIGNED: u64 = 2;
/// In the word: the end of the interrupt needs no write.
const OFFERED: u8 = 1;

/// The state of one vCPU.
#[derive(Debug, Default)]
pub(super) struct PvEoi {
    register: u64,
    offered: bool,
}

impl PvEoi {
    /// The register's value.
    pub(super) fn register(&self) -> u64 {
        self.register
    }

    /// Sets the register.
    pub(super) fn set_register(&mut self, value: u64) -> Result<(), GeneralProtection> {
        if value & ON != 0 && value & UNALIGNED != 0 {
            return Err(GeneralProtection);
        }
        self.register = value;
        Ok(())
    }

    /// Lets the guest end the interrupt in service without a write.
    pub(super) fn offer(&mut self, memory: &GuestMemoryMmap) {
        if self.register & ON != 0 {
            self.offered = memory.store(OFFERED, self.word(), Relaxed).is_ok();
        }
    }

    /// Takes the offer back. True if the guest has ended the interrupt.
    pub(super) fn take_back(&mut self, memory: &GuestMemoryMmap) -> bool {
        if !std::mem::take(&mut self.offered) {
            return false;
        }
        let is_left = memory.load::<u8>(self.word(), Relaxed).is_ok_and(|word| word & OFFERED != 0);
        // The word was written before, so this can be done as well.
        let _ = memory.store(0u8, self.word(), Relaxed);
        !is_left
    }

    fn word(&self) -> GuestAddress {
        GuestAddress(self.register & !ON)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORD: GuestAddress = GuestAddress(0x100);

    fn memory() -> GuestMemoryMmap {
        GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 4096)]).unwrap()
    }

    #[test]
    fn an_offer_that_the_guest_takes_is_an_end_and_one_that_it_leaves_is_none() {
        let memory = memory();
        let mut eoi = PvEoi::default();
        eoi.set_register(WORD.0 | 1).unwrap();
        eoi.offer(&memory);
        assert_eq!(memory.read_obj::<u8>(WORD).unwrap(), 1);
        assert!(!eoi.take_back(&memory));
        assert_eq!(memory.read_obj::<u8>(WORD).unwrap(), 0);
        assert!(!eoi.take_back(&memory), "nothing was offered");
        eoi.offer(&memory);
        memory.write_obj(0u8, WORD).unwrap();
        assert!(eoi.take_back(&memory));
        assert!(!eoi.take_back(&memory), "it ends once");
    }

    #[test]
    fn a_guest_that_turns_it_off_or_names_no_memory_is_offered_nothing() {
        let memory = memory();
        for register in [0, WORD.0, 0x10_0000 | 1] {
            let mut eoi = PvEoi::default();
            eoi.set_register(register).unwrap();
            eoi.offer(&memory);
            assert!(!eoi.take_back(&memory), "{register:#x}");
            assert_eq!(memory.read_obj::<u8>(WORD).unwrap(), 0);
        }
        let mut eoi = PvEoi::default();
        assert_eq!(eoi.set_register(WORD.0 | 3), Err(GeneralProtection));
        assert_eq!(eoi.register(), 0);
    }
}
