//! What a node is asked and what it answers, as data: the types of the HTTP API, of its clients and of the node itself.
//!
//! All types are JSON by serde, and have a schema by schemars, from which the OpenAPI document is made. Times are in
//! seconds: those named `at` since 1970, others spans. The field comments are the reference.

mod change;
mod event;
mod figures;
mod node;
mod problem;
mod vm;

pub use change::{Author, Change, ChangeState, Settings};
pub use event::{Event, Happened};
pub use figures::{DomainFigures, Figures, Frame, PcpuView, Spans, VcpuFigures, VmFigures};
pub use node::{NodeInfo, PcpusRequest, PcpusView, PolicyRequest, PolicyView, RecordingRequest, RecordingView};
pub use problem::{Finding, Problem, Reason};
pub use vm::{CapSetting, NoCap, ResultFigure, SchedulingRequest, StopMode, VmDetails, VmInfo, VmKind, VmState};
