//! The stile virtual machine monitor: virtual machines, their devices, and the commands that run them.
//!
//! [`vm`] makes virtual machines of unikernels and [`linux`] of Linux, both as a [`machine`] is; [`virtio`] and [`net`] are
//! their devices, of Linux guests also [`block`], [`console`], [`entropy`] and [`vsock`]; [`halt`] is how their vCPUs wait
//! inside KVM. [`config`] reads what a user wants,
//! [`host`] what the machine can do, [`carrier`] turns a policy's configuration into the scheduler that carries it out, and
//! [`watch`] tells of vCPUs that it starves. [`metrics`] tells what became of vCPUs' time. [`suites`] says what can be
//! compared and measured, [`compare`] runs the suites and
//! [`report`] says what came out; [`recording`] keeps what a scheduler was asked and answered, and explains it. [`cli`] is
//! the program.

pub mod block;
pub mod carrier;
pub mod cli;
pub mod compare;
pub mod config;
pub mod console;
pub mod entropy;
pub mod halt;
pub mod host;
pub mod linux;
pub mod machine;
pub mod measure;
pub mod metrics;
pub mod net;
pub mod recording;
pub mod report;
pub mod suites;
pub mod virtio;
pub mod vm;
pub mod vsock;
pub mod watch;
