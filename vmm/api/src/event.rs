//! What happens on a node.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::change::Change;

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Happened {
    /// A VM was created.
    Created {
        /// The VM.
        vm: String,
    },
    /// A VM was started.
    Started {
        /// The VM.
        vm: String,
    },
    /// A VM was paused.
    Paused {
        /// The VM.
        vm: String,
    },
    /// A VM was resumed.
    Resumed {
        /// The VM.
        vm: String,
    },
    /// A VM ended.
    Ended {
        /// The VM.
        vm: String,
        /// How.
        outcome: String,
        /// Whether that was intended.
        well: bool,
    },
    /// A VM was deleted.
    Deleted {
        /// The VM.
        vm: String,
    },
    /// How the node schedules was changed, or a change was confirmed or went back.
    Changed {
        /// The change as it is now.
        change: Change,
    },
    /// A vCPU waited longer than the policy promises.
    Starved {
        /// The watchdog's message.
        text: String,
    },
    /// A recording began.
    Recording {
        /// Its file.
        path: String,
    },
    /// A recording ended.
    Recorded {
        /// Its file.
        path: String,
        /// Why.
        why: String,
    },
    /// The reader is too slow: some events were dropped.
    Missed {
        /// How many.
        events: u64,
    },
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// When (unit: s since 1970).
    pub at: f64,
    /// What.
    #[serde(flatten)]
    pub what: Happened,
}
