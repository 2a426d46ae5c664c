//! Why a request was not carried out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use stile_config::ConfigError;

/// The kind of a problem, which decides the status of the HTTP answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The request is malformed, or asks for what never can be (400).
    Invalid,
    /// The client may not do this (403).
    Forbidden,
    /// There is no such thing (404).
    NotFound,
    /// The thing is in a state in which that cannot be done, or the request contradicts this host or itself (409).
    Conflict,
    /// The request has more bytes than are taken (413).
    TooLarge,
    /// The host cannot do it: it lacks a feature, a right, memory, or descriptors (422).
    Unsupported,
    /// It was not done in time (504).
    TimedOut,
    /// A mistake in stile (500).
    Internal,
}

/// A mistake in a request, at one of its keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The key, such as `memory`; empty for the request as a whole.
    pub key: String,
    /// The mistake.
    pub wrong: String,
    /// What is accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<String>,
}

/// Why a request was not carried out. Nothing has changed, unless the message says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
pub struct Problem {
    /// The kind.
    pub reason: Reason,
    /// What is wrong: it names the thing and the place.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Each mistake in the request, where they can be told apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}

impl Problem {
    /// A problem of this kind.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), remedy: None, findings: Vec::new() }
    }

    /// With what to do about it.
    #[must_use]
    pub fn remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }

    /// A problem of this kind with an error and its causes.
    pub fn of(reason: Reason, what: impl fmt::Display, error: &dyn std::error::Error) -> Self {
        let causes = std::iter::successors(Some(error), |cause| cause.source()).map(ToString::to_string);
        let mut told: Vec<String> = Vec::new();
        causes.for_each(|cause| {
            // An error that is its source in other words says it once.
            if told.last() != Some(&cause) {
                told.push(cause);
            }
        });
        Self::new(reason, format!("{what}: {}", told.join(": ")))
    }

    /// Mistakes in a request, as the configuration file's checks found them. `within` leads to the request's own table.
    pub fn of_config(within: &str, error: &ConfigError) -> Self {
        let own_key = |key: &str| key.strip_prefix(within).unwrap_or(key).trim_start_matches('.').to_owned();
        let findings: Vec<Finding> = error
            .problems()
            .iter()
            .map(|problem| Finding {
                key: own_key(problem.key()),
                wrong: problem.wrong().to_owned(),
                accepted: problem.accepted().map(ToOwned::to_owned),
            })
            .collect();
        let told = findings.iter().map(|finding| match finding.key.as_str() {
            "" => finding.wrong.clone(),
            key => format!("{key}: {}", finding.wrong),
        });
        let message = told.collect::<Vec<_>>().join("; ");
        let remedy = match findings.as_slice() {
            [only] => only.accepted.clone(),
            _ => None,
        };
        let reason = if error.is_by_schema() { Reason::Invalid } else { Reason::Conflict };
        Self { reason, message, remedy, findings }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
