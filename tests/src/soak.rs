//! Eight VMs that attack, or that compute honestly, beside six that must not suffer: two probes, and two netbench pairs
//! on the attackers' network.

use crate::{Guest, Recipe, wait_for};
use kvm_ioctls::Kvm;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stile_abi::gauge::{BUCKETS, bucket_top};
use stile_machine::devices::net::Switch;
use stile_machine::vm::Outcome;
use stile_sched::Domain;

/// VMs beside the victims.
pub const OTHERS: u16 = 8;
/// vCPUs of each.
pub const VCPUS: u32 = 2;
/// Ports of the two pairs.
const PAIRS: [u16; 2] = [1, 3];
const PAIR_PORTS: u16 = 4;

/// What runs beside the victims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    /// Random attacks, from this seed on.
    Attackers {
        /// The first VM's seed.
        seed: u64,
    },
    /// VMs that compute.
    Hogs,
}

/// All these VMs.
pub struct Soak {
    others: Vec<Guest>,
    probes: [Guest; 2],
    pairs: [[Guest; 2]; 2],
}

impl Soak {
    /// Starts the victims, and once these work, the others.
    ///
    /// # Panics
    /// If a VM cannot be made, or a victim does not begin to work.
    pub fn start(kvm: &Kvm, domain: &Arc<dyn Domain>, beside: Beside) -> Self {
        let switch = Switch::new();
        let probes = [(), ()].map(|()| Recipe::builtin("probe").start(kvm, domain));
        let pairs = PAIRS.map(|port| {
            let server = Recipe::builtin("netbench-server").at_port(&switch, port);
            let client = Recipe::builtin("netbench-client").cmdline(&format!("server=10.0.0.{port} seed={port}"));
            [server, client.at_port(&switch, port + 1)].map(|recipe| recipe.start(kvm, domain))
        });
        pairs.iter().for_each(|[_, client]| client.progresses([0], 1));
        let other = |number: u16| {
            let recipe = match beside {
                Beside::Attackers { seed } => {
                    let seed = seed + u64::from(number);
                    Recipe::builtin("hostile").cmdline(&format!("seed={seed} peers={PAIR_PORTS} gate=open"))
                }
                Beside::Hogs => Recipe::builtin("hog"),
            };
            let guest = recipe.vcpus(VCPUS).without_console().at_port(&switch, PAIR_PORTS + number);
            let guest = guest.start(kvm, domain);
            guest.open_gate();
            guest
        };
        Self { others: (1..=OTHERS).map(other).collect(), probes, pairs }
    }

    /// The VMs beside the victims.
    pub fn others(&self) -> &[Guest] {
        &self.others
    }

    /// The probes.
    pub fn probes(&self) -> &[Guest] {
        &self.probes
    }

    /// Inputs that the attackers have made.
    pub fn inputs(&self) -> u64 {
        self.others.iter().flat_map(|guest| (0..VCPUS).map(|vcpu| guest.ops(vcpu))).sum()
    }

    /// All victims get on, and nothing of their work has failed. Nobody has ended.
    ///
    /// # Panics
    /// If that is not so.
    pub fn check(&self) {
        let victims = || self.probes.iter().chain(self.pairs.iter().flatten());
        victims().for_each(|guest| guest.progresses([0], 3));
        for [_, client] in &self.pairs {
            assert_eq!(client.errors(0), 0, "requests were not answered in time");
        }
        for guest in victims().chain(&self.others) {
            assert_eq!(guest.state().outcome(), None, "{}: {}", guest.state().name(), guest.console());
        }
        victims().for_each(|guest| assert_eq!(guest.console(), ""));
    }

    /// Stops all VMs and waits for their end. Returns how long that took.
    ///
    /// # Panics
    /// If a VM ends in another way.
    pub fn end(self) -> Duration {
        let begun = Instant::now();
        let all = || self.others.iter().chain(&self.probes).chain(self.pairs.iter().flatten());
        all().for_each(|guest| guest.stop());
        for guest in all() {
            wait_for("the VM ends", || guest.state().has_ended());
            assert_eq!(guest.wait(), Outcome::Stopped, "{}", guest.state().name());
        }
        begun.elapsed()
    }
}

/// Responses of vCPU 0 of some guests, as their gauges count them.
#[derive(Debug, Clone)]
pub struct Responses(Vec<u64>);

impl Responses {
    /// All so far.
    pub fn of(guests: &[Guest]) -> Self {
        let counts = guests.iter().map(|guest| guest.responses(0));
        Self(counts.fold(vec![0; BUCKETS], |sum, counts| {
            sum.iter().zip(counts).map(|(sum, count)| sum + u64::from(count)).collect()
        }))
    }

    /// Those since an earlier reading.
    pub fn since(&self, earlier: &Self) -> Self {
        Self(self.0.iter().zip(&earlier.0).map(|(now, then)| now - then).collect())
    }

    /// The time that this part of the responses does not exceed; 0 without responses.
    pub fn quantile(&self, part: f64) -> Duration {
        let all: u64 = self.0.iter().sum();
        let rank = (part * all as f64).ceil() as u64;
        let mut below = 0;
        let bucket = self.0.iter().position(|count| {
            below += count;
            below >= rank.max(1)
        });
        Duration::from_nanos(bucket.map_or(0, bucket_top))
    }
}
