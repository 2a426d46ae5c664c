//! What happened, in order: the proof that the same seed gives the same run.

use crate::{Slot, Time, VcpuId};
use std::fmt;

/// One thing that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Event {
    /// When.
    pub at: Time,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum What {
    /// A vCPU can run again.
    Woke(VcpuId),
    /// A slot runs this vCPU, or idles, until it has to ask again.
    Runs(Slot, Option<VcpuId>, Time),
    /// A slot was made to ask.
    Kicked(Slot),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.at.0)?;
        match self.what {
            What::Woke(vcpu) => write!(f, "wake {vcpu}"),
            What::Runs(slot, Some(vcpu), Time::NEVER) => write!(f, "{slot} runs {vcpu}"),
            What::Runs(slot, Some(vcpu), until) => write!(f, "{slot} runs {vcpu} until {}", until.0),
            What::Runs(slot, None, _) => write!(f, "{slot} idles"),
            What::Kicked(slot) => write!(f, "kick {slot}"),
        }
    }
}
