//! The CPU time that VMs get while every vCPU computes all the time, by classes, weights and caps.
//!
//! The model has no clock: a policy gives out the pCPUs in four steps, each in proportion to the weights of the vCPUs
//! that still want CPU time (water-filling). A vCPU takes one pCPU at most, and a VM no more than its cap.
//! 1. Class rt takes the part of the pCPUs that the policy leaves to it while others could run.
//! 2. Classes normal and batch share what is left.
//! 3. Class rt takes what they leave.
//! 4. Class idle takes what is left then.

use stile_sched::Class;

/// The demand of a number of equal VMs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Demand {
    /// Number of VMs.
    pub(super) count: u32,
    /// vCPUs of each VM.
    pub(super) vcpus: u32,
    /// Class of each vCPU.
    pub(super) class: Class,
    /// Weight of each vCPU against others.
    pub(super) weight: f64,
    /// CPUs that the vCPUs of a VM may use together.
    pub(super) cap: Option<f64>,
}

/// Returns the CPUs that each VM of each demand gets on `pcpus` pCPUs. `rt_share` is the part of a pCPU that the policy
/// leaves to class rt while others could run; `None`: the policy ignores classes.
pub(super) fn expected(demands: &[Demand], pcpus: usize, rt_share: Option<f64>) -> Vec<f64> {
    let mut left = pcpus as f64;
    let mut got = vec![0.0; demands.len()];
    let class = |demand: &Demand| if rt_share.is_some() { demand.class } else { Class::Normal };
    let of_rt = rt_share.unwrap_or_default();
    for (step, part) in [(Step::Rt, of_rt), (Step::Shared, 1.0), (Step::Rt, 1.0), (Step::Idle, 1.0)] {
        let members = (0..demands.len()).filter(|&index| step.has(class(&demands[index])));
        let wants = members.map(|index| Want::of(index, &demands[index], step, part, got[index])).collect();
        let capacity = if part < 1.0 { left * part } else { left };
        for (index, cpus) in fill(capacity, wants) {
            got[index] += cpus;
            left = (left - cpus * f64::from(demands[index].count)).max(0.0);
        }
    }
    got
}

/// A step of giving pCPUs out, by the classes that it serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Rt,
    Shared,
    Idle,
}

impl Step {
    fn has(self, class: Class) -> bool {
        match class {
            Class::Rt => self == Self::Rt,
            Class::Normal | Class::Batch => self == Self::Shared,
            Class::Idle => self == Self::Idle,
        }
    }
}

/// What equal VMs can still use in a step.
struct Want {
    index: usize,
    count: f64,
    /// Weight of one VM.
    weight: f64,
    /// CPUs that one VM can still use.
    room: f64,
}

impl Want {
    /// The rest of VMs that have got `got` CPUs each. A vCPU takes at most this part of a pCPU.
    fn of(index: usize, demand: &Demand, step: Step, part: f64, got: f64) -> Self {
        let vcpus = f64::from(demand.vcpus);
        // Within class rt vCPUs take turns, whatever their weights.
        let weight = if step == Step::Rt { 1.0 } else { demand.weight };
        let most = demand.cap.unwrap_or(f64::INFINITY).min(vcpus * part);
        Self { index, count: f64::from(demand.count), weight: vcpus * weight, room: (most - got).max(0.0) }
    }
}

/// Gives `capacity` out by weight, and no VM more than it has room for. The VMs with the least room for their weight
/// come first, so that the CPU time that they cannot use goes to the others.
fn fill(capacity: f64, mut wants: Vec<Want>) -> Vec<(usize, f64)> {
    let mut left = capacity;
    let mut weights: f64 = wants.iter().map(|want| want.count * want.weight).sum();
    wants.sort_by(|a, b| (a.room / a.weight).total_cmp(&(b.room / b.weight)));
    let mut given = Vec::with_capacity(wants.len());
    for Want { index, count, weight, room } in wants {
        let cpus = if weights > 0.0 { room.min(left * weight / weights) } else { 0.0 };
        left = (left - cpus * count).max(0.0);
        weights -= weight * count;
        given.push((index, cpus));
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RT_SHARE: f64 = 0.8;
    const SLACK: f64 = 1e-6;

    fn vm(vcpus: u32, class: Class, weight: f64, cap: Option<f64>) -> Demand {
        Demand { count: 1, vcpus, class, weight, cap }
    }

    #[track_caller]
    fn gets(demands: &[Demand], pcpus: usize, wanted: &[f64]) {
        let got = expected(demands, pcpus, Some(RT_SHARE));
        let near = got.iter().zip(wanted).all(|(got, wanted)| (got - wanted).abs() < 0.001);
        assert!(near && got.len() == wanted.len(), "{got:?}, not {wanted:?}");
    }

    #[test]
    fn vcpus_share_by_weight_and_none_has_more_than_a_pcpu() {
        let n = |vcpus, weight| vm(vcpus, Class::Normal, weight, None);
        gets(&[n(2, 120.0), n(1, 45.0), n(1, 45.0)], 1, &[240.0 / 330.0, 45.0 / 330.0, 45.0 / 330.0]);
        gets(&[n(1, 900.0), n(1, 100.0), n(1, 100.0)], 2, &[1.0, 0.5, 0.5]);
        gets(&[n(1, 1.0)], 4, &[1.0]);
    }

    #[test]
    fn what_a_cap_leaves_goes_to_the_others_and_class_idle_has_what_nobody_else_wants() {
        let capped = vm(2, Class::Normal, 1.0, Some(0.5));
        let idle = vm(1, Class::Idle, 1.0, None);
        gets(&[capped, vm(2, Class::Batch, 1.0, None), idle], 2, &[0.5, 1.5, 0.0]);
        gets(&[capped, idle], 2, &[0.5, 1.0]);
        // A sleeper beside a computing VM: 150 to 45 if a VM is capped and one is of class idle.
        let web = vm(2, Class::Normal, 150.0, None);
        let batch = Demand { count: 2, ..vm(2, Class::Batch, 45.0, None) };
        gets(&[web, batch, vm(2, Class::Normal, 120.0, Some(0.5)), idle], 2, &[0.9375, 0.28125, 0.5, 0.0]);
    }

    #[test]
    fn class_rt_leaves_a_part_of_each_pcpu_to_others_that_want_it() {
        let (rt, normal) = (vm(1, Class::Rt, 1.0, None), vm(1, Class::Normal, 1.0, None));
        gets(&[rt, normal], 1, &[0.8, 0.2]);
        gets(&[rt, rt], 1, &[0.5, 0.5]);
        gets(&[rt, vm(1, Class::Normal, 1.0, Some(0.1))], 1, &[0.9, 0.1]);
        assert_eq!(expected(&[rt, normal], 1, None), [0.5, 0.5]);
    }

    fn demands() -> impl Strategy<Value = Vec<Demand>> {
        let class = prop::sample::select(vec![Class::Normal, Class::Batch, Class::Idle, Class::Rt]);
        let one = (1..4u32, 1..6u32, class, 1.0..1000.0f64, prop::option::of(0.01..1.0f64));
        let one = one.prop_map(|(count, vcpus, class, weight, part)| {
            let cap = part.map(|part| part * f64::from(vcpus));
            Demand { count, vcpus, class, weight, cap }
        });
        prop::collection::vec(one, 1..8)
    }

    fn most(demand: &Demand) -> f64 {
        demand.cap.unwrap_or(f64::INFINITY).min(f64::from(demand.vcpus))
    }

    proptest! {
        #[test]
        fn all_pcpus_are_given_out_as_far_as_anybody_can_use_them_and_no_more(
            demands in demands(),
            pcpus in 1..9usize,
            rt_share in prop::option::of(0.1..1.0f64),
        ) {
            let got = expected(&demands, pcpus, rt_share);
            let sum: f64 = demands.iter().zip(&got).map(|(demand, got)| f64::from(demand.count) * got).sum();
            let wanted: f64 = demands.iter().map(|demand| f64::from(demand.count) * most(demand)).sum();
            prop_assert!((sum - wanted.min(pcpus as f64)).abs() < SLACK, "{sum} of {wanted}: {got:?}");
        }

        #[test]
        fn caps_and_one_pcpu_for_each_vcpu_are_kept(demands in demands(), pcpus in 1..9usize) {
            for (demand, got) in demands.iter().zip(expected(&demands, pcpus, Some(RT_SHARE))) {
                prop_assert!((0.0..=most(demand) + SLACK).contains(&got), "{got} for {demand:?}");
            }
        }

        #[test]
        fn more_weight_never_gives_less(
            demands in demands(),
            pcpus in 1..9usize,
            which in any::<prop::sample::Index>(),
            factor in 1.0..10.0f64,
        ) {
            let index = which.index(demands.len());
            let before = expected(&demands, pcpus, Some(RT_SHARE))[index];
            let mut heavier = demands;
            heavier[index].weight *= factor;
            let after = expected(&heavier, pcpus, Some(RT_SHARE))[index];
            prop_assert!(after >= before - SLACK, "{before} became {after}");
        }

        #[test]
        fn class_idle_gets_nothing_while_others_can_use_all(demands in demands(), pcpus in 1..9usize) {
            let others = demands.iter().filter(|demand| demand.class != Class::Idle);
            let wanted: f64 = others.map(|demand| f64::from(demand.count) * most(demand)).sum();
            prop_assume!(wanted >= pcpus as f64);
            for (demand, got) in demands.iter().zip(expected(&demands, pcpus, Some(RT_SHARE))) {
                prop_assert!(demand.class != Class::Idle || got < SLACK);
            }
        }
    }
}
