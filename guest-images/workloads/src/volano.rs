//! A chat room as VolanoMark fills it. Every user sends `messages` messages, and the server passes each of them to all
//! other users. A user has four threads, here vCPUs: a client's sender and receiver, and the server's receiver and
//! sender for that client.
//!
//! A message goes from the client's sender through the connection to the server's receiver, which puts it into the
//! queue of every other user. From there that user's server sender writes it to the connection, and the client's
//! receiver gets, checks and counts it. Connections are pipes. The queues are Java objects as they were then: a lock
//! that yields while it is taken, and a condition that only the holder of the lock can notify.
//!
//! An operation is a message that a client receives.

use crate::assembly::Assembly;
use crate::message::{self, Check, Message};
use crate::params::{Params, fail, refuse};
use stile_rt::sync::{Notifies, Pipe};
use stile_rt::{Boot, Cpu};

/// vCPUs of a user.
const THREADS: u32 = 4;
/// Most users of a room.
const USERS: usize = message::SENDERS;
/// Messages that fit into one direction of a connection, or into a user's queue.
const ROOM: usize = 256;

type Line = Pipe<{ message::BYTES }, ROOM>;

static ASSEMBLY: Assembly = Assembly::new();
static TO_SERVER: [Line; USERS] = [const { Pipe::new(Notifies::Outside) }; USERS];
static QUEUES: [Line; USERS] = [const { Pipe::new(Notifies::Inside) }; USERS];
static TO_CLIENT: [Line; USERS] = [const { Pipe::new(Notifies::Outside) }; USERS];

/// One thread of one user.
struct Thread {
    cpu: Cpu,
    params: Params,
    user: u32,
    users: u32,
    messages: u32,
}

/// One vCPU, of four for each user. `messages` (default 100) is the number that each user sends. With `corrupt=1` the
/// last message of the first user is damaged on its way to the server.
pub fn main(cpu: Cpu) -> u32 {
    let params = Params::of(cpu);
    let vcpus = Boot::page().vcpus();
    if !vcpus.is_multiple_of(THREADS) || !(2..=USERS as u32).contains(&(vcpus / THREADS)) {
        refuse(cpu, format_args!("volano wants four vCPUs for each of 2 to {USERS} users"));
    }
    let messages = params.count("messages", 100);
    let thread = Thread { cpu, params, user: cpu.index() / THREADS, users: vcpus / THREADS, messages };
    match cpu.index() % THREADS {
        0 => thread.client_sends(),
        1 => thread.server_receives(),
        2 => thread.server_sends(),
        _ => thread.client_receives(),
    }
    ASSEMBLY.end(cpu)
}

impl Thread {
    /// Messages that one user gets.
    fn due(&self) -> u32 {
        (self.users - 1) * self.messages
    }

    fn client_sends(&self) {
        let corrupts = self.user == 0 && self.params.number("corrupt", 0) != 0;
        ASSEMBLY.begin(self.cpu);
        for number in 0..self.messages {
            let mut message = message::compose(self.user, number);
            if corrupts && number + 1 == self.messages {
                message[message::BYTES - 1] ^= 1;
            }
            self.write(&TO_SERVER, self.user, &message);
        }
    }

    fn server_receives(&self) {
        ASSEMBLY.begin(self.cpu);
        for _ in 0..self.messages {
            let message = self.read(&TO_SERVER);
            // Starts with the next user, so that no user is always first.
            for other in (self.user + 1..self.users).chain(0..self.user) {
                self.write(&QUEUES, other, &message);
            }
        }
    }

    fn server_sends(&self) {
        ASSEMBLY.begin(self.cpu);
        for _ in 0..self.due() {
            let message = self.read(&QUEUES);
            self.write(&TO_CLIENT, self.user, &message);
        }
    }

    fn client_receives(&self) {
        let mut check = Check::new(self.users);
        ASSEMBLY.begin(self.cpu);
        for _ in 0..self.due() {
            let message = self.read(&TO_CLIENT);
            if let Err(wrong) = check.accept(&message) {
                fail(self.cpu, message::CORRUPT, format_args!("user {}: {wrong}", self.user));
            }
            self.cpu.gauge().add_bytes(message::BYTES as u64);
            self.cpu.op_done();
        }
        if !check.is_complete(|sender| sender != self.user, self.messages) {
            fail(self.cpu, message::CORRUPT, format_args!("user {}: not every other user was heard", self.user));
        }
    }

    fn write(&self, lines: &[Line], user: u32, message: &Message) {
        lines[user as usize].write(&self.cpu, self.params.patience, message);
    }

    fn read(&self, lines: &[Line]) -> Message {
        let mut message = [0; message::BYTES];
        lines[self.user as usize].read(&self.cpu, self.params.patience, &mut message);
        message
    }
}
