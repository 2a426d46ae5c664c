//! The virtio-vsock device: moves packets between its queues and the table of connections.
//!
//! All its work is done in one kind of turn, whatever caused it. Packets of the guest are taken, host programs that
//! have connected are accepted, and packets for the guest are put into its buffers, a bounded number of each. While too
//! many refusals wait for a guest that does not take packets, no packets are taken from it. So nothing here grows
//! without bound.

use std::fmt;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use parking_lot::Mutex;
use virtio_bindings::virtio_ids::VIRTIO_ID_VSOCK;
use vm_memory::GuestMemoryMmap;
use vmm_sys_util::epoll::Epoll;

use super::host::HostSocket;
use super::packet::{HEADER_BYTES, Header};
use super::table::Table;
use super::{BUFFER_BYTES, GUEST_CID};
use crate::devices::virtio::{ChainError, Device, Fault, Line, Progress, Request, Ring};

const RECEIVE_QUEUE: u16 = 0;
const TRANSMIT_QUEUE: u16 = 1;
/// Descriptors of each queue: packets to the guest, packets from it, events (of which there are none).
const QUEUE_SIZES: [u16; 3] = [128, 128, 16];
/// Packets in one turn, in each direction.
const PACKETS_PER_TURN: usize = 32;

/// A guest's socket device.
pub struct VsockDevice {
    memory: GuestMemoryMmap,
    line: Arc<Line>,
    config: [u8; 8],
    epoll: Arc<Epoll>,
    state: Mutex<State>,
}

struct State {
    receive: Option<Ring>,
    transmit: Option<Ring>,
    table: Table,
    /// The data of the packet on its way. Empty until the first packet.
    buffer: Vec<u8>,
}

impl VsockDevice {
    /// A device with the host programs that connect to `socket`.
    pub fn new(socket: HostSocket, memory: GuestMemoryMmap, line: Arc<Line>) -> io::Result<Self> {
        let epoll = Arc::new(Epoll::new()?);
        let table = Table::new(socket, Arc::clone(&epoll))?;
        let state = Mutex::new(State { receive: None, transmit: None, table, buffer: Vec::new() });
        Ok(Self { memory, line, config: GUEST_CID.to_le_bytes(), epoll, state })
    }

    /// Number of connections, and of host programs that will become one.
    pub fn connections(&self) -> usize {
        self.state.lock().table.len()
    }

    /// Number of connections that may have a packet for the guest.
    #[cfg(test)]
    pub(super) fn queued(&self) -> usize {
        self.state.lock().table.queued()
    }

    /// Does one turn. The state is locked all the while, so that no queue is in use once it has been stopped.
    fn turn(&self, look: bool) -> Progress {
        let mut state = self.state.lock();
        if self.line.needs_reset() {
            // Sockets that became ready are handled even so: they would be reported over and over.
            return if look { state.table.look() } else { Progress::Done };
        }
        match state.turn(&self.memory, &self.line, look) {
            Ok(progress) => progress,
            Err(fault) => {
                self.line.fault(fault);
                // The programs connected to this guest learn now that it will not answer.
                state.table.clear();
                Progress::Done
            }
        }
    }
}

impl State {
    fn turn(&mut self, memory: &GuestMemoryMmap, line: &Line, look: bool) -> Result<Progress, Fault> {
        let looked = if look { self.table.look() } else { Progress::Done };
        self.buffer.resize(BUFFER_BYTES as usize, 0);
        let taken = self.take_packets(memory, line)?;
        let works = self.receive.is_some() && self.transmit.is_some();
        if works {
            self.table.accept();
        }
        let given = self.give_packets(memory, line)?;
        let more = [looked, taken, given].contains(&Progress::More) || works && self.table.may_accept();
        Ok(if more { Progress::More } else { Progress::Done })
    }

    /// Takes packets from the guest.
    fn take_packets(&mut self, memory: &GuestMemoryMmap, line: &Line) -> Result<Progress, Fault> {
        let Some(ring) = &mut self.transmit else { return Ok(Progress::Done) };
        let (mut taken, mut progress) = (0, Progress::Done);
        loop {
            if self.table.is_full() {
                // This continues when the guest takes packets.
                break;
            }
            if taken == PACKETS_PER_TURN {
                progress = Progress::More;
                break;
            }
            let Some(chain) = ring.take_or_arm(memory)? else { break };
            let head = chain.head_index();
            let packet = Request::of(memory, chain).and_then(|request| read_packet(request, &mut self.buffer));
            let (header, length) = packet.map_err(|cause| ring.chain_fault(head, cause))?;
            ring.give_back(memory, head, 0)?;
            self.table.take(&header, &self.buffer[..length]);
            taken += 1;
        }
        if taken > 0 && ring.wants_interrupt(memory)? {
            line.used_buffers();
        }
        Ok(progress)
    }

    /// Puts packets into the guest's buffers.
    fn give_packets(&mut self, memory: &GuestMemoryMmap, line: &Line) -> Result<Progress, Fault> {
        let Some(ring) = &mut self.receive else { return Ok(Progress::Done) };
        let was_full = self.table.is_full();
        let mut given = 0;
        while given < PACKETS_PER_TURN && self.table.has_packet() {
            let Some(chain) = ring.take_or_arm(memory)? else { break };
            let head = chain.head_index();
            let request = Request::of(memory, chain).and_then(|r| r.must_write(HEADER_BYTES).map(|()| r));
            let mut writer = request.map_err(|cause| ring.chain_fault(head, cause))?.writer;
            let room = (writer.available_bytes() - HEADER_BYTES).min(self.buffer.len());
            let Some(header) = self.table.packet(&mut self.buffer[..room]) else {
                ring.put_back();
                break;
            };
            let data = &self.buffer[..header.length as usize];
            // There is room for both header and data.
            let written = writer.write(&header.bytes()).unwrap_or(0) + writer.write(data).unwrap_or(0);
            ring.give_back(memory, head, written as u32)?;
            given += 1;
        }
        if given > 0 && ring.wants_interrupt(memory)? {
            line.used_buffers();
        }
        let resumes = was_full && !self.table.is_full();
        Ok(if given == PACKETS_PER_TURN || resumes { Progress::More } else { Progress::Done })
    }
}

/// A packet that the guest sent: its header, and how many bytes of `buffer` its data take.
fn read_packet(mut request: Request<'_>, buffer: &mut [u8]) -> Result<(Header, usize), ChainError> {
    request.must_read(HEADER_BYTES)?;
    let mut bytes = [0; HEADER_BYTES];
    // Both are there: the first was just seen, the second is before it is read.
    let _ = request.reader.read_exact(&mut bytes);
    let header = Header::parse(&bytes);
    let length = header.length as usize;
    request.must_read(length)?;
    // A packet that is longer than any credit is an overrun, whatever its header says.
    let kept = length.min(buffer.len());
    let _ = request.reader.read_exact(&mut buffer[..kept]);
    Ok((header, kept))
}

impl Device for VsockDevice {
    fn id(&self) -> u32 {
        VIRTIO_ID_VSOCK
    }

    fn features(&self) -> u64 {
        0
    }

    fn queue_sizes(&self) -> &'static [u16] {
        &QUEUE_SIZES
    }

    fn config(&self) -> &[u8] {
        &self.config
    }

    fn set_ring(&self, queue: u16, ring: Option<Ring>) {
        let mut state = self.state.lock();
        match queue {
            RECEIVE_QUEUE => state.receive = ring,
            TRANSMIT_QUEUE => state.transmit = ring,
            _ => {}
        }
    }

    fn queue_notify(&self, queue: u16) -> Progress {
        match queue {
            RECEIVE_QUEUE | TRANSMIT_QUEUE => self.turn(false),
            _ => Progress::Done,
        }
    }

    fn stop(&self) {
        self.state.lock().table.clear();
    }

    fn host_events(&self) -> Option<RawFd> {
        Some(self.epoll.as_raw_fd())
    }

    fn host_ready(&self) -> Progress {
        self.turn(true)
    }
}

impl fmt::Debug for VsockDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VsockDevice").field("connections", &self.connections()).finish_non_exhaustive()
    }
}
