//! Comparing policies: the same guests, on the same pCPUs, under one policy after the other.
//!
//! A run is rounds of *cells*: one policy with one size, in fresh VMs in a fresh domain, with a warm-up before the
//! measured window, or with work that has an end, which is waited for. Within a round the policies of one size follow
//! each other directly, in an order drawn anew each time, so that what drifts on the host meets all of them; ratios
//! pair the samples of one round.
//!
//! | module | concern |
//! |---|---|
//! //! | `plan` | the request: suites, sizes, setups, parameters, rounds; and the cells to run, in order |
//! //! | `scenario` | the request as the file of `stile sim` writes it |
//! | `error` | why a comparison cannot go on |
//! //! | `workload` | command lines and memory of guests |
//! //! | `window` | readings before and after the window, their audit, and the metrics made of them |
//! //! | `measurement` | the result of a cell |
//! | `cells` | how each suite is measured with guests |
//! //! | `linux` | how suites are measured with Linux guests |
//! //! | `simulated` | how suites are simulated |
//! //! | `runner` | runs a plan cell by cell, records, and reports progress and disturbances |
//!
//! Each module uses only those above it. [`stile_suites`] describes the suites. Only `runner/dispatch` tells suites
//! apart.
//!
//! Terms: a *case* is a size and a *setup*, such as one pCPU or all. A *cell* is a case under a policy in a round, as
//! planned and as measured. A *site* is where a cell is measured: its domain and pCPUs. A *window* lies between two
//! *readings* of guests and scheduler. A *step* is the folder that netbench keeps of a cell.
//!
//! Data flow one way: the command line makes [`Options`], these make a [`Plan`], and a [`Runner`] measures a cell for
//! each entry of the plan. A cell computes its metrics from a window. The crate `stile-report` shows the samples.

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
pub use linux::outside::stay_outside;
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
