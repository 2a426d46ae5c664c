//! The description of every figure.
//!
//! Names follow OpenMetrics, which puts `stile_vcpu_` before each and `_total` behind a counter's. Units are base units
//! and part of the name. Programs of users refer to the names, so they do not change.

use super::reading::{DomainSample, Sample};
use stile_sched::Nanos;
use stile_sched::histogram::Histogram;
use stile_sched::ledger::{Outcomes, Yielded};

/// How a figure behaves over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A number that only grows.
    Counter,
    /// A distribution of spans of time.
    Histogram,
}

/// A figure's unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// A number of things.
    Count,
}

/// The value of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// A time.
    Time(Nanos),
    /// A number of things.
    Count(u64),
    /// Spans of time.
    Spans(&'a Histogram),
    /// Numbers of yields, by kind and outcome.
    Yields(&'a Yielded),
}

/// The description of a figure that is read from samples of type `S`.
#[derive(Debug)]
pub struct Metric<S: 'static> {
    /// Name.
    pub name: &'static str,
    /// Name in tables.
    pub heading: &'static str,
    /// Kind.
    pub kind: Kind,
    /// Unit.
    pub unit: Unit,
    /// Names of its labels. A figure with labels has a value for each of their combinations.
    pub labels: &'static [&'static str],
    /// Whether it is known without a policy object. The host's scheduler reports some figures only.
    pub told_by_host: bool,
    /// Its meaning, in one sentence.
    pub help: &'static str,
    read: for<'a> fn(&'a S) -> Option<Value<'a>>,
}

/// On a pCPU.
pub static RUN: Metric<Sample> = Metric {
    name: "run_seconds",
    heading: "run",
    told_by_host: true,
    help: "Time on a pCPU; the work of KVM and the devices for the vCPU there is part of it.",
    ..time(|s| Some(Value::Time(s.account.run)))
};

/// Runnable without a pCPU.
pub static WAIT: Metric<Sample> = Metric {
    name: "wait_seconds",
    heading: "ready",
    told_by_host: true,
    help: "Wait: time in which it could run and had no pCPU.",
    ..time(|s| Some(Value::Time(s.account.wait)))
};

/// Held back by a cap.
pub static THROTTLED: Metric<Sample> = Metric {
    name: "throttled_seconds",
    heading: "capped",
    help: "The part of its wait for which its VM's cap held it back (throttled).",
    ..time(|s| Some(Value::Time(s.account.throttled)))
};

/// Taken by the host.
pub static TAKEN: Metric<Sample> = Metric {
    name: "taken_seconds",
    heading: "taken",
    help: "Time on a pCPU in which the host ran something else there, as far as it was noticed: from 1 ms on at a time.",
    ..time(|s| Some(Value::Time(s.account.taken)))
};

/// Used by threads that serve its VM's devices.
pub static DEVICES: Metric<Sample> = Metric {
    name: "devices_seconds",
    heading: "devices",
    told_by_host: true,
    help: "CPU time that the thread which serves the devices of a Linux guest used for it, beside run. The vCPUs of a VM \
           are charged for it in turn, and the VM's cap counts it.",
    ..time(|s| Some(Value::Time(s.account.devices)))
};

/// Waiting for an event.
pub static IDLE: Metric<Sample> = Metric {
    name: "idle_seconds",
    heading: "idle",
    told_by_host: true,
    help: "Time in which it waited for an event; run, wait, taken and idle add up to the time since the vCPU was made.",
    ..time(|s| Some(Value::Time(s.account.idle)))
};

/// Steal time: the wait that the guest has read.
pub static STEAL: Metric<Sample> = Metric {
    name: "steal_published_seconds",
    heading: "steal told",
    help: "Steal time: the wait that the guest can read in its memory, as of the last time that it was put on a pCPU; for a \
           Linux guest also what was taken.",
    ..time(|s| s.steal.map(Value::Time))
};

/// Waits, by length.
pub static WAITS: Metric<Sample> = Metric {
    name: "turn_wait_seconds",
    heading: "wait",
    kind: Kind::Histogram,
    help: "Waits: the lengths of its waits, each of which ends with a turn on a pCPU.",
    ..time(|s| Some(Value::Spans(&s.account.waits)))
};

/// Turns.
pub static TURNS: Metric<Sample> = Metric {
    name: "turns",
    heading: "turns",
    told_by_host: true,
    help: "Times that it was put on a pCPU; without a policy, times that the host took its thread off one.",
    ..count(|s| Some(Value::Count(s.account.turns)))
};

/// Migrations.
pub static MIGRATIONS: Metric<Sample> = Metric {
    name: "migrations",
    heading: "moves",
    told_by_host: true,
    help: "Turns on another pCPU than the last one.",
    ..count(|s| Some(Value::Count(s.account.migrations)))
};

/// Lateral steals.
pub static STEALS: Metric<Sample> = Metric {
    name: "slot_steals",
    heading: "stolen",
    help: "Lateral steals: pCPUs that it took, each from a vCPU that had been given it and had not begun to run.",
    ..count(|s| Some(Value::Count(s.account.steals)))
};

/// Yields.
pub static YIELDS: Metric<Sample> = Metric {
    name: "yields",
    heading: "yields",
    told_by_host: true,
    labels: &["kind", "outcome"],
    help: "Yields, by hint (kind: unknown, without a hint; lock; message) and by outcome (alone, no vCPU waited; switched, another \
           vCPU got the pCPU; stayed, it went on although others waited; untold, without a policy object).",
    ..count(|s| Some(Value::Yields(&s.account.yields)))
};

/// Exits.
pub static EXITS: Metric<Sample> = Metric {
    name: "exits",
    heading: "exits",
    told_by_host: true,
    help: "Exits from the guest to the monitor.",
    ..count(|s| Some(Value::Count(s.account.exits)))
};

/// Running beyond a lease.
pub static OVERRUN: Metric<Sample> = Metric {
    name: "overrun_seconds",
    heading: "overrun",
    help: "Time run beyond the end of a lease: its quota was used up, and the kick that ends the turn was still on its way.",
    ..time(|s| Some(Value::Time(s.account.overrun)))
};

/// Time that other vCPUs ran on its leases.
pub static LENT: Metric<Sample> = Metric {
    name: "lent_seconds",
    heading: "lent",
    help: "Time that other vCPUs ran on leases that it passed on by a yield.",
    ..time(|s| Some(Value::Time(s.account.lent)))
};

/// Time on leases of other vCPUs.
pub static BORROWED: Metric<Sample> = Metric {
    name: "borrowed_seconds",
    heading: "borrowed",
    help: "Time that it ran on leases that other vCPUs passed on by a yield.",
    ..time(|s| Some(Value::Time(s.account.borrowed)))
};

/// Kicks.
pub static KICKS: Metric<DomainSample> = Metric {
    name: "kick_seconds",
    heading: "kicks",
    kind: Kind::Histogram,
    help: "Kicks: from the policy's wish that a pCPU asks it again until the pCPU did.",
    ..time(|s| Some(Value::Spans(&s.kicks)))
};

/// Switches.
pub static SWITCHES: Metric<DomainSample> = Metric {
    name: "switches",
    heading: "switches",
    told_by_host: true,
    help: "Times that a pCPU went from one vCPU to another; without a policy, all context switches of their threads.",
    ..count(|s| Some(Value::Count(s.switches)))
};

/// The figures of a vCPU; their sums are those of a VM.
pub static OF_VCPUS: [&Metric<Sample>; 16] = [
    &RUN,
    &WAIT,
    &THROTTLED,
    &TAKEN,
    &DEVICES,
    &IDLE,
    &STEAL,
    &WAITS,
    &TURNS,
    &MIGRATIONS,
    &STEALS,
    &YIELDS,
    &EXITS,
    &OVERRUN,
    &LENT,
    &BORROWED,
];

/// The figures of the domain.
pub static OF_DOMAIN: [&Metric<DomainSample>; 2] = [&KICKS, &SWITCHES];

type Read<S> = for<'a> fn(&'a S) -> Option<Value<'a>>;

/// The fields that all counters of time share.
const fn time<S>(read: Read<S>) -> Metric<S> {
    Metric { unit: Unit::Seconds, ..count(read) }
}

/// The fields that all counters share.
const fn count<S>(read: Read<S>) -> Metric<S> {
    let (kind, unit) = (Kind::Counter, Unit::Count);
    Metric { name: "", heading: "", kind, unit, labels: &[], told_by_host: false, help: "", read }
}

/// A sample of a domain that may have a policy.
pub trait Sampled {
    /// Whether a policy object schedules the vCPUs. If not, the host does, which reports some figures only.
    fn by_policy(&self) -> bool;
}

impl<S: Sampled> Metric<S> {
    /// Reads the figure from a sample; `None` where it is not known.
    pub fn value<'a>(&self, sample: &'a S) -> Option<Value<'a>> {
        if sample.by_policy() || self.told_by_host { (self.read)(sample) } else { None }
    }
}

/// The numbers of yields with their labels: hint, outcome. Without a policy object all have the outcome `untold`; with
/// one, none has.
pub fn labelled(yields: &Yielded, by_policy: bool) -> impl Iterator<Item = ([&'static str; 2], u64)> {
    type Of = fn(&Outcomes) -> u64;
    let kinds = [("unknown", yields.unknown), ("lock", yields.lock), ("message", yields.message)];
    let told: [(&str, Of); 3] = [("alone", |o| o.alone), ("switched", |o| o.switched), ("stayed", |o| o.stayed)];
    let untold: [(&str, Of); 1] = [("untold", |o| o.untold)];
    let outcomes = if by_policy { told.to_vec() } else { untold.to_vec() };
    kinds.into_iter().flat_map(move |(kind, of)| {
        outcomes.clone().into_iter().map(move |(outcome, number)| ([kind, outcome], number(&of)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_those_of_openmetrics() {
        let of_vcpus = OF_VCPUS.iter().map(|m| (m.name, m.heading, m.unit, m.help));
        let all: Vec<_> = of_vcpus.chain(OF_DOMAIN.iter().map(|m| (m.name, m.heading, m.unit, m.help))).collect();
        assert_eq!(all.iter().map(|m| m.0).collect::<BTreeSet<_>>().len(), all.len());
        assert_eq!(all.iter().map(|m| m.1).collect::<BTreeSet<_>>().len(), all.len());
        for (name, _, unit, help) in all {
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') && !name.ends_with("_total"), "{name}");
            assert_eq!(name.ends_with("_seconds"), unit == Unit::Seconds, "{name}");
            assert!(help.ends_with('.'), "{name}: {help}");
        }
    }

    #[test]
    fn what_the_host_does_not_tell_is_not_known() {
        let host = Sample::default();
        let known: Vec<_> = OF_VCPUS.iter().filter(|m| m.value(&host).is_some()).map(|m| m.name).collect();
        let (times, counts) =
            (["run_seconds", "wait_seconds", "devices_seconds", "idle_seconds"], ["turns", "migrations"]);
        assert_eq!(known, [&times[..], &counts, &["yields", "exits"]].concat());
        let policy = Sample { by_policy: true, steal: Some(Nanos(1)), ..Sample::default() };
        assert!(OF_VCPUS.iter().all(|m| m.value(&policy).is_some()));
    }

    #[test]
    fn every_yield_has_one_pair_of_labels() {
        let of = |n| Outcomes { alone: n, switched: n + 1, stayed: n + 2, untold: 0 };
        let yields = Yielded { unknown: of(1), lock: of(10), message: of(100) };
        let all: Vec<_> = labelled(&yields, true).collect();
        assert_eq!((all.len(), all[0], all[8]), (9, (["unknown", "alone"], 1), (["message", "stayed"], 102)));
        assert_eq!(all.iter().map(|(_, n)| n).sum::<u64>(), 6 + 33 + 303);
        assert!(labelled(&yields, false).all(|([_, outcome], n)| outcome == "untold" && n == 0));
    }
}
