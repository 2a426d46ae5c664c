//! A simulated cell of a suite whose work has an end, as [`ending`] measures one: the window lasts from the opening of
//! the gates until the last VM is done.

use super::stage::Stage;
use crate::cells::ending;
use crate::error::CompareError;
use crate::measurement::{Measured, Measurement};
use crate::plan::work::Work;
use crate::window::Window;
use crate::window::metrics::detail;
use serde_json::json;
use std::ops::RangeInclusive;
use std::path::Path;
use stile_results::model::Params;
use stile_sched::Nanos;
use stile_sched::sim::{Room, THREADS_PER_USER};

/// Users of a room, as in the guest.
const USERS: RangeInclusive<u32> = 2..=64;
/// Messages of each user, as in the guest.
const MESSAGES: RangeInclusive<u64> = 1..=1_000_000;
/// Simulated time between two checks whether all VMs are done.
const LOOK_EVERY: Nanos = Nanos::from_millis(1);

/// The window of a cell whose VMs are at their gates; `None` if the user ended the run.
pub(super) fn measure(
    stage: &mut Stage<'_>,
    work: Work,
    recording: Option<(&Path, Params)>,
) -> Result<Measured, CompareError> {
    let before = stage.read();
    let begun = stage.machine.now();
    stage.machine.open_gates();
    let ended = loop {
        if !stage.run(LOOK_EVERY) {
            return Ok(None);
        }
        if let Some(ended) = stage.machine.world.ended() {
            break ended;
        }
        if stage.machine.now().since(begun) > Nanos::from(work.deadline()) {
            return Err(stuck(stage, work));
        }
    };
    let span = stage.machine.now().since(begun);
    let window = Window { seconds: ended.since(begun).0 as f64 / 1e9, ..stage.window(&before, &stage.read(), span) };
    if let Some((path, params)) = recording {
        stage.record(path, params)?;
    }
    stage.judge()?;
    let mut detail = detail(&window);
    detail["decisions"] = json!(stage.machine.decisions());
    Ok(Measurement::only(ending::values(&window), detail))
}

/// Makes the rooms.
pub(super) fn build(stage: &mut Stage<'_>, work: Work) -> Result<(), CompareError> {
    let users = work.vcpus / THREADS_PER_USER as u32;
    let messages = stage.options.number("messages");
    let wrong = match (USERS.contains(&users), MESSAGES.contains(&messages)) {
        (false, _) => Some(format!("wants {} to {} users", USERS.start(), USERS.end())),
        (_, false) => Some(format!("wants {} to {} messages of each user", MESSAGES.start(), MESSAGES.end())),
        _ => None,
    };
    if let Some(why) = wrong {
        return Err(CompareError::Broken { name: vm_name(stage), label: stage.label(), why });
    }
    for room in 0..work.vms {
        stage.machine.world.rooms.push(Room::new((room * work.vcpus) as usize, users, messages as u32));
    }
    Ok(())
}

/// The error for work that does not end.
fn stuck(stage: &Stage<'_>, work: Work) -> CompareError {
    let received: u64 = stage.machine.world.gauges.iter().map(|gauge| gauge.ops).sum();
    let how_far = format!("had received {received} of {} messages", work.all_messages());
    CompareError::Stuck { name: vm_name(stage), label: stage.label(), how_far, limit: work.deadline() }
}

fn vm_name(stage: &Stage<'_>) -> String {
    stage.options.suite.name().to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{options, simulation, values};
    use super::*;
    use crate::plan::Plan;
    use crate::plan::options::Options;
    use std::sync::atomic::AtomicBool;
    use stile_suites::Metric;
    use stile_suites::Suite;

    fn rooms(policies: &[&str], size: u32, pcpus: u32, set: &[(&str, u64)]) -> Options {
        let settings = set.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect();
        Options { settings, duration: None, ..options(Suite::Volano, policies, size, pcpus) }
    }

    #[test]
    fn a_cell_lasts_until_the_last_message_of_the_last_room_is_heard() {
        let options = rooms(&["host", "rsdl"], 2, 2, &[("users", 3), ("messages", 50)]);
        for values in values(&options) {
            let heard = values[&Metric::Throughput] * values[&Metric::RunTime] / 1e6;
            assert!((heard - 2.0 * 3.0 * 2.0 * 50.0).abs() < 1e-6, "{heard}");
        }
    }

    #[test]
    fn what_the_guest_refuses_is_refused() {
        for set in [("users", 1), ("users", 65), ("messages", 0)] {
            let options = rooms(&["rsdl"], 1, 1, &[set]);
            let (simulation, go_on) = (simulation(), AtomicBool::new(false));
            let cell = Plan::new(&options).cells.remove(0);
            let refused = super::super::measure(&options, &simulation, &cell, None, &go_on);
            assert!(matches!(refused, Err(CompareError::Broken { .. })), "{set:?}");
        }
    }
}
