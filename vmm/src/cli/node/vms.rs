//! VMs of a node: listed, created, started, paused, stopped, deleted.

use super::answer::{escaped, failed, json};
use super::args::{CreateArgs, DeleteArgs, PsArgs, StopArgs, VmArgs, VmsArgs};
use crate::cli::failure::Failure;
use crate::cli::output;
use crate::cli::small;
use comfy_table::{CellAlignment, Table, presets};
use hyper::Method;
use std::fmt::Write;
use std::path::{Path, absolute};
use stile_api::{Figures, VmDetails, VmInfo};
use stile_config::VmConfig;
use stile_text::{bytes, time_us};

pub(super) fn ps(args: &PsArgs) -> Result<(), Failure> {
    let vms: Vec<VmInfo> = args.node.client()?.get("/v1/vms").map_err(failed)?;
    args.node.print(&vms, |vms| if vms.is_empty() { "there are no VMs\n".to_owned() } else { table(vms) })
}

fn table(vms: &[VmInfo]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["NAME", "STATE", "KIND", "VCPUS", "MEMORY", "NICE", "CLASS", "CAP", "ENDED"]);
    for vm in vms {
        table.add_row([
            vm.name.clone(),
            vm.state.name().to_owned(),
            word(&vm.kind),
            vm.vcpus.to_string(),
            bytes(vm.memory_bytes as f64),
            vm.nice.to_string(),
            word(&vm.class),
            vm.cap.map_or("-".to_owned(), |cap| cap.cpus().to_string()),
            vm.outcome.clone().unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    for column in [3, 4, 5, 7] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("{}\n", table.trim_fmt())
}

/// The name of a variant, as JSON has it.
fn word(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(ToOwned::to_owned)).unwrap_or_default()
}

pub(super) fn inspect(args: &VmArgs) -> Result<(), Failure> {
    let vm: VmDetails = args.node.client()?.get(&format!("/v1/vms/{}", escaped(&args.vm))).map_err(failed)?;
    args.node.print(&vm, details)
}

fn details(vm: &VmDetails) -> String {
    let VmInfo { name, state, kind, vcpus, memory_bytes, nice, class, cap, starts, outcome, .. } = &vm.info;
    let mut text = format!("{name}: {}, {} vCPUs, {} of memory\n", word(kind), vcpus, bytes(*memory_bytes as f64));
    let ended = outcome.as_ref().map(|outcome| format!("; ended the last time: {outcome}")).unwrap_or_default();
    let cap = cap.map_or("none".to_owned(), |cap| format!("{} CPUs", cap.cpus()));
    // A string takes all.
    let _ = writeln!(text, "  {}, started {starts} times{ended}", state.name());
    let _ = writeln!(text, "  nice {nice}, class {}, cap {cap}", word(class));
    if let Some(figures) = &vm.figures {
        let _ = writeln!(text, "  {}", told(figures));
    }
    for vcpu in &vm.vcpu_figures {
        let _ = writeln!(text, "    vCPU {}: {}", vcpu.index, told(&vcpu.figures));
    }
    for result in &vm.results {
        let _ = writeln!(text, "  {} = {}", result.name, result.value);
    }
    text
}

fn told(figures: &Figures) -> String {
    let p99 = figures.waits.and_then(|waits| waits.p99).map(|p99| format!(", waits p99 {}", time_us(p99 * 1e6)));
    format!(
        "run {:.3} s, ready {:.3} s, idle {:.3} s{}, {} exits",
        figures.run_seconds,
        figures.wait_seconds,
        figures.idle_seconds,
        p99.unwrap_or_default(),
        figures.exits
    )
}

pub(super) fn create(args: &CreateArgs) -> Result<(), Failure> {
    let config = small::load(&args.file, None)?;
    let client = args.node.client()?;
    let mut created: Vec<VmInfo> = Vec::new();
    for vm in &config.vms {
        for name in vm.instance_names() {
            let table = request(vm, &name)?;
            let query = format!("/v1/vms?start={}&dry_run={}", args.start, args.dry_run);
            let info = client.send(Method::POST, &query, Some(&table)).map_err(failed)?;
            created.push(info);
        }
    }
    let what = if args.dry_run { "could be created" } else { "created" };
    args.node.print(&created, |vms| vms.iter().map(|vm| format!("{} {what}, {}\n", vm.name, vm.state.name())).collect())
}

/// The keys of a VM under this name, with paths that do not depend on where the node was started.
fn request(vm: &VmConfig, name: &str) -> Result<serde_json::Value, Failure> {
    let mut table = serde_json::to_value(vm).map_err(Failure::run)?;
    table["name"] = name.into();
    table["count"] = 1.into();
    for key in ["/kernel", "/initrd", "/vsock", "/disk/path", "/image"] {
        if let Some(path) = table.pointer_mut(key)
            && let Some(text) = path.as_str().filter(|text| !text.starts_with("builtin:"))
        {
            *path = absolute(Path::new(text)).map_err(Failure::run)?.display().to_string().into();
        }
    }
    Ok(table)
}

/// Does the same to all, and goes on after one that it cannot be done to.
fn each(vms: &[String], mut one: impl FnMut(&str) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut outcome = Ok(());
    for vm in vms {
        if let Err(failure) = one(vm) {
            let earlier: Result<(), Failure> = std::mem::replace(&mut outcome, Err(failure));
            earlier.unwrap_or_else(|failure| failure.tell());
        }
    }
    outcome
}

pub(super) fn all(args: &VmsArgs, what: &str) -> Result<(), Failure> {
    let client = args.node.client()?;
    each(&args.vms, |vm| {
        let info: VmInfo = client.post(&format!("/v1/vms/{}/{what}", escaped(vm))).map_err(failed)?;
        told_state(&args.node, &info)
    })
}

fn told_state(node: &super::args::Asked, info: &VmInfo) -> Result<(), Failure> {
    match node.json {
        true => output::line(format_args!("{}", json(info))),
        false => output::line(format_args!("{} {}", info.name, info.state.name())),
    }
}

pub(super) fn stop(args: &StopArgs) -> Result<(), Failure> {
    let client = args.node.client()?.with_time_for(args.grace.duration());
    let mode = if args.hard { "hard" } else { "soft" };
    each(&args.vms, |vm| {
        let target = format!("/v1/vms/{}/stop?mode={mode}&grace={}", escaped(vm), args.grace);
        let info: VmInfo = client.post(&target).map_err(failed)?;
        told_state(&args.node, &info)
    })
}

pub(super) fn delete(args: &DeleteArgs) -> Result<(), Failure> {
    let client = args.node.client()?;
    each(&args.vms, |vm| {
        let target = format!("/v1/vms/{}?force={}", escaped(vm), args.force);
        client.send_bytes(Method::DELETE, &target, None).map_err(failed)?;
        match args.node.json {
            true => Ok(()),
            false => output::line(format_args!("{vm} deleted")),
        }
    })
}
