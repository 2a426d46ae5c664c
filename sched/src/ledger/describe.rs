//! Events in words. The one place that has them.

use super::event::{Event, What};
use crate::ids::VcpuId;
use crate::policy::{Decision, Front, Placement, Why};
use crate::time::{Nanos, Time};
use crate::wait::{Wait, Yield};
use std::fmt;
use std::time::Duration;

/// Tells what happened, with vCPUs by these names.
pub fn describe(event: &Event, name: &dyn Fn(VcpuId) -> String) -> String {
    match event.what {
        What::Add { vcpu, nice, class, .. } => {
            format!("{} was taken in, class {class}, nice {}", name(vcpu), nice.get())
        }
        What::Resume { vcpu, placement } => format!("{} is no longer held back and {}", name(vcpu), placed(placement)),
        What::Depart { vcpu } => format!("{} leaves its shard", name(vcpu)),
        What::Arrive { vcpu, slot, placement: None } => format!("{} comes to the shard of {slot}", name(vcpu)),
        What::Arrive { vcpu, slot, placement: Some(placement) } => {
            format!("{} comes to the shard of {slot} and {}", name(vcpu), placed(placement))
        }
        What::KeepUp { slot, front: Front { stair, quota, contended } } => {
            let waits = if contended { "and vCPUs wait" } else { "and no vCPU waits" };
            let quota = span(quota);
            format!("the shard of {slot} takes over that others are on stair {stair} with quotas of {quota}, {waits}")
        }
        What::Taken { slot, time } => format!("{slot}: the host took {} from its vCPU", span(time)),
        What::Overran { slot } => format!("{slot}: its vCPU ran on beyond its lease by its own doing"),
        What::Charge { vcpu, time } => format!("{} pays for {} on other threads", name(vcpu), span(time)),
        What::Idled { vcpu, since } => format!("{} had idled for {}", name(vcpu), span(event.time.since(since))),
        What::Gap { lost } => format!("{lost} events are missing"),
        What::Remove { vcpu } => format!("{} left while it did not run", name(vcpu)),
        What::Wake { vcpu, by: None, placement } => format!("{} became runnable and {}", name(vcpu), placed(placement)),
        What::Wake { vcpu, by: Some(by), placement } => {
            format!("{} woke {}, which {}", name(by), name(vcpu), placed(placement))
        }
        What::Steal { slot, thief, taken: true } => format!("{} took {slot}, which was handed to another", name(thief)),
        What::Steal { slot, thief, taken: false } => format!("{} was refused {slot}, handed to another", name(thief)),
        What::Ask { slot, vcpu, why, decision } => {
            format!("{slot}: {}; {}", asked(vcpu, why, name), decided(event.time, vcpu, why, decision, name))
        }
    }
}

/// The event in words, with ids for names and exact times (unit: ns), for readers who compare single events.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.time.0, describe(self, &|vcpu| vcpu.to_string()))?;
        match self.what {
            What::Ask { decision: Decision { run: Some(lease), .. }, .. } if lease.until != Time::NEVER => {
                write!(f, " (until {})", lease.until.0)
            }
            _ => Ok(()),
        }
    }
}

fn placed(placement: Placement) -> String {
    match placement {
        Placement::Run(slot) => format!("was given {slot}, which was idle"),
        Placement::Preempt(slot) => format!("was queued ahead of the vCPU on {slot}, which has to ask"),
        Placement::Queue(None) => "was queued".to_owned(),
        Placement::Held => "was held back".to_owned(),
        Placement::Queue(Some(slot)) => format!("was queued; the vCPU on {slot} has to ask for a limit"),
    }
}

/// Which vCPU stopped on a slot, and why.
fn asked(vcpu: Option<VcpuId>, why: Why, name: &dyn Fn(VcpuId) -> String) -> String {
    let who = vcpu.map_or_else(|| "nobody".to_owned(), name);
    match why {
        Why::Free => "it was idle".to_owned(),
        Why::Exit => format!("{who} made an exit"),
        Why::Check => format!("{who} was interrupted"),
        Why::Block => format!("{who} waits for an event"),
        Why::Retire => format!("{who} ended"),
        Why::Yield(Yield { wait, again }) => {
            let again = if again { " again" } else { "" };
            match wait {
                Wait::Unknown => format!("{who} yielded{again}"),
                Wait::Spin => format!("{who} was seen spinning{again}"),
                Wait::Lock(holder) => format!("{who} yielded{again} to the lock's holder {}", name(holder)),
                Wait::Message(peer) => format!("{who} yielded{again} for a message from {}", name(peer)),
            }
        }
    }
}

fn decided(
    time: Time,
    before: Option<VcpuId>,
    why: Why,
    decision: Decision,
    name: &dyn Fn(VcpuId) -> String,
) -> String {
    let Decision { run, kick, pause, held } = decision;
    let mut text = match run {
        None => "nobody runs".to_owned(),
        Some(lease) => {
            let goes_on = before == Some(lease.vcpu) && !matches!(why, Why::Block | Why::Retire);
            let does = if goes_on { "goes on" } else { "runs" };
            let limit = match lease.until {
                Time::NEVER => "without a limit".to_owned(),
                until => format!("for {}", span(until.since(time))),
            };
            format!("{} {does} {limit}", name(lease.vcpu))
        }
    };
    if held {
        text.insert_str(0, "it is held back, and ");
    }
    if pause > Nanos::ZERO {
        text.push_str(&format!(" after a pause of {}", span(pause)));
    }
    kick.into_iter().for_each(|slot| text.push_str(&format!(", and {slot} has to ask")));
    text
}

/// A span of time, in the unit that suits it, with three digits.
pub(crate) fn span(span: Nanos) -> String {
    let seconds = Duration::from(span).as_secs_f64();
    let (value, unit) = match span.0 {
        0..1_000 => return format!("{} ns", span.0),
        1_000..1_000_000 => (seconds * 1e6, "us"),
        1_000_000..1_000_000_000 => (seconds * 1e3, "ms"),
        _ => (seconds, "s"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Slot;
    use crate::policy::Lease;

    fn words(what: What) -> String {
        describe(&Event { time: Time(1_000), what }, &|vcpu| format!("web/{}", vcpu.0))
    }

    #[test]
    fn an_answer_tells_who_stopped_why_and_who_runs_for_how_long() {
        let lock = Why::Yield(Yield { wait: Wait::Lock(VcpuId(2)), again: true });
        let run = Some(Lease { vcpu: VcpuId(2), until: Time(1_000) + Nanos::from_millis(6) });
        let decision = Decision { run, kick: Some(Slot(1)), pause: Nanos(7_500), held: false };
        assert_eq!(
            words(What::Ask { slot: Slot(0), vcpu: Some(VcpuId(1)), why: lock, decision }),
            "p0: web/1 yielded again to the lock's holder web/2; web/2 runs for 6.00 ms after a pause of 7.50 us, and p1 has \
             to ask"
        );
        let decision = Decision { run: Some(Lease { vcpu: VcpuId(1), until: Time::NEVER }), ..Decision::IDLE };
        let ask = What::Ask { slot: Slot(0), vcpu: Some(VcpuId(1)), why: Why::Check, decision };
        assert_eq!(words(ask), "p0: web/1 was interrupted; web/1 goes on without a limit");
        let decision = Decision { held: true, ..Decision::IDLE };
        let ask = What::Ask { slot: Slot(0), vcpu: Some(VcpuId(1)), why: Why::Check, decision };
        assert_eq!(words(ask), "p0: web/1 was interrupted; it is held back, and nobody runs");
        let idle = What::Ask { slot: Slot(3), vcpu: None, why: Why::Free, decision: Decision::IDLE };
        assert_eq!(words(idle), "p3: it was idle; nobody runs");
    }

    #[test]
    fn a_wake_tells_where_its_vcpu_went() {
        let wake = |placement| words(What::Wake { vcpu: VcpuId(7), by: None, placement });
        assert_eq!(wake(Placement::Queue(None)), "web/7 became runnable and was queued");
        assert!(wake(Placement::Run(Slot(2))).contains("given p2"));
        assert!(wake(Placement::Preempt(Slot(1))).contains("ahead of the vCPU on p1"));
    }

    #[test]
    fn spans_have_three_digits_and_a_unit_that_suits_them() {
        let texts = [7, 1_500, 25_000, 360_000, 12_345_678, 500_000_000, 1_250_000_000, 75_000_000_000]
            .map(|ns| span(Nanos(ns)));
        assert_eq!(texts, ["7 ns", "1.50 us", "25.0 us", "360 us", "12.3 ms", "500 ms", "1.25 s", "75.0 s"]);
    }
}
