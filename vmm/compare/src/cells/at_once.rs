//! Calls that are made at the same moment, by a thread for each.

use std::sync::Barrier;
use std::thread::ScopedJoinHandle;

/// Calls `ask` this many times at once, each time with a number from 0 up. Returns the results in that order, or the
/// first error. All threads have ended then, also after an error.
pub(crate) fn at_once<T: Send, E: Send>(size: usize, ask: impl Fn(usize) -> Result<T, E> + Sync) -> Result<Vec<T>, E> {
    let (all_there, ask) = (&Barrier::new(size), &ask);
    std::thread::scope(|scope| {
        let ask = move |n| {
            all_there.wait();
            ask(n)
        };
        let askers: Vec<_> = (0..size).map(|n| scope.spawn(move || ask(n))).collect();
        let join =
            |asker: ScopedJoinHandle<'_, _>| asker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        askers.into_iter().map(join).collect::<Vec<_>>().into_iter().collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    #[test]
    fn answers_come_in_order_and_an_error_leaves_nobody_unasked() {
        let asked = AtomicUsize::new(0);
        let ask = |n: usize| {
            asked.fetch_add(1, SeqCst);
            if n == 1 { Err(n) } else { Ok(n) }
        };
        assert_eq!((at_once(4, ask), asked.load(SeqCst)), (Err(1), 4));
        assert_eq!(at_once(3, Ok::<_, ()>), Ok(vec![0, 1, 2]));
    }
}
