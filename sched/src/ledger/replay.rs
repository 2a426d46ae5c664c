//! Replay: asks another policy object what was asked before, and compares its answers.
//!
//! A policy is a function of what it is told, and the ledger's times are strictly increasing, so an object made in the
//! same way must answer the same. It compares until the first difference: behind it the two are told of different
//! worlds.

use super::event::{Event, What};
use super::spans::Spans;
use crate::attributes::Attributes;
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
    /// The recorded event with the answer that came now; `None` if there was none.
    pub replayed: Option<Event>,
    /// What came before, oldest first.
    pub before: Vec<Event>,
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay").field("compared", &self.compared).finish_non_exhaustive()
    }
}

impl Replay {
    /// A replay with this policy, which knows of no vCPU yet and whose slots are all idle.
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
        let replayed = self.ask(event).map(|what| Event { what, ..*event });
        // As they are packed: that is as much as was recorded of the answer.
        if replayed.as_ref().map(Event::pack) != Some(event.pack()) {
            let before = self.before.iter().copied().collect();
            return Err(Stop::Differs(Box::new(Difference { recorded: *event, replayed, before })));
        }
        let asked =
            |what| matches!(what, What::Wake { .. } | What::Resume { .. } | What::Ask { .. } | What::Steal { .. });
        self.compared += u64::from(asked(event.what));
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

    /// The event, with this policy's answer; `None` if it has none where one was recorded.
    fn ask(&mut self, event: &Event) -> Option<What> {
        Some(match event.what {
            What::Add { vcpu, nice, class, group } => {
                self.policy.add(vcpu, Attributes { nice, class, group }, event.time);
                event.what
            }
            What::Remove { vcpu } => {
                self.policy.remove(vcpu);
                event.what
            }
            What::Taken { slot, time } => {
                self.policy.taken(slot, time);
                event.what
            }
            What::Resume { .. } => {
                let Resumed { vcpu, placement } = self.policy.tick(event.time)?;
                What::Resume { vcpu, placement }
            }
            What::Idled { .. } | What::Gap { .. } => event.what,
            What::Wake { vcpu, by, .. } => {
                by.into_iter().for_each(|waker| self.policy.woken_by(vcpu, waker));
                What::Wake { vcpu, by, placement: self.policy.wake(vcpu, event.time) }
            }
            What::Ask { slot, vcpu, why, .. } => {
                What::Ask { slot, vcpu, why, decision: self.policy.next(slot, why, event.time) }
            }
            What::Steal { slot, thief, .. } => {
                What::Steal { slot, thief, taken: self.policy.steals(slot, thief, event.time) }
            }
        })
    }
}
