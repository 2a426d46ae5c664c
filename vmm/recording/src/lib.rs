//! Recordings: all questions to a domain's policy and all its answers, in a file, and what follows from them.
//!
//! # The file
//! 1. One line of JSON, the [`Header`]: format and version, the policy's configuration, the host CPUs of the slots, the
//!    number of events that follow and the number that were lost. It is padded with spaces, since it is written again
//!    when the numbers are known.
//! 2. The events in order of time, 32 bytes each: four little-endian words of 64 bits, see [`Event::pack`].
//! 3. One line of JSON with the [`Names`] of vCPUs, which are known only at the end: VMs come and go.
//!
//! A process that dies leaves neither the numbers nor the names. Such a file is read up to its last whole event, and
//! vCPUs are called by their ids.
//!
//! # Modules
//! `recorder` writes a recording while the domain runs, `reader` reads it back. [`chrome`] makes a trace for viewers,
//! [`explain`] says why a vCPU waited, [`figures`] computes the time of all vCPUs, and [`replay`] asks the policy
//! again. Events themselves, and what follows from them, are part of [`stile_sched::ledger`].
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
