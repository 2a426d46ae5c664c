//! One connection between a port of the guest and a host program: its state, what waits for the program, and what is owed
//! to the guest.
//!
//! Life of a connection: opened by the guest (its request was carried out, a response is owed) or by the host (a request is
//! owed, the guest's response opens it); either side may say that it sends no more; it ends with a reset, which the guest
//! sends or is owed. Nothing here waits: what the unix socket does not take or give now is done when it is ready again.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use super::credit::Credit;
use super::packet::{Header, Ports, RECEIVES_NO_MORE, SENDS_NO_MORE, op};

/// Where a connection is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The guest has not answered the host program's request.
    Asked,
    Open,
    /// The host program is gone and the guest knows; its reset is to come.
    Leaving,
    /// The guest has been told of the end, or knows of it.
    Over,
}

/// What the guest is to be told, as soon as it has room.
#[derive(Debug, Clone, Copy, Default)]
struct Owed {
    request: bool,
    response: bool,
    reset: bool,
    shutdown: bool,
    credit_update: bool,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    ports: Ports,
    stream: UnixStream,
    phase: Phase,
    credit: Credit,
    owed: Owed,
    /// Has come from the guest and not gone on; at most as much as the credit permits.
    to_host: VecDeque<u8>,
    /// What the guest has said that it does no more: [`RECEIVES_NO_MORE`], [`SENDS_NO_MORE`].
    guest_done: u32,
    /// The host program sends no more.
    host_done: bool,
    /// The host program is gone altogether.
    host_gone: bool,
    /// The stream may have something, or may take something: an edge came, and the stream has not said otherwise since.
    readable: bool,
    writable: bool,
    /// The guest has no room, and was asked for some.
    asked_for_room: bool,
    /// It is in the table's queue of those that may have a packet for the guest.
    pub(super) queued: bool,
}

impl Connection {
    /// One that the guest asked for with this header.
    pub(super) fn from_guest(request: &Header, stream: UnixStream) -> Self {
        let mut connection = Self::new(request.ports(), stream, Phase::Open);
        connection.credit.heard(request.buf_alloc, request.fwd_cnt);
        connection.owed.response = true;
        connection
    }

    /// One that a host program asks for.
    pub(super) fn from_host(ports: Ports, stream: UnixStream) -> Self {
        let mut connection = Self::new(ports, stream, Phase::Asked);
        connection.owed.request = true;
        connection
    }

    fn new(ports: Ports, stream: UnixStream, phase: Phase) -> Self {
        Self {
            ports,
            stream,
            phase,
            credit: Credit::default(),
            owed: Owed::default(),
            to_host: VecDeque::new(),
            guest_done: 0,
            host_done: false,
            host_gone: false,
            readable: true,
            writable: true,
            asked_for_room: false,
            queued: false,
        }
    }

    pub(super) fn ports(&self) -> Ports {
        self.ports
    }

    /// Nothing of it is left to be done.
    pub(super) fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// The unix socket is ready for these.
    pub(super) fn ready(&mut self, readable: bool, writable: bool, gone: bool) {
        self.readable |= readable;
        // A socket whose peer is gone takes nothing, and says so when it is written.
        self.writable |= writable || gone;
        if gone && !self.host_gone {
            self.host_gone = true;
            // Else its end is found when the last of what it sent has been read.
            self.owed.shutdown |= self.host_done;
            self.owed.reset |= self.phase == Phase::Asked || self.guest_done & RECEIVES_NO_MORE != 0;
        }
        self.forward();
    }

    /// Takes a packet from the guest.
    pub(super) fn take(&mut self, header: &Header, data: &[u8]) {
        self.credit.heard(header.buf_alloc, header.fwd_cnt);
        self.asked_for_room &= self.credit.sendable() == 0;
        match (header.op, self.phase) {
            (op::RESET, _) => self.phase = Phase::Over,
            (op::RESPONSE, Phase::Asked) => self.opened(),
            (op::DATA, Phase::Open) if self.guest_done & SENDS_NO_MORE == 0 => self.take_data(data),
            (op::SHUTDOWN, Phase::Open | Phase::Leaving) => {
                self.guest_done |= header.flags & (RECEIVES_NO_MORE | SENDS_NO_MORE);
                self.forward();
            }
            (op::CREDIT_REQUEST, Phase::Open) => self.owed.credit_update = true,
            (op::CREDIT_UPDATE, Phase::Open | Phase::Leaving) => {}
            // Not what comes at this point.
            _ => self.owed.reset = true,
        }
    }

    /// The guest accepted: the host program may talk.
    fn opened(&mut self) {
        self.phase = Phase::Open;
        let answer = format!("OK {}\n", self.ports.host);
        // The first bytes in an empty socket: they fit, or nobody is there.
        if self.send(answer.as_bytes()) != Ok(answer.len()) {
            self.owed.reset = true;
        }
    }

    fn take_data(&mut self, data: &[u8]) {
        if self.credit.received(data.len() as u32).is_err() {
            self.owed.reset = true;
            return;
        }
        self.to_host.extend(data);
        self.forward();
    }

    /// Gives the host program what waits for it, as much as its socket takes, and the end after the last of it.
    fn forward(&mut self) {
        while self.writable && !self.to_host.is_empty() {
            match self.send(self.to_host.as_slices().0) {
                Ok(taken) => {
                    self.to_host.drain(..taken);
                    self.credit.forwarded(taken as u32);
                }
                Err(Errno::AGAIN) => self.writable = false,
                Err(Errno::INTR) => {}
                // Nobody reads it any more.
                Err(_) => {
                    self.to_host.clear();
                    self.owed.reset = true;
                }
            }
        }
        self.owed.credit_update |= self.credit.is_news();
        if self.to_host.is_empty() && self.guest_done & SENDS_NO_MORE != 0 {
            // Fails if the host program is gone, and then it needs not be told.
            let _ = self.stream.shutdown(Shutdown::Write);
            self.owed.reset |= self.guest_done & RECEIVES_NO_MORE != 0;
        }
    }

    /// Writes without the signal that ends a program whose reader has gone.
    fn send(&self, data: &[u8]) -> Result<usize, Errno> {
        send(&self.stream, data, SendFlags::NOSIGNAL)
    }

    /// Whether there may be a packet for the guest.
    pub(super) fn has_packet(&self) -> bool {
        let Owed { request, response, reset, shutdown, credit_update } = self.owed;
        let owed = request || response || reset || shutdown || credit_update;
        owed || self.may_read() && (self.credit.sendable() > 0 || !self.asked_for_room)
    }

    /// Whether the host program is to be heard.
    fn may_read(&self) -> bool {
        self.phase == Phase::Open && self.readable && !self.host_done && self.guest_done & RECEIVES_NO_MORE == 0
    }

    /// The next packet for the guest, its data at the beginning of `buffer`, if there is one after all.
    pub(super) fn packet(&mut self, buffer: &mut [u8]) -> Option<Header> {
        let owed = &mut self.owed;
        if std::mem::take(&mut owed.reset) {
            self.phase = Phase::Over;
            return Some(self.header(op::RESET));
        }
        if std::mem::take(&mut owed.request) {
            return Some(self.header(op::REQUEST));
        }
        if std::mem::take(&mut owed.response) {
            return Some(self.header(op::RESPONSE));
        }
        if std::mem::take(&mut owed.shutdown) {
            return Some(self.leave());
        }
        if std::mem::take(&mut owed.credit_update) {
            return Some(self.header(op::CREDIT_UPDATE));
        }
        if !self.may_read() {
            return None;
        }
        let room = buffer.len().min(self.credit.sendable() as usize);
        if room == 0 {
            return self.ask_for_room();
        }
        self.read(&mut buffer[..room])
    }

    /// Asks the guest for room, once until it has some.
    fn ask_for_room(&mut self) -> Option<Header> {
        let asked = std::mem::replace(&mut self.asked_for_room, true);
        (!asked).then(|| self.header(op::CREDIT_REQUEST))
    }

    fn read(&mut self, buffer: &mut [u8]) -> Option<Header> {
        loop {
            return match self.stream.read(buffer) {
                Ok(0) => {
                    self.host_done = true;
                    Some(self.leave())
                }
                Ok(length) => {
                    self.credit.sent(length as u32);
                    Some(Header { length: length as u32, ..self.header(op::DATA) })
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.readable = false;
                    None
                }
                Err(_) => {
                    self.phase = Phase::Over;
                    Some(self.header(op::RESET))
                }
            };
        }
    }

    /// What the guest is told when the host program sends no more.
    fn leave(&mut self) -> Header {
        let flags = if self.host_gone { SENDS_NO_MORE | RECEIVES_NO_MORE } else { SENDS_NO_MORE };
        if self.host_gone {
            self.phase = Phase::Leaving;
        }
        Header { flags, ..self.header(op::SHUTDOWN) }
    }

    fn header(&mut self, op: u16) -> Header {
        // What is told with any packet needs no packet of its own.
        self.owed.credit_update = false;
        Header { fwd_cnt: self.credit.tell(), ..Header::to_guest(self.ports, op) }
    }
}
