//! The description of a suite.

use super::metric::Metric;
use super::parameter::Parameter;
use super::parts::Share;
use super::setup::Setup;
use super::source::Source;

/// A suite. Times are in seconds.
#[derive(Debug)]
pub struct Descriptor {
    /// The name on command lines and in files.
    pub name: &'static str,
    /// A sentence for readers who do not know the suite.
    pub about: &'static str,
    /// Unit of [`Metric::Throughput`].
    pub unit: &'static str,
    /// The unit that its sizes count.
    pub counted: Counted,
    /// The smallest size that makes sense, if 1 is too small.
    pub least: Option<Least>,
    /// The setups of each kind of run. A suite without a choice has [`Setup::Usual`].
    pub setups: PerKind<&'static [Setup]>,
    /// The policies of each kind of run unless the user names some.
    pub policies: PerKind<&'static [&'static str]>,
    /// Rounds of each kind of run.
    pub rounds: PerKind<u32>,
    /// The time budget of a usual and of a quick run (unit: s).
    pub budget: Budget,
    /// How long a cell is measured.
    pub length: Length,
    /// Its built-in guests; `None` if it has only Linux guests.
    pub builtin: Option<Builtin>,
    /// Its Linux guests, if it has any.
    pub linux: Option<LinuxGuests>,
    /// The metrics that decide the suite's result, the most important first. Tables show these.
    pub headline: &'static [Metric],
    /// The metrics that get a plot.
    pub plotted: &'static [Metric],
    /// Metrics that have no verdict in this suite, though they have one in others.
    pub context: &'static [Metric],
    /// The published report that it repeats, if there is one.
    pub source: Option<Source>,
}

/// Three kinds of run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunKind {
    /// The default.
    Usual,
    /// A short run.
    Quick,
    /// All sizes of the source, however long they take.
    Full,
}

/// A value for each kind of run.
#[derive(Clone, Copy, Debug)]
pub struct PerKind<T> {
    /// For a usual run.
    pub usual: T,
    /// For a quick run.
    pub quick: T,
    /// For a full run.
    pub full: T,
}

impl<T: Copy> PerKind<T> {
    /// The same value for all kinds.
    pub const fn all(value: T) -> Self {
        Self { usual: value, quick: value, full: value }
    }

    /// Returns the value for a kind.
    pub fn of(&self, kind: RunKind) -> T {
        match kind {
            RunKind::Usual => self.usual,
            RunKind::Quick => self.quick,
            RunKind::Full => self.full,
        }
    }
}

impl PerKind<u32> {
    /// Rounds of most suites. Five give an interval; a quick run has time for three.
    pub const ROUNDS: Self = Self { usual: 5, quick: 3, full: 3 };
}

impl PerKind<&'static [&'static str]> {
    /// The policies of most suites.
    pub const HOST_AND_RSDL: Self = Self::all(&["host", "rsdl"]);
}

impl PerKind<&'static [Setup]> {
    /// No sizes, for a suite without a choice.
    pub const NO_SETUPS: Self = Self::all(&[Setup::Usual]);
}

/// The time budget of a run (unit: s), with a margin for delays. A full run has none.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// For a usual run.
    pub usual: f64,
    /// For a quick run.
    pub quick: f64,
}

impl Budget {
    /// The budget of most suites.
    pub const USUAL: Self = Self { usual: 110.0, quick: 17.0 };
}

/// The smallest size that makes sense.
#[derive(Clone, Copy, Debug)]
pub struct Least {
    /// The size.
    pub size: u32,
    /// What that size is needed for: "a pair".
    pub why: &'static str,
}

/// How long a cell is measured.
#[derive(Clone, Copy, Debug)]
pub enum Length {
    /// A window that fits the time of the run.
    Fitting,
    /// A window of this number of rotations of the slowest policy: enough that it does not matter which vCPU ran last.
    Rotations(f64),
    /// Until the guests have done their work.
    Work(Work),
}

/// The value of a parameter: what the user has set, or else its default.
pub type ValueOf<'a> = dyn Fn(&str) -> u64 + 'a;

/// Work that has an end.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// The work of a VM, by the values of the suite's parameters.
    pub of_vm: fn(&ValueOf<'_>) -> VmWork,
    /// Messages that a slow host handles in a second.
    pub messages_per_s: f64,
}

/// The work of one VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VmWork {
    /// Its number of vCPUs.
    pub vcpus: u64,
    /// Messages that are received in it.
    pub messages: u64,
}

/// The guests that come with stile.
#[derive(Debug)]
pub struct Builtin {
    /// The image of its VMs, or of those that the metrics are about.
    pub image: &'static str,
    /// Sizes of each kind of run; empty if the size follows from the setup.
    pub sizes: PerKind<&'static [u32]>,
    /// The VMs of a cell.
    pub vms: Vms,
    /// How many times a cell warms up.
    pub warm_ups: u32,
    /// Whether guests go on after the window, so that work at their end is not measured.
    pub ramps_down: bool,
    /// The roles of a VM's vCPUs.
    pub parts: &'static [Share],
    /// Whether the monitor passes roles to guests on their command line.
    pub tells_roles: bool,
    /// Whether vCPUs wait for each other, and so may give hints (`--hint`).
    pub waits: bool,
    /// The parameters that `--set` takes.
    pub parameters: &'static [Parameter],
    /// The simulator's model of these guests; `None` if they cannot be simulated.
    pub model: Option<Model>,
}

/// The VMs of a cell.
#[derive(Clone, Copy, Debug)]
pub enum Vms {
    /// One VM has all vCPUs.
    One,
    /// A VM of the suite's image with the first half of the vCPUs, beside a VM of another image with the rest. A cell
    /// is measured once for each variant, in an equal part of the window.
    Beside {
        /// The image of the other VM.
        image: &'static str,
        /// The key of the variants, on the guests' command line and in reports.
        key: &'static str,
        /// The values of that key.
        variants: &'static [&'static str],
        /// The metric of the first VM's CPU time, relative to an equal share of each vCPU.
        share: Metric,
    },
    /// A VM for each nice value, with the metric of its share; all have as many vCPUs as far as the size divides.
    Nices(&'static [(i8, Metric)]),
    /// A number of VMs for each unit of the size, and some others.
    PerSize {
        /// VMs for each unit.
        each: u32,
        /// Other VMs.
        besides: u32,
    },
}

/// The model of built-in guests in a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// A model for each vCPU's [`Role`](super::Role).
    Roles,
    /// Clients and servers that exchange file-server traffic, and VMs that are started meanwhile.
    FileServer,
    /// Chat rooms.
    ChatRooms,
}

/// Guests that run Linux.
#[derive(Debug)]
pub struct LinuxGuests {
    /// Sizes of each kind of run.
    pub sizes: PerKind<&'static [u32]>,
    /// The VMs of a cell.
    pub vms: Vms,
    /// Whether booting is measured. Then the cell has no time for booting beforehand, and other monitors can be
    /// compared.
    pub measures_boot: bool,
    /// The parameters that `--set` takes with Linux guests.
    pub parameters: &'static [Parameter],
    /// The image that they boot.
    pub image: LinuxImage,
}

/// The images of Linux guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinuxImage {
    /// With few programs, so that guests are small and boot fast.
    Usual,
    /// With programs as well that are large with their libraries.
    Large,
}

/// The unit that the sizes of a suite count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Client VMs.
    Clients,
    /// vCPUs of all VMs.
    Vcpus,
    /// VMs at once.
    Vms,
    /// Groups of senders and receivers, a VM each.
    Groups,
    /// Chat rooms, a VM each.
    Rooms,
}

impl Counted {
    /// Everything that can be counted.
    pub const ALL: [Self; 5] = [Self::Clients, Self::Vcpus, Self::Vms, Self::Groups, Self::Rooms];

    /// The parameter's name in reports and the option on command lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Clients => "clients",
            Self::Vcpus => "vcpus",
            Self::Vms => "vms",
            Self::Groups => "groups",
            Self::Rooms => "rooms",
        }
    }

    /// The name in text for readers.
    pub fn words(self) -> &'static str {
        match self {
            Self::Clients => "clients",
            Self::Vcpus => "vCPUs",
            Self::Vms => "VMs",
            Self::Groups => "groups",
            Self::Rooms => "rooms",
        }
    }
}
