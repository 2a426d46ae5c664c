//! A VM's figures in one line: its CPU time, and how long it waited for a pCPU.

use super::reading::{Sample, VmReading};
use super::table::time;
use stile_sched::Nanos;

/// The shortest wait that is worth telling.
const TOLD: Nanos = Nanos::from_micros(1);

/// The line on a VM's time.
pub fn line(vm: &VmReading) -> String {
    let Sample { account, by_policy, .. } = vm.sum();
    let cpus = match account.total().0 {
        0 => 0.0,
        total => account.run.0 as f64 * vm.vcpus.len() as f64 / total as f64,
    };
    // A vCPU that is handed a slot at once waits only for its thread to wake, which no single wait contains.
    let longest = Some(account.waits.max()).filter(|longest| by_policy && *longest >= TOLD);
    let longest = longest.map_or(String::new(), |longest| format!(" (longest wait {})", time(longest)));
    let [run, ready, idle] = [account.run, account.wait, account.idle].map(time);
    let taken = match account.taken {
        Nanos::ZERO => String::new(),
        taken => format!("; taken by other programs {}", time(taken)),
    };
    format!("ran {run}, {cpus:.2} CPUs; ready {ready}{longest}; idle {idle}{taken}")
}

#[cfg(test)]
mod tests {
    use super::super::reading::tests::{vcpu, vm};
    use super::*;
    use stile_sched::histogram::Histogram;

    #[test]
    fn a_line_tells_what_a_vm_got_and_how_long_it_could_have_run_without() {
        let two = vm("a", vec![vcpu(500, 400, 100), vcpu(300, 600, 100)]);
        assert_eq!(line(&two), "ran 800 ms, 0.80 CPUs; ready 1.00 s (longest wait 2.00 ms); idle 200 ms");
        let mut robbed = vcpu(500, 400, 100);
        robbed.account.taken = Nanos::from_millis(30);
        assert!(line(&vm("a", vec![robbed])).ends_with("; idle 100 ms; taken by other programs 30.0 ms"));
        let host = vm("a", vec![Sample { by_policy: false, ..vcpu(500, 400, 100) }]);
        assert!(!line(&host).contains("wait"));
        let mut handed = vcpu(500, 400, 100);
        handed.account.waits = Histogram::default();
        handed.account.waits.record(Nanos::ZERO);
        assert!(!line(&vm("a", vec![handed])).contains("wait"));
        assert!(line(&vm("a", Vec::new())).starts_with("ran 0, 0.00 CPUs"));
    }
}
