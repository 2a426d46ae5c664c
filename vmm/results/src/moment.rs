//! Who ran where around a long wait, in a form that a report can draw: bounded in size, whatever happened meanwhile.

use serde::{Deserialize, Serialize};

/// The key of a sample's worst [`Moment`] in its detail.
pub const MOMENT: &str = "moment";

/// Who ran on which pCPU while a vCPU waited.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// Who waited.
    pub vcpu: String,
    /// From when to when it waited (units: us since the moment began).
    pub wait: (f64, f64),
    /// How long the moment is (units: us).
    pub length: f64,
    /// The longest wait of the whole window, which events need not have been kept of (units: us).
    pub longest: f64,
    /// For how long before the window's end events had been kept (units: us).
    pub kept: f64,
    /// The pCPUs.
    pub lanes: Vec<Lane>,
}

/// What ran on one pCPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lane {
    /// The host CPU.
    pub cpu: u32,
    /// In order of time.
    pub turns: Vec<Turn>,
}

/// A vCPU's turn, or several turns too short to be told apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// When it began (units: us since the moment began).
    pub from: f64,
    /// When it ended.
    pub to: f64,
    /// Who ran; `None` stands for several in turn.
    pub vcpu: Option<String>,
}

impl Moment {
    /// How long the vCPU waited (units: us).
    pub fn waited(&self) -> f64 {
        self.wait.1 - self.wait.0
    }
}
