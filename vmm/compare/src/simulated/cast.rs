//! Who plays what in a simulated suite, as the guests of the measured one divide it.

use crate::cells::ending::Work;
use crate::cells::netbench;
use crate::workload::{self, Part, part};
use crate::{Hint, Options};
use stile_host::HostCosts;
use stile_results::suite::Suite;
use stile_sched::attributes::Attributes;
use stile_sched::sim::Guest;
use stile_sched::sim::guest::{Chatter, Manners, Patience, Phase};
use stile_sched::{Nanos, Time};

/// Work of an operation of a hog, as the guest program counts them.
pub(super) const HOG_STEP: Nanos = Nanos::from_micros(10);
/// The part of VMs that are started meanwhile, whose waits are not recorded with the others'.
pub(super) const NEWCOMERS: u8 = 15;
/// Reading the clock, writing the gauge and whatever else goes with an operation.
const BOOKKEEPING: Nanos = Nanos(20);

/// A vCPU of a suite.
#[derive(Debug, Clone)]
pub(super) struct Actor {
    pub(super) attributes: Attributes,
    pub(super) guest: Guest,
    /// Whose waits its own are recorded with.
    pub(super) part: u8,
    /// A first letter lies in its mailbox.
    pub(super) posts: bool,
}

/// All vCPUs of a cell, in the order in which they start.
#[derive(Debug, Clone)]
pub(super) struct Cast {
    pub(super) actors: Vec<Actor>,
    /// The same in the order of a window.
    pub(super) order: Vec<usize>,
    /// VMs to start during the window.
    pub(super) newcomers: u32,
}

impl Cast {
    pub(super) fn new(options: &Options, size: u32, costs: &HostCosts) -> Self {
        let params = Params { options, costs };
        match (options.suite, Work::of(options, size)) {
            (Suite::Netbench, _) => return Self::netbench(size as usize),
            (Suite::Volano, Some(work)) => return Self::volano(work, params.manners()),
            _ => {}
        }
        let mut actors = Vec::new();
        for guest in workload::guests(options.suite, size) {
            let attributes = Attributes { nice: guest.nice, ..Attributes::default() };
            for vcpu in 0..guest.vcpus as usize {
                actors.push(params.actor(attributes, vcpu, guest.vcpus as usize));
            }
        }
        Self { order: (0..actors.len()).collect(), actors, newcomers: 0 }
    }

    /// All threads of all rooms, room by room.
    fn volano(work: Work, manners: Manners) -> Self {
        let all = (0..work.vms() as usize).flat_map(|room| (0..work.vcpus as usize).map(move |n| (room, n)));
        let actor = |(room, n)| {
            let guest = Guest::chatter(Chatter::new(room, n, manners));
            Actor { attributes: Attributes::default(), guest, part: Part::Main as u8, posts: false }
        };
        let actors: Vec<Actor> = all.map(actor).collect();
        Self { order: (0..actors.len()).collect(), actors, newcomers: 0 }
    }

    /// A server and a client for each, the server first; in the window all clients come first.
    fn netbench(clients: usize) -> Self {
        let actor = |guest, part| Actor { attributes: Attributes::default(), guest, part, posts: false };
        let pair = |n: usize| {
            // Every client begins elsewhere.
            let exchange = (n * 7919) as u32;
            [actor(Guest::server(), Part::Odd as u8), actor(Guest::requester(2 * n, exchange), Part::Main as u8)]
        };
        Self {
            actors: (0..clients).flat_map(pair).collect(),
            order: (0..clients).map(|n| 2 * n + 1).chain((0..clients).map(|n| 2 * n)).collect(),
            newcomers: netbench::STARTS,
        }
    }
}

/// What the guests' command lines say.
struct Params<'a> {
    options: &'a Options,
    costs: &'a HostCosts,
}

impl Params<'_> {
    fn number(&self, key: &str, default: u64) -> u64 {
        self.options.setting(key).unwrap_or(default)
    }

    /// The vCPU of this index in a VM.
    fn actor(&self, attributes: Attributes, vcpu: usize, vcpus: usize) -> Actor {
        let suite = self.options.suite;
        let part = part(suite, vcpu, vcpus);
        let guest = match (suite, part) {
            (Suite::Hogs | Suite::Weights, _) | (_, Part::Hog) => Guest::Hog,
            (_, Part::Odd) => Guest::newcomer(Nanos::ZERO),
            (Suite::Pingpong, _) | (_, Part::Pair) => self.pinger(vcpu),
            (Suite::Probe, _) => self.prober(vcpu, vcpus),
            (_, Part::Main) => self.locker(),
        };
        let posts = matches!(guest, Guest::Pinger { .. }) && vcpu.is_multiple_of(2);
        Actor { attributes, guest, part: part as u8, posts }
    }

    fn manners(&self) -> Manners {
        let patience = if self.options.hint == Hint::Full { Patience::Hints } else { Patience::Mute };
        Manners { spin: Nanos(self.number("spins", 200).saturating_mul(self.costs.pause_ns)), patience }
    }

    fn locker(&self) -> Guest {
        let (hold, gap) = (Nanos(self.number("hold_ns", 2_000)), Nanos(self.number("gap_ns", 5_000)));
        let (manners, phase) = (self.manners(), Phase::Apart);
        Guest::Locker { lock: 0, hold: hold + BOOKKEEPING, gap: gap + BOOKKEEPING, manners, phase }
    }

    fn pinger(&self, vcpu: usize) -> Guest {
        let work = Nanos(self.number("work_ns", 0)) + BOOKKEEPING;
        Guest::Pinger { peer: vcpu ^ 1, work, manners: self.manners(), phase: Phase::Apart }
    }

    /// Probes start spread over a period.
    fn prober(&self, vcpu: usize, vcpus: usize) -> Guest {
        let period = Nanos::from_micros(self.number("period_us", 5_000));
        let work = Nanos::from_micros(self.number("work_us", 200));
        let due = Time(period.0 * vcpu as u64 / vcpus.div_ceil(2) as u64);
        Guest::Prober { period, work, due, phase: Phase::Apart }
    }
}
