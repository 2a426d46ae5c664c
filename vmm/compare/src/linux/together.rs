//! Guests that run a program each, all at the same time: they are made, wait at their gates, and the gates are opened
//! at once. The window lasts from then until the last program has ended.

use super::lab::{Guest, Lab};
use crate::cells::site::Site;
use crate::error::CompareError;
use crate::plan::linux::Linux;
use crate::window::Window;
use std::time::Duration;
use stile_sched::time::monotonic;

/// Guests whose programs have ended, and the window.
pub(super) struct Together {
    pub(super) guests: Vec<Guest>,
    pub(super) window: Window,
}

/// Runs a program in each guest of a cell, by orders that wait at the gate before it. The guests have the program's
/// name and a number. Returns nothing if the user ended the run. A program that takes longer than the limit is an
/// error.
pub(super) fn run(
    site: &Site<'_>,
    linux: &Linux,
    program: &str,
    orders: &str,
    limit: Duration,
) -> Result<Option<Together>, CompareError> {
    let vms = site.planned.case.size;
    let lab = Lab::new(site, linux, vms);
    let guests = (0..vms).map(|n| lab.guest(&format!("{program}-{n}"), orders, None));
    let guests = guests.collect::<Result<Vec<Guest>, _>>()?;
    if !lab.gather(&guests)? {
        return Ok(None);
    }
    let (before, begun) = (lab.read(&guests), monotonic());
    guests.iter().try_for_each(|guest| lab.open(guest))?;
    if !lab.until(&guests, limit, |heard| heard.ended(program).is_some(), "was not done")? {
        return Ok(None);
    }
    let window = lab.window(&guests, &before)?;
    let ended = guests.iter().filter_map(|guest| guest.heard(|heard| heard.ended(program))).max().unwrap_or(begun);
    let window = Window { seconds: ended.since(begun).0 as f64 / 1e9, ..window };
    Ok(Some(Together { guests, window }))
}

impl Together {
    /// What a program printed in each guest, line by line.
    pub(super) fn printed(&self, program: &str) -> Vec<Vec<String>> {
        self.guests.iter().map(|guest| guest.heard(|heard| heard.output(program).to_vec())).collect()
    }

    /// The figures that are read from what a program printed in each guest. The first guest without figures is an
    /// error, with the end of what it printed.
    pub(super) fn figures<T>(
        &self,
        site: &Site<'_>,
        program: &str,
        read: impl Fn(&[String]) -> Option<T>,
    ) -> Result<Vec<T>, CompareError> {
        let of = |(guest, printed): (&Guest, Vec<String>)| {
            let last = || printed[printed.len().saturating_sub(LAST_LINES)..].join(" | ");
            let name = || guest.vm.status().name().to_owned();
            read(&printed).ok_or_else(|| CompareError::Broken {
                name: name(),
                label: site.label.to_owned(),
                why: format!("has measured nothing ({})", last()),
            })
        };
        self.guests.iter().zip(self.printed(program)).map(of).collect()
    }
}

/// The lines of a program's output that an error quotes if it has measured nothing.
const LAST_LINES: usize = 4;
