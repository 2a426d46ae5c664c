//! What the jail costs: guests that are carried by jailed threads, and by free ones, in turn, in one process.
//!
//! A jail binds the thread that enters it and those that it starts. So one thread enters it and starts domains with
//! guests, and another starts the same ones without it. A guest runs in a window that is short against changes of the
//! host. With the argument `terminal` the jail is that of a process with a terminal that takes keys.

use kvm_ioctls::Kvm;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use stile_benches::{Limit, Promise, tell};
use stile_jail::{Jail, Kind};
use stile_machine::devices::net::Switch;
use stile_sched::Domain;
use stile_sched::domain::executors::{Executors, Switches};
use stile_sched::domain::on_thread_start;
use stile_sched::lock::LockRules;
use stile_sched::policy::Rsdl;
use stile_sched::policy::rsdl::RsdlConfig;
use stile_tests::{Guest, Recipe, carrier};

const ROUNDS: usize = 201;
const QUICK_ROUNDS: usize = 7;
const WARM_UP: Duration = Duration::from_millis(50);
const WINDOW: Duration = Duration::from_millis(250);
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

    /// Operations in a second.
    fn rate(self, kvm: &Kvm) -> f64 {
        let guests = self.start(kvm);
        let count =
            || guests.iter().map(|guest| (0..guest.state().vcpus()).map(|vcpu| guest.ops(vcpu)).sum::<u64>()).sum();
        std::thread::sleep(WARM_UP);
        let (before, begun): (u64, _) = (count(), Instant::now());
        std::thread::sleep(WINDOW);
        (count() - before) as f64 / begun.elapsed().as_secs_f64()
    }
}

/// A thread that measures, jailed or not.
struct Side {
    jailed: bool,
    works: Sender<Work>,
    rates: Receiver<f64>,
}

impl Side {
    fn start(jail: Option<Jail>) -> Self {
        let jailed = jail.is_some();
        let (works, asked) = channel::<Work>();
        let (told, rates) = channel();
        std::thread::spawn(move || {
            let kvm = stile_tests::kvm().expect("it was there before");
            if let Some(jail) = jail {
                let missing = jail.enter().expect("this process may give up rights");
                assert!(missing.is_empty(), "the jail is not whole: {missing:?}");
                stile_jail::narrow(Kind::Control);
            }
            asked.iter().try_for_each(|work| told.send(work.rate(&kvm)))
        });
        Self { jailed, works, rates }
    }

    fn rate(&self, work: Work) -> f64 {
        JAILED.store(self.jailed, Ordering::Relaxed);
        self.works.send(work).expect("the thread waits");
        self.rates.recv().expect("it measures")
    }
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
    let (free, jailed) = (Side::start(None), Side::start(Some(Jail { without_terminal, ..Jail::default() })));
    let mut promises = Vec::new();
    for (work, what, left) in Work::ALL {
        let (mut samples, mut best) = (Vec::new(), 0.0_f64);
        for round in 0..if quick { QUICK_ROUNDS } else { ROUNDS } {
            // The second of the two finds the caches warm.
            let (first, second) = if round % 2 == 0 { (&free, &jailed) } else { (&jailed, &free) };
            let rates = (first.rate(work), second.rate(work));
            samples.push(if round % 2 == 0 { rates.1 / rates.0 } else { rates.0 / rates.1 });
            best = best.max(if round % 2 == 0 { rates.0 } else { rates.1 });
        }
        println!("{what}: {best:.0} in a second at best, free");
        let what = format!("{what} in a second, jailed to free");
        promises.push(Promise { what, unit: "times", samples, limit: Limit::AtLeast(left) });
    }
    tell(&promises)
}
