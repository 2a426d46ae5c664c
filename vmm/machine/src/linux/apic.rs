//! A model of the interrupt controllers of a PC: a local APIC for each vCPU, in x2APIC mode, and an I/O APIC.
//!
//! The model is a state machine. It has no thread, no clock and no KVM: a time comes in with each call that needs one,
//! and what a register access does to others comes out as an [`Effect`] that the caller carries out. The reference is
//! volume 3 of Intel's Software Developer's Manual (SDM), chapter "Advanced Programmable Interrupt Controller (APIC)",
//! chapter 10 in editions up to 2022 and 11 or 13 since. Comments and tests name its sections by title. The I/O APIC
//! is Intel's 82093AA, by its data sheet (document 290566).
//!
//! | module | concern |
//! |---|---|
//! | [`local`] | the local APIC: registers, priorities, acceptance of messages |
//! | [`timer`] | its timer |
//! | [`lvt`] | its local vector table |
//! | [`message`] | what APICs send each other, and to which of them |
//! | [`io`] | the I/O APIC |
//! | [`vectors`] | sets of vectors |
//!
//! What is left out: xAPIC mode, whose registers lie in memory (the machine starts in x2APIC mode and stays there);
//! SMIs, which are dropped; interrupts of an 8259, which the machine lacks; suppression of EOI broadcasts, which the
//! version register does not offer.

pub mod io;
pub mod local;
pub mod lvt;
pub mod message;
#[cfg(test)]
mod tests;
pub mod timer;
pub mod vectors;

pub use io::IoApic;
pub use local::{Effect, GeneralProtection, LocalApic, Startup};
pub use message::{Delivery, Destination, Ipi, Message, Trigger};
pub use timer::Now;
