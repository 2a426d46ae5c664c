//! Plain closures under the policy `rsdl`: no virtual machine, no KVM.
//!
//! Five closures share at most two CPUs. When all are done, the program draws from the domain's own record which
//! closure ran when, and says why one of them waited as long as it did.
//!
//! `cargo run -p stile-sched --example closures`

use std::error::Error;
use std::fmt::Write;
use std::sync::mpsc;
use std::time::Duration;

use stile_sched::attributes::{Attributes, Class};
use stile_sched::domain::executors::{Executors, Switches};
use stile_sched::ledger::why::{Cause, Scene, Waits};
use stile_sched::ledger::{Account, Doing, Event, Span, Spans};
use stile_sched::lock::LockRules;
use stile_sched::policy::Rsdl;
use stile_sched::policy::rsdl::RsdlConfig;
use stile_sched::time::monotonic;
use stile_sched::{Domain, Nanos, Nice, Stop, Time, Vcpu, VcpuId, kick};

/// Width of the timeline (unit: characters).
const COLUMNS: u64 = 100;

/// Work between two looks for a kick: the longest time by which a closure is late to leave its pCPU.
const STEP: Nanos = Nanos::from_micros(100);

/// A closure as a vCPU. Each call does one step of work, and its answer says what the closure wants next.
struct Closure {
    step: Box<dyn FnMut() -> Stop + Send>,
    ended: mpsc::Sender<Account>,
}

impl Vcpu for Closure {
    fn run(&mut self) -> Stop {
        match (self.step)() {
            // The driver takes the kick out. A closure that blocks or ends need not report it.
            Stop::Exit if kick::is_pending() => Stop::Kicked,
            stop => stop,
        }
    }

    fn retired(self: Box<Self>, last: &Account) {
        // The receiver outlives the domain.
        let _ = self.ended.send(last.clone());
    }
}

/// Computes for this long.
fn compute(span: Nanos) {
    let end = monotonic() + span;
    while monotonic() < end {
        std::hint::spin_loop();
    }
}

/// Computes for so many steps.
fn computes(mut steps: u32) -> Box<dyn FnMut() -> Stop + Send> {
    Box::new(move || {
        compute(STEP);
        steps -= 1;
        if steps == 0 { Stop::Done } else { Stop::Exit }
    })
}

/// Computes for half a millisecond, then sleeps until the next multiple of the period, so many times.
fn ticks(period: Nanos, mut times: u32) -> Box<dyn FnMut() -> Stop + Send> {
    let mut next = monotonic();
    Box::new(move || {
        compute(Nanos::from_micros(500));
        times -= 1;
        next = next + period;
        if times == 0 { Stop::Done } else { Stop::Idle(next) }
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let allowed = rustix::thread::sched_getaffinity(None)?;
    let cpus: Vec<usize> = (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).take(2).collect();
    let nice = |nice| Attributes { nice: Nice::new(nice).unwrap_or_default(), ..Attributes::default() };
    let idle = Attributes { class: Class::Idle, ..Attributes::default() };
    let tasks = [
        ("build-1", nice(0), "nice 0", computes(800)),
        ("build-2", nice(0), "nice 0", computes(800)),
        ("index", nice(10), "nice 10", computes(400)),
        ("backup", idle, "class idle", computes(300)),
        ("clock", nice(0), "every 8 ms", ticks(Nanos::from_millis(8), 20)),
    ];

    let policy = Rsdl::new(RsdlConfig::default(), cpus.len());
    let domain = Executors::new(&cpus, Box::new(policy), LockRules::default(), Switches::default())?;
    let mut rows = Vec::new();
    for (name, attributes, note, step) in tasks {
        let (ended, account) = mpsc::channel();
        let id = domain.add(Box::new(Closure { step, ended }), attributes)?;
        rows.push((name, note, id, account));
    }
    // A vCPU is blocked until its first wake.
    rows.iter().for_each(|(_, _, id, _)| domain.wake(*id));
    let mut accounts = Vec::new();
    for (_, _, _, account) in &rows {
        accounts.push(account.recv_timeout(Duration::from_secs(60))?);
    }

    let events = domain.trace().map(|trace| trace.latest()).unwrap_or_default();
    let spans = spans_of(&events, cpus.len());
    let (begin, end) = bounds(&spans);
    let cell = Nanos(end.since(begin).0 / COLUMNS + 1);
    println!(
        "{} CPUs, {} a column: digit = runs on that pCPU, - = waits, blank = blocked or gone\n",
        cpus.len(),
        ms(cell)
    );
    for (name, note, id, _) in &rows {
        println!("{name:>8} {note:<10} |{}|", timeline(&spans, *id, begin, cell));
    }
    println!(
        "\n{:>8} {:>9} {:>9} {:>9} {:>6} {:>13} {:>6}",
        "", "run", "wait", "idle", "turns", "longest wait", "moves"
    );
    for ((name, ..), account) in rows.iter().zip(&accounts) {
        let Account { run, wait, idle, turns, migrations, .. } = account;
        let longest = ms(account.waits.max());
        println!(
            "{name:>8} {:>9} {:>9} {:>9} {turns:>6} {longest:>13} {migrations:>6}",
            ms(*run),
            ms(*wait),
            ms(*idle)
        );
    }
    let name = |id: VcpuId| rows.iter().find(|row| row.2 == id).map_or("?", |row| row.0);
    explain(&events, cpus.len(), rows[2].2, &name);
    Ok(())
}

/// What each vCPU did from when to when, by the record.
fn spans_of(events: &[Event], slots: usize) -> Vec<Span> {
    let (mut machine, mut spans) = (Spans::new(slots), Vec::new());
    for event in events {
        machine.tell(event, &mut spans);
    }
    machine.finish(&mut spans);
    spans
}

/// From the first time that a vCPU ran to the last.
fn bounds(spans: &[Span]) -> (Time, Time) {
    let ran = || spans.iter().filter(|span| matches!(span.doing, Doing::Run(_)));
    let begin = ran().map(|span| span.from).min().unwrap_or_default();
    (begin, ran().map(|span| span.to).max().unwrap_or(begin))
}

/// A vCPU's row: in each column what it did for most of the column.
fn timeline(spans: &[Span], vcpu: VcpuId, begin: Time, cell: Nanos) -> String {
    let mut row = String::new();
    for column in 0..COLUMNS {
        let from = begin + Nanos(column * cell.0);
        let to = from + cell;
        let within = |span: &Span| span.to.min(to).since(span.from.max(from));
        let most = spans.iter().filter(|span| span.vcpu == vcpu).max_by_key(|span| within(span));
        let _ = match most.filter(|span| within(span) > Nanos::ZERO).map(|span| span.doing) {
            Some(Doing::Run(slot)) => write!(row, "{}", slot.0),
            Some(Doing::Wait(_)) => write!(row, "-"),
            Some(Doing::Taken(_)) => write!(row, "x"),
            Some(Doing::Idle) | None => write!(row, " "),
        };
    }
    row
}

/// Says how long the longest wait of a vCPU was, what ran meanwhile, and what the ledger takes for its cause.
fn explain(events: &[Event], slots: usize, vcpu: VcpuId, name: &dyn Fn(VcpuId) -> &'static str) {
    let mut waits = Waits::new(slots, |id, _| id == vcpu);
    events.iter().for_each(|event| waits.tell(event));
    let Some(longest) = waits.finish().longest else { return println!("\n{} never waited", name(vcpu)) };
    let mut scene = Scene::new(longest, slots);
    let _ = events.iter().all(|event| scene.tell(event));
    let why = scene.explain();
    let cause = match why.cause {
        Cause::Quota => "its lease was used up, and others had their turns".to_owned(),
        Cause::Turns => "others had their turns".to_owned(),
        Cause::Kick { slot, latency } => format!("{slot} took {} to ask", ms(latency)),
        other => format!("{other:?}"),
    };
    println!("\nLongest wait of {}: {}, because {cause}. Meanwhile:", name(vcpu), ms(longest.time()));
    for ran in &why.ran {
        println!("{:>8} ran on {} for {} in {} turn(s)", name(ran.vcpu), ran.slot, ms(ran.time), ran.turns);
    }
}

fn ms(span: Nanos) -> String {
    format!("{:.2} ms", span.0 as f64 / 1e6)
}
