//! Decisions of a node: the last seconds, and recordings.

use super::answer::{escaped, failed};
use super::args::RecordArgs;
use crate::cli::args::{TraceArgs, WhyArgs};
use crate::cli::failure::Failure;
use crate::cli::output;
use hyper::Method;
use serde_json::{Value, json};
use std::io::Write;
use stile_api::RecordingView;

/// `stile trace --last`: the last seconds as a trace, or as a recording.
pub(in crate::cli) fn trace(args: &TraceArgs) -> Result<(), Failure> {
    let format = if args.recorded { "recording" } else { "chrome" };
    let last = args.last.map(|last| format!("&last={last}")).unwrap_or_default();
    if let Some(out) = &args.out {
        output::not_there("--out", out, args.force)?;
    }
    let target = format!("/v1/trace?format={format}{last}");
    let trace = args.node.client()?.get_bytes(&target).map_err(failed)?;
    match &args.out {
        Some(out) => std::fs::write(out, trace)
            .map_err(|e| Failure::Input(miette::miette!("--out: cannot write {}: {e}", out.display()))),
        None => std::io::stdout().lock().write_all(&trace).map_err(output::failure),
    }
}

/// `stile why VM/INDEX` without a recording: of a node's last seconds.
pub(in crate::cli) fn why(args: &WhyArgs) -> Result<(), Failure> {
    let vcpu = &args.vcpu;
    let Some((vm, index)) = vcpu.rsplit_once('/').filter(|(_, index)| index.parse::<u32>().is_ok()) else {
        return Err(Failure::Input(miette::miette!(
            help = "name a vCPU of a running VM, such as web/0; for a recording, name its file as well",
            "{vcpu:?} is not the name of a vCPU"
        )));
    };
    let last = args.last.map(|last| format!("?last={last}")).unwrap_or_default();
    let target = format!("/v1/vms/{}/vcpus/{index}/why{last}", escaped(vm));
    let answer: Value = args.node.client()?.get(&target).map_err(failed)?;
    args.node.print(&answer, |answer| match answer["text"].as_str() {
        Some(text) => text.to_owned(),
        None => format!("{answer:#}\n"),
    })
}

pub(super) fn record(args: &RecordArgs) -> Result<(), Failure> {
    let client = args.node.client()?;
    let view: RecordingView = match &args.name {
        Some(name) => client.send(Method::POST, "/v1/recording", Some(&json!({ "name": name }))),
        None if args.end => client.send(Method::DELETE, "/v1/recording", None::<&()>),
        None => client.get("/v1/recording"),
    }
    .map_err(failed)?;
    args.node.print(&view, |view| match (view.events, view.lost) {
        (Some(events), Some(lost)) => format!("{}: {events} events, {lost} lost\n", view.path),
        _ => format!("{}: being recorded\n", view.path),
    })
}
