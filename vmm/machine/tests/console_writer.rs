//! The thread that writes consoles. It is one for a process, so this is the only test of its binary.

use std::time::{Duration, Instant};
use stile_machine::vm::console::Outlet;

/// Names of this process's threads.
fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("this is Linux").flatten();
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).ok();
    tasks.filter_map(name).map(|name| name.trim_end().to_owned()).collect()
}

#[test]
fn the_writer_is_there_before_the_first_text_which_a_thread_may_bring_that_starts_no_others() {
    assert!(!threads().contains(&"consoles".to_owned()));
    let _outlet = Outlet::new("nowhere", Box::new(|_| Ok(())));
    // A thread has its name a moment after its start.
    let until = Instant::now() + Duration::from_secs(60);
    while !threads().contains(&"consoles".to_owned()) {
        assert!(Instant::now() < until, "{:?}", threads());
        std::thread::yield_now();
    }
}
