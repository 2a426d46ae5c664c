//! What happens on a node, line by line.

use super::answer::failed;
use super::args::EventsArgs;
use crate::cli::failure::Failure;
use crate::cli::output;
use serde_json::Value;

pub(super) fn events(args: &EventsArgs) -> Result<(), Failure> {
    let client = args.node.client()?;
    for event in client.events::<Value>("/v1/events").map_err(failed)? {
        let event = event.map_err(failed)?;
        match args.node.json {
            true => output::line(format_args!("{event}"))?,
            false => output::line(format_args!("{}", text(&event)))?,
        }
    }
    Ok(())
}

/// The event's name, then all that belongs to it.
fn text(event: &Value) -> String {
    let at = event["at"].as_f64().unwrap_or_default();
    let name = event["event"].as_str().unwrap_or("?");
    let rest = event.as_object().into_iter().flatten().filter(|(key, _)| !["at", "event"].contains(&key.as_str()));
    let rest: Vec<String> = rest
        .map(|(key, value)| match value.as_str() {
            Some(text) => format!("{key}={text}"),
            None => format!("{key}={value}"),
        })
        .collect();
    format!("{at:.3} {name} {}", rest.join(" "))
}
