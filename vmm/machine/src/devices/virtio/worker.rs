//! The thread that does the work of a Linux guest's devices: one for each VM.
//!
//! It sleeps in epoll until there is an event of a queue, an event of a device ([`Device::host_events`]), or the end.
//! Then it gives each device with work one bounded turn, and goes round again while any device has more to do. So it
//! never waits in a loop, and a device that is flooded does not hold up the others. Files are read and written here. A
//! slow disk holds up the devices of its own VM and no others.
//!
//! What the thread uses of its CPU is the VM's ([`Payer`]). It reads its CPU clock after each round of turns, and as
//! soon as [`LEAST_CHARGE`] has come together, the VM is charged. If the VM's cap is used up, the thread pauses between
//! two rounds until the cap lets it go on. Then it makes one round at least: the vCPUs, which wait for the same cap,
//! may have been served first. It holds no lock meanwhile, so a device can be stopped, and the end wakes it.
//!
//! The end has three steps:
//! 1. The last [`Attachment`](super::Attachment) of the VM is dropped, and with it the [`Worker`].
//! 2. Its drop rings `stop` and waits for the turn under way, at most for [`PATIENCE`]. If the turn has not ended then,
//!    because the host does not answer, it says so and goes on.
//! 3. When the thread has ended, the devices are dropped, and with them the host's resources that they hold.
//!
//! epoll comes from vmm-sys-util, which the tree has anyway. The crate event-manager would add subscribers that add and
//! remove each other, which have no use here.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use stile_jail::Kind;
use stile_sched::time::{monotonic, thread_cpu_time};
use stile_sched::{Nanos, Time};
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::{EFD_CLOEXEC, EFD_NONBLOCK, EventFd};

use super::sync::mpsc::{self, Receiver, RecvTimeoutError};
use super::sync::thread::{self, JoinHandle};
use super::sync::{self, AtomicU64, Mutex, Ordering, RwLock};
use super::{Device, MmioTransport, Progress, Tell};
use crate::vm::{PaidBy, Payer};

/// Events taken from the kernel at a time; a VM has about a dozen sources.
const EVENTS: usize = 16;
/// Pause while a vCPU is about to stop a device. It tries every 0.5 ms.
const PAUSE: Duration = Duration::from_micros(100);
/// How long the end of a VM waits for the turn under way. A sound turn takes some milliseconds, and on a slow disk a
/// second.
const PATIENCE: Duration = Duration::from_secs(5);

/// CPU time that is charged at once: some ten times what it costs to charge it.
const LEAST_CHARGE: Nanos = Nanos::from_micros(50);

/// A wait of a pause (unit: ms). Longer pauses take several.
const LONGEST_WAIT: u64 = 10_000;

/// What a worker needs of a device.
pub(super) trait Serve: Send + Sync {
    /// Does a bounded part of the work in a queue.
    fn queue_turn(&self, queue: u16) -> Progress;
    /// Takes a bounded part of what the host has.
    fn host_turn(&self) -> Progress;
    /// Polls readable when the host has something.
    fn host_events(&self) -> Option<RawFd>;
}

impl<D: Device> Serve for MmioTransport<D> {
    fn queue_turn(&self, queue: u16) -> Progress {
        self.let_it_stop();
        Self::queue_turn(self, queue)
    }

    fn host_turn(&self) -> Progress {
        self.let_it_stop();
        Self::host_turn(self)
    }

    fn host_events(&self) -> Option<RawFd> {
        self.device().host_events()
    }
}

impl<D: Device> MmioTransport<D> {
    /// Waits a moment if a vCPU is about to stop the device or a queue. No turn begins before it has done so.
    fn let_it_stop(&self) {
        if self.is_stopping() {
            thread::sleep(PAUSE);
        }
    }
}

/// The worker of one VM. Dropping it ends its thread.
pub struct Worker {
    vm: String,
    tell: Tell,
    shared: Arc<Shared>,
    thread: Mutex<Option<Thread>>,
}

/// The thread, and a channel whose other end goes with it.
struct Thread {
    handle: JoinHandle<()>,
    ended: Receiver<()>,
}

struct Shared {
    epoll: Epoll,
    /// Watches `stop` alone, for pauses.
    ends: Epoll,
    stop: EventFd,
    devices: RwLock<Vec<Served>>,
    /// Without one, the worker's time is charged to nobody.
    payer: PaidBy,
    /// Number of the source whose turn is under way, for messages.
    turn: AtomicU64,
}

#[derive(Clone)]
struct Served {
    name: Arc<str>,
    device: Arc<dyn Serve>,
    queue_events: Arc<[EventFd]>,
}

/// A source of work. Its number is what epoll hands back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Stop,
    Queue { device: u32, queue: u16 },
    Host { device: u32 },
}

impl Source {
    const HOST: u64 = 1 << 16;

    fn number(self) -> u64 {
        match self {
            Self::Stop => u64::MAX,
            Self::Queue { device, queue } => u64::from(device) << 32 | u64::from(queue),
            Self::Host { device } => u64::from(device) << 32 | Self::HOST,
        }
    }

    fn of(number: u64) -> Self {
        let device = (number >> 32) as u32;
        match number {
            u64::MAX => Self::Stop,
            _ if number & Self::HOST != 0 => Self::Host { device },
            _ => Self::Queue { device, queue: number as u16 },
        }
    }
}

impl Worker {
    /// Starts the worker of the VM `vm`, a thread of this kind. `tell` receives messages about devices that are turned
    /// off.
    pub fn start(vm: &str, kind: Kind, tell: Tell) -> io::Result<Arc<Self>> {
        let (devices, turn) = (RwLock::default(), AtomicU64::new(Source::Stop.number()));
        let (epoll, ends, stop, payer) = (Epoll::new()?, Epoll::new()?, event()?, PaidBy::default());
        let ended = EpollEvent::new(EventSet::IN, Source::Stop.number());
        ends.ctl(ControlOperation::Add, stop.as_raw_fd(), ended)?;
        let shared = Arc::new(Shared { epoll, ends, stop, devices, payer, turn });
        shared.watch(shared.stop.as_raw_fd(), Source::Stop)?;
        let (runs, (running, ended)) = (Arc::clone(&shared), mpsc::channel::<()>());
        // The kernel keeps 15 characters of a name.
        let (name, hears) = (vm.to_owned(), Arc::clone(&tell));
        let handle = thread::Builder::new().name(format!("dev {vm}")).spawn(move || {
            stile_jail::narrow(kind);
            let _running = running;
            if catch_unwind(AssertUnwindSafe(|| runs.run())).is_err() {
                let device = runs.under_way();
                hears(&format!("VM {name}: none of its devices works any more: stile panicked in {device}"));
            }
        })?;
        Ok(Arc::new(Self { vm: vm.to_owned(), tell, shared, thread: Mutex::new(Some(Thread { handle, ended })) }))
    }

    /// Name of its VM.
    pub fn vm(&self) -> &str {
        &self.vm
    }

    /// The receiver of messages about devices that are turned off.
    pub fn tell(&self) -> &Tell {
        &self.tell
    }

    /// The payer for its CPU time, to be named once the VM is made.
    pub fn payer(&self) -> &PaidBy {
        &self.shared.payer
    }

    /// Serves `device` from now on, whenever one of its events rings. Messages call it `name`.
    pub(super) fn serve(&self, name: &str, device: Arc<dyn Serve>, queue_events: Arc<[EventFd]>) -> io::Result<()> {
        let mut devices = self.shared.devices.write();
        let index = devices.len() as u32;
        for (queue, event) in (0u16..).zip(queue_events.iter()) {
            self.shared.watch(event.as_raw_fd(), Source::Queue { device: index, queue })?;
        }
        if let Some(host) = device.host_events() {
            self.shared.watch(host, Source::Host { device: index })?;
        }
        devices.push(Served { name: name.into(), device, queue_events });
        Ok(())
    }

    /// Ends the thread, and waits for it no longer than `patience`.
    fn end(&self, patience: Duration) {
        // This cannot fail: the counter of an event that is rung once does not overflow.
        let _ = self.shared.stop.write(1);
        let Some(thread) = self.thread.lock().take() else { return };
        match thread.ended.recv_timeout(patience) {
            Err(RecvTimeoutError::Timeout) => (self.tell)(&format!(
                "VM {}: {} does not end: a call to the host has not returned for {patience:?}",
                self.vm,
                self.shared.under_way()
            )),
            Ok(()) | Err(RecvTimeoutError::Disconnected) => drop(thread.handle.join()),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end(PATIENCE);
    }
}

impl Shared {
    fn watch(&self, fd: RawFd, source: Source) -> io::Result<()> {
        self.epoll.ctl(ControlOperation::Add, fd, EpollEvent::new(EventSet::IN, source.number()))
    }

    fn run(&self) {
        let mut events = [EpollEvent::default(); EVENTS];
        let mut again: Vec<Source> = Vec::new();
        let mut bill = Bill::new();
        loop {
            let timeout = if again.is_empty() { -1 } else { 0 };
            let ready = match sync::wait(&self.epoll, timeout, &mut events) {
                Ok(ready) => ready,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
                // Only a broken descriptor can cause this, and without epoll no device can be served.
                Err(error) => panic!("a VM's devices cannot be waited for: {error}"),
            };
            let mut turns = std::mem::take(&mut again);
            for source in events[..ready].iter().map(|event| Source::of(event.data())) {
                if source == Source::Stop {
                    return;
                }
                self.silence(source);
                if !turns.contains(&source) {
                    turns.push(source);
                }
            }
            again = turns.into_iter().filter(|source| self.turn(*source) == Progress::More).collect();
            if let Some(payer) = self.payer.get() {
                self.pause_until(bill.settle(payer));
            }
        }
    }

    /// Waits until then, or until the end is asked for. A pause is a millisecond too long at most: epoll has no finer
    /// time, and what is charged too late is paid all the same.
    fn pause_until(&self, until: Time) {
        let mut stop = [EpollEvent::default()];
        while let left = until.since(monotonic())
            && left > Nanos::ZERO
        {
            let millis = left.0.div_ceil(1_000_000).min(LONGEST_WAIT);
            match sync::wait(&self.ends, millis as i32, &mut stop) {
                // A signal.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) => {}
                _ => return,
            }
        }
    }

    /// Takes back the ring of a queue's event, before the queue's work is looked at.
    fn silence(&self, source: Source) {
        if let Source::Queue { device, queue } = source
            && let Some(served) = self.served(device)
            && let Some(event) = served.queue_events.get(usize::from(queue))
        {
            // The event is empty if the wake-up was spurious.
            let _ = event.read();
        }
    }

    /// Name of the device whose turn is under way.
    fn under_way(&self) -> String {
        match Source::of(self.turn.load(Ordering::Relaxed)) {
            Source::Stop => "its device worker".to_owned(),
            Source::Queue { device, .. } | Source::Host { device } => {
                self.served(device).map_or_else(String::new, |served| served.name.to_string())
            }
        }
    }

    fn turn(&self, source: Source) -> Progress {
        // Relaxed: it is read for a message.
        self.turn.store(source.number(), Ordering::Relaxed);
        let (device, queue) = match source {
            Source::Stop => return Progress::Done,
            Source::Queue { device, queue } => (device, Some(queue)),
            Source::Host { device } => (device, None),
        };
        let Some(served) = self.served(device) else { return Progress::Done };
        match queue {
            Some(queue) => served.device.queue_turn(queue),
            None => served.device.host_turn(),
        }
    }

    fn served(&self, device: u32) -> Option<Served> {
        self.devices.read().get(device as usize).cloned()
    }
}

/// What the calling thread has used of its CPU, and nobody has paid for.
struct Bill {
    /// Its CPU clock, as far as that is paid for.
    paid: Nanos,
}

impl Bill {
    fn new() -> Self {
        Self { paid: thread_cpu_time() }
    }

    /// Has the payer pay, unless it is too little yet. Returns when the thread may go on.
    fn settle(&mut self, payer: &dyn Payer) -> Time {
        let used = thread_cpu_time() - self.paid;
        if used < LEAST_CHARGE {
            return Time::default();
        }
        self.paid += used;
        payer.pays(used)
    }
}

/// An event that no thread waits for by reading it.
pub(super) fn event() -> io::Result<EventFd> {
    EventFd::new(EFD_NONBLOCK | EFD_CLOEXEC)
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let devices = self.shared.devices.read().len();
        f.debug_struct("Worker").field("vm", &self.vm).field("devices", &devices).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
