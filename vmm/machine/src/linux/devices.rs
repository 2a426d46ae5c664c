//! The devices of a Linux guest: those that every guest has, and those that its configuration asks for.
//!
//! One [`Worker`] serves all devices of a VM. The order of devices is the order of their addresses, and so the order in
//! which Linux finds them. Network devices come first (`eth0` is the switch if there is one), then the disk, then the
//! sockets, then the devices of every guest: randomness and a second console.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;

use stile_jail::Kind;
use vm_memory::GuestMemoryMmap;

use crate::devices::DeviceError;
use crate::devices::block::{BlockDevice, Disk, DiskError};
use crate::devices::console::ConsoleDevice;
use crate::devices::entropy::EntropyDevice;
use crate::devices::net::{Mac, NetDevice, PortNumber, Switch, Tap, TapDevice, TapError};
use crate::devices::virtio::{Attachment, AttachmentMaker, Device, Line, Tell, Worker};
use crate::devices::vsock::{HostSocket, VsockDevice, VsockError};
use crate::vm::console::{Console, Sink};

/// Why a device is not available, and what the user can do about it.
#[derive(Debug)]
pub struct Unavailable {
    cause: DeviceError,
    remedy: String,
}

impl Unavailable {
    /// A remedy, for the user.
    pub fn remedy(&self) -> &str {
        &self.remedy
    }
}

/// The error's text includes its cause, because the user needs the reason.
impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)?;
        self.cause.source().map_or(Ok(()), |cause| write!(f, ": {cause}"))
    }
}

impl Error for Unavailable {}

impl From<DiskError> for Unavailable {
    fn from(error: DiskError) -> Self {
        Self { remedy: error.remedy(), cause: error.into() }
    }
}

impl From<TapError> for Unavailable {
    fn from(error: TapError) -> Self {
        Self { remedy: error.remedy(), cause: error.into() }
    }
}

impl From<VsockError> for Unavailable {
    fn from(error: VsockError) -> Self {
        Self { remedy: error.remedy(), cause: error.into() }
    }
}

/// The devices of a VM beside those that every VM has.
pub struct DeviceConfig<'a> {
    /// Name of the VM.
    pub name: &'a str,
    /// The switch of its first network device, and the port there; `None`: no such device.
    pub port: Option<(Arc<Switch>, PortNumber)>,
    /// The host's tap behind its other network device; `None`: no such device.
    pub tap: Option<Tap>,
    /// The file of its disk.
    pub disk: Option<Disk>,
    /// The host's end of its sockets.
    pub socket: Option<HostSocket>,
    /// Where the text of its second console goes.
    pub console: Sink,
    /// Is told of devices that are turned off after a fault.
    pub tell: Tell,
}

/// Starts the worker of these devices. Returns their makers, in the order of their addresses.
pub fn prepare<'a>(config: DeviceConfig<'_>) -> Result<Vec<AttachmentMaker<'a>>, Unavailable> {
    let connects = config.socket.as_ref().is_some_and(HostSocket::connects);
    let kind = if connects { Kind::DeviceWithSockets } else { Kind::Device };
    let mut makers = Makers::new(config.name, kind, config.tell)?;
    makers.add_port(config.port);
    makers.add_tap(config.tap);
    makers.add_disk(config.disk);
    makers.add_socket(config.socket);
    makers.add_common(config.name, config.console);
    Ok(makers.made)
}

/// Makers of devices that one worker will serve.
struct Makers<'a> {
    worker: Arc<Worker>,
    made: Vec<AttachmentMaker<'a>>,
}

impl<'a> Makers<'a> {
    fn new(name: &str, kind: Kind, tell: Tell) -> Result<Self, Unavailable> {
        let worker = Worker::start(name, kind, tell).map_err(no_worker)?;
        Ok(Self { worker, made: Vec::new() })
    }

    fn add_port(&mut self, port: Option<(Arc<Switch>, PortNumber)>) {
        if let Some((switch, number)) = port {
            let make = move |memory, line| Ok(NetDevice::on_switch(&switch, number, memory, line)?);
            self.add("virtio-net (switch)".to_owned(), make);
        }
    }

    fn add_tap(&mut self, tap: Option<Tap>) {
        if let Some(tap) = tap {
            let (name, mac) = (format!("virtio-net (tap {})", tap.name()), Mac::behind_tap(tap.name()));
            self.add(name, move |memory, line| Ok(TapDevice::new(tap, mac, memory, line)?));
        }
    }

    fn add_disk(&mut self, disk: Option<Disk>) {
        if let Some(disk) = disk {
            let name = format!("virtio-blk ({})", disk.path().display());
            self.add(name, |memory, line| Ok(BlockDevice::new(disk, memory, line)));
        }
    }

    fn add_socket(&mut self, socket: Option<HostSocket>) {
        if let Some(socket) = socket {
            self.add("virtio-vsock".to_owned(), |memory, line| Ok(VsockDevice::new(socket, memory, line)?));
        }
    }

    /// Adds the devices that every guest has.
    fn add_common(&mut self, name: &str, console: Sink) {
        self.add("virtio-rng".to_owned(), |memory, line| Ok(EntropyDevice::new(memory, line)));
        let output = Box::new(Console::new(name, console).paid_by(self.worker.payer().clone()));
        self.add("virtio-console".to_owned(), |memory, line| Ok(ConsoleDevice::new(output, None, memory, line)?));
    }

    fn add<D: Device + 'static>(
        &mut self,
        name: String,
        make: impl FnOnce(GuestMemoryMmap, Arc<Line>) -> Result<D, DeviceError> + 'a,
    ) {
        let worker = Arc::clone(&self.worker);
        let attach =
            move |memory: &GuestMemoryMmap| Attachment::new(&worker, &name, memory, |line| make(memory.clone(), line));
        self.made.push(Box::new(attach));
    }
}

fn no_worker(error: io::Error) -> Unavailable {
    Unavailable { cause: error.into(), remedy: "the VM needs a thread and some descriptors: see `ulimit -u -n`".into() }
}
