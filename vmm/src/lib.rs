//! The stile virtual machine monitor: virtual machines, their devices, and the commands that run them.
//!
//! [`vm`] makes and runs virtual machines, [`virtio`] and [`net`] are their devices. [`config`] reads what a user wants,
//! [`host`] what the machine can do, [`carrier`] turns a policy's configuration into the scheduler that carries it out, and
//! [`watch`] tells of vCPUs that it starves. [`metrics`] tells what became of vCPUs' time. [`compare`] runs the suites and
//! [`report`] says what came out; [`recording`] keeps what a scheduler was asked and answered, and explains it. [`cli`] is
//! the program.

pub mod carrier;
pub mod cli;
pub mod compare;
pub mod config;
pub mod host;
pub mod measure;
pub mod metrics;
pub mod net;
pub mod recording;
pub mod report;
pub mod virtio;
pub mod vm;
pub mod watch;
