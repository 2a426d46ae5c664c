//! All connections of a VM, and the host programs that have not yet named a port.
//!
//! Connections take turns to send the guest a packet. Invariant: a connection that may have a packet for the guest is
//! in the queue once; any other connection is not in it.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};

use super::connection::Connection;
use super::host::HostSocket;
use super::packet::{Header, Ports, STREAM, op};
use super::{GUEST_CID, HOST_CID};
use crate::devices::virtio::Progress;

/// Most connections of one VM at a time, including host programs that have not named a port yet. Each takes a
/// descriptor of the process, which all its VMs share, and up to 64 KiB.
pub(super) const CONNECTIONS_MAX: usize = 256;
/// Most host programs at a time that have not named a port yet. The one that has been silent for longest makes room for
/// the next.
pub(super) const GREETINGS_MAX: usize = 32;
/// Host programs that are let in or turned away in one turn.
const CALLERS: usize = 32;
/// Most refusals that wait for room in the guest. While there are that many, no more packets are taken from it.
const REFUSALS_MAX: usize = 64;
/// Events taken from the kernel at a time.
const EVENTS: usize = 32;
/// Longest first line of a host program: `CONNECT 4294967295\n` (units: bytes).
const GREETING_MAX: usize = 19;
/// First port given to host programs that call the guest. Guests mostly call lower ports of the host.
const HOST_PORTS: u32 = 1 << 30;

/// Number of a unix socket, in epoll and here. 0 is the socket on which stile listens.
type Id = u64;
const LISTENER: Id = 0;

#[derive(Debug)]
enum Peer {
    /// A host program that has connected, and the part of its first line that was read.
    Greeting(UnixStream, Vec<u8>),
    Connection(Connection),
}

/// The connections of a VM.
#[derive(Debug)]
pub(super) struct Table {
    socket: HostSocket,
    epoll: Arc<Epoll>,
    peers: HashMap<Id, Peer>,
    ids: HashMap<Ports, Id>,
    /// Connections that may have a packet for the guest.
    queue: VecDeque<Id>,
    refusals: VecDeque<Header>,
    /// Host programs that have not named a port, in the order in which they connected.
    greetings: VecDeque<Id>,
    /// A host program may wait to be accepted.
    callers: bool,
    /// The last host program could not be accepted. That may change when a connection ends.
    short_of_descriptors: bool,
    next_id: Id,
    next_port: u32,
}

impl Table {
    /// An empty table, for host programs that connect to `socket`. No other table uses `epoll`.
    pub(super) fn new(socket: HostSocket, epoll: Arc<Epoll>) -> io::Result<Self> {
        let edges = EventSet::IN | EventSet::EDGE_TRIGGERED;
        if let Some(listener) = socket.listener() {
            epoll.ctl(ControlOperation::Add, listener, EpollEvent::new(edges, LISTENER))?;
        }
        Ok(Self {
            socket,
            epoll,
            peers: HashMap::new(),
            ids: HashMap::new(),
            queue: VecDeque::new(),
            refusals: VecDeque::new(),
            greetings: VecDeque::new(),
            callers: false,
            short_of_descriptors: false,
            next_id: LISTENER + 1,
            next_port: HOST_PORTS,
        })
    }

    /// Ends all connections without packets to the guest: its driver is gone.
    pub(super) fn clear(&mut self) {
        self.peers.clear();
        self.ids.clear();
        self.queue.clear();
        self.refusals.clear();
        self.greetings.clear();
        self.short_of_descriptors = false;
    }

    /// Number of connections, and of host programs that will become one.
    pub(super) fn len(&self) -> usize {
        self.peers.len()
    }

    /// Number of connections that may have a packet for the guest.
    #[cfg(test)]
    pub(super) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Whether there may be a packet for the guest.
    pub(super) fn has_packet(&self) -> bool {
        !self.refusals.is_empty() || !self.queue.is_empty()
    }

    /// Whether the guest has to take packets before it may send more.
    pub(super) fn is_full(&self) -> bool {
        self.refusals.len() >= REFUSALS_MAX
    }

    /// Takes a packet from the guest.
    pub(super) fn take(&mut self, header: &Header, data: &[u8]) {
        if header.src_cid != GUEST_CID {
            return;
        }
        let id = self.ids.get(&header.ports()).copied();
        match (id.and_then(|id| self.peers.get_mut(&id)), header.op) {
            _ if header.dst_cid != HOST_CID || header.kind != STREAM => self.refuse(header),
            (Some(Peer::Connection(connection)), _) => {
                connection.take(header, data);
                id.into_iter().for_each(|id| self.settle(id));
            }
            (_, op::REQUEST) => self.open(header),
            _ => self.refuse(header),
        }
    }

    fn refuse(&mut self, header: &Header) {
        if header.op != op::RESET {
            self.refusals.push_back(header.refusal());
        }
    }

    /// Carries out a guest's request for a connection.
    fn open(&mut self, request: &Header) {
        let stream = match self.peers.len() {
            CONNECTIONS_MAX.. => None,
            _ => self.socket.connect(request.dst_port).ok(),
        };
        let watched = stream.and_then(|stream| self.watch(&stream).map(|id| (id, stream)).ok());
        match watched {
            Some((id, stream)) => self.add(id, Connection::from_guest(request, stream)),
            None => self.refuse(request),
        }
    }

    fn add(&mut self, id: Id, connection: Connection) {
        self.ids.insert(connection.ports(), id);
        self.peers.insert(id, Peer::Connection(connection));
        self.settle(id);
    }

    fn watch(&mut self, stream: &UnixStream) -> io::Result<Id> {
        let id = self.next_id;
        self.next_id += 1;
        let edges = EventSet::IN | EventSet::OUT | EventSet::READ_HANG_UP | EventSet::EDGE_TRIGGERED;
        self.epoll.ctl(ControlOperation::Add, stream.as_raw_fd(), EpollEvent::new(edges, id))?;
        Ok(id)
    }

    /// The next packet for the guest, with its data at the beginning of `buffer`; `None` if there is none after all, or
    /// none that fits. Each connection is asked once: one whose data do not fit stays in the queue.
    pub(super) fn packet(&mut self, buffer: &mut [u8]) -> Option<Header> {
        if let Some(refusal) = self.refusals.pop_front() {
            return Some(refusal);
        }
        for _ in 0..self.queue.len() {
            let Some(id) = self.queue.pop_front() else { break };
            let Some(Peer::Connection(connection)) = self.peers.get_mut(&id) else { continue };
            connection.queued = false;
            let packet = connection.packet(buffer);
            self.settle(id);
            if packet.is_some() {
                return packet;
            }
        }
        None
    }

    /// Call after a change of a connection: puts it into the queue if it may have a packet, and removes it if it is
    /// over.
    fn settle(&mut self, id: Id) {
        let Some(Peer::Connection(connection)) = self.peers.get_mut(&id) else { return };
        if connection.is_over() {
            self.ids.remove(&connection.ports());
            self.remove(id);
        } else if connection.has_packet() && !connection.queued {
            connection.queued = true;
            self.queue.push_back(id);
        }
    }

    fn remove(&mut self, id: Id) -> Option<Peer> {
        self.short_of_descriptors = false;
        self.greetings.retain(|greeting| *greeting != id);
        self.queue.retain(|queued| *queued != id);
        self.peers.remove(&id)
    }

    /// Handles unix sockets that became ready.
    pub(super) fn look(&mut self) -> Progress {
        let mut events = [EpollEvent::default(); EVENTS];
        // Signals do not interrupt this, since it does not wait.
        let count = self.epoll.wait(0, &mut events).unwrap_or(0);
        for event in &events[..count] {
            let set = event.event_set();
            let gone = set.intersects(EventSet::HANG_UP | EventSet::ERROR);
            match event.data() {
                LISTENER => self.callers = true,
                id => self.ready(id, set, gone),
            }
        }
        if count == EVENTS { Progress::More } else { Progress::Done }
    }

    fn ready(&mut self, id: Id, set: EventSet, gone: bool) {
        match self.peers.get_mut(&id) {
            Some(Peer::Connection(connection)) => {
                let readable = set.intersects(EventSet::IN | EventSet::READ_HANG_UP) || gone;
                connection.ready(readable, set.contains(EventSet::OUT), gone);
                self.settle(id);
            }
            Some(Peer::Greeting(..)) => self.greet(id),
            None => {}
        }
    }

    /// Whether a host program may be let in.
    pub(super) fn may_accept(&self) -> bool {
        // A silent program makes room for one that may speak.
        let has_room = self.peers.len() < CONNECTIONS_MAX || self.greetings.len() >= GREETINGS_MAX;
        self.callers && !self.short_of_descriptors && has_room
    }

    /// Accepts host programs that have connected, as long as there is room, at most [`CALLERS`] of them.
    pub(super) fn accept(&mut self) {
        for _ in 0..CALLERS {
            if !self.may_accept() {
                break;
            }
            let accepted = self.socket.accept().and_then(|stream| self.watch(&stream).map(|id| (id, stream)));
            match accepted {
                Ok((id, stream)) => {
                    self.make_room_for_greeting();
                    self.greetings.push_back(id);
                    self.peers.insert(id, Peer::Greeting(stream, Vec::new()));
                    self.greet(id);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.callers = false,
                // The caller has gone already, or is of another user.
                Err(error) if is_callers_own(&error) => {}
                Err(_) => self.short_of_descriptors = true,
            }
        }
    }

    /// Turns the host program away that has been silent for longest, if there are [`GREETINGS_MAX`] of them.
    fn make_room_for_greeting(&mut self) {
        if self.greetings.len() >= GREETINGS_MAX
            && let Some(silent) = self.greetings.front().copied()
        {
            self.remove(silent);
        }
    }

    /// Reads which port a host program wants, as far as the program has written it.
    fn greet(&mut self, id: Id) {
        let Some(Peer::Greeting(stream, said)) = self.peers.get_mut(&id) else { return };
        let port = match hear(stream, said) {
            Heard::Wait => return,
            Heard::Port(port) => port,
            Heard::Nonsense => return drop(self.remove(id)),
        };
        let Some(Peer::Greeting(stream, _)) = self.remove(id) else { return };
        let ports = self.free_ports(port);
        self.add(id, Connection::from_host(ports, stream));
    }

    /// A port of the host that has no connection with this port of the guest.
    fn free_ports(&mut self, guest: u32) -> Ports {
        loop {
            let ports = Ports { host: self.next_port, guest };
            self.next_port = self.next_port.checked_add(1).unwrap_or(HOST_PORTS);
            // There are more ports than connections.
            if !self.ids.contains_key(&ports) {
                return ports;
            }
        }
    }
}

/// What a host program has written.
enum Heard {
    /// An incomplete line.
    Wait,
    Port(u32),
    /// A line that is not understood; or the program has gone.
    Nonsense,
}

/// Reads to the end of the line and no further: the bytes after it are for the guest.
fn hear(stream: &mut UnixStream, said: &mut Vec<u8>) -> Heard {
    let mut byte = [0];
    while said.len() < GREETING_MAX {
        match stream.read(&mut byte) {
            Ok(1) if byte == *b"\n" => return port(said).map_or(Heard::Nonsense, Heard::Port),
            Ok(1) => said.push(byte[0]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Heard::Wait,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => return Heard::Nonsense,
        }
    }
    Heard::Nonsense
}

/// Whether the next caller may be accepted though this one could not be.
fn is_callers_own(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::PermissionDenied)
}

fn port(said: &[u8]) -> Option<u32> {
    let number = std::str::from_utf8(said).ok()?.strip_prefix("CONNECT ")?;
    // `parse` would accept a sign, too.
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    number.parse().ok().filter(|_| digits)
}
