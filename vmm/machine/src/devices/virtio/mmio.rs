//! The virtio-mmio transport (virtio 1.2, section 4.2, version 2 registers).
//!
//! It decodes register accesses, runs the initialisation, checks queues, and hands working queues to the [`Device`]. It
//! does not look at buffers and has no thread. Configuration spaces are constant, so their generation is always 0.
//! There are no shared-memory regions.
//!
//! A turn of work reads `live`, under that lock, for as long as it lasts. A write that stops the device or a queue has
//! to take the lock for writing, and never waits for it: if a turn is under way, the write has no effect, `stopping`
//! keeps further turns from beginning, and the vCPU makes the write again later. So a vCPU does not wait on its pCPU
//! for a disk, and when a write has stopped a queue, no work in it is under way.
//!
//! Lock order: the registers' lock comes before `live` and any lock of this device, and it is not held while a queue
//! notification is processed, because that work reaches other devices.

use std::os::fd::RawFd;
use std::sync::Arc;

use virtio_bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_bindings::virtio_mmio as reg;
use virtio_bindings::virtio_ring::{VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC};
use vm_memory::GuestMemoryMmap;

use super::queue_regs::{QueueRegs, set_half};
use super::status::{NEEDS_RESET, Status, Step};
use super::sync::{AtomicBool, Mutex, Ordering, RwLock, RwLockReadGuard};
use super::{Fault, Line, Ring};
use crate::devices::{MmioDevice, Written};

/// Size of a device's register window (units: bytes).
pub const MMIO_BYTES: u64 = 0x1000;

/// "virt", little-endian.
const MAGIC: u32 = u32::from_le_bytes(*b"virt");
/// Registers of virtio 1.0 and later.
const VERSION: u32 = 2;
/// "stil"; drivers do not look at it.
const VENDOR: u32 = u32::from_le_bytes(*b"stil");
const CONFIG: u64 = reg::VIRTIO_MMIO_CONFIG as u64;

/// What a device answers to a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// There is nothing to do until the next notification.
    Done,
    /// One turn of work was done, and there may be more.
    More,
}

/// The device behind the registers. All methods may be called from several threads at once.
pub trait Device: Send + Sync {
    /// Device type, a `VIRTIO_ID_*`.
    fn id(&self) -> u32;
    /// Features on offer. Every device has `VIRTIO_F_VERSION_1` and `VIRTIO_RING_F_EVENT_IDX` besides.
    fn features(&self) -> u64;
    /// Greatest size of each queue (units: descriptors), a power of two.
    fn queue_sizes(&self) -> &'static [u16];
    /// Configuration space, constant; bytes after its end read as 0.
    fn config(&self) -> &[u8];
    /// The driver has chosen these features; its queues follow.
    fn start(&self, _features: u64) {}
    /// The driver has set this queue up, or (`None`) has stopped using it. In the second case the queue is not in use
    /// any more when this returns. `queue` is always one that the device has.
    fn set_ring(&self, queue: u16, ring: Option<Ring>);
    /// The driver made chains available on this queue: does a bounded part of the work. Runs on the thread of the vCPU
    /// that rang, or on the worker of its VM.
    fn queue_notify(&self, queue: u16) -> Progress;
    /// Reset: ends all other work. No queue is in use any more.
    fn stop(&self) {}
    /// A descriptor that polls readable when the host has something for the device. `None`: the host never has, or the
    /// device has no worker.
    fn host_events(&self) -> Option<RawFd> {
        None
    }
    /// Takes a bounded part of what the host has for the device. Runs on the worker.
    fn host_ready(&self) -> Progress {
        Progress::Done
    }
}

/// One device behind virtio-mmio registers.
#[derive(Debug)]
pub struct MmioTransport<D> {
    device: D,
    memory: GuestMemoryMmap,
    line: Arc<Line>,
    registers: Mutex<Registers>,
    /// The driver is ready, and the device works.
    live: RwLock<bool>,
    /// A write that stops something has found a turn under way. Relaxed: a turn that begins all the same is one more to
    /// wait for.
    stopping: AtomicBool,
}

/// Why a write to a register was not carried out.
enum Refused {
    /// It breaks the rules.
    Fault(Fault),
    /// A turn is under way.
    Busy,
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

#[derive(Debug)]
struct Registers {
    status: Status,
    device_features_sel: u32,
    driver_features_sel: u32,
    driver_features: u64,
    queue_sel: u32,
    queues: Vec<QueueRegs>,
}

impl Registers {
    fn new(queue_sizes: &[u16]) -> Self {
        Self {
            status: Status::default(),
            device_features_sel: 0,
            driver_features_sel: 0,
            driver_features: 0,
            queue_sel: 0,
            queues: queue_sizes.iter().map(|&max| QueueRegs::new(max)).collect(),
        }
    }

    fn selected(&mut self) -> Option<&mut QueueRegs> {
        self.queues.get_mut(self.queue_sel as usize)
    }
}

impl<D: Device> MmioTransport<D> {
    /// Puts registers before a device. `line` is the line that the device uses, `memory` the memory of its VM.
    pub fn new(device: D, line: Arc<Line>, memory: GuestMemoryMmap) -> Self {
        let registers = Mutex::new(Registers::new(device.queue_sizes()));
        Self { device, memory, line, registers, live: RwLock::new(false), stopping: AtomicBool::new(false) }
    }

    /// The device behind the registers.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The device's interrupt line, with its faults.
    pub fn line(&self) -> &Line {
        &self.line
    }

    /// Handles a guest's read of `data.len()` bytes at `offset` from the start of the window. Offsets without a
    /// register read as 0.
    pub fn read(&self, offset: u64, data: &mut [u8]) {
        data.fill(0);
        if let Some(at) = offset.checked_sub(CONFIG) {
            let config = self.device.config();
            if let Some(rest) = usize::try_from(at).ok().and_then(|at| config.get(at..)) {
                let length = rest.len().min(data.len());
                data[..length].copy_from_slice(&rest[..length]);
            }
        } else if let (Ok(data), Ok(offset)) = (<&mut [u8; 4]>::try_from(data), u32::try_from(offset)) {
            *data = self.read_register(offset).to_le_bytes();
        }
    }

    /// Handles a guest's write of `data` at `offset` from the start of the window. Configuration space is read-only.
    /// Writes to it, and writes that are not one whole register, do nothing.
    pub fn write(&self, offset: u64, data: &[u8]) -> Written {
        let (Ok(data), Ok(offset)) = (<[u8; 4]>::try_from(data), u32::try_from(offset)) else { return Written::Done };
        let value = u32::from_le_bytes(data);
        // This needs no register: the work may take long and reaches other devices.
        if offset == reg::VIRTIO_MMIO_QUEUE_NOTIFY {
            let queue = u16::try_from(value).ok();
            let more = queue.filter(|queue| self.queue_turn(*queue) == Progress::More);
            return more.map_or(Written::Done, Written::More);
        }
        if offset >= reg::VIRTIO_MMIO_CONFIG {
            return Written::Done;
        }
        match self.write_register(offset, value) {
            Ok(()) => Written::Done,
            Err(Refused::Fault(fault)) => {
                self.line.fault(fault);
                Written::Done
            }
            Err(Refused::Busy) => Written::Busy,
        }
    }

    fn offered(&self) -> u64 {
        self.device.features() | 1 << VIRTIO_F_VERSION_1 | 1 << VIRTIO_RING_F_EVENT_IDX
    }

    fn read_register(&self, offset: u32) -> u32 {
        let mut registers = self.registers.lock();
        match offset {
            reg::VIRTIO_MMIO_MAGIC_VALUE => MAGIC,
            reg::VIRTIO_MMIO_VERSION => VERSION,
            reg::VIRTIO_MMIO_DEVICE_ID => self.device.id(),
            reg::VIRTIO_MMIO_VENDOR_ID => VENDOR,
            reg::VIRTIO_MMIO_DEVICE_FEATURES => half(self.offered(), registers.device_features_sel),
            reg::VIRTIO_MMIO_QUEUE_NUM_MAX => registers.selected().map_or(0, |queue| queue.max().into()),
            reg::VIRTIO_MMIO_QUEUE_READY => registers.selected().map_or(0, |queue| queue.ready.into()),
            reg::VIRTIO_MMIO_INTERRUPT_STATUS => self.line.pending(),
            reg::VIRTIO_MMIO_STATUS => {
                let own = if self.line.needs_reset() { NEEDS_RESET } else { 0 };
                u32::from(registers.status.bits() | own)
            }
            // A region that does not exist has all bits set, in its length and its base.
            reg::VIRTIO_MMIO_SHM_LEN_LOW
            | reg::VIRTIO_MMIO_SHM_LEN_HIGH
            | reg::VIRTIO_MMIO_SHM_BASE_LOW
            | reg::VIRTIO_MMIO_SHM_BASE_HIGH => u32::MAX,
            _ => 0,
        }
    }

    fn write_register(&self, offset: u32, value: u32) -> Result<(), Refused> {
        let mut registers = self.registers.lock();
        match offset {
            reg::VIRTIO_MMIO_DEVICE_FEATURES_SEL => registers.device_features_sel = value,
            reg::VIRTIO_MMIO_DRIVER_FEATURES_SEL => registers.driver_features_sel = value,
            reg::VIRTIO_MMIO_DRIVER_FEATURES => {
                let select = registers.driver_features_sel;
                if registers.status.features_open() && select <= 1 {
                    set_half(&mut registers.driver_features, value, select == 1);
                }
            }
            reg::VIRTIO_MMIO_QUEUE_SEL => registers.queue_sel = value,
            reg::VIRTIO_MMIO_QUEUE_READY => self.set_ready(&mut registers, value)?,
            reg::VIRTIO_MMIO_INTERRUPT_ACK => self.line.acknowledge(value),
            reg::VIRTIO_MMIO_STATUS => self.set_status(&mut registers, value as u8)?,
            _ => {
                // A ready queue's place is fixed: the driver has to stop the queue first.
                if let Some(queue) = registers.selected().filter(|queue| !queue.ready) {
                    write_queue_register(queue, offset, value);
                }
            }
        }
        Ok(())
    }

    /// Does a bounded part of the work that waits in a queue. Does nothing if the device is not ready or has no such
    /// queue.
    pub fn queue_turn(&self, queue: u16) -> Progress {
        let Some(live) = self.begin_turn() else { return Progress::More };
        if *live && !self.line.needs_reset() { self.device.queue_notify(queue) } else { Progress::Done }
    }

    /// Takes a bounded part of what the host has for the device.
    pub fn host_turn(&self) -> Progress {
        let Some(_live) = self.begin_turn() else { return Progress::More };
        self.device.host_ready()
    }

    /// Whether the driver is ready, and the device works.
    pub(super) fn is_live(&self) -> bool {
        *self.live.read()
    }

    /// Whether a vCPU waits for the end of a turn to start or stop the device or a queue.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Begins a turn, which lasts as long as the guard; `None` if a vCPU waits for the end of one.
    fn begin_turn(&self) -> Option<RwLockReadGuard<'_, bool>> {
        if self.is_stopping() { None } else { Some(self.live.read()) }
    }

    /// Starts or stops something while no turn is under way. A vCPU does not wait for the end of one, which may be long
    /// in coming if the host does not run the worker: its write is refused as busy, and comes again.
    fn between_turns(&self, change: impl FnOnce(&mut bool)) -> Result<(), Refused> {
        let live = self.live.try_write();
        self.stopping.store(live.is_none(), Ordering::Relaxed);
        change(&mut *live.ok_or(Refused::Busy)?);
        Ok(())
    }

    fn set_ready(&self, registers: &mut Registers, value: u32) -> Result<(), Refused> {
        let (index, status, event_idx) = (registers.queue_sel, registers.status, event_idx(registers.driver_features));
        let Some(queue) = registers.selected() else { return Ok(()) };
        let ready = value & 1 != 0;
        if ready {
            if !status.queues_open() || queue.ready {
                return Err(Fault::QueueTime { queue: index, status: status.bits() }.into());
            }
            // Checked now, so that the fault is reported at the write that caused it; built again at the start.
            queue.build(index, &self.memory, event_idx)?;
        } else if status.live() {
            // Queue indexes are below the device's number of queues, so they fit.
            self.between_turns(|_| self.device.set_ring(index as u16, None))?;
        }
        queue.ready = ready;
        Ok(())
    }

    fn set_status(&self, registers: &mut Registers, written: u8) -> Result<(), Refused> {
        match registers.status.step(written) {
            Step::Reset => {
                self.stop()?;
                self.line.reset();
                *registers = Registers::new(self.device.queue_sizes());
                return Ok(());
            }
            Step::Breach => {
                return Err(Fault::StatusOrder { current: registers.status.bits(), written }.into());
            }
            // The driver reads the status back and finds FEATURES_OK clear.
            Step::CheckFeatures if !self.acceptable(registers.driver_features) => return Ok(()),
            // A faulty device stays off until the reset that it asked for.
            Step::Start if self.line.needs_reset() => return Ok(()),
            Step::Start => self.start(registers)?,
            Step::GiveUp => self.stop()?,
            Step::CheckFeatures | Step::Note => {}
        }
        registers.status.set(written);
        Ok(())
    }

    fn acceptable(&self, features: u64) -> bool {
        features & !self.offered() == 0 && features & 1 << VIRTIO_F_VERSION_1 != 0
    }

    fn start(&self, registers: &Registers) -> Result<(), Refused> {
        let event_idx = event_idx(registers.driver_features);
        let indirect = registers.driver_features & 1 << VIRTIO_RING_F_INDIRECT_DESC != 0;
        let ready = (0u16..).zip(&registers.queues).filter(|(_, queue)| queue.ready);
        let ring = |(index, queue): (u16, &QueueRegs)| {
            Ok((index, Ring::new(queue.build(index.into(), &self.memory, event_idx)?, index, indirect)))
        };
        // All queues are checked before one is used.
        let rings = ready.map(ring).collect::<Result<Vec<_>, Fault>>()?;
        // What the host has for a device may be a turn's work before the device is live.
        self.between_turns(|live| {
            self.device.start(registers.driver_features);
            rings.into_iter().for_each(|(index, ring)| self.device.set_ring(index, Some(ring)));
            *live = true;
        })
    }

    fn stop(&self) -> Result<(), Refused> {
        self.between_turns(|live| {
            *live = false;
            (0u16..).zip(self.device.queue_sizes()).for_each(|(index, _)| self.device.set_ring(index, None));
            self.device.stop();
        })
    }
}

impl<D: Device> MmioDevice for MmioTransport<D> {
    fn read(&self, offset: u64, data: &mut [u8]) {
        Self::read(self, offset, data);
    }

    fn write(&self, offset: u64, data: &[u8]) -> Written {
        Self::write(self, offset, data)
    }

    fn notify(&self, queue: u16) -> Progress {
        self.queue_turn(queue)
    }
}

fn write_queue_register(queue: &mut QueueRegs, offset: u32, value: u32) {
    match offset {
        reg::VIRTIO_MMIO_QUEUE_NUM => queue.size = value,
        reg::VIRTIO_MMIO_QUEUE_DESC_LOW => set_half(&mut queue.descriptors, value, false),
        reg::VIRTIO_MMIO_QUEUE_DESC_HIGH => set_half(&mut queue.descriptors, value, true),
        reg::VIRTIO_MMIO_QUEUE_AVAIL_LOW => set_half(&mut queue.available, value, false),
        reg::VIRTIO_MMIO_QUEUE_AVAIL_HIGH => set_half(&mut queue.available, value, true),
        reg::VIRTIO_MMIO_QUEUE_USED_LOW => set_half(&mut queue.used, value, false),
        reg::VIRTIO_MMIO_QUEUE_USED_HIGH => set_half(&mut queue.used, value, true),
        _ => {}
    }
}

fn event_idx(features: u64) -> bool {
    features & 1 << VIRTIO_RING_F_EVENT_IDX != 0
}

/// The 32 bits of a feature word that the selector chooses.
fn half(features: u64, select: u32) -> u32 {
    match select {
        0 => features as u32,
        1 => (features >> 32) as u32,
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
