//! The contract of a policy: the questions that a driver asks.

use super::decision::{Decision, Placement, Resumed, Throttled, Why};
use super::travel::{Front, Progress, Spare, Traveller};
use super::yield_counts::YieldCounts;
use crate::attributes::Attributes;
use crate::ids::{Slot, VcpuId};
use crate::time::{Nanos, Time};

/// Decides which vCPU runs on which slot, and until when.
///
/// The [module](super) says when a driver calls what. The methods without a default are all that a policy needs. Here
/// is one that gives each vCPU a turn of 5 ms, first come, first served:
///
/// ```
/// use std::collections::VecDeque;
/// use stile_sched::policy::{Decision, Placement, Why};
/// use stile_sched::sim::{Costs, Guest, SimMachine};
/// use stile_sched::{Attributes, Lease, Nanos, Policy, Slot, Time, VcpuId};
///
/// struct RoundRobin {
///     /// The vCPU on each slot, or placed on a slot that has not asked yet.
///     on: Vec<Option<VcpuId>>,
///     queue: VecDeque<VcpuId>,
///     vcpus: usize,
/// }
///
/// impl Policy for RoundRobin {
///     fn add(&mut self, _: VcpuId, _: Attributes, _: Time) {
///         self.vcpus += 1;
///         self.queue.reserve(self.vcpus); // No other method may allocate.
///     }
///
///     fn remove(&mut self, vcpu: VcpuId) {
///         self.vcpus -= 1;
///         self.queue.retain(|&queued| queued != vcpu);
///         self.on.iter_mut().filter(|on| **on == Some(vcpu)).for_each(|on| *on = None);
///     }
///
///     fn wake(&mut self, vcpu: VcpuId, _: Time) -> Placement {
///         let Some(idle) = self.on.iter().position(Option::is_none) else {
///             self.queue.push_back(vcpu);
///             return Placement::Queue(None); // Every lease has an end: no slot need be kicked.
///         };
///         self.on[idle] = Some(vcpu);
///         Placement::Run(Slot(idle as u16))
///     }
///
///     fn next(&mut self, slot: Slot, why: Why, now: Time) -> Decision {
///         let on = &mut self.on[slot.index()];
///         match (why, *on) {
///             (Why::Free, Some(_placed)) => {}
///             (Why::Block, _) => *on = self.queue.pop_front(),
///             (Why::Retire, _) => {
///                 self.vcpus -= 1;
///                 *on = self.queue.pop_front();
///             }
///             (_, stopped) => {
///                 self.queue.extend(stopped);
///                 *on = self.queue.pop_front();
///             }
///         }
///         let run = on.map(|vcpu| Lease { vcpu, until: now + Nanos::from_millis(5) });
///         Decision { run, ..Decision::IDLE }
///     }
///
///     fn waiting(&self) -> usize {
///         self.queue.len()
///     }
/// }
///
/// // The simulator panics if the policy breaks a rule: a lease beyond 5 ms, or an idle slot while a vCPU waits.
/// let policy = RoundRobin { on: vec![None; 2], queue: VecDeque::new(), vcpus: 0 };
/// let costs = Costs { exit: Nanos(1_000), switch: Nanos(1_000), ..Costs::default() };
/// let mut machine = SimMachine::new(policy, 2, costs).audited(Nanos::from_millis(5));
/// let vcpus = [0; 3].map(|part| machine.start(Attributes::default(), Guest::Hog, part));
/// machine.run(Nanos::from_millis(300));
/// for vcpu in vcpus {
///     let run = machine.account(vcpu).run;
///     assert!(run > Nanos::from_millis(190) && run < Nanos::from_millis(210), "two slots for three: {run:?}");
/// }
/// ```
pub trait Policy: Send {
    /// A new vCPU, blocked at first. No living vCPU has this id; one that has ended may have had it. Besides
    /// [`arrives`](Self::arrives) the only method that may allocate.
    fn add(&mut self, vcpu: VcpuId, attributes: Attributes, now: Time);

    /// A vCPU leaves that does not run: blocked, queued, or placed on a slot that has not asked yet.
    fn remove(&mut self, vcpu: VcpuId);

    /// A blocked vCPU can run again. The answer says where it went, and which slot must ask.
    fn wake(&mut self, vcpu: VcpuId, now: Time) -> Placement;

    /// A vCPU that was reported as blocked because it was held back may go on. As [`wake`](Self::wake), but it has not
    /// slept: a policy that favours sleepers need not favour it.
    fn resume(&mut self, vcpu: VcpuId, now: Time) -> Placement {
        self.wake(vcpu, now)
    }

    /// The vCPU that is woken next is woken by this one, which runs. Told right before [`wake`](Self::wake), where the
    /// driver knows it.
    fn woken_by(&mut self, _vcpu: VcpuId, _waker: VcpuId) {}

    /// What the slot does, now that the vCPU on it stopped for this reason. Without a lease in the answer the slot is
    /// idle, and asks again after [`Placement::Run`] names it.
    fn next(&mut self, slot: Slot, why: Why, now: Time) -> Decision;

    /// Of the time since the vCPU on this slot was given the slot, or since the slot last asked, the host took so much:
    /// the vCPU's thread had no CPU. Told right before the slot asks; what is left is what the vCPU ran. It is at most
    /// that time. A driver tells of what it notices.
    fn taken(&mut self, _slot: Slot, _time: Nanos) {}

    /// The vCPU on this slot ran on beyond its lease by its own doing: its thread was at work for it, where no kick
    /// reaches it. Told right before the slot asks. Without this a policy may take a late question for a stall that the
    /// host did not tell of ([`Lease::LATE`](super::Lease::LATE)), and forgive it.
    fn overran(&mut self, _slot: Slot) {}

    /// This vCPU has caused CPU time that is in no lease: that of a thread which serves its VM's devices. It pays as if
    /// it had run so long.
    fn charge(&mut self, _vcpu: VcpuId, _time: Nanos, _now: Time) {}

    /// When the cap of this vCPU's VM lets other threads go on that [work](Self::charge) for the VM.
    fn lets_work(&self, _vcpu: VcpuId) -> Time {
        Time(0)
    }

    /// Whether a vCPU may wait longer than the policy promises, because it has used so much beyond its leases.
    fn owes(&self, _vcpu: VcpuId, _now: Time) -> bool {
        false
    }

    /// A queued vCPU, whose thread runs on the slot's pCPU, asks for the slot in place of the vCPU there. That vCPU was
    /// given the slot, and its thread has not begun to run. True: they are exchanged. The thief is placed on the slot,
    /// which asks next ([`Why::Free`]), and the other goes back to its place in the run queue. Only among equals, and
    /// never where class rt is concerned.
    fn steals(&mut self, _slot: Slot, _thief: VcpuId, _now: Time) -> bool {
        false
    }

    /// Number of vCPUs that could run and have no slot, without those that are held back.
    fn waiting(&self) -> usize;

    /// When [`tick`](Self::tick) is due, [`Time::NEVER`] while the policy holds no vCPU back.
    fn alarm(&self) -> Time {
        Time::NEVER
    }

    /// The time of the [alarm](Self::alarm) has come, or may have: a vCPU that was held back goes on, as if it were
    /// woken.
    fn tick(&mut self, _now: Time) -> Option<Resumed> {
        None
    }

    /// How a vCPU was held back.
    fn throttled(&self, _vcpu: VcpuId, _now: Time) -> Throttled {
        Throttled::default()
    }

    /// What it counts of yields besides what its driver sees; most count nothing.
    fn yield_counts(&self) -> Option<YieldCounts> {
        None
    }

    /// The vCPU at the head of the run queue, for a slot of another [shard](crate::shards) that would idle or has got
    /// further; `None` if no queued vCPU may leave. A policy that never gives one is not divided.
    fn spare(&self) -> Option<Spare> {
        None
    }

    /// The stair of a vCPU, if it is queued and may leave.
    fn stands(&self, _vcpu: VcpuId) -> Option<u64> {
        None
    }

    /// How far the slots have got with serving vCPUs, on one scale for all shards of a domain; and whether vCPUs have
    /// to wait for it.
    fn progress(&self) -> Progress {
        Progress::default()
    }

    /// Other shards have got this far: vCPUs save up nothing by standing further up, and quotas are as long as there.
    fn keeps_up(&mut self, _front: Front, _now: Time) {}

    /// The vCPU that should share a run queue with this one, since it mostly wakes it.
    fn follows(&self, _vcpu: VcpuId) -> Option<VcpuId> {
        None
    }

    /// A vCPU that does not run, and is on no slot, goes to another shard. `None`: it has to stay. Else it is unknown
    /// here from now on.
    fn departs(&mut self, _vcpu: VcpuId, _now: Time) -> Option<Traveller> {
        None
    }

    /// A vCPU comes from another shard, and prefers this slot. The answer is that of [`wake`](Self::wake) if it was
    /// queued there, and `None` if it is blocked. May allocate.
    ///
    /// # Panics
    /// In a policy whose vCPUs never [depart](Self::departs).
    fn arrives(
        &mut self,
        _vcpu: VcpuId,
        _attributes: Attributes,
        _traveller: Traveller,
        _slot: Slot,
        _now: Time,
    ) -> Option<Placement> {
        unreachable!("no vCPU departs from an object of this policy")
    }

    /// Whether a vCPU may go on after an exit without [`Policy::next`] being asked, while its slot is not wanted.
    fn keeps_slot_over_exits(&self) -> bool {
        true
    }

    /// Whether [`Policy::next`] is asked about a yield while no vCPU waits, which changes nothing under a sound policy.
    fn is_told_of_lone_yields(&self) -> bool {
        false
    }

    /// Whether guests are told which of their vCPUs have a pCPU. Then a waiter spins longer while its target runs, and
    /// yields at once if its target has no pCPU.
    fn tells_presence(&self) -> bool {
        false
    }
}
