//! Puts all questions of a recording to a policy like the recorded one, and compares the answers.

use super::reader::{ReadError, Recording};
use stile_sched::ledger::{Replay, Stop};

/// Why a recording cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The recording cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The policy has no object.
    #[error("the recording says it is of `{policy}`, under which the host's scheduler decides: the file is damaged")]
    NoPolicy {
        /// Name of the policy.
        policy: String,
    },
}

/// The result of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// Number of equal answers.
    pub compared: u64,
    /// Where the replay ended, if not at the end of the recording.
    pub stopped: Option<Stop>,
}

/// Replays a recording, up to the first difference.
pub fn replay(recording: &Recording) -> Result<Replayed, ReplayError> {
    let header = recording.header();
    let no_policy = || ReplayError::NoPolicy { policy: header.policy.to_string() };
    let decides = header.decides().ok_or_else(no_policy)?;
    let mut replay = Replay::new(decides.policies, decides.plan);
    for event in recording.events()? {
        if let Err(stop) = replay.tell(&event?) {
            return Ok(Replayed { compared: replay.compared(), stopped: Some(stop) });
        }
    }
    Ok(Replayed { compared: replay.compared(), stopped: None })
}
