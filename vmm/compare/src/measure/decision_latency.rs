//! How fast a policy can be asked. On two CPUs there are executors with vCPUs that only yield, so that each asks as
//! often as the lock allows. The result is the time of a question under the lock, including the transfer of lock and
//! data from one CPU to the other.

use super::SAMPLES;
use std::time::{Duration, Instant};
use stile_sched::attributes::Attributes;
use stile_sched::domain::executors::{Executors, Switches};
use stile_sched::ledger::Account;
use stile_sched::lock::LockRules;
use stile_sched::policy::Rsdl;
use stile_sched::policy::rsdl::RsdlConfig;
use stile_sched::{Domain, Stop, Vcpu, Wait, Yield};

/// Enough vCPUs that both CPUs always have one that waits.
const VCPUS: usize = 8;
/// Long enough for thousands of questions.
const SAMPLE: Duration = Duration::from_millis(5);

/// A vCPU that yields without a hint.
struct Yielder;

impl Vcpu for Yielder {
    fn run(&mut self) -> Stop {
        Stop::Yield(Yield { wait: Wait::Unknown, again: false })
    }

    fn retired(self: Box<Self>, _: &Account) {}
}

/// Times of a question (units: ns).
pub(super) fn samples(cpus: [u32; 2]) -> Result<Vec<f64>, super::MeasureError> {
    let cpus = cpus.map(|cpu| cpu as usize);
    let policy = Rsdl::new(RsdlConfig::default(), cpus.len());
    let domain = Executors::new(&cpus, Box::new(policy), LockRules::default(), Switches::default())?;
    let yielders = (0..VCPUS).map(|_| domain.add(Box::new(Yielder), Attributes::default()));
    let yielders = yielders.collect::<Result<Vec<_>, _>>()?;
    yielders.iter().for_each(|&vcpu| domain.wake(vcpu));
    let asked = || {
        let yields = domain.totals().yields;
        yields.switched + yields.stayed
    };
    let sample = |_| {
        let (begun, before) = (Instant::now(), asked());
        std::thread::sleep(SAMPLE);
        begun.elapsed().as_nanos() as f64 / (asked() - before).max(1) as f64
    };
    let samples = (0..SAMPLES).map(sample).collect();
    yielders.iter().for_each(|&vcpu| domain.retire(vcpu));
    Ok(samples)
}
