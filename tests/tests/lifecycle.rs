//! Starts, stops, waits and events in every order that a caller may choose, and from many threads at once.

use kvm_ioctls::Kvm;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::thread;
use stile_machine::vm::Outcome;
use stile_sched::Domain;
use stile_tests::{Carrier, Guest, Recipe, program, require_kvm, wait_for};

const THREADS: u32 = 4;

/// More hogs than pCPUs, so that some always wait for their turn.
fn hogs() -> Recipe {
    Recipe::builtin("hog").vcpus(4)
}

/// Makes a step at its start and one at each event.
fn idler() -> Recipe {
    Recipe::program(&program::steps_at_events())
}

/// Does the same from several threads at once.
fn at_once(what: impl Fn(u32) + Sync) {
    let begin = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (begin, what) = (&begin, &what);
            scope.spawn(move || {
                begin.wait();
                what(number);
            });
        }
    });
}

/// Runs a test under each mechanism, and checks that all vCPUs have left the domain.
fn under_each(test: impl Fn(&Kvm, &Arc<dyn Domain>)) {
    let kvm = require_kvm!();
    for carrier in Carrier::mechanisms() {
        eprintln!("{carrier}");
        let domain = carrier.domain();
        test(&kvm, &domain);
        assert_eq!(Arc::strong_count(&domain), 1, "{carrier}: something still holds the domain");
    }
}

#[test]
fn a_vm_stopped_while_it_runs_ends_as_stopped_and_says_so_each_time() {
    under_each(|kvm, domain| {
        let guest = hogs().start(kvm, domain);
        guest.all_progress(1);
        guest.stop();
        for _ in 0..3 {
            assert_eq!(guest.wait(), Outcome::Stopped);
        }
    });
}

#[test]
fn a_vm_stopped_before_its_start_never_runs() {
    under_each(|kvm, domain| {
        let guest = hogs().create(kvm, domain);
        guest.stop();
        guest.start();
        assert_eq!(guest.wait(), Outcome::Stopped);
        assert_eq!(guest.state().started(), None);
        assert_eq!(guest.ops(0), 0);
    });
}

#[test]
fn a_vm_does_not_run_before_its_start() {
    under_each(|kvm, domain| {
        let waits = Recipe::builtin("hello").vcpus(3).create(kvm, domain);
        let other = Recipe::builtin("hello").vcpus(3).start(kvm, domain);
        other.ends();
        assert_eq!(waits.state().started(), None);
        waits.start();
        assert_eq!(waits.ends(), Outcome::Exit(0));
    });
}

#[test]
fn a_vm_dropped_in_any_state_takes_its_vcpus_with_it() {
    under_each(|kvm, domain| {
        let dropped = |guest: Guest| {
            let state = Arc::downgrade(guest.state());
            drop(guest);
            assert_eq!(state.strong_count(), 0, "a vCPU still holds its VM");
        };
        dropped(hogs().create(kvm, domain));
        dropped(hogs().start(kvm, domain));
        let running = hogs().start(kvm, domain);
        running.all_progress(1);
        dropped(running);
        let idle = idler().start(kvm, domain);
        wait_for("it idles", || idle.ops(0) == 1);
        dropped(idle);
        let ended = Recipe::builtin("hello").start(kvm, domain);
        wait_for("it ends", || ended.state().has_ended());
        dropped(ended);
    });
}

#[test]
fn a_vm_may_be_the_last_to_hold_its_domain() {
    let kvm = require_kvm!();
    for carrier in Carrier::mechanisms() {
        let domain = carrier.domain();
        let guest = hogs().start(&kvm, &domain);
        drop(domain);
        guest.all_progress(1);
    }
}

#[test]
fn stops_and_waits_from_many_threads_agree_on_the_outcome() {
    under_each(|kvm, domain| {
        let guest = hogs().start(kvm, domain);
        guest.all_progress(1);
        at_once(|_| {
            guest.stop();
            assert_eq!(guest.wait(), Outcome::Stopped);
        });
    });
}

#[test]
fn a_stop_that_races_with_the_guests_own_end_leaves_one_outcome() {
    under_each(|kvm, domain| {
        for _ in 0..50 {
            let guest = Recipe::builtin("hello").vcpus(2).start(kvm, domain);
            at_once(|_| guest.stop());
            let outcome = guest.wait();
            assert!([Outcome::Stopped, Outcome::Exit(0)].contains(&outcome), "{outcome}");
            assert_eq!(guest.state().outcome(), Some(&outcome));
        }
    });
}

#[test]
fn a_storm_of_stops_spares_the_vms_it_is_not_for() {
    under_each(|kvm, domain| {
        let survivors = [hogs(), Recipe::builtin("pingpong").vcpus(2)].map(|recipe| recipe.start(kvm, domain));
        let recipes = [hogs(), idler(), Recipe::builtin("ticket").vcpus(3), Recipe::builtin("probe").vcpus(2)];
        let doomed: Vec<Guest> = (0..6).flat_map(|_| recipes.each_ref().map(|r| r.start(kvm, domain))).collect();
        // Every thread stops every VM, each in another order.
        at_once(|number| {
            let from = doomed.len() * number as usize / THREADS as usize;
            doomed[from..].iter().chain(&doomed[..from]).for_each(|guest| guest.stop());
        });
        for guest in &doomed {
            assert_eq!(guest.wait(), Outcome::Stopped);
        }
        survivors.iter().for_each(|guest| guest.all_progress(10));
    });
}

#[test]
fn vms_that_come_and_go_from_many_threads_do_not_touch_each_other() {
    under_each(|kvm, domain| {
        at_once(|_| {
            for _ in 0..50 {
                let guest = Recipe::builtin("hello").vcpus(4).start(kvm, domain);
                assert_eq!(guest.ends(), Outcome::Exit(0));
            }
        });
    });
}

#[test]
fn each_event_for_an_idle_vcpu_is_one_step() {
    under_each(|kvm, domain| {
        let guest = idler().start(kvm, domain);
        wait_for("it idles", || guest.ops(0) == 1);
        for step in 2..500 {
            guest.state().wake(0);
            wait_for("the step after an event", || guest.ops(0) >= step);
            assert_eq!(guest.ops(0), step, "a step without an event");
        }
    });
}

#[test]
fn the_last_event_of_a_storm_is_not_lost() {
    under_each(|kvm, domain| {
        let guest = idler().start(kvm, domain);
        let mut most = 1;
        for _ in 0..50 {
            at_once(|_| (0..100).for_each(|_| guest.state().wake(0)));
            most += u64::from(THREADS) * 100;
            // Several events for a vCPU that has not idled yet count as one, so the number of steps is not known. But a
            // step follows every event.
            let before = guest.ops(0);
            guest.state().wake(0);
            most += 1;
            wait_for("the step after the last event", || guest.ops(0) > before);
            assert!(guest.ops(0) <= most, "more steps than events");
        }
    });
}

#[test]
fn events_from_many_threads_reach_idlers_among_hogs() {
    under_each(|kvm, domain| {
        let hogs = hogs().start(kvm, domain);
        let idlers: Vec<Guest> = (0..THREADS).map(|_| idler().start(kvm, domain)).collect();
        at_once(|number| {
            let guest = &idlers[number as usize];
            wait_for("it idles", || guest.ops(0) >= 1);
            for step in 2..50 {
                guest.state().wake(0);
                wait_for("the step after an event", || guest.ops(0) >= step);
            }
        });
        hogs.all_progress(1);
    });
}

#[test]
fn events_that_cross_the_end_of_a_vm_are_ignored() {
    under_each(|kvm, domain| {
        for _ in 0..20 {
            let guest = idler().start(kvm, domain);
            let (state, over) = (Arc::clone(guest.state()), AtomicBool::new(false));
            thread::scope(|scope| {
                scope.spawn(|| {
                    while !over.load(Relaxed) {
                        state.wake(0);
                    }
                });
                guest.all_progress(5);
                guest.stop();
                assert_eq!(guest.wait(), Outcome::Stopped);
                over.store(true, Relaxed);
            });
            drop(guest);
            state.wake(0);
        }
    });
}
