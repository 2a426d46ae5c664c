//! RSDL: the rotating staircase, on many slots, for vCPUs.
//!
//! Every vCPU stands on a [stair](matrix). Running uses up the quota it has there, and then it steps down to the next
//! stair its nice value allows; what it ran too long is taken from the next quota. The lowest stair runs first, first
//! come first served. There is no guess at who is interactive: who uses little stays high.
//!
//! Rules, after Con Kolivas' RSDL and SD (2007), whose rotation and level become one number here:
//! 1. *Charge.* CPU time is charged to the vCPU that ran, to nobody else.
//! 2. *Minor rotation.* A stair has a budget, the sum of the quotas granted on it. When it is used up, all who still queue
//!    there are pushed to the next stair whatever quota they have left; so everybody's wait is bounded by the budgets of
//!    the stairs above.
//! 3. *Major rotation.* The stairs of the next rotation lie behind those of this one, so it begins when the last vCPU has
//!    left this one.
//! 4. *Wake.* A vCPU comes back to the stair it left with the quota it had left, but never more than [`LAG`] stairs above
//!    the one being served: sleeping saves up no more than that. It goes ahead of a running vCPU only from a better
//!    stair.
//! 5. *Start.* A new vCPU starts on the stair being served with half a quota, as a forked task shares its parent's slice:
//!    starting many gains nothing.
//! 6. *Nobody waits.* While there are no more runnable vCPUs than slots, leases have no end, and running costs at most
//!    the step to the next stair, since it took nothing from anybody.
//! 7. *Yield*: see [`YieldRule`] and [`polite`].

mod bound;
pub mod matrix;
pub mod polite;

use super::queue::{Kind, Queue, WINDOW};
use super::slotset::SlotSet;
use super::{Decision, Placement, Policy, Why};
use crate::domain::Attributes;
use crate::{Nanos, Slot, Time, VcpuId, Yield};
pub use bound::wait_bound;
use matrix::{LEVELS, Row, Stair};
pub use polite::PoliteSwitches;

/// How far above the served stair a woken vCPU may stand: one quota's step at nice 0.
pub const LAG: Stair = 2;
/// Unbroken running that ends a wait: who computes this long has got what it yielded for.
const COMPUTES: Nanos = Nanos::from_millis(1);
/// Unbroken running after which yields are forgiven anew.
const WORKS: Nanos = Nanos::from_micros(200);
/// How far below the served stair a vCPU can fall. One that gets there drags the served stair along, and with it those who
/// always let others through; what a stalled host adds beyond that at once is forgiven.
const DEEPEST: Stair = WINDOW - LAG - 2;

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
    /// What a yield means.
    pub yield_rule: YieldRule,
    /// Whether a woken vCPU prefers the slot it last ran on.
    pub affinity: bool,
}

impl Default for RsdlConfig {
    fn default() -> Self {
        Self {
            rr_interval: Nanos::from_millis(6),
            yield_rule: YieldRule::Polite(PoliteSwitches::default()),
            affinity: true,
        }
    }
}

/// A vCPU, as the policy knows it.
#[derive(Debug, Clone)]
struct VcpuState {
    row: Row,
    /// The stair its next quota counts on.
    stair: Stair,
    /// Used of that quota.
    used: Nanos,
    last: Option<Slot>,
    on: Option<Slot>,
    /// The stair it was last queued on.
    queued_on: Stair,
    /// Its last yield was a wait, and it has not computed since.
    waits: bool,
    /// Yields that let it go on although others waited, since it last worked.
    stays: u32,
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
    /// Its vCPU and one on another slot wait for each other's messages.
    paired: bool,
    /// Who takes the slot over when it next asks, and until when.
    reserved: Option<(VcpuId, Time)>,
    /// A vCPU woke up on a better stair; the next check gives way to it.
    contested: bool,
}

/// The policy.
#[derive(Debug)]
pub struct Rsdl {
    config: RsdlConfig,
    vcpus: Vec<Option<VcpuState>>,
    slots: Vec<SlotState>,
    queue: Queue,
    idle: SlotSet,
    /// Busy slots whose vCPU has no limit.
    unlimited: SlotSet,
    /// The stair being served: the highest from which a head was picked.
    served: Stair,
    /// Budget left by stair, modulo [`WINDOW`].
    budgets: [Nanos; WINDOW as usize],
    /// Slots that are reserved for a vCPU, which is neither queued nor running.
    reserving: SlotSet,
    reserved: usize,
    runnable: usize,
    /// Since when there are more runnable vCPUs than slots.
    contended_since: Time,
    /// The next slot to look at when a woken vCPU seeks a worse one to preempt.
    probe: usize,
}

impl Rsdl {
    /// A policy for this many slots, all idle.
    pub fn new(config: RsdlConfig, slots: usize) -> Self {
        let mut idle = SlotSet::new(slots);
        (0..slots).for_each(|slot| idle.insert(Slot(slot as u16)));
        let slot = SlotState {
            current: None,
            charged: Time(0),
            since: Time(0),
            lease_end: Time::NEVER,
            endless: false,
            paired: false,
            reserved: None,
            contested: false,
        };
        Self {
            config,
            vcpus: Vec::new(),
            slots: vec![slot; slots],
            queue: Queue::new(),
            idle,
            unlimited: SlotSet::new(slots),
            served: LAG,
            budgets: [Nanos::ZERO; WINDOW as usize],
            reserving: SlotSet::new(slots),
            reserved: 0,
            runnable: 0,
            contended_since: Time(0),
            probe: 0,
        }
    }

    fn vcpu(&mut self, vcpu: VcpuId) -> &mut VcpuState {
        self.vcpus[vcpu.index()].as_mut().expect("the driver names only vCPUs it added")
    }

    fn contended(&self) -> bool {
        self.runnable > self.slots.len()
    }

    /// Charges the vCPU on a slot for what it ran since it was last charged.
    fn charge(&mut self, slot: Slot, now: Time) {
        let (contended, contended_since, served) = (self.contended(), self.contended_since, self.served);
        let s = &mut self.slots[slot.index()];
        let Some(vcpu) = s.current else { return };
        let (from, unbroken) = (s.charged, now.since(s.since));
        s.charged = now;
        let ran = now.since(from);
        let paid = if contended { now.since(from.max(contended_since)) } else { Nanos::ZERO };
        let v = self.vcpus[vcpu.index()].as_mut().expect("a running vCPU is known");
        if unbroken >= COMPUTES {
            v.waits = false;
        }
        if unbroken >= WORKS {
            v.stays = 0;
        }
        let before = v.stair;
        v.used += paid;
        while v.used >= v.row.quota {
            v.used = v.used.saturating_sub(v.row.quota);
            v.stair = v.row.after(v.stair);
        }
        // Rule 6: what nobody else wanted costs a step at most.
        v.used += ran.saturating_sub(paid);
        if v.used >= v.row.quota {
            v.used = Nanos(v.used.0 % v.row.quota.0);
            if v.stair <= served {
                v.stair = v.row.after(v.stair);
            }
        }
        let budget = &mut self.budgets[(before % WINDOW) as usize];
        *budget = budget.saturating_sub(paid);
        if v.stair > served + DEEPEST {
            let further = (v.stair - served - DEEPEST).min(DEEPEST);
            v.stair = v.stair.min(served + further + DEEPEST);
            self.serve(served + further);
        }
        let left = self.quota_left(vcpu);
        let after = self.vcpu(vcpu).stair;
        if after != before {
            self.grant(after, left);
        }
    }

    /// Brings a vCPU that was left behind up to the lowest stair in use: who sleeps saves up no more than [`LAG`], and who
    /// always lets others through no more than the window.
    fn catch_up(&mut self, vcpu: VcpuId) {
        let lowest = self.served - LAG;
        let v = self.vcpu(vcpu);
        if v.stair < lowest {
            let (stair, quota) = (v.row.at_or_after(lowest), v.row.quota);
            (v.stair, v.used) = (stair, Nanos::ZERO);
            self.grant(stair, quota);
        }
    }

    fn grant(&mut self, stair: Stair, quota: Nanos) {
        self.budgets[(stair % WINDOW) as usize] += quota;
    }

    /// Puts a vCPU that does not run behind all others of its stair, or of `at_least` if that is further down.
    fn enqueue(&mut self, vcpu: VcpuId, at_least: Stair) {
        let (stair, kind) = self.place_for(vcpu, at_least);
        self.queue.push(vcpu, stair, kind);
    }

    /// Puts it where it stood before it ran, if it is still on that stair.
    fn enqueue_at_place(&mut self, vcpu: VcpuId) {
        let (stair, kind) = self.place_for(vcpu, 0);
        let place = self.queue.place(vcpu);
        self.queue.push_at(vcpu, stair, kind, place);
    }

    fn place_for(&mut self, vcpu: VcpuId, at_least: Stair) -> (Stair, Kind) {
        self.catch_up(vcpu);
        let lowest = self.served - LAG;
        let v = self.vcpu(vcpu);
        v.on = None;
        v.queued_on = v.stair.max(at_least).clamp(lowest, lowest + WINDOW - 1);
        (v.queued_on, if v.waits { Kind::Waiting } else { Kind::Computing })
    }

    /// Takes the head of the queue, after the minor rotations that are due.
    fn pick(&mut self) -> Option<VcpuId> {
        loop {
            let (vcpu, stair) = self.queue.head()?;
            let exhausted = self.budgets[(stair % WINDOW) as usize] == Nanos::ZERO;
            if exhausted && stair < self.served + DEEPEST {
                self.queue.push_down(stair);
                // Who has a quota left there brings it along.
                let left = self.quota_left(vcpu);
                self.grant(stair + 1, left);
                continue;
            }
            self.serve(stair);
            self.queue.remove(vcpu);
            return Some(vcpu);
        }
    }

    fn quota_left(&mut self, vcpu: VcpuId) -> Nanos {
        let v = self.vcpu(vcpu);
        v.row.quota.saturating_sub(v.used)
    }

    /// The served stair moves on, and brings along who is queued below; stairs that leave the window forget their budgets.
    fn serve(&mut self, stair: Stair) {
        while self.served < stair {
            self.budgets[((self.served - LAG) % WINDOW) as usize] = Nanos::ZERO;
            self.served += 1;
        }
        self.queue.raise_floor(self.served - LAG);
    }

    /// Gives a slot to a vCPU that is in no list.
    fn install(&mut self, slot: Slot, vcpu: VcpuId, lease_end: Time, now: Time) -> Decision {
        self.catch_up(vcpu);
        let v = self.vcpu(vcpu);
        (v.on, v.last) = (Some(slot), Some(slot));
        let s = &mut self.slots[slot.index()];
        (s.current, s.charged, s.since, s.lease_end) = (Some(vcpu), now, now, lease_end);
        (s.paired, s.contested) = (false, false);
        self.go_on(slot, vcpu)
    }

    /// A new lease for as long as the vCPU's quota lasts; if that is less than half of it, for the next one as well, lest
    /// who yields late in each quota has every other turn for a sliver.
    fn install_fresh(&mut self, slot: Slot, vcpu: VcpuId, now: Time) -> Decision {
        let (left, quota) = (self.quota_left(vcpu), self.vcpu(vcpu).row.quota);
        let end = now + if left.0 < quota.0 / 2 { left + quota } else { left };
        self.install(slot, vcpu, end, now)
    }

    /// The vCPU on the slot goes on; limited only if somebody waits.
    fn go_on(&mut self, slot: Slot, vcpu: VcpuId) -> Decision {
        let endless = self.waiting() == 0;
        let left = self.quota_left(vcpu);
        let s = &mut self.slots[slot.index()];
        s.endless = endless;
        // Only a reservation waits, for another slot: there is nobody to give a used-up lease to.
        if !endless && s.lease_end <= s.charged {
            s.lease_end = s.charged + left;
        }
        let until = if endless { Time::NEVER } else { s.lease_end };
        if endless {
            self.unlimited.insert(slot)
        } else {
            self.unlimited.remove(slot)
        }
        Decision::run(vcpu, until)
    }

    /// The next one from the queue, or idleness, for a slot whose vCPU has left.
    fn pick_for(&mut self, slot: Slot, now: Time) -> Decision {
        match self.pick() {
            Some(vcpu) => self.install_fresh(slot, vcpu, now),
            None if self.reserved > 0 => self.take_over(slot, now),
            None => {
                self.slots[slot.index()].current = None;
                self.unlimited.remove(slot);
                self.idle.insert(slot);
                Decision::IDLE
            }
        }
    }

    fn runnable_changes(&mut self, up: bool, now: Time) {
        let before = self.contended();
        self.runnable = if up { self.runnable + 1 } else { self.runnable - 1 };
        if !before && self.contended() {
            self.contended_since = now;
        }
    }

    /// Lease end, kick, or a look round at an exit.
    fn check(&mut self, slot: Slot, current: VcpuId, now: Time) -> Decision {
        let Some((_, best)) = self.queue.head() else { return self.go_on(slot, current) };
        self.begin_lease(slot, current, now);
        let s = &mut self.slots[slot.index()];
        // Only a wake takes a slot before the lease ends: a check for any other reason must not take back the turn that
        // a yield from a better stair has given.
        let contested = std::mem::take(&mut s.contested);
        if self.slots[slot.index()].lease_end <= now {
            self.lease_over(slot, current, now)
        } else if contested && best < self.vcpu(current).stair {
            self.enqueue_at_place(current);
            self.pick_for(slot, now)
        } else {
            self.go_on(slot, current)
        }
    }

    /// A lease that had no end while nobody waited gets one, now that somebody does.
    fn begin_lease(&mut self, slot: Slot, current: VcpuId, now: Time) {
        let left = self.quota_left(current);
        let s = &mut self.slots[slot.index()];
        if s.endless && s.lease_end <= now {
            s.lease_end = now + left;
        }
    }

    /// A used-up lease: to the tail of its stair, and the head runs; the same vCPU again, if its next stair is still
    /// above all others'.
    fn lease_over(&mut self, slot: Slot, current: VcpuId, now: Time) -> Decision {
        self.vcpu(current).protected = false;
        self.enqueue(current, 0);
        self.pick_for(slot, now)
    }

    /// Behind all others of its stair and the head's, so that the head runs, wherever it stands.
    fn give_turn(&mut self, slot: Slot, current: VcpuId, now: Time) -> Decision {
        let head = self.queue.head().map_or(0, |(_, stair)| stair);
        self.enqueue(current, head);
        self.pick_for(slot, now)
    }

    fn yields(&mut self, slot: Slot, current: VcpuId, y: Yield, now: Time) -> Decision {
        if self.queue.len() == 0 {
            return self.go_on(slot, current);
        }
        self.begin_lease(slot, current, now);
        match self.config.yield_rule {
            YieldRule::None => self.check(slot, current, now),
            YieldRule::Expire => {
                let served = self.served;
                let v = self.vcpu(current);
                let next_rotation = (v.stair.max(served) / LEVELS + 1) * LEVELS;
                (v.stair, v.used) = (v.row.at_or_after(next_rotation), Nanos::ZERO);
                let (stair, quota) = (v.stair, v.row.quota);
                self.grant(stair, quota);
                self.enqueue(current, 0);
                self.pick_for(slot, now)
            }
            YieldRule::Polite(switches) => {
                if self.slots[slot.index()].lease_end <= now {
                    return self.give_turn(slot, current, now);
                }
                self.polite(switches, slot, current, y, now)
            }
        }
    }

    /// A running vCPU from a worse stair than this: the slot the woken one knows, or one more. `None` if both are better.
    fn victim(&mut self, stair: Stair, last: Option<Slot>, now: Time) -> Option<Slot> {
        self.probe = (self.probe + 1) % self.slots.len();
        let other = Slot(self.probe as u16);
        let first = if self.config.affinity { last.unwrap_or(other) } else { other };
        for slot in [first, other] {
            self.charge(slot, now);
            if let Some(current) = self.slots[slot.index()].current
                && self.vcpu(current).stair > stair
            {
                return Some(slot);
            }
        }
        None
    }

    /// A slot whose vCPU has no limit, which is to get one now that somebody waits.
    fn limit_one(&mut self, last: Option<Slot>) -> Option<Slot> {
        let known = last.filter(|&slot| self.unlimited.contains(slot));
        let slot = known.or_else(|| self.unlimited.first())?;
        self.unlimited.remove(slot);
        Some(slot)
    }
}

impl Policy for Rsdl {
    fn add(&mut self, vcpu: VcpuId, attributes: Attributes, _now: Time) {
        let row = Row::new(attributes.nice, self.config.rr_interval);
        let stair = row.at_or_after(self.served);
        let used = Nanos(row.quota.0 / 2);
        self.queue.admit(vcpu);
        if self.vcpus.len() <= vcpu.index() {
            self.vcpus.resize(vcpu.index() + 1, None);
        }
        self.vcpus[vcpu.index()] = Some(VcpuState {
            row,
            stair,
            used,
            last: None,
            on: None,
            queued_on: stair,
            waits: false,
            stays: 0,
            protected: false,
        });
        self.grant(stair, Nanos(row.quota.0 - used.0));
    }

    fn remove(&mut self, vcpu: VcpuId) {
        if self.queue.contains(vcpu) {
            self.queue.remove(vcpu);
            self.runnable -= 1;
        }
        if let Some(Some(VcpuState { on: Some(slot), .. })) = self.vcpus.get(vcpu.index()) {
            let slot = *slot;
            if self.slots[slot.index()].reserved.is_some_and(|(next, _)| next == vcpu) {
                self.take_reservation(slot);
            } else {
                self.slots[slot.index()].current = None;
                self.idle.insert(slot);
            }
            self.runnable -= 1;
        }
        self.vcpus[vcpu.index()] = None;
    }

    fn wake(&mut self, vcpu: VcpuId, now: Time) -> Placement {
        self.runnable_changes(true, now);
        self.catch_up(vcpu);
        let v = self.vcpu(vcpu);
        v.waits = false;
        let (stair, last) = (v.stair, v.last);
        let known = last.filter(|&slot| self.config.affinity && self.idle.contains(slot));
        if let Some(slot) = known.or_else(|| self.idle.first()) {
            self.idle.remove(slot);
            let s = &mut self.slots[slot.index()];
            (s.current, s.charged, s.since) = (Some(vcpu), now, now);
            self.vcpu(vcpu).on = Some(slot);
            return Placement::Run(slot);
        }
        let victim = self.victim(stair, last, now);
        self.enqueue(vcpu, 0);
        match victim {
            Some(slot) => {
                self.slots[slot.index()].contested = true;
                Placement::Preempt(slot)
            }
            None => Placement::Queue(self.limit_one(last)),
        }
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
        if self.queue.len() > 0 {
            decision.kick = decision.kick.or_else(|| self.limit_one(None));
        }
        decision
    }

    fn waiting(&self) -> usize {
        self.queue.len() + self.reserved
    }
}

impl Rsdl {
    /// The vCPU on a slot makes room: for good, until it is woken, or evicted to its place in the queue.
    fn leaves(&mut self, current: VcpuId, why: Why, now: Time) {
        match why {
            Why::Block | Why::Retire => {
                self.runnable_changes(false, now);
                self.vcpu(current).on = None;
                if why == Why::Retire {
                    self.vcpus[current.index()] = None;
                }
            }
            _ => {
                self.vcpu(current).protected = true;
                self.enqueue_at_place(current);
            }
        }
    }

    fn pick_idle(&mut self, slot: Slot, now: Time) -> Decision {
        if self.queue.len() > 0 {
            self.idle.remove(slot);
        }
        self.pick_for(slot, now)
    }
}
