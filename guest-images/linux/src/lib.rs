//! Linux guests' kernel and initramfs, made of Debian's packages without root.
//!
//! apt names the packages, of the machine's own suite or another one ([`archive`]). They are fetched into a cache
//! folder, checked against the digests of apt's signed index, and unpacked there: nothing is installed.
//! [`guest::build`] makes the image that `stile guest build linux` gives. Its parts, among them the closure of kernel
//! modules and shared libraries and the archive itself, also make the outer system of the hardware lane.
//!
//! It does not run guests: that is the monitor's part.

pub mod archive;
pub mod cache;
pub mod digest;
pub mod guest;
pub mod initramfs;
pub mod kernel;
pub mod libraries;
mod links;
pub mod manifest;
pub mod modules;
pub mod packages;
pub mod tool;

pub use archive::Archive;
pub use cache::Cache;
pub use guest::ImageKind;
pub use initramfs::Initramfs;
