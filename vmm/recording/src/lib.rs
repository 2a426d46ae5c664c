//! Recordings: everything a domain's policy was asked and answered, in a file, and what can be told from it.
//!
//! # The file
//! 1. One line of JSON, the [`Header`]: format and version, the policy's configuration, the host CPUs that the slots are,
//!    how many events follow and how many were lost. It is padded with spaces, since it is written anew when the numbers
//!    are known.
//! 2. The events in order of time, 32 bytes each: four little-endian words of 64 bits, see [`Event::pack`].
//! 3. One line of JSON with the [`Names`] of vCPUs, which are known at the end only: VMs come and go.
//!
//! A process that dies leaves neither the numbers nor the names: such a file is read up to its last whole event, and vCPUs
//! are called by their ids.
//!
//! # Modules
//! `recorder` writes it while the domain runs, `reader` reads it back. [`chrome`] makes a trace for viewers of it,
//! [`explain`] says why a vCPU waited, [`figures`] computes what became of everybody's time, and [`replay`] asks the policy
//! again. Events themselves, and what follows from them, are [`stile_sched::ledger`]'s.
//!
//! [`Event::pack`]: stile_sched::ledger::Event::pack

pub mod chrome;
mod drain;
pub mod explain;
pub mod figures;
mod header;
mod names;
mod reader;
mod recorder;
pub mod replay;
#[cfg(test)]
mod testing;

pub use header::{Header, VERSION};
pub use names::{Named, Names};
pub use reader::{Events, ReadError, Recording};
pub use recorder::{RecordError, Recorded, Recorder, recordable, write};
