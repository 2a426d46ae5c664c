//! When vCPUs want to be woken, or may go on: a binary heap in which a vCPU can be found, so that one woken early takes
//! its deadline along. Allocates only in [`Deadlines::admit`].

use crate::ids::VcpuId;
use crate::time::Time;

const ABSENT: u32 = u32::MAX;

/// The deadlines of one slot.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    heap: Vec<(Time, VcpuId)>,
    /// Index in the heap by vCPU.
    at: Vec<u32>,
}

impl Deadlines {
    /// Makes room for a vCPU of this id.
    pub(crate) fn admit(&mut self, vcpu: VcpuId) {
        if self.at.len() <= vcpu.index() {
            self.at.resize(vcpu.index() + 1, ABSENT);
            self.heap.reserve(self.at.len() - self.heap.len());
        }
    }

    /// The earliest, or never.
    pub(crate) fn earliest(&self) -> Time {
        self.heap.first().map_or(Time::NEVER, |(time, _)| *time)
    }

    /// Sets the deadline of a vCPU that has none.
    pub(crate) fn insert(&mut self, time: Time, vcpu: VcpuId) {
        debug_assert_eq!(self.at[vcpu.index()], ABSENT);
        let i = self.heap.len();
        self.heap.push((time, vcpu));
        self.at[vcpu.index()] = i as u32;
        self.up(i);
    }

    /// A vCPU's deadline, or never.
    pub(super) fn of(&self, vcpu: VcpuId) -> Time {
        self.heap.get(self.at[vcpu.index()] as usize).map_or(Time::NEVER, |(time, _)| *time)
    }

    /// Forgets a vCPU's deadline, if it has one here.
    pub(crate) fn remove(&mut self, vcpu: VcpuId) {
        let i = self.at[vcpu.index()] as usize;
        if i < self.heap.len() {
            self.take(i);
        }
    }

    /// Takes out a vCPU whose time has come.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<VcpuId> {
        let &(time, vcpu) = self.heap.first()?;
        if time > now {
            return None;
        }
        self.take(0);
        Some(vcpu)
    }

    fn take(&mut self, i: usize) {
        let (_, vcpu) = self.heap.swap_remove(i);
        self.at[vcpu.index()] = ABSENT;
        if i < self.heap.len() {
            self.at[self.heap[i].1.index()] = i as u32;
            let i = self.up(i);
            self.down(i);
        }
    }

    fn up(&mut self, mut i: usize) -> usize {
        while i > 0 && self.heap[i].0 < self.heap[(i - 1) / 2].0 {
            self.swap(i, (i - 1) / 2);
            i = (i - 1) / 2;
        }
        i
    }

    fn down(&mut self, mut i: usize) {
        loop {
            let (left, right) = (2 * i + 1, 2 * i + 2);
            let mut least = i;
            for child in [left, right] {
                if child < self.heap.len() && self.heap[child].0 < self.heap[least].0 {
                    least = child;
                }
            }
            if least == i {
                return;
            }
            self.swap(i, least);
            i = least;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.at[self.heap[a].1.index()] = a as u32;
        self.at[self.heap[b].1.index()] = b as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pops_what_a_sorted_set_would(steps in prop::collection::vec((0u32..20, 0u64..100, 0u8..3), 0..300)) {
            let mut heap = Deadlines::default();
            (0..20).for_each(|v| heap.admit(VcpuId(v)));
            let mut model: std::collections::BTreeMap<u32, u64> = Default::default();
            for (vcpu, time, what) in steps {
                match what {
                    0 => {
                        heap.remove(VcpuId(vcpu));
                        model.remove(&vcpu);
                    }
                    1 if !model.contains_key(&vcpu) => {
                        heap.insert(Time(time), VcpuId(vcpu));
                        model.insert(vcpu, time);
                    }
                    _ => {
                        let due = heap.pop_due(Time(time));
                        let least = model.values().min().copied();
                        prop_assert_eq!(due.is_some(), least.is_some_and(|t| t <= time));
                        if let Some(v) = due {
                            prop_assert_eq!(model.remove(&v.0), least);
                        }
                    }
                }
                for vcpu in 0..20 {
                    prop_assert_eq!(heap.of(VcpuId(vcpu)), model.get(&vcpu).map_or(Time::NEVER, |t| Time(*t)));
                }
                prop_assert_eq!(heap.earliest(), model.values().min().map_or(Time::NEVER, |t| Time(*t)));
            }
        }
    }
}
