//! The cells that are measured with guests: how each suite is set up, run and read.
//!
//! | module | measures |
//! |---|---|
//! | `fixed` | suites whose VMs exist from the start and exchange no frames: ticket to weights |
//! | `entry` | doorbells |
//! | `ending` | hackbench and volano, whose work has an end |
//! | `netbench` | clients, servers and VMs that are started in the window, with a folder for each step |
//! | `interactive` | probes beside a load |
//! | `partition`, `boot` | the suites of these names |
//! | `bare` | entry without a VM |
//!
//! `context` has what all cells of a run share, and `site` the place where one of them is measured. Cells of Linux
//! guests are in `linux`, simulated ones in `simulated`. The runner chooses among them.

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
