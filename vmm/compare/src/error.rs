//! Why a comparison cannot go on.

use super::cells::netbench::StepError;
use super::linux::{LinuxError, PeerError};
use super::window::audit::Discrepancy;
use std::time::Duration;
use stile_assembly::AssemblyError;
use stile_machine::unikernel::CreateError;
use stile_machine::vm::Outcome;
use stile_recording::RecordError;
use stile_results::journal::JournalError;
use stile_sched::sim::LateVcpu;

/// Why a comparison cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// A domain.
    #[error(transparent)]
    Carrier(#[from] AssemblyError),
    /// A VM.
    #[error("VM {name} of {label} cannot be made")]
    Create {
        /// Which.
        name: String,
        /// Policy.
        label: String,
        /// Cause.
        #[source]
        source: CreateError,
    },
    /// A Linux guest.
    #[error("VM {name} of {label} cannot be made")]
    Linux {
        /// Which.
        name: String,
        /// Policy.
        label: String,
        /// Cause.
        #[source]
        source: Box<LinuxError>,
    },
    /// The monitor that Linux guests are compared with.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// A guest ended while it was measured.
    #[error("VM {name} ended under {label}: {outcome}")]
    Ended {
        /// Which.
        name: String,
        /// Policy.
        label: String,
        /// How.
        outcome: Outcome,
    },
    /// A guest that does not get to where it should.
    #[error("VM {name} under {label} {how_far} after {limit:?}")]
    Stuck {
        /// Which.
        name: String,
        /// Policy.
        label: String,
        /// How far it was.
        how_far: String,
        /// It was given so long.
        limit: Duration,
    },
    /// A guest that cannot be measured.
    #[error("VM {name} under {label} {why}")]
    Broken {
        /// Which.
        name: String,
        /// Policy.
        label: String,
        /// What is wrong with it.
        why: String,
    },
    /// The scheduler's accounts of a window contradict each other.
    #[error("the accounts of {label} are unsound, which is a bug of stile")]
    Unsound {
        /// Policy.
        label: String,
        /// How.
        #[source]
        source: Discrepancy,
    },
    /// A simulated vCPU waited longer than its policy promises.
    #[error(
        "{label}, size {size}: {count} simulated waits longer than the policy promises, the first one of {}: {} ms at \
         {} ms, where {} ms are promised",
        first.vcpu, first.waited.0 / 1_000_000, first.at.0 / 1_000_000, first.bound.0 / 1_000_000
    )]
    Late {
        /// Policy.
        label: String,
        /// vCPUs or clients.
        size: u32,
        /// How many such waits.
        count: u64,
        /// The first of them.
        first: LateVcpu,
    },
    /// A recording.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The folder of a step.
    #[error(transparent)]
    Step(#[from] StepError),
    /// The samples.
    #[error(transparent)]
    Keep(#[from] JournalError),
}
