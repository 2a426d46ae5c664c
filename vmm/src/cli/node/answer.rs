//! The answers of a node: asked for, printed, and told as failures.

use super::args::Asked;
use crate::cli::failure::Failure;
use crate::cli::output;
use serde::Serialize;
use std::fmt::Write;
use stile_client::{Client, ClientError};

impl Asked {
    /// The node.
    pub(super) fn client(&self) -> Result<Client, Failure> {
        let path = self.socket.clone().unwrap_or_else(stile_serve::default_path);
        Client::new(&path).map_err(Failure::run)
    }

    /// Prints an answer: as JSON, or as this text.
    pub(super) fn print<T: Serialize>(&self, answer: &T, text: impl FnOnce(&T) -> String) -> Result<(), Failure> {
        match self.json {
            true => output::line(format_args!("{}", json(answer))),
            false => output::print(format_args!("{}", text(answer))),
        }
    }
}

pub(super) fn json(answer: &impl Serialize) -> String {
    serde_json::to_string_pretty(answer).unwrap_or_default()
}

/// The failure of a request, with what to do about it.
pub(super) fn failed(error: ClientError) -> Failure {
    let mut text = error.to_string();
    if let ClientError::Problem(problem) = &error {
        // Where there are several mistakes, each is told with what is accepted.
        for finding in problem.findings.iter().filter(|_| problem.findings.len() > 1) {
            let accepted = finding.accepted.as_ref().map(|accepted| format!(" ({accepted})")).unwrap_or_default();
            let _ = write!(text, "\n  {}: {}{accepted}", finding.key, finding.wrong);
        }
    }
    if let ClientError::NoNode { source, .. } = &error {
        let _ = write!(text, ": {source}");
    }
    let report = match error.remedy() {
        Some(remedy) => miette::miette!(help = remedy, "{text}"),
        None => miette::miette!("{text}"),
    };
    match error {
        ClientError::Problem(_) => Failure::Input(report),
        _ => Failure::Run(report),
    }
}

/// A part of a path, in which all but letters and digits is written as its number.
pub(super) fn escaped(part: &str) -> String {
    part.bytes().fold(String::new(), |mut path, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => path.push(byte.into()),
            _ => {
                // A string takes all.
                let _ = write!(path, "%{byte:02X}");
            }
        }
        path
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_paths_are_escaped() {
        assert_eq!(escaped("web-0_a.b"), "web-0_a.b");
        assert_eq!(escaped("a/b c?ü"), "a%2Fb%20c%3F%C3%BC");
    }
}
