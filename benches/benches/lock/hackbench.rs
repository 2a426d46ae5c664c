//! A load in the manner of hackbench: groups of senders and receivers that pass short messages through queues.
//!
//! All queues of a group are under one lock, as all run queues of a domain are. A receiver waits for a message and a
//! sender for room outside the lock, by parking. Every thread ends when its messages have been passed.

use crate::kinds::{Kind, Lock};
use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Barrier;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// hackbench's own numbers: 40 threads a group.
const SENDERS: usize = 20;
const RECEIVERS: usize = 20;
/// 200 threads.
const GROUPS: usize = 5;
/// Size of a message (unit: bytes).
const MESSAGE: usize = 100;
/// Messages that a queue holds; a pipe of one page holds 40.
const CAPACITY: usize = 40;
/// Messages of each sender to each receiver: the slowest stage takes tenths of a second.
const MESSAGES: usize = 20;

/// The state that one lock guards.
struct Group {
    queues: [Queue; RECEIVERS],
}

#[derive(Default)]
struct Queue {
    messages: VecDeque<[u8; MESSAGE]>,
    receiver: Option<Thread>,
    senders: VecDeque<Thread>,
}

impl Group {
    fn new() -> Self {
        let queue = || Queue { messages: VecDeque::with_capacity(CAPACITY), ..Queue::default() };
        Self { queues: std::array::from_fn(|_| queue()) }
    }
}

/// The time that all messages take.
pub(crate) fn run<K: Kind>() -> Duration {
    let groups: Vec<_> = (0..GROUPS).map(|_| K::lock(Group::new())).collect();
    let start = Barrier::new(GROUPS * (SENDERS + RECEIVERS) + 1);
    let mut started = Instant::now();
    thread::scope(|s| {
        for group in &groups {
            let start = &start;
            for _ in 0..SENDERS {
                s.spawn(move || {
                    start.wait();
                    (0..MESSAGES * RECEIVERS).for_each(|i| send(group, i % RECEIVERS));
                });
            }
            for receiver in 0..RECEIVERS {
                s.spawn(move || {
                    start.wait();
                    (0..MESSAGES * SENDERS).for_each(|_| receive(group, receiver));
                });
            }
        }
        start.wait();
        started = Instant::now();
    });
    started.elapsed()
}

fn send(group: &impl Lock<Group>, to: usize) {
    let message = black_box([1; MESSAGE]);
    loop {
        let sent = group.with(|group| {
            let queue = &mut group.queues[to];
            if queue.messages.len() < CAPACITY {
                queue.messages.push_back(message);
                return Some(queue.receiver.take());
            }
            queue.senders.push_back(thread::current());
            None
        });
        match sent {
            Some(receiver) => return receiver.iter().for_each(Thread::unpark),
            None => thread::park(),
        }
    }
}

fn receive(group: &impl Lock<Group>, receiver: usize) {
    loop {
        let received = group.with(|group| {
            let queue = &mut group.queues[receiver];
            let message = queue.messages.pop_front();
            if message.is_none() {
                queue.receiver = Some(thread::current());
            }
            message.map(|message| (message, queue.senders.pop_front()))
        });
        match received {
            Some((message, sender)) => {
                black_box(message);
                return sender.iter().for_each(Thread::unpark);
            }
            None => thread::park(),
        }
    }
}
