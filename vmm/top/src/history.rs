//! Which vCPU had each pCPU at the last frames, and the letter by which a VM is known there.
//!
//! A VM keeps its letter while it exists, and afterwards until all letters are in use.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use stile_api::{Frame, PcpuView};

/// Frames that are kept: more than a wide screen has columns for.
const FRAMES_MAX: usize = 256;
/// The letter of VMs for which none is left.
const NO_LETTER: char = '?';

/// What the last frames told of the pCPUs.
#[derive(Debug, Default)]
pub(crate) struct History {
    letters: BTreeMap<String, char>,
    pcpus: BTreeMap<u32, VecDeque<Option<char>>>,
}

impl History {
    /// Adds the pCPUs of a frame. Those that it does not name are forgotten.
    pub(crate) fn add(&mut self, frame: &Frame) {
        self.give_letters(frame);
        let named: BTreeSet<u32> = frame.pcpus.iter().map(|pcpu| pcpu.cpu).collect();
        self.pcpus.retain(|cpu, _| named.contains(cpu));
        for pcpu in &frame.pcpus {
            let letter = self.letter_on(pcpu);
            let past = self.pcpus.entry(pcpu.cpu).or_default();
            past.push_back(letter);
            if past.len() > FRAMES_MAX {
                past.pop_front();
            }
        }
    }

    /// The letter of a VM.
    pub(crate) fn letter(&self, vm: &str) -> char {
        self.letters.get(vm).copied().unwrap_or(NO_LETTER)
    }

    /// The letters of the VMs that had a pCPU at the last `most` frames, the newest last. `None`: no vCPU had it.
    pub(crate) fn of(&self, cpu: u32, most: usize) -> impl Iterator<Item = Option<char>> {
        let past = self.pcpus.get(&cpu);
        let skipped = past.map_or(0, |past| past.len().saturating_sub(most));
        past.into_iter().flatten().skip(skipped).copied()
    }

    fn letter_on(&self, pcpu: &PcpuView) -> Option<char> {
        pcpu.vcpu.as_deref().map(|vcpu| self.letter(vm_of(vcpu)))
    }

    fn give_letters(&mut self, frame: &Frame) {
        for vm in frame.vms.iter().map(|vm| &vm.name) {
            if self.letters.contains_key(vm) {
                continue;
            }
            let free = self.free_letter().or_else(|| {
                self.letters.retain(|known, _| frame.vms.iter().any(|vm| vm.name == *known));
                self.free_letter()
            });
            if let Some(letter) = free {
                self.letters.insert(vm.clone(), letter);
            }
        }
    }

    fn free_letter(&self) -> Option<char> {
        let used: BTreeSet<char> = self.letters.values().copied().collect();
        ('A'..='Z').chain('a'..='z').chain('0'..='9').find(|letter| !used.contains(letter))
    }
}

/// The VM of a vCPU such as `web/0`.
fn vm_of(vcpu: &str) -> &str {
    vcpu.rsplit_once('/').map_or(vcpu, |(vm, _)| vm)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stile_api::{DomainFigures, Figures, VmFigures, VmState};

    fn frame(vms: &[String], on: &[(u32, Option<&str>)]) -> Frame {
        let vm = |name: &String| VmFigures {
            name: name.clone(),
            state: VmState::Running,
            nice: 0,
            class: "normal".to_owned(),
            cap: None,
            figures: Figures::default(),
            vcpus: Vec::new(),
        };
        let pcpu = |&(cpu, vcpu): &(u32, Option<&str>)| PcpuView { cpu, vcpu: vcpu.map(str::to_owned) };
        Frame {
            at: 0.0,
            seconds: Some(1.0),
            policy: "rsdl".to_owned(),
            pcpus: on.iter().map(pcpu).collect(),
            domain: DomainFigures::default(),
            vms: vms.iter().map(vm).collect(),
        }
    }

    fn names(of: &str, count: usize) -> Vec<String> {
        (0..count).map(|n| format!("{of}{n}")).collect()
    }

    #[test]
    fn a_pcpu_shows_the_letters_of_those_that_had_it_the_newest_last() {
        let mut history = History::default();
        let vms = ["web", "db"].map(str::to_owned);
        for vcpu in [Some("web/0"), None, Some("db/1"), Some("web/1")] {
            history.add(&frame(&vms, &[(3, vcpu)]));
        }
        assert_eq!(history.of(3, 10).collect::<Vec<_>>(), [Some('A'), None, Some('B'), Some('A')]);
        assert_eq!(history.of(3, 2).collect::<Vec<_>>(), [Some('B'), Some('A')]);
        assert_eq!(history.of(0, 2).count(), 0);
    }

    #[test]
    fn a_pcpu_that_was_taken_away_is_forgotten() {
        let mut history = History::default();
        history.add(&frame(&[], &[(0, None), (1, None)]));
        history.add(&frame(&[], &[(1, None)]));
        assert_eq!([0, 1].map(|cpu| history.of(cpu, 9).count()), [0, 2]);
    }

    #[test]
    fn a_letter_is_reused_only_when_none_is_left() {
        let mut history = History::default();
        history.add(&frame(&names("a", 60), &[]));
        history.add(&frame(&names("b", 2), &[]));
        assert_eq!(["a0", "a59", "b0", "b1"].map(|vm| history.letter(vm)), ['A', '7', '8', '9']);
        history.add(&frame(&names("c", 1), &[]));
        assert_eq!(history.letter("c0"), 'A', "none of the others exists any more");
        history.add(&frame(&names("d", 70), &[]));
        assert_eq!(history.letter("d69"), NO_LETTER);
    }

    #[test]
    fn no_more_frames_are_kept_than_a_screen_is_wide() {
        let mut history = History::default();
        for _ in 0..2 * FRAMES_MAX {
            history.add(&frame(&[], &[(0, None)]));
        }
        assert_eq!(history.of(0, usize::MAX).count(), FRAMES_MAX);
    }
}
