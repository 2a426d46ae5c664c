//! A TCP stack whose calls block.
//!
//! One vCPU has it, and one thread of control uses it. Frames are handled and TCP's timers are served only inside its
//! calls. Between calls the device queues the frames that come, and data to be sent stay here: see [`Stack::send_all`].

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::net::Ipv4Addr;

use smoltcp::iface::{Config, Interface, PollIngressSingleResult, PollResult, SocketHandle, SocketSet};
use smoltcp::socket::tcp;
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{EthernetAddress, IpCidr, IpEndpoint};
use stile_abi::Queues;
use virtio_drivers::transport::Transport;

use super::{Address, DriverError, Nic};
use crate::clock::{Clock, Ticks, now};

/// Buffer of each direction of a connection (units: bytes): the largest message of a workload in one window.
const SOCKET_BYTES: usize = 64 * 1024;
/// How long an acknowledgement waits for a reply with which it can travel (units: ms). A workload replies sooner. Only
/// a pause in the conversation lasts longer.
const ACK_DELAY_MS: u64 = 10;
/// First of the ports that outgoing connections use.
const FIRST_LOCAL_PORT: u16 = 49152;

/// How the vCPU waits.
pub trait Park {
    /// Announces `queues` to the device, then blocks until a device event or `until`. May return early.
    fn park(&mut self, queues: Queues, until: Option<Ticks>);
}

impl Park for crate::Cpu {
    fn park(&mut self, queues: Queues, until: Option<Ticks>) {
        // It has served the network since it last woke up: some microseconds.
        self.ends();
        crate::doorbell::serve_and_idle(*self, queues, until);
        self.begins();
    }
}

/// Why a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetError {
    /// There is no network to start with.
    Driver(DriverError),
    /// The deadline has passed.
    TimedOut,
    /// The connection was closed or reset, by the peer or by TCP's own timeouts.
    Closed,
    /// The peer does not accept the connection.
    Refused,
}

impl fmt::Display for NetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Driver(cause) => cause.fmt(f),
            Self::TimedOut => write!(f, "timed out"),
            Self::Closed => write!(f, "connection closed"),
            Self::Refused => write!(f, "connection refused"),
        }
    }
}

/// A connection. It stays open until [`Stack::close`].
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Stream(SocketHandle);

/// A port that takes connections, one at a time.
#[derive(Debug, PartialEq, Eq)]
pub struct Listener {
    port: u16,
    socket: SocketHandle,
}

/// The stack of one vCPU.
pub struct Stack<T: Transport, P> {
    nic: Nic<T>,
    interface: Interface,
    sockets: SocketSet<'static>,
    clock: Clock,
    parker: P,
    local_port: u16,
}

impl<T: Transport, P: Park> Stack<T, P> {
    /// A stack with one address over one device.
    pub fn new(transport: T, address: Address, clock: Clock, parker: P) -> Result<Self, NetError> {
        let mut nic = Nic::new(transport).map_err(NetError::Driver)?;
        let mut config = Config::new(EthernetAddress(nic.mac()).into());
        // Differs between guests and between starts, which is enough here for initial sequence numbers and ports.
        config.random_seed = now().0;
        let mut interface = Interface::new(config, &mut nic, instant(clock));
        interface.update_ip_addrs(|addresses| {
            // The list has room for two, so it cannot be full.
            let _ = addresses.push(IpCidr::Ipv4(address.0));
        });
        let local_port = FIRST_LOCAL_PORT + (now().0 >> 4) as u16 % (u16::MAX - FIRST_LOCAL_PORT);
        Ok(Self { nic, interface, sockets: SocketSet::new(Vec::new()), clock, parker, local_port })
    }

    /// The clock that deadlines are told by.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The point in time `ns` nanoseconds from now.
    pub fn deadline(&self, ns: u64) -> Ticks {
        now() + self.clock.ticks(ns)
    }

    /// Opens a connection.
    pub fn connect(&mut self, ip: Ipv4Addr, port: u16, deadline: Ticks) -> Result<Stream, NetError> {
        let mut socket = new_socket();
        self.local_port = self.local_port.checked_add(1).unwrap_or(FIRST_LOCAL_PORT);
        let remote = IpEndpoint::new(ip.into(), port);
        socket.connect(self.interface.context(), remote, self.local_port).map_err(|_| NetError::Refused)?;
        let socket = self.sockets.add(socket);
        let connected = self.wait(Some(deadline), |sockets| match sockets.get::<tcp::Socket>(socket).state() {
            tcp::State::SynSent | tcp::State::SynReceived => None,
            tcp::State::Established => Some(Ok(())),
            _ => Some(Err(NetError::Refused)),
        });
        match connected {
            Ok(()) => Ok(Stream(socket)),
            Err(error) => {
                self.close(Stream(socket));
                Err(error)
            }
        }
    }

    /// Starts to take connections at `port`.
    pub fn listen(&mut self, port: u16) -> Listener {
        Listener { port, socket: self.new_listener(port) }
    }

    /// Waits for the next connection. Between two calls one connection can get ready.
    pub fn accept(&mut self, listener: &mut Listener) -> Result<Stream, NetError> {
        let socket = listener.socket;
        self.wait(None, |sockets| {
            let socket = sockets.get_mut::<tcp::Socket>(socket);
            match socket.state() {
                tcp::State::Listen | tcp::State::SynReceived => None,
                tcp::State::Established => Some(Ok(())),
                _ => {
                    // The peer went away before its connection was handled. A port other than 0 can be listened on.
                    socket.abort();
                    let _ = socket.listen(listener.port);
                    None
                }
            }
        })?;
        listener.socket = self.new_listener(listener.port);
        Ok(Stream(socket))
    }

    /// Sends all of `data`. Returns when the connection has taken the last of it. The last part leaves when the caller
    /// next waits in a call of the stack, for example for the answer. A caller that does something else first calls
    /// [`Stack::flush`].
    pub fn send_all(&mut self, stream: &Stream, data: &[u8], deadline: Ticks) -> Result<(), NetError> {
        let mut rest = data;
        self.wait(Some(deadline), |sockets| {
            let sent = sockets.get_mut::<tcp::Socket>(stream.0).send_slice(rest);
            match sent {
                Ok(count) => rest = &rest[count..],
                Err(_) => return Some(Err(NetError::Closed)),
            }
            rest.is_empty().then_some(Ok(()))
        })
    }

    /// Puts all data on their way.
    pub fn flush(&mut self) {
        self.speak();
        self.nic.flush();
    }

    /// Fills `data`. Frames that the stack has to send leave before it waits, not before it returns.
    pub fn recv_exact(&mut self, stream: &Stream, data: &mut [u8], deadline: Option<Ticks>) -> Result<(), NetError> {
        let mut filled = 0;
        self.wait(deadline, |sockets| {
            let received = sockets.get_mut::<tcp::Socket>(stream.0).recv_slice(&mut data[filled..]);
            match received {
                Ok(count) => filled += count,
                Err(_) => return Some(Err(NetError::Closed)),
            }
            (filled == data.len()).then_some(Ok(()))
        })
    }

    /// Ends a connection at once, with a reset to the peer.
    pub fn close(&mut self, stream: Stream) {
        self.sockets.get_mut::<tcp::Socket>(stream.0).abort();
        self.flush();
        self.sockets.remove(stream.0);
    }

    /// Waits for `ns` nanoseconds, and serves the network meanwhile.
    pub fn sleep(&mut self, ns: u64) {
        let deadline = self.deadline(ns);
        let _: Result<(), NetError> = self.wait(Some(deadline), |_| None);
    }

    fn new_listener(&mut self, port: u16) -> SocketHandle {
        let mut socket = new_socket();
        socket.listen(port).expect("a new socket listens at a port that is not 0");
        self.sockets.add(socket)
    }

    /// Serves the network until `done` has an answer.
    fn wait<R>(
        &mut self,
        deadline: Option<Ticks>,
        mut done: impl FnMut(&mut SocketSet<'static>) -> Option<Result<R, NetError>>,
    ) -> Result<R, NetError> {
        loop {
            self.listen_up();
            if let Some(answer) = done(&mut self.sockets) {
                return answer;
            }
            self.speak();
            if deadline.is_some_and(|deadline| now() >= deadline) {
                self.nic.flush();
                return Err(NetError::TimedOut);
            }
            self.rest(deadline);
        }
    }

    /// Handles all frames that have come.
    fn listen_up(&mut self) {
        let at = instant(self.clock);
        loop {
            let result = self.interface.poll_ingress_single(at, &mut self.nic, &mut self.sockets);
            if matches!(result, PollIngressSingleResult::None) {
                return;
            }
        }
    }

    /// Puts all frames that are due into the transmit ring.
    fn speak(&mut self) {
        let at = instant(self.clock);
        while self.interface.poll_egress(at, &mut self.nic, &mut self.sockets) != PollResult::None {}
    }

    /// Announces the frames in the rings, and idles until a frame comes, a timer of TCP is due, or the deadline.
    fn rest(&mut self, deadline: Option<Ticks>) {
        let at = instant(self.clock);
        let timer =
            self.interface.poll_delay(at, &self.sockets).map(|delay| self.deadline(1000 * delay.total_micros()));
        let until = match (timer, deadline) {
            (Some(timer), Some(deadline)) => Some(timer.min(deadline)),
            (timer, deadline) => timer.or(deadline),
        };
        if until.is_none_or(|until| until > now()) && self.nic.arm() {
            self.parker.park(self.nic.unannounced(), until);
        } else {
            self.nic.flush();
        }
        self.nic.disarm();
    }
}

fn new_socket() -> tcp::Socket<'static> {
    let buffer = || tcp::SocketBuffer::new(vec![0; SOCKET_BYTES]);
    let mut socket = tcp::Socket::new(buffer(), buffer());
    // A request is one message: waiting for more data to send gains nothing.
    socket.set_nagle_enabled(false);
    socket.set_ack_delay(Some(Duration::from_millis(ACK_DELAY_MS)));
    socket
}

fn instant(clock: Clock) -> Instant {
    Instant::from_micros((clock.now_ns() / 1000) as i64)
}

#[cfg(test)]
mod tests;
