//! A bounded queue of messages whose readers and writers block.
//!
//! # No wake-up is lost
//! A vCPU that has to wait enters itself into the set of waiters *under the lock under which it has looked*, releases
//! the lock and idles. After that it takes the lock, leaves the set and looks again. A vCPU that changes what others
//! wait for takes them out of the set under the lock, and then kicks them. So for each waiter there are two cases.
//! Either it looked after the change and saw it. Or it looked before the change: then it was in the set when the change
//! was made, and the kick was sent after its look. Between that look and its idling it idles nowhere else, so the event
//! is still there, and idling returns at once if an event came since the last time. An event for something long past
//! only makes a vCPU look once more than needed.
//!
//! A reader is taken out for each message written. So a message is never left behind with all readers asleep: the
//! reader that was taken out looks after the message was put there, and if another reader came first, that one has read
//! it. Writers wait while the pipe is full. All of them are woken when a reader has brought it down to half, because
//! waking them for each message read would cost a switch a message. Readers wait for nothing but an empty pipe, so the
//! pipe does come down, and every fall from full passes half once.

use super::waiters::Waiters;
use super::{Park, Patience, YieldingGuard, YieldingLock};
use core::fmt;

/// Whether the vCPUs to be woken are kicked while the lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notifies {
    /// As Java's monitors are used: a thread has to own the monitor to notify. A vCPU that is woken finds the lock
    /// taken if it comes quickly.
    Inside,
    /// As kernels' pipes do: the lock is free by the time of the kick.
    Outside,
}

/// A queue of up to `ROOM` messages of `MESSAGE` bytes, for any number of readers and writers of one VM.
pub struct Pipe<const MESSAGE: usize, const ROOM: usize> {
    queue: YieldingLock<Queue<MESSAGE, ROOM>>,
    notifies: Notifies,
}

struct Queue<const MESSAGE: usize, const ROOM: usize> {
    ring: [[u8; MESSAGE]; ROOM],
    first: usize,
    used: usize,
    readers: Waiters,
    writers: Waiters,
}

impl<const MESSAGE: usize, const ROOM: usize> Pipe<MESSAGE, ROOM> {
    /// An empty pipe.
    pub const fn new(notifies: Notifies) -> Self {
        const { assert!(ROOM > 0) };
        let (readers, writers) = (Waiters::new(), Waiters::new());
        Self {
            queue: YieldingLock::new(Queue { ring: [[0; MESSAGE]; ROOM], first: 0, used: 0, readers, writers }),
            notifies,
        }
    }

    /// Puts a copy of a message behind the others; waits while the pipe is full.
    pub fn write(&self, who: &impl Park, patience: Patience, message: &[u8; MESSAGE]) {
        loop {
            let mut queue = self.queue.lock(who, patience);
            queue.writers.remove(who.index());
            if queue.used == ROOM {
                queue.writers.insert(who.index());
                drop(queue);
                who.idle();
                continue;
            }
            queue.push(message);
            let woken = queue.readers.take();
            return self.release(queue, || woken.into_iter().for_each(|reader| who.kick(reader)));
        }
    }

    /// Takes the message that has been there for longest; waits while there is none.
    pub fn read(&self, who: &impl Park, patience: Patience, message: &mut [u8; MESSAGE]) {
        loop {
            let mut queue = self.queue.lock(who, patience);
            queue.readers.remove(who.index());
            if queue.used == 0 {
                queue.readers.insert(who.index());
                drop(queue);
                who.idle();
                continue;
            }
            queue.pop(message);
            if queue.used != ROOM / 2 {
                return;
            }
            let mut woken = core::mem::replace(&mut queue.writers, Waiters::new());
            return self.release(queue, || core::iter::from_fn(|| woken.take()).for_each(|writer| who.kick(writer)));
        }
    }

    /// Releases the lock, and wakes the vCPUs that are to be woken, before or after that.
    fn release(&self, queue: YieldingGuard<'_, Queue<MESSAGE, ROOM>>, wake: impl FnOnce()) {
        match self.notifies {
            Notifies::Inside => {
                wake();
                drop(queue);
            }
            Notifies::Outside => {
                drop(queue);
                wake();
            }
        }
    }
}

impl<const MESSAGE: usize, const ROOM: usize> Queue<MESSAGE, ROOM> {
    fn push(&mut self, message: &[u8; MESSAGE]) {
        self.ring[(self.first + self.used) % ROOM] = *message;
        self.used += 1;
    }

    fn pop(&mut self, message: &mut [u8; MESSAGE]) {
        *message = self.ring[self.first];
        self.first = (self.first + 1) % ROOM;
        self.used -= 1;
    }
}

impl<const MESSAGE: usize, const ROOM: usize> fmt::Debug for Pipe<MESSAGE, ROOM> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipe").field("notifies", &self.notifies).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{EAGER, ThreadVcpu, Threads};
    use super::*;
    use std::sync::Mutex;

    const MESSAGE: usize = 8;
    /// Messages that each writer sends.
    const EACH: u32 = 2_000;

    fn message(writer: u32, n: u32) -> [u8; MESSAGE] {
        (u64::from(writer) << 32 | u64::from(n)).to_le_bytes()
    }

    fn read<const ROOM: usize>(pipe: &Pipe<MESSAGE, ROOM>, vcpu: &ThreadVcpu<'_>) -> (u32, u32) {
        let mut message = [0; MESSAGE];
        pipe.read(vcpu, EAGER, &mut message);
        let word = u64::from_le_bytes(message);
        ((word >> 32) as u32, word as u32)
    }

    /// So many writers and readers exchange messages. Every message must come, and those of a writer to one reader in
    /// order. A wake-up that is lost leaves a thread waiting, which its [`Threads`] end with a panic.
    fn exchange<const ROOM: usize>(writers: u32, readers: u32, notifies: Notifies) {
        let (threads, pipe) = (Threads::new(writers + readers), Pipe::<MESSAGE, ROOM>::new(notifies));
        let seen = Mutex::new(Vec::new());
        threads.run(|vcpu| {
            if vcpu.index() < writers {
                (0..EACH).for_each(|n| pipe.write(&vcpu, EAGER, &message(vcpu.index(), n)));
                return;
            }
            let mine: Vec<_> = (0..writers * EACH / readers).map(|_| read(&pipe, &vcpu)).collect();
            for writer in 0..writers {
                assert!(mine.iter().filter(|(from, _)| *from == writer).is_sorted(), "out of order");
            }
            seen.lock().unwrap().extend(mine);
        });
        let mut seen = seen.into_inner().unwrap();
        seen.sort_unstable();
        let sent = (0..writers).flat_map(|writer| (0..EACH).map(move |n| (writer, n)));
        assert!(seen.into_iter().eq(sent), "lost or doubled");
    }

    #[test]
    fn every_message_comes_once_whoever_reads_and_however_small_the_pipe() {
        for notifies in [Notifies::Inside, Notifies::Outside] {
            exchange::<1>(1, 1, notifies);
            exchange::<1>(4, 4, notifies);
            exchange::<2>(5, 1, notifies);
            exchange::<16>(1, 4, notifies);
            exchange::<16>(4, 2, notifies);
        }
    }

    #[test]
    fn a_writer_that_waits_is_woken_when_the_pipe_is_half_empty() {
        let (threads, pipe) = (Threads::new(2), Pipe::<MESSAGE, 4>::new(Notifies::Outside));
        let (writer, reader) = (threads.vcpu(0), threads.vcpu(1));
        (0..4).for_each(|n| pipe.write(&writer, EAGER, &message(0, n)));
        pipe.queue.lock(&writer, EAGER).writers.insert(0);
        read(&pipe, &reader);
        assert!(!threads.has_event(0), "three quarters full");
        read(&pipe, &reader);
        assert!(threads.has_event(0));
    }

    #[test]
    fn a_writer_wakes_one_reader_of_those_that_wait() {
        let (threads, pipe) = (Threads::new(3), Pipe::<MESSAGE, 4>::new(Notifies::Inside));
        [1, 2].into_iter().for_each(|reader| pipe.queue.lock(&threads.vcpu(0), EAGER).readers.insert(reader));
        pipe.write(&threads.vcpu(0), EAGER, &message(0, 0));
        assert_eq!([1, 2].map(|reader| threads.has_event(reader)), [true, false]);
        pipe.write(&threads.vcpu(0), EAGER, &message(0, 1));
        assert!(threads.has_event(2));
    }
}
