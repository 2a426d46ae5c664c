//! Comparing policies: the same guests, on the same pCPUs, under one policy after the other.
//!
//! A run is rounds of *cells*: one policy with one size, in fresh VMs in a fresh domain, with a warm-up before the
//! measured window, or with work that has an end, which is waited for. Within a round the policies of one size follow
//! each other directly, in an order drawn anew each time, so that what drifts on the host meets all of them; ratios
//! pair the samples of one round.
//!
//! | module | concern |
//! |---|---|
//! | `plan` | what is asked for: suites, sizes, setups, parameters, rounds; and what is run for that, in which order |
//! | `scenario` | the same as the file of `stile sim` says it |
//! | `error` | why a comparison cannot go on |
//! | `workload` | how guests are made |
//! | `window` | what is read before and after, its audit, and the metrics that are made of it |
//! | `measurement` | what a cell gives |
//! | `cells` | how each suite is measured with guests |
//! | `linux` | the same where guests are Linux |
//! | `simulated` | the same without guests |
//! | `runner` | runs a plan cell by cell, records, and tells how far it is and what disturbed it |
//!
//! Each uses those above it, and none below. What there is to say of a suite is said in [`stile_suites`]; only
//! `runner/dispatch` tells suites apart.
//!
//! Words: a *case* is a size and a *setup*, such as one pCPU or all; a *cell* is a case under a policy in a round, as
//! planned and as measured; a *site* is where it is measured, its domain and pCPUs; its *window* is what is between two
//! *readings* of guests and scheduler; a *step* is what netbench keeps of a cell besides.
//!
//! It goes from the top to the bottom: the command line makes [`Options`], these make a [`Plan`], a [`Runner`] has a
//! cell measured for each line of it, and the cell takes its metrics from a window. What becomes of samples is none of
//! this: that is the crate `stile-report`.

mod cells;
mod error;
mod linux;
pub mod measure;
mod measurement;
mod plan;
mod runner;
mod scenario;
mod simulated;
mod window;
mod workload;

pub use cells::netbench::step::{STEPS, remove_steps};
pub use error::CompareError;
pub use plan::case::Case;
pub use plan::linux::{Linux, Peer};
pub use plan::options::{Hint, Options, default_policies, labelled};
pub use plan::reports::reports;
pub use plan::settings::{SettingError, check as check_settings};
pub use plan::sizes::{SizeError, check as check_sizes, divisions};
pub use plan::until::Until;
pub use plan::{CellPlan, Plan};
pub use runner::progress::Progress;
pub use runner::{End, Ran, Runner};
pub use scenario::schema::{scenario_markdown, scenario_schema};
pub use scenario::{Counts, PCPUS, Pcpus, Scenario, Shape};
pub use simulated::stage::Simulation;
pub use simulated::twin::{TwinError, simulate_twin};
