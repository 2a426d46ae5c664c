//! Explanations in sentences.

use super::{Answer, Called, Longest};
use std::fmt;
use stile_sched::ledger::Began;
use stile_sched::ledger::why::{Cause, Explanation, Link};
use stile_sched::{Nanos, Wait};
use stile_text::time_us;

/// The most vCPUs that are named of those that ran.
const RAN_NAMED: usize = 8;

fn time(ns: u64) -> String {
    time_us(ns as f64 / 1e3)
}

/// The conclusion, in a sentence.
pub(super) fn verdict(why: &Explanation, called: &Called<'_>) -> String {
    let me = called.so(why.wait.vcpu);
    let culprit = why.culprit.map(|culprit| called.so(culprit)).unwrap_or_default();
    let ran = why.ran.iter().filter(|ran| Some(ran.vcpu) == why.culprit).map(|ran| ran.time.0).sum::<u64>();
    let end = why.chain.last();
    match why.cause {
        Cause::Turns => format!("{culprit} ran longest in its place, {} of it", time(ran)),
        Cause::Quota => format!("{me} had used up its quota, and other vCPUs had their turns"),
        Cause::Cap => format!("the VM of {me} had used up the CPU time that its cap allows"),
        Cause::Lock | Cause::Message => {
            let (what, who) = if why.cause == Cause::Lock { ("lock", "holder") } else { ("message", "sender") };
            match end {
                Some(end) if end.began == Some(Began::HeldBack) => {
                    format!("{culprit} was held back by its VM's cap while {me} waited for its {what}")
                }
                Some(end) if Some(end.target) == why.culprit => {
                    format!("{culprit} was blocked while {me} waited for its {what}")
                }
                Some(end) => format!(
                    "the {what}'s {who} {} had to wait itself, while {culprit} ran longest, {} of the wait",
                    called.so(end.target),
                    time(ran)
                ),
                None => format!("{culprit} ran longest"),
            }
        }
        Cause::Kick { slot, latency } => {
            format!("no vCPU caused it: {slot} asked the policy only {} after it was kicked", time(latency.0))
        }
        Cause::Host { slot, time: taken } => {
            let share = 100.0 * taken.0 as f64 / why.wait.time().0.max(1) as f64;
            let most = why.ran.first().map(|ran| {
                format!("; of the vCPUs {} ran longest meanwhile, {}", called.so(ran.vcpu), time(ran.time.0))
            });
            format!("the host had taken {slot} for {} of it ({share:.0} %){}", time(taken.0), most.unwrap_or_default())
        }
        Cause::Nobody => "no vCPU caused it: the pCPUs had no vCPU on them for most of the wait".to_owned(),
    }
}

/// A vCPU of the chain, and the vCPU that it waited for.
pub(super) fn link(link: &Link, called: &Called<'_>) -> String {
    let (waiter, target) = (called.so(link.waiter), called.so(link.target));
    let what = match link.wait {
        Wait::Lock(_) => "a lock held by",
        Wait::Message(_) => "a message from",
        Wait::Unknown | Wait::Spin => "something of",
    };
    let did = [(link.waited, "waited"), (link.ran, "ran"), (link.idled, "was blocked")];
    let did = did.iter().filter(|(span, _)| *span > Nanos::ZERO).map(|(span, what)| format!("{what} {}", time(span.0)));
    let did = did.collect::<Vec<_>>().join(", ");
    let because = link.began.filter(|_| link.waited > Nanos::ZERO).map(|began| match began {
        Began::Woken(_) => "it was woken into the queue",
        Began::Yielded(_) => "it yielded itself",
        Began::UsedUp => "its lease was used up",
        Began::GaveWay => "it had to make room",
        Began::Robbed => "its slot was taken before it had begun",
        Began::HeldBack => "its VM's cap held it back",
        Began::Resumed(_) => "the cap let it go on into the queue",
    });
    let because = because.map(|because| format!("; {because}")).unwrap_or_default();
    format!("{waiter} yielded for {what} {target}, which meanwhile {did}{because}")
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = (self.run_ns + self.wait_ns + self.idle_ns + self.taken_ns).max(1) as f64;
        let part = |ns: u64| format!("{} ({:.1} %)", time(ns), 100.0 * ns as f64 / all);
        writeln!(f, "{} under {}", self.vcpu, self.policy)?;
        let (run, wait, idle) = (part(self.run_ns), part(self.wait_ns), part(self.idle_ns));
        let taken =
            if self.taken_ns > 0 { format!(", and the host took {}", part(self.taken_ns)) } else { String::new() };
        writeln!(f, "  ran {run}, waited {wait}, idled {idle}{taken}")?;
        if self.lost > 0 {
            writeln!(f, "  {} events were lost: times may be wrong", self.lost)?;
        }
        let Some(longest) = &self.longest else { return writeln!(f, "  it never waited") };
        let (p50, p99) = (time(self.wait_p50_ns), time(self.wait_p99_ns));
        let most = time(longest.to_ns - longest.from_ns);
        writeln!(f, "  {} waits: median {p50}, p99 {p99}, longest {most}; they began because", self.waits)?;
        for beginning in &self.beginnings {
            writeln!(f, "    {}: {} waits, {} in all", beginning.how, beginning.waits, time(beginning.ns))?;
        }
        write!(f, "\n{longest}")
    }
}

impl fmt::Display for Longest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (self.from_ns as f64 / 1e9, self.to_ns as f64 / 1e9);
        writeln!(f, "its longest wait, {}, from {from:.6} s to {to:.6} s:", time(self.to_ns - self.from_ns))?;
        for link in &self.chain {
            writeln!(f, "  {link}")?;
        }
        for ran in self.ran.iter().take(RAN_NAMED) {
            let turns = if ran.turns == 1 { "1 turn".to_owned() } else { format!("{} turns", ran.turns) };
            let (share, ns) = (100.0 * ran.share, time(ran.ns));
            writeln!(f, "  p{} (CPU {}): {} ran {ns} ({share:.0} %) in {turns}", ran.slot, ran.cpu, ran.vcpu)?;
        }
        if self.ran.len() > RAN_NAMED {
            writeln!(f, "  and {} more ran", self.ran.len() - RAN_NAMED)?;
        }
        if self.free_ns > 0 {
            writeln!(f, "  pCPUs had no vCPU on them for {} in all", time(self.free_ns))?;
        }
        if self.taken_ns > 0 {
            writeln!(f, "  the host had taken pCPUs for {} in all", time(self.taken_ns))?;
        }
        writeln!(f, "cause: {}: {}", self.cause, self.verdict)
    }
}
