//! A guest at CPL 0 that tests the interrupt controllers it finds, as an operating system uses them.
//!
//! It is loaded like a Linux kernel (an ELF file without PVH's note, entered in 64-bit mode). Every vCPU runs here: the
//! one that boots starts the others by INIT and start-up messages. It prints a line for each test on the serial port,
//! and powers off if all passed; else it resets. The word `ticks` on its command line makes it count timer interrupts
//! and nothing else, `pv` as the second word with ends of interrupts that need no exit. The word `disk` makes it read a
//! sector of its first device and nothing else: with `reset` as the second word, reset that device before the answer;
//! with `again`, read it over and over. The word `token` makes its vCPUs pass a token round, each of which spins until
//! it has it, and nothing else.
#![cfg_attr(feature = "guest", no_std, no_main)]
#![cfg_attr(
    feature = "guest",
    allow(unsafe_code, reason = "a kernel: registers, interrupts, and memory shared with them")
)]

#[cfg(feature = "guest")]
mod apic;
#[cfg(feature = "guest")]
mod assembly;
#[cfg(feature = "guest")]
mod cpu;
#[cfg(feature = "guest")]
mod cpus;
#[cfg(feature = "guest")]
mod disk;
#[cfg(feature = "guest")]
mod memory;
#[cfg(feature = "guest")]
mod serial;
#[cfg(feature = "guest")]
mod suite;
#[cfg(feature = "guest")]
mod token;

#[cfg(not(feature = "guest"))]
fn main() {}
