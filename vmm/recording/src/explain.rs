//! Why a vCPU of a recording waited: the analysis of [`stile_sched::ledger::why`], with names and in sentences.

mod text;

use super::names::Names;
use super::reader::{ReadError, Recording};
use serde::Serialize;
use std::path::PathBuf;
use stile_sched::ledger::why::{BEGINNINGS, Cause, Explanation, Scene, Summary, Waits};
use stile_sched::{Nanos, Time};

/// Why there is no explanation.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The recording cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// No vCPU has this name.
    #[error("there is no vCPU `{name}` in {}; {}", path.display(), there_are(names))]
    Nobody {
        /// The requested name.
        name: String,
        /// The recording.
        path: PathBuf,
        /// The known names.
        names: Vec<String>,
    },
}

/// The most names that a message lists.
const NAMES_TOLD: usize = 24;

fn there_are(names: &[String]) -> String {
    let told = names.iter().take(NAMES_TOLD).map(String::as_str).collect::<Vec<_>>();
    let more = names.len() - told.len();
    let list = stile_text::list(&told);
    if more > 0 { format!("there are {list} and {more} more") } else { format!("there are {list}") }
}

/// Times in nanoseconds, moments since the recording began.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// Name of the vCPU.
    pub vcpu: String,
    /// Name of the policy.
    pub policy: String,
    /// On a pCPU.
    pub run_ns: u64,
    /// Runnable without one.
    pub wait_ns: u64,
    /// Blocked.
    pub idle_ns: u64,
    /// The time that the host took while it had a pCPU.
    pub taken_ns: u64,
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
    /// Events that the recording has lost. Figures may be wrong by as much.
    pub lost: u64,
}

/// Waits with one cause of their beginning.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Beginning {
    /// The cause.
    pub how: &'static str,
    /// Number of these waits.
    pub waits: u64,
    /// Length of these waits, in all.
    pub ns: u64,
}

/// The longest wait.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Longest {
    /// When it began.
    pub from_ns: u64,
    /// When it ended.
    pub to_ns: u64,
    /// Its kind: `turns`, `quota`, `cap`, `lock`, `message`, `kick`, `host` or `nobody`.
    pub cause: &'static str,
    /// The vCPU that caused it.
    pub culprit: Option<String>,
    /// The conclusion, in a sentence.
    pub verdict: String,
    /// The chain of vCPUs in which each waited for the next.
    pub chain: Vec<String>,
    /// The vCPUs that ran meanwhile, longest first.
    pub ran: Vec<Ran>,
    /// Idle time of all pCPUs meanwhile.
    pub free_ns: u64,
    /// Time of all pCPUs that the host took meanwhile.
    pub taken_ns: u64,
}

/// A vCPU that ran during a wait.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ran {
    /// Name of the vCPU.
    pub vcpu: String,
    /// The slot.
    pub slot: u16,
    /// The host CPU.
    pub cpu: u32,
    /// Its run time.
    pub ns: u64,
    /// Part of the wait.
    pub share: f64,
    /// Number of its turns.
    pub turns: u64,
}

/// Explains the longest wait of a vCPU, given by name or id.
pub fn explain(recording: &Recording, name: &str) -> Result<Answer, ExplainError> {
    let (header, names) = (recording.header(), recording.names());
    let mut waits = Waits::new(header.slots(), |vcpu, at| names.is(name, vcpu, at));
    for event in recording.events()? {
        waits.tell(&event?);
    }
    let summary = waits.finish();
    if summary.run + summary.wait + summary.idle + summary.taken == Nanos::ZERO {
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
        taken_ns: summary.taken.0,
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
    // Ids name the vCPUs that had them at the end of the wait.
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
            Cause::Cap => "cap",
            Cause::Lock => "lock",
            Cause::Message => "message",
            Cause::Kick { .. } => "kick",
            Cause::Host { .. } => "host",
            Cause::Nobody => "nobody",
        },
        culprit: why.culprit.map(|culprit| called.so(culprit)),
        verdict: text::verdict(why, &called),
        chain: why.chain.iter().map(|link| text::link(link, &called)).collect(),
        ran: ran.collect(),
        free_ns: why.free.0,
        taken_ns: why.taken.0,
    }
}

/// The names at one time.
struct Called<'a> {
    names: &'a Names,
    at: Time,
}

impl Called<'_> {
    fn so(&self, vcpu: stile_sched::VcpuId) -> String {
        self.names.of(vcpu, self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Tape, us};
    use stile_sched::Wait;
    use stile_sched::policy::Why;

    /// A client that was woken behind a hog.
    fn behind_a_hog() -> Tape {
        let mut tape = Tape::new("freelist", 1);
        let (hog, client) = (tape.add(0, "hog", 0, us(1)), tape.add(1, "client", 3, us(1)));
        tape.wake(hog, us(2));
        tape.ask(0, Why::Free, us(3));
        tape.wake(client, us(1_003));
        assert_eq!(tape.ask(0, Why::Check, us(6_003)), Some(client));
        tape.ask(0, Why::Check, us(7_000));
        tape
    }

    #[test]
    fn the_culprit_is_told_by_name_with_when_where_and_how_long() {
        let (_file, recording) = behind_a_hog().save(&[]);
        for name in ["client/3", "v1"] {
            let answer = explain(&recording, name).unwrap();
            let longest = answer.longest.as_ref().unwrap();
            assert_eq!((longest.from_ns, longest.to_ns), (1_003_000, 6_003_000));
            assert_eq!((longest.cause, longest.culprit.as_deref()), ("turns", Some("hog/0")));
            assert_eq!((longest.ran[0].cpu, longest.ran[0].ns, longest.ran[0].turns), (0, 5_000_000, 1));
            assert_eq!((answer.waits, answer.wait_ns, answer.run_ns), (1, 5_000_000, 997_000));
            let text = answer.to_string();
            assert!(text.contains("p0 (CPU 0): hog/0 ran 5.00 ms (100 %) in 1 turn"), "{text}");
            assert!(text.ends_with("cause: turns: hog/0 ran longest in its place, 5.00 ms of it\n"), "{text}");
        }
    }

    #[test]
    fn a_chain_of_locks_is_told_link_by_link() {
        let mut tape = Tape::new("freelist", 1);
        let [holder, waiter, hog] = [(0, "a"), (1, "b"), (2, "hog")].map(|(id, vm)| tape.add(id, vm, 0, us(1)));
        tape.wake(holder, us(2));
        tape.ask(0, Why::Free, us(3));
        [waiter, hog].into_iter().for_each(|vcpu| tape.wake(vcpu, us(6_000)));
        assert_eq!(tape.ask(0, Why::Check, us(6_003)), Some(waiter));
        assert_eq!(tape.yields(0, Wait::Lock(holder), us(6_010)), Some(hog));
        assert_eq!(tape.ask(0, Why::Check, us(12_010)), Some(holder));
        let (_file, recording) = tape.save(&[]);
        let longest = explain(&recording, "b/0").unwrap().longest.unwrap();
        assert_eq!((longest.cause, longest.culprit.as_deref()), ("lock", Some("hog/0")));
        let link = "b/0 yielded for a lock held by a/0, which meanwhile waited 6.00 ms; its lease was used up";
        assert_eq!(longest.chain, [link]);
        let verdict = "the lock's holder a/0 had to wait itself, while hog/0 ran longest, 6.00 ms of the wait";
        assert_eq!(longest.verdict, verdict);
    }

    #[test]
    fn who_is_not_there_is_told_with_who_is() {
        let (_file, recording) = behind_a_hog().save(&[]);
        let error = explain(&recording, "server/0").unwrap_err().to_string();
        assert!(error.contains("`server/0`") && error.ends_with("there are hog/0 and client/3"), "{error}");
    }
}
