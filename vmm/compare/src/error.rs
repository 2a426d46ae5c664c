//! Why a comparison cannot go on.

use std::error::Error;
use std::time::Duration;
use stile_assembly::AssemblyError;
use stile_machine::unikernel::CreateError;
use stile_machine::vm::Outcome;
use stile_recording::RecordError;
use stile_results::journal::JournalError;
use stile_sched::sim::LateVcpu;
use stile_suites::Suite;

/// A cause that is known only where it comes from.
pub(super) type Cause = Box<dyn Error + Send + Sync>;

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
        source: Cause,
    },
    /// The suite has no guests of this kind.
    #[error("{suite} has no {kind} guests")]
    NoGuests {
        /// The suite.
        suite: Suite,
        /// Linux, built-in, or simulated.
        kind: &'static str,
    },
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
        source: Cause,
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
    /// The monitor that Linux guests are compared with, or the folder of a step.
    #[error(transparent)]
    Other(Cause),
    /// The samples.
    #[error(transparent)]
    Keep(#[from] JournalError),
}

impl CompareError {
    /// A failure that says itself what failed.
    pub(super) fn other(cause: impl Error + Send + Sync + 'static) -> Self {
        Self::Other(Box::new(cause))
    }
}
