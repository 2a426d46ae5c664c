//! The report on a starved vCPU: what ran meanwhile, the events that led there, and all of it in words.

use crate::attributes::Attributes;
use crate::ids::VcpuId;
use crate::ledger::{Event, Trace, What, describe, span};
use crate::time::{Nanos, Time};
use std::collections::HashMap;
use std::fmt::Write;

/// Latest events that are told of the vCPU itself, and of its slots.
const ITS_OWN: usize = 5;
const OF_SLOTS: usize = 7;
/// Names that are told at most in a list.
const NAMES: usize = 6;

/// Whether the policy or the host caused a vCPU's wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The policy, or the threads that carry it out.
    Scheduler,
    /// The host ran something else on the pCPUs.
    Host,
}

/// A vCPU that waited for a pCPU beyond its bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Starvation {
    /// The vCPU.
    pub vcpu: VcpuId,
    /// What its policy knows of it.
    pub attributes: Attributes,
    /// How long, without a turn.
    pub waited: Nanos,
    /// How long it should have waited at most.
    pub bound: Nanos,
    /// What caused the wait.
    pub cause: Cause,
    /// How long the host was away meanwhile, in time of the whole domain.
    pub away: Nanos,
    /// Others beyond their bounds, and how long they have waited.
    pub others: Vec<(VcpuId, Nanos)>,
    /// When this was found.
    pub at: Time,
    /// What happened meanwhile, as far as it is recorded.
    pub meanwhile: Meanwhile,
}

/// What happened while a vCPU waited.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Meanwhile {
    /// How far back the record of all slots reaches within the wait.
    pub recorded: Nanos,
    /// How long each vCPU ran in that time, longest first.
    pub ran: Vec<(VcpuId, Nanos)>,
    /// The latest events that concern the vCPU, and the latest of all, oldest first.
    pub events: Vec<Event>,
}

impl Starvation {
    /// All of it, in a block of lines, with vCPUs by these names.
    pub fn text(&self, name: &dyn Fn(VcpuId) -> String) -> String {
        let Self { vcpu, waited, bound, away, .. } = *self;
        let mut text = format!("vCPU {} waited {} for a pCPU; its bound is {}", name(vcpu), span(waited), span(bound));
        match self.cause {
            Cause::Host => {
                let _ = write!(
                    text,
                    ". The host kept the pCPUs from it for {} of that: not the policy's fault",
                    span(away)
                );
            }
            Cause::Scheduler if away > Nanos::ZERO => {
                let _ = write!(text, ", and the host kept the pCPUs from it for {} only", span(away));
            }
            Cause::Scheduler => {}
        }
        let Attributes { nice, class, .. } = self.attributes;
        let _ = write!(text, "\n  class {class}, nice {}", nice.get());
        if !self.others.is_empty() {
            let _ = write!(text, "; also beyond their bounds: {}", list(&self.others, name));
        }
        if self.cause == Cause::Scheduler {
            self.tell_meanwhile(&mut text, name);
        }
        text.push('\n');
        text
    }

    fn tell_meanwhile(&self, text: &mut String, name: &dyn Fn(VcpuId) -> String) {
        let Meanwhile { recorded, ran, events } = &self.meanwhile;
        let ran = if ran.is_empty() { "nobody".to_owned() } else { list(ran, name) };
        let _ = write!(text, "\n  in the last {} of it ran: {ran}", span(*recorded));
        let _ = write!(text, "\n  what led there, by the time before now:");
        for event in events {
            let ago = span(self.at.since(event.time));
            let _ = write!(text, "\n  {ago:>9}  {}", describe(event, name));
        }
    }
}

/// Names with spans of time.
fn list(vcpus: &[(VcpuId, Nanos)], name: &dyn Fn(VcpuId) -> String) -> String {
    let named = |(vcpu, time): &(VcpuId, Nanos)| format!("{} {}", name(*vcpu), span(*time));
    let mut text = vcpus.iter().take(NAMES).map(named).collect::<Vec<_>>().join(", ");
    if vcpus.len() > NAMES {
        let _ = write!(text, " and {} more", vcpus.len() - NAMES);
    }
    text
}

/// Reads from a domain's trace what happened while a vCPU waited.
pub(super) fn meanwhile(trace: &Trace, vcpu: VcpuId, since: Time, now: Time) -> Meanwhile {
    let (mut ran, mut from) = (HashMap::new(), since);
    let (mut own, mut of_slots, mut events) = (Vec::new(), Vec::new(), Vec::new());
    for ring in trace.rings() {
        events.clear();
        let (next, _) = ring.read(0, &mut events);
        if next > events.len() as u64 {
            from = from.max(events.first().map_or(now, |event| event.time));
        }
        own.extend(events.iter().rev().filter(|event| concerns(event, vcpu)).take(ITS_OWN));
        of_slots.extend(events.iter().rev().take(OF_SLOTS));
        run_times(&events, (since, now), &mut ran);
    }
    let latest = |events: &mut Vec<Event>, most: usize| {
        events.sort_unstable_by_key(|event| std::cmp::Reverse(event.time));
        events.truncate(most);
    };
    latest(&mut own, ITS_OWN);
    latest(&mut of_slots, OF_SLOTS);
    own.extend(of_slots);
    own.sort_unstable_by_key(|event| event.time);
    own.dedup_by_key(|event| event.time);
    let mut ran: Vec<_> = ran.into_iter().filter(|(_, time)| *time > Nanos::ZERO).collect();
    ran.sort_unstable_by_key(|(vcpu, time)| (std::cmp::Reverse(*time), *vcpu));
    Meanwhile { recorded: now.since(from), ran, events: own }
}

/// Adds up the time of each vCPU between two times, by one slot's events.
fn run_times(events: &[Event], (from, to): (Time, Time), ran: &mut HashMap<VcpuId, Nanos>) {
    let mut charge = |vcpu: Option<VcpuId>, begin: Time, end: Time| {
        if let Some(vcpu) = vcpu {
            *ran.entry(vcpu).or_default() += end.min(to).since(begin.max(from));
        }
    };
    let mut on = None;
    for event in events {
        let What::Ask { vcpu, decision, .. } = event.what else { continue };
        if let Some((_, begin)) = on {
            charge(vcpu, begin, event.time);
        }
        on = Some((decision.run.map(|lease| lease.vcpu), event.time));
    }
    if let Some((vcpu, begin)) = on {
        charge(vcpu, begin, to);
    }
}

fn concerns(event: &Event, me: VcpuId) -> bool {
    match event.what {
        What::Add { vcpu, .. } | What::Remove { vcpu } | What::Wake { vcpu, .. } => vcpu == me,
        What::Resume { vcpu, .. } | What::Idled { vcpu, .. } => vcpu == me,
        What::Depart { vcpu } | What::Arrive { vcpu, .. } => vcpu == me,
        What::Charge { vcpu, .. } => vcpu == me,
        What::Taken { .. } | What::Overran { .. } | What::Gap { .. } | What::KeepUp { .. } => false,
        What::Steal { thief, .. } => thief == me,
        What::Ask { vcpu, decision, .. } => vcpu == Some(me) || decision.run.is_some_and(|lease| lease.vcpu == me),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Slot;
    use crate::ledger::Ledger;
    use crate::policy::{Decision, Lease, Placement, Policy, Why};

    /// Always runs the first vCPU.
    struct Selfish;

    impl Policy for Selfish {
        fn add(&mut self, _: VcpuId, _: Attributes, _: Time) {}

        fn remove(&mut self, _: VcpuId) {}

        fn wake(&mut self, vcpu: VcpuId, _: Time) -> Placement {
            if vcpu.0 == 0 { Placement::Run(Slot(0)) } else { Placement::Queue(None) }
        }

        fn next(&mut self, _: Slot, _: Why, now: Time) -> Decision {
            let run = Some(Lease { vcpu: VcpuId(0), until: now + Nanos::from_millis(6) });
            Decision { run, ..Decision::IDLE }
        }

        fn waiting(&self) -> usize {
            1
        }
    }

    fn at(ms: u64) -> Time {
        Time(1) + Nanos::from_millis(ms)
    }

    /// A starved vCPU since 1 s, beside one that runs, in a trace of so many events.
    fn starved(kept: usize) -> Meanwhile {
        let mut ledger = Ledger::new(Box::new(Selfish), 1, kept);
        for vcpu in [0, 1] {
            ledger.add(VcpuId(vcpu), Attributes::default(), at(0));
        }
        let _ = ledger.wake(VcpuId(0), None, at(1));
        let _ = ledger.next(Slot(0), Why::Free, at(1));
        let _ = ledger.wake(VcpuId(1), None, at(1_000));
        for n in 0..100 {
            let _ = ledger.next(Slot(0), Why::Check, at(1_000 + 10 * n));
        }
        meanwhile(&ledger.trace(), VcpuId(1), at(1_000), at(2_000))
    }

    #[test]
    fn who_ran_meanwhile_is_told_for_as_far_as_the_record_reaches_back() {
        let all = starved(1_000);
        assert_eq!((all.recorded, all.ran), (Nanos::from_millis(1_000), vec![(VcpuId(0), Nanos::from_millis(1_000))]));
        let some = starved(16);
        assert_eq!((some.recorded, some.ran), (Nanos::from_millis(160), vec![(VcpuId(0), Nanos::from_millis(160))]));
    }

    #[test]
    fn the_events_are_the_latest_of_the_vcpu_and_the_latest_of_all() {
        let Meanwhile { events, .. } = starved(1_000);
        assert_eq!(events.len(), 2 + OF_SLOTS);
        assert!(matches!(events[0].what, What::Add { vcpu: VcpuId(1), .. }));
        assert!(matches!(events[1].what, What::Wake { vcpu: VcpuId(1), .. }));
        assert!(events.is_sorted_by_key(|event| event.time));
    }

    #[test]
    fn the_text_names_who_waited_how_long_who_ran_and_what_happened() {
        let starvation = Starvation {
            vcpu: VcpuId(1),
            attributes: Attributes::default(),
            waited: Nanos::from_millis(1_000),
            bound: Nanos::from_millis(75),
            cause: Cause::Scheduler,
            away: Nanos::ZERO,
            others: (2..10).map(|vcpu| (VcpuId(vcpu), Nanos::from_millis(90))).collect(),
            at: at(2_000),
            meanwhile: starved(1_000),
        };
        let text = starvation.text(&|vcpu| format!("web/{}", vcpu.0));
        for part in [
            "vCPU web/1 waited 1.00 s for a pCPU; its bound is 75.0 ms\n",
            "web/7 90.0 ms and 2 more\n",
            "in the last 1.00 s of it ran: web/0 1.00 s\n",
            "     1.00 s  web/1 became runnable and was queued\n",
            "    10.0 ms  p0: web/0 was interrupted; web/0 goes on for 6.00 ms\n",
        ] {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
        let excused = Starvation { cause: Cause::Host, away: Nanos::from_millis(925), ..starvation };
        let text = excused.text(&|vcpu| vcpu.to_string());
        assert!(text.contains("925 ms of that: not the policy's fault") && !text.contains("p0"), "{text}");
    }
}
