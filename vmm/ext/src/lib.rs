//! Loads stile's scheduler of sched_ext into the host's kernel (docs/adr/0037-sched-ext.md).
//!
//! The kernel then asks that scheduler about threads of the class SCHED_EXT, which are those of vCPUs, and about no
//! other. It stays loaded while what `load` returns lives. After that, or if the kernel finds fault with it, the
//! threads are under the host's own scheduler. Without the feature `sched-ext` there is nothing here.

#[cfg(feature = "sched-ext")]
mod load;

#[cfg(feature = "sched-ext")]
pub use load::{Counts, LoadError, Loaded, load};
