//! Chat rooms: the queues of all users, a gate at which their threads gather, and when their work was done.

use super::message_queue::MessageQueue;
use crate::time::Time;

/// vCPUs of a user.
pub const THREADS: usize = 4;

/// A room. A user has three queues: to the server, the queue in the server, and to the client.
#[derive(Debug)]
pub struct Room {
    pub(super) queues: Vec<MessageQueue>,
    pub(super) users: u32,
    /// Of each user.
    pub(super) messages: u32,
    /// Its first vCPU.
    pub(super) first: usize,
    /// The gate is open.
    pub(super) open: bool,
    at_work: usize,
    ended: Option<Time>,
}

/// The queues of a room, by what they lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leg {
    ToServer,
    Queue,
    ToClient,
}

impl Room {
    /// A room whose vCPUs have the numbers from `first` on, with so many messages of each user.
    pub fn new(first: usize, users: u32, messages: u32) -> Self {
        let queues = (0..3 * users).map(|_| MessageQueue::default()).collect();
        Self { queues, users, messages, first, open: false, at_work: THREADS * users as usize, ended: None }
    }

    /// Messages that its clients receive before all is done.
    #[cfg(test)]
    pub(crate) fn deliveries(&self) -> u64 {
        u64::from(self.users) * u64::from(self.users.saturating_sub(1)) * u64::from(self.messages)
    }

    /// When the last of its vCPUs had done its work; `None` before.
    pub fn ended(&self) -> Option<Time> {
        self.ended
    }

    /// A queue of a user.
    pub(super) fn queue(&self, leg: Leg, user: u32) -> &MessageQueue {
        &self.queues[self.place(leg, user)]
    }

    /// The queue of a user on this leg, to change it.
    pub(super) fn queue_mut(&mut self, leg: Leg, user: u32) -> &mut MessageQueue {
        let place = self.place(leg, user);
        &mut self.queues[place]
    }

    fn place(&self, leg: Leg, user: u32) -> usize {
        leg as usize * self.users as usize + user as usize
    }

    /// Its vCPUs.
    pub(super) fn vcpus(&self) -> std::ops::Range<usize> {
        self.first..self.first + THREADS * self.users as usize
    }

    /// One of them has done its work.
    pub(super) fn done(&mut self, now: Time) {
        self.at_work -= 1;
        if self.at_work == 0 {
            self.ended = Some(now);
        }
    }
}
