//! `stile top` on a node that does not exist: `cargo run -p stile-top --example demo [-- --no-color] [PCPUS] [VMS]`.
//!
//! The figures move as those of real VMs might. Orders are carried out, so keys can be tried. Every 90 frames the
//! connection breaks for a moment.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use stile_api::{
    CapSetting, DomainFigures, Figures, Frame, PcpuView, Problem, Reason, SchedulingRequest, Spans, VcpuFigures,
    VmFigures, VmState,
};
use stile_top::{Frames, Node, TopError, TopOptions, run};

/// Frames between two breaks of the connection.
const BREAK: u64 = 90;
const NAMES: [&str; 10] =
    ["web", "database", "cache", "mail-relay", "builder", "sleeper", "worker", "metrics-collector", "batch", "idle"];

/// What users can change, and how hungry the VM is.
struct Vm {
    name: String,
    state: VmState,
    nice: i8,
    cap: Option<f64>,
    vcpus: u32,
    hunger: f64,
}

struct Made {
    vms: Vec<Vm>,
    pcpus: u32,
    noise: u64,
    frames: u64,
}

#[derive(Clone)]
struct Demo(Arc<Mutex<Made>>);

struct Stream {
    made: Arc<Mutex<Made>>,
    interval: Duration,
}

impl Made {
    fn new(pcpus: u32, vms: usize) -> Self {
        let vm = |n: usize| {
            let name = NAMES[n % NAMES.len()];
            let copy = n / NAMES.len();
            Vm {
                name: if copy == 0 { name.to_owned() } else { format!("{name}-{copy}") },
                state: if n % 10 == 9 { VmState::Stopped } else { VmState::Running },
                nice: [0, -5, 0, 3, 10, 0, 0, 5, 19, 0][n % 10],
                cap: (n % 10 == 4).then_some(0.5),
                vcpus: [2, 4, 1, 1, 4, 1, 2, 1, 8, 1][n % 10],
                hunger: [0.6, 0.5, 0.2, 0.1, 1.0, 0.04, 0.8, 0.3, 1.0, 0.0][n % 10],
            }
        };
        Self { vms: (0..vms).map(vm).collect(), pcpus, noise: 7, frames: 0 }
    }

    /// A number from 0 to 1 (xorshift64).
    fn noise(&mut self) -> f64 {
        self.noise ^= self.noise << 13;
        self.noise ^= self.noise >> 7;
        self.noise ^= self.noise << 17;
        (self.noise >> 11) as f64 / (1u64 << 53) as f64
    }

    fn frame(&mut self, seconds: f64) -> Frame {
        self.frames += 1;
        let wishes: f64 = self.vms.iter().filter(|vm| vm.state == VmState::Running).map(Vm::wish).sum();
        let squeeze = (f64::from(self.pcpus) * 0.97 / wishes.max(0.01)).min(1.0);
        let vms: Vec<VmFigures> = (0..self.vms.len()).map(|n| self.vm(n, squeeze, seconds)).collect();
        let pcpus = (0..self.pcpus).map(|cpu| PcpuView { cpu, vcpu: self.chosen(&vms) }).collect();
        let p99 = 12e-6 + 40e-6 * self.noise();
        let kicks = Spans { count: 900, p50: Some(9e-6), p99: Some(p99), max: Some(3.0 * p99) };
        let switches = (3000.0 + 900.0 * self.noise()) * seconds;
        Frame {
            at: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64(),
            seconds: Some(seconds),
            policy: "rsdl:rr_interval=6ms".to_owned(),
            pcpus,
            domain: DomainFigures { switches: switches as u64, kicks: Some(kicks) },
            vms,
        }
    }

    fn vm(&mut self, n: usize, squeeze: f64, seconds: f64) -> VmFigures {
        let vcpus: Vec<VcpuFigures> = (0..self.vms[n].vcpus)
            .map(|index| VcpuFigures { index, figures: self.vcpu(n, squeeze, seconds) })
            .collect();
        let vm = &self.vms[n];
        let sum = |of: fn(&Figures) -> f64| vcpus.iter().map(|vcpu| of(&vcpu.figures)).sum::<f64>();
        let count = |of: fn(&Figures) -> u64| vcpus.iter().map(|vcpu| of(&vcpu.figures)).sum::<u64>();
        let figures = Figures {
            run_seconds: sum(|of| of.run_seconds),
            wait_seconds: sum(|of| of.wait_seconds),
            idle_seconds: sum(|of| of.idle_seconds),
            taken_seconds: Some(sum(|of| of.taken_seconds.unwrap_or_default())),
            throttled_seconds: Some(if vm.cap.is_some() { sum(|of| of.wait_seconds) * 0.8 } else { 0.0 }),
            devices_seconds: 0.0,
            steal_seconds: Some(sum(|of| of.wait_seconds)),
            waits: vcpus.first().and_then(|vcpu| vcpu.figures.waits),
            turns: count(|of| of.turns),
            migrations: count(|of| of.migrations),
            exits: count(|of| of.exits),
        };
        let class = if vm.name.starts_with("batch") { "batch" } else { "normal" };
        VmFigures {
            name: vm.name.clone(),
            state: vm.state,
            nice: vm.nice,
            class: class.to_owned(),
            cap: vm.cap,
            figures,
            vcpus,
        }
    }

    fn vcpu(&mut self, n: usize, squeeze: f64, seconds: f64) -> Figures {
        let noise = self.noise();
        let vm = &self.vms[n];
        if vm.state != VmState::Running {
            let idle = if vm.state == VmState::Paused { seconds } else { 0.0 };
            return Figures { idle_seconds: idle, ..Figures::default() };
        }
        let wish = (vm.hunger * (0.8 + 0.4 * noise)).min(1.0);
        let most = vm.cap.map_or(1.0, |cap| (cap / f64::from(vm.vcpus)).min(1.0));
        let run = (wish * (squeeze * (1.0 - f64::from(vm.nice) / 60.0)).min(1.0)).min(most);
        let taken = if noise > 0.93 { 0.03 } else { 0.0 };
        let wait = (wish - run).clamp(0.0, 1.0 - run - taken);
        let p99 = 1e-4 + 0.02 * wait * (0.5 + noise);
        let turns = (40.0 + 4000.0 * noise * (1.0 - vm.hunger)) * seconds;
        Figures {
            run_seconds: run * seconds,
            wait_seconds: wait * seconds,
            idle_seconds: (1.0 - run - wait - taken).max(0.0) * seconds,
            taken_seconds: Some(taken * seconds),
            throttled_seconds: Some(0.0),
            steal_seconds: Some(wait * seconds),
            waits: Some(Spans { count: turns as u64, p50: Some(p99 / 9.0), p99: Some(p99), max: Some(p99 * 1.7) }),
            turns: turns as u64,
            migrations: (turns * 0.02) as u64,
            exits: (turns * 2.5) as u64,
            ..Figures::default()
        }
    }

    /// A vCPU drawn by how much it ran.
    fn chosen(&mut self, vms: &[VmFigures]) -> Option<String> {
        let mut left = self.noise() * f64::from(self.pcpus);
        for vm in vms {
            for vcpu in &vm.vcpus {
                left -= vcpu.figures.run_seconds;
                if left < 0.0 {
                    return Some(format!("{}/{}", vm.name, vcpu.index));
                }
            }
        }
        None
    }
}

impl Vm {
    fn wish(&self) -> f64 {
        (self.hunger * f64::from(self.vcpus)).min(self.cap.unwrap_or(f64::MAX))
    }
}

impl Demo {
    fn change(&self, vm: &str, change: impl FnOnce(&mut Vm)) -> Result<(), Problem> {
        sleep(Duration::from_millis(50));
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let vm = made.vms.iter_mut().find(|of| of.name == vm);
        vm.map(change).ok_or_else(|| Problem::new(Reason::NotFound, "there is no such VM"))
    }
}

impl Node for Demo {
    fn frames(&self, interval: Duration) -> Result<Box<dyn Frames>, Problem> {
        Ok(Box::new(Stream { made: Arc::clone(&self.0), interval }))
    }

    fn pause(&self, vm: &str) -> Result<(), Problem> {
        self.change(vm, |vm| vm.state = VmState::Paused)
    }

    fn resume(&self, vm: &str) -> Result<(), Problem> {
        self.change(vm, |vm| vm.state = VmState::Running)
    }

    fn schedule(&self, vm: &str, request: &SchedulingRequest) -> Result<(), Problem> {
        if vm == "database" && request.cap.is_some() {
            let problem = Problem::new(Reason::Conflict, "database may not be capped");
            return Err(problem.remedy("cap another VM; this one shows what a refusal looks like"));
        }
        self.change(vm, |vm| {
            vm.nice = request.nice.unwrap_or(vm.nice);
            vm.cap = match request.cap {
                None => vm.cap,
                Some(CapSetting::Cpus(cap)) => Some(cap.cpus()),
                Some(CapSetting::None(_)) => None,
            };
        })
    }
}

impl Frames for Stream {
    fn next(&mut self, _limit: Duration) -> Result<Option<Frame>, Problem> {
        sleep(self.interval);
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let frame = made.frame(self.interval.as_secs_f64());
        if made.frames.is_multiple_of(BREAK) {
            return Err(Problem::new(Reason::TimedOut, "the node has closed the connection"));
        }
        Ok(Some(frame))
    }
}

fn main() -> Result<(), TopError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut numbers = arguments.iter().filter_map(|argument| argument.parse().ok());
    let (pcpus, vms) = (numbers.next().unwrap_or(4), numbers.next().unwrap_or(10));
    let color = !arguments.iter().any(|argument| argument == "--no-color");
    run(Demo(Arc::new(Mutex::new(Made::new(pcpus, vms as usize)))), TopOptions { color, ..TopOptions::default() })
}
