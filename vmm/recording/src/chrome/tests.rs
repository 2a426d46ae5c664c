//! The trace, checked against the rules of the format and against how viewers read it.

use super::write;
use crate::testing::{Tape, us};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use stile_sched::ledger::{Event, What};
use stile_sched::policy::Why;
use stile_sched::{Nanos, Wait};

/// Two slots; locks, naps, a preemption, an id that is used again, and a gap.
fn tape() -> Tape {
    let mut tape = Tape::new("freelist", 2);
    let [a, b, c] = [0, 1, 2].map(|id| tape.add(id, "locks", id, us(1)));
    [a, b].into_iter().zip([0, 1]).for_each(|(vcpu, slot)| {
        tape.wake(vcpu, us(2));
        tape.ask(slot, Why::Free, us(3));
    });
    tape.wake(c, us(10));
    tape.yields(0, Wait::Lock(b), us(20));
    tape.yields(1, Wait::Message(a), us(30));
    tape.ask(0, Why::Block, us(50));
    tape.ledger.idled_since(c, us(45));
    tape.wake(c, us(60));
    tape.ask(1, Why::Check, us(6_040));
    tape.ask(0, Why::Retire, us(6_050));
    tape.add(b.0, "other", 0, us(6_060));
    tape.wake(b, us(6_070));
    tape
}

/// The events of a tape's trace.
fn trace(tape: &Tape, more: &[Event]) -> Vec<Value> {
    let (_file, recording) = tape.save(more);
    let mut out = Vec::new();
    write(&recording, &mut out).unwrap();
    let document: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(document["displayTimeUnit"], "ns");
    document["traceEvents"].as_array().unwrap().clone()
}

type Place = (u64, u64);

fn place(event: &Value) -> Place {
    (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap())
}

/// A time in nanoseconds; it is written in microseconds.
fn ns(event: &Value, field: &str) -> u64 {
    let time = event[field].as_f64().unwrap() * 1e3;
    assert!(time >= 0.0 && (time - time.round()).abs() < 1e-3, "{event}");
    time.round() as u64
}

fn of_phase<'a>(events: &'a [Value], phase: &'a str) -> impl Iterator<Item = &'a Value> {
    events.iter().filter(move |event| event["ph"] == phase)
}

/// The slices of each track, in order.
fn slices(events: &[Value]) -> BTreeMap<Place, Vec<(u64, u64, &str)>> {
    let mut tracks: BTreeMap<Place, Vec<(u64, u64, &str)>> = BTreeMap::new();
    for event in of_phase(events, "X") {
        let (from, length) = (ns(event, "ts"), ns(event, "dur"));
        tracks.entry(place(event)).or_default().push((from, from + length, event["name"].as_str().unwrap()));
    }
    tracks.values_mut().for_each(|slices| slices.sort_unstable());
    tracks
}

#[test]
fn every_event_has_what_its_phase_asks_for_and_every_track_a_name() {
    let events = trace(&tape(), &[]);
    let mut names: BTreeMap<&str, BTreeSet<Place>> = BTreeMap::new();
    for event in &events {
        let phase = event["ph"].as_str().unwrap();
        assert!(["M", "X", "i", "s", "f"].contains(&phase), "{event}");
        assert!(event["name"].is_string() && event["cat"].is_string(), "{event}");
        let (pid, tid) = place(event);
        ns(event, "ts");
        match phase {
            "X" => assert!(ns(event, "dur") > 0, "{event}"),
            "i" => assert_eq!(event["s"], "t"),
            "M" => {
                assert!(event["args"]["name"].is_string(), "{event}");
                let what = event["name"].as_str().unwrap();
                let tid = if what == "process_name" { 0 } else { tid };
                assert!(names.entry(what).or_default().insert((pid, tid)), "named twice: {event}");
            }
            _ => {}
        }
        if phase != "M" {
            assert!(names["process_name"].contains(&(pid, 0)) && names["thread_name"].contains(&(pid, tid)), "{event}");
        }
    }
    let of_vms = of_phase(&events, "M").filter(|event| event["name"] == "process_name");
    let of_vms: Vec<_> = of_vms.map(|event| event["args"]["name"].as_str().unwrap()).collect();
    assert_eq!(of_vms, ["pCPUs", "locks", "other"]);
}

#[test]
fn slices_of_a_track_do_not_overlap_and_vcpus_ran_when_pcpus_ran_them() {
    let events = trace(&tape(), &[]);
    let tracks = slices(&events);
    for (track, slices) in &tracks {
        assert!(slices.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{track:?}: {slices:?}");
    }
    let total = |of: fn(&(u64, u64, &str), u64) -> bool| -> u64 {
        let all = tracks.iter().flat_map(|(track, slices)| slices.iter().map(move |slice| (slice, track.0)));
        all.filter(|(slice, pid)| of(slice, *pid)).map(|(slice, _)| slice.1 - slice.0).sum()
    };
    let on_pcpus = total(|_, pid| pid == 1);
    assert_eq!(on_pcpus, total(|slice, _| slice.2.starts_with("run on")));
    assert!(on_pcpus > 0);
    // c was put on p0 at 20 us and napped from 45 us on.
    assert!(tracks[&(1, 1)].contains(&(20_000, 45_000, "locks/2")), "{:?}", tracks[&(1, 1)]);
}

#[test]
fn arrows_are_paired_and_both_ends_lie_on_slices() {
    let events = trace(&tape(), &[]);
    let tracks = slices(&events);
    let ends = |phase| -> BTreeMap<u64, &Value> {
        let ends = of_phase(&events, phase).map(|event| (event["id"].as_u64().unwrap(), event));
        let ends: Vec<_> = ends.collect();
        let unique: BTreeMap<_, _> = ends.iter().copied().collect();
        assert_eq!(unique.len(), ends.len(), "an id is used twice");
        unique
    };
    let (begins, ends) = (ends("s"), ends("f"));
    assert!(begins.keys().eq(ends.keys()) && begins.len() >= 4, "{begins:?}");
    for (begin, end) in begins.values().zip(ends.values()) {
        assert!(ns(begin, "ts") <= ns(end, "ts"));
        assert_eq!((&begin["name"], &begin["cat"], &end["bp"]), (&end["name"], &end["cat"], &Value::from("e")));
        for event in [begin, end] {
            let at = ns(event, "ts");
            assert!(tracks[&place(event)].iter().any(|slice| slice.0 <= at && at < slice.1), "{event}");
        }
    }
}

#[test]
fn yields_are_instants_with_their_target_and_outcome() {
    let events = trace(&tape(), &[]);
    let lock = of_phase(&events, "i").find(|event| event["name"] == "yield for a lock").unwrap();
    assert_eq!((&lock["args"]["target"], &lock["args"]["outcome"]), (&"locks/1".into(), &"switched".into()));
    assert_eq!(ns(lock, "ts"), 20_000);
    assert!(of_phase(&events, "i").any(|event| event["name"] == "yield for a message"));
    assert_eq!(of_phase(&events, "i").filter(|event| event["name"] == "wake").count(), 5);
}

#[test]
fn a_gap_is_shown_and_ends_what_was_under_way() {
    let tape = tape();
    let gap = Event { time: us(7_000), what: What::Gap { lost: 7 } };
    let late = Event { time: gap.time + Nanos(5), what: What::Remove { vcpu: stile_sched::VcpuId(0) } };
    let events = trace(&tape, &[gap, late]);
    let shown = events.iter().find(|event| event["name"] == "events lost").unwrap();
    assert_eq!((ns(shown, "ts"), &shown["args"]["events"]), (7_000_000, &7.into()));
    assert!(slices(&events).values().flatten().all(|slice| slice.1 <= 7_000_000));
}
