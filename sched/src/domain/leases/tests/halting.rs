//! vCPUs that halt inside their run, on domains that are told by departures and on one with a watcher.

use super::*;
use crate::domain::testing::halter::Halter;

/// A vCPU that only computes.
struct Hog {
    ends: Arc<AtomicBool>,
}

impl Vcpu for Hog {
    fn run(&mut self) -> Stop {
        match self.ends.load(SeqCst) {
            true => Stop::Done,
            false if kick::is_pending() => Stop::Kicked,
            false => Stop::Exit,
        }
    }

    fn retired(self: Box<Self>, _: &Account) {}
}

/// As many as the domain has slots.
fn hogs(domain: &dyn Domain) -> Arc<AtomicBool> {
    let ends = Arc::new(AtomicBool::new(false));
    for _ in 0..cpus().len() {
        launch(domain, Box::new(Hog { ends: Arc::clone(&ends) }));
    }
    ends
}

#[test]
fn a_vcpu_that_halts_inside_holds_no_slot_and_others_run() {
    for domain in domains() {
        let halter = Halter::default();
        let id = launch(&*domain, halter.vcpu());
        wait_for(|| halter.dozes() > 0);
        let script = Script::new([YIELD, Stop::Exit, Stop::Done]);
        launch(&*domain, script.vcpu());
        wait_for(|| script.retired());
        let account = domain.account(id).unwrap();
        wait_for(|| domain.account(id).unwrap().idle > account.idle);
        assert_eq!(domain.account(id).unwrap().run, account.run, "it does not run");
        assert_eq!(halter.handled(), 0);
    }
}

#[test]
fn every_event_inside_is_handled_on_a_slot_beside_vcpus_that_compute() {
    for domain in domains() {
        let halter = Halter::default();
        let id = launch(&*domain, halter.vcpu());
        let ends = hogs(&*domain);
        let mut dozes = 0;
        for event in 1..50 {
            wait_for(|| halter.dozes() > dozes);
            dozes = halter.dozes();
            halter.send();
            wait_for(|| halter.handled() == event);
        }
        let account = domain.account(id).unwrap();
        assert!(account.turns >= 2, "it had its slot taken and given back: {account:?}");
        ends.store(true, SeqCst);
    }
}

#[test]
fn a_vcpu_that_dozes_ends_when_it_is_retired_or_its_domain_ends() {
    for domain in domains() {
        let (one, other) = (Halter::default(), Halter::default());
        let id = launch(&*domain, one.vcpu());
        launch(&*domain, other.vcpu());
        wait_for(|| one.dozes() > 0 && other.dozes() > 0);
        domain.retire(id);
        wait_for(|| one.retired());
        drop(domain);
        // The thread of the first, which is on its way out, may be the last to let go of the domain.
        wait_for(|| other.is_gone());
        assert!(!other.retired());
    }
}

#[test]
fn an_event_from_outside_makes_a_vcpu_look_inside_and_go_on_waiting() {
    for domain in domains() {
        let halter = Halter::default();
        let id = launch(&*domain, halter.vcpu());
        for _ in 0..10 {
            let dozes = halter.dozes();
            wait_for(|| halter.dozes() > 0);
            domain.wake(id);
            wait_for(|| halter.dozes() > dozes);
        }
        halter.send();
        wait_for(|| halter.handled() == 1);
    }
}

#[test]
fn no_more_vcpus_that_halt_run_than_there_are_slots_and_no_time_counts_twice() {
    for domain in domains() {
        let begun = monotonic();
        let halters: Vec<_> = (0..5).map(|_| Halter::default()).collect();
        let ids: Vec<_> = halters.iter().map(|halter| launch(&*domain, halter.vcpu())).collect();
        for round in 1..40 {
            halters.iter().for_each(Halter::send);
            wait_for(|| halters.iter().all(|halter| halter.handled() == round));
        }
        for id in ids {
            let account = domain.account(id).unwrap();
            assert!(account.total() <= monotonic().since(begun), "{account:?}");
            assert!(account.idle > Nanos::ZERO);
        }
    }
}
