//! What this host can do for stile, and the consequence of each fact: `stile doctor`.
//!
//! [`diagnose`] is a pure function from facts to findings. Their order is fixed: from what decides whether guests run
//! at all to what only blurs a measurement. It reads nothing and changes nothing.

use serde::Serialize;

use super::facts::HostFacts;
use super::judge;

/// How good a fact is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Good,
    /// Guests run, with the consequence named.
    Warn,
    /// Guests cannot run.
    Bad,
}

/// One fact, judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its subject, in a word or two.
    pub subject: &'static str,
    /// How good it is.
    pub state: State,
    /// What was found.
    pub fact: String,
    /// The consequence.
    pub consequence: String,
    /// The remedy, if one is needed.
    pub remedy: Option<String>,
}

/// All findings about a host.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diagnosis {
    /// Whether guests can run.
    pub guests_can_run: bool,
    /// The findings, the most important first.
    pub findings: Vec<Finding>,
    /// The facts on which they rest.
    pub facts: HostFacts,
}

impl Diagnosis {
    /// Exit code of `stile doctor`: 0 if guests can run, 3 if not.
    pub fn exit_code(&self) -> u8 {
        if self.guests_can_run { 0 } else { 3 }
    }
}

/// Judges `facts`. A VM of the default size has `vm_memory` bytes.
pub fn diagnose(facts: HostFacts, vm_memory: u64) -> Diagnosis {
    let mut findings = vec![judge::device(&facts)];
    if facts.kvm.unavailable.is_none() {
        findings.push(judge::backend(&facts));
        findings.extend(judge::capabilities(&facts));
    }
    findings.extend([judge::kernel(&facts), judge::cpus(&facts), judge::machine(&facts)]);
    findings.extend(judge::halt_polling(&facts));
    findings.extend([
        judge::halts(&facts),
        judge::realtime(&facts),
        judge::jail(&facts),
        judge::autogroups(&facts),
        judge::clock(&facts),
        judge::load(&facts),
        judge::memory(&facts, vm_memory),
    ]);
    let guests_can_run = findings.iter().all(|finding| finding.state != State::Bad);
    Diagnosis { guests_can_run, findings, facts }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KvmUnavailable;
    use crate::facts::Live;
    use crate::fake::{FakeHost, live};
    use stile_jail::Offer;

    fn diagnosis(host: &FakeHost, live: Live) -> Diagnosis {
        diagnose(HostFacts::read(&host.root(), live), 16 << 20)
    }

    fn finding(diagnosis: &Diagnosis, subject: &str) -> Finding {
        diagnosis.findings.iter().find(|finding| finding.subject == subject).unwrap().clone()
    }

    fn not_good(diagnosis: &Diagnosis) -> Vec<&'static str> {
        diagnosis.findings.iter().filter(|f| f.state != State::Good).map(|f| f.subject).collect()
    }

    #[test]
    fn host_with_vmx_or_svm_runs_both_kinds_of_guests() {
        for (host, name) in [(FakeHost::vmx(), "Intel VMX"), (FakeHost::svm(), "AMD SVM")] {
            let diagnosis = diagnosis(&host, live());
            assert_eq!(diagnosis.exit_code(), 0);
            let backend = finding(&diagnosis, "backend");
            assert_eq!(backend.state, State::Good);
            assert!(backend.fact.starts_with(name) && backend.consequence.contains("Linux guests run"));
            assert_eq!(not_good(&diagnosis), ["CPUs", "halt polling"]);
        }
    }

    #[test]
    fn host_with_pvm_runs_unikernels_and_warns_of_linux_guests() {
        let diagnosis = diagnosis(&FakeHost::pvm(), live());
        assert_eq!(diagnosis.exit_code(), 0);
        let backend = finding(&diagnosis, "backend");
        assert_eq!(backend.state, State::Warn);
        assert!(backend.consequence.contains("user programs do not start"));
        assert!(finding(&diagnosis, "machine").fact.contains("a virtual machine; 37 ticks stolen"));
    }

    #[test]
    fn host_without_kvm_ends_with_3_and_names_the_module_and_nesting() {
        let answers = Live { kvm: Err(KvmUnavailable::NoDevice), ..live() };
        let diagnosis = diagnosis(&FakeHost::empty(), answers);
        assert_eq!(diagnosis.exit_code(), 3);
        let device = finding(&diagnosis, "KVM");
        assert_eq!((device.state, device.fact.as_str()), (State::Bad, "this host has no KVM (/dev/kvm is missing)"));
        let remedy = device.remedy.unwrap();
        assert!(remedy.starts_with("load the module kvm_intel or kvm_amd") && remedy.contains("neither VMX nor SVM"));
        assert!(!diagnosis.findings.iter().any(|f| f.subject.starts_with("capabilit") || f.subject == "backend"));
    }

    #[test]
    fn host_that_denies_kvm_ends_with_3_and_names_the_group() {
        let answers = Live { kvm: Err(KvmUnavailable::Denied), ..live() };
        let diagnosis = diagnosis(&FakeHost::vmx(), answers);
        assert_eq!(diagnosis.exit_code(), 3);
        let remedy = finding(&diagnosis, "KVM").remedy.unwrap();
        assert!(remedy.contains("usermod -aG kvm") && !remedy.contains("firmware"));
    }

    #[test]
    fn kernel_before_6_13_keeps_a_thread_per_vcpu() {
        let host = FakeHost::vmx();
        for (release, state) in
            [("6.12.9", State::Warn), ("5.15.0-100", State::Warn), ("6.13.0-rc1", State::Good), ("7.0", State::Good)]
        {
            host.file("proc/sys/kernel/osrelease", release);
            assert_eq!(finding(&diagnosis(&host, live()), "kernel").state, state, "{release}");
        }
    }

    #[test]
    fn real_time_class_that_is_refused_warns_of_late_deadlines_under_leases() {
        let answers = Live { fifo_refused: Some("Operation not permitted (os error 1)".to_owned()), ..live() };
        let realtime = finding(&diagnosis(&FakeHost::vmx(), answers), "real time");
        assert_eq!(realtime.state, State::Warn);
        assert!(realtime.fact.contains("not permitted") && realtime.consequence.contains("`leases`"));
        let permitted = finding(&diagnosis(&FakeHost::vmx(), live()), "real time");
        assert_eq!(permitted.state, State::Good);
        assert_eq!(permitted.fact, "SCHED_FIFO is permitted, 950 ms in 1000 ms at most");
    }

    #[test]
    fn refused_counter_warns_with_what_a_halt_costs_then() {
        let answers = Live { departures_refused: Some("Permission denied (os error 13)".to_owned()), ..live() };
        let halts = finding(&diagnosis(&FakeHost::vmx(), answers), "halts");
        assert_eq!(halts.state, State::Warn);
        assert!(halts.fact.contains("Permission denied") && halts.remedy.unwrap().contains("perf_event_paranoid=1"));
        assert_eq!(finding(&diagnosis(&FakeHost::vmx(), live()), "halts").state, State::Good);
    }

    #[test]
    fn what_is_missing_of_the_jail_warns_with_what_is_lost() {
        let jail = |filters, landlock| {
            let answers = Live { jail: Offer { filters, landlock }, ..live() };
            finding(&diagnosis(&FakeHost::vmx(), answers), "jail")
        };
        let whole = jail(true, Some(7));
        assert_eq!((whole.state, whole.fact.as_str()), (State::Good, "filters of system calls; Landlock, version 7"));
        for (filters, landlock, lost) in [(true, None, "all files"), (false, Some(7), "any system call")] {
            let part = jail(filters, landlock);
            assert!(part.state == State::Warn && part.consequence.contains(lost) && part.remedy.is_some(), "{part:?}");
        }
        assert_eq!(jail(false, None).fact, "no filters of system calls; no Landlock");
    }

    #[test]
    fn autogroups_warn_with_the_remedy() {
        let host = FakeHost::vmx();
        host.file("proc/sys/kernel/sched_autogroup_enabled", "1\n");
        let found = finding(&diagnosis(&host, live()), "autogroups");
        assert_eq!(found.state, State::Warn);
        assert!(found.remedy.unwrap().contains("sched_autogroup_enabled=0"));
    }

    #[test]
    fn capability_that_is_useful_or_required_warns_or_fails() {
        let without = |name: &str| {
            let mut answers = live();
            answers.kvm.as_mut().unwrap().retain(|capability| capability.name != name);
            diagnosis(&FakeHost::vmx(), answers)
        };
        let useful = without("KVM_CAP_SYNC_REGS");
        assert_eq!((finding(&useful, "capability").state, useful.exit_code()), (State::Warn, 0));
        let required = without("KVM_CAP_IMMEDIATE_EXIT");
        assert_eq!((finding(&required, "capability").state, required.exit_code()), (State::Bad, 3));
    }

    #[test]
    fn cpus_that_share_cores_are_told_with_the_pcpus_to_take_instead() {
        let cpus = |allowed: &str| {
            finding(&diagnosis(&FakeHost::vmx(), Live { allowed: allowed.parse().unwrap(), ..live() }), "CPUs")
        };
        assert_eq!(cpus("0-3").remedy.unwrap(), "for even measurements take one thread per core: pcpus = [0, 1]");
        assert_eq!(cpus("0-1").state, State::Good);
        assert_eq!(cpus("2").state, State::Warn);
    }

    #[test]
    fn busy_host_and_full_memory_are_warned_of() {
        let host = FakeHost::vmx();
        host.file("proc/loadavg", "3.00 2.00 1.00 1/85 12453\n");
        host.file("proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 524288 kB\n");
        let diagnosis = diagnosis(&host, live());
        assert_eq!(finding(&diagnosis, "load").state, State::Warn);
        let memory = finding(&diagnosis, "memory");
        assert!(memory.state == State::Warn && memory.consequence.starts_with("room for 32 VMs"));
    }

    #[test]
    fn whatever_is_not_good_says_what_to_do_or_what_is_lost() {
        for host in [FakeHost::empty(), FakeHost::vmx(), FakeHost::pvm()] {
            for finding in diagnosis(&host, live()).findings {
                assert!(!finding.consequence.is_empty(), "{finding:?}");
            }
        }
    }
}
