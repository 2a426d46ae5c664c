//! The program on the command line: its output, the files that it leaves, and its exit codes.
//!
//! The output of each run is read to its end, which comes only when every process that could write to it has gone: so
//! none of these tests leaves anything running.

mod comparisons;
mod configuration;
mod diagnostics;
mod guest_images;
mod jail;
mod kept;
mod linux;
mod manual;
mod node;
mod outputs;
mod page;
mod program;
mod recordings;
mod run;
mod simulation;
mod stalled;
mod terminal;
mod unanswered;
mod verdicts;
