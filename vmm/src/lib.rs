//! The stile virtual machine monitor: virtual machines, their devices, and the commands that run them.
//!
//! [`vm`] makes and runs virtual machines, [`virtio`] and [`net`] are their devices. [`config`] reads what a user wants,
//! [`host`] what the machine can do, [`carrier`] turns a policy's configuration into the scheduler that carries it out, and
//! [`watch`] tells of vCPUs that it starves. [`compare`] runs the suites and [`report`] says what came out. [`cli`] is the
//! program.

pub mod carrier;
pub mod cli;
pub mod compare;
pub mod config;
pub mod host;
pub mod net;
pub mod report;
pub mod virtio;
pub mod vm;
pub mod watch;
