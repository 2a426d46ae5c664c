//! Samples of VMs and their domain: all figures at one moment, their sums, and the differences between two readings.

use super::metric::Sampled;
use stile_machine::vm::VirtualMachine;
use stile_sched::domain::Domain;
use stile_sched::histogram::Histogram;
use stile_sched::ledger::Account;
use stile_sched::time::monotonic;
use stile_sched::{Nanos, Time};

/// The figures of a vCPU, or of several together.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    /// The scheduler's account.
    pub account: Account,
    /// The steal time of guests; `None` if they get none.
    pub steal: Option<Nanos>,
    /// Whether a policy object schedules them.
    pub by_policy: bool,
}

/// The figures of a domain that are not sums over its vCPUs.
#[derive(Debug, Clone, Default)]
pub struct DomainSample {
    /// Times from the policy's wish that a pCPU asks until it asked.
    pub kicks: Histogram,
    /// Number of times that a pCPU went from one vCPU to another.
    pub switches: u64,
    /// Whether it has a policy object.
    pub by_policy: bool,
}

/// A VM at one moment.
#[derive(Debug, Clone)]
pub struct VmReading {
    /// Its name.
    pub name: String,
    /// Whether it has ended. Its figures are then its last ones.
    pub ended: bool,
    /// Its vCPUs, in order.
    pub vcpus: Vec<Sample>,
}

impl Reading {
    /// The part of the time on pCPUs that the host took from the vCPUs there, as far as it was noticed.
    pub fn taken(&self) -> f64 {
        let account = Sample::sum(self.vms.iter().flat_map(|vm| &vm.vcpus)).account;
        account.taken.0 as f64 / (account.run + account.taken).0.max(1) as f64
    }
}

/// All figures at one moment, or their differences between two.
#[derive(Debug, Clone)]
pub struct Reading {
    /// Time of the reading; of a difference, time of the later reading.
    pub at: Time,
    /// The VMs, in order.
    pub vms: Vec<VmReading>,
    /// Their domain.
    pub domain: DomainSample,
}

impl Sampled for Sample {
    fn by_policy(&self) -> bool {
        self.by_policy
    }
}

impl Sampled for DomainSample {
    fn by_policy(&self) -> bool {
        self.by_policy
    }
}

impl Sample {
    /// The sum of several samples.
    pub fn sum<'a>(samples: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut samples = samples.into_iter();
        let mut sum = samples.next().cloned().unwrap_or_default();
        for sample in samples {
            sum.account.merge(&sample.account);
            sum.steal = sum.steal.zip(sample.steal).map(|(a, b)| a + b);
            sum.by_policy &= sample.by_policy;
        }
        sum
    }

    fn since(&self, earlier: &Self) -> Self {
        let steal = self.steal.map(|steal| steal - earlier.steal.unwrap_or_default());
        Self { account: self.account.since(&earlier.account), steal, by_policy: self.by_policy }
    }

    fn at_least(&self, earlier: &Self) -> Self {
        let steal = self.steal.max(earlier.steal);
        Self { account: self.account.at_least(&earlier.account), steal, by_policy: self.by_policy }
    }
}

impl VmReading {
    /// Reads a VM. A vCPU that is leaving its domain keeps the values of `earlier`.
    pub fn take<M: VirtualMachine + ?Sized>(vm: &M, by_policy: bool, earlier: Option<&Self>) -> Self {
        let status = vm.vcpu_set().status();
        let last = |vcpu: u32| earlier?.vcpus.get(vcpu as usize).cloned();
        let read = |vcpu: u32| match status.account(vcpu) {
            Some(account) => Sample { account, steal: vm.told_wait(vcpu), by_policy },
            None => last(vcpu).unwrap_or_default(),
        };
        let vcpus = (0..status.vcpus()).map(read).collect();
        Self { name: status.name().to_owned(), ended: status.has_ended(), vcpus }
    }

    /// The VM's figures.
    pub fn sum(&self) -> Sample {
        Sample::sum(&self.vcpus)
    }

    /// Raises each figure to what an earlier reading of the same start of this VM had, as readers of counters expect:
    /// they take a count that goes back for a new start. See [`Account::at_least`].
    pub fn raise_to(&mut self, earlier: &Self) {
        for (sample, earlier) in self.vcpus.iter_mut().zip(&earlier.vcpus) {
            *sample = sample.at_least(earlier);
        }
    }
}

impl Reading {
    /// Reads the VMs of a domain, as [`VmReading::take`].
    pub fn take<'a, M: VirtualMachine + ?Sized + 'a>(
        vms: impl IntoIterator<Item = &'a M>,
        domain: &dyn Domain,
        earlier: Option<&Self>,
    ) -> Self {
        let by_policy = domain.has_policy();
        let read =
            |(number, vm): (usize, &M)| VmReading::take(vm, by_policy, earlier.and_then(|all| all.vms.get(number)));
        let vms = vms.into_iter().enumerate().map(read).collect();
        let domain = DomainSample { kicks: domain.kicks(), switches: domain.totals().switches, by_policy };
        Self { at: monotonic(), vms, domain }
    }

    /// The differences to an earlier reading of these VMs.
    pub fn since(&self, earlier: &Self) -> Self {
        let of_vm = |(now, then): (&VmReading, &VmReading)| {
            let vcpus = now.vcpus.iter().zip(&then.vcpus).map(|(now, then)| now.since(then)).collect();
            VmReading { name: now.name.clone(), ended: now.ended, vcpus }
        };
        let domain = DomainSample {
            kicks: self.domain.kicks.since(&earlier.domain.kicks),
            switches: self.domain.switches.saturating_sub(earlier.domain.switches),
            by_policy: self.domain.by_policy,
        };
        Self { at: self.at, vms: self.vms.iter().zip(&earlier.vms).map(of_vm).collect(), domain }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use stile_sched::ledger::Outcomes;

    /// A vCPU under a policy with these times of run, wait and idle (unit: ms), in waits of 2 ms.
    pub(crate) fn vcpu(run: u64, wait: u64, idle: u64) -> Sample {
        let [run, wait, idle] = [run, wait, idle].map(Nanos::from_millis);
        let mut account = Account { run, wait, idle, turns: 7, exits: 1_234, ..Account::default() };
        (0..wait.0 / 2_000_000).for_each(|_| account.waits.record(Nanos::from_millis(2)));
        account.yields.lock = Outcomes { alone: 1, switched: 2, stayed: 3, untold: 0 };
        Sample { account, steal: Some(wait), by_policy: true }
    }

    pub(crate) fn vm(name: &str, vcpus: Vec<Sample>) -> VmReading {
        VmReading { name: name.to_owned(), ended: false, vcpus }
    }

    /// A domain of such VMs, in which kicks take 10 us.
    pub(crate) fn reading(vms: Vec<VmReading>) -> Reading {
        let mut domain = DomainSample { switches: 40, by_policy: true, ..DomainSample::default() };
        (0..40).for_each(|_| domain.kicks.record(Nanos::from_micros(10)));
        Reading { at: Time(1_000_000_000), vms, domain }
    }

    #[test]
    fn a_vm_is_the_sum_of_its_vcpus() {
        let sum = vm("a", vec![vcpu(500, 400, 100), vcpu(300, 600, 100)]).sum();
        let Sample { account, steal, by_policy } = sum;
        assert_eq!((account.run, account.wait), (Nanos::from_millis(800), Nanos::from_millis(1000)));
        assert_eq!((account.total(), account.turns), (Nanos::from_millis(2000), 14));
        assert_eq!((account.waits.count(), account.yields.outcomes().total()), (500, 12));
        assert_eq!((steal, by_policy), (Some(Nanos::from_millis(1000)), true));
        assert!(!Sample::sum([]).by_policy);
    }

    #[test]
    fn a_sum_with_a_guest_that_is_told_no_steal_has_none() {
        let told = vcpu(1, 1, 1);
        let untold = Sample { steal: None, ..told.clone() };
        assert_eq!(Sample::sum([&told, &untold]).steal, None);
    }

    #[test]
    fn what_came_between_two_readings_is_their_difference_vcpu_by_vcpu() {
        let earlier = reading(vec![vm("a", vec![vcpu(100, 200, 300)]), vm("b", vec![vcpu(1, 2, 3)])]);
        let later = reading(vec![vm("a", vec![vcpu(150, 300, 350)]), vm("b", vec![vcpu(1, 2, 3)])]);
        let since = later.since(&earlier);
        let of_a = &since.vms[0].vcpus[0];
        assert_eq!((of_a.account.run, of_a.account.total()), (Nanos::from_millis(50), Nanos::from_millis(200)));
        assert_eq!((of_a.steal, of_a.account.waits.count()), (Some(Nanos::from_millis(100)), 50));
        assert_eq!(since.vms[1].sum().account.total(), Nanos::ZERO);
        assert_eq!((since.domain.switches, since.domain.kicks.count()), (0, 0));
    }

    #[test]
    fn no_figure_is_less_than_an_earlier_reading_had() {
        let earlier = vm("a", vec![vcpu(100, 200, 300), vcpu(10, 20, 30)]);
        let mut later = vm("a", vec![vcpu(90, 220, 310), Sample::default()]);
        later.raise_to(&earlier);
        let times =
            |sample: &Sample| [sample.account.run, sample.account.wait, sample.account.idle].map(|t| t.0 / 1_000_000);
        assert_eq!((times(&later.vcpus[0]), times(&later.vcpus[1])), ([100, 220, 310], [10, 20, 30]));
        let Sample { account, steal, .. } = &later.vcpus[1];
        assert_eq!((account.waits.count(), account.yields.lock.total(), account.exits), (10, 6, 1_234));
        assert_eq!(*steal, Some(Nanos::from_millis(20)));
    }
}
