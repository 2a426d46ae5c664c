//! Groups of senders and receivers exchange a fixed number of messages.

use super::descriptor::{
    Budget, Builtin, Counted, Descriptor, Length, LinuxGuests, LinuxImage, PerKind, ValueOf, VmWork, Vms, Work,
};
use super::metric::Metric::{PeakMemory, RunTime, Throughput};
use super::parameter::{CORRUPT, COUNT, Parameter, SPINS};
use super::parts::{Role, Share};
use super::source::{Claims, Source};

const FAN: Parameter =
    Parameter { key: "fan", range: 1..=64, default: Some(20), unit: "senders, and as many receivers, in a group" };
const LOOPS: Parameter =
    Parameter { key: "loops", range: COUNT, default: Some(100), unit: "messages of each sender to each receiver" };

pub(super) static SUITE: Descriptor = Descriptor {
    name: "hackbench",
    about: "Groups of 20 senders and 20 receivers, a VM each; every sender has 100 messages for each receiver; the time runs \
            from the release of all VMs until the last one is done.",
    unit: "messages/s",
    counted: Counted::Groups,
    least: None,
    setups: PerKind::NO_SETUPS,
    // The stages of the source: without both, with lateral steal, with adaptive spinning as well.
    policies: PerKind::all(&["host", "rsdl:no-lateral:no-adaptive", "rsdl:no-adaptive", "rsdl"]),
    // A full run takes the numbers of groups that the source lists.
    rounds: PerKind { usual: 5, quick: 3, full: 10 },
    budget: Budget::USUAL,
    length: Length::Work(Work { of_vm, messages_per_s: 400e3 }),
    builtin: Some(Builtin {
        image: "hackbench",
        sizes: PerKind { usual: &[1, 5], quick: &[2], full: &[50] },
        vms: Vms::PerSize { each: 1, besides: 0 },
        warm_ups: 0,
        ramps_down: false,
        parts: &[Share::all(Role::Own)],
        tells_roles: false,
        waits: true,
        parameters: &[SPINS, FAN, LOOPS, CORRUPT],
        model: None,
    }),
    linux: Some(LinuxGuests {
        sizes: PerKind { usual: &[1, 2, 4], quick: &[2], full: &[1, 2, 4] },
        vms: Vms::PerSize { each: 1, besides: 0 },
        measures_boot: false,
        // A guest's group has messages for about a second.
        parameters: &[FAN, Parameter { default: Some(1000), ..LOOPS }],
        image: LinuxImage::Usual,
    }),
    headline: &[Throughput, RunTime, PeakMemory],
    plotted: &[Throughput, RunTime],
    context: &[],
    source: Some(Source {
        order: 3,
        citation: "Steven Rostedt, announcement of 2.6.24.7-rt7, linux-kernel mailing list, 19 May 2008",
        claims: Claims::Locks,
    }),
};

/// Each sender has its messages for each receiver; senders and receivers are a vCPU each.
fn of_vm(parameter: &ValueOf<'_>) -> VmWork {
    let (fan, loops) = (parameter("fan"), parameter("loops"));
    VmWork { vcpus: fan.saturating_mul(2), messages: fan.saturating_mul(fan).saturating_mul(loops) }
}
