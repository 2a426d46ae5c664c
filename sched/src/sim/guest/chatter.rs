//! The threads of a chat room, four for each user. One sends for the client. One receives for the server and puts each
//! message into the queue of every other user. One sends for the server. One receives for the client and counts.
//!
//! An access to a queue is: its lock, for which a guest waits as it does for any; under the lock either the work, or
//! blocking. A thread that blocks is woken by an exit of the other side, made with the lock in hand where Java's
//! monitors have it so (the queues) and after its release elsewhere.

use super::manners::Manners;
use super::step::{Phase, Step};
use crate::ids::VcpuId;
use crate::sim::message_queue::{Look, Message};
use crate::sim::room::{Leg, THREADS};
use crate::sim::world::World;
use crate::time::{Nanos, Time};
use crate::wait::Wait;
use std::collections::VecDeque;

/// Payload of a message (unit: bytes).
const BYTES: u64 = 100;

/// What a message takes of a CPU beside exits and waits. Of the real guests with one pCPU under the host's scheduler,
/// 12 and 56 deliveries a message: each kind of thread's CPU time without its exits' was for each of its messages 40 to
/// 47 ns for each access to a queue, 140 ns for composing and writing one, and 140 ns for reading and checking one.
mod work {
    use crate::time::Nanos;

    /// With the lock of a queue in hand: a copy, and the queue's bookkeeping.
    pub(super) const ACCESS: Nanos = Nanos(44);
    /// Making a message.
    pub(super) const COMPOSE: Nanos = Nanos(96);
    /// Holding each byte of it against what it should be, and counting.
    pub(super) const CHECK: Nanos = Nanos(96);
}

/// What a thread does for its user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Sends the client's messages to the server.
    ClientSends,
    /// Puts them into the queues of all others.
    ServerReceives,
    /// Sends what is in the user's queue to the client.
    ServerSends,
    /// Checks and counts what the client gets.
    ClientReceives,
}

/// Where a thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before the gate.
    Gate,
    /// About to begin.
    Begins,
    /// It makes a message, or checks one.
    Apart,
    /// It wants a queue's lock, or blocks until there is something to want it for.
    Wants,
    /// It works under the lock.
    Inside,
    /// It wakes the threads that blocked at the queue.
    Wakes,
    /// It has done its work.
    Over,
}

/// An access to a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Access {
    leg: Leg,
    user: u32,
    writes: bool,
}

/// A thread of a user.
#[derive(Debug, Clone)]
pub struct Chatter {
    room: usize,
    user: u32,
    role: Role,
    manners: Manners,
    place: Place,
    /// The access it wants, or is at.
    access: Access,
    /// How it waits for the lock.
    phase: Phase,
    /// The message it is about.
    in_hand: Option<Message>,
    /// Messages done with.
    done: u32,
    /// Queues that have the message in hand.
    copies: u32,
    /// The vCPUs that it has yet to wake.
    wakes: VecDeque<usize>,
    /// How many messages it has heard of each user.
    heard: Vec<u32>,
}

impl Chatter {
    /// The thread of this number, from 0, in a room of the world.
    pub fn new(room: usize, number: usize, manners: Manners) -> Self {
        let role = match number % THREADS {
            0 => Role::ClientSends,
            1 => Role::ServerReceives,
            2 => Role::ServerSends,
            _ => Role::ClientReceives,
        };
        let user = (number / THREADS) as u32;
        Self {
            room,
            user,
            role,
            manners,
            place: Place::Gate,
            access: Access { leg: Leg::ToServer, user, writes: true },
            phase: Phase::Apart,
            in_hand: None,
            done: 0,
            copies: 0,
            wakes: VecDeque::new(),
            heard: Vec::new(),
        }
    }

    /// Whether the lock that it spins for is free.
    pub(super) fn is_free(&self, world: &World) -> bool {
        world.rooms[self.room].queue(self.access.leg, self.access.user).holder().is_none()
    }

    /// What it does next.
    pub(super) fn proceed(&mut self, world: &mut World, me: usize, now: Time) -> Step {
        match self.place {
            Place::Gate => self.gathers(world, me),
            Place::Begins => self.begins(world, me),
            Place::Apart => self.has_computed(world, me, now),
            Place::Wants => self.looks(world, me),
            Place::Inside => self.has_worked(world, me, now),
            Place::Wakes => self.wakes(world, me, now),
            Place::Over => Step::Idle(Time::NEVER),
        }
    }

    /// The last vCPU of the room waits at the gate for all, and tells them when it opens.
    fn gathers(&mut self, world: &mut World, me: usize) -> Step {
        let room = &world.rooms[self.room];
        if !room.open {
            return Step::Idle(Time::NEVER);
        }
        self.heard = vec![0; room.users as usize];
        let vcpus = room.vcpus();
        if me + 1 == vcpus.end {
            self.place = Place::Begins;
            world.events.extend(vcpus.filter(|&other| other != me));
            return Step::Kick;
        }
        self.begins(world, me)
    }

    fn begins(&mut self, world: &mut World, me: usize) -> Step {
        match self.role {
            Role::ClientSends => self.computes(work::COMPOSE),
            _ => self.wants(world, me),
        }
    }

    fn computes(&mut self, span: Nanos) -> Step {
        self.place = Place::Apart;
        Step::Compute(span)
    }

    /// It has made a message, or checked one.
    fn has_computed(&mut self, world: &mut World, me: usize, now: Time) -> Step {
        if self.role == Role::ClientSends {
            self.in_hand = Some(Message { user: self.user, number: self.done });
            return self.wants(world, me);
        }
        let message = self.in_hand.take().expect("it checks the message it has read");
        let heard = &mut self.heard[message.user as usize];
        assert_eq!(message.number, *heard, "user {} hears user {} out of order", self.user, message.user);
        *heard += 1;
        world.gauges[me].bytes += BYTES;
        world.done(me);
        self.done += 1;
        self.goes_on(world, me, now)
    }

    /// To the queue that comes next.
    fn wants(&mut self, world: &mut World, me: usize) -> Step {
        let (leg, user, writes) = match (self.role, self.in_hand) {
            (Role::ClientSends, _) => (Leg::ToServer, self.user, true),
            (Role::ServerReceives, None) => (Leg::ToServer, self.user, false),
            // From the next user on, so that no user is always first.
            (Role::ServerReceives, Some(_)) => {
                (Leg::Queue, (self.user + 1 + self.copies) % world.rooms[self.room].users, true)
            }
            (Role::ServerSends, None) => (Leg::Queue, self.user, false),
            (Role::ServerSends, Some(_)) => (Leg::ToClient, self.user, true),
            (Role::ClientReceives, _) => (Leg::ToClient, self.user, false),
        };
        self.access = Access { leg, user, writes };
        self.phase = Phase::Apart;
        self.place = Place::Wants;
        self.looks(world, me)
    }

    fn looks(&mut self, world: &mut World, me: usize) -> Step {
        let Access { leg, user, writes } = self.access;
        let queue = world.rooms[self.room].queue_mut(leg, user);
        match queue.look(me, writes, &mut world.noticed) {
            Look::Taken => {
                let wait = queue.holder().map_or(Wait::Unknown, |holder| Wait::Lock(VcpuId(holder as u32)));
                self.manners.waits(&mut self.phase, wait, world)
            }
            Look::Blocks => {
                self.phase = Phase::Apart;
                Step::Idle(Time::NEVER)
            }
            Look::Has => {
                self.place = Place::Inside;
                Step::Compute(work::ACCESS)
            }
        }
    }

    /// It has copied the message, and lets go of the lock now or when it has woken the threads that blocked.
    fn has_worked(&mut self, world: &mut World, me: usize, now: Time) -> Step {
        let Access { leg, user, writes } = self.access;
        let queue = world.rooms[self.room].queue_mut(leg, user);
        if writes {
            queue.write(self.in_hand.expect("it writes the message in hand"), &mut self.wakes);
        } else {
            self.in_hand = Some(queue.read(&mut self.wakes));
        }
        if leg != Leg::Queue {
            queue.release(&mut world.noticed);
        }
        self.place = Place::Wakes;
        self.wakes(world, me, now)
    }

    /// One exit for each.
    fn wakes(&mut self, world: &mut World, me: usize, now: Time) -> Step {
        if let Some(woken) = self.wakes.pop_front() {
            world.events.push(woken);
            return Step::Kick;
        }
        let Access { leg, user, writes } = self.access;
        if leg == Leg::Queue {
            world.rooms[self.room].queue_mut(leg, user).release(&mut world.noticed);
        }
        match self.role {
            Role::ClientReceives => return self.computes(work::CHECK),
            Role::ServerReceives if writes => {
                self.copies += 1;
                if self.copies + 1 == world.rooms[self.room].users {
                    self.copies = 0;
                    self.has_passed_on();
                }
            }
            Role::ClientSends | Role::ServerSends if writes => self.has_passed_on(),
            _ => {}
        }
        self.goes_on(world, me, now)
    }

    fn has_passed_on(&mut self) {
        self.in_hand = None;
        self.done += 1;
    }

    /// To the next message, if there is one.
    fn goes_on(&mut self, world: &mut World, me: usize, now: Time) -> Step {
        let room = &mut world.rooms[self.room];
        let due = match self.role {
            Role::ClientSends | Role::ServerReceives => room.messages,
            Role::ServerSends | Role::ClientReceives => room.messages * (room.users - 1),
        };
        if self.done < due {
            return self.begins(world, me);
        }
        room.done(now);
        self.place = Place::Over;
        Step::Idle(Time::NEVER)
    }
}
