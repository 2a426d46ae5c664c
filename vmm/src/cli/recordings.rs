//! Commands on recordings: `stile trace`, `stile why`, `stile replay`.

use super::failure::Failure;
use super::output;
use comfy_table::{CellAlignment, Table, presets};
use serde_json::json;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use stile_recording::chrome::{self, TraceError};
use stile_recording::explain::explain;
use stile_recording::figures::{Figures, YieldCounts, figures};
use stile_recording::replay::{Replayed, replay as ask_again};
use stile_recording::{Header, Recording};
use stile_sched::ledger::Stop;
use stile_text::{si, time_us};
use tracing::warn;

/// Opens a recording. Warns if it was not finished.
pub(super) fn open(path: &Path) -> Result<Recording, Failure> {
    let recording = Recording::open(path).map_err(Failure::input)?;
    if let Some(after) = recording.ended_early().map_err(Failure::input)? {
        warn!(
            "{} ended early, at {:.3} s: the run that wrote it died, and its vCPUs have ids for names, such as v0",
            path.display(),
            after.0 as f64 / 1e9
        );
    }
    Ok(recording)
}

pub(super) fn trace(path: &Path, out: Option<&Path>, force: bool) -> Result<(), Failure> {
    let recording = open(path)?;
    let written = match out {
        Some(out) => chrome::write(&recording, &mut BufWriter::new(created(out, path, force)?)),
        None => chrome::write(&recording, &mut BufWriter::new(io::stdout().lock())),
    };
    match (written, out) {
        (Ok(()), _) => Ok(()),
        (Err(TraceError::Read(error)), _) => Err(Failure::input(error)),
        (Err(TraceError::Write(error)), None) => Err(output::failure(error)),
        (Err(error), Some(out)) => {
            Err(Failure::Run(miette::Report::from_err(error).wrap_err(format!("--out {}", out.display()))))
        }
    }
}

/// The file for the trace. One that exists is overwritten only with `force`.
fn created(out: &Path, recording: &Path, force: bool) -> Result<File, Failure> {
    let canonical = |path: &Path| path.canonicalize().ok();
    if canonical(recording).is_some_and(|recording| canonical(out) == Some(recording)) {
        return Err(Failure::Input(miette::miette!(
            help = "name another file",
            "--out {}: the trace would take the place of the recording",
            out.display()
        )));
    }
    output::not_there("--out", out, force)?;
    File::create(out).map_err(|error| {
        Failure::Input(miette::miette!(
            help = "name a file in a folder that is there and can be written to",
            "--out: cannot write {}: {error}",
            out.display()
        ))
    })
}

pub(super) fn why(name: &str, path: &Path, as_json: bool) -> Result<(), Failure> {
    if !path.exists() && Path::new(name).is_file() {
        let right = format!("stile why {} {name}", path.display());
        return Err(Failure::Input(miette::miette!(
            help = format!("the vCPU comes first: {right}"),
            "{name} is a file, where the name of a vCPU or a VM is expected"
        )));
    }
    let recording = open(path)?;
    let vcpus = recording.names().of_vm_named(name);
    if vcpus.is_empty() {
        let answer = explain(&recording, name).map_err(Failure::input)?;
        let text = if as_json { format!("{:#}\n", json!(answer)) } else { answer.to_string() };
        return output::print(format_args!("{text}"));
    }
    // A VM: all of its vCPUs, one after the other.
    let answers = vcpus.iter().map(|vcpu| explain(&recording, vcpu).map_err(Failure::input));
    let answers = answers.collect::<Result<Vec<_>, _>>()?;
    if as_json {
        return output::line(format_args!("{:#}", json!(answers)));
    }
    let texts: Vec<String> = answers.iter().map(ToString::to_string).collect();
    output::print(format_args!("{}", texts.join("\n")))
}

pub(super) fn replay(path: &Path, as_json: bool) -> Result<(), Failure> {
    let recording = open(path)?;
    let replayed = ask_again(&recording).map_err(Failure::input)?;
    let figures = figures(&recording).map_err(Failure::input)?;
    let difference = verdict(&replayed);
    if as_json {
        let equal = replayed.stopped.is_none();
        let replay = json!({"compared": replayed.compared, "equal": equal, "difference": difference});
        output::line(format_args!("{:#}", json!({"replay": replay, "figures": figures})))?;
    } else {
        let header = recording.header();
        output::line(format_args!("{} under {} on pCPUs {}", header.workload, header.policy, header.pcpus))?;
        print_figures(&figures)?;
    }
    tell(replayed, difference, as_json)
}

/// Replays a recording and prints only whether all decisions are equal.
pub(super) fn replay_quietly(recording: &Recording) -> Result<(), Failure> {
    let replayed = ask_again(recording).map_err(Failure::input)?;
    let difference = verdict(&replayed);
    tell(replayed, difference, false)
}

fn tell(replayed: Replayed, difference: Option<String>, as_json: bool) -> Result<(), Failure> {
    match (replayed.stopped, difference) {
        (Some(Stop::Gap { .. }), Some(told)) => {
            warn!("{told}");
            Ok(())
        }
        (_, Some(told)) => Err(Failure::Run(miette::miette!("{}", told))),
        (_, None) if as_json => Ok(()),
        (_, None) => output::line(format_args!("{} decisions replayed, all the same", replayed.compared)),
    }
}

/// The difference or gap that ended a replay, in words; `None` if it came to the recording's end.
fn verdict(replayed: &Replayed) -> Option<String> {
    let same = replayed.compared;
    Some(match replayed.stopped.as_ref()? {
        Stop::Gap { lost } => {
            format!("{lost} events are missing after {same} decisions that are the same, so the replay ends there")
        }
        Stop::Contradicts(event) => {
            format!(
                "after {same} equal decisions there is an event that cannot be: {event}; the file is damaged, record the run anew"
            )
        }
        Stop::Differs(difference) => {
            let replayed = difference.replayed.map_or("nothing".to_owned(), |event| event.to_string());
            let before: String = difference.before.iter().map(|event| format!("\n    {event}")).collect();
            format!(
                "after {same} decisions that are the same, the policy decides otherwise: it, or how it is made, has changed \
                 since\n  recorded {}\n  replayed {replayed}\n  before that{before}",
                difference.recorded
            )
        }
    })
}

/// Prints the figures of a measured run and of its simulated twin, and the ratio of each.
pub(super) fn print_twins(header: &Header, measured: &Figures, simulated: &Figures) -> Result<(), Failure> {
    let params: Vec<String> = header.params.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let params = params.join(", ");
    output::line(format_args!("{} under {} on pCPUs {}: {params}", header.workload, header.policy, header.pcpus))?;
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["", "measured", "simulated", "ratio"]);
    for ((name, is_time, one), (_, _, other)) in measured.overall().into_iter().zip(simulated.overall()) {
        let told = |value: f64| if is_time { time_us(value / 1e3) } else { si(value) };
        let ratio = if one > 0.0 { format!("{:.2}", other / one) } else { "-".to_owned() };
        table.add_row([name.to_owned(), told(one), told(other), ratio]);
    }
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    output::line(format_args!("{table}"))
}

fn print_figures(figures: &Figures) -> Result<(), Failure> {
    let time = |ns: u64| time_us(ns as f64 / 1e3);
    let yields = |counts: YieldCounts| format!("{} / {}", counts.switched, counts.stayed);
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["vCPU", "run", "wait", "idle", "taken", "wait p50", "p99", "max", "turns"]);
    for vcpu in &figures.vcpus {
        let times = [vcpu.run_ns, vcpu.wait_ns, vcpu.idle_ns, vcpu.taken_ns];
        let waits = [vcpu.wait_p50_ns, vcpu.wait_p99_ns, vcpu.wait_max_ns];
        let cells = std::iter::once(vcpu.vcpu.clone()).chain(times.map(time)).chain(waits.map(time));
        let cells = cells.chain([vcpu.turns.to_string()]);
        table.add_row(cells);
    }
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    output::line(format_args!("{table}"))?;
    output::line(format_args!(
        "{} of it: {} switches/s, {} migrations/s, kicks p50 {} p99 {}",
        time(figures.span_ns),
        si(figures.switches_per_s),
        si(figures.migrations_per_s),
        time(figures.kick_p50_ns),
        time(figures.kick_p99_ns),
    ))?;
    let by_kind = figures.yields;
    output::line(format_args!(
        "yields that switched / stayed: for locks {}, for messages {}, without a word {}",
        yields(by_kind.lock),
        yields(by_kind.message),
        yields(by_kind.unknown)
    ))
}
