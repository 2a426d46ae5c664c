//! Why a domain refuses a vCPU.

use super::host_class;
use crate::attributes::Class;

/// Why a vCPU could not be taken in.
#[derive(Debug, thiserror::Error)]
pub enum DomainError {
    /// No thread for it.
    #[error("cannot start a thread for the vCPU")]
    Thread(#[source] std::io::Error),
    /// The host refuses the thread's class.
    #[error(
        "the host does not permit class `{class}`, {} for the vCPU's thread; it takes CAP_SYS_NICE, or RLIMIT_RTPRIO of \
         at least 1, and real-time run time in the cgroup",
        host_class::host_name(*class)
    )]
    Class {
        /// The class asked for.
        class: Class,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Too many vCPUs.
    #[error("a domain holds at most {0} vCPUs")]
    Full(usize),
}
