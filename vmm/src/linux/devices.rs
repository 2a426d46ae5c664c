//! The devices of a Linux guest: those that every one has, and those that its configuration asks for.
//!
//! All of a VM's devices are served by one [`Worker`]. Their order is that of their addresses, so it is that in which Linux
//! finds them: network devices first (`eth0` is the switch where there is one), then the disk, then the sockets, then what
//! every guest has, randomness and a second console.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;

use vm_memory::GuestMemoryMmap;

use crate::block::{BlockDevice, Disk, DiskError};
use crate::config::VmConfig;
use crate::console::ConsoleDevice;
use crate::entropy::EntropyDevice;
use crate::net::{Mac, NetDevice, PortNumber, Switch, Tap, TapDevice, TapError};
use crate::virtio::{Attachment, AttachmentMaker, Device, Line, Tell, Worker};
use crate::vm::DeviceError;
use crate::vm::console::{Console, Sink};
use crate::vsock::{HostSocket, VsockDevice, VsockError};

/// Why a device could not be had, and what to do about it.
#[derive(Debug)]
pub struct Unavailable {
    cause: DeviceError,
    remedy: String,
}

impl Unavailable {
    /// What the user can do.
    pub fn remedy(&self) -> &str {
        &self.remedy
    }
}

/// With its cause: a user needs to hear why.
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

/// What the devices of one VM are made of.
pub struct Wishes<'a> {
    /// Name of the VM.
    pub name: &'a str,
    /// What it asks for.
    pub config: &'a VmConfig,
    /// Its place on the switch, if it has one.
    pub port: Option<(Arc<Switch>, PortNumber)>,
    /// Where its text goes.
    pub console: Sink,
    /// Hears of devices that are turned off.
    pub tell: Tell,
}

/// Takes hold of what the devices of a VM stand on, so that what cannot be had is known before there is a VM. What is
/// returned makes them.
pub fn prepare<'a>(wishes: Wishes<'a>) -> Result<Vec<AttachmentMaker<'a>>, Unavailable> {
    let Wishes { name, config, port, console, tell } = wishes;
    let disk = config.disk.as_ref().map(|disk| Disk::open(disk.path.as_ref(), disk.read_only)).transpose()?;
    let tap = config.tap.as_ref().map(|tap| Tap::open(tap.as_str())).transpose()?;
    let socket = config.vsock.as_ref().map(|path| HostSocket::open(path.as_ref())).transpose()?;
    let mut makers = Makers::new(name, tell)?;
    makers.add_port(port);
    if let (Some(tap), Some(name)) = (tap, &config.tap) {
        let mac = Mac::behind_tap(name.as_str());
        makers.add(format!("virtio-net (tap {name})"), move |memory, line| Ok(TapDevice::new(tap, mac, memory, line)?));
    }
    if let (Some(disk), Some(config)) = (disk, &config.disk) {
        makers.add(format!("virtio-blk ({})", config.path), |memory, line| Ok(BlockDevice::new(disk, memory, line)));
    }
    makers.add_socket(socket);
    makers.add_common(name, console);
    Ok(makers.made)
}

/// What the devices of a VM are made of that nobody has configured.
pub struct Plain<'a> {
    /// Name of the VM.
    pub name: &'a str,
    /// Its place on the switch, if it has one.
    pub port: Option<(Arc<Switch>, PortNumber)>,
    /// Whom it reaches over vsock, if it has such a device.
    pub socket: Option<HostSocket>,
    /// Where its text goes.
    pub console: Sink,
    /// Hears of devices that are turned off.
    pub tell: Tell,
}

/// The same as [`prepare`] for a VM of stile's own.
pub fn prepare_plain<'a>(plain: Plain<'_>) -> Result<Vec<AttachmentMaker<'a>>, Unavailable> {
    let mut makers = Makers::new(plain.name, plain.tell)?;
    makers.add_port(plain.port);
    makers.add_socket(plain.socket);
    makers.add_common(plain.name, plain.console);
    Ok(makers.made)
}

/// Makers of devices that one worker is to serve.
struct Makers<'a> {
    worker: Arc<Worker>,
    made: Vec<AttachmentMaker<'a>>,
}

impl<'a> Makers<'a> {
    fn new(name: &str, tell: Tell) -> Result<Self, Unavailable> {
        let worker = Worker::start(name, tell).map_err(no_worker)?;
        Ok(Self { worker, made: Vec::new() })
    }

    fn add_port(&mut self, port: Option<(Arc<Switch>, PortNumber)>) {
        if let Some((switch, number)) = port {
            let make = move |memory, line| Ok(NetDevice::on_switch(&switch, number, memory, line)?);
            self.add("virtio-net (switch)".to_owned(), make);
        }
    }

    fn add_socket(&mut self, socket: Option<HostSocket>) {
        if let Some(socket) = socket {
            self.add("virtio-vsock".to_owned(), |memory, line| Ok(VsockDevice::new(socket, memory, line)?));
        }
    }

    /// What every guest has.
    fn add_common(&mut self, name: &str, console: Sink) {
        self.add("virtio-rng".to_owned(), |memory, line| Ok(EntropyDevice::new(memory, line)));
        let output = Box::new(Console::new(name, console));
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
