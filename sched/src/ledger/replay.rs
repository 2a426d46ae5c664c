//! Replay: asks another policy object what was asked before, and compares its answers.
//!
//! A policy is a function of what it is told, and the ledger's times are strictly increasing, so an object made in the
//! same way must answer the same. It compares until the first difference: behind it the two are told of different
//! worlds.

use super::event::{Event, What};
use super::spans::Spans;
use crate::attributes::Attributes;
use crate::ids::{Shard, Slot, VcpuId};
use crate::policy::{Policy, Resumed, Traveller};
use crate::shards::ShardPlan;
use std::collections::{HashMap, VecDeque};
use std::fmt;

/// Events kept to be told with a difference.
const CONTEXT: usize = 8;

/// A policy that is asked again.
pub struct Replay {
    /// An object for each shard.
    policies: Vec<Box<dyn Policy>>,
    plan: ShardPlan,
    /// The shard of each vCPU that is there.
    shards: HashMap<VcpuId, Shard>,
    departed: HashMap<VcpuId, Traveller>,
    attributes: HashMap<VcpuId, Attributes>,
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
    /// A replay with these policies, one for each shard, which know of no vCPU yet and whose slots are all idle.
    pub fn new(policies: Vec<Box<dyn Policy>>, plan: ShardPlan) -> Self {
        let spans = Spans::new(plan.all_slots());
        Self {
            policies,
            plan,
            shards: HashMap::new(),
            departed: HashMap::new(),
            attributes: HashMap::new(),
            spans,
            before: VecDeque::with_capacity(CONTEXT),
            compared: 0,
        }
    }

    /// Tells the policy of the next event and compares its answer.
    pub fn tell(&mut self, event: &Event) -> Result<(), Stop> {
        if let What::Gap { lost } = event.what {
            return Err(Stop::Gap { lost });
        }
        if !self.spans.tell(event, &mut Vec::new()) || self.is_between_shards(&event.what) {
            return Err(Stop::Contradicts(*event));
        }
        let replayed = self.ask(event).map(|what| Event { what, ..*event });
        // As they are packed: that is as much as was recorded of the answer.
        if replayed.as_ref().map(Event::pack) != Some(event.pack()) {
            let before = self.before.iter().copied().collect();
            return Err(Stop::Differs(Box::new(Difference { recorded: *event, replayed, before })));
        }
        let asked = |what| {
            matches!(
                what,
                What::Wake { .. } | What::Resume { .. } | What::Ask { .. } | What::Steal { .. } | What::Arrive { .. }
            )
        };
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
        let (now, shard) = (event.time, self.shard_of(&event.what));
        let first = self.plan.slots(shard).start.0;
        let policy = &mut self.policies[shard.index()];
        let local = |slot: Slot| Slot(slot.0 - first);
        Some(match event.what {
            What::Add { vcpu, nice, class, group, .. } => {
                let attributes = Attributes { nice, class, group };
                policy.add(vcpu, attributes, now);
                self.shards.insert(vcpu, shard);
                self.attributes.insert(vcpu, attributes);
                event.what
            }
            What::Remove { vcpu } => {
                policy.remove(vcpu);
                event.what
            }
            What::Taken { slot, time } => {
                policy.taken(local(slot), time);
                event.what
            }
            What::Overran { slot } => {
                policy.overran(local(slot));
                event.what
            }
            What::Charge { vcpu, time } => {
                policy.charge(vcpu, time, now);
                event.what
            }
            What::Resume { .. } => {
                let Resumed { vcpu, placement } = policy.tick(now)?;
                What::Resume { vcpu, placement: placement.plus(first) }
            }
            What::Idled { .. } | What::Gap { .. } => event.what,
            What::Wake { vcpu, by, .. } => {
                by.into_iter().for_each(|waker| policy.woken_by(vcpu, waker));
                What::Wake { vcpu, by, placement: policy.wake(vcpu, now).plus(first) }
            }
            What::Ask { slot, vcpu, why, .. } => {
                let mut decision = policy.next(local(slot), why, now);
                decision.kick = decision.kick.map(|slot| Slot(slot.0 + first));
                What::Ask { slot, vcpu, why, decision }
            }
            What::Steal { slot, thief, .. } => {
                What::Steal { slot, thief, taken: policy.steals(local(slot), thief, now) }
            }
            What::KeepUp { front, .. } => {
                policy.keeps_up(front, now);
                event.what
            }
            What::Depart { vcpu } => {
                self.departed.insert(vcpu, policy.departs(vcpu, now)?);
                event.what
            }
            What::Arrive { vcpu, slot, .. } => {
                let (traveller, attributes) = (self.departed.remove(&vcpu)?, *self.attributes.get(&vcpu)?);
                let placement = policy.arrives(vcpu, attributes, traveller, local(slot), now);
                self.shards.insert(vcpu, shard);
                What::Arrive { vcpu, slot, placement: placement.map(|placement| placement.plus(first)) }
            }
        })
    }

    /// Whether the event is about a vCPU that has left a shard and come to none.
    fn is_between_shards(&self, what: &What) -> bool {
        let away = |vcpu: VcpuId| self.departed.contains_key(&vcpu);
        match *what {
            What::Wake { vcpu, .. } | What::Remove { vcpu } | What::Resume { vcpu, .. } | What::Charge { vcpu, .. } => {
                away(vcpu)
            }
            What::Depart { vcpu } | What::Steal { thief: vcpu, .. } => away(vcpu),
            What::Ask { decision, .. } => decision.run.is_some_and(|lease| away(lease.vcpu)),
            _ => false,
        }
    }

    /// The shard whose object was told or asked.
    fn shard_of(&self, what: &What) -> Shard {
        let of = |vcpu| self.shards.get(&vcpu).copied().unwrap_or(Shard(0));
        match *what {
            What::Add { slot, .. } | What::Arrive { slot, .. } | What::KeepUp { slot, .. } => self.plan.of(slot),
            What::Overran { slot } | What::Taken { slot, .. } | What::Ask { slot, .. } | What::Steal { slot, .. } => {
                self.plan.of(slot)
            }
            What::Remove { vcpu } | What::Wake { vcpu, .. } | What::Resume { vcpu, .. } => of(vcpu),
            What::Depart { vcpu } | What::Idled { vcpu, .. } | What::Charge { vcpu, .. } => of(vcpu),
            What::Gap { .. } => Shard(0),
        }
    }
}
