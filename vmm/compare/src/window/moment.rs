//! The longest wait in a domain's event rings, and the vCPUs that ran meanwhile.
//!
//! Reading it costs the run nothing: the rings are kept anyway, and read after the window. They hold the last part of
//! the window only. So a [`Moment`] also says how long that part is, and how long the longest wait of all was.

use stile_host::CpuList;
use stile_recording::Names;
use stile_results::moment::{Lane, Moment, Turn};
use stile_sched::ledger::{Doing, Event, Span, Spans, Trace};
use stile_sched::{Nanos, Slot, Time};

/// The shortest part of a moment that a page can show.
const RESOLUTION: u64 = 500;

/// The longest wait that is in the rings from beginning to end; `None` if there is none.
pub(crate) fn longest(trace: &Trace, pcpus: &CpuList, names: &Names, longest: Nanos) -> Option<Moment> {
    let events = whole(trace);
    let (begin, end) = (events.first()?.time, events.last()?.time);
    let (mut spans, mut machine) = (Vec::new(), Spans::new(pcpus.len()));
    for event in &events {
        machine.tell(event, &mut spans);
    }
    // A wait that has not ended is not used: its length is not known.
    let waits = spans.iter().filter(|span| matches!(span.doing, Doing::Wait(_)) && span.from > begin);
    let wait = *waits.max_by_key(|span| span.time())?;
    machine.finish(&mut spans);
    let around = Nanos(wait.time().0 / 8);
    let (from, to) = ((wait.from - around).max(begin), (wait.to + around).min(end));
    let lane = |(slot, cpu): (u16, u32)| Lane { cpu, turns: turns(&spans, Slot(slot), (from, to), names) };
    Some(Moment {
        vcpu: names.of(wait.vcpu, wait.from),
        wait: (us(wait.from.since(from)), us(wait.to.since(from))),
        length: us(to.since(from)),
        longest: us(longest.max(wait.time())),
        kept: us(end.since(begin)),
        lanes: (0..).zip(pcpus.iter()).map(lane).collect(),
    })
}

fn us(time: Nanos) -> f64 {
    time.0 as f64 / 1000.0
}

/// The events from the time on when no ring lacks any, in order of time. A full ring has lost its older events.
fn whole(trace: &Trace) -> Vec<Event> {
    let mut begin = Time(0);
    let mut events = Vec::new();
    for ring in trace.rings() {
        let first = events.len();
        let (_, lost) = ring.read(0, &mut events);
        if lost > 0 {
            begin = events.get(first).map_or(begin, |event| begin.max(event.time));
        }
    }
    events.retain(|event| event.time >= begin);
    events.sort_unstable_by_key(|event| event.time);
    events
}

/// The turns on a slot. Turns that are too short to be shown apart become one of several vCPUs.
fn turns(spans: &[Span], slot: Slot, (from, to): (Time, Time), names: &Names) -> Vec<Turn> {
    let overlaps = |span: &&Span| span.doing == Doing::Run(slot) && span.from < to && span.to > from;
    let mut ran: Vec<&Span> = spans.iter().filter(overlaps).collect();
    ran.sort_unstable_by_key(|span| span.from);
    let least = Nanos(to.since(from).0 / RESOLUTION);
    let mut turns: Vec<(Time, Time, Option<&Span>)> = Vec::new();
    for span in ran {
        let (begin, end) = (span.from.max(from), span.to.min(to));
        match turns.last_mut() {
            // A turn of several vCPUs goes on while turns are short and follow each other closely.
            Some((first, last, sole)) if end.since(begin) < least && begin.since(*last) < least => {
                let same = sole.is_some_and(|before| before.vcpu == span.vcpu);
                if !same && last.since(*first) >= least && sole.is_some() {
                    turns.push((begin, end, Some(span)));
                } else {
                    *last = end;
                    *sole = sole.filter(|_| same);
                }
            }
            _ => turns.push((begin, end, Some(span))),
        }
    }
    let turn = |(begin, end, sole): (Time, Time, Option<&Span>)| Turn {
        from: us(begin.since(from)),
        to: us(end.since(from)),
        vcpu: sole.map(|span| names.of(span.vcpu, span.from)),
    };
    turns.into_iter().map(turn).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use stile_sched::VcpuId;
    use stile_sched::attributes::Attributes;
    use stile_sched::ledger::Ledger;
    use stile_sched::policy::{Freelist, Why};

    /// Three vCPUs on one slot in turns of this many microseconds each.
    fn in_turns(turns: &[u64], kept: usize) -> Ledger<Freelist> {
        let mut ledger = Ledger::new(Freelist::new(Nanos::from_micros(1), 1), 1, kept);
        let mut now = Time(1_000_000);
        for id in (0..3).map(VcpuId) {
            ledger.add(id, Attributes::default(), now);
            let _ = ledger.wake(id, None, now);
        }
        let _ = ledger.next(Slot(0), Why::Free, now);
        for turn in turns {
            now = now + Nanos::from_micros(*turn);
            let _ = ledger.next(Slot(0), Why::Check, now);
        }
        ledger
    }

    fn of(ledger: &Ledger<Freelist>) -> Moment {
        let cpus = "7".parse().unwrap();
        longest(&ledger.trace(), &cpus, &Names::default(), Nanos::from_millis(90)).unwrap()
    }

    #[test]
    fn the_longest_wait_is_found_with_the_vcpus_that_ran_meanwhile() {
        let moment = of(&in_turns(&[100, 100, 100, 5000, 3000, 100, 100, 100], 1024));
        assert!((8000.0..8001.0).contains(&moment.waited()), "{moment:?}");
        assert_eq!(moment.longest, 90_000.0);
        let [Lane { cpu: 7, turns }] = &moment.lanes[..] else { panic!("{moment:?}") };
        let long: Vec<_> = turns.iter().filter(|turn| turn.to - turn.from > 2000.0).collect();
        assert_eq!(long.len(), 2);
        assert!(long.iter().all(|turn| turn.vcpu.as_ref().is_some_and(|vcpu| *vcpu != moment.vcpu)));
    }

    #[test]
    fn a_moment_is_bounded_and_its_turns_do_not_overlap_whatever_happened() {
        let mut turns = vec![1; 5000];
        turns.extend([50_000, 50_000]);
        turns.extend(vec![1; 5000]);
        for kept in [512, 1 << 14] {
            let moment = of(&in_turns(&turns, kept));
            let lane = &moment.lanes[0].turns;
            assert!(lane.len() as u64 <= 3 * RESOLUTION, "{}", lane.len());
            assert!(lane.windows(2).all(|pair| pair[0].to <= pair[1].from), "{lane:?}");
            assert!(lane.iter().all(|turn| turn.from >= 0.0 && turn.to <= moment.length));
        }
    }

    #[test]
    fn without_a_whole_wait_there_is_no_moment() {
        let mut ledger = Ledger::new(Freelist::new(Nanos::from_micros(1), 1), 1, 64);
        ledger.add(VcpuId(0), Attributes::default(), Time(1));
        // By the rings it waits without end.
        let _ = ledger.wake(VcpuId(0), None, Time(2));
        assert_eq!(longest(&ledger.trace(), &"0".parse().unwrap(), &Names::default(), Nanos::ZERO), None);
    }
}
