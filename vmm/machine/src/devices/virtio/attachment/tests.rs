use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, ThreadId};
use std::time::Duration;

use parking_lot::Mutex;
use stile_jail::Kind;
use virtio_bindings::virtio_mmio as reg;

use super::*;
use crate::devices::virtio::testing::*;
use crate::devices::virtio::{Fault, Progress, Ring};

const LIMIT: Duration = Duration::from_secs(60);

/// The calls of a device: the queue (`None`: the host's events) and the thread.
type Calls = Receiver<(Option<u16>, ThreadId)>;

/// Records its turns. Has so many of them in a row.
struct Probe {
    calls: Sender<(Option<u16>, ThreadId)>,
    turns: AtomicU32,
    host: EventFd,
    line: Arc<Line>,
    ring: Mutex<Option<Ring>>,
}

impl Probe {
    fn call(&self, queue: Option<u16>) -> Progress {
        let _ = self.calls.send((queue, thread::current().id()));
        self.line.used_buffers();
        match self.turns.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |turns| turns.checked_sub(1)) {
            Ok(_) => Progress::More,
            Err(_) => Progress::Done,
        }
    }
}

impl Device for Probe {
    fn id(&self) -> u32 {
        1
    }
    fn features(&self) -> u64 {
        0
    }
    fn queue_sizes(&self) -> &'static [u16] {
        &[64; 2]
    }
    fn config(&self) -> &[u8] {
        &[]
    }
    fn set_ring(&self, queue: u16, ring: Option<Ring>) {
        if queue == 0 {
            *self.ring.lock() = ring;
        }
    }
    fn queue_notify(&self, queue: u16) -> Progress {
        self.call(Some(queue))
    }
    fn host_events(&self) -> Option<RawFd> {
        Some(self.host.as_raw_fd())
    }
    fn host_ready(&self) -> Progress {
        self.host.read().unwrap();
        self.call(None)
    }
}

struct Guest {
    attachment: Attachment,
    host: EventFd,
    calls: Calls,
    queues: Vec<TestQueue>,
}

fn worker() -> Arc<Worker> {
    Worker::start("test", Kind::Device, Arc::new(|_: &str| {})).unwrap()
}

/// A device that has `turns` turns more than it was asked for, brought up through its registers.
fn guest(worker: &Arc<Worker>, turns: u32) -> Guest {
    let (memory, (sender, calls), host) = (guest_memory(), mpsc::channel(), event().unwrap());
    let rings = host.try_clone().unwrap();
    let attachment = Attachment::new(worker, "probe", &memory, |line| {
        Ok(Probe { calls: sender, turns: AtomicU32::new(turns), host: rings, line, ring: Mutex::default() })
    });
    let attachment = attachment.unwrap();
    let queues = bring_up_attached(&*attachment.mmio, &memory);
    Guest { attachment, host, calls, queues }
}

/// Brings a device with two queues up through its registers.
fn bring_up_attached(device: &dyn MmioDevice, memory: &GuestMemoryMmap) -> Vec<TestQueue> {
    let write = |register: u32, value: u32| {
        let _ = device.write(register.into(), &value.to_le_bytes());
    };
    [0, 1, 3].iter().for_each(|status| write(reg::VIRTIO_MMIO_STATUS, *status));
    write(reg::VIRTIO_MMIO_DRIVER_FEATURES_SEL, 1);
    write(reg::VIRTIO_MMIO_DRIVER_FEATURES, 1);
    write(reg::VIRTIO_MMIO_STATUS, 11);
    let queues: Vec<_> = (0..2).map(|index| TestQueue::new(memory.clone(), index, 16)).collect();
    queues.iter().for_each(|queue| queue.registers().for_each(|(register, value)| write(register, value)));
    write(reg::VIRTIO_MMIO_STATUS, 15);
    queues
}

impl Guest {
    /// The next call that the device gets.
    fn next(&self) -> Option<u16> {
        let (queue, thread) = self.calls.recv_timeout(LIMIT).expect("the worker does nothing");
        assert_ne!(thread, thread::current().id());
        queue
    }

    /// The two queues that the worker looks at when the driver becomes ready.
    fn started(self) -> Self {
        let mut first = [self.next(), self.next()];
        first.sort();
        assert_eq!(first, [Some(0), Some(1)]);
        self
    }
}

#[test]
fn queues_are_looked_at_when_the_driver_becomes_ready() {
    let worker = worker();
    let guest = guest(&worker, 0).started();
    assert_eq!(guest.queues.len(), 2);
}

#[test]
fn no_queue_is_rung_before_the_driver_is_ready() {
    let worker = worker();
    let (memory, (sender, _calls), host) = (guest_memory(), mpsc::channel(), event().unwrap());
    let interrupt = Arc::new(Interrupt::new().unwrap());
    let line = Arc::new(Line::named(interrupt, "probe".to_owned(), Arc::new(|_: &str| {})));
    let probe =
        Probe { calls: sender, turns: AtomicU32::new(0), host, line: Arc::clone(&line), ring: Mutex::default() };
    let events: Arc<[_]> = (0..2).map(|_| event().unwrap()).collect();
    let transport = Arc::new(MmioTransport::new(probe, line, memory.clone()));
    // No worker serves it, so that the events keep what was rung.
    let front = Front { transport, events, _worker: worker };
    bring_up_attached(&front, &memory);
    for event in front.events.iter() {
        assert_eq!(event.read().unwrap(), 1);
    }
}

#[test]
fn a_rung_event_and_a_notification_register_bring_the_worker_to_the_queue() {
    let worker = worker();
    let guest = guest(&worker, 0).started();
    guest.attachment.queue_events[1].write(1).unwrap();
    assert_eq!(guest.next(), Some(1));
    assert_eq!(guest.attachment.mmio.write(reg::VIRTIO_MMIO_QUEUE_NOTIFY.into(), &0u32.to_le_bytes()), Written::Done);
    assert_eq!(guest.next(), Some(0));
    assert_eq!(guest.attachment.mmio.notify(1), Progress::Done);
    assert_eq!(guest.next(), Some(1));
    // No queues, and nothing happens.
    assert_eq!(guest.attachment.mmio.write(reg::VIRTIO_MMIO_QUEUE_NOTIFY.into(), &7u32.to_le_bytes()), Written::Done);
    assert_eq!(guest.attachment.mmio.write(reg::VIRTIO_MMIO_QUEUE_NOTIFY.into(), &[0]), Written::Done);
    guest.host.write(1).unwrap();
    assert_eq!(guest.next(), None);
}

#[test]
fn a_device_with_more_to_do_gets_turn_after_turn_and_then_rests() {
    let worker = worker();
    let guest = guest(&worker, 5);
    for _ in 0..7 {
        assert!(guest.next().is_some());
    }
    guest.host.write(1).unwrap();
    assert_eq!(guest.next(), None);
    assert!(guest.calls.try_recv().is_err());
}

#[test]
fn a_device_that_never_rests_does_not_keep_another_one_from_its_turn() {
    let worker = worker();
    let busy = guest(&worker, u32::MAX);
    let other = guest(&worker, 0).started();
    other.attachment.queue_events[0].write(1).unwrap();
    assert_eq!(other.next(), Some(0));
    assert!(busy.next().is_some());
}

#[test]
fn the_interrupt_rings_when_the_device_has_something() {
    let worker = worker();
    let guest = guest(&worker, 0).started();
    guest.host.write(1).unwrap();
    assert_eq!(guest.next(), None);
    drop(worker);
    let Guest { attachment: Attachment { mmio, interrupt, .. }, .. } = guest;
    let mut status = [0; 4];
    mmio.read(reg::VIRTIO_MMIO_INTERRUPT_STATUS.into(), &mut status);
    drop(mmio);
    assert!(interrupt.event().read().unwrap() > 0);
}

#[test]
fn the_last_attachment_takes_worker_and_devices_with_it() {
    let worker = worker();
    let (first, second) = (guest(&worker, u32::MAX), guest(&worker, 0));
    drop(worker);
    drop(first.attachment);
    let second = second.started();
    drop(second.attachment);
    // Both devices are gone, and with them their ends of the channels.
    assert!(first.calls.iter().count() > 0);
    assert_eq!(second.calls.iter().count(), 0);
}

#[test]
fn a_device_that_cannot_be_made_says_why() {
    let worker = worker();
    let made = Attachment::new(&worker, "probe", &guest_memory(), |_| Err::<Probe, _>("no such thing".into()));
    assert_eq!(made.unwrap_err().to_string(), "no such thing");
}

#[test]
fn a_fault_is_told_with_the_names_of_vm_and_device() {
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let ears = Arc::clone(&heard);
    let worker =
        Worker::start("web", Kind::Device, Arc::new(move |text: &str| ears.lock().push(text.to_owned()))).unwrap();
    let memory = guest_memory();
    let (calls, _) = mpsc::channel();
    let attachment = Attachment::new(&worker, "virtio-probe", &memory, |line| {
        line.fault(Fault::QueueOutside { queue: 1 });
        Ok(Probe { calls, turns: AtomicU32::new(0), host: event().unwrap(), line, ring: Mutex::default() })
    });
    attachment.unwrap();
    let text = "VM web: virtio-probe: turned off until its driver resets it: queue 1 lies outside of guest memory";
    assert_eq!(*heard.lock(), [text]);
}

/// A device whose host does not answer, until the channel ends. Its queue is stopped under the same lock as in sound
/// devices.
struct Hangs {
    began: Sender<()>,
    answer: Mutex<Receiver<()>>,
}

impl Device for Hangs {
    fn id(&self) -> u32 {
        2
    }
    fn features(&self) -> u64 {
        0
    }
    fn queue_sizes(&self) -> &'static [u16] {
        &[64; 2]
    }
    fn config(&self) -> &[u8] {
        &[]
    }
    fn set_ring(&self, _queue: u16, _ring: Option<Ring>) {
        drop(self.answer.lock());
    }
    fn queue_notify(&self, _queue: u16) -> Progress {
        let answer = self.answer.lock();
        let _ = self.began.send(());
        let _ = answer.recv();
        Progress::Done
    }
}

#[test]
fn a_reset_and_the_stop_of_a_queue_do_not_wait_for_a_turn_under_way() {
    let worker = worker();
    let (memory, (began, begins), (answers, answer)) = (guest_memory(), mpsc::channel(), mpsc::channel());
    let attachment = Attachment::new(&worker, "disk", &memory, |_| Ok(Hangs { began, answer: Mutex::new(answer) }));
    let attachment = Arc::new(attachment.unwrap());
    bring_up_attached(&*attachment.mmio, &memory);
    begins.recv_timeout(LIMIT).expect("a turn begins");
    for (register, value) in [(reg::VIRTIO_MMIO_STATUS, 0u32), (reg::VIRTIO_MMIO_QUEUE_READY, 0)] {
        let (through, passed) = mpsc::channel();
        let of_vcpu = Arc::clone(&attachment);
        thread::spawn(move || {
            assert_eq!(of_vcpu.mmio.write(register.into(), &value.to_le_bytes()), Written::Busy);
            // Another vCPU reads a register meanwhile.
            of_vcpu.mmio.read(reg::VIRTIO_MMIO_STATUS.into(), &mut [0; 4]);
            through.send(()).unwrap();
        });
        passed.recv_timeout(Duration::from_secs(5)).expect("the vCPU waits for the worker's turn on its pCPU");
    }
    drop(answers);
    // The write is made again until the turn is over. No other turn begins meanwhile.
    while attachment.mmio.write(reg::VIRTIO_MMIO_STATUS.into(), &[0; 4]) == Written::Busy {}
    let mut status = [1; 4];
    attachment.mmio.read(reg::VIRTIO_MMIO_STATUS.into(), &mut status);
    assert_eq!(status, [0; 4]);
}
