//! Cells with Linux guests, which run well-known benchmark programs.
//!
//! All guests of a cell have one shape and boot the same kernel and initramfs, those of `stile guest build linux`. The
//! orders for a guest are on its kernel's command line, and it reports over vsock (`agent`). A cell's guests wait at
//! their gates before anything is measured (`lab`), so that booting is not measured, except where it is the subject
//! (`boot`). In several suites each guest runs one program, all at the same time (`together`).

mod agent;
pub(super) mod boot;
pub(super) mod cyclictest;
pub(super) mod hackbench;
mod lab;
pub(super) mod outside;
pub(super) mod peer;
pub(super) mod pigz;
pub(super) mod stress;
pub(super) mod sysbench;
pub(super) mod tbench;
mod together;
