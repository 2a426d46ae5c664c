//! Why a comparison cannot go on.

use std::error::Error;
use std::time::Duration;
use stile_assembly::AssemblyError;
use stile_machine::unikernel::CreateError;
use stile_machine::vm::Outcome;
use stile_recording::RecordError;
use stile_results::storage::StorageError;
use stile_sched::sim::LateVcpu;
use stile_suites::Suite;

/// A cause whose type only its origin knows.
pub(super) type Cause = Box<dyn Error + Send + Sync>;

/// Why a comparison cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// A domain cannot be made.
    #[error(transparent)]
    Carrier(#[from] AssemblyError),
    /// A VM cannot be made.
    #[error("VM {name} of {label} cannot be made")]
    Create {
        /// Its name.
        name: String,
        /// Label of the policy.
        label: String,
        /// Cause.
        #[source]
        source: CreateError,
    },
    /// A Linux guest cannot be made or run.
    #[error("VM {name} of {label} cannot be made")]
    Linux {
        /// Its name.
        name: String,
        /// Label of the policy.
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
        /// The kind: Linux, built-in, or simulated.
        kind: &'static str,
    },
    /// A guest ended while it was measured.
    #[error("VM {name} ended under {label}: {outcome}")]
    Ended {
        /// Its name.
        name: String,
        /// Label of the policy.
        label: String,
        /// The outcome.
        outcome: Outcome,
    },
    /// A guest did not reach a state in time.
    #[error("VM {name} under {label} {how_far} after {limit:?}")]
    Stuck {
        /// Its name.
        name: String,
        /// Label of the policy.
        label: String,
        /// How far it was.
        how_far: String,
        /// The time limit.
        limit: Duration,
    },
    /// A guest that cannot be measured.
    #[error("VM {name} under {label} {why}")]
    Broken {
        /// Its name.
        name: String,
        /// Label of the policy.
        label: String,
        /// What is wrong with it.
        why: String,
    },
    /// The scheduler's accounts of a window contradict each other.
    #[error("the accounts of {label} are unsound, which is a bug of stile")]
    Unsound {
        /// Label of the policy.
        label: String,
        /// The contradiction.
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
        /// Label of the policy.
        label: String,
        /// Number of vCPUs or clients.
        size: u32,
        /// Number of such waits.
        count: u64,
        /// The first of them.
        first: LateVcpu,
    },
    /// A recording cannot be written.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The other monitor failed, or the folder of a step cannot be written.
    #[error(transparent)]
    Other(Cause),
    /// The samples cannot be kept.
    #[error(transparent)]
    Keep(#[from] StorageError),
}

impl CompareError {
    /// Makes an error of a cause that says itself what failed.
    pub(super) fn other(cause: impl Error + Send + Sync + 'static) -> Self {
        Self::Other(Box::new(cause))
    }
}
