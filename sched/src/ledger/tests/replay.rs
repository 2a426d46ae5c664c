//! Replays of recordings.

use crate::attributes::Attributes;
use crate::ids::{Slot, VcpuId};
use crate::ledger::Ledger;
use crate::ledger::event::tests::events;
use crate::ledger::event::{Event, WORDS, What};
use crate::ledger::figures::Figures;
use crate::ledger::replay::{Replay, Stop};
use crate::ledger::why::{Scene, Waits};
use crate::policy::rsdl::{RsdlConfig, Variant, YieldRule};
use crate::policy::{Front, Policy, Rsdl, Why};
use crate::shards::ShardPlan;
use crate::time::{Nanos, Time};
use crate::wait::{Wait, Yield};
use proptest::prelude::*;

fn rsdl(yield_rule: YieldRule) -> Box<dyn Policy> {
    Box::new(Rsdl::new(RsdlConfig { yield_rule, ..RsdlConfig::default() }, 1))
}

/// Three vCPUs on one slot, which yield and use their leases up in turn, under the default policy.
fn recorded() -> Vec<Event> {
    let mut ledger = Ledger::new(rsdl(RsdlConfig::default().yield_rule), 1, 256);
    for vcpu in [0, 1, 2].map(VcpuId) {
        ledger.add(vcpu, Attributes::default(), Time(1_000));
        let _ = ledger.wake(vcpu, None, Time(2_000));
    }
    let mut lease = ledger.next(Slot(0), Why::Free, Time(3_000)).run.expect("all of them can run");
    for turn in 0..60 {
        let (why, now) = match turn % 3 {
            0 => (Why::Check, lease.until),
            n => {
                let wait = if n == 1 { Wait::Unknown } else { Wait::Lock(VcpuId(turn % 2)) };
                (Why::Yield(Yield { wait, again: false }), lease.until.min(Time(3_000 + u64::from(turn) * 900_000)))
            }
        };
        lease = ledger.next(Slot(0), why, now).run.expect("all of them can run");
    }
    ledger.trace().latest()
}

fn replay(policy: Box<dyn Policy>, events: &[Event]) -> (u64, Result<(), Stop>) {
    let mut replay = Replay::new(vec![policy], ShardPlan::one(1));
    let done = events.iter().try_for_each(|event| replay.tell(event));
    (replay.compared(), done)
}

#[test]
fn the_same_policy_answers_everything_the_same() {
    assert_eq!(replay(rsdl(RsdlConfig::default().yield_rule), &recorded()), (64, Ok(())));
}

#[test]
fn another_policy_differs_at_the_first_yield_and_is_told_with_what_came_before() {
    let (compared, done) = replay(rsdl(YieldRule::Expire), &recorded());
    let Err(Stop::Differs(difference)) = done else { panic!("{done:?}") };
    assert!(matches!(difference.recorded.what, What::Ask { why: Why::Yield(_), .. }), "{difference:?}");
    assert!(compared > 0 && !difference.before.is_empty());
    let replayed = difference.replayed.expect("every yield has an answer");
    assert_ne!(difference.recorded.to_string(), replayed.to_string());
    assert_eq!(difference.recorded.time, replayed.time);
}

#[test]
fn a_gap_ends_the_replay_and_nonsense_never_reaches_the_policy() {
    let mut events = recorded();
    let last = events.last().unwrap().time;
    events.push(Event { time: last + Nanos(1), what: What::Gap { lost: 5 } });
    assert_eq!(replay(rsdl(RsdlConfig::default().yield_rule), &events).1, Err(Stop::Gap { lost: 5 }));
    let nonsense = Event { time: Time(1), what: What::Remove { vcpu: VcpuId(9) } };
    let done = replay(rsdl(RsdlConfig::default().yield_rule), &[nonsense]);
    assert_eq!(done, (0, Err(Stop::Contradicts(nonsense))));
}

proptest! {
    #[test]
    fn damaged_recordings_are_told_or_read_and_never_panic(
        damages in prop::collection::vec((0..64usize, 0..WORDS, any::<u64>()), 1..4),
    ) {
        let mut words: Vec<_> = recorded().iter().map(Event::pack).collect();
        damages.into_iter().for_each(|(event, word, bits)| words[event][word] ^= bits & bits >> 7 & bits >> 19);
        read(&words.into_iter().filter_map(Event::unpack).collect::<Vec<_>>());
    }

    #[test]
    fn events_that_never_happened_are_told_or_read_and_never_panic(
        made_up in prop::collection::vec((1..64usize, events(4, 1), 0..=63u32), 1..6),
    ) {
        let mut all = recorded();
        for (place, event, later) in made_up {
            let time = all[place - 1].time + Nanos(1 << later);
            all.insert(place, Event { time, ..event });
            // What comes after it is as much later.
            all[place + 1..].iter_mut().for_each(|event| event.time = event.time + Nanos(1 << later));
        }
        read(&all);
    }
}

/// By all who read recordings.
fn read(events: &[Event]) {
    for variant in [Variant::Dithered, Variant::LevelQuota] {
        let _ = replay(Box::new(Rsdl::new(RsdlConfig { variant, ..RsdlConfig::default() }, 1)), events);
    }
    let mut figures = Figures::new(1);
    let _ = events.iter().all(|event| figures.tell(event));
    let _ = figures.vcpus();
    let mut waits = Waits::new(1, |vcpu, _| vcpu == VcpuId(1));
    events.iter().for_each(|event| waits.tell(event));
    if let Some(longest) = waits.finish().longest {
        let mut scene = Scene::new(longest, 1);
        let _ = events.iter().all(|event| scene.tell(event));
        let _ = scene.explain();
    }
}

#[test]
fn a_shard_that_is_told_of_a_stair_far_below_its_own_is_there_at_once() {
    let keeps_up = |stair| {
        let front = Front { stair, quota: Nanos::from_millis(6), contended: true };
        let what = What::KeepUp { slot: Slot(0), front };
        replay(rsdl(RsdlConfig::default().yield_rule), &[Event { time: Time(1), what }]).1
    };
    assert_eq!(keeps_up(1 << 47), Ok(()));
    assert!(matches!(keeps_up(1 << 48), Err(Stop::Contradicts(_))));
}
