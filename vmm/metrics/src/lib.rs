//! Figures of running VMs: of each vCPU, of each VM and of their domain.
//!
//! [`metric`] describes every figure once: name, unit, kind, meaning, and how it is read from a [`Sample`]. [`table`],
//! [`summary`], [`json`], [`openmetrics`] and the page `docs/metrics.md` are made from these descriptions. [`reading`]
//! takes the samples and adds them up: a VM's sample is the sum of its vCPUs'. Nothing here measures: the figures are
//! the scheduler's own accounts.

pub mod json;
pub mod metric;
pub mod openmetrics;
mod page;
pub mod reading;
pub mod summary;
pub mod table;

pub use page::page;
pub use reading::{DomainSample, Reading, Sample, VmReading};
