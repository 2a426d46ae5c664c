//! A ring of the latest events of one slot: one writer at a time, readers at any time, no lock.
//!
//! The writer holds the domain's lock anyway. A reader copies what it wants and then looks how far the writer has come
//! meanwhile: what may have been overwritten under its hands it leaves out. (A seqlock per ring instead of per entry;
//! see Boehm, "Can seqlocks get along with programming language memory models?", MSPC 2012, for the fences.)

use super::event::{Event, WORDS};
use std::sync::atomic::{AtomicU64, Ordering, fence};

type Entry = [AtomicU64; WORDS];

/// The latest events of a slot.
#[derive(Debug)]
pub struct Ring {
    entries: Box<[Entry]>,
    /// Events whose writing has begun, and those whose writing has ended.
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Ring {
    /// A ring that keeps this many events, rounded up to a power of two: a place is found without a division.
    pub(super) fn new(capacity: usize) -> Self {
        let capacity = capacity.next_power_of_two();
        let entry = |_| std::array::from_fn(|_| AtomicU64::new(0));
        Self { entries: (0..capacity).map(entry).collect(), begun: AtomicU64::new(0), ended: AtomicU64::new(0) }
    }

    /// Writes an event over the oldest one. One thread at a time.
    pub(super) fn push(&self, event: &Event) {
        let at = self.begun.load(Ordering::Relaxed);
        self.begun.store(at + 1, Ordering::Relaxed);
        // A reader that sees a word of this event sees that its writing has begun.
        fence(Ordering::Release);
        let entry = self.entry(at);
        entry.iter().zip(event.pack()).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        self.ended.store(at + 1, Ordering::Release);
    }

    fn entry(&self, at: u64) -> &Entry {
        &self.entries[at as usize & (self.entries.len() - 1)]
    }

    /// Appends the events from number `from` on that are still there, oldest first; gives the number of the next one,
    /// and how many were lost.
    pub fn read(&self, from: u64, into: &mut Vec<Event>) -> (u64, u64) {
        let ended = self.ended.load(Ordering::Acquire);
        let first = from.max(ended.saturating_sub(self.entries.len() as u64));
        let start = into.len();
        for at in first..ended {
            let entry = self.entry(at);
            let words = std::array::from_fn(|i| entry[i].load(Ordering::Relaxed));
            // Torn ones are dropped below, whatever they unpack to.
            into.push(Event::unpack(words).unwrap_or(TORN));
        }
        fence(Ordering::Acquire);
        let overwritten = self.begun.load(Ordering::Relaxed).saturating_sub(self.entries.len() as u64);
        let lost = overwritten.clamp(first, ended) - first;
        into.drain(start..start + lost as usize);
        (ended, first - from.min(first) + lost)
    }
}

/// Stands for words that were overwritten while they were read.
const TORN: Event =
    Event { time: crate::time::Time(0), what: super::event::What::Remove { vcpu: crate::ids::VcpuId(u32::MAX) } };

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::ids::VcpuId;
    use crate::ledger::event::What;
    use crate::time::Time;

    const CAPACITY: usize = 64;

    fn event(n: u64) -> Event {
        Event { time: Time(n), what: What::Remove { vcpu: VcpuId(n as u32) } }
    }

    #[test]
    fn a_reader_that_comes_back_gets_each_event_once_in_order() {
        let (ring, mut read) = (Ring::new(CAPACITY), Vec::new());
        (0..5).for_each(|n| ring.push(&event(n)));
        assert_eq!(ring.read(0, &mut read), (5, 0));
        (5..8).for_each(|n| ring.push(&event(n)));
        assert_eq!(ring.read(5, &mut read), (8, 0));
        assert_eq!(read, (0..8).map(event).collect::<Vec<_>>());
    }

    #[test]
    fn a_reader_that_comes_late_is_told_how_many_it_missed() {
        let (ring, mut read) = (Ring::new(CAPACITY), Vec::new());
        let all = CAPACITY as u64 + 10;
        (0..all).for_each(|n| ring.push(&event(n)));
        assert_eq!(ring.read(3, &mut read), (all, 7));
        assert_eq!((read.len(), read[0]), (CAPACITY, event(10)));
    }

    #[test]
    fn what_is_overwritten_while_it_is_read_is_left_out() {
        let ring = Ring::new(CAPACITY);
        let last = 200_000;
        std::thread::scope(|scope| {
            scope.spawn(|| (1..=last).for_each(|n| ring.push(&event(n))));
            let (mut next, mut lost, mut read) = (0, 0, Vec::new());
            while next < last {
                let (then, missed) = ring.read(next, &mut read);
                (next, lost) = (then, lost + missed);
            }
            assert!(read.windows(2).all(|pair| pair[0].time < pair[1].time));
            assert!(read.iter().all(|e| e.what == What::Remove { vcpu: VcpuId(e.time.0 as u32) }));
            assert_eq!(read.len() as u64 + lost, last);
        });
    }
}
