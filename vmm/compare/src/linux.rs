//! Cells whose guests are Linux: the programs that people measure with, in guests as people run them.
//!
//! All guests of a cell are of one shape and boot the same kernel and initramfs, those of `stile guest build linux`;
//! what each does stands on its kernel's command line, and it reports over vsock (`agent`). A cell's guests gather at
//! their gates before anything is measured (`lab`), so that booting is none of it, but where booting is what is
//! measured (`boot`).

mod agent;
pub(super) mod boot;
pub(super) mod cyclictest;
pub(super) mod hackbench;
mod lab;
pub(super) mod peer;
pub(super) mod tbench;
