//! One event of the trace-event format.

use serde::Serialize;
use serde_json::{Value, json};

/// The place where an event is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Track {
    pub(super) pid: u32,
    pub(super) tid: u32,
}

/// An event. Fields without a meaning for its phase are left out.
#[derive(Debug, Serialize)]
pub(super) struct TraceEvent<'a> {
    pub(super) ph: &'static str,
    pub(super) name: &'a str,
    pub(super) cat: &'static str,
    pub(super) pid: u32,
    pub(super) tid: u32,
    /// Unit: us.
    pub(super) ts: f64,
    /// Length of a slice (unit: us).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dur: Option<f64>,
    /// The arrow's number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<u64>,
    /// The side that the end of an arrow is bound to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bp: Option<&'static str>,
    /// Scope of an instant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) s: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) args: Option<Value>,
}

impl<'a> TraceEvent<'a> {
    /// An event of this phase.
    pub(super) fn new(ph: &'static str, name: &'a str, track: Track, ts: f64) -> Self {
        let Track { pid, tid } = track;
        Self { ph, name, cat: "sched", pid, tid, ts, dur: None, id: None, bp: None, s: None, args: None }
    }

    /// Names a process or a thread.
    pub(super) fn name(what: &'a str, track: Track, name: &str) -> Self {
        Self { args: Some(json!({"name": name})), ..Self::new("M", what, track, 0.0) }
    }
}
