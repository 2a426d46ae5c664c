//! The result of a comparison: writes its report, prints its table, and checks its demands.

use super::demands::Demands;
use super::failure::Failure;
use super::output;
use serde_json::json;
use std::path::{Path, PathBuf};
use stile_compare::{End, Options, Ran, STEPS, remove_steps};
use stile_config::PolicyConfig;
use stile_report::{table, writer};
use stile_results::model::{Report, RunContext};
use stile_results::raw;
use tracing::warn;

/// The error when figures were measured but the report could not be written.
#[derive(Debug, thiserror::Error)]
#[error("the report cannot be written; every sample is in {}", samples.display())]
struct Unwritten {
    samples: PathBuf,
    #[source]
    source: writer::WriteError,
}

/// The result of a comparison.
pub(super) struct Outcome {
    /// Facts for the report.
    pub(super) host: serde_json::Value,
    pub(super) ran: Ran,
    pub(super) simulated: bool,
}

/// Writes the report and prints its table. The table is printed even where the report cannot be written.
pub(super) fn write(out: &Path, parts: &[Options], outcome: Outcome, demands: &Demands) -> Result<(), Failure> {
    let Outcome { host, ran: Ran { samples, mut notes, disturbed, recordings, steps, end }, simulated } = outcome;
    let end = match end {
        // An earlier report in the folder is kept.
        End::Failed(error) if samples.is_empty() => return Err(Failure::run(error)),
        End::Interrupted if samples.is_empty() => {
            warn!("The run was interrupted before anything was measured; there is no report of it.");
            return Err(Failure::Interrupted);
        }
        end => end,
    };
    let complete = matches!(end, End::Complete);
    notes.splice(0..0, demands.notes.iter().cloned());
    let about = RunContext {
        host,
        notes,
        disturbed,
        simulated,
        interrupted: !complete,
        reference: demands.reference.clone(),
        ..RunContext::default()
    };
    let report = Report::from_samples(&samples, context(parts, about));
    let written = writer::write_all(out, &report, &samples).inspect(|written| {
        // Recordings of an earlier run in the folder belong to no report any more.
        writer::remove_recordings(&written.raw, &recordings);
        remove_steps(&out.join(STEPS), &steps);
    });
    let place = written.as_ref().map_or(String::new(), |written| format!("\nreport: {}\n", written.html.display()));
    let shown = output::print(format_args!("{}{place}", table::terminal(&report, table::Screen::detect())));
    let unwritten = written.err().map(|source| match simulated {
        true => Failure::run(source),
        false => Failure::run(Unwritten { samples: out.join("raw").join(raw::JSON_LINES), source }),
    });
    if !complete {
        // The build server learns that the run was ended early.
        demands.tell(&report, None).unwrap_or_else(|failure| failure.tell());
    }
    match (end, unwritten) {
        (End::Failed(error), unwritten) => {
            // The cause of the end is printed last, and decides the exit code.
            unwritten.into_iter().for_each(|failure| failure.tell());
            Err(Failure::run(error))
        }
        (_, Some(failure)) => Err(failure),
        (End::Interrupted, None) => Err(Failure::Interrupted),
        (End::Complete, None) => shown.and(demands.meet(&report)),
    }
}

/// The facts of a report besides its figures: `about`, the command, the policies and the seed.
fn context(parts: &[Options], mut about: RunContext) -> RunContext {
    let mut policies: Vec<&(String, PolicyConfig)> = Vec::new();
    for policy in parts.iter().flat_map(|options| &options.policies) {
        if !policies.contains(&policy) {
            policies.push(policy);
        }
    }
    let full = policies.iter().map(|(label, policy)| (label.clone(), json!(policy)));
    about.host["policies"] = serde_json::Value::Object(full.collect());
    RunContext {
        command: std::env::args().collect(),
        policies: policies.iter().map(|(label, _)| label.clone()).collect(),
        seed: parts.first().map_or(0, |options| options.seed),
        ..about
    }
}
