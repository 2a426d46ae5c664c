//! Linux guests' kernel and initramfs, made of Debian's packages without root.
//!
//! apt names the packages, of the machine's own suite or another one ([`archive`]). They are fetched into a cache
//! folder, checked against the digests of apt's signed index, and unpacked there: nothing is installed.
//! [`guest::build`] makes the image that `stile guest build linux` gives. Its parts, among them the closure of kernel
//! modules and shared libraries and the archive itself, also make the outer system of the hardware lane.
//!
//! What is in the cache is used only if nobody else can have written it ([`trust`]) and if it has the digests that were
//! written down when it was made.
//!
//! It does not run guests: that is the monitor's part.

pub mod archive;
pub mod cache;
pub mod checks;
pub mod digest;
pub mod guest;
pub mod initramfs;
pub mod kernel;
mod known_digests;
pub mod libraries;
mod links;
pub mod manifest;
pub mod modules;
pub mod packages;
pub mod tool;
mod tree;
pub mod trust;

pub use archive::Archive;
pub use cache::Cache;
pub use checks::ImageError;
pub use guest::ImageKind;
pub use initramfs::Initramfs;
