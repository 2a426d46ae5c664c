//! Which slots are near each other: threads of one core, cores behind one last-level cache.
//!
//! Pure: made from lists of host CPUs, however wrong they may be. A slot that no list names is alone in its core and
//! shares no cache; one that several lists name belongs to the first.

use crate::ids::Slot;
use std::ops::Range;

/// How near the slots of a domain are to each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    cores: Groups,
    caches: Groups,
}

/// Slots in disjoint groups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Groups {
    /// Which group, by slot.
    of: Vec<Option<u16>>,
    /// The bits of each group's slots, in words of 64: only those that are not zero.
    masks: Vec<Vec<(u16, u64)>>,
}

impl Topology {
    /// The slots are these host CPUs, in this order; CPUs listed together share a core, or a last-level cache.
    pub fn new<'a>(
        cpus: &[usize],
        cores: impl IntoIterator<Item = &'a [usize]>,
        caches: impl IntoIterator<Item = &'a [usize]>,
    ) -> Self {
        Self { cores: Groups::new(cpus, cores), caches: Groups::new(cpus, caches) }
    }

    /// The topology of some of these slots alone.
    pub fn part(&self, slots: Range<Slot>) -> Self {
        let range = slots.start.index()..slots.end.index();
        Self { cores: self.cores.part(range.clone()), caches: self.caches.part(range) }
    }

    /// Bits of the slots near this one, in words of 64: those of its core first, then those behind its cache.
    pub(crate) fn around(&self, slot: Slot) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.cores.around(slot).chain(self.caches.around(slot))
    }

    /// Whether two slots are behind one last-level cache; where nothing is known of either, they are.
    pub(crate) fn share_cache(&self, a: Slot, b: Slot) -> bool {
        let cache = |slot: Slot| self.caches.of.get(slot.index()).copied().flatten();
        cache(a) == cache(b)
    }
}

/// Adds a slot with a higher number than those that are there.
fn set_bit(mask: &mut Vec<(u16, u64)>, slot: usize) {
    let (word, bit) = ((slot / 64) as u16, 1 << (slot % 64));
    match mask.last_mut() {
        Some((last, bits)) if *last == word => *bits |= bit,
        _ => mask.push((word, bit)),
    }
}

impl Groups {
    fn new<'a>(cpus: &[usize], lists: impl IntoIterator<Item = &'a [usize]>) -> Self {
        let mut groups = Self { of: vec![None; cpus.len()], masks: Vec::new() };
        for list in lists {
            let mut mask: Vec<(u16, u64)> = Vec::new();
            for (slot, of) in groups.of.iter_mut().enumerate().filter(|(slot, _)| list.contains(&cpus[*slot])) {
                if of.is_some() {
                    continue;
                }
                *of = Some(groups.masks.len() as u16);
                set_bit(&mut mask, slot);
            }
            groups.masks.push(mask);
        }
        groups
    }

    fn part(&self, range: Range<usize>) -> Self {
        let of: Vec<Option<u16>> = self.of.get(range).unwrap_or_default().to_vec();
        let mut masks: Vec<Vec<(u16, u64)>> = vec![Vec::new(); self.masks.len()];
        for (slot, group) in of.iter().enumerate().filter_map(|(slot, of)| Some((slot, (*of)?))) {
            set_bit(&mut masks[usize::from(group)], slot);
        }
        Self { of, masks }
    }

    fn around(&self, slot: Slot) -> impl Iterator<Item = (usize, u64)> + '_ {
        let group = self.of.get(slot.index()).copied().flatten();
        let mask = group.map_or(&[][..], |group| &self.masks[usize::from(group)]);
        mask.iter().map(|&(word, bits)| (usize::from(word), bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(topology: &Topology, slot: u16) -> Vec<(usize, u64)> {
        topology.around(Slot(slot)).collect()
    }

    #[test]
    fn siblings_come_before_those_behind_the_same_cache() {
        let topology = Topology::new(&[0, 1, 2, 3], [&[0, 2][..], &[1, 3]], [&[0, 1, 2, 3][..]]);
        assert_eq!(near(&topology, 0), [(0, 0b0101), (0, 0b1111)]);
        assert_eq!(near(&topology, 3), [(0, 0b1010), (0, 0b1111)]);
    }

    #[test]
    fn slots_count_and_not_the_numbers_of_their_cpus() {
        let cpus: Vec<usize> = (100..230).collect();
        let (first, second): (Vec<usize>, Vec<usize>) = cpus.iter().partition(|&&cpu| cpu < 170);
        let topology = Topology::new(&cpus, [], [&first[..], &second]);
        assert_eq!(near(&topology, 0), [(0, u64::MAX), (1, 0b11_1111)]);
        assert_eq!(near(&topology, 129), [(1, !0b11_1111), (2, 0b11)]);
    }

    #[test]
    fn one_cpu_is_near_itself_and_a_host_that_tells_nothing_has_no_neighbours() {
        assert_eq!(near(&Topology::new(&[5], [&[5][..]], [&[5][..]]), 0), [(0, 1), (0, 1)]);
        assert_eq!(near(&Topology::new(&[0, 1], [], []), 1), []);
        assert_eq!(near(&Topology::default(), 7), []);
    }

    #[test]
    fn lists_that_contradict_each_other_or_name_unknown_cpus_do_no_harm() {
        let topology = Topology::new(&[0, 1], [&[0, 1, 99][..], &[1, 0], &[]], [&[42][..]]);
        assert_eq!(near(&topology, 0), [(0, 0b11)]);
        assert_eq!(near(&topology, 1), [(0, 0b11)]);
    }
}
