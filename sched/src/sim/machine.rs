//! The machine itself: who is on it, how time passes, and what came of it. What happens at each event is in `machine/steps.rs`.

mod steps;

use super::agenda::Agenda;
use super::audit::Audit;
use super::guest::Guest;
use super::slot::SlotSim;
use super::trace::Event;
use super::vcpu::{LateVcpu, Place, Record, VcpuSim};
use super::world::{Exchange, World};
use super::{Costs, Draw};
use crate::domain::{Attributes, Totals};
use crate::policy::Policy;
use crate::{Nanos, Time, VcpuId};
use std::sync::Arc;

/// When every machine's clock starts: not at 0, where a policy's own zeros would look like times.
const BEGIN: Time = Time(1_000_000);
/// Waits beyond their bounds that are kept; the others are only counted.
const LATE_KEPT: usize = 16;

/// The machine. vCPUs are numbered in the order in which they start, for the policy too.
#[derive(Debug)]
pub struct Machine<P> {
    pub(super) policy: P,
    /// What the guests share.
    pub world: World,
    pub(super) now: Time,
    costs: Costs,
    pub(super) slots: Vec<SlotSim>,
    pub(super) vcpus: Vec<VcpuSim>,
    agenda: Agenda,
    pub(super) audit: Option<Audit>,
    draw: Draw,
    /// How far a step's length is from what the guest asks for, and an exit's from its cost, at most (unit: thousandths).
    noise: u64,
    totals: Totals,
    decisions: u64,
    trace: Option<Vec<Event>>,
    late: Vec<LateVcpu>,
    late_count: u64,
}

/// Setting up.
impl<P: Policy> Machine<P> {
    /// A machine of so many idle slots, which the policy was made for.
    pub fn new(policy: P, slots: usize, costs: Costs) -> Self {
        Self {
            policy,
            world: World::new(),
            now: BEGIN,
            costs,
            slots: (0..slots).map(|_| SlotSim::new()).collect(),
            vcpus: Vec::new(),
            agenda: Agenda::new(slots),
            audit: None,
            draw: Draw::new(0),
            noise: 0,
            totals: Totals::default(),
            decisions: 0,
            trace: None,
            late: Vec::new(),
            late_count: 0,
        }
    }

    /// The same with other costs.
    pub fn with_costs(self, costs: Costs) -> Self {
        Self { costs, ..self }
    }

    /// The same with steps and exits that take up to so many thousandths less or longer than they should, as drawn from the
    /// seed: without it guests may fall into a step that nothing real keeps.
    pub fn with_noise(self, seed: u64, thousandths: u64) -> Self {
        Self { draw: Draw::new(seed), noise: thousandths.min(1000), ..self }
    }

    /// The same with requests to go through, for guests that ask.
    pub fn with_traffic(mut self, exchanges: Arc<[Exchange]>) -> Self {
        self.world.traffic = exchanges;
        self
    }

    /// The same, keeping every event.
    pub fn traced(self) -> Self {
        Self { trace: Some(Vec::new()), ..self }
    }

    /// A new vCPU that runs this guest, runnable at once. Its waits are recorded with those of its part.
    pub fn start(&mut self, attributes: Attributes, guest: Guest, part: u8) -> usize {
        let v = self.vcpus.len();
        self.policy.add(VcpuId(v as u32), attributes, self.now);
        self.world.admit(v);
        self.world.enroll(v, part);
        self.vcpus.push(VcpuSim {
            left: guest.start(),
            guest,
            spins: false,
            sees: Time(0),
            place: Place::Blocked,
            since: self.now,
            event: false,
            deadline: None,
            last: None,
            bound: Nanos(u64::MAX),
            first_ran: None,
            record: Record::default(),
        });
        self.unblock(v, None);
        v
    }

    /// From now on this vCPU must not wait longer; see [`late`](Self::late).
    pub fn bound(&mut self, v: usize, bound: Nanos) {
        self.vcpus[v].bound = bound;
    }
}

/// Running, and what came of it.
impl<P: Policy> Machine<P> {
    /// Lets this much time pass.
    pub fn run(&mut self, span: Nanos) {
        let end = self.now + span;
        loop {
            let (at, slot) = self.agenda.first();
            if at > end || at == Time::NEVER {
                break;
            }
            debug_assert!(at >= self.now, "time went back");
            self.now = at;
            self.advance(slot);
            self.plan(slot);
            if self.audit.is_some() {
                self.check();
            }
        }
        self.now = end;
    }

    /// Forgets the waits recorded so far, as a measured window begins; all other counts only grow.
    pub fn forget_waits(&mut self) {
        self.world.forget_waits();
    }

    /// Now, on the machine's clock.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The policy, to look at.
    pub fn policy(&self) -> &P {
        &self.policy
    }

    /// Number of vCPUs so far.
    pub fn vcpus(&self) -> usize {
        self.vcpus.len()
    }

    /// What became of a vCPU up to now.
    pub fn record(&self, v: usize) -> Record {
        let vcpu = &self.vcpus[v];
        let mut record = vcpu.record;
        let since = self.now.since(vcpu.since);
        match vcpu.place {
            Place::On(slot) => {
                record.run += since;
                if !vcpu.spins {
                    record.worked += self.now.since(self.slots[slot].from);
                }
            }
            Place::Queued | Place::Placed(_) => record.longest_wait = record.longest_wait.max(since),
            Place::Blocked => {}
        }
        record
    }

    /// When a vCPU first ran, if it has.
    pub fn first_ran(&self, v: usize) -> Option<Time> {
        self.vcpus[v].first_ran
    }

    /// Whether a vCPU is runnable and without a slot.
    pub fn is_queued(&self, v: usize) -> bool {
        self.vcpus[v].place == Place::Queued
    }

    /// For how long a vCPU was held back so far.
    pub fn throttled(&self, v: usize) -> Nanos {
        self.policy.throttled(VcpuId(v as u32), self.now).time
    }

    /// Exits, switches, migrations and yields so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Questions that the policy has answered.
    pub fn decisions(&self) -> u64 {
        self.decisions
    }

    /// Events so far, if they are kept.
    pub fn trace(&self) -> &[Event] {
        self.trace.as_deref().unwrap_or_default()
    }

    /// Waits beyond their [bounds](Self::bound): the first of them, and how many there were. Waits under way count.
    pub fn late(&self) -> (Vec<LateVcpu>, u64) {
        let (mut late, mut count) = (self.late.clone(), self.late_count);
        for (v, vcpu) in self.vcpus.iter().enumerate() {
            if matches!(vcpu.place, Place::Queued | Place::Placed(_)) && self.now.since(vcpu.since) > vcpu.bound {
                count += 1;
                late.push(self.late_vcpu(v));
            }
        }
        late.truncate(LATE_KEPT);
        (late, count)
    }

    fn late_vcpu(&self, v: usize) -> LateVcpu {
        let vcpu = &self.vcpus[v];
        LateVcpu { vcpu: VcpuId(v as u32), at: self.now, waited: self.now.since(vcpu.since), bound: vcpu.bound }
    }
}
