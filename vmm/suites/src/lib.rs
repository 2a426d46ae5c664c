//! The suites and metrics as plain data: the workloads that `compare` can run, the figures that it measures, and their
//! names.
//!
//! Each suite is a [`Descriptor`] in a file of its own, and the table here lists them. Every field is stated for every
//! suite: a descriptor has no defaults. Code that runs or shows a suite reads the descriptor. Only the runner tells
//! suites apart, in one exhaustive `match`. This crate does not depend on reports, guests or the host.
//!
//! | module | concern |
//! |---|---|
//! | [`descriptor`] | the description of a suite |
//! | [`suite`] | what follows from a suite's descriptor |
//! | [`metric`] | the table of metrics |
//! | [`setup`], [`load`] | the choices besides a size |
//! | [`parameter`] | parameters of the guests, set by `--set` |
//! | [`parts`] | the roles of vCPUs |
//! | [`source`] | the published reports that suites repeat |
//!
//! To add a suite: write its file, add its module and its row here, and name the code that measures its cells in the
//! runner.

pub mod descriptor;
pub mod load;
pub mod metric;
pub mod parameter;
pub mod parts;
pub mod setup;
pub mod source;
pub mod suite;

mod boot;
mod cyclictest;
mod entry;
mod hackbench;
mod hogs;
mod interactive;
mod mixed;
mod netbench;
mod partition;
mod pigz;
mod pingpong;
mod probe;
mod stress;
mod sysbench;
mod tbench;
mod theft;
mod threeway;
mod ticket;
mod volano;
mod weights;

pub use descriptor::{Builtin, Counted, Descriptor, Length, LinuxGuests, LinuxImage, Model, PerKind, RunKind, Vms};
pub use load::Load;
pub use metric::{Better, Metric};
pub use parameter::Parameter;
pub use parts::{Part, Role, Share};
pub use setup::{Processors, Setup, UnknownSetup, VmShape};
pub use source::{Claims, Source};
pub use suite::UnknownSuite;

use serde::{Deserialize, Serialize};

/// Makes [`Suite`] and its descriptors from one table.
macro_rules! suites {
    ($($(#[$doc:meta])* $suite:ident: $module:ident;)*) => {
        /// A workload family that `compare` can run. Names are part of the report format.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Suite {
            $($(#[$doc])* $suite,)*
        }

        impl Suite {
            /// Every suite, in the order of a report.
            pub const ALL: [Self; [$(Self::$suite),*].len()] = [$(Self::$suite),*];

            /// Its descriptor.
            pub fn descriptor(self) -> &'static Descriptor {
                match self {
                    $(Self::$suite => &$module::SUITE,)*
                }
            }
        }
    };
}

suites! {
    /// Clients and servers that exchange file-server traffic over TCP.
    Netbench: netbench;
    /// All vCPUs contend for one ticket lock.
    Ticket: ticket;
    /// Pairs of vCPUs pass a message to and fro.
    Pingpong: pingpong;
    /// Half of the vCPUs contend for a lock, the other half compute.
    Mixed: mixed;
    /// A third of the vCPUs each pass messages in pairs, contend for a lock, and compute.
    Threeway: threeway;
    /// Half of the vCPUs wake every 5 ms for a short job, the other half compute.
    Probe: probe;
    /// All vCPUs compute.
    Hogs: hogs;
    /// All vCPUs compute, in VMs of different nice values.
    Weights: weights;
    /// Half of the vCPUs stop at moments that may cheat the scheduler, the other half compute.
    Theft: theft;
    /// All vCPUs ring a doorbell that asks for nothing, as fast as they can.
    Entry: entry;
    /// Programs of a desktop beside loads.
    Interactive: interactive;
    /// One VM of many vCPUs against as many VMs of one.
    Partition: partition;
    /// VMs are made, run until they are ready, and end.
    Boot: boot;
    /// Groups of senders and receivers exchange a fixed number of messages.
    Hackbench: hackbench;
    /// Chat rooms in which every message goes to all others.
    Volano: volano;
    /// Clients of tbench in one Linux guest, their servers in another.
    Tbench: tbench;
    /// Timers of one Linux guest, beside others that compute.
    Cyclictest: cyclictest;
    /// Stressors of stress-ng that sleep and wake each other, in Linux guests.
    Stress: stress;
    /// Compression by many threads, in Linux guests.
    Pigz: pigz;
    /// Threads that take locks and yield, in Linux guests.
    Sysbench: sysbench;
}
