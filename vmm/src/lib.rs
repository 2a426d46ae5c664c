//! The stile virtual machine monitor: virtual machines, their devices, and the commands that run them.

pub mod config;
pub mod host;
pub mod report;
pub mod vm;
