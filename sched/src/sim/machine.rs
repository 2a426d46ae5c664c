//! The machine itself: its vCPUs, how time passes, and what came of it. What happens at each event is in
//! `machine/steps.rs`, and what shards do with each other in
//! `machine/shards.rs`.

mod shards;
mod steps;

use super::agenda::Agenda;
use super::audit::Audit;
use super::costs::Costs;
use super::draw::Draw;
use super::guest::Guest;
use super::lock::Lock;
use super::shard::ShardSim;
use super::slot::SlotSim;
use super::vcpu::{LateVcpu, Place, Record, VcpuSim};
use super::world::{Exchange, World};
use crate::attributes::Attributes;
use crate::histogram::Histogram;
use crate::ids::{Slot, VcpuId};
use crate::ledger::{Account, Counts, Event, Ledger, Totals, Trace, Yields};
use crate::policy::Policy;
use crate::shards::{Admission, Board, ShardPlan};
use crate::time::{Nanos, Time};
use std::sync::Arc;

/// When every machine's clock starts: not at 0, where a policy's own zeros would look like times.
const BEGIN: Time = Time(1_000_000);
/// Events of each slot that the ledger's rings keep. A [traced](SimMachine::traced) machine keeps all events elsewhere.
const KEPT: usize = 1;
/// Waits beyond their bounds that are kept; the others are only counted.
const LATE_KEPT: usize = 16;

/// The machine. vCPUs are numbered in the order in which they start, for the policy too.
#[derive(Debug)]
pub struct SimMachine<P> {
    pub(super) shards: Vec<ShardSim<P>>,
    plan: ShardPlan,
    board: Board,
    admission: Admission,
    /// What the guests share.
    pub world: World,
    pub(super) now: Time,
    costs: Costs,
    pub(super) slots: Vec<SlotSim>,
    pub(super) vcpus: Vec<VcpuSim>,
    agenda: Agenda,
    pub(super) audit: Option<Audit>,
    draw: Draw,
    /// How far a step's length is from what the guest asks for, and an exit's from its cost, at most (unit:
    /// thousandths).
    noise: u64,
    /// Exits and yields: what a ledger does not see.
    totals: Totals,
    decisions: u64,
    late: Vec<LateVcpu>,
    late_count: u64,
}

/// Setting up.
impl<P: Policy> SimMachine<P> {
    /// A machine of so many idle slots, which the policy was made for.
    pub fn new(policy: P, slots: usize, costs: Costs) -> Self {
        Self::in_shards([policy], ShardPlan::one(slots), costs)
    }

    /// A machine of idle slots in these shards. Each has the policy in its place, which was made for its slots.
    ///
    /// # Panics
    /// There are fewer policies than shards.
    pub fn in_shards(policies: impl IntoIterator<Item = P>, plan: ShardPlan, costs: Costs) -> Self {
        let slots = plan.all_slots();
        let trace = Arc::new(Trace::new(slots, KEPT));
        let shard = |(shard, policy)| {
            let slots = plan.slots(shard);
            let ledger = Ledger::of_shard(policy, slots.clone(), Arc::clone(&trace));
            ShardSim::new(ledger, Lock::new(costs.lock), slots)
        };
        let shards: Vec<ShardSim<P>> = plan.shards().zip(policies).map(shard).collect();
        assert_eq!(shards.len(), plan.len(), "a policy for each shard");
        let mut world = World::new();
        world.told = shards[0].ledger.policy().tells_presence().then(Vec::new);
        Self {
            shards,
            board: Board::new(&plan),
            plan,
            admission: Admission::default(),
            world,
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
            late: Vec::new(),
            late_count: 0,
        }
    }

    /// This machine with other costs.
    #[cfg(test)]
    pub(crate) fn with_costs(mut self, costs: Costs) -> Self {
        self.shards.iter_mut().for_each(|shard| shard.lock = Lock::new(costs.lock));
        Self { costs, ..self }
    }

    /// This machine, with steps and exits that take up to so many thousandths less or longer than they should, as drawn
    /// from the seed. Without it guests may fall into a step that nothing real keeps.
    pub fn with_noise(self, seed: u64, thousandths: u64) -> Self {
        Self { draw: Draw::new(seed), noise: thousandths.min(1000), ..self }
    }

    /// This machine with requests to go through, for guests that ask.
    pub fn with_traffic(mut self, exchanges: Arc<[Exchange]>) -> Self {
        self.world.traffic = exchanges;
        self
    }

    /// This machine, keeping every event.
    pub fn traced(self) -> Self {
        let keeping = |shard: ShardSim<P>| ShardSim { ledger: shard.ledger.keeping_all(), ..shard };
        Self { shards: self.shards.into_iter().map(keeping).collect(), ..self }
    }

    /// A new vCPU that runs this guest, runnable at once. Its waits are recorded with those of its part.
    pub fn start(&mut self, attributes: Attributes, guest: Guest, part: u8) -> usize {
        let v = self.vcpus.len();
        let shard = self.admission.admits(&self.board, attributes.group);
        let ledger = &mut self.shards[shard.index()].ledger;
        ledger.add(VcpuId(v as u32), attributes, self.now);
        self.now = ledger.now();
        self.world.admit(v);
        self.world.enroll(v, part);
        self.vcpus.push(VcpuSim {
            left: guest.start(),
            guest,
            spins: false,
            sees: Time(0),
            place: Place::Blocked,
            shard,
            last: None,
            since: self.now,
            idles: Time::NEVER,
            event: false,
            deadline: None,
            bound: Nanos(u64::MAX),
            first_ran: None,
            record: Record::default(),
        });
        self.unblock(v, steps::Waker::Other);
        v
    }

    /// Opens the gates of all chat rooms, and wakes the vCPUs that wait there.
    pub fn open_gates(&mut self) {
        for room in &mut self.world.rooms {
            room.open = true;
            self.world.events.extend(room.vcpus().last());
        }
        self.deliver(None);
    }

    /// From now on this vCPU must not wait longer; see [`late`](Self::late).
    pub fn bound(&mut self, v: usize, bound: Nanos) {
        self.vcpus[v].bound = bound;
    }
}

/// Running, and what came of it.
impl<P: Policy> SimMachine<P> {
    /// Lets this much time pass.
    pub fn run(&mut self, span: Nanos) {
        let end = self.now + span;
        loop {
            let (at, slot) = self.agenda.first();
            if at > end || at == Time::NEVER {
                break;
            }
            // The ledger may have put moments apart that were the same.
            self.now = self.now.max(at);
            self.advance(slot);
            self.plan(slot);
            if self.audit.is_some() {
                self.check();
            }
        }
        self.now = end;
    }

    /// The host takes a slot's pCPU for so long, from now on: its vCPU keeps the slot and gets nowhere. The slot tells
    /// the policy when it next asks.
    ///
    /// # Panics
    /// There is no such slot.
    pub fn stall(&mut self, slot: Slot, span: Nanos) {
        self.stalls(slot.index(), span);
    }

    /// A thread beside the slots has used so much CPU time for a vCPU. Returns when the cap of the vCPU's VM lets it go
    /// on.
    pub fn charge(&mut self, v: usize, time: Nanos) -> Time {
        let shard = self.vcpus[v].shard;
        let ledger = &mut self.shards[shard.index()].ledger;
        let alarm = ledger.alarm();
        ledger.charge(VcpuId(v as u32), time, self.now);
        self.now = ledger.now();
        let until = ledger.lets_work(VcpuId(v as u32));
        if self.shards[shard.index()].ledger.alarm() != alarm {
            self.plan(self.shards[shard.index()].slots.start);
        }
        until
    }

    /// Forgets the waits recorded so far, as a measured window begins. Other counts stay.
    pub fn forget_waits(&mut self) {
        self.world.forget_waits();
    }

    /// Now, on the machine's clock.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The policy, to look at; with several shards, that of the first.
    pub fn policy(&self) -> &P {
        self.shards[0].ledger.policy()
    }

    /// The ledger that a vCPU is in.
    pub(super) fn ledger_of(&self, v: usize) -> &Ledger<P> {
        &self.shards[self.vcpus[v].shard.index()].ledger
    }

    /// Number of vCPUs so far.
    pub fn vcpus(&self) -> usize {
        self.vcpus.len()
    }

    /// What became of a vCPU up to now. What it ran includes a stall of the host until the turn ends.
    pub fn record(&self, v: usize) -> Record {
        let vcpu = &self.vcpus[v];
        let mut record = vcpu.record;
        match vcpu.place {
            Place::On(slot) if !vcpu.spins => record.worked += self.now.since(self.slots[slot].from),
            Place::Queued | Place::Placed(_) => {
                record.longest_wait = record.longest_wait.max(self.now.since(vcpu.since));
            }
            _ => {}
        }
        Record { run: self.ledger_of(v).run_of(VcpuId(v as u32), self.now), ..record }
    }

    /// A vCPU's account up to now.
    pub fn account(&self, v: usize) -> Account {
        let account = self.ledger_of(v).account_of(VcpuId(v as u32), self.now).unwrap_or_default();
        Account { exits: self.vcpus[v].record.exits, ..account }
    }

    /// From the policy's wish that a slot asks, until it did.
    pub fn kicks(&self) -> Histogram {
        self.counts().kicks
    }

    fn counts(&self) -> Counts {
        let mut all = Counts::default();
        self.shards.iter().for_each(|shard| all.merge(shard.ledger.counts()));
        all
    }

    /// When a vCPU first ran, if it has.
    pub fn first_ran(&self, v: usize) -> Option<Time> {
        self.vcpus[v].first_ran
    }

    /// Whether a vCPU is runnable and without a slot.
    pub(crate) fn is_queued(&self, v: usize) -> bool {
        self.vcpus[v].place == Place::Queued
    }

    /// For how long a vCPU was held back so far.
    pub fn throttled(&self, v: usize) -> Nanos {
        self.ledger_of(v).policy().throttled(VcpuId(v as u32), self.now).time
    }

    /// Exits, switches, migrations and yields so far.
    pub fn totals(&self) -> Totals {
        let counts = self.counts();
        let told = self.shards.iter().filter_map(|shard| shard.ledger.yield_counts());
        let told = told.reduce(|all, of| all.plus(&of));
        let outcomes = counts.yields.outcomes();
        let yields = Yields { switched: outcomes.switched, stayed: outcomes.stayed, ..self.totals.yields };
        Totals { switches: counts.switches, migrations: counts.migrations, yields, told, ..self.totals }
    }

    /// Questions that the policy has answered.
    pub fn decisions(&self) -> u64 {
        self.decisions
    }

    /// Events so far, if they are kept.
    pub fn trace(&self) -> Vec<Event> {
        let all = self.shards.iter().filter_map(|shard| shard.ledger.all());
        let mut events: Vec<Event> = all.flatten().copied().collect();
        events.sort_by_key(|event| event.time);
        events
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
