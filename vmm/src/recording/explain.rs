//! Why a vCPU of a recording waited: the analysis of [`stile_sched::ledger::why`], with names and in words.

mod text;

use super::names::Names;
use super::reader::{ReadError, Recording};
use crate::report::format;
use serde::Serialize;
use std::path::PathBuf;
use stile_sched::ledger::why::{BEGINNINGS, Cause, Explanation, Scene, Summary, Waits};
use stile_sched::{Nanos, Time};

/// Why there is nothing to explain.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The recording.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Nobody is called so.
    #[error("there is no vCPU `{name}` in {}; {}", path.display(), there_are(names))]
    Nobody {
        /// What was asked for.
        name: String,
        /// The recording.
        path: PathBuf,
        /// Who there is.
        names: Vec<String>,
    },
}

/// As many names are told in a message.
const NAMES_TOLD: usize = 24;

fn there_are(names: &[String]) -> String {
    let told = names.iter().take(NAMES_TOLD).map(String::as_str).collect::<Vec<_>>();
    let more = names.len() - told.len();
    let list = format::list(&told);
    if more > 0 { format!("there are {list} and {more} more") } else { format!("there are {list}") }
}

/// Times in nanoseconds, moments since the recording began.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// Whom it is about.
    pub vcpu: String,
    /// Under which policy.
    pub policy: String,
    /// On a pCPU.
    pub run_ns: u64,
    /// Runnable without one.
    pub wait_ns: u64,
    /// Blocked.
    pub idle_ns: u64,
    /// Number of waits.
    pub waits: u64,
    /// Median of the waits.
    pub wait_p50_ns: u64,
    /// 99th percentile of the waits.
    pub wait_p99_ns: u64,
    /// How waits began.
    pub beginnings: Vec<Beginning>,
    /// The longest wait; `None` if it never waited.
    pub longest: Option<Longest>,
    /// Events that the recording has lost: what it tells may have holes.
    pub lost: u64,
}

/// Waits that began in one way.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Beginning {
    /// How.
    pub how: &'static str,
    /// How many.
    pub waits: u64,
    /// How long, in all.
    pub ns: u64,
}

/// The longest wait.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Longest {
    /// When it began.
    pub from_ns: u64,
    /// When it ended.
    pub to_ns: u64,
    /// What it was: `turns`, `quota`, `lock`, `message`, `kick` or `nobody`.
    pub cause: &'static str,
    /// Whose doing it was.
    pub culprit: Option<String>,
    /// The conclusion, in a sentence.
    pub verdict: String,
    /// Who waited for whom.
    pub chain: Vec<String>,
    /// Who ran meanwhile, longest first.
    pub ran: Vec<Ran>,
    /// For how long pCPUs had nobody on them meanwhile, in all.
    pub free_ns: u64,
}

/// Who ran during a wait.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ran {
    /// Who.
    pub vcpu: String,
    /// The slot.
    pub slot: u16,
    /// The host CPU.
    pub cpu: u32,
    /// How long.
    pub ns: u64,
    /// Part of the wait.
    pub share: f64,
    /// In how many turns.
    pub turns: u64,
}

/// Looks for the longest wait of a vCPU, given by name or id.
pub fn explain(recording: &Recording, name: &str) -> Result<Answer, ExplainError> {
    let (header, names) = (recording.header(), recording.names());
    let mut waits = Waits::new(header.slots(), |vcpu, at| names.is(name, vcpu, at));
    for event in recording.events()? {
        waits.tell(&event?);
    }
    let summary = waits.finish();
    if summary.run + summary.wait + summary.idle == Nanos::ZERO {
        let (name, path) = (name.to_owned(), recording.path().to_owned());
        return Err(ExplainError::Nobody { name, path, names: names.all() });
    }
    let longest = match summary.longest {
        Some(wait) => {
            let mut scene = Scene::new(wait, header.slots());
            for event in recording.events()? {
                if !scene.tell(&event?) {
                    break;
                }
            }
            Some(longest(recording, &scene.explain()))
        }
        None => None,
    };
    Ok(answer(recording, name, &summary, longest))
}

fn answer(recording: &Recording, name: &str, summary: &Summary, longest: Option<Longest>) -> Answer {
    let beginnings = BEGINNINGS.into_iter().zip(summary.by_beginning).filter(|(_, (waits, _))| *waits > 0);
    Answer {
        vcpu: name.to_owned(),
        policy: recording.header().policy.to_string(),
        run_ns: summary.run.0,
        wait_ns: summary.wait.0,
        idle_ns: summary.idle.0,
        waits: summary.waits.count(),
        wait_p50_ns: summary.waits.quantile(0.5).0,
        wait_p99_ns: summary.waits.quantile(0.99).0,
        beginnings: beginnings.map(|(how, (waits, time))| Beginning { how, waits, ns: time.0 }).collect(),
        longest,
        lost: recording.header().lost,
    }
}

fn longest(recording: &Recording, why: &Explanation) -> Longest {
    let (header, wait) = (recording.header(), why.wait);
    // Ids mean whom they meant at the end of the wait.
    let called = Called { names: recording.names(), at: wait.to };
    let cpus: Vec<u32> = header.pcpus.iter().collect();
    let ran = why.ran.iter().map(|ran| Ran {
        vcpu: called.so(ran.vcpu),
        slot: ran.slot.0,
        cpu: cpus[ran.slot.index()],
        ns: ran.time.0,
        share: ran.time.0 as f64 / wait.time().0 as f64,
        turns: ran.turns,
    });
    let start = Time(header.start);
    Longest {
        from_ns: wait.from.since(start).0,
        to_ns: wait.to.since(start).0,
        cause: match why.cause {
            Cause::Turns => "turns",
            Cause::Quota => "quota",
            Cause::Lock => "lock",
            Cause::Message => "message",
            Cause::Kick { .. } => "kick",
            Cause::Nobody => "nobody",
        },
        culprit: why.culprit.map(|culprit| called.so(culprit)),
        verdict: text::verdict(why, &called),
        chain: why.chain.iter().map(|link| text::link(link, &called)).collect(),
        ran: ran.collect(),
        free_ns: why.free.0,
    }
}

/// Names at one time.
struct Called<'a> {
    names: &'a Names,
    at: Time,
}

impl Called<'_> {
    fn so(&self, vcpu: stile_sched::VcpuId) -> String {
        self.names.of(vcpu, self.at)
    }
}
