//! Threads for vCPUs that another domain still has: started before it gives them up, so that a host without another
//! thread or timer refuses while nothing has changed.
//!
//! All are started before the first is waited for. The host may take long to run a thread for the first time, up to a
//! second where real-time threads have its CPUs, and would take that for each of them.

use super::carrier_thread::STACK_BYTES;
use crate::kick;
use crate::sync::{
    mpsc,
    thread::{self, JoinHandle},
};
use std::io;

/// What a thread does once there is a vCPU for it.
pub(super) type Life = Box<dyn FnOnce(kick::Timer) + Send>;

/// A thread with a timer that waits for a vCPU, and ends if it gets none.
pub struct Berth {
    lives: mpsc::SyncSender<Life>,
    thread: JoinHandle<()>,
}

impl std::fmt::Debug for Berth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Berth")
    }
}

/// A thread that has been started, and may not have its timer yet.
struct Starting {
    berth: Berth,
    answer: mpsc::Receiver<io::Result<()>>,
}

impl Berth {
    /// So many of them.
    pub(super) fn some(count: usize) -> io::Result<Vec<Self>> {
        let starting: Vec<Starting> = (0..count).map(|_| Starting::new()).collect::<io::Result<_>>()?;
        starting.into_iter().map(Starting::berth).collect()
    }

    /// The thread leads this life from now on.
    pub(super) fn lead(self, life: Life) -> JoinHandle<()> {
        // It waits for that.
        let _ = self.lives.send(life);
        self.thread
    }
}

impl Starting {
    fn new() -> io::Result<Self> {
        let (lives, life) = mpsc::sync_channel::<Life>(1);
        let (ready, answer) = mpsc::sync_channel(1);
        let thread = thread::Builder::new().name("vcpu".to_owned()).stack_size(STACK_BYTES).spawn(move || {
            let timer = match kick::Timer::for_this_thread() {
                Ok(timer) => timer,
                Err(error) => return ready.send(Err(error)).unwrap_or(()),
            };
            // The starter waits for this, unless another thread was refused.
            let _ = ready.send(Ok(()));
            if let Ok(life) = life.recv() {
                life(timer);
            }
        })?;
        Ok(Self { berth: Berth { lives, thread }, answer })
    }

    /// The thread once it waits for a vCPU.
    fn berth(self) -> io::Result<Berth> {
        self.answer.recv().unwrap_or_else(|_| Err(io::Error::other("a vCPU's thread ended while it started")))?;
        Ok(self.berth)
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn each_thread_leads_the_life_that_it_is_given_and_ends_if_it_gets_none() {
        let mut berths = Berth::some(5).unwrap();
        let Berth { lives, thread } = berths.pop().unwrap();
        drop(lives);
        thread.join().unwrap();
        let (led, lives) = mpsc::sync_channel(4);
        let lead = |(number, berth): (usize, Berth)| {
            let led = led.clone();
            berth.lead(Box::new(move |_| led.send(number).unwrap()))
        };
        let threads: Vec<_> = berths.into_iter().enumerate().map(lead).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let mut numbers: Vec<usize> = lives.try_iter().collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 1, 2, 3]);
    }
}
