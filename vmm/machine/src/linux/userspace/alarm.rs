//! Makes the calling thread leave a guest when the guest's timer fires.
//!
//! Each thread that carries vCPUs has one timer for all of them, which kicks the thread. A setting that comes too early
//! for the vCPU that runs costs an exit and no more, so it is left rather than set anew.

use std::cell::RefCell;
use std::io;
use stile_sched::{Time, kick};

/// A thread's timer, and what it is set to. A time that has passed means that it is not set.
struct Alarm {
    timer: kick::Timer,
    set: Time,
}

thread_local! {
    static ALARM: RefCell<Option<Alarm>> = const { RefCell::new(None) };
}

/// Sees to it that the calling thread is kicked at `at`. It may be kicked earlier as well.
pub(super) fn set(at: Time, now: Time) -> io::Result<()> {
    if at == Time::NEVER {
        return Ok(());
    }
    ALARM.with_borrow_mut(|alarm| {
        let alarm = match alarm {
            Some(alarm) => alarm,
            None => alarm.insert(Alarm { timer: kick::Timer::for_this_thread()?, set: Time::NEVER }),
        };
        let is_set = alarm.set > now && alarm.set != Time::NEVER;
        if !is_set || at < alarm.set {
            alarm.timer.set(at);
            alarm.set = at;
        }
        Ok(())
    })
}
