//! What `stile top` needs of a node, and what it orders.

use std::time::Duration;
use stile_api::{CapSetting, Frame, Problem, SchedulingRequest};

/// A node. Each method may take as long as the network does; none is called by the thread that reads keys.
pub trait Node: Send + Sync + 'static {
    /// Begins to receive frames, each with the figures over an interval of this length. Called again after an error.
    fn frames(&self, interval: Duration) -> Result<Box<dyn Frames>, Problem>;

    /// Pauses a VM.
    fn pause(&self, vm: &str) -> Result<(), Problem>;

    /// Resumes a VM.
    fn resume(&self, vm: &str) -> Result<(), Problem>;

    /// Changes how a VM is scheduled.
    fn schedule(&self, vm: &str, request: &SchedulingRequest) -> Result<(), Problem>;
}

/// Frames as they come.
pub trait Frames: Send {
    /// Waits for the next one, and no longer than `limit`: then it is `None`. After an error there are no more.
    fn next(&mut self, limit: Duration) -> Result<Option<Frame>, Problem>;
}

/// What a user orders by a key.
#[derive(Debug, Clone, PartialEq)]
pub enum Order {
    /// Pause a VM.
    Pause {
        /// The VM.
        vm: String,
    },
    /// Resume a VM.
    Resume {
        /// The VM.
        vm: String,
    },
    /// Change how a VM is scheduled.
    Schedule {
        /// The VM.
        vm: String,
        /// What is to hold from now on.
        request: SchedulingRequest,
    },
}

impl Order {
    /// The VM that it concerns.
    pub fn vm(&self) -> &str {
        match self {
            Self::Pause { vm } | Self::Resume { vm } | Self::Schedule { vm, .. } => vm,
        }
    }

    /// Gives the order to a node.
    pub(crate) fn give(&self, node: &impl Node) -> Result<(), Problem> {
        match self {
            Self::Pause { vm } => node.pause(vm),
            Self::Resume { vm } => node.resume(vm),
            Self::Schedule { vm, request } => node.schedule(vm, request),
        }
    }

    /// What holds once it is carried out.
    pub(crate) fn outcome(&self) -> String {
        let settings = |request: &SchedulingRequest| {
            let nice = request.nice.map(|nice| format!("nice {nice}"));
            let cap = request.cap.map(|cap| match cap {
                CapSetting::Cpus(cap) => format!("a cap of {} CPUs", cap.cpus()),
                CapSetting::None(_) => "no cap".to_owned(),
            });
            stile_text::list(&nice.into_iter().chain(cap).collect::<Vec<_>>())
        };
        match self {
            Self::Pause { vm } => format!("{vm} is paused"),
            Self::Resume { vm } => format!("{vm} runs again"),
            Self::Schedule { vm, request } => format!("{vm} has {}", settings(request)),
        }
    }

    /// What is asked for, as in "could not pause web".
    pub(crate) fn wish(&self) -> String {
        match self {
            Self::Pause { vm } => format!("pause {vm}"),
            Self::Resume { vm } => format!("resume {vm}"),
            Self::Schedule { vm, .. } => format!("change {vm}"),
        }
    }
}
