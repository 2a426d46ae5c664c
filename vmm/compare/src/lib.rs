//! Comparing policies: the same guests, on the same pCPUs, under one policy after the other.
//!
//! A run is rounds of *cells*: one policy with one size, in fresh VMs in a fresh domain, with a warm-up before the
//! measured window, or with work that has an end, which is waited for. Within a round the policies of one size follow each
//! other directly, in an order drawn anew each time, so that what drifts on the host meets all of them; ratios pair the
//! samples of one round.
//!
//! | module | concern |
//! |---|---|
//! | `plan` | what is asked for: suites, sizes, setups, parameters, rounds; and what is run for that, in which order |
//! | `scenario` | the same as the file of `stile sim` says it |
//! | `runner` | runs a plan cell by cell, records, and tells how far it is and what disturbed it |
//! | `workload` | what a suite's guests run, and which vCPU plays which part |
//! | `cells` | how each suite is measured with guests |
//! | `linux` | the same where guests are Linux |
//! | `simulated` | the same without guests |
//! | `window` | what is read before and after, its audit, and the metrics that are made of it |
//!
//! Words: a *case* is a size and a *setup*, such as one pCPU or all; a *cell* is a case under a policy in a round, as planned
//! and as measured; a *site* is where it is measured, its domain and pCPUs; its *window* is what is between two *readings* of
//! guests and scheduler; a *step* is what netbench keeps of a cell besides.
//!
//! It goes from the top to the bottom: the command line makes [`Options`], these make a [`Plan`], a [`Runner`] has a cell
//! measured for each line of it, and the cell takes its metrics from a window. What becomes of samples is none of this:
//! that is [`stile_report`].

mod cells;
mod error;
mod linux;
pub mod measure;
mod plan;
mod runner;
mod scenario;
mod simulated;
mod window;
mod workload;

pub use cells::netbench::{STEPS, remove_steps};
pub use error::CompareError;
pub use linux::{Linux, LinuxError, Peer, PeerError};
pub use plan::settings::{SettingError, check as check_settings};
pub use plan::sizes::{SizeError, check as check_sizes, divisions};
pub use plan::{
    Case, Hint, Load, Machine, Options, Plan, REPORTED, Setup, UnknownSetup, Until, VmShape, default_policies, reports,
};
pub use runner::{End, Progress, Ran, Runner};
pub use scenario::{Counts, PCPUS, Pcpus, Scenario, Shape, scenario_markdown, scenario_schema};
pub use simulated::{Simulation, TwinError, has_model, simulate_twin};
