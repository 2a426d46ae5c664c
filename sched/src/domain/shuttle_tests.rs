//! Whole domains under shuttle: eight scripted vCPUs on two and on three slots, in random schedules.
//!
//! A script waits for events in every way a guest can, sends events, takes turns at a guest's lock, naps, and ends by
//! itself or when the domain is told to end it. What has to hold for every schedule:
//! * every script comes to its end: an event, a kick or a wake-up that is lost leaves it idle or queued for ever, which
//!   shuttle reports as a deadlock or as a run of too many steps;
//! * no vCPU runs on two slots, and no more run than there are slots;
//! * every vCPU is given back once, and the domain's threads end.
//!
//! This has to hold as well when other domains go on with the vCPUs at any moment, even while they are told to end.
//! Once the host's scheduler is one of them, as many may run as there are.
//!
//! Another domain is tried by its constructor, as [`executors`] and [`leases`] are. A failure prints the schedule,
//! which `shuttle::replay` runs again.

use super::contract::Domain;
use super::executors::{self, Executors};
use super::handover::Handover;
use super::leases::Switches;
use super::switchable::Switchable;
use crate::attributes::{Attributes, Cap, Class, Group, GroupId};
use crate::ids::{Nice, VcpuId};
use crate::kick;
use crate::lock::LockRules;
use crate::model::random;
use crate::policy::rsdl::RsdlConfig;
use crate::policy::{Capped, Freelist, Policy, Rsdl};
use crate::shards::ShardPlan;
use crate::time::{Nanos, Time, monotonic};
use crate::topology::Topology;
use crate::vcpu::{Stop, Vcpu};
use crate::wait::{Wait, Yield};
use shuttle::scheduler::RandomScheduler;
use shuttle::sync::{Condvar, Mutex};
use shuttle::{Config, MaxSteps, Runner, thread};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock, Weak};

const VCPUS: usize = 8;
/// Rounds of a script.
const ROUNDS: usize = 3;
const SEED: u64 = 0x5711e;
const SCHEDULES: usize = 400;
/// Sound runs take a tenth of it.
const MOST_STEPS: usize = 400_000;
/// The policies' shortest.
const INTERVAL: Nanos = Nanos::from_micros(100);
/// Longest idle time (unit: ns).
const NAP: u64 = 100_000;
/// Ways to wait for an event.
const WAYS: u64 = 7;
/// The one in which the vCPU halts inside, and nobody but it is told of the event.
const HALTS: u64 = 5;

/// Starts a domain with this many slots.
type Start = fn(usize) -> Trial;

/// A domain, and what is done to it while it runs.
struct Trial {
    domain: Arc<dyn Domain>,
    change: Option<Change>,
}

type Change = Box<dyn FnOnce(&World) + Send>;

impl From<Arc<dyn Handover>> for Trial {
    fn from(domain: Arc<dyn Handover>) -> Self {
        Self { domain, change: None }
    }
}

/// A domain of executors; its policy and the rules of its lock are left to chance.
fn executors(slots: usize) -> Arc<dyn Handover> {
    let cpus: Vec<usize> = (0..slots).collect();
    Arc::new(
        Executors::new(&cpus, policy(slots), rules(), executors::Switches { spin_detection: random(2) == 0 }).unwrap(),
    )
}

/// A domain of executors whose every slot is a shard.
fn executors_in_shards(slots: usize) -> Arc<dyn Handover> {
    let cpus: Vec<usize> = (0..slots).collect();
    let (plan, policies) = shards(slots);
    let switches = executors::Switches { spin_detection: random(2) == 0 };
    Arc::new(Executors::in_shards(&cpus, policies, plan, rules(), switches).unwrap())
}

/// A domain of leases; its switches are left to chance as well.
fn leases(slots: usize) -> Arc<dyn Handover> {
    let cpus: Vec<usize> = (0..slots).collect();
    super::leases::start(&cpus, policy(slots), rules(), switches())
}

/// A domain of leases whose every slot is a shard.
fn leases_in_shards(slots: usize) -> Arc<dyn Handover> {
    let cpus: Vec<usize> = (0..slots).collect();
    let (plan, policies) = shards(slots);
    super::leases::start_in_shards(&cpus, policies, plan, rules(), switches())
}

fn switches() -> Switches {
    let (rt_boost, steal, spin_detection) = (random(2) == 0, random(4) > 0, random(2) == 0);
    Switches { rt_boost, steal, spin_detection, departures: true }
}

/// A shard for each slot, and their policies, all with caps or none.
fn shards(slots: usize) -> (ShardPlan, Vec<Box<dyn Policy>>) {
    let plan = ShardPlan::new(slots, NonZeroUsize::MIN, &Topology::default());
    let config = RsdlConfig { rr_interval: INTERVAL, least_quota: INTERVAL, shares: true, ..RsdlConfig::default() };
    let caps = random(2) == 0;
    let policy = |_| -> Box<dyn Policy> {
        let rsdl = Box::new(Rsdl::new(config, 1));
        if caps { Box::new(Capped::new(rsdl, 1)) } else { rsdl }
    };
    (plan, (0..slots).map(policy).collect())
}

/// A domain that others go on with, one after the other, by chance before, while or after they are told to end their
/// vCPUs. One of them is the host's scheduler.
fn switchable(first: Arc<dyn Handover>, slots: usize) -> Trial {
    let cpus: Vec<usize> = (0..slots).collect();
    let domain = Arc::new(Switchable::new(first, &cpus));
    let changed = Arc::clone(&domain);
    let change = move |world: &World| {
        let before = random(2);
        (0..before).for_each(|_| goes_on(&changed, slots));
        world.slots.store(VCPUS, SeqCst);
        changed.fall_back().unwrap();
        (0..random(3 - before)).for_each(|_| goes_on(&changed, slots));
    };
    Trial { domain, change: Some(Box::new(change)) }
}

/// Another domain with a policy goes on.
fn goes_on(domain: &Switchable, slots: usize) {
    let kinds = [executors, executors_in_shards, leases, leases_in_shards];
    let next = kinds[random(kinds.len() as u64) as usize](slots);
    let cpus: Vec<usize> = (0..slots).collect();
    domain.hand_over(next, &cpus, |_, attributes| attributes.nice = Nice::new(random(5) as i8).unwrap()).unwrap();
}

fn policy(slots: usize) -> Box<dyn Policy> {
    let policy: Box<dyn Policy> = match random(3) {
        0 => Box::new(Freelist::new(INTERVAL, slots)),
        _ => Box::new(Rsdl::new(RsdlConfig { rr_interval: INTERVAL, ..RsdlConfig::default() }, slots)),
    };
    if random(2) == 0 { Box::new(Capped::new(policy, slots)) } else { policy }
}

fn rules() -> LockRules {
    LockRules { lateral: random(2) == 0, adaptive: random(2) == 0 }
}

/// What the scripts share. The atomics in it are no part of what is checked, hence std's.
struct World {
    domain: OnceLock<Weak<dyn Domain>>,
    /// How many vCPUs may run at a time.
    slots: AtomicUsize,
    running: AtomicUsize,
    guests: [Guest; VCPUS],
    /// The holder of a lock of the guests.
    turn: std::sync::Mutex<Option<VcpuId>>,
    progress: Mutex<Progress>,
    progressed: Condvar,
}

#[derive(Default)]
struct Guest {
    id: OnceLock<VcpuId>,
    running: AtomicBool,
    /// Events sent to it.
    events: AtomicUsize,
    /// It waits for them inside.
    halts: AtomicBool,
}

/// How many are at the end of their script, and how many have been given back.
#[derive(Default)]
struct Progress {
    through: usize,
    retired: usize,
}

impl World {
    fn wait_for(&self, done: impl Fn(&Progress) -> bool) {
        let mut progress = self.progress.lock().unwrap();
        while !done(&progress) {
            progress = self.progressed.wait(progress).unwrap();
        }
    }

    fn note(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.progress.lock().unwrap());
        self.progressed.notify_all();
    }

    fn id(&self, guest: usize) -> VcpuId {
        *self.guests[guest].id.get().unwrap()
    }
}

/// What a vCPU is about to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Send the partner the event of this round, after so many steps.
    Send(usize, u64),
    /// Wait for the partner's event of this round, in this way.
    Await(usize, u64),
    /// Hold the guests' lock for so many steps.
    Lock(usize, u64),
    /// Idle until this time.
    Nap(usize, Time),
    /// The script is at its end.
    End,
    /// Nothing more, until the domain ends it.
    Linger,
}

/// A vCPU with its script: pairs that take turns, each side in its own manner.
struct Script {
    world: Arc<World>,
    me: usize,
    next: Next,
    again: bool,
}

impl Script {
    fn new(world: &Arc<World>, me: usize) -> Self {
        let next = if me.is_multiple_of(2) { Next::Send(0, random(4)) } else { Next::Await(0, random(WAYS)) };
        Self { world: Arc::clone(world), me, next, again: false }
    }

    fn partner(&self) -> usize {
        self.me ^ 1
    }

    /// One step of the guest; what it stops for, if it does.
    fn step(&mut self) -> Option<Stop> {
        match self.next {
            Next::Send(round, left) => self.send(round, left),
            Next::Await(round, way) => self.wait(round, way),
            Next::Lock(round, left) => self.hold(round, left),
            // Nobody sends an event for this: only the deadline ends it.
            Next::Nap(_, until) if monotonic() < until => Some(Stop::Idle(until)),
            Next::Nap(round, _) => {
                self.next = if round + 1 < ROUNDS { self.first_of(round + 1) } else { Next::End };
                None
            }
            Next::End => self.end(),
            Next::Linger if self.me.is_multiple_of(3) => None,
            Next::Linger => Some(Stop::Idle(Time::NEVER)),
        }
    }

    fn first_of(&self, round: usize) -> Next {
        if self.me.is_multiple_of(2) { Next::Send(round, random(4)) } else { Next::Await(round, random(WAYS)) }
    }

    fn send(&mut self, round: usize, left: u64) -> Option<Stop> {
        if left > 0 {
            self.next = Next::Send(round, left - 1);
            return None;
        }
        let partner = &self.world.guests[self.partner()];
        partner.events.fetch_add(1, SeqCst);
        if !partner.halts.load(SeqCst)
            && let Some(domain) = self.world.domain.get().and_then(Weak::upgrade)
        {
            domain.wake(self.world.id(self.partner()));
        }
        self.go_on(round, self.me.is_multiple_of(2));
        Some(Stop::Exit)
    }

    /// The even one of a pair sends and then waits, the odd one the other way round; then both take the lock.
    fn go_on(&mut self, round: usize, first_half: bool) {
        self.again = false;
        self.next = match (first_half, self.me.is_multiple_of(2)) {
            (true, true) => Next::Await(round, random(WAYS)),
            (true, false) => Next::Send(round, random(4)),
            (false, _) => Next::Lock(round, 4),
        };
    }

    /// Until the partner's event is there: idle, idle with a deadline, two kinds of yield, halted inside, or spinning.
    fn wait(&mut self, round: usize, way: u64) -> Option<Stop> {
        self.world.guests[self.me].halts.store(way == HALTS, SeqCst);
        if self.world.guests[self.me].events.load(SeqCst) > round {
            self.go_on(round, !self.me.is_multiple_of(2));
            return None;
        }
        let wait = match way {
            0 | 1 => return Some(Stop::Idle(Time::NEVER)),
            2 => return Some(Stop::Idle(monotonic() + Nanos(random(NAP)))),
            3 => Wait::Message(self.world.id(self.partner())),
            4 => Wait::Unknown,
            HALTS => return Some(Stop::Halted),
            _ => return None,
        };
        Some(self.give_way(wait))
    }

    fn give_way(&mut self, wait: Wait) -> Stop {
        let again = std::mem::replace(&mut self.again, true);
        Stop::Yield(Yield { wait, again })
    }

    /// A guest that finds the guests' lock taken yields to its holder.
    fn hold(&mut self, round: usize, left: u64) -> Option<Stop> {
        let me = self.world.id(self.me);
        let mut turn = self.world.turn.lock().unwrap();
        let holder = *turn.get_or_insert(me);
        if holder != me {
            drop(turn);
            return Some(self.give_way(Wait::Lock(holder)));
        }
        self.next = Next::Lock(round, left.saturating_sub(1));
        if left == 0 {
            *turn = None;
            self.next = Next::Nap(round, monotonic() + Nanos(random(NAP)));
        }
        None
    }

    /// Some end by themselves, the others linger, computing or idle, until the domain is told to end them.
    fn end(&mut self) -> Option<Stop> {
        self.next = Next::Linger;
        self.world.note(|progress| progress.through += 1);
        (self.me % 3 == 1).then_some(Stop::Done)
    }
}

impl Vcpu for Script {
    fn run(&mut self) -> Stop {
        let world = Arc::clone(&self.world);
        assert!(!world.guests[self.me].running.swap(true, SeqCst), "vCPU {} runs twice", self.me);
        assert!(world.running.fetch_add(1, SeqCst) < world.slots.load(SeqCst), "more vCPUs run than there are slots");
        let stop = loop {
            if kick::is_pending() {
                break Stop::Kicked;
            }
            if let Some(stop) = self.step() {
                break stop;
            }
        };
        world.running.fetch_sub(1, SeqCst);
        world.guests[self.me].running.store(false, SeqCst);
        stop
    }

    fn halts_inside(&self) -> bool {
        true
    }

    fn doze(&mut self) -> bool {
        let Next::Await(round, _) = self.next else { panic!("vCPU {} dozes and does not wait", self.me) };
        assert!(!self.world.guests[self.me].running.load(SeqCst), "vCPU {} runs and dozes", self.me);
        while self.world.guests[self.me].events.load(SeqCst) <= round {
            if kick::is_pending() {
                return false;
            }
            thread::yield_now();
        }
        true
    }

    fn spins(&mut self) -> Option<Yield> {
        (random(3) == 0).then(|| Yield { wait: Wait::Spin, again: random(2) == 0 })
    }

    fn retired(self: Box<Self>, _: &crate::ledger::Account) {
        self.world.note(|progress| progress.retired += 1);
    }
}

/// Weights, and the classes under which a guest that spins cannot keep its partner from running. The lightest gets an
/// eighth of the heaviest: with all weights it would get a four-hundredth, as it should, but guests that spin at the
/// heavy end would use up the run's steps.
fn attributes() -> Attributes {
    let class = if random(4) == 0 { Class::Batch } else { Class::Normal };
    Attributes { nice: Nice::new(random(21) as i8 - 10).unwrap(), class, group: group() }
}

/// None, or one of two; whether it is held to its cap is the policy's business.
fn group() -> Option<Group> {
    let cap = Cap::new(Nanos::from_micros(400), Nanos::from_micros(1000));
    (random(2) == 0).then_some(Group { id: GroupId(random(2) as u32), cap: cap.unwrap() })
}

fn once(slots: usize, start: Start) {
    let world = Arc::new(World {
        domain: OnceLock::new(),
        slots: AtomicUsize::new(slots),
        running: AtomicUsize::new(0),
        guests: Default::default(),
        turn: std::sync::Mutex::default(),
        progress: Mutex::default(),
        progressed: Condvar::new(),
    });
    let Trial { domain, change } = start(slots);
    let _ = world.domain.set(Arc::downgrade(&domain));
    for guest in 0..VCPUS {
        let id = domain.add(Box::new(Script::new(&world, guest)), attributes()).unwrap();
        world.guests[guest].id.set(id).unwrap();
    }
    let changes = change.map(|change| {
        let world = Arc::clone(&world);
        thread::spawn(move || {
            (0..random(300)).for_each(|_| thread::yield_now());
            change(&world);
        })
    });
    (0..VCPUS).for_each(|guest| domain.wake(world.id(guest)));
    world.wait_for(|progress| progress.through == VCPUS);
    (0..VCPUS).for_each(|guest| domain.retire(world.id(guest)));
    world.wait_for(|progress| progress.retired == VCPUS);
    changes.into_iter().for_each(|thread| thread.join().unwrap());
    drop(domain);
    assert_eq!(world.progress.lock().unwrap().retired, VCPUS, "given back twice");
}

fn check(slots: usize, start: Start) {
    let mut config = Config::new();
    config.stack_size = 256 << 10;
    config.max_steps = MaxSteps::FailAfter(MOST_STEPS);
    config.silence_warnings = true;
    Runner::new(RandomScheduler::new_from_seed(SEED, SCHEDULES), config).run(move || once(slots, start));
}

#[test]
fn shuttle_executors_of_two_slots_lose_no_wake_and_give_all_vcpus_back() {
    check(2, |slots| executors(slots).into());
}

#[test]
fn shuttle_executors_of_three_slots_lose_no_wake_and_give_all_vcpus_back() {
    check(3, |slots| executors(slots).into());
}

#[test]
fn shuttle_executors_of_three_shards_lose_no_wake_and_give_all_vcpus_back() {
    check(3, |slots| executors_in_shards(slots).into());
}

#[test]
fn shuttle_leases_of_three_shards_lose_no_wake_and_give_all_vcpus_back() {
    check(3, |slots| leases_in_shards(slots).into());
}

#[test]
fn shuttle_leases_of_two_shards_that_fall_back_lose_no_wake_and_give_all_vcpus_back() {
    check(2, |slots| switchable(leases_in_shards(slots), slots));
}

#[test]
fn shuttle_executors_of_two_shards_that_fall_back_lose_no_wake_and_give_all_vcpus_back() {
    check(2, |slots| switchable(executors_in_shards(slots), slots));
}

#[test]
fn shuttle_leases_of_two_slots_lose_no_wake_and_give_all_vcpus_back() {
    check(2, |slots| leases(slots).into());
}

#[test]
fn shuttle_leases_of_three_slots_lose_no_wake_and_give_all_vcpus_back() {
    check(3, |slots| leases(slots).into());
}

#[test]
fn shuttle_executors_that_fall_back_lose_no_wake_and_give_all_vcpus_back() {
    check(2, |slots| switchable(executors(slots), slots));
}

#[test]
fn shuttle_leases_that_fall_back_lose_no_wake_and_give_all_vcpus_back() {
    check(2, |slots| switchable(leases(slots), slots));
}

#[test]
fn shuttle_leases_of_one_slot_that_fall_back_lose_no_wake_and_give_all_vcpus_back() {
    check(1, |slots| switchable(leases(slots), slots));
}
