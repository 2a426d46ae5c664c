//! Measures costs on this host for the simulator: exits, switches, kicks, wake-ups, and the time until a CPU sees
//! another one's store.
//!
//! Guests are run directly, on threads bound to a CPU, without a scheduler. It takes about three seconds. Other
//! activity on the host makes samples longer and never shorter. So each figure is the lowest tenth of its samples, from
//! passes that take turns. On a quiet host that is hardly less than the median. On a busy host it is far nearer to the
//! value of a quiet one. The result also says how far the median lies above each figure, and what else ran.

mod cacheline_latency;
mod decision_latency;
mod manual_domain;
mod stats;

pub use cacheline_latency::hop;

use kvm_ioctls::Kvm;
use manual_domain::ManualDomain;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use stile_host::{Conditions, CpuList, DisturbanceMeter, HostCosts, MeasuredCosts, allowed_cpus};
use stile_machine::unikernel::{CreateError, Spec, Vm};
use stile_machine::vm::console::Sink;
use stile_sched::attributes::Attributes;
use stile_sched::domain::DomainError;
use stile_sched::domain::parker::Parker;
use stile_sched::time::monotonic;
use stile_sched::{Stop, Time, Vcpu, VcpuId, kick};
use vm_memory::{Bytes, GuestAddress};

/// Each pass takes some samples of all figures, so that a short disturbance of the host does not affect all samples of
/// one.
const PASSES: usize = 5;
/// Samples of a pass, and repetitions of an operation that is too short to be timed alone: all in much less than a turn
/// under the host's scheduler.
const SAMPLES: usize = 21;
const EXITS_AT_ONCE: u32 = 20;
const GLANCES_AT_ONCE: u32 = 1000;
/// The pause before a kick or a wake-up, so that the other thread is in place.
const SETTLE: Duration = Duration::from_millis(2);

/// Costs cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// Half of the figures are about two CPUs.
    #[error("this process may use one CPU only; kicks and wake-ups come from another")]
    OneCpu,
    /// A guest failed.
    #[error("a guest for the measurement cannot be made")]
    Guest(#[from] CreateError),
    /// The vCPUs that only yield failed.
    #[error("a vCPU that asks the policy cannot be made")]
    Asking(#[from] DomainError),
    /// Their domain cannot be made.
    #[error("the executors that ask the policy cannot be started")]
    Executors(#[from] std::io::Error),
    /// The host has too few CPUs.
    #[error("the process's CPU affinity cannot be read or set")]
    Cpus(#[from] rustix::io::Errno),
}

/// Measures all costs.
pub fn costs(kvm: &Kvm) -> Result<MeasuredCosts, MeasureError> {
    let available = allowed_cpus()?;
    let cpus: Vec<u32> = available.iter().collect();
    // The first CPU is the one that most of the host's interrupts go to.
    let [there, .., here] = cpus[..] else { return Err(MeasureError::OneCpu) };
    let looked_at = CpuList::from(vec![there, here]);
    let before = DisturbanceMeter::now(&looked_at);
    let mut all = Samples::default();
    for _ in 0..PASSES {
        all.take(kvm, there, here)?;
    }
    let disturbance = before.until(&DisturbanceMeter::now(&looked_at));
    let low = |samples: &[f64]| stats::low(samples).round() as u64;
    let exit = low(&all.exit);
    let costs = HostCosts {
        exit_ns: exit,
        leave_ns: low(&all.leave),
        switch_ns: low(&all.other).saturating_sub(exit),
        thread_switch_ns: low(&all.thread).saturating_sub(exit),
        kick_ns: low(&all.kick),
        wake_ns: low(&all.wake),
        hop_ns: low(&all.hop),
        pause_ns: low(&all.pause),
        migration_ns: low(&all.moved).saturating_sub(low(&all.single)),
        lock_ns: low(&all.lock),
    };
    let spreads = all.named().map(|(name, samples)| (name.to_owned(), stats::spread(samples)));
    Ok(MeasuredCosts { costs, measured: Some(Conditions::new(&disturbance, spreads.into())) })
}

/// The samples (units: ns).
#[derive(Default)]
struct Samples {
    exit: Vec<f64>,
    leave: Vec<f64>,
    /// An exit after an exit of another vCPU, on the same thread and on another.
    other: Vec<f64>,
    thread: Vec<f64>,
    kick: Vec<f64>,
    wake: Vec<f64>,
    hop: Vec<f64>,
    pause: Vec<f64>,
    /// One exit right after one on the same CPU, and right after one on another CPU.
    single: Vec<f64>,
    moved: Vec<f64>,
    lock: Vec<f64>,
}

impl Samples {
    /// Takes one more pass on these two CPUs.
    fn take(&mut self, kvm: &Kvm, there: u32, here: u32) -> Result<(), MeasureError> {
        let Exit { exit, leave } = bound(here, || exit(kvm))??;
        self.exit.extend(exit);
        self.leave.extend(leave);
        self.other.extend(bound(here, || switch(kvm))??);
        self.thread.extend(bound(here, || thread_switch(kvm, here))??);
        self.kick.extend(bound(there, || kicks(kvm, here))??);
        self.wake.extend(bound(there, || wakes(here))??);
        self.hop.extend(cacheline_latency::samples(there, here)?);
        self.pause.extend(bound(here, pause)?);
        let Moves { single, moved } = bound(here, || moves(kvm, there))??;
        self.single.extend(single);
        self.moved.extend(moved);
        self.lock.extend(decision_latency::samples([there, here])?);
        Ok(())
    }

    /// The samples by the names of the figures that they make.
    fn named(&self) -> [(&'static str, &[f64]); 10] {
        [
            ("exit_ns", &self.exit),
            ("leave_ns", &self.leave),
            ("switch_ns", &self.other),
            ("thread_switch_ns", &self.thread),
            ("kick_ns", &self.kick),
            ("wake_ns", &self.wake),
            ("hop_ns", &self.hop),
            ("pause_ns", &self.pause),
            ("migration_ns", &self.moved),
            ("lock_ns", &self.lock),
        ]
    }
}

/// Calls `work` on a thread that is bound to a CPU.
fn bound<T: Send>(cpu: u32, work: impl FnOnce() -> T + Send) -> rustix::io::Result<T> {
    std::thread::scope(|scope| {
        let worker = scope.spawn(move || {
            bind(cpu)?;
            kick::block();
            Ok(work())
        });
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn bind(cpu: u32) -> rustix::io::Result<()> {
    let mut only = CpuSet::new();
    only.set(cpu as usize);
    sched_setaffinity(None, &only)
}

/// Times of one operation (units: ns).
fn timed(at_once: u32, mut work: impl FnMut()) -> Vec<f64> {
    let mut sample = || {
        let begun = Instant::now();
        (0..at_once).for_each(|_| work());
        begun.elapsed().as_nanos() as f64 / f64::from(at_once)
    };
    sample();
    (0..SAMPLES).map(|_| sample()).collect()
}

/// A VM of one vCPU in a `ManualDomain`.
struct Guest {
    vm: Vm,
    domain: Arc<ManualDomain>,
}

impl Guest {
    fn new(kvm: &Kvm, image: &'static str) -> Result<Self, CreateError> {
        let domain = Arc::new(ManualDomain::default());
        let spec = Spec {
            name: image,
            image: stile_guest_images::image(image).expect("the images measured with are built-in"),
            vcpus: 1,
            memory: 8 << 20,
            attributes: Attributes::default(),
            cmdline: "",
            console: Sink::Terminal,
            device: None,
        };
        let vm = Vm::create(kvm, &spec, Arc::<ManualDomain>::clone(&domain))?;
        Ok(Self { vm, domain })
    }

    fn id(&self) -> VcpuId {
        self.vm.ids()[0]
    }

    /// Lends the vCPU out.
    fn with<T>(&self, work: impl FnOnce(&mut dyn Vcpu) -> T) -> T {
        let mut vcpu = self.domain.take(self.id()).expect("a vCPU is lent to one at a time");
        let done = work(&mut *vcpu);
        self.domain.put_back(self.id(), vcpu);
        done
    }
}

/// An exit with the return to the guest, and its first half.
struct Exit {
    exit: Vec<f64>,
    leave: Vec<f64>,
}

fn exit(kvm: &Kvm) -> Result<Exit, MeasureError> {
    let guest = Guest::new(kvm, "doorbell")?;
    let state = guest.vm.state();
    // The guest stamps the time at which it rings.
    let rung = GuestAddress(state.layout().gauge(0) + offset_of!(stile_abi::Gauge, waits_since) as u64);
    let leave = |vcpu: &mut dyn Vcpu| {
        vcpu.run();
        let now = state.clock().now();
        let rung: u64 = state.memory().load(rung, Ordering::Relaxed).expect("gauges lie inside memory");
        (now - rung) as f64 * 1e6 / f64::from(state.clock().khz())
    };
    Ok(guest.with(|vcpu| Exit {
        exit: timed(EXITS_AT_ONCE, || _ = vcpu.run()),
        leave: (0..SAMPLES).map(|_| leave(vcpu)).collect(),
    }))
}

/// An exit of one vCPU after an exit of another, on the same thread.
fn switch(kvm: &Kvm) -> Result<Vec<f64>, MeasureError> {
    let guests = [Guest::new(kvm, "doorbell")?, Guest::new(kvm, "doorbell")?];
    let both = |a: &mut dyn Vcpu, b: &mut dyn Vcpu| {
        timed(EXITS_AT_ONCE, || {
            a.run();
            b.run();
        })
    };
    Ok(halves(guests[0].with(|a| guests[1].with(|b| both(a, b)))))
}

/// Half of the time of two operations.
fn halves(samples: Vec<f64>) -> Vec<f64> {
    samples.into_iter().map(|ns| ns / 2.0).collect()
}

/// The exits of two vCPUs on two threads of one CPU, which yield to each other.
fn thread_switch(kvm: &Kvm, cpu: u32) -> Result<Vec<f64>, MeasureError> {
    let guests = [Guest::new(kvm, "doorbell")?, Guest::new(kvm, "doorbell")?];
    let over = AtomicBool::new(false);
    let turn = |vcpu: &mut dyn Vcpu| {
        vcpu.run();
        rustix::thread::sched_yield();
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            bind(cpu)?;
            kick::block();
            guests[1].with(|vcpu| {
                while !over.load(Ordering::Relaxed) {
                    turn(vcpu);
                }
            });
            Ok(())
        });
        let round = guests[0].with(|vcpu| timed(EXITS_AT_ONCE, || turn(vcpu)));
        over.store(true, Ordering::Relaxed);
        let ended: rustix::io::Result<()> = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok(ended.map(|()| halves(round))?)
    })
}

/// Single exits of a vCPU that stays on a CPU, and of one that comes from another.
struct Moves {
    single: Vec<f64>,
    moved: Vec<f64>,
}

/// Exits of a vCPU on this thread's CPU, every other one after an exit on that CPU.
fn moves(kvm: &Kvm, there: u32) -> Result<Moves, MeasureError> {
    let guest = Guest::new(kvm, "doorbell")?;
    let once = || guest.with(|vcpu| timed_once(|| _ = vcpu.run()));
    // Whether the other thread has the vCPU; it ends once there is no more to do.
    let (away, over) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            bind(there)?;
            kick::block();
            while !over.load(Ordering::Acquire) {
                if away.load(Ordering::Acquire) {
                    once();
                    away.store(false, Ordering::Release);
                }
                std::hint::spin_loop();
            }
            Ok(())
        });
        let mut moves = Moves { single: Vec::new(), moved: Vec::new() };
        once();
        for _ in 0..SAMPLES {
            away.store(true, Ordering::Release);
            while away.load(Ordering::Acquire) && !other.is_finished() {
                std::hint::spin_loop();
            }
            moves.moved.push(once());
            moves.single.push(once());
        }
        over.store(true, Ordering::Release);
        let ended: rustix::io::Result<()> = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok(ended.map(|()| moves)?)
    })
}

/// The time of one operation (unit: ns).
fn timed_once(work: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    work();
    begun.elapsed().as_nanos() as f64
}

/// From this thread's signal until a thread on that CPU has left its guest.
fn kicks(kvm: &Kvm, cpu: u32) -> Result<Vec<f64>, MeasureError> {
    let guest = Guest::new(kvm, "hog")?;
    let (thread, back, over) = (AtomicU32::new(0), AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let runs = scope.spawn(|| {
            bind(cpu)?;
            kick::block();
            thread.store(kick::this_thread().0 as u32, Ordering::Release);
            guest.with(|vcpu| {
                while !over.load(Ordering::Relaxed) {
                    if vcpu.run() == Stop::Kicked {
                        back.store(monotonic().0, Ordering::Release);
                        kick::drain();
                    }
                }
            });
            Ok(())
        });
        let send = || kick::send(kick::ThreadId(thread.load(Ordering::Acquire) as i32));
        let samples = answers(&back, || thread.load(Ordering::Acquire) != 0 || runs.is_finished(), send);
        over.store(true, Ordering::Relaxed);
        if thread.load(Ordering::Acquire) != 0 {
            send();
        }
        let ended: rustix::io::Result<()> = runs.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok(ended.map(|()| samples)?)
    })
}

/// From this thread's wake until a thread that slept on that idle CPU runs.
fn wakes(cpu: u32) -> Result<Vec<f64>, MeasureError> {
    let (parker, back, over) = (Parker::default(), AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let sleeps = scope.spawn(|| {
            bind(cpu)?;
            while !over.load(Ordering::Relaxed) {
                parker.wait(Time::NEVER);
                back.store(monotonic().0, Ordering::Release);
            }
            Ok(())
        });
        let samples = answers(
            &back,
            || true,
            || {
                parker.wake();
            },
        );
        over.store(true, Ordering::Relaxed);
        parker.wake();
        let ended: rustix::io::Result<()> = sleeps.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok(ended.map(|()| samples)?)
    })
}

/// Times from a call until the other thread has stamped `back` (units: ns). A call that is not answered within a second
/// is left out.
fn answers(back: &AtomicU64, ready: impl Fn() -> bool, call: impl Fn()) -> Vec<f64> {
    while !ready() {
        std::thread::yield_now();
    }
    let one = |_| {
        std::thread::sleep(SETTLE);
        let called = monotonic();
        call();
        loop {
            let stamp = Time(back.load(Ordering::Acquire));
            if stamp >= called {
                return Some(stamp.since(called).0 as f64);
            }
            if monotonic().since(called).0 > 1_000_000_000 {
                return None;
            }
            std::hint::spin_loop();
        }
    };
    (0..SAMPLES).filter_map(one).collect()
}

/// A PAUSE with a load.
fn pause() -> Vec<f64> {
    let word = AtomicU32::new(0);
    timed(GLANCES_AT_ONCE, || {
        std::hint::black_box(word.load(Ordering::Acquire));
        std::hint::spin_loop();
    })
}
