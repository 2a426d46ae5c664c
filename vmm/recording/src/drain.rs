//! Writes events from rings to a file, in the order of time.
//!
//! Several threads write the rings, one at a time, under the domain's lock, with times that only rise. So a reader that
//! has seen an event finds all earlier ones when it reads again. Each turn reads all rings, and writes the events that
//! are not later than the latest event of the turn before. What a ring has lost by then is later than all that was
//! written, so that the [gap](What::Gap) has its place, too.
//!
//! The locks of several shards give no such order: a thread may be stopped between taking an event's time and writing
//! it. Then events are held back for so long ([`SHARDS_APART`]) that only a longer stop can put one in the wrong place.
//! A reader tells of that, as of any event that contradicts those before it.
//!
//! Memory: twice what the rings hold, and what comes in the time for which events are held back.

use std::io::{self, Write};
use std::sync::Arc;
use stile_sched::ledger::{Event, Trace, What};
use stile_sched::{Nanos, Time};

/// For how long events of a domain in shards are held back.
pub(super) const SHARDS_APART: Nanos = Nanos::from_millis(250);

/// The rings of a trace, and how far they were read.
#[derive(Debug)]
pub(super) struct Drain {
    trace: Arc<Trace>,
    /// The number of each ring's next event, and the time of its last one.
    next: Vec<(u64, Time)>,
    pending: Vec<Event>,
    held_back: Nanos,
    /// All events up to this time have been written.
    written: Time,
    pub(super) events: u64,
    pub(super) lost: u64,
}

/// Writes an event.
pub(super) fn put(event: &Event, out: &mut impl Write) -> io::Result<()> {
    event.pack().iter().try_for_each(|word| out.write_all(&word.to_le_bytes()))
}

impl Drain {
    /// From the first event on; each is held back for so long.
    pub(super) fn new(trace: Arc<Trace>, held_back: Nanos) -> Self {
        let next = vec![(0, Time(0)); trace.rings().len()];
        Self { trace, next, pending: Vec::new(), held_back, written: Time(0), events: 0, lost: 0 }
    }

    /// Reads new events, and writes those that have their place.
    pub(super) fn turn(&mut self, out: &mut impl Write) -> io::Result<()> {
        let seen = self.pending.last().map_or(self.written, |event| event.time);
        self.read();
        let latest = self.pending.last().map_or(seen, |event| event.time);
        self.write(seen.min(latest - self.held_back), out)
    }

    /// Writes the remaining events, when no new ones come.
    pub(super) fn finish(&mut self, out: &mut impl Write) -> io::Result<()> {
        self.turn(out)?;
        self.write(Time::NEVER, out)
    }

    fn read(&mut self) {
        for (ring, (next, last)) in self.trace.rings().iter().zip(&mut self.next) {
            let start = self.pending.len();
            let (then, lost) = ring.read(*next, &mut self.pending);
            *next = then;
            if lost > 0 {
                self.lost += lost;
                let time = (*last).max(self.written) + Nanos(1);
                self.pending.push(Event { time, what: What::Gap { lost } });
            }
            *last = self.pending[start..].iter().map(|event| event.time).fold(*last, Time::max);
        }
        self.pending.sort_by_key(|event| (event.time, !matches!(event.what, What::Gap { .. })));
    }

    fn write(&mut self, until: Time, out: &mut impl Write) -> io::Result<()> {
        let count = self.pending.partition_point(|event| event.time <= until);
        for event in self.pending.drain(..count) {
            put(&event, out)?;
            self.written = event.time;
        }
        self.events += count as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stile_sched::attributes::Attributes;
    use stile_sched::ledger::{Ledger, WORDS};
    use stile_sched::policy::{Freelist, Why};
    use stile_sched::{Slot, VcpuId};

    const SLOTS: usize = 3;

    /// A ledger of some slots, each with its vCPU.
    fn ledger(kept: usize) -> Ledger<Freelist> {
        let mut ledger = Ledger::new(Freelist::new(Nanos::from_millis(6), SLOTS), SLOTS, kept);
        for n in 0..SLOTS {
            ledger.add(VcpuId(n as u32), Attributes::default(), Time(1));
            let _ = ledger.wake(VcpuId(n as u32), None, Time(1));
            let _ = ledger.next(Slot(n as u16), Why::Free, Time(1));
        }
        ledger
    }

    fn ask(ledger: &mut Ledger<Freelist>, slot: usize) {
        let _ = ledger.next(Slot(slot as u16), Why::Check, Time(1));
    }

    fn read_back(bytes: &[u8]) -> Vec<Event> {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let events = (0..bytes.len()).step_by(8 * WORDS);
        events.map(|at| Event::unpack([0, 8, 16, 24].map(|word_at| word(at + word_at))).unwrap()).collect()
    }

    #[test]
    fn events_of_all_slots_come_out_once_in_order_of_time() {
        let mut ledger = ledger(64);
        let (mut drain, mut out) = (Drain::new(ledger.trace(), Nanos::ZERO), Vec::new());
        for n in 0..30 {
            ask(&mut ledger, n * n % SLOTS);
            if n % 4 == 0 {
                drain.turn(&mut out).unwrap();
                assert!(out.len() as u64 == 32 * drain.events);
            }
        }
        drain.finish(&mut out).unwrap();
        assert_eq!(read_back(&out), ledger.trace().latest());
        assert_eq!((drain.events, drain.lost), (39, 0));
    }

    #[test]
    fn a_gap_stands_behind_what_was_read_of_its_ring_and_before_all_that_was_lost() {
        let mut ledger = ledger(16);
        let (mut drain, mut out) = (Drain::new(ledger.trace(), Nanos::ZERO), Vec::new());
        drain.turn(&mut out).unwrap();
        (0..40).for_each(|_| ask(&mut ledger, 1));
        ask(&mut ledger, 2);
        drain.finish(&mut out).unwrap();
        let events = read_back(&out);
        let gap = events.iter().position(|event| matches!(event.what, What::Gap { .. })).unwrap();
        assert_eq!(events[gap].what, What::Gap { lost: 24 });
        // Nine events before: each of three vCPUs joined, was woken, and got a slot. The vCPU that lost some was the
        // second.
        assert_eq!((gap, events.len(), drain.lost), (6, 9 + 1 + 16 + 1, 24));
        assert!(events.windows(2).all(|pair| pair[0].time <= pair[1].time));
    }
}
