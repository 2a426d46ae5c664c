//! RSDL: the rotating staircase, on many slots, for vCPUs.
//!
//! Every vCPU stands on a [stair](matrix). Running uses up the quota it has there, and then it steps down to the next
//! stair its nice value allows; what it ran too long is taken from the next quota. The lowest stair runs first, first
//! come first served. There is no guess at who is interactive: who uses little stays high.
//!
//! Rules, after Con Kolivas' RSDL and SD (2007), whose rotation and level become one number here:
//! 1. *Charge.* CPU time is charged to the vCPU that ran, to nobody else, while there are more runnable vCPUs than slots.
//!    What runs while nobody waits costs nothing, and whoever sleeps meanwhile gains that time instead.
//! 2. *Rotation.* The stairs of the next rotation lie behind those of this one, so it begins when the last vCPU has left
//!    this one. The first generation also rotates level by level ([`budgets`]).
//! 3. *Sleep.* A vCPU comes back to the stair it left with the quota it had left, but never more than [`LAG`] stairs above
//!    the one being served: sleeping saves up no more than that.
//! 4. *Wake.* A woken vCPU takes a slot at once from one that stands on a worse stair, and queues on its own if there is
//!    none. Where there is a [grain](RsdlConfig::grain), "at once" is once that one has run for so long.
//! 5. *Start.* A new vCPU starts on the stair being served with half a quota, as a forked task shares its parent's slice:
//!    starting many gains nothing.
//! 6. *Yield*: see [`YieldRule`] and [`polite`].
//! 7. *Classes*: `rt` runs ahead of all stairs, within a [budget](rt), `idle` behind all of them; `batch` walks the
//!    staircase without going ahead by waking.
//!
//! Files: [`matrix`] says which stairs there are; `charge` moves vCPUs along them, `line` queues and picks, `lease` says who
//! runs on a slot and how long, `wake` where a woken vCPU goes, [`polite`] what a yield does and `silent` what one does that
//! says nothing, `bound` how long anybody can wait.

mod bound;
pub mod budgets;
mod charge;
mod lease;
mod line;
pub mod matrix;
mod peers;
pub mod polite;
pub mod rt;
mod silent;
mod wake;

use super::queue::{Queue, WINDOW};
use super::slotset::SlotSet;
use super::{Decision, Placement, Policy, Why};
use crate::domain::Attributes;
use crate::{Class, Nanos, Nice, Slot, Time, Topology, VcpuId};
pub use bound::wait_bound;
use budgets::Budgets;
use charge::Clock;
pub use matrix::Variant;
use matrix::{Row, Stair};
use peers::Peer;
pub use polite::{PoliteSwitches, REACH};
use rt::RtBudget;
use silent::Look;

/// How far above the served stair a woken vCPU may stand: one quota's step at nice 0.
pub const LAG: Stair = 2;
/// Unbroken running that ends a wait: who computes this long has got what it yielded for.
const COMPUTES: Nanos = Nanos::from_millis(1);
/// Unbroken running after which yields are forgiven anew.
const WORKS: Nanos = Nanos::from_micros(200);
/// How far below the served stair anybody can fall.
const DEEPEST: Stair = WINDOW - LAG - 2;
/// How far a vCPU can fall beyond two steps of its row. One that gets there drags the served stair along, and with it those
/// who always let others through: they save up no more than that. What a stalled host adds beyond that at once is
/// forgiven.
const DEBT: Stair = 8;

/// How far below the served stair a vCPU of this row can fall.
fn deepest(row: Row) -> Stair {
    DEEPEST.min(2 * row.longest_step + DEBT)
}

/// What a yield means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum YieldRule {
    /// Nothing: the vCPU goes on.
    None,
    /// To the back of the next rotation; what was left of this one is lost. SD's sched_yield.
    Expire,
    /// The rules of [`polite`], as far as switched on.
    Polite(PoliteSwitches),
}

/// What can be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RsdlConfig {
    /// Base of all quotas (units: ns; 100 us to 5 s).
    pub rr_interval: Nanos,
    /// Which generation's levels.
    pub variant: Variant,
    /// What a yield means.
    pub yield_rule: YieldRule,
    /// Whether a woken vCPU prefers the slot it last ran on, and of idle slots the nearest to it.
    pub affinity: bool,
    /// Whether a vCPU runs for a moment before one that was woken takes its slot.
    pub grain: bool,
}

impl RsdlConfig {
    /// What a vCPU may use, and where. Class batch has its levels in one piece: it waits longer, and then runs longer.
    fn row_of(&self, attributes: Attributes) -> Row {
        match attributes.class {
            Class::Batch => Row::consecutive(attributes.nice, self.rr_interval),
            _ => Row::new(attributes.nice, self.rr_interval, self.variant),
        }
    }
}

impl Default for RsdlConfig {
    fn default() -> Self {
        Self {
            rr_interval: Nanos::from_millis(6),
            variant: Variant::default(),
            yield_rule: YieldRule::Polite(PoliteSwitches::default()),
            affinity: true,
            grain: false,
        }
    }
}

/// A vCPU, as the policy knows it.
#[derive(Debug, Clone)]
struct VcpuState {
    class: Class,
    row: Row,
    /// The stair its next quota counts on.
    stair: Stair,
    /// Used of that quota.
    used: Nanos,
    last: Option<Slot>,
    on: Option<Slot>,
    /// The stair it was last queued on.
    queued_on: Stair,
    /// The clock of free time when it went to sleep.
    slept_at: Nanos,
    /// It has slept since it got its quota.
    slept: bool,
    /// Its last yield was a wait, and it has not computed since.
    waits: bool,
    /// Whom it last waited for.
    waited_for: Option<VcpuId>,
    /// Yields that let it go on although others waited, since it last worked.
    stays: u32,
    /// As often it may say nothing and go on.
    patience: u32,
    /// How long it runs until it yields if it does not get on.
    look: Look,
    /// Whom it gets on with.
    peer: Peer,
    /// Was evicted for a pair, and is not again before it has had its turn.
    protected: bool,
}

/// A slot, as the policy knows it.
#[derive(Debug, Clone)]
struct SlotState {
    current: Option<VcpuId>,
    /// Charged up to here.
    charged: Time,
    /// Running without a break since.
    since: Time,
    lease_end: Time,
    /// The driver was told to run without end; the lease starts anew once somebody waits.
    endless: bool,
    /// Its vCPU and one on another slot wait for each other.
    paired: bool,
    /// Who takes the slot over when it next asks, and until when.
    reserved: Option<(VcpuId, Time)>,
    /// Who woke up on a better stair; the next check gives way to it.
    contested: Option<VcpuId>,
    /// Who let its vCPU of class idle through, and pays for it: else two could run on that for ever.
    lender: Option<VcpuId>,
    rt_budget: RtBudget,
}

/// The policy.
#[derive(Debug)]
pub struct Rsdl {
    config: RsdlConfig,
    topology: Topology,
    vcpus: Vec<Option<VcpuState>>,
    slots: Vec<SlotState>,
    /// Everybody in line but for the two classes below.
    queue: Queue,
    /// Class rt, first come first served; all on stair 0.
    rt: Queue,
    /// Class idle; all on stair 0.
    idlers: Queue,
    idle: SlotSet,
    /// Busy slots whose vCPU has no limit.
    unlimited: SlotSet,
    /// The stair being served: the highest from which a head was picked in its turn.
    served: Stair,
    budgets: Option<Budgets>,
    /// Slots that are reserved for a vCPU, which is neither queued nor running.
    reserving: SlotSet,
    reserved: usize,
    runnable: usize,
    clock: Clock,
    /// The next slot to look at when a woken vCPU seeks a worse one to preempt.
    probe: usize,
}

impl Rsdl {
    /// A policy for this many slots, all idle.
    pub fn new(config: RsdlConfig, slots: usize) -> Self {
        let mut idle = SlotSet::new(slots);
        (0..slots).for_each(|slot| idle.insert(Slot(slot as u16)));
        let usual = Row::new(Nice::default(), config.rr_interval, config.variant);
        let slot = SlotState {
            current: None,
            charged: Time(0),
            since: Time(0),
            lease_end: Time::NEVER,
            endless: false,
            paired: false,
            reserved: None,
            contested: None,
            lender: None,
            rt_budget: RtBudget::new(),
        };
        Self {
            config,
            topology: Topology::default(),
            vcpus: Vec::new(),
            slots: vec![slot; slots],
            queue: Queue::new(),
            rt: Queue::new(),
            idlers: Queue::new(),
            idle,
            unlimited: SlotSet::new(slots),
            served: LAG,
            budgets: (config.variant == Variant::LevelQuota).then(Budgets::default),
            reserving: SlotSet::new(slots),
            reserved: 0,
            runnable: 0,
            clock: Clock::new(usual.per_rotation()),
            probe: 0,
        }
    }

    /// The same, on slots that are this near to each other.
    pub fn with_topology(self, topology: Topology) -> Self {
        Self { topology, ..self }
    }

    fn vcpu(&mut self, vcpu: VcpuId) -> &mut VcpuState {
        self.vcpus[vcpu.index()].as_mut().expect("the driver names only vCPUs it added")
    }

    /// A vCPU's stair and what it has used of its quota there.
    #[cfg(test)]
    pub(super) fn position(&self, vcpu: VcpuId) -> (Stair, Nanos) {
        let v = self.vcpus[vcpu.index()].as_ref().expect("a test asks for vCPUs it added");
        (v.stair, v.used)
    }

    fn contended(&self) -> bool {
        self.runnable > self.slots.len()
    }

    /// Number of vCPUs in line.
    fn queued(&self) -> usize {
        self.queue.len() + self.rt.len() + self.idlers.len()
    }
}

impl Policy for Rsdl {
    fn tells_presence(&self) -> bool {
        matches!(self.config.yield_rule, YieldRule::Polite(PoliteSwitches { tell_presence: true, .. }))
    }

    fn add(&mut self, vcpu: VcpuId, attributes: Attributes, now: Time) {
        let row = self.config.row_of(attributes);
        let stair = row.at_or_after(self.served);
        let used = Nanos(row.quota.0 / 2);
        [&mut self.queue, &mut self.rt, &mut self.idlers].into_iter().for_each(|line| line.admit(vcpu));
        if self.vcpus.len() <= vcpu.index() {
            self.vcpus.resize(vcpu.index() + 1, None);
        }
        self.vcpus[vcpu.index()] = Some(VcpuState {
            class: attributes.class,
            row,
            stair,
            used,
            last: None,
            on: None,
            queued_on: stair,
            slept_at: self.clock.free(now),
            slept: true,
            waits: false,
            waited_for: None,
            stays: 0,
            patience: 1,
            look: Look::unknown(),
            peer: Peer::default(),
            protected: false,
        });
        self.grant(stair, Nanos(row.quota.0 - used.0));
    }

    fn remove(&mut self, vcpu: VcpuId) {
        if self.dequeue(vcpu) {
            self.runnable_changes(vcpu, false, self.clock.now());
        } else if let Some(Some(VcpuState { on: Some(slot), .. })) = self.vcpus.get(vcpu.index()) {
            let slot = *slot;
            if self.slots[slot.index()].reserved.is_some_and(|(next, _)| next == vcpu) {
                self.take_reservation(slot);
            } else {
                self.slots[slot.index()].current = None;
                self.idle.insert(slot);
            }
            self.runnable_changes(vcpu, false, self.clock.now());
        }
        self.vcpus[vcpu.index()] = None;
    }

    fn wake(&mut self, vcpu: VcpuId, now: Time) -> Placement {
        self.wakes(vcpu, now)
    }

    fn next(&mut self, slot: Slot, why: Why, now: Time) -> Decision {
        let Some(current) = self.slots[slot.index()].current else { return self.pick_idle(slot, now) };
        if why == Why::Free {
            // Placed here while the slot was idle: its time starts now.
            return self.install_fresh(slot, current, now);
        }
        self.charge(slot, now);
        if let Some((vcpu, lease_end)) = self.take_reservation(slot) {
            self.leaves(current, why, now);
            return self.install_pair(slot, vcpu, lease_end, now);
        }
        let mut decision = match why {
            Why::Check | Why::Exit | Why::Free => self.check(slot, current, now),
            Why::Yield(y) => self.yields(slot, current, y, now),
            Why::Block | Why::Retire => {
                self.leaves(current, why, now);
                self.pick_for(slot, now)
            }
        };
        // A wake limits one slot only; while somebody waits, each question limits one more, so that none is spared for
        // long and nobody tells all at once.
        if self.queued() > 0 {
            decision.kick = decision.kick.or_else(|| self.limit_one(None));
        }
        decision
    }

    fn steals(&mut self, slot: Slot, thief: VcpuId, now: Time) -> bool {
        self.takes_from_equal(slot, thief, now)
    }

    fn waiting(&self) -> usize {
        self.queued() + self.reserved
    }
}
