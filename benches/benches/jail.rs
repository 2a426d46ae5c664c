//! What the jail costs: guests that are carried by jailed threads, by threads with one filter of system calls that
//! permits all of them, and by free ones, in turn, in one process.
//!
//! A filter binds the thread that installs it and those that it starts. So a thread of each kind starts a domain with
//! guests. The guests are paused and resumed in turn, in windows that are short against changes of the host, and
//! started anew several times, since where a guest's memory lies matters too. With the argument `terminal` the jail is
//! that of a process with a terminal that takes keys.

use kvm_ioctls::Kvm;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use stile_benches::{Limit, Promise, quantile, tell};
use stile_jail::{Jail, Kind};
use stile_machine::devices::net::Switch;
use stile_sched::Domain;
use stile_sched::domain::executors::{Executors, Switches};
use stile_sched::domain::on_thread_start;
use stile_sched::lock::LockRules;
use stile_sched::policy::Rsdl;
use stile_sched::policy::rsdl::RsdlConfig;
use stile_tests::{Guest, Recipe, carrier};

/// Starts of the guests.
const STARTS: usize = 20;
const QUICK_STARTS: usize = 2;
/// Windows of each side after a start.
const ROUNDS: usize = 30;
const WARM_UP: Duration = Duration::from_millis(5);
const WINDOW: Duration = Duration::from_millis(40);
/// In which a guest is paused. It takes a moment.
const PAUSE: Duration = Duration::from_secs(10);
/// vCPUs that take a lock in turn, and netbench pairs.
const LOCKERS: u32 = 8;
const PAIRS: u16 = 6;

/// Whether the threads that a domain starts now are to enter the jail. One domain is started at a time.
static JAILED: AtomicBool = AtomicBool::new(false);

#[derive(Debug, Clone, Copy)]
enum Work {
    /// A guest that does nothing but ring a doorbell. Each ring is an exit.
    Doorbell,
    /// vCPUs that take a ticket lock in turn.
    Ticket,
    /// Pairs of guests that send each other messages.
    Netbench,
}

impl Work {
    /// All, with the name of what is counted, and how much of it has to be left.
    const ALL: [(Self, &str, f64); 3] = [
        (Self::Doorbell, "doorbells", 0.97),
        (Self::Ticket, "ticket's locks", 0.99),
        (Self::Netbench, "netbench's messages", 0.99),
    ];

    fn start(self, kvm: &Kvm) -> Vec<Guest> {
        let cpus = carrier::pcpus();
        let policy = Rsdl::new(RsdlConfig::default(), cpus.len());
        let domain = Executors::new(&cpus, Box::new(policy), LockRules::default(), Switches::default());
        let domain: Arc<dyn Domain> = Arc::new(domain.expect("this process may start threads and timers"));
        let start = |recipe: Recipe| recipe.memory(8 << 20).start(kvm, &domain);
        match self {
            Self::Doorbell => vec![start(Recipe::builtin("doorbell"))],
            Self::Ticket => vec![start(Recipe::builtin("ticket").vcpus(LOCKERS))],
            Self::Netbench => {
                let switch = Arc::new(Switch::default());
                let pair = |port| {
                    let server = Recipe::builtin("netbench-server").at_port(&switch, port);
                    let client = Recipe::builtin("netbench-client").cmdline(&format!("server=10.0.0.{port}"));
                    [start(server), start(client.at_port(&switch, PAIRS + port))]
                };
                (1..=PAIRS).flat_map(pair).collect()
            }
        }
    }
}

/// What binds the threads that carry guests.
enum Bonds {
    None,
    /// A filter that permits every call.
    Filter,
    Jail(Jail),
}

impl Bonds {
    /// Binds the calling thread.
    fn apply(self) {
        match self {
            Self::None => {}
            Self::Filter => {
                rustix::thread::set_no_new_privs(true).expect("any thread may");
                let (allow, trap) = (SeccompAction::Allow, SeccompAction::Trap);
                let filter = SeccompFilter::new(BTreeMap::new(), allow, trap, TargetArch::x86_64);
                let program: BpfProgram = filter.and_then(TryInto::try_into).expect("a filter");
                apply_filter(&program).expect("the kernel has filters");
            }
            Self::Jail(jail) => {
                let missing = jail.enter().expect("this process may give up rights");
                assert!(missing.is_empty(), "the jail is not whole: {missing:?}");
                stile_jail::narrow(Kind::Control);
            }
        }
    }
}

/// A thread that starts guests.
struct Side {
    jailed: bool,
    works: Sender<Work>,
    guests: Receiver<Vec<Guest>>,
}

impl Side {
    fn start(bonds: Bonds) -> Self {
        let jailed = matches!(bonds, Bonds::Jail(_));
        let (works, asked) = channel::<Work>();
        let (told, guests) = channel();
        std::thread::spawn(move || {
            let kvm = stile_tests::kvm().expect("it was there before");
            bonds.apply();
            asked.iter().try_for_each(|work| told.send(work.start(&kvm)))
        });
        Self { jailed, works, guests }
    }

    /// Guests that are paused.
    fn guests(&self, work: Work) -> Vec<Guest> {
        JAILED.store(self.jailed, Ordering::Relaxed);
        self.works.send(work).expect("the thread waits");
        let guests = self.guests.recv().expect("it starts guests");
        pause(&guests);
        guests
    }
}

fn pause(guests: &[Guest]) {
    guests.iter().for_each(|guest| guest.status().pause(PAUSE).expect("guests leave their loops"));
}

/// Operations in a second, in a window.
fn rate(guests: &[Guest]) -> f64 {
    let of_all = |guest: &Guest| (0..guest.state().vcpus()).map(|vcpu| guest.ops(vcpu)).sum::<u64>();
    let count = || guests.iter().map(of_all).sum::<u64>();
    guests.iter().for_each(|guest| guest.status().resume());
    std::thread::sleep(WARM_UP);
    let (before, begun) = (count(), Instant::now());
    std::thread::sleep(WINDOW);
    let rate = (count() - before) as f64 / begun.elapsed().as_secs_f64();
    pause(guests);
    rate
}

fn main() -> ExitCode {
    if stile_tests::kvm().is_none() {
        return ExitCode::SUCCESS;
    }
    on_thread_start(|| {
        if JAILED.load(Ordering::Relaxed) {
            stile_jail::narrow(Kind::Carrier);
        }
    });
    let is_given = |word: &str| std::env::args().any(|argument| argument == word);
    let (quick, without_terminal) = (is_given("--quick"), !is_given("terminal"));
    let jail = Jail { without_terminal, ..Jail::default() };
    let sides = [Bonds::None, Bonds::Filter, Bonds::Jail(jail)].map(Side::start);
    let mut promises = Vec::new();
    for (work, what, left) in Work::ALL {
        let rounds = rounds(&sides, work, if quick { QUICK_STARTS } else { STARTS });
        let best = rounds.iter().map(|[free, ..]| *free).fold(0.0, f64::max);
        let to_free = |side: usize| rounds.iter().map(|rates| rates[side] / rates[0]).collect::<Vec<_>>();
        // What any filter costs is the kernel's.
        let (filtered, samples) = (quantile(&to_free(1), 0.5), to_free(2));
        println!("{what}: {best:.0} in a second at best, free; {filtered:.3} times with a filter that permits all");
        let what = format!("{what} in a second, jailed to free");
        promises.push(Promise { what, unit: "times", samples, limit: Limit::AtLeast(left) });
    }
    tell(&promises)
}

/// The rates of each side in rounds of windows, over these starts.
fn rounds(sides: &[Side; 3], work: Work, starts: usize) -> Vec<[f64; 3]> {
    let mut rounds = Vec::new();
    for start in 0..starts {
        let mut guests = [const { Vec::new() }; 3];
        for side in in_turn(start) {
            guests[side] = sides[side].guests(work);
        }
        for round in 0..ROUNDS {
            let mut rates = [0.0; 3];
            for side in in_turn(round) {
                rates[side] = rate(&guests[side]);
            }
            rounds.push(rates);
        }
    }
    rounds
}

/// All sides, each at each place in turn, forwards and backwards.
fn in_turn(turn: usize) -> [usize; 3] {
    let mut sides = [0, 1, 2].map(|place| (turn + place) % 3);
    if turn / 3 % 2 == 1 {
        sides.reverse();
    }
    sides
}
