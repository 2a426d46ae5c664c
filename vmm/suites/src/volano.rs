//! Chat rooms in which every message goes to all others.

use super::descriptor::{Budget, Builtin, Counted, Descriptor, Length, Model, PerKind, ValueOf, VmWork, Vms, Work};
use super::metric::Metric::{LoneYieldsPerS, RunTime, SwitchesPerS, Throughput, YieldsPerS};
use super::parameter::{CORRUPT, COUNT, Parameter, SPINS};
use super::parts::{Role, Share};
use super::setup::Processors::{Smp, Up};
use super::setup::Setup;
use super::source::{Claims, Source};

/// vCPUs of each user.
const THREADS_PER_USER: u64 = 4;

pub(super) static SUITE: Descriptor = Descriptor {
    name: "volano",
    about: "Chat rooms, a VM each, of users with four vCPUs each, on one pCPU (up) and on all (smp); every message goes to all \
            others through queues whose locks yield.",
    unit: "messages/s",
    counted: Counted::Rooms,
    least: None,
    setups: PerKind {
        usual: &[Setup::On(Smp), Setup::On(Up)],
        quick: &[Setup::On(Smp)],
        full: &[Setup::On(Smp), Setup::On(Up)],
    },
    // The source's scheduler with and without its bugs, and two meanings of a yield.
    policies: PerKind::all(&["host", "goodness:yield_recalculates:yield_bounces", "goodness", "rsdl+expire", "rsdl"]),
    rounds: PerKind::ROUNDS,
    budget: Budget::USUAL,
    length: Length::Work(Work { of_vm, messages_per_s: 60e3 }),
    builtin: Some(Builtin {
        image: "volano",
        sizes: PerKind { usual: &[1, 2], quick: &[1], full: &[1, 2, 5, 10] },
        vms: Vms::PerSize { each: 1, besides: 0 },
        warm_ups: 0,
        ramps_down: false,
        parts: &[Share::all(Role::Own)],
        tells_roles: false,
        waits: true,
        parameters: &[
            SPINS,
            Parameter { key: "users", range: 2..=64, default: Some(20), unit: "users in a room" },
            Parameter { key: "messages", range: COUNT, default: Some(100), unit: "messages of each user" },
            CORRUPT,
        ],
        model: Some(Model::ChatRooms),
    }),
    linux: None,
    headline: &[Throughput, RunTime, YieldsPerS, LoneYieldsPerS, SwitchesPerS],
    plotted: &[Throughput, YieldsPerS],
    context: &[],
    source: Some(Source {
        order: 2,
        citation: "report on VolanoMark and SCHED_YIELD in Linux 2.4.0-test8 to test10",
        claims: Claims::ChatRooms,
    }),
};

/// Each message goes to all other users of the room.
fn of_vm(parameter: &ValueOf<'_>) -> VmWork {
    let (users, messages) = (parameter("users"), parameter("messages"));
    let heard = users.saturating_mul(users.saturating_sub(1));
    VmWork { vcpus: users.saturating_mul(THREADS_PER_USER), messages: heard.saturating_mul(messages) }
}
