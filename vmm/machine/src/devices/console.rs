//! virtio-console (virtio 1.2, section 5.3) with one port, which Linux calls `hvc0`. The guest's output goes to the
//! VM's console, and the user's input to the guest.
//!
//! Input is read one chunk at a time, and only when the guest has taken the chunk before. So a guest that does not read
//! costs one chunk of memory. The output must not block: see [`Console`](crate::vm::console::Console).

use std::fmt;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::io::Errno;
use virtio_bindings::virtio_ids::VIRTIO_ID_CONSOLE;
use vm_memory::GuestMemoryMmap;
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};

use crate::devices::virtio::{ChainError, Device, Fault, Line, Progress, Request, RequestQueue, Ring};

const RECEIVE_QUEUE: u16 = 0;
const TRANSMIT_QUEUE: u16 = 1;
/// Descriptors of each queue.
const QUEUE_SIZE: u16 = 64;
/// Chains in one turn.
const CHAINS_PER_TURN: usize = 8;
/// Bytes copied at a time (units: bytes).
const CHUNK: usize = 4096;
/// Most bytes in one chain of output (units: bytes). Drivers send 32 KiB at most.
const BYTES_MAX: usize = 64 << 10;

/// A guest's console.
pub struct ConsoleDevice {
    memory: GuestMemoryMmap,
    line: Arc<Line>,
    output: Mutex<Box<dyn Write + Send>>,
    transmit: RequestQueue,
    input: Mutex<Input>,
    /// Contains the input's descriptor while it is watched.
    epoll: Arc<Epoll>,
}

impl ConsoleDevice {
    /// A console that writes to `output`, and reads from `input` if there is one.
    pub fn new(
        output: Box<dyn Write + Send>,
        input: Option<OwnedFd>,
        memory: GuestMemoryMmap,
        line: Arc<Line>,
    ) -> io::Result<Self> {
        let epoll = Arc::new(Epoll::new()?);
        let input = Input {
            ring: None,
            source: input,
            epoll: Arc::clone(&epoll),
            watched: false,
            pollable: true,
            pending: Vec::new(),
        };
        Ok(Self {
            output: Mutex::new(output),
            transmit: RequestQueue::new(memory.clone(), Arc::clone(&line)),
            input: Mutex::new(input),
            memory,
            line,
            epoll,
        })
    }

    fn print(&self, mut request: Request<'_>) -> Result<u32, ChainError> {
        request.must_not_read_over(BYTES_MAX)?;
        let mut output = self.output.lock();
        let mut chunk = [0; CHUNK];
        while let Ok(length @ 1..) = request.reader.read(&mut chunk) {
            // A closed console must not end the guest.
            let _ = output.write_all(&chunk[..length]);
        }
        let _ = output.flush();
        Ok(0)
    }

    /// Moves input on to the guest. `ready`: whether the descriptor can be read.
    fn feed(&self, ready: bool) -> Progress {
        let mut input = self.input.lock();
        if !self.line.needs_reset() {
            match input.feed(&self.memory, &self.line, ready) {
                Ok(progress) => return progress,
                Err(fault) => self.line.fault(fault),
            }
        }
        // A device that is off must not be told of input over and over.
        input.unwatch();
        Progress::Done
    }

    fn set_receive_ring(&self, ring: Option<Ring>) {
        let mut input = self.input.lock();
        input.ring = ring;
        input.watch();
    }
}

/// The path of input from the user to the guest.
///
/// Invariant between turns: the descriptor is watched exactly while the device works and nothing is pending.
struct Input {
    /// `None`: the driver is not ready.
    ring: Option<Ring>,
    /// `None`: there is no input, or no more.
    source: Option<OwnedFd>,
    epoll: Arc<Epoll>,
    watched: bool,
    /// Whether the descriptor can be watched. A file cannot: it is always readable.
    pollable: bool,
    /// Input that was read and not yet given to the guest.
    pending: Vec<u8>,
}

impl Input {
    fn feed(&mut self, memory: &GuestMemoryMmap, line: &Line, ready: bool) -> Result<Progress, Fault> {
        if self.ring.is_some() && self.pending.is_empty() && (ready || !self.pollable) {
            self.read();
        }
        let given = self.give(memory)?;
        if let Some(ring) = self.ring.as_mut().filter(|_| given)
            && ring.wants_interrupt(memory)?
        {
            line.used_buffers();
        }
        let empty_handed = self.watch();
        // A file has more, unless it has just ended.
        Ok(if empty_handed && !self.pollable { Progress::More } else { Progress::Done })
    }

    fn read(&mut self) {
        let Some(source) = &self.source else { return };
        let mut chunk = [0; CHUNK];
        match rustix::io::read(source, &mut chunk) {
            Ok(length @ 1..) => self.pending.extend_from_slice(&chunk[..length]),
            Err(Errno::AGAIN | Errno::INTR) => {}
            // The input has ended, or its terminal is gone.
            Ok(_) | Err(_) => {
                self.unwatch();
                self.source = None;
            }
        }
    }

    /// Puts pending input into the guest's buffers, as far as there are any. Returns whether it put any there.
    fn give(&mut self, memory: &GuestMemoryMmap) -> Result<bool, Fault> {
        let mut given = false;
        let Some(ring) = &mut self.ring else { return Ok(false) };
        while !self.pending.is_empty() {
            let Some(chain) = ring.take_or_arm(memory)? else { break };
            let head = chain.head_index();
            let request = Request::of(memory, chain).and_then(|request| request.must_write(1).map(|()| request));
            let mut request = request.map_err(|cause| ring.chain_fault(head, cause))?;
            // As much as fits, which is at least a byte.
            let written = request.writer.write(&self.pending).unwrap_or(0);
            self.pending.drain(..written);
            ring.give_back(memory, head, written as u32)?;
            given = true;
        }
        Ok(given)
    }

    /// Watches the descriptor or stops watching it, as the invariant requires. Returns whether input is wanted.
    fn watch(&mut self) -> bool {
        let wanted = self.ring.is_some() && self.pending.is_empty() && self.source.is_some();
        if !wanted {
            self.unwatch();
        } else if let Some(source) = self.source.as_ref().filter(|_| self.pollable && !self.watched) {
            let event = EpollEvent::new(EventSet::IN, 0);
            self.watched = self.epoll.ctl(ControlOperation::Add, source.as_raw_fd(), event).is_ok();
            self.pollable = self.watched;
        }
        wanted
    }

    fn unwatch(&mut self) {
        if let Some(source) = self.source.as_ref().filter(|_| std::mem::take(&mut self.watched)) {
            let event = EpollEvent::default();
            // The descriptor was added and is still open.
            let _ = self.epoll.ctl(ControlOperation::Delete, source.as_raw_fd(), event);
        }
    }
}

impl Device for ConsoleDevice {
    fn id(&self) -> u32 {
        VIRTIO_ID_CONSOLE
    }

    fn features(&self) -> u64 {
        0
    }

    fn queue_sizes(&self) -> &'static [u16] {
        &[QUEUE_SIZE; 2]
    }

    fn config(&self) -> &[u8] {
        &[]
    }

    fn set_ring(&self, queue: u16, ring: Option<Ring>) {
        match queue {
            RECEIVE_QUEUE => self.set_receive_ring(ring),
            TRANSMIT_QUEUE => self.transmit.set_ring(ring),
            _ => {}
        }
    }

    fn queue_notify(&self, queue: u16) -> Progress {
        match queue {
            RECEIVE_QUEUE => self.feed(false),
            TRANSMIT_QUEUE => self.transmit.turn(CHAINS_PER_TURN, |request| self.print(request)),
            _ => Progress::Done,
        }
    }

    fn host_events(&self) -> Option<RawFd> {
        Some(self.epoll.as_raw_fd())
    }

    fn host_ready(&self) -> Progress {
        let ready = self.epoll.wait(0, &mut [EpollEvent::default()]).is_ok_and(|events| events > 0);
        self.feed(ready)
    }
}

impl fmt::Debug for ConsoleDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pending = self.input.lock().pending.len();
        f.debug_struct("ConsoleDevice").field("pending", &pending).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
