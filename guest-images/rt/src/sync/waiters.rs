//! The set of vCPUs that wait for something. The holder of the lock around the set may change it.

/// Most vCPUs of a VM; KVM allows no more.
const SEATS: usize = 1024;
const WORDS: usize = SEATS / 64;

/// A set of vCPUs. The vCPU that it gives up first changes in turn, so that none is always last.
#[derive(Debug)]
pub(super) struct Waiters {
    words: [u64; WORDS],
    count: u32,
    /// Where the search for the next one begins.
    from: u32,
}

impl Waiters {
    pub(super) const fn new() -> Self {
        Self { words: [0; WORDS], count: 0, from: 0 }
    }

    /// Puts a vCPU in, which may be there already.
    pub(super) fn insert(&mut self, vcpu: u32) {
        let (word, bit) = place(vcpu);
        self.count += u32::from(self.words[word] & bit == 0);
        self.words[word] |= bit;
    }

    /// Takes a vCPU out, which may be gone already.
    pub(super) fn remove(&mut self, vcpu: u32) {
        let (word, bit) = place(vcpu);
        self.count -= u32::from(self.words[word] & bit != 0);
        self.words[word] &= !bit;
    }

    /// Takes one out.
    pub(super) fn take(&mut self) -> Option<u32> {
        if self.count == 0 {
            return None;
        }
        let (word, bit) = place(self.from);
        let at_or_after = self.words[word] & !(bit - 1);
        let first = (at_or_after != 0).then_some((word, at_or_after));
        let found = first.or_else(|| {
            (1..=WORDS).map(|n| (word + n) % WORDS).map(|w| (w, self.words[w])).find(|(_, bits)| *bits != 0)
        });
        let (word, bits) = found?;
        let vcpu = word as u32 * 64 + bits.trailing_zeros();
        self.remove(vcpu);
        self.from = (vcpu + 1) % SEATS as u32;
        Some(vcpu)
    }
}

fn place(vcpu: u32) -> (usize, u64) {
    (vcpu as usize / 64 % WORDS, 1 << (vcpu % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_is_taken_once_and_in_turn() {
        let mut waiters = Waiters::new();
        [70, 3, 1023, 64, 3].into_iter().for_each(|vcpu| waiters.insert(vcpu));
        assert_eq!([(); 5].map(|()| waiters.take()), [Some(3), Some(64), Some(70), Some(1023), None]);
        [5, 2].into_iter().for_each(|vcpu| waiters.insert(vcpu));
        assert_eq!(waiters.take(), Some(2), "after the last one it begins anew");
        waiters.insert(2);
        assert_eq!([(); 2].map(|()| waiters.take()), [Some(5), Some(2)], "who was just taken comes last");
    }

    #[test]
    fn who_went_by_itself_is_not_taken() {
        let mut waiters = Waiters::new();
        [1, 2].into_iter().for_each(|vcpu| waiters.insert(vcpu));
        [1, 1, 9].into_iter().for_each(|vcpu| waiters.remove(vcpu));
        assert_eq!([(); 2].map(|()| waiters.take()), [Some(2), None]);
    }

    #[test]
    fn one_below_the_starting_point_in_its_word_is_found_at_last() {
        let mut waiters = Waiters::new();
        waiters.insert(40);
        assert_eq!(waiters.take(), Some(40));
        waiters.insert(10);
        assert_eq!(waiters.take(), Some(10));
    }
}
