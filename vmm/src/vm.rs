//! A virtual machine: made from a specification, started, and waited for.
//!
//! Life of a VM:
//! 1. [`Vm::create`] makes memory, boot structures and vCPUs, and hands the vCPUs to a domain. Nothing runs yet.
//! 2. [`Vm::start`] wakes every vCPU.
//! 3. The guest exits, faults, or [`Vm::stop`] ends it: the first outcome is kept, all vCPUs retire.
//! 4. [`Vm::wait`] returns when every vCPU has let go, and with them the last reference to the kernel's VM. Dropping a
//!    VM stops it and waits.

pub mod boot;
pub mod clock;
pub mod console;
mod gate;
pub mod image;
pub mod layout;
mod outcome;
pub mod paging;
mod registers;
pub mod reload;
mod setup;
mod spin;
mod state;
mod vcpu;

pub use outcome::{Fault, FaultKind, Outcome};
pub use state::{MmioDevice, VmState};

use boot::{BootError, BootParams};
use clock::TscClock;
use console::Sink;
use image::{Image, ImageError};
use kvm_bindings::{CpuId, KVM_MAX_CPUID_ENTRIES, kvm_userspace_memory_region};
use kvm_ioctls::{Kvm, VcpuFd, VmFd};
use layout::{Layout, LayoutError};
use registers::Registers;
use state::{Mapped, Members};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use stile_abi::MMIO_BASE;
use stile_sched::domain::{Attributes, DomainError, Usage};
use stile_sched::{Domain, Time, VcpuId};
use vcpu::{Grave, GuestVcpu};
use vm_memory::{GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion, MemoryRegionAddress};

/// What a VM is to be.
pub struct Spec<'a> {
    /// Name, for messages.
    pub name: &'a str,
    /// ELF file.
    pub image: &'a [u8],
    /// Number of vCPUs, from 1.
    pub vcpus: u32,
    /// Memory (units: bytes).
    pub memory: u64,
    /// How its vCPUs are scheduled.
    pub attributes: Attributes,
    /// Command line.
    pub cmdline: &'a str,
    /// Where its text goes.
    pub console: Sink,
    /// Makes the network device, given the VM's memory.
    pub device: Option<DeviceMaker<'a>>,
}

/// Makes a device for a VM, given its memory.
pub type DeviceMaker<'a> = &'a dyn Fn(&GuestMemoryMmap) -> Result<Arc<dyn MmioDevice>, DeviceError>;

/// Why a device could not be made.
pub type DeviceError = Box<dyn std::error::Error + Send + Sync>;

/// Why a VM could not be made.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The image.
    #[error("image: {0}")]
    Image(#[from] ImageError),
    /// Memory size.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// Not between 1 and what KVM allows.
    #[error("{asked} vCPUs: this host's KVM allows 1 to {most} in one VM")]
    Vcpus {
        /// Asked for.
        asked: u32,
        /// Allowed.
        most: usize,
    },
    /// No memory from the host.
    #[error("cannot map {bytes} bytes of guest memory")]
    Memory {
        /// Size.
        bytes: u64,
        /// Cause.
        #[source]
        source: vm_memory::mmap::FromRangesError,
    },
    /// Boot structures.
    #[error(transparent)]
    Boot(#[from] BootError),
    /// KVM refused.
    #[error("KVM refused: {what}")]
    Kvm {
        /// What it was asked.
        what: &'static str,
        /// Cause.
        #[source]
        source: kvm_ioctls::Error,
    },
    /// A device.
    #[error("the VM's device cannot be made")]
    Device(#[source] DeviceError),
    /// No place in the domain.
    #[error(transparent)]
    Domain(#[from] DomainError),
}

fn refused(what: &'static str) -> impl FnOnce(kvm_ioctls::Error) -> CreateError {
    move |source| CreateError::Kvm { what, source }
}

/// A virtual machine in a domain.
pub struct Vm {
    state: Arc<VmState>,
    /// Where its vCPUs go, and how many are still to come.
    graves: Mutex<(Receiver<Grave>, usize)>,
    created: Time,
    fd: VmFd,
}

impl Vm {
    /// Makes a VM whose vCPUs are in `domain` but do not run yet.
    pub fn create(kvm: &Kvm, spec: &Spec<'_>, domain: Arc<dyn Domain>) -> Result<Self, CreateError> {
        let created = stile_sched::time::monotonic();
        let most = kvm.get_max_vcpus();
        if spec.vcpus == 0 || spec.vcpus as usize > most {
            return Err(CreateError::Vcpus { asked: spec.vcpus, most });
        }
        let image = Image::parse(spec.image)?;
        let layout = Layout::new(spec.memory, spec.vcpus, image.end())?;
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), spec.memory as usize)])
            .map_err(|source| CreateError::Memory { bytes: spec.memory, source })?;
        let fd = kvm.create_vm().map_err(refused("a new VM"))?;
        register_memory(&fd, &memory)?;
        let first = fd.create_vcpu(0).map_err(refused("a vCPU"))?;
        let clock = TscClock::new(first.get_tsc_khz().map_err(refused("the TSC frequency"))?);
        let device = spec.device.map(|make| make(&memory)).transpose().map_err(CreateError::Device)?;
        let device = device.map(|device| Mapped { base: MMIO_BASE, device });
        let params =
            BootParams { cmdline: spec.cmdline, tsc_khz: clock.khz(), device_mmio: device.as_ref().map(|d| d.base) };
        let root = boot::prepare(&memory, &layout, &image, &params)?;
        let cpuid = kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES).map_err(refused("its CPU features"))?;
        let state = Arc::new(VmState::new(spec.name, layout, memory, clock, spec.console.clone(), device));
        let (to_graves, graves) = mpsc::channel();
        let vm = Self { state, graves: Mutex::new((graves, 0)), created, fd };
        vm.add_vcpus(
            first,
            &Start { cpuid, entry: image.entry, root, registers: Registers::new(kvm) },
            spec.attributes,
            domain,
            &to_graves,
        )?;
        Ok(vm)
    }

    fn add_vcpus(
        &self,
        first: VcpuFd,
        start: &Start,
        attributes: Attributes,
        domain: Arc<dyn Domain>,
        graves: &Sender<Grave>,
    ) -> Result<(), CreateError> {
        let mut first = Some(first);
        let mut ids = Vec::with_capacity(self.state.vcpus() as usize);
        let made = (0..self.state.vcpus()).try_for_each(|index| {
            let fd = match first.take() {
                Some(fd) => fd,
                None => self.fd.create_vcpu(u64::from(index)).map_err(refused("a vCPU"))?,
            };
            start.prepare(&fd, self.state.layout(), index)?;
            let (vm, graves) = (Arc::clone(&self.state), graves.clone());
            let vcpu = GuestVcpu { index, fd, registers: start.registers, spot: None, at_gate: false, vm, graves };
            ids.push(domain.add(Box::new(vcpu), attributes)?);
            Ok(())
        });
        self.graves.lock().unwrap_or_else(PoisonError::into_inner).1 = ids.len();
        self.state.join(Members { domain, ids });
        // On an error the VM is dropped, and takes those back that were made.
        made
    }

    /// Lets its vCPUs run.
    pub fn start(&self) {
        (0..self.state.vcpus()).for_each(|vcpu| self.state.wake(vcpu));
    }

    /// Ends it.
    pub fn stop(&self) {
        self.state.end(Outcome::Stopped);
    }

    /// Waits until every vCPU has stopped for good.
    pub fn wait(&self) -> Outcome {
        let mut graves = self.graves.lock().unwrap_or_else(PoisonError::into_inner);
        while graves.1 > 0 {
            // Every vCPU holds a sender until it comes here.
            if graves.0.recv().is_err() {
                break;
            }
            graves.1 -= 1;
        }
        self.state.outcome().cloned().unwrap_or(Outcome::Stopped)
    }

    /// As [`wait`](Self::wait), but no longer than this; `None` if it has not ended by then.
    pub fn wait_for(&self, limit: Duration) -> Option<Outcome> {
        let until = Instant::now() + limit;
        let mut graves = self.graves.lock().unwrap_or_else(PoisonError::into_inner);
        while graves.1 > 0 {
            match graves.0.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(_) => graves.1 -= 1,
                Err(RecvTimeoutError::Timeout) => return None,
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Some(self.state.outcome().cloned().unwrap_or(Outcome::Stopped))
    }

    /// Lets its workload begin, if that waits for it, now or later.
    pub fn open_gate(&self) {
        self.state.gate().open().into_iter().for_each(|vcpu| self.state.wake(vcpu));
    }

    /// What its vCPUs share.
    pub fn state(&self) -> &Arc<VmState> {
        &self.state
    }

    /// When it was asked for.
    pub fn created(&self) -> Time {
        self.created
    }

    /// What each vCPU has used; what it had, of one that ended.
    pub fn usage(&self) -> Vec<Usage> {
        let used = |vcpu| self.state.account(vcpu).as_ref().map(Usage::of).unwrap_or_default();
        (0..self.state.vcpus()).map(used).collect()
    }

    /// Ids of its vCPUs in the domain.
    pub fn ids(&self) -> Vec<VcpuId> {
        self.state.members().map(|m| m.ids.clone()).unwrap_or_default()
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        self.stop();
        self.wait();
    }
}

#[allow(unsafe_code, reason = "KVM takes an address on trust")]
fn register_memory(fd: &VmFd, memory: &GuestMemoryMmap) -> Result<(), CreateError> {
    for (slot, region) in memory.iter().enumerate() {
        let host = region.get_host_address(MemoryRegionAddress(0)).expect("a mapped region has a host address");
        let region = kvm_userspace_memory_region {
            slot: slot as u32,
            flags: 0,
            guest_phys_addr: region.start_addr().0,
            memory_size: region.len(),
            userspace_addr: host as u64,
        };
        // SAFETY: the mapping lives in VmState, which every vCPU of this VM keeps alive.
        unsafe { fd.set_user_memory_region(region) }.map_err(refused("a memory region"))?;
    }
    Ok(())
}

/// How vCPUs start.
struct Start {
    cpuid: CpuId,
    entry: u64,
    root: u64,
    registers: Registers,
}

impl Start {
    fn prepare(&self, fd: &VcpuFd, layout: &Layout, index: u32) -> Result<(), CreateError> {
        fd.set_cpuid2(&self.cpuid).map_err(refused("the vCPU's features"))?;
        let made = fd.get_sregs().map_err(refused("the vCPU's special registers"))?;
        fd.set_sregs(&boot::special_registers(layout, index, self.root, made))
            .map_err(refused("to start the vCPU at CPL 3 in 64-bit mode"))?;
        fd.set_regs(&boot::registers(layout, index, self.entry)).map_err(refused("the vCPU's registers"))?;
        setup::follow_host(fd).map_err(refused("the host's TSC for the vCPU"))?;
        setup::kickable(fd).map_err(refused("a signal mask for the vCPU"))
    }
}
