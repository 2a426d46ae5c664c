//! Caps around any policy: the vCPUs of a group together run no more than its [`Cap`](crate::attributes::Cap).
//!
//! The inner policy decides which vCPU runs; this one decides which may. It knows no weights and no slots, so it stands
//! around any policy.
//!
//! # Rules
//! 1. *Slices.* A vCPU that may run has drawn a slice from its group's budget (`budget.rs`). It is charged for what it
//!    runs. Its lease ends with its slice at the latest. What it runs beyond its slice is a debt of the group, carried
//!    over until it is paid. A vCPU may come to run with more than a slice, drawn when the group had fewer members: it
//!    loses the excess.
//! 2. *Freezing.* A vCPU whose slice is used up draws another when it asks, if one is ready and no vCPU of the group is
//!    frozen. Otherwise it is frozen. A frozen vCPU is reported to the inner policy as blocked. To the driver it waits.
//! 3. *Staggering.* As soon as a slice is ready, the vCPU of the group that has been frozen longest gets it and goes
//!    on. Slices become ready one after the other, two for each member in a period. So vCPUs that all compute are
//!    neither frozen nor released together. A VM is not stopped for the rest of a period, as by the kernel's `cpu.max`,
//!    and a lock's holder goes on within the period.
//! 4. *Bound.* Where nothing is overdrawn, every turn comes within half a period. No vCPU is frozen for more than
//!    thrice that: then it goes on with a sliver on credit, so that a debt which a stall of the host made, however
//!    large, slows a group down without stopping a vCPU. There is no credit for what the group made by itself: what its
//!    vCPUs [overran](Policy::overran), and [what other threads did](Policy::charge) for it, is paid first.
//! 5. *Sleep.* A blocked vCPU keeps what is left of its slice. When it is woken it needs one, as in 2.
//! 6. *Events.* The driver's: an event for a frozen vCPU is one for a vCPU that waits. It does not start it and is not
//!    lost.
//! 7. *Yields.* A yield that names a frozen vCPU of the same group, which holds the lock or owes the message, swaps the
//!    two: the frozen vCPU goes on with the rest of the slice, and the yielder is frozen instead. The yielder would
//!    only spend the slice on waiting, so the group uses no more. A named vCPU of another group stays frozen: a cap is
//!    not lent.
//!
//! The price of being blocked to the inner policy: a policy that guesses from sleep which vCPUs are interactive, as
//! `o1` does, takes a frozen vCPU for a sleeper.

mod budget;

use super::contract::Policy;
use super::decision::{Decision, Placement, Resumed, Throttled, Why};
use super::travel::{Front, Progress, Spare, Traveller};
use super::yield_counts::YieldCounts;
use crate::attributes::{self, Attributes, GroupId};
use crate::deadlines::Deadlines;
use crate::ids::{Slot, VcpuId};
use crate::time::{Nanos, Time};
use crate::wait::Wait;
pub(crate) use budget::Budget;
use std::collections::VecDeque;
use std::fmt;

/// A rest of a slice that is not worth running for: a turn costs an exit and a switch.
pub(crate) const LEAST: Nanos = Nanos::from_micros(50);
/// For how many rounds of turns a vCPU is frozen at most. With two rounds in a period, this leaves half a period of two
/// for the inner policy to run it. All slivers together are a sixth of the cap, so that debt goes down.
const PATIENCE: u64 = 3;

/// A policy, and the caps its vCPUs are held to.
pub struct Capped {
    inner: Box<dyn Policy>,
    groups: Vec<Option<Group>>,
    /// By vCPU; `None`: without a cap.
    members: Vec<Option<Member>>,
    slots: Box<[Option<Turn>]>,
    /// When the first frozen vCPU of each group goes on.
    resumes: Deadlines,
}

/// The vCPU that runs on a slot.
#[derive(Debug, Clone, Copy)]
struct Turn {
    vcpu: VcpuId,
    since: Time,
    /// It ran on beyond its lease by its own doing.
    overran: bool,
}

/// vCPUs under one cap.
#[derive(Debug)]
struct Group {
    id: GroupId,
    budget: Budget,
    /// Until then the group pays for what it made by itself beyond its slices, and has no credit.
    owes_until: Time,
    members: u32,
    /// In the order in which they were frozen, except that those that were given a slice come first.
    frozen: VecDeque<VcpuId>,
    /// The vCPU among [`Capped::resumes`].
    first: Option<VcpuId>,
}

#[derive(Debug)]
struct Member {
    group: usize,
    /// What is left of its slice.
    slice: Nanos,
    frozen: Option<Time>,
    throttled: Nanos,
}

impl fmt::Debug for Capped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capped").field("groups", &self.groups).field("slots", &self.slots).finish_non_exhaustive()
    }
}

impl Capped {
    /// This policy, for this many slots, with caps.
    pub fn new(inner: Box<dyn Policy>, slots: usize) -> Self {
        let slots = vec![None; slots].into();
        Self { inner, groups: Vec::new(), members: Vec::new(), slots, resumes: Deadlines::default() }
    }

    fn member(&mut self, vcpu: VcpuId) -> Option<&mut Member> {
        self.members.get_mut(vcpu.index())?.as_mut()
    }

    /// A group's budget is kept in one place, so its vCPUs do not leave.
    fn is_capped(&self, vcpu: VcpuId) -> bool {
        self.members.get(vcpu.index()).is_some_and(Option::is_some)
    }

    fn group_of(&self, vcpu: VcpuId) -> Option<&Group> {
        let member = self.members.get(vcpu.index())?.as_ref()?;
        self.groups[member.group].as_ref()
    }

    /// A vCPU with a cap, and its group.
    fn both(&mut self, vcpu: VcpuId) -> Option<(&mut Member, &mut Group)> {
        let member = self.members.get_mut(vcpu.index())?.as_mut()?;
        let group = self.groups[member.group].as_mut().expect("a member's group exists");
        Some((member, group))
    }

    fn join(&mut self, vcpu: VcpuId, to: attributes::Group, now: Time) {
        let known = self.groups.iter().position(|group| group.as_ref().is_some_and(|group| group.id == to.id));
        let index = known.or_else(|| self.groups.iter().position(Option::is_none)).unwrap_or(self.groups.len());
        if index == self.groups.len() {
            self.groups.push(None);
        }
        let group = self.groups[index].get_or_insert_with(|| Group {
            id: to.id,
            budget: Budget::new(to.cap, now),
            owes_until: Time(0),
            members: 0,
            frozen: VecDeque::new(),
            first: None,
        });
        group.members += 1;
        group.frozen.reserve(group.members as usize - group.frozen.len());
        let member = Member { group: index, slice: Nanos::ZERO, frozen: None, throttled: Nanos::ZERO };
        self.members[vcpu.index()] = Some(member);
        self.watch(index);
    }

    /// A vCPU leaves its group, and the last one ends it.
    fn leave(&mut self, vcpu: VcpuId) {
        let Some(member) = self.members.get_mut(vcpu.index()).and_then(Option::take) else { return };
        let group = self.groups[member.group].as_mut().expect("a member's group exists");
        group.members -= 1;
        if member.frozen.is_some() {
            group.frozen.retain(|&frozen| frozen != vcpu);
        }
        let ended = group.members == 0;
        self.watch(member.group);
        if ended {
            self.groups[member.group] = None;
        }
    }

    /// Sees to it that the first frozen vCPU of a group goes on in time. After whatever may change that time.
    fn watch(&mut self, index: usize) {
        let Some(group) = self.groups[index].as_mut() else { return };
        let first = group.frozen.front().copied();
        let due = first.and_then(|vcpu| self.members[vcpu.index()].as_ref()).map(|member| member.due(group));
        if let Some(before) = std::mem::replace(&mut group.first, first) {
            self.resumes.remove(before);
        }
        if let (Some(vcpu), Some(due)) = (first, due) {
            self.resumes.insert(due, vcpu);
        }
    }

    /// Whether a vCPU may run (on), by what it has or by drawing a slice.
    fn may_run(&mut self, vcpu: VcpuId, now: Time) -> bool {
        let Some((member, group)) = self.both(vcpu) else { return true };
        if member.slice >= LEAST {
            return true;
        }
        let may_draw = group.frozen.is_empty() && group.budget.ready(group.members) <= now;
        if may_draw {
            member.slice = group.budget.draw(group.members, member.slice, now);
        }
        may_draw
    }

    fn freeze(&mut self, vcpu: VcpuId, now: Time) {
        let Some((member, group)) = self.both(vcpu) else { return };
        member.frozen = Some(now);
        group.frozen.push_back(vcpu);
        let index = member.group;
        self.watch(index);
    }

    /// A vCPU ran for so long; it may have gone beyond its lease by its own doing.
    fn charge_run(&mut self, vcpu: VcpuId, ran: Nanos, overran: bool, now: Time) {
        let Some((member, group)) = self.both(vcpu) else { return };
        let beyond = ran.saturating_sub(member.slice);
        member.slice = member.slice.saturating_sub(ran);
        if beyond > Nanos::ZERO {
            group.overdraw(beyond, overran, now);
            let index = member.group;
            self.watch(index);
        }
    }

    /// A yield to a frozen vCPU of the same group gives it the yielder's slice.
    fn give_slice(&mut self, from: VcpuId, wait: Wait) {
        let (Wait::Lock(to) | Wait::Message(to)) = wait else { return };
        let Some(giver) = self.member(from).filter(|giver| giver.slice >= LEAST) else { return };
        let (index, slice) = (giver.group, giver.slice);
        let same = |member: &&mut Member| member.group == index && member.frozen.is_some() && member.slice < LEAST;
        let Some(taker) = self.member(to).filter(same) else { return };
        taker.slice += slice;
        self.both(from).into_iter().for_each(|(giver, group)| {
            giver.slice = Nanos::ZERO;
            group.frozen.retain(|&frozen| frozen != to);
            group.frozen.push_front(to);
        });
        self.watch(index);
    }

    /// Why the policy within is asked: it takes a vCPU that may not run on for a blocked one.
    fn reason(&mut self, slot: Slot, why: Why, now: Time) -> Why {
        let Some(Turn { vcpu, since, overran }) = self.slots[slot.index()].take() else { return why };
        self.charge_run(vcpu, now.since(since), overran, now);
        match why {
            Why::Block => return why,
            Why::Retire => {
                self.leave(vcpu);
                return why;
            }
            Why::Yield(y) => self.give_slice(vcpu, y.wait),
            Why::Free | Why::Exit | Why::Check => {}
        }
        if !self.may_run(vcpu, now) {
            self.freeze(vcpu, now);
            return Why::Block;
        }
        match why {
            // Told of for rule 7.
            Why::Yield(_) if self.inner.waiting() == 0 && !self.inner.is_told_of_lone_yields() => Why::Check,
            why => why,
        }
    }
}

impl Group {
    /// CPU time beyond what was drawn, which the group may have made by itself.
    fn overdraw(&mut self, time: Nanos, itself: bool, now: Time) {
        self.budget.overdraw(time, now);
        if itself {
            self.owes_until = self.budget.ready(self.members);
        }
    }
}

impl Member {
    /// When it goes on, being the first of those frozen.
    fn due(&self, group: &Group) -> Time {
        let since = self.frozen.unwrap_or_default();
        if self.slice >= LEAST {
            return since;
        }
        let round = u64::from(group.members) * group.budget.turn(group.members).0;
        let on_credit = (since + Nanos(PATIENCE * round)).max(group.owes_until);
        group.budget.ready(group.members).min(on_credit)
    }

    /// Goes on, by a slice it has, one that is ready, or a sliver on credit.
    fn thaw(&mut self, group: &mut Group, now: Time) {
        if self.slice < LEAST && group.budget.ready(group.members) <= now {
            self.slice = group.budget.draw(group.members, self.slice, now);
        } else if self.slice < LEAST {
            group.budget.overdraw(LEAST - self.slice, now);
            self.slice = LEAST;
        }
        self.throttled = self.time(now);
        self.frozen = None;
    }

    fn time(&self, now: Time) -> Nanos {
        self.throttled + self.frozen.map_or(Nanos::ZERO, |since| now.since(since))
    }
}

impl Policy for Capped {
    fn add(&mut self, vcpu: VcpuId, attributes: Attributes, now: Time) {
        if self.members.len() <= vcpu.index() {
            self.members.resize_with(vcpu.index() + 1, || None);
        }
        self.resumes.admit(vcpu);
        if let Some(group) = attributes.group {
            self.join(vcpu, group, now);
        }
        self.inner.add(vcpu, attributes, now);
    }

    fn remove(&mut self, vcpu: VcpuId) {
        self.leave(vcpu);
        self.inner.remove(vcpu);
    }

    fn wake(&mut self, vcpu: VcpuId, now: Time) -> Placement {
        if self.may_run(vcpu, now) {
            return self.inner.wake(vcpu, now);
        }
        self.freeze(vcpu, now);
        Placement::Held
    }

    fn resume(&mut self, vcpu: VcpuId, now: Time) -> Placement {
        self.inner.resume(vcpu, now)
    }

    fn next(&mut self, slot: Slot, why: Why, now: Time) -> Decision {
        let within = self.reason(slot, why, now);
        let mut decision = self.inner.next(slot, within, now);
        decision.held = within == Why::Block && why != Why::Block;
        if let Some(lease) = &mut decision.run {
            self.slots[slot.index()] = Some(Turn { vcpu: lease.vcpu, since: now, overran: false });
            if let Some((member, group)) = self.both(lease.vcpu) {
                debug_assert!(member.slice >= LEAST && member.frozen.is_none(), "{}: {member:?}", lease.vcpu);
                // It may have been drawn while the group was smaller, or grown by what a yielder gave.
                member.slice = member.slice.min(group.budget.slice(group.members));
                lease.until = lease.until.min(now + member.slice);
            }
        }
        decision
    }

    fn woken_by(&mut self, vcpu: VcpuId, waker: VcpuId) {
        self.inner.woken_by(vcpu, waker);
    }

    fn taken(&mut self, slot: Slot, time: Nanos) {
        if let Some(turn) = &mut self.slots[slot.index()] {
            turn.since = turn.since + time;
        }
        self.inner.taken(slot, time);
    }

    fn overran(&mut self, slot: Slot) {
        self.slots[slot.index()].iter_mut().for_each(|turn| turn.overran = true);
        self.inner.overran(slot);
    }

    fn charge(&mut self, vcpu: VcpuId, time: Nanos, now: Time) {
        if let Some((member, group)) = self.both(vcpu) {
            group.overdraw(time, true, now);
            let index = member.group;
            self.watch(index);
        }
        self.inner.charge(vcpu, time, now);
    }

    fn lets_work(&self, vcpu: VcpuId) -> Time {
        self.group_of(vcpu).map_or(Time(0), |group| group.budget.ready(group.members))
    }

    fn owes(&self, vcpu: VcpuId, now: Time) -> bool {
        self.group_of(vcpu).is_some_and(|group| now < group.owes_until) || self.inner.owes(vcpu, now)
    }

    fn steals(&mut self, slot: Slot, thief: VcpuId, now: Time) -> bool {
        let steals = self.inner.steals(slot, thief, now);
        if steals {
            // The robbed vCPU has not run.
            self.slots[slot.index()] = None;
        }
        steals
    }

    fn waiting(&self) -> usize {
        self.inner.waiting()
    }

    fn alarm(&self) -> Time {
        self.resumes.earliest().min(self.inner.alarm())
    }

    fn tick(&mut self, now: Time) -> Option<Resumed> {
        let Some(vcpu) = self.resumes.pop_due(now) else { return self.inner.tick(now) };
        let (member, group) = self.both(vcpu)?;
        group.first = None;
        group.frozen.pop_front();
        member.thaw(group, now);
        let index = member.group;
        self.watch(index);
        Some(Resumed { vcpu, placement: self.inner.resume(vcpu, now) })
    }

    fn throttled(&self, vcpu: VcpuId, now: Time) -> Throttled {
        let member = self.members.get(vcpu.index()).and_then(Option::as_ref);
        member.map_or(Throttled::default(), |m| Throttled { is_held: m.frozen.is_some(), time: m.time(now) })
    }

    fn yield_counts(&self) -> Option<YieldCounts> {
        self.inner.yield_counts()
    }

    fn spare(&self) -> Option<Spare> {
        self.inner.spare().filter(|spare| !self.is_capped(spare.vcpu))
    }

    fn stands(&self, vcpu: VcpuId) -> Option<u64> {
        if self.is_capped(vcpu) { None } else { self.inner.stands(vcpu) }
    }

    fn progress(&self) -> Progress {
        self.inner.progress()
    }

    fn keeps_up(&mut self, front: Front, now: Time) {
        self.inner.keeps_up(front, now);
    }

    fn follows(&self, vcpu: VcpuId) -> Option<VcpuId> {
        self.inner.follows(vcpu)
    }

    fn departs(&mut self, vcpu: VcpuId, now: Time) -> Option<Traveller> {
        if self.is_capped(vcpu) { None } else { self.inner.departs(vcpu, now) }
    }

    fn arrives(
        &mut self,
        vcpu: VcpuId,
        attributes: Attributes,
        traveller: Traveller,
        slot: Slot,
        now: Time,
    ) -> Option<Placement> {
        if self.members.len() <= vcpu.index() {
            self.members.resize_with(vcpu.index() + 1, || None);
        }
        self.inner.arrives(vcpu, attributes, traveller, slot, now)
    }

    fn keeps_slot_over_exits(&self) -> bool {
        self.inner.keeps_slot_over_exits()
    }

    fn is_told_of_lone_yields(&self) -> bool {
        true
    }

    fn tells_presence(&self) -> bool {
        self.inner.tells_presence()
    }
}
