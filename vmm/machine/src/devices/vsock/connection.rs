//! One connection between a port of the guest and a host program: its state, the data that wait for the program, and
//! the packets that are owed to the guest.
//!
//! The life of a connection:
//! 1. The guest opens it: its request was carried out, and a response is owed. Or the host opens it: a request is owed,
//!    and the guest's response opens it.
//! 2. Either side may announce that it sends no more.
//! 3. It ends with a reset, which the guest sends or is owed.
//!
//! Nothing here waits. What the unix socket does not take or give now is done when the socket is ready again.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use super::credit::Credit;
use super::packet::{Header, Ports, RECEIVES_NO_MORE, SENDS_NO_MORE, op};

/// The state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The guest has not answered the host program's request.
    Asked,
    Open,
    /// The host program is gone and the guest knows it. The guest's reset is still to come.
    Leaving,
    /// The guest has been told of the end, or made it.
    Over,
}

/// Packets that the guest gets as soon as it has room.
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
    /// Data from the guest that the host program has not taken. At most as much as the credit permits.
    to_host: VecDeque<u8>,
    /// What the guest has announced to do no more: [`RECEIVES_NO_MORE`], [`SENDS_NO_MORE`].
    guest_done: u32,
    /// The host program sends no more.
    host_done: bool,
    /// The host program is gone.
    host_gone: bool,
    /// Whether the stream may give, and may take, data: an edge came, and the stream has not refused since.
    readable: bool,
    writable: bool,
    /// The guest has no room, and was asked for some.
    asked_for_room: bool,
    /// It is in the table's queue of connections that may have a packet for the guest.
    pub(super) queued: bool,
}

impl Connection {
    /// A connection that the guest asked for with this header.
    pub(super) fn from_guest(request: &Header, stream: UnixStream) -> Self {
        let mut connection = Self::new(request.ports(), stream, Phase::Open);
        connection.credit.heard(request.buf_alloc, request.fwd_cnt);
        connection.owed.response = true;
        connection
    }

    /// A connection that a host program asks for.
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

    /// Whether the connection is over and nothing of it is left to do.
    pub(super) fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// The unix socket has become ready for `events`.
    pub(super) fn ready(&mut self, readable: bool, writable: bool, gone: bool) {
        self.readable |= readable;
        // A socket without a reader takes nothing, and reports that when it is written.
        self.writable |= writable || gone;
        if gone && !self.host_gone {
            self.host_gone = true;
            // Otherwise its end is found when the last data that it sent have been read.
            self.owed.shutdown |= self.host_done;
            self.owed.reset |= self.phase == Phase::Asked || self.guest_done & RECEIVES_NO_MORE != 0;
        }
        self.forward();
    }

    /// Handles a packet from the guest.
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
            // This packet must not come in this state.
            _ => self.owed.reset = true,
        }
    }

    /// The guest accepted: the host program may send.
    fn opened(&mut self) {
        self.phase = Phase::Open;
        let answer = format!("OK {}\n", self.ports.host);
        // These are the first bytes in an empty socket. They fit, or the program is gone.
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

    /// Gives the host program the data that wait for it, as much as its socket takes. The end follows the last data.
    fn forward(&mut self) {
        while self.writable && !self.to_host.is_empty() {
            match self.send(self.to_host.as_slices().0) {
                Ok(taken) => {
                    self.to_host.drain(..taken);
                    self.credit.forwarded(taken as u32);
                }
                Err(Errno::AGAIN) => self.writable = false,
                Err(Errno::INTR) => {}
                // No program reads it any more.
                Err(_) => {
                    self.to_host.clear();
                    self.owed.reset = true;
                }
            }
        }
        self.owed.credit_update |= self.credit.is_news();
        if self.to_host.is_empty() && self.guest_done & SENDS_NO_MORE != 0 {
            // This fails if the host program is gone, which then need not be told.
            let _ = self.stream.shutdown(Shutdown::Write);
            self.owed.reset |= self.guest_done & RECEIVES_NO_MORE != 0;
        }
    }

    /// Writes without the signal that ends a program when the reader is gone.
    fn send(&self, data: &[u8]) -> Result<usize, Errno> {
        send(&self.stream, data, SendFlags::NOSIGNAL)
    }

    /// Whether there may be a packet for the guest.
    pub(super) fn has_packet(&self) -> bool {
        let Owed { request, response, reset, shutdown, credit_update } = self.owed;
        let owed = request || response || reset || shutdown || credit_update;
        owed || self.may_read() && (self.credit.sendable() > 0 || !self.asked_for_room)
    }

    /// Whether the host program's data are to be read.
    fn may_read(&self) -> bool {
        self.phase == Phase::Open && self.readable && !self.host_done && self.guest_done & RECEIVES_NO_MORE == 0
    }

    /// The next packet for the guest, with its data at the beginning of `buffer`, if there is one after all. An empty
    /// buffer takes no data, and says nothing of the guest's room.
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
        let room = self.credit.sendable() as usize;
        if room == 0 {
            return self.ask_for_room();
        }
        if buffer.is_empty() {
            return None;
        }
        let room = room.min(buffer.len());
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

    /// The packet that tells the guest that the host program sends no more.
    fn leave(&mut self) -> Header {
        let flags = if self.host_gone { SENDS_NO_MORE | RECEIVES_NO_MORE } else { SENDS_NO_MORE };
        if self.host_gone {
            self.phase = Phase::Leaving;
        }
        Header { flags, ..self.header(op::SHUTDOWN) }
    }

    fn header(&mut self, op: u16) -> Header {
        // Any packet carries the credit, so it needs no packet of its own.
        self.owed.credit_update = false;
        Header { fwd_cnt: self.credit.tell(), ..Header::to_guest(self.ports, op) }
    }
}
