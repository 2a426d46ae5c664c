//! A bounded queue of messages with one reader, as the guests' pipes are: under a lock that yields and has no queue of
//! its own, with conditions at which vCPUs block.
//!
//! Nothing here takes time; the guest that has the lock says how long it keeps it.

use std::collections::{BTreeSet, VecDeque};

/// Messages that fit into it, as into the guests'.
pub(super) const ROOM: usize = 256;

/// A message: its sender, and which of the sender's messages it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) user: u32,
    pub(super) number: u32,
}

/// A queue with its lock.
#[derive(Debug, Default)]
pub(super) struct MessageQueue {
    holder: Option<usize>,
    /// vCPUs that have found the lock taken and have not had it since: spinning, yielding, or without a pCPU.
    contenders: BTreeSet<usize>,
    messages: VecDeque<Message>,
    /// The reader blocks until there is a message.
    reader: Option<usize>,
    /// They block until the queue is down to half.
    writers: BTreeSet<usize>,
}

/// What came of looking into a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// The lock is taken.
    Taken,
    /// It is full or empty. The vCPU that looked is among those to be woken, and the lock is free.
    Blocks,
    /// The vCPU that looked has the lock, and can go on.
    Has,
}

impl MessageQueue {
    /// The lock's holder.
    pub(super) fn holder(&self) -> Option<usize> {
        self.holder
    }

    /// Takes the lock, if it is free, to write or to read. Those whose spinning may be over, or goes on after all, are
    /// added to `noticed`.
    pub(super) fn look(&mut self, me: usize, writes: bool, noticed: &mut Vec<usize>) -> Look {
        if self.holder.is_some() {
            self.contenders.insert(me);
            return Look::Taken;
        }
        self.contenders.remove(&me);
        if writes {
            self.writers.remove(&me);
        } else {
            self.reader = None;
        }
        let blocks = if writes { self.messages.len() == ROOM } else { self.messages.is_empty() };
        if blocks {
            if writes {
                self.writers.insert(me);
            } else {
                self.reader = Some(me);
            }
            return Look::Blocks;
        }
        self.holder = Some(me);
        noticed.extend(&self.contenders);
        Look::Has
    }

    /// The holder adds a message; the reader is to be woken if it blocks.
    pub(super) fn write(&mut self, message: Message, woken: &mut VecDeque<usize>) {
        debug_assert!(self.messages.len() < ROOM);
        self.messages.push_back(message);
        woken.extend(self.reader.take());
    }

    /// The holder takes the first message; writers are to be woken if half of the queue is left.
    pub(super) fn read(&mut self, woken: &mut VecDeque<usize>) -> Message {
        let message = self.messages.pop_front().expect("a reader has looked");
        if self.messages.len() == ROOM / 2 {
            woken.extend(std::mem::take(&mut self.writers));
        }
        message
    }

    /// The holder lets go of the lock.
    pub(super) fn release(&mut self, noticed: &mut Vec<usize>) {
        self.holder = None;
        noticed.extend(&self.contenders);
    }

    /// No vCPU has the lock, waits for it, or blocks, and no message is left.
    #[cfg(test)]
    pub(super) fn is_at_rest(&self) -> bool {
        let nobody = self.holder.is_none() && self.contenders.is_empty();
        nobody && self.messages.is_empty() && self.reader.is_none() && self.writers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(queue: &mut MessageQueue, me: usize, writes: bool) -> Look {
        queue.look(me, writes, &mut Vec::new())
    }

    fn write(queue: &mut MessageQueue, me: usize, number: u32) -> VecDeque<usize> {
        let mut woken = VecDeque::new();
        assert_eq!(look(queue, me, true), Look::Has);
        queue.write(Message { user: 0, number }, &mut woken);
        queue.release(&mut Vec::new());
        woken
    }

    #[test]
    fn who_finds_the_lock_taken_is_told_of_its_release_and_of_who_came_first() {
        let mut queue = MessageQueue::default();
        assert_eq!([1, 2, 3].map(|me| look(&mut queue, me, true)), [Look::Has, Look::Taken, Look::Taken]);
        let mut noticed = Vec::new();
        queue.release(&mut noticed);
        assert_eq!(noticed, [2, 3]);
        noticed.clear();
        assert_eq!(queue.look(3, true, &mut noticed), Look::Has);
        assert_eq!((queue.holder(), noticed), (Some(3), vec![2]));
    }

    #[test]
    fn a_reader_that_blocks_is_woken_once() {
        let mut queue = MessageQueue::default();
        assert_eq!(look(&mut queue, 7, false), Look::Blocks);
        assert_eq!(queue.holder(), None);
        assert_eq!([0, 1].map(|number| write(&mut queue, 1, number)), [VecDeque::from([7]), VecDeque::new()]);
    }

    #[test]
    fn writers_that_block_are_woken_when_the_queue_is_down_to_half() {
        let mut queue = MessageQueue::default();
        (0..ROOM as u32).for_each(|number| _ = write(&mut queue, 1, number));
        assert_eq!([1, 2].map(|me| look(&mut queue, me, true)), [Look::Blocks; 2]);
        let mut woken = VecDeque::new();
        for number in 0..ROOM as u32 / 2 {
            assert!(woken.is_empty(), "{number}");
            assert_eq!(look(&mut queue, 3, false), Look::Has);
            assert_eq!(queue.read(&mut woken), Message { user: 0, number });
            queue.release(&mut Vec::new());
        }
        assert_eq!(woken, [1, 2]);
    }
}
