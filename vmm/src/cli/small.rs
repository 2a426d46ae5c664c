//! Small commands that start nothing: schema, doctor, show, check-report; and how commands read a configuration.

use super::args::ShowArgs;
use super::demands::reference_among;
use super::failure::Failure;
use super::output;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use stile_compare::{scenario_markdown, scenario_schema};
use stile_config::defaults::UNIKERNEL_MEMORY;
use stile_config::{Config, FileKind, LoadContext, PolicyConfig};
use stile_host::{HostFacts, allowed_cpus, diagnose, open_kvm};
use stile_recording::{ReadError, Recording};
use stile_report::plot::headline;
use stile_report::{check, table, view, writer};
use tracing::warn;

/// Reads a configuration and checks it against this host. `policy` replaces the file's. Warnings go to stderr.
pub(super) fn load(file: &Path, policy: Option<&PolicyConfig>) -> Result<Config, Failure> {
    let pcpus_available = allowed_cpus().map_err(Failure::run)?;
    let names = stile_guest_images::names();
    let context = LoadContext { pcpus_available, builtin_names: &names, policy: policy.cloned() };
    let config = Config::load(file, &context).map_err(|e| Failure::Input(miette::Report::new(e)))?;
    if config.vms.is_empty() {
        return Err(Failure::Input(miette::miette!(
            help = "add a table [[vm]] with at least name and image, such as image = \"builtin:hello\"",
            "{} describes no virtual machine",
            file.display()
        )));
    }
    for (key, whose) in config.policy.meaningless() {
        warn!("{key} means nothing under this algorithm: it is for {whose}");
    }
    if let Some(warning) = too_much_memory(config.memory(), HostFacts::gather().memory.total) {
        warn!("{warning}");
    }
    Ok(config)
}

/// Like [`load`], but there may be no VM, and no file.
pub(super) fn load_node(file: Option<&Path>, policy: Option<&PolicyConfig>) -> Result<Config, Failure> {
    let pcpus_available = allowed_cpus().map_err(Failure::run)?;
    let names = stile_guest_images::names();
    let context = LoadContext { pcpus_available, builtin_names: &names, policy: policy.cloned() };
    let invalid = |e| Failure::Input(miette::Report::new(e));
    let (name, text) = match file {
        Some(file) => {
            let text = stile_config::text_of(FileKind::Configuration, file).map_err(invalid)?;
            (file.display().to_string(), text)
        }
        None => ("no file".to_owned(), String::new()),
    };
    let config = Config::parse_node(&name, &text, &context).map_err(invalid)?;
    for (key, whose) in config.policy.meaningless() {
        warn!("{key} means nothing under this algorithm: it is for {whose}");
    }
    Ok(config)
}

/// The warning for VMs that may use more memory than the host has (units: bytes). That is not an error: guests take the
/// host's memory only when they touch it.
fn too_much_memory(guests: u64, host: Option<u64>) -> Option<String> {
    let host = host.filter(|host| guests > *host)?;
    let [guests, host] = [guests, host].map(|bytes| stile_text::bytes(bytes as f64));
    Some(format!(
        "the VMs have {guests} of memory together, and this host has {host}: once they use more than that, the kernel ends \
         this program or others"
    ))
}

pub(super) fn schema(of_simulation: bool, markdown: bool) -> Result<(), Failure> {
    match (of_simulation, markdown) {
        (false, false) => output::line(format_args!("{:#}", stile_config::schema().as_value())),
        (true, false) => output::line(format_args!("{:#}", scenario_schema().as_value())),
        (false, true) => output::print(format_args!("{}", stile_config::reference_markdown())),
        (true, true) => output::print(format_args!("{}", scenario_markdown())),
    }
}

pub(super) fn doctor(json: bool) -> Result<ExitCode, Failure> {
    let diagnosis = diagnose(HostFacts::gather(), UNIKERNEL_MEMORY.bytes());
    if json {
        output::line(format_args!("{:#}", diagnosis.json()))?;
    } else {
        output::print(format_args!("{}", diagnosis.text(std::io::stdout().is_terminal())))?;
    }
    Ok(ExitCode::from(diagnosis.exit_code()))
}

pub(super) fn costs() -> Result<(), Failure> {
    let kvm = open_kvm().map_err(Failure::NoKvm)?;
    let costs = stile_compare::measure::costs(&kvm).map_err(Failure::run)?;
    if let Some(warning) = costs.warning() {
        warn!(remedy = "stop other programs, and measure again", "{warning}");
    }
    output::line(format_args!("{:#}", serde_json::to_value(costs).map_err(Failure::run)?))
}

/// Reads the report at this path, or in the folder at this path.
pub(super) fn report_in(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(writer::REPORT) } else { path.to_owned() }
}

/// Refuses a recording in place of a report, and names the commands that read recordings.
fn no_recording(file: &Path) -> Result<(), Failure> {
    if matches!(Recording::open(file), Err(ReadError::File { .. } | ReadError::Foreign { .. })) {
        return Ok(());
    }
    let path = file.display();
    Err(Failure::Input(miette::miette!(
        help = format!(
            "`stile replay {path}` prints its figures, `stile why VCPU {path}` explains the longest wait of a vCPU, `stile trace \
             {path}` makes a trace for ui.perfetto.dev"
        ),
        "{path} is a recording, not a report"
    )))
}

pub(super) fn check_report(file: &Path) -> Result<(), Failure> {
    let file = report_in(file);
    no_recording(&file)?;
    let summary = check::check_report(&file).map_err(Failure::input)?;
    output::line(format_args!("{}: {summary}", file.display()))
}

pub(super) fn show(args: &ShowArgs) -> Result<(), Failure> {
    let file = report_in(&args.file);
    no_recording(&file)?;
    let mut report = check::read_report(&file).map_err(Failure::input)?;
    if let Some(named) = &args.reference {
        let reference = reference_among(&view::policies(&report), named)?;
        report = report.with_reference(&reference);
    }
    if let Some(path) = &args.svg {
        let figure = headline::svg(&report).map_err(Failure::input)?;
        return writer::write_figure(path, &figure).map_err(Failure::run);
    }
    let table =
        if args.markdown { table::markdown(&report) } else { table::terminal(&report, table::Screen::detect()) };
    output::print(format_args!("{table}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_with_more_memory_than_the_host_are_warned_of_with_both() {
        let told = too_much_memory(3300 << 30, Some(24 << 30)).unwrap();
        assert!(told.contains("3.22 TiB of memory together, and this host has 24.0 GiB"), "{told}");
        assert_eq!((too_much_memory(24 << 30, Some(24 << 30)), too_much_memory(1 << 50, None)), (None, None));
    }
}
