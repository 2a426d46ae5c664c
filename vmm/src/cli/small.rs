//! The commands that look at things and start nothing: schema, doctor, show, check-report; and how a configuration is read.

use super::Failure;
use crate::config::{self, Config, LoadContext};
use crate::host::{HostFacts, allowed_cpus, diagnose, open_kvm};
use crate::report::check;
use crate::report::table;
use std::io::IsTerminal;
use std::path::Path;
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
    Ok(config)
}

pub(super) fn schema(markdown: bool) -> Result<(), Failure> {
    if markdown {
        print!("{}", config::reference_markdown())
    } else {
        println!("{:#}", config::schema().as_value())
    }
    Ok(())
}

pub(super) fn doctor(json: bool) -> ExitCode {
    let diagnosis = diagnose(HostFacts::gather());
    if json {
        println!("{:#}", diagnosis.json());
    } else {
        print!("{}", diagnosis.text(std::io::stdout().is_terminal()));
    }
    ExitCode::from(diagnosis.exit_code())
}

pub(super) fn costs() -> Result<(), Failure> {
    let kvm = open_kvm().map_err(Failure::NoKvm)?;
    let costs = crate::measure::costs(&kvm).map_err(Failure::run)?;
    println!("{:#}", serde_json::to_value(costs).map_err(Failure::run)?);
    Ok(())
}

pub(super) fn check_report(file: &Path) -> Result<(), Failure> {
    let summary = check::check_report(file).map_err(Failure::input)?;
    println!("{}: {summary}", file.display());
    Ok(())
}

pub(super) fn show(file: &Path, markdown: bool) -> Result<(), Failure> {
    let report = check::read_report(file).map_err(Failure::input)?;
    if markdown {
        print!("{}", table::markdown(&report));
    } else {
        print!("{}", table::terminal(&report, table::Screen::detect()));
    }
    Ok(())
}
