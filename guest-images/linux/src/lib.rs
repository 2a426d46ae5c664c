//! Linux guests' kernel and initramfs, made of Debian's packages without root.
//!
//! Packages are asked of apt, fetched into a cache folder, checked against the digests of apt's signed index, and
//! unpacked there: nothing is installed. [`guest::build`] makes the image that `stile guest build linux` gives; its
//! parts, among them the closure of kernel modules and shared libraries and the archive itself, also make the outer
//! system of the hardware lane.
//!
//! It does not run anything: that is the monitor's part.

pub mod cache;
pub mod digest;
pub mod guest;
pub mod initramfs;
pub mod libraries;
pub mod manifest;
pub mod modules;
pub mod packages;
pub mod tool;

pub use cache::Cache;
pub use initramfs::Initramfs;
