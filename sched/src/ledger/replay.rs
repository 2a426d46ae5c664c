//! Replay: asks another policy object what was asked before, and compares its answers.
//!
//! A policy is a function of what it is told, and the ledger's times are strictly increasing, so an object made in the same
//! way must answer the same. It compares until the first difference: behind it the two are told of different worlds.

use super::event::{Event, What};
use super::spans::Spans;
use crate::domain::Attributes;
use crate::policy::{Policy, Resumed};
use std::collections::VecDeque;
use std::fmt;

/// Events kept to be told with a difference.
const CONTEXT: usize = 8;

/// A policy that is asked again.
pub struct Replay {
    policy: Box<dyn Policy>,
    spans: Spans,
    before: VecDeque<Event>,
    compared: u64,
}

/// Why a replay does not go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The policy answers differently.
    Differs(Box<Difference>),
    /// Events are missing from here on.
    Gap {
        /// How many.
        lost: u64,
    },
    /// The event contradicts those before it, so no policy can be told of it.
    Contradicts(Event),
}

/// The first answer that was another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// As it was recorded.
    pub recorded: Event,
    /// The same with the answer that came now.
    pub replayed: Event,
    /// What came before, oldest first.
    pub before: Vec<Event>,
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay").field("compared", &self.compared).finish_non_exhaustive()
    }
}

impl Replay {
    /// Of a policy that knows of no vCPU yet and all of whose slots are idle.
    pub fn new(policy: Box<dyn Policy>, slots: usize) -> Self {
        Self { policy, spans: Spans::new(slots), before: VecDeque::with_capacity(CONTEXT), compared: 0 }
    }

    /// Tells the policy of the next event and compares its answer.
    pub fn tell(&mut self, event: &Event) -> Result<(), Stop> {
        if let What::Gap { lost } = event.what {
            return Err(Stop::Gap { lost });
        }
        if !self.spans.tell(event, &mut Vec::new()) {
            return Err(Stop::Contradicts(*event));
        }
        let replayed = Event { what: self.ask(event), ..*event };
        // As they are packed: that is as much as was recorded of the answer.
        if replayed.pack() != event.pack() {
            let before = self.before.iter().copied().collect();
            return Err(Stop::Differs(Box::new(Difference { recorded: *event, replayed, before })));
        }
        let asked = matches!(event.what, What::Wake { .. } | What::Ask { .. } | What::Steal { .. });
        self.compared += u64::from(asked);
        if self.before.len() == CONTEXT {
            self.before.pop_front();
        }
        self.before.push_back(*event);
        Ok(())
    }

    /// Number of answers that were the same.
    pub fn compared(&self) -> u64 {
        self.compared
    }

    /// The event, with this policy's answer.
    fn ask(&mut self, event: &Event) -> What {
        match event.what {
            What::Add { vcpu, nice, class, group } => {
                self.policy.add(vcpu, Attributes { nice, class, group }, event.time);
                event.what
            }
            What::Remove { vcpu } => {
                self.policy.remove(vcpu);
                event.what
            }
            What::Late { slot, by } => {
                self.policy.late(slot, by);
                event.what
            }
            // A policy that holds nobody back contradicts in the vCPU already.
            What::Resume { .. } => match self.policy.tick(event.time) {
                Some(Resumed { vcpu, placement }) => What::Resume { vcpu, placement },
                None => What::Gap { lost: 0 },
            },
            What::Idled { .. } | What::Gap { .. } => event.what,
            What::Wake { vcpu, .. } => What::Wake { vcpu, placement: self.policy.wake(vcpu, event.time) },
            What::Ask { slot, vcpu, why, .. } => {
                What::Ask { slot, vcpu, why, decision: self.policy.next(slot, why, event.time) }
            }
            What::Steal { slot, thief, .. } => {
                What::Steal { slot, thief, taken: self.policy.steals(slot, thief, event.time) }
            }
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::ledger::why::{Scene, Waits};
    use crate::ledger::{Figures, Ledger, WORDS};
    use crate::policy::rsdl::{RsdlConfig, YieldRule};
    use crate::policy::{Rsdl, Why};
    use crate::{Nanos, Slot, Time, VcpuId, Wait, Yield};
    use proptest::prelude::*;

    fn rsdl(yield_rule: YieldRule) -> Box<dyn Policy> {
        Box::new(Rsdl::new(RsdlConfig { yield_rule, ..RsdlConfig::default() }, 1))
    }

    /// Three vCPUs on one slot, which yield and use their leases up in turn, under the default policy.
    fn recorded() -> Vec<Event> {
        let mut ledger = Ledger::new(rsdl(RsdlConfig::default().yield_rule), 1, 256);
        for vcpu in [0, 1, 2].map(VcpuId) {
            ledger.add(vcpu, Attributes::default(), Time(1_000));
            let _ = ledger.wake(vcpu, Time(2_000));
        }
        let mut lease = ledger.next(Slot(0), Why::Free, Time(3_000)).run.expect("all of them can run");
        for turn in 0..60 {
            let (why, now) = match turn % 3 {
                0 => (Why::Check, lease.until),
                n => {
                    let wait = if n == 1 { Wait::Unknown } else { Wait::Lock(VcpuId(turn % 2)) };
                    (Why::Yield(Yield { wait, again: false }), lease.until.min(Time(3_000 + u64::from(turn) * 900_000)))
                }
            };
            lease = ledger.next(Slot(0), why, now).run.expect("all of them can run");
        }
        ledger.trace().latest()
    }

    fn replay(policy: Box<dyn Policy>, events: &[Event]) -> (u64, Result<(), Stop>) {
        let mut replay = Replay::new(policy, 1);
        let done = events.iter().try_for_each(|event| replay.tell(event));
        (replay.compared(), done)
    }

    #[test]
    fn the_same_policy_answers_everything_the_same() {
        assert_eq!(replay(rsdl(RsdlConfig::default().yield_rule), &recorded()), (64, Ok(())));
    }

    #[test]
    fn another_policy_differs_at_the_first_yield_and_is_told_with_what_came_before() {
        let (compared, done) = replay(rsdl(YieldRule::Expire), &recorded());
        let Err(Stop::Differs(difference)) = done else { panic!("{done:?}") };
        assert!(matches!(difference.recorded.what, What::Ask { why: Why::Yield(_), .. }), "{difference:?}");
        assert!(compared > 0 && !difference.before.is_empty());
        assert_ne!(difference.recorded.to_string(), difference.replayed.to_string());
        assert_eq!(difference.recorded.time, difference.replayed.time);
    }

    #[test]
    fn a_gap_ends_the_replay_and_nonsense_never_reaches_the_policy() {
        let mut events = recorded();
        let last = events.last().unwrap().time;
        events.push(Event { time: last + Nanos(1), what: What::Gap { lost: 5 } });
        assert_eq!(replay(rsdl(RsdlConfig::default().yield_rule), &events).1, Err(Stop::Gap { lost: 5 }));
        let nonsense = Event { time: Time(1), what: What::Remove { vcpu: VcpuId(9) } };
        let done = replay(rsdl(RsdlConfig::default().yield_rule), &[nonsense]);
        assert_eq!(done, (0, Err(Stop::Contradicts(nonsense))));
    }

    proptest! {
        #[test]
        fn damaged_recordings_are_told_or_read_and_never_panic(
            damages in prop::collection::vec((0..64usize, 0..WORDS, any::<u64>()), 1..4),
        ) {
            let mut words: Vec<_> = recorded().iter().map(Event::pack).collect();
            damages.into_iter().for_each(|(event, word, bits)| words[event][word] ^= bits & bits >> 7 & bits >> 19);
            let events: Vec<Event> = words.into_iter().filter_map(Event::unpack).collect();
            let _ = replay(rsdl(RsdlConfig::default().yield_rule), &events);
            let mut figures = Figures::new(1);
            let _ = events.iter().all(|event| figures.tell(event));
            let _ = figures.vcpus();
            let mut waits = Waits::new(1, |vcpu, _| vcpu == VcpuId(1));
            events.iter().for_each(|event| waits.tell(event));
            if let Some(longest) = waits.finish().longest {
                let mut scene = Scene::new(longest, 1);
                let _ = events.iter().all(|event| scene.tell(event));
                let _ = scene.explain();
            }
        }
    }
}
