//! The turns on each pCPU around a long wait. Bounded in size, so that a report can keep and draw it.

use serde::{Deserialize, Serialize};

/// The key of a sample's worst [`Moment`] in its detail.
pub const MOMENT: &str = "moment";

/// The turns on each pCPU while a vCPU waited.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// The vCPU that waited.
    pub vcpu: String,
    /// Beginning and end of the wait (units: us since the moment began).
    pub wait: (f64, f64),
    /// Length of the moment (units: us).
    pub length: f64,
    /// The longest wait of the whole window; its events may have been dropped (units: us).
    pub longest: f64,
    /// The time before the window's end from which events were kept (units: us).
    pub kept: f64,
    /// The pCPUs.
    pub lanes: Vec<Lane>,
}

/// The turns on one pCPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lane {
    /// The host CPU.
    pub cpu: u32,
    /// The turns, in order of time.
    pub turns: Vec<Turn>,
}

/// One turn of a vCPU, or several turns too short to be drawn one by one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Its beginning (units: us since the moment began).
    pub from: f64,
    /// Its end.
    pub to: f64,
    /// The vCPU that ran; `None` for several in turn.
    pub vcpu: Option<String>,
}

impl Moment {
    /// Length of the wait (units: us).
    pub fn waited(&self) -> f64 {
        self.wait.1 - self.wait.0
    }
}
