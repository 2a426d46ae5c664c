//! The commands that look at things and start nothing: schema, doctor, show, check-report; and how a configuration is read.

use super::args::ShowArgs;
use super::demands::reference_among;
use super::{Failure, output};
use crate::compare::{scenario_markdown, scenario_schema};
use crate::config::{self, Config, LoadContext};
use crate::host::{HostFacts, allowed_cpus, diagnose, open_kvm};
use crate::report::plot::headline;
use crate::report::{check, format, table, view, writer};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Reads a configuration against this host.
pub(super) fn load(file: &Path) -> Result<Config, Failure> {
    let pcpus_available = allowed_cpus().map_err(Failure::run)?;
    let names = stile_guest_images::names();
    let context = LoadContext { pcpus_available, builtin_names: &names };
    let config = Config::load(file, &context).map_err(|e| Failure::Input(miette::Report::new(e)))?;
    if config.vms.is_empty() {
        return Err(Failure::Input(miette::miette!(
            help = "add a table [[vm]] with at least name and image, such as image = \"builtin:hello\"",
            "{} describes no virtual machine",
            file.display()
        )));
    }
    for (key, whose) in config.policy.meaningless() {
        eprintln!("warning: {key} means nothing under this algorithm: it is for {whose}");
    }
    if let Some(warning) = too_much_memory(config.memory(), HostFacts::gather().memory.total) {
        eprintln!("warning: {warning}");
    }
    Ok(config)
}

/// What to say of VMs that may use so much memory on a host that has so much (units: bytes). Guests' memory is the host's only
/// once they touch it, so more of it is no mistake yet.
fn too_much_memory(guests: u64, host: Option<u64>) -> Option<String> {
    let host = host.filter(|host| guests > *host)?;
    let [guests, host] = [guests, host].map(|bytes| format::bytes(bytes as f64));
    Some(format!(
        "the VMs have {guests} of memory together, and this host has {host}: once they use more than that, the kernel ends \
         this program or others"
    ))
}

pub(super) fn schema(of_simulation: bool, markdown: bool) -> Result<(), Failure> {
    match (of_simulation, markdown) {
        (false, false) => output::line(format_args!("{:#}", config::schema().as_value())),
        (true, false) => output::line(format_args!("{:#}", scenario_schema().as_value())),
        (false, true) => output::print(format_args!("{}", config::reference_markdown())),
        (true, true) => output::print(format_args!("{}", scenario_markdown())),
    }
}

pub(super) fn doctor(json: bool) -> Result<ExitCode, Failure> {
    let diagnosis = diagnose(HostFacts::gather());
    if json {
        output::line(format_args!("{:#}", diagnosis.json()))?;
    } else {
        output::print(format_args!("{}", diagnosis.text(std::io::stdout().is_terminal())))?;
    }
    Ok(ExitCode::from(diagnosis.exit_code()))
}

pub(super) fn costs() -> Result<(), Failure> {
    let kvm = open_kvm().map_err(Failure::NoKvm)?;
    let costs = crate::measure::costs(&kvm).map_err(Failure::run)?;
    if let Some(warning) = costs.warning() {
        output::note(format_args!("warning: {warning}\n  remedy: stop what else runs, and measure again"));
    }
    output::line(format_args!("{:#}", serde_json::to_value(costs).map_err(Failure::run)?))
}

/// The report that this is, or that is in this folder.
pub(super) fn report_in(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(writer::REPORT) } else { path.to_owned() }
}

pub(super) fn check_report(file: &Path) -> Result<(), Failure> {
    let file = report_in(file);
    let summary = check::check_report(&file).map_err(Failure::input)?;
    output::line(format_args!("{}: {summary}", file.display()))
}

pub(super) fn show(args: &ShowArgs) -> Result<(), Failure> {
    let mut report = check::read_report(&report_in(&args.file)).map_err(Failure::input)?;
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
