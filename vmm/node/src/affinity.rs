//! The host CPUs of the node's own threads, when pCPUs are given up and taken.
//!
//! Threads that carry vCPUs are placed by their domain. All others, such as those of the API, of devices and of
//! consoles, leave the CPUs that are given up, so that these are free of the program, and may use those that are taken.

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};
use std::collections::HashSet;
use stile_host::CpuList;

/// Moves all threads but the carriers off the CPUs that are in `before` only, and lets them use those in `after`.
pub(crate) fn follow(before: &CpuList, after: &CpuList, carriers: &HashSet<i32>) {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return };
    let ids = tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse::<i32>().ok());
    for thread in ids.filter(|id| !carriers.contains(id)).filter_map(Pid::from_raw) {
        let Ok(mut cpus) = sched_getaffinity(Some(thread)) else { continue };
        let own = cpus;
        change(&mut cpus, before, after);
        if cpus.count() > 0 && cpus != own {
            // A thread that has just ended needs no place.
            let _ = sched_setaffinity(Some(thread), &cpus);
        }
    }
}

fn change(cpus: &mut CpuSet, before: &CpuList, after: &CpuList) {
    let number = |cpu: u32| cpu as usize;
    after.iter().map(number).filter(|cpu| *cpu < CpuSet::MAX_CPU).for_each(|cpu| cpus.set(cpu));
    before.iter().filter(|cpu| !after.contains(*cpu)).map(number).for_each(|cpu| cpus.unset(cpu));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(cpus: &[usize]) -> CpuSet {
        let mut set = CpuSet::new();
        cpus.iter().for_each(|cpu| set.set(*cpu));
        set
    }

    #[test]
    fn cpus_that_are_given_up_are_left_and_those_that_are_taken_may_be_used() {
        let list = |text: &str| text.parse::<CpuList>().unwrap();
        for (own, before, after, then) in [
            (&[0, 1][..], "0-1", "0", &[0][..]),
            (&[0], "0", "0-1", &[0, 1]),
            (&[0, 1, 2], "0-1", "1", &[1, 2]),
            (&[0, 1], "0", "1", &[1]),
        ] {
            let mut cpus = set(own);
            change(&mut cpus, &list(before), &list(after));
            assert!(cpus == set(then), "{own:?}: {before} to {after}");
        }
    }
}
