//! How a node schedules: told and changed.

use super::answer::{escaped, failed};
use super::args::{Asked, ChangeArgs, ChangeOptions, PcpusArgs, PolicyArgs, PsArgs, SetArgs};
use crate::cli::failure::Failure;
use hyper::Method;
use serde_json::{Map, Value, json};
use stile_api::{Change, PcpusView, PolicyView};
use stile_host::CpuList;

impl ChangeOptions {
    fn query(&self) -> String {
        let within = self.confirm_within.map(|within| format!("&confirm_within={within}")).unwrap_or_default();
        format!("dry_run={}{within}", self.dry_run)
    }
}

pub(super) fn set(args: &SetArgs) -> Result<(), Failure> {
    let body: Map<String, Value> = args.settings.iter().map(|(key, value)| (key.clone(), typed(value))).collect();
    let target = format!("/v1/vms/{}/scheduling?{}", escaped(&args.vm), args.change.query());
    changed(&args.node, Method::PATCH, &target, &Value::Object(body))
}

pub(super) fn policy(args: &PolicyArgs) -> Result<(), Failure> {
    let body = match &args.policy {
        Some(policy) => json!({ "policy": policy.to_string() }),
        None if !args.keys.is_empty() => {
            let mut keys = json!({});
            for (key, value) in &args.keys {
                // A key of a table below [policy] is written with a dot.
                match key.split_once('.') {
                    Some((table, key)) => keys[table][key] = typed(value),
                    None => keys[key] = typed(value),
                }
            }
            json!({ "keys": keys })
        }
        None => {
            let view: PolicyView = args.node.client()?.get("/v1/policy").map_err(failed)?;
            return args.node.print(&view, |view| format!("{}\n", view.policy));
        }
    };
    changed(&args.node, Method::PUT, &format!("/v1/policy?{}", args.change.query()), &body)
}

pub(super) fn pcpus(args: &PcpusArgs) -> Result<(), Failure> {
    let Some(pcpus) = &args.pcpus else {
        let view: PcpusView = args.node.client()?.get("/v1/pcpus").map_err(failed)?;
        let list = |cpus: &[u32]| cpus.iter().copied().collect::<CpuList>();
        return args
            .node
            .print(&view, |view| format!("{} of {} that could be taken\n", list(&view.pcpus), list(&view.available)));
    };
    let body = json!({ "pcpus": pcpus.iter().collect::<Vec<u32>>() });
    changed(&args.node, Method::PUT, &format!("/v1/pcpus?{}", args.change.query()), &body)
}

/// A value as JSON: a number or a switch if it looks like one, else a text.
fn typed(value: &str) -> Value {
    match serde_json::from_str(value) {
        Ok(value @ (Value::Number(_) | Value::Bool(_))) => value,
        _ => value.into(),
    }
}

fn changed(node: &Asked, method: Method, target: &str, body: &Value) -> Result<(), Failure> {
    let change: Change = node.client()?.send(method, target, Some(body)).map_err(failed)?;
    node.print(&change, text)
}

pub(super) fn changes(args: &PsArgs) -> Result<(), Failure> {
    let changes: Vec<Change> = args.node.client()?.get("/v1/changes").map_err(failed)?;
    args.node.print(&changes, |changes| match changes.is_empty() {
        true => "nothing was changed\n".to_owned(),
        false => changes.iter().map(text).collect(),
    })
}

pub(super) fn settle(args: &ChangeArgs, what: &str) -> Result<(), Failure> {
    let change: Change = args.node.client()?.post(&format!("/v1/changes/{}/{what}", args.id)).map_err(failed)?;
    args.node.print(&change, text)
}

fn text(change: &Change) -> String {
    format!("{change}\n")
}
