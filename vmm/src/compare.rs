//! Comparing policies: the same guests, on the same pCPUs, under one policy after the other.
//!
//! A run is rounds of *cells*: one policy with one size, in fresh VMs in a fresh domain, with a warm-up before the
//! measured window, or with work that has an end, which is waited for. Within a round the policies of one size follow each
//! other directly, in an order drawn anew each time, so that what drifts on the host meets all of them; ratios pair the
//! samples of one round.

mod audit;
mod bare;
mod boot;
mod calibrate;
mod case;
mod cell;
mod chat;
mod disturbed;
mod interactive;
mod jitter;
mod load;
mod metrics;
mod moment;
mod netbench;
mod options;
mod partition;
mod plan;
mod progress;
mod reports;
mod runner;
mod scenario;
mod simulated;
mod site;
mod step;
mod twin;
mod until;
mod weights;
mod window;
mod workload;

pub use case::{Case, Machine, Setup, UnknownSetup, VmShape};
pub use load::Load;
pub use options::{Hint, Options, default_policies};
pub use plan::Plan;
pub use progress::Progress;
pub use reports::reports;
pub use runner::{CompareError, End, Ran, Runner};
pub use scenario::{Counts, Pcpus, Scenario, ScenarioError, Shape};
pub use simulated::{Simulation, has_model};
pub use twin::{TwinError, simulate_twin};
pub use until::Until;
