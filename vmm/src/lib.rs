//! The stile virtual machine monitor: virtual machines, their devices, and the commands that run them.

pub mod net;
pub mod virtio;
pub mod vm;
