//! A driver for tests. It sets a device up through its registers and works its rings by hand, rightly or wrongly.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use virtio_bindings::virtio_mmio as reg;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use super::{Device, Line, MmioTransport, Notify, Progress, cost};
use crate::devices::Written;

pub(crate) const WRITE: u16 = 2;
pub(crate) const NEXT: u16 = 1;
pub(crate) const INDIRECT: u16 = 4;
pub(crate) const EVENT_IDX: u64 = 1 << 29;
pub(crate) const VERSION_1: u64 = 1 << 32;
/// Memory of a test guest.
pub(crate) const MEMORY_BYTES: u64 = 4 << 20;

const QUEUES_AT: u64 = 0x1_0000;
const QUEUE_BYTES: u64 = 0x1_0000;
const AVAILABLE: u64 = 0x4000;
const USED: u64 = 0x8000;

/// Counts its calls.
#[derive(Debug, Default)]
pub(crate) struct Bell(AtomicU64);

impl Notify for Bell {
    fn notify(&self) {
        super::cost::wake();
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Bell {
    pub(crate) fn rung(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

pub(crate) fn guest_memory() -> GuestMemoryMmap {
    GuestMemoryMmap::from_ranges(&[(GuestAddress(0), MEMORY_BYTES as usize)]).unwrap()
}

pub(crate) fn read32<D: Device>(device: &MmioTransport<D>, register: u32) -> u32 {
    let mut data = [0xaa; 4];
    device.read(register.into(), &mut data);
    u32::from_le_bytes(data)
}

pub(crate) fn write32<D: Device>(device: &MmioTransport<D>, register: u32, value: u32) {
    // As a vCPU does, except that a device's turn is never on another thread here.
    match cost::of(|| device.write(register.into(), &value.to_le_bytes())) {
        Written::Done => {}
        Written::More(queue) => while cost::of(|| device.queue_turn(queue)) == Progress::More {},
        Written::Busy => panic!("another thread has a turn"),
    }
}

/// Walks through the initialisation up to FEATURES_OK.
pub(crate) fn negotiate<D: Device>(device: &MmioTransport<D>, features: u64) {
    for status in [0, 1, 3] {
        write32(device, reg::VIRTIO_MMIO_STATUS, status);
    }
    for half in [0, 1] {
        write32(device, reg::VIRTIO_MMIO_DRIVER_FEATURES_SEL, half);
        write32(device, reg::VIRTIO_MMIO_DRIVER_FEATURES, (features >> (32 * half)) as u32);
    }
    write32(device, reg::VIRTIO_MMIO_STATUS, 11);
}

/// Brings the whole device up with queues of `size` descriptors.
pub(crate) fn bring_up<D: Device>(
    device: &MmioTransport<D>,
    memory: &GuestMemoryMmap,
    features: u64,
    size: u16,
) -> Vec<TestQueue> {
    negotiate(device, VERSION_1 | features);
    let count = device.device().queue_sizes().len() as u16;
    let queues: Vec<_> = (0..count).map(|index| TestQueue::new(memory.clone(), index, size)).collect();
    for queue in &queues {
        queue.set_up(device);
    }
    write32(device, reg::VIRTIO_MMIO_STATUS, 15);
    assert_eq!(read32(device, reg::VIRTIO_MMIO_STATUS), 15);
    queues
}

/// The driver's side of one queue.
pub(crate) struct TestQueue {
    memory: GuestMemoryMmap,
    index: u16,
    size: u16,
    base: u64,
    offered: u16,
    seen: u16,
}

impl TestQueue {
    pub(crate) fn new(memory: GuestMemoryMmap, index: u16, size: u16) -> Self {
        let base = QUEUES_AT + u64::from(index) * QUEUE_BYTES;
        Self { memory, index, size, base, offered: 0, seen: 0 }
    }

    /// The register writes that set the queue up at its place.
    pub(crate) fn registers(&self) -> impl Iterator<Item = (u32, u32)> {
        let places = [
            (reg::VIRTIO_MMIO_QUEUE_SEL, u64::from(self.index)),
            (reg::VIRTIO_MMIO_QUEUE_NUM, self.size.into()),
            (reg::VIRTIO_MMIO_QUEUE_DESC_LOW, self.base),
            (reg::VIRTIO_MMIO_QUEUE_DESC_HIGH, self.base >> 32),
            (reg::VIRTIO_MMIO_QUEUE_AVAIL_LOW, self.base + AVAILABLE),
            (reg::VIRTIO_MMIO_QUEUE_AVAIL_HIGH, 0),
            (reg::VIRTIO_MMIO_QUEUE_USED_LOW, self.base + USED),
            (reg::VIRTIO_MMIO_QUEUE_USED_HIGH, 0),
            (reg::VIRTIO_MMIO_QUEUE_READY, 1),
        ];
        places.into_iter().map(|(register, value)| (register, value as u32))
    }

    /// Makes the queue ready through its registers.
    pub(crate) fn set_up<D: Device>(&self, device: &MmioTransport<D>) {
        self.registers().for_each(|(register, value)| write32(device, register, value));
    }

    pub(crate) fn describe(&self, at: u16, address: u64, length: u32, flags: u16, next: u16) {
        let at = self.base + 16 * u64::from(at);
        self.put(at, address);
        self.put(at + 8, length);
        self.put(at + 12, flags);
        self.put(at + 14, next);
    }

    /// Makes the chain that starts at `head` available, without ringing.
    pub(crate) fn offer(&mut self, head: u16) {
        self.put(self.base + AVAILABLE + 4 + 2 * u64::from(self.offered % self.size), head);
        self.offered = self.offered.wrapping_add(1);
        self.put(self.base + AVAILABLE + 2, self.offered);
    }

    /// Claims that this many chains were offered.
    pub(crate) fn claim_offered(&self, count: u16) {
        self.put(self.base + AVAILABLE + 2, count);
    }

    pub(crate) fn ring<D: Device>(&self, device: &MmioTransport<D>) {
        write32(device, reg::VIRTIO_MMIO_QUEUE_NOTIFY, self.index.into());
    }

    /// The next chain that the device gave back: head and length.
    pub(crate) fn used(&mut self) -> Option<(u32, u32)> {
        if self.seen == self.get::<u16>(self.base + USED + 2) {
            return None;
        }
        let at = self.base + USED + 4 + 8 * u64::from(self.seen % self.size);
        self.seen = self.seen.wrapping_add(1);
        Some((self.get(at), self.get(at + 4)))
    }

    /// Sets what the driver wants to be interrupted for: the flag without event indexes, the used index with them.
    pub(crate) fn wish(&self, no_interrupt: bool, used_event: u16) {
        self.put(self.base + AVAILABLE, u16::from(no_interrupt));
        self.put(self.base + AVAILABLE + 4 + 2 * u64::from(self.size), used_event);
    }

    /// Whether the device asks the driver not to ring (without event indexes).
    pub(crate) fn no_kick(&self) -> bool {
        self.get::<u16>(self.base + USED) & 1 != 0
    }

    /// Makes the rings as a driver gives them to a device that has been reset.
    #[cfg(shuttle)]
    pub(crate) fn clear(&mut self) {
        self.memory.write_slice(&[0; QUEUE_BYTES as usize], GuestAddress(self.base)).unwrap();
        (self.offered, self.seen) = (0, 0);
    }

    /// Whether the device wants to hear of the chain that was offered last.
    #[cfg(shuttle)]
    pub(crate) fn wants_ring(&self, event_idx: bool) -> bool {
        let event = self.get::<u16>(self.base + USED + 4 + 8 * u64::from(self.size));
        if event_idx { event == self.offered.wrapping_sub(1) } else { !self.no_kick() }
    }

    /// Asks for an interrupt for the next chain that the device gives back.
    #[cfg(shuttle)]
    pub(crate) fn await_used(&self) {
        self.wish(false, self.seen);
    }

    fn put<T: vm_memory::ByteValued>(&self, at: u64, value: T) {
        self.memory.write_obj(value, GuestAddress(at)).unwrap();
    }

    fn get<T: vm_memory::ByteValued>(&self, at: u64) -> T {
        self.memory.read_obj(GuestAddress(at)).unwrap()
    }
}

pub(crate) fn bell() -> Arc<Bell> {
    Arc::default()
}

/// Descriptors in each queue of a [`Rig`].
pub(crate) const RIG_SIZE: u16 = 16;
/// Where a [`Rig`]'s buffers may lie.
pub(crate) const BUFFERS: u64 = 0x10_0000;

/// A device with a test's driver, set up and ready.
pub(crate) struct Rig<D> {
    pub(crate) device: MmioTransport<D>,
    pub(crate) memory: GuestMemoryMmap,
    pub(crate) bell: Arc<Bell>,
    pub(crate) queues: Vec<TestQueue>,
}

impl<D: Device> Rig<D> {
    pub(crate) fn new(features: u64, make: impl FnOnce(GuestMemoryMmap, Arc<Line>) -> D) -> Self {
        let (memory, bell) = (guest_memory(), bell());
        let line = Arc::new(Line::new(Arc::clone(&bell) as _));
        let device = MmioTransport::new(make(memory.clone(), Arc::clone(&line)), line, memory.clone());
        let queues = bring_up(&device, &memory, features, RIG_SIZE);
        Self { device, memory, bell, queues }
    }

    /// Resets the device and brings it up again, its rings empty.
    pub(crate) fn reset(&mut self, features: u64) {
        write32(&self.device, reg::VIRTIO_MMIO_STATUS, 0);
        self.put(QUEUES_AT, &[0; 3 * QUEUE_BYTES as usize]);
        self.queues = bring_up(&self.device, &self.memory, features, RIG_SIZE);
    }

    /// Makes a chain available, its buffers (address, length, flags but for `NEXT`) in descriptors from `head` on.
    pub(crate) fn offer(&mut self, queue: usize, head: u16, buffers: &[(u64, u32, u16)]) {
        let queue = &mut self.queues[queue];
        for (at, (address, length, flags)) in (head..).zip(buffers) {
            let last = usize::from(at - head) + 1 == buffers.len();
            let next = if last { 0 } else { NEXT };
            queue.describe(at, *address, *length, flags | next, at + 1);
        }
        queue.offer(head);
    }

    pub(crate) fn ring(&self, queue: usize) {
        self.queues[queue].ring(&self.device);
    }

    /// Lets the device take what the host has, as its worker does.
    pub(crate) fn host(&self) {
        while cost::of(|| self.device.device().host_ready()) == Progress::More {}
    }

    pub(crate) fn used(&mut self, queue: usize) -> Option<(u32, u32)> {
        self.queues[queue].used()
    }

    pub(crate) fn put(&self, at: u64, bytes: &[u8]) {
        self.memory.write_slice(bytes, GuestAddress(at)).unwrap();
    }

    pub(crate) fn get(&self, at: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.memory.read_slice(&mut bytes, GuestAddress(at)).unwrap();
        bytes
    }

    /// The driver's first fault, with its causes.
    pub(crate) fn fault(&self) -> Option<String> {
        self.device.line().first_fault().map(|fault| format!("{fault:?}"))
    }
}
