//! Classes of vCPUs. Policies give them their meaning.

use std::fmt;

/// What kind of work a vCPU does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Class {
    /// Shares CPU time by its nice value.
    #[default]
    Normal,
    /// Shares CPU time by its nice value, and does not mind waiting: by waking it takes a pCPU from idle vCPUs at most.
    Batch,
    /// Runs while no vCPU of another class can.
    Idle,
    /// Runs before all other classes, first come first served within the class.
    Rt,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Normal => "normal",
            Self::Batch => "batch",
            Self::Idle => "idle",
            Self::Rt => "rt",
        })
    }
}
