//! The cells that are measured with guests: how each suite is set up, run and read.
//!
//! | module | measures |
//! |---|---|
//! | `fixed` | suites whose VMs are there from the start and only compute with each other: ticket to weights |
//! | `entry` | doorbells |
//! | `ending` | hackbench and volano, whose work has an end |
//! | `netbench` | clients, servers and newcomers, with a folder for each step |
//! | `interactive` | probes beside a load |
//! | `partition`, `boot` | what their names say |
//! | `bare` | entry without a VM |
//!
//! `context` is what all cells of a run share, `site` where one of them is measured. Cells of Linux guests are in
//! `compare/linux`, those without guests in `compare/simulated`; the runner chooses among them.

pub(super) mod at_once;
pub(super) mod bare;
pub(super) mod boot;
pub(super) mod context;
pub(super) mod ending;
pub(super) mod entry;
pub(super) mod fixed;
pub(super) mod interactive;
pub(super) mod netbench;
pub(super) mod partition;
pub(super) mod site;
