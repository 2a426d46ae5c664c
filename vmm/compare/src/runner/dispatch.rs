//! Selects the code that measures a cell: the one place that tells suites apart. The `match` names every suite, so that
//! a new suite does not compile until its code is named.

use crate::cells::site::Site;
use crate::cells::{boot, ending, entry, fixed, interactive, partition};
use crate::error::CompareError;
use crate::linux;
use crate::measurement::Measured;
use crate::plan::linux::Linux;
use stile_suites::Suite;

/// Measures a cell on its sites; `None` if the user ended it. `step` measures cells of netbench, on one site or on
/// several with a part of the clients each. All other suites have one site.
pub(super) fn measure<'a>(
    sites: &[Site<'a>],
    step: impl FnOnce(&[Site<'a>]) -> Result<Measured, CompareError>,
) -> Result<Measured, CompareError> {
    let Some(site) = sites.first() else { return Ok(None) };
    let options = site.context.options;
    if let Some(linux) = &options.linux {
        return of_linux(site, linux);
    }
    match options.suite {
        Suite::Netbench => step(sites),
        Suite::Ticket | Suite::Pingpong | Suite::Mixed | Suite::Threeway | Suite::Probe | Suite::Hogs => {
            fixed::measure(site)
        }
        Suite::Weights => fixed::measure_weights(site),
        Suite::Theft => fixed::measure_variants(site),
        Suite::Entry => entry::measure(site),
        Suite::Interactive => interactive::measure(site),
        Suite::Partition => partition::measure(site),
        Suite::Boot => boot::measure(site),
        Suite::Hackbench | Suite::Volano => ending::measure(site),
        suite @ (Suite::Tbench | Suite::Cyclictest | Suite::Stress | Suite::Pigz | Suite::Sysbench) => {
            Err(CompareError::NoGuests { suite, kind: "built-in" })
        }
    }
}

/// Measures a cell with Linux guests.
fn of_linux(site: &Site<'_>, linux: &Linux) -> Result<Measured, CompareError> {
    match site.context.options.suite {
        Suite::Boot => match linux.peer_of(site.planned.policy) {
            Some(peer) => linux::peer::measure(site, linux, peer),
            None => linux::boot::measure(site, linux),
        },
        Suite::Hackbench => linux::hackbench::measure(site, linux),
        Suite::Tbench => linux::tbench::measure(site, linux),
        Suite::Cyclictest => linux::cyclictest::measure(site, linux),
        Suite::Stress => linux::stress::measure(site, linux),
        Suite::Pigz => linux::pigz::measure(site, linux),
        Suite::Sysbench => linux::sysbench::measure(site, linux),
        suite @ (Suite::Netbench
        | Suite::Ticket
        | Suite::Pingpong
        | Suite::Mixed
        | Suite::Threeway
        | Suite::Probe
        | Suite::Hogs
        | Suite::Weights
        | Suite::Theft
        | Suite::Entry
        | Suite::Interactive
        | Suite::Partition
        | Suite::Volano) => Err(CompareError::NoGuests { suite, kind: "Linux" }),
    }
}
