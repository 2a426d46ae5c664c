//! The worker of a VM beside vCPUs: random schedules of notifications, interrupts, resets and ends.
//!
//! Two devices share one worker. The driver of each rings only if the device asks for it, sleeps until an interrupt
//! comes, and resets its device or stops its queue in the midst of work. Another vCPU of the same guest rings for
//! nothing. Each thread may be the last that has the VM. Checked is that
//! * a chain that was offered comes back, with an interrupt if the driver waits for one;
//! * once a write has stopped a device or a queue, no turn is under way and no interrupt follows;
//! * the end of the last owner ends the worker and drops the devices, whatever work waits.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Weak};

use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::RandomScheduler;
use shuttle::{Config, MaxSteps, Runner, thread};
use stile_jail::Kind;
use virtio_bindings::virtio_mmio as reg;

use super::sync::step;
use super::testing::{BUFFERS, EVENT_IDX, TestQueue, VERSION_1, WRITE, guest_memory};
use super::{Attachment, Device, Line, Progress, RequestQueue, Ring, Worker};
use crate::devices::Written;
use vm_memory::GuestMemoryMmap;

const SEED: u64 = 16;
const SCHEDULES: usize = 3000;
/// A schedule takes some thousands. What is lost is waited for until these are used up.
const MOST_STEPS: usize = 300_000;
const DEVICES: usize = 2;
/// What a driver does, one after the other.
const ROUNDS: usize = 4;
/// Chains that are offered at a time.
const MOST_CHAINS: u16 = 3;
/// Requests that are answered in a turn; so some turns leave work.
const REQUESTS_PER_TURN: usize = 2;
const QUEUE_SIZE: u16 = 16;
const CHAIN_BYTES: u32 = 8;

fn random(below: usize) -> usize {
    thread_rng().gen_range(0..below)
}

/// Others may have their turns for some steps.
fn wander() {
    (0..random(20)).for_each(|_| step());
}

/// A turn of the device is under way.
type Works = Arc<AtomicBool>;

/// Answers each request at once.
struct Echo {
    queue: RequestQueue,
    works: Works,
}

impl Device for Echo {
    fn id(&self) -> u32 {
        1
    }

    fn features(&self) -> u64 {
        0
    }

    fn queue_sizes(&self) -> &'static [u16] {
        &[QUEUE_SIZE]
    }

    fn config(&self) -> &[u8] {
        &[]
    }

    fn set_ring(&self, _queue: u16, ring: Option<Ring>) {
        assert!(!self.works.load(SeqCst), "a queue is stopped or started in the midst of a turn");
        self.queue.set_ring(ring);
    }

    fn queue_notify(&self, _queue: u16) -> Progress {
        assert!(!self.works.swap(true, SeqCst), "two turns at a time");
        let progress = self.queue.turn(REQUESTS_PER_TURN, |_| {
            step();
            Ok(0u32)
        });
        step();
        self.works.store(false, SeqCst);
        progress
    }

    fn stop(&self) {
        assert!(!self.works.load(SeqCst), "a device is stopped in the midst of a turn");
    }
}

/// The vCPU of a driver, and the memory of its guest.
struct Driver {
    attachment: Arc<Attachment>,
    queue: TestQueue,
    works: Works,
    event_idx: bool,
    /// Chains that the device has.
    out: u16,
    next: u16,
}

impl Driver {
    fn new(attachment: &Arc<Attachment>, memory: &GuestMemoryMmap, works: &Works) -> Self {
        let (queue, event_idx) = (TestQueue::new(memory.clone(), 0, QUEUE_SIZE), random(4) > 0);
        Self { attachment: Arc::clone(attachment), queue, works: Arc::clone(works), event_idx, out: 0, next: 0 }
    }

    /// Writes to a register, again and again while the device is busy.
    fn write(&self, register: u32, value: u32) {
        while self.attachment.mmio.write(register.into(), &value.to_le_bytes()) == Written::Busy {
            step();
        }
    }

    fn bring_up(&mut self) {
        self.queue.clear();
        let features = VERSION_1 | if self.event_idx { EVENT_IDX } else { 0 };
        [1, 3].into_iter().for_each(|status| self.write(reg::VIRTIO_MMIO_STATUS, status));
        for half in [0, 1] {
            self.write(reg::VIRTIO_MMIO_DRIVER_FEATURES_SEL, half);
            self.write(reg::VIRTIO_MMIO_DRIVER_FEATURES, (features >> (32 * half)) as u32);
        }
        self.write(reg::VIRTIO_MMIO_STATUS, 11);
        self.queue.registers().for_each(|(register, value)| self.write(register, value));
        // Nobody rings for chains that are offered before the driver is ready.
        (0..random(2)).for_each(|_| self.offer());
        self.write(reg::VIRTIO_MMIO_STATUS, 15);
    }

    fn offer(&mut self) {
        let head = self.next % QUEUE_SIZE;
        self.next += 1;
        self.out += 1;
        self.queue.describe(head, BUFFERS + u64::from(head * 8), CHAIN_BYTES, WRITE, 0);
        self.queue.offer(head);
    }

    /// Rings if the device wants it, as KVM does or with an exit.
    fn ring(&self) {
        step();
        match (self.queue.wants_ring(self.event_idx), random(2)) {
            (false, _) => {}
            (true, 0) => self.attachment.queue_events[0].write(1).unwrap(),
            (true, _) => self.write(reg::VIRTIO_MMIO_QUEUE_NOTIFY, 0),
        }
    }

    /// Takes what comes back, and sleeps until an interrupt comes while nothing does.
    fn await_all(&mut self) {
        while self.out > 0 {
            if self.queue.used().is_some() {
                self.out -= 1;
                continue;
            }
            self.queue.await_used();
            step();
            if self.queue.used().is_some() {
                self.out -= 1;
                continue;
            }
            while self.attachment.interrupt.event().read().is_err() {
                step();
            }
            let mut status = [0; 4];
            self.attachment.mmio.read(reg::VIRTIO_MMIO_INTERRUPT_STATUS.into(), &mut status);
            self.write(reg::VIRTIO_MMIO_INTERRUPT_ACK, u32::from_le_bytes(status));
        }
    }

    /// Stops the queue or the device, and waits for what must not come any more.
    fn stop(&self, register: u32) {
        self.write(register, 0);
        let _ = self.attachment.interrupt.event().read();
        for _ in 0..random(20) {
            step();
            // A device with a stopped queue may still have a turn, in which it finds no queue.
            let of_device = register == reg::VIRTIO_MMIO_STATUS;
            assert!(!of_device || !self.works.load(SeqCst), "a turn after a reset");
            assert!(self.attachment.interrupt.event().read().is_err(), "an interrupt after a stop");
        }
    }

    fn runs(mut self) {
        self.bring_up();
        for _ in 0..ROUNDS {
            for _ in 0..=random(usize::from(MOST_CHAINS)) {
                self.offer();
                self.ring();
            }
            match random(4) {
                0 => wander(),
                1 => {
                    if random(2) == 0 {
                        wander();
                        self.stop(reg::VIRTIO_MMIO_QUEUE_READY);
                    }
                    self.stop(reg::VIRTIO_MMIO_STATUS);
                    self.out = 0;
                    self.bring_up();
                }
                _ => self.await_all(),
            }
        }
    }
}

/// A vCPU that rings for nothing.
fn meddles(attachment: &Attachment) {
    for _ in 0..random(4) {
        wander();
        attachment.queue_events[0].write(1).unwrap();
        let _ = attachment.mmio.notify(0);
    }
}

fn once() {
    let worker = Worker::start("model", Kind::Device, Arc::new(|text: &str| panic!("{text}"))).unwrap();
    let mut of_devices: Vec<Weak<AtomicBool>> = Vec::new();
    let mut vcpus = Vec::new();
    for _ in 0..DEVICES {
        let (memory, works) = (guest_memory(), Works::default());
        let device =
            |line: Arc<Line>| Ok(Echo { queue: RequestQueue::new(memory.clone(), line), works: Arc::clone(&works) });
        let attachment = Arc::new(Attachment::new(&worker, "echo", &memory, device).unwrap());
        let driver = Driver::new(&attachment, &memory, &works);
        of_devices.push(Arc::downgrade(&works));
        vcpus.push(thread::spawn(|| driver.runs()));
        vcpus.push(thread::spawn(move || meddles(&attachment)));
    }
    drop(worker);
    vcpus.into_iter().for_each(|vcpu| vcpu.join().unwrap());
    assert!(of_devices.iter().all(|works| works.upgrade().is_none()), "a device outlives its VM");
}

#[test]
fn shuttle_vcpus_beside_their_worker_lose_no_notification_and_nothing_follows_a_reset_or_the_end() {
    let mut config = Config::new();
    config.stack_size = 256 << 10;
    config.max_steps = MaxSteps::FailAfter(MOST_STEPS);
    config.silence_warnings = true;
    Runner::new(RandomScheduler::new_from_seed(SEED, SCHEDULES), config).run(once);
}
