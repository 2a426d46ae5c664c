//! The lock under real threads, and under loom.

use super::*;

const STAGES: [LockRules; 4] = [
    LockRules { lateral: false, adaptive: false },
    LockRules { lateral: true, adaptive: false },
    LockRules { lateral: false, adaptive: true },
    LockRules { lateral: true, adaptive: true },
];

#[cfg(not(loom))]
mod threads {
    use super::*;
    use crate::testing::wait_for;

    #[test]
    fn a_held_lock_is_not_to_be_had_and_a_dropped_guard_frees_it() {
        let lock = QueueLock::new(1, LockRules::default());
        let guard = lock.lock();
        std::thread::scope(|s| s.spawn(|| assert!(lock.try_lock().is_none())).join().unwrap());
        drop(guard);
        *lock.try_lock().unwrap() += 1;
        assert_eq!(*lock.lock(), 2);
    }

    #[test]
    fn a_panic_unlocks_and_leaves_no_poison() {
        let lock = QueueLock::new(1, LockRules::default());
        let held = std::panic::AssertUnwindSafe(&lock);
        let panicked = std::panic::catch_unwind(|| {
            let _guard = held.lock();
            panic!("as this test wants");
        });
        assert!(panicked.is_err());
        assert_eq!(*lock.lock(), 1);
    }

    #[test]
    fn of_many_threads_every_visit_counts_under_all_rules() {
        for rules in STAGES {
            let lock = QueueLock::new(0_u64, rules);
            std::thread::scope(|s| {
                for thread in 0..8 {
                    let caller = if thread == 0 { Caller::Rt } else { Caller::Normal };
                    let lock = &lock;
                    s.spawn(move || (0..2000).for_each(|_| *lock.lock_as(caller) += 1));
                }
            });
            assert_eq!(*lock.lock(), 8 * 2000, "{rules:?}");
            assert_eq!(lock.state().first(), None, "{rules:?}");
        }
    }

    #[test]
    fn waiters_that_nobody_can_rob_get_the_lock_in_the_order_they_came() {
        for rules in STAGES {
            let lock = QueueLock::new(Vec::new(), rules);
            std::thread::scope(|s| {
                let mut guard = lock.lock();
                for thread in 0..4 {
                    let lock = &lock;
                    s.spawn(move || lock.lock_as(Caller::Rt).push(thread));
                    wait_for(|| lock.state().waiters() == thread + 1);
                }
                guard.push(9);
            });
            assert_eq!(*lock.lock(), [9, 0, 1, 2, 3], "{rules:?}");
        }
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "a system call under a queue lock")]
    fn a_kick_under_the_lock_is_refused_in_debug_builds() {
        let lock = QueueLock::new((), LockRules::default());
        let _guard = lock.lock();
        crate::kick::send(crate::kick::this_thread());
    }
}

#[cfg(loom)]
mod loom_tests {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    /// loom reports two threads in the cell at once, one that does not see what was there before, and a thread that
    /// sleeps for ever. The first thread comes `visits` times, so that it can pass the others.
    fn model(rules: LockRules, visits: u32, others: &'static [Caller]) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(if others.len() > 1 { 2 } else { 4 });
        builder.check(move || {
            let lock = Arc::new(QueueLock::new(UnsafeCell::new(0), rules));
            let threads: Vec<_> = others
                .iter()
                .map(|&caller| {
                    let lock = Arc::clone(&lock);
                    thread::spawn(move || visit(&lock, caller))
                })
                .collect();
            (0..visits).for_each(|_| visit(&lock, Caller::Normal));
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            let guard = lock.try_lock().expect("free at the end");
            // SAFETY: the lock is held.
            guard.with(|uses| assert_eq!(unsafe { *uses }, visits + others.len() as u32));
            drop(guard);
            assert_eq!(lock.state().first(), None);
        });
    }

    fn visit(lock: &QueueLock<UnsafeCell<u32>>, caller: Caller) {
        // SAFETY: the lock is held.
        lock.lock_as(caller).with_mut(|uses| unsafe { *uses += 1 });
    }

    #[test]
    fn loom_lock_of_two_threads_excludes_and_loses_no_wake_under_all_rules() {
        STAGES.into_iter().for_each(|rules| model(rules, 2, &[Caller::Normal]));
    }

    #[test]
    fn loom_lock_of_three_threads_excludes_and_loses_no_wake_under_all_rules() {
        STAGES.into_iter().for_each(|rules| model(rules, 1, &[Caller::Normal, Caller::Normal]));
    }

    #[test]
    fn loom_lock_with_a_thread_of_class_rt_excludes_and_loses_no_wake() {
        model(LockRules::default(), 2, &[Caller::Rt, Caller::Normal]);
    }
}
