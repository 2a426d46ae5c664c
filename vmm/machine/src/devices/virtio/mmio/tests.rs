use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use parking_lot::Mutex;

use super::*;
use crate::devices::Written;
use crate::devices::virtio::testing::*;

/// Records the calls of the transport.
#[derive(Default)]
struct Probe {
    rings: Mutex<[bool; 2]>,
    features: AtomicU64,
    notified: AtomicU64,
    stops: AtomicU64,
}

impl Device for Probe {
    fn id(&self) -> u32 {
        1
    }
    fn features(&self) -> u64 {
        1 << 5
    }
    fn queue_sizes(&self) -> &'static [u16] {
        &[256, 64]
    }
    fn config(&self) -> &[u8] {
        &[1, 2, 3, 4, 5, 6]
    }
    fn start(&self, features: u64) {
        self.features.store(features, Ordering::SeqCst);
    }
    fn set_ring(&self, queue: u16, ring: Option<Ring>) {
        self.rings.lock()[usize::from(queue)] = ring.is_some();
    }
    fn queue_notify(&self, queue: u16) -> Progress {
        self.notified.fetch_add(1 << (8 * queue), Ordering::SeqCst);
        Progress::Done
    }
    fn stop(&self) {
        self.stops.fetch_add(1, Ordering::SeqCst);
    }
}

fn probe() -> (MmioTransport<Probe>, Arc<Bell>) {
    let bell = bell();
    let line = Arc::new(Line::new(Arc::clone(&bell) as _));
    (MmioTransport::new(Probe::default(), line, guest_memory()), bell)
}

fn status<D: Device>(device: &MmioTransport<D>) -> u32 {
    read32(device, reg::VIRTIO_MMIO_STATUS)
}

#[test]
fn identity_and_features_can_be_read() {
    let (device, _) = probe();
    assert_eq!(read32(&device, 0x000), 0x7472_6976);
    assert_eq!(read32(&device, 0x004), 2);
    assert_eq!(read32(&device, 0x008), 1);
    let mut features = 0;
    for half in [0, 1] {
        write32(&device, reg::VIRTIO_MMIO_DEVICE_FEATURES_SEL, half);
        features |= u64::from(read32(&device, reg::VIRTIO_MMIO_DEVICE_FEATURES)) << (32 * half);
    }
    assert_eq!(features, 1 << 5 | 1 << 29 | 1 << 32);
    write32(&device, reg::VIRTIO_MMIO_DEVICE_FEATURES_SEL, 2);
    assert_eq!(read32(&device, reg::VIRTIO_MMIO_DEVICE_FEATURES), 0);
}

#[test]
fn what_linux_looks_for_and_is_not_there_reads_as_the_rules_say() {
    let (device, _) = probe();
    for (register, value) in [(0x0b0, !0), (0x0b4, !0), (0x0b8, !0), (0x0bc, !0), (0x0fc, 0)] {
        assert_eq!(read32(&device, register), value, "{register:#x}");
    }
}

#[test]
fn queue_limits_follow_the_selector_and_absent_queues_have_none() {
    let (device, _) = probe();
    for (queue, max) in [(0, 256), (1, 64), (2, 0), (u32::MAX, 0)] {
        write32(&device, reg::VIRTIO_MMIO_QUEUE_SEL, queue);
        assert_eq!(read32(&device, reg::VIRTIO_MMIO_QUEUE_NUM_MAX), max);
    }
}

#[test]
fn configuration_space_reads_by_any_width_and_ends_in_zeros() {
    let (device, _) = probe();
    let mut byte = [0xaa];
    device.read(0x103, &mut byte);
    assert_eq!(byte, [4]);
    let mut eight = [0xaa; 8];
    device.read(0x102, &mut eight);
    assert_eq!(eight, [3, 4, 5, 6, 0, 0, 0, 0]);
    device.read(u64::MAX, &mut eight);
    assert_eq!(eight, [0; 8]);
}

#[test]
fn accesses_that_are_not_one_register_do_nothing() {
    let (device, _) = probe();
    let mut two = [0xaa; 2];
    device.read(0, &mut two);
    assert_eq!(two, [0; 2]);
    let _ = device.write(reg::VIRTIO_MMIO_STATUS.into(), &[1]);
    let _ = device.write(0x104, &[9; 4]);
    let _ = device.write(u64::MAX, &[9; 4]);
    assert_eq!(status(&device), 0);
    assert_eq!(device.line().faults(), 0);
}

#[test]
fn an_orderly_driver_gets_its_queues() {
    let (device, bell) = probe();
    let queues = bring_up(&device, &guest_memory(), 1 << 5, 64);
    assert_eq!(*device.device().rings.lock(), [true, true]);
    assert_eq!(device.device().features.load(Ordering::SeqCst), VERSION_1 | 1 << 5);
    queues[1].ring(&device);
    assert_eq!(device.device().notified.load(Ordering::SeqCst), 1 << 8);
    assert_eq!(MmioDevice::notify(&device, 0), Progress::Done);
    assert_eq!(device.device().notified.load(Ordering::SeqCst), 1 << 8 | 1);
    assert_eq!(bell.rung(), 0);
}

#[test]
fn a_queue_that_was_not_set_up_stays_absent() {
    let (device, _) = probe();
    negotiate(&device, VERSION_1);
    TestQueue::new(guest_memory(), 1, 64).set_up(&device);
    write32(&device, reg::VIRTIO_MMIO_STATUS, 15);
    assert_eq!(*device.device().rings.lock(), [false, true]);
}

#[test]
fn features_that_were_not_offered_or_lack_version_1_are_not_accepted() {
    for features in [VERSION_1 | 1 << 40, VERSION_1 | 1 << 15, 1 << 5] {
        let (device, _) = probe();
        negotiate(&device, features);
        assert_eq!(status(&device), 3, "{features:#x}");
        assert_eq!(device.line().faults(), 0);
    }
}

#[test]
fn a_skipped_step_turns_the_device_off_and_is_reported() {
    let (device, bell) = probe();
    write32(&device, reg::VIRTIO_MMIO_STATUS, 1);
    write32(&device, reg::VIRTIO_MMIO_STATUS, 5);
    assert_eq!(status(&device), 1 | 0x40);
    assert_eq!((device.line().faults(), bell.rung()), (1, 1));
    assert!(matches!(device.line().first_fault(), Some(Fault::StatusOrder { current: 1, written: 5 })));
    assert_eq!(read32(&device, reg::VIRTIO_MMIO_INTERRUPT_STATUS), 2);
    write32(&device, reg::VIRTIO_MMIO_INTERRUPT_ACK, 2);
    assert_eq!(read32(&device, reg::VIRTIO_MMIO_INTERRUPT_STATUS), 0);
}

#[test]
fn the_first_fault_alone_is_told_with_name_and_causes() {
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let (ears, bell) = (Arc::clone(&heard), bell());
    let tell = Arc::new(move |text: &str| ears.lock().push(text.to_owned()));
    let line = Arc::new(Line::named(bell, "VM a: virtio-probe".to_owned(), tell));
    let device = MmioTransport::new(Probe::default(), line, guest_memory());
    negotiate(&device, VERSION_1);
    write32(&device, reg::VIRTIO_MMIO_QUEUE_NUM, 3);
    for _ in 0..2 {
        write32(&device, reg::VIRTIO_MMIO_QUEUE_READY, 1);
    }
    assert_eq!(device.line().faults(), 2);
    let heard = heard.lock();
    let [only] = heard.as_slice() else { panic!("{heard:?}") };
    assert!(only.starts_with("VM a: virtio-probe: turned off until its driver resets it: queue 0"), "{only}");
    assert!(only.contains("cannot be set up: "), "{only}");
}

#[test]
fn after_a_reset_the_device_can_be_brought_up_again() {
    let (device, _) = probe();
    write32(&device, reg::VIRTIO_MMIO_STATUS, 4);
    assert_eq!(status(&device), 0x40);
    bring_up(&device, &guest_memory(), 0, 64);
    assert_eq!(device.line().faults(), 1);
    write32(&device, reg::VIRTIO_MMIO_STATUS, 0);
    assert_eq!(status(&device), 0);
    assert_eq!(*device.device().rings.lock(), [false; 2]);
    assert_eq!(read32(&device, reg::VIRTIO_MMIO_QUEUE_READY), 0);
}

#[test]
fn notifications_before_the_start_or_after_a_fault_do_nothing() {
    let (device, _) = probe();
    let notify = || {
        write32(&device, reg::VIRTIO_MMIO_QUEUE_NOTIFY, 0);
        assert_eq!(MmioDevice::notify(&device, 0), Progress::Done);
    };
    notify();
    bring_up(&device, &guest_memory(), 0, 64);
    write32(&device, reg::VIRTIO_MMIO_STATUS, 1);
    notify();
    assert_eq!(device.device().notified.load(Ordering::SeqCst), 0);
}

#[test]
fn a_queue_with_a_bad_size_alignment_or_place_is_a_fault() {
    let bad: [(u32, u32); 10] = [
        (reg::VIRTIO_MMIO_QUEUE_NUM, 0),
        (reg::VIRTIO_MMIO_QUEUE_NUM, 3),
        (reg::VIRTIO_MMIO_QUEUE_NUM, 512),
        (reg::VIRTIO_MMIO_QUEUE_NUM, 0x1_0040),
        (reg::VIRTIO_MMIO_QUEUE_DESC_LOW, 0x1008),
        (reg::VIRTIO_MMIO_QUEUE_AVAIL_LOW, 0x1001),
        (reg::VIRTIO_MMIO_QUEUE_AVAIL_LOW, 0),
        (reg::VIRTIO_MMIO_QUEUE_USED_LOW, 0x1002),
        (reg::VIRTIO_MMIO_QUEUE_DESC_HIGH, 1),
        (reg::VIRTIO_MMIO_QUEUE_USED_LOW, MEMORY_BYTES as u32 - 8),
    ];
    for (register, value) in bad {
        let (device, _) = probe();
        negotiate(&device, VERSION_1);
        TestQueue::new(guest_memory(), 0, 64).set_up(&device);
        write32(&device, reg::VIRTIO_MMIO_QUEUE_READY, 0);
        write32(&device, register, value);
        write32(&device, reg::VIRTIO_MMIO_QUEUE_READY, 1);
        assert_eq!(device.line().faults(), 1, "{register:#x} = {value:#x}");
        assert_eq!(read32(&device, reg::VIRTIO_MMIO_QUEUE_READY), 0);
    }
}

#[test]
fn a_queue_set_up_at_the_wrong_time_is_a_fault() {
    let (device, _) = probe();
    TestQueue::new(guest_memory(), 0, 64).set_up(&device);
    assert!(matches!(device.line().first_fault(), Some(Fault::QueueTime { queue: 0, status: 0 })));

    let (device, _) = probe();
    bring_up(&device, &guest_memory(), 0, 64)[0].set_up(&device);
    assert_eq!(device.line().faults(), 1);
}

#[test]
fn a_queue_can_be_stopped_alone() {
    let (device, _) = probe();
    bring_up(&device, &guest_memory(), 0, 64);
    write32(&device, reg::VIRTIO_MMIO_QUEUE_SEL, 0);
    write32(&device, reg::VIRTIO_MMIO_QUEUE_READY, 0);
    assert_eq!(*device.device().rings.lock(), [false, true]);
    assert_eq!((status(&device), device.line().faults()), (15, 0));
}

#[test]
fn a_driver_that_gives_up_stops_the_device() {
    let (device, _) = probe();
    bring_up(&device, &guest_memory(), 0, 64);
    write32(&device, reg::VIRTIO_MMIO_STATUS, 0x80);
    assert_eq!(*device.device().rings.lock(), [false; 2]);
    assert_eq!((status(&device), device.line().faults()), (0x80, 0));
}

/// Has a turn for the host that lasts until it is told to end.
struct Hangs {
    began: Mutex<mpsc::Sender<()>>,
    ends: Mutex<mpsc::Receiver<()>>,
}

impl Device for Hangs {
    fn id(&self) -> u32 {
        1
    }
    fn features(&self) -> u64 {
        0
    }
    fn queue_sizes(&self) -> &'static [u16] {
        &[]
    }
    fn config(&self) -> &[u8] {
        &[]
    }
    fn set_ring(&self, _queue: u16, _ring: Option<Ring>) {}
    fn queue_notify(&self, _queue: u16) -> Progress {
        Progress::Done
    }
    fn host_ready(&self) -> Progress {
        let _ = self.began.lock().send(());
        let _ = self.ends.lock().recv();
        Progress::Done
    }
}

#[test]
fn a_start_does_not_wait_for_a_turn_under_way() {
    let ((began, begins), (end, ends)) = (mpsc::channel(), mpsc::channel());
    let hangs = Hangs { began: Mutex::new(began), ends: Mutex::new(ends) };
    let device = Arc::new(MmioTransport::new(hangs, Arc::new(Line::new(bell() as _)), guest_memory()));
    negotiate(&device, VERSION_1);
    let of_worker = Arc::clone(&device);
    let turn = std::thread::spawn(move || of_worker.host_turn());
    begins.recv().unwrap();
    let start = || device.write(reg::VIRTIO_MMIO_STATUS.into(), &15u32.to_le_bytes());
    assert_eq!((start(), status(&device)), (Written::Busy, 11));
    drop(end);
    assert_eq!(turn.join().unwrap(), Progress::Done);
    assert_eq!((start(), status(&device)), (Written::Done, 15));
}
