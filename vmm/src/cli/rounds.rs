//! Plans the parts of a comparison and runs them, one after the other.

use super::failure::Failure;
use crate::diagnostics;
use std::io::IsTerminal;
use std::time::Duration;
use stile_compare::{End, Options, Plan, Progress, Ran, Runner, divisions};
use stile_recording::recordable;
use tracing::info;

/// Runs one part after the other, until one ends early.
pub(super) fn run_all<'a>(
    parts: &'a [Options],
    announcement: impl Fn(&Plan, &Options) -> String,
    mut runner: impl FnMut(&'a Options) -> Runner<'a>,
) -> Ran {
    let plans: Vec<Plan> = parts.iter().map(Plan::new).collect();
    plans.iter().zip(parts).for_each(|(plan, options)| info!("{}", announcement(plan, options)));
    let divisions: Vec<String> = parts.iter().flat_map(divisions).collect();
    divisions.iter().for_each(|division| info!("{division}"));
    let has_bar = diagnostics::show_progress() && std::io::stderr().is_terminal();
    let mut progress = Progress::new(plans.iter().map(Plan::estimate).sum(), has_bar);
    progress.bar().into_iter().for_each(|bar| diagnostics::stay_above(bar, None));
    let mut all = Ran { notes: divisions, ..Ran::default() };
    let mut planned = Duration::ZERO;
    for (plan, options) in plans.iter().zip(parts) {
        let Ran { samples, notes, mut disturbed, recordings, steps, end } = runner(options).run(plan, &mut progress);
        all.samples.extend(samples);
        all.recordings.extend(recordings);
        all.steps.extend(steps);
        // With several parts, a note names its part.
        let suite = if parts.len() > 1 { format!("{}: ", options.suite) } else { String::new() };
        all.notes.extend(notes.into_iter().map(|note| suite.clone() + &note));
        disturbed.notes.iter_mut().for_each(|note| note.insert_str(0, &suite));
        all.disturbed.add(disturbed);
        all.end = end;
        if !matches!(all.end, End::Complete) {
            break;
        }
        planned += plan.estimate();
        progress.reached(planned);
    }
    progress.finish();
    all
}

/// With `--record`, at least one policy must have decisions to record.
pub(super) fn recordings_possible(options: &Options) -> Result<(), Failure> {
    let mut refused = None;
    for (_, policy) in &options.policies {
        match recordable(policy) {
            Ok(()) => return Ok(()),
            Err(error) => refused = Some(error),
        }
    }
    refused.map_or(Ok(()), |error| Err(Failure::input(error)))
}
