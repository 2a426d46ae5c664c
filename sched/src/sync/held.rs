//! Whether the calling thread holds a queue lock, so that debug builds find a thread that enters the kernel with it.
//!
//! Release builds keep no mark and check nothing.

#[cfg(all(debug_assertions, not(all(test, loom))))]
mod mark {
    #[cfg(all(test, shuttle))]
    use shuttle::thread_local;
    use std::cell::Cell;

    thread_local! {
        static HELD: Cell<bool> = const { Cell::new(false) };
    }

    pub(crate) fn set(held: bool) {
        HELD.with(|mark| mark.set(held));
    }

    pub(crate) fn assert_not_held() {
        // The locks that a thread holds when it unwinds are dropped on the way.
        HELD.with(|mark| assert!(!mark.get() || std::thread::panicking(), "a system call under a queue lock"));
    }
}

#[cfg(not(all(debug_assertions, not(all(test, loom)))))]
mod mark {
    pub(crate) fn set(_held: bool) {}

    pub(crate) fn assert_not_held() {}
}

pub(crate) use mark::{assert_not_held, set};
