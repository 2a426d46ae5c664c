//! A virtual machine that runs a unikernel: a guest program without an operating system.
//!
//! [`Vm::create`] makes memory, boot structures and vCPUs, and adds the vCPUs to a domain. From then on the VM is run,
//! awaited and ended like any [`VcpuSet`].

pub mod boot;
mod debt;
mod gate;
pub mod image;
pub mod layout;
mod on_switch;
pub mod paging;
mod registers;
pub mod reload;
mod state;
mod vcpu;

pub use on_switch::create_on_switch;
pub use state::{RESULTS_MAX, VmState};

use crate::devices::{DeviceError, MmioDevice};
use crate::spin::LastSpot;
use crate::vm::clock::TscClock;
use crate::vm::console::Sink;
use crate::vm::host_exits::Pause;
use crate::vm::{
    self, HostFeatures, MakeError, RetiredVcpu, VcpuSet, VirtualMachine, VmStatus, check_vcpus, refused, vm_with,
};
use boot::{BootError, BootParams};
use debt::Debt;
use image::{Image, ImageError};
use kvm_bindings::CpuId;
use kvm_ioctls::{Kvm, VcpuFd, VmFd};
use layout::{Layout, LayoutError};
use registers::Registers;
use state::Mapped;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use stile_abi::MMIO_BASE;
use stile_sched::attributes::Attributes;
use stile_sched::{Domain, Nanos};
use vcpu::GuestVcpu;
use vm_memory::{GuestAddress, GuestMemoryMmap};

/// Describes a VM to be made.
pub struct Spec<'a> {
    /// Name, which messages and the console show.
    pub name: &'a str,
    /// The program, as an ELF file.
    pub image: &'a [u8],
    /// Number of vCPUs, from 1 to what KVM allows.
    pub vcpus: u32,
    /// Memory (units: bytes).
    pub memory: u64,
    /// How the domain schedules each vCPU.
    pub attributes: Attributes,
    /// Command line of the guest, UTF-8.
    pub cmdline: &'a str,
    /// Where the guest's text goes.
    pub console: Sink,
    /// Makes the network device; `None`: the VM has none.
    pub device: Option<DeviceMaker<'a>>,
}

/// Makes a device for a VM, given the VM's memory.
pub type DeviceMaker<'a> = &'a dyn Fn(&GuestMemoryMmap) -> Result<Arc<dyn MmioDevice>, DeviceError>;

/// Why a VM could not be made.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The image is not a unikernel.
    #[error("image: {0}")]
    Image(#[from] ImageError),
    /// The memory does not hold the image and the vCPUs' structures.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// KVM or the domain refused.
    #[error(transparent)]
    Machine(#[from] MakeError),
    /// The boot structures do not fit.
    #[error(transparent)]
    Boot(#[from] BootError),
    /// The device cannot be made.
    #[error("the VM's device cannot be made")]
    Device(#[source] DeviceError),
}

/// A unikernel VM in a domain: a [`VcpuSet`], the guest's memory, and its gate.
pub struct Vm {
    state: Arc<VmState>,
    vcpu_set: VcpuSet,
    fd: VmFd,
}

impl Vm {
    /// Makes a VM and adds its vCPUs to `domain`. They do not run until [`VcpuSet::start`].
    pub fn create(kvm: &Kvm, spec: &Spec<'_>, domain: Arc<dyn Domain>) -> Result<Self, CreateError> {
        let created = stile_sched::time::monotonic();
        check_vcpus(kvm, spec.vcpus)?;
        let image = Image::parse(spec.image)?;
        let layout = Layout::new(spec.memory, spec.vcpus, image.end())?;
        let memory = vm::map(&[(GuestAddress(0), spec.memory as usize)])?;
        let fd = vm_with(kvm, &memory, HostFeatures::default())?;
        let first = fd.create_vcpu(0).map_err(refused("a vCPU"))?;
        let clock = TscClock::new(first.get_tsc_khz().map_err(refused("the TSC frequency"))?);
        let device = spec.device.map(|make| make(&memory)).transpose().map_err(CreateError::Device)?;
        let device = device.map(|device| Mapped { base: MMIO_BASE, device });
        let params =
            BootParams { cmdline: spec.cmdline, tsc_khz: clock.khz(), device_mmio: device.as_ref().map(|d| d.base) };
        let root = boot::prepare(&memory, &layout, &image, &params)?;
        let cpuid = vm::cpuid::supported(kvm, HostFeatures::default()).map_err(refused("its CPU features"))?;
        let status = Arc::new(VmStatus::new(spec.name, layout.vcpus));
        let state = VmState::new(Arc::clone(&status), layout, memory, clock, spec.console.clone(), device);
        let (vcpu_set, retired) = VcpuSet::new(status, created);
        let vm = Self { state: Arc::new(state), vcpu_set, fd };
        let start = Start { cpuid, entry: image.entry, root, registers: Registers::new(kvm) };
        vm.add_vcpus(first, &start, spec.attributes, domain, &retired)?;
        Ok(vm)
    }

    fn add_vcpus(
        &self,
        first: VcpuFd,
        start: &Start,
        attributes: Attributes,
        domain: Arc<dyn Domain>,
        retired: &Sender<RetiredVcpu>,
    ) -> Result<(), MakeError> {
        let mut first = Some(first);
        self.vcpu_set.enlist(domain, attributes, |index| {
            let fd = match first.take() {
                Some(fd) => fd,
                None => self.fd.create_vcpu(u64::from(index)).map_err(refused("a vCPU"))?,
            };
            start.prepare(&fd, self.state.layout(), index)?;
            let (vm, retired) = (Arc::clone(&self.state), retired.clone());
            let (registers, debt, pause) = (start.registers, Debt::default(), Pause::default());
            let last_spot = LastSpot::default();
            Ok(Box::new(GuestVcpu { index, fd, registers, last_spot, at_gate: false, debt, pause, vm, retired }))
        })
    }

    /// Opens the VM's gate. A workload that waits at the gate begins; one that comes to it later passes.
    pub fn open_gate(&self) {
        self.state.gate().open().into_iter().for_each(|vcpu| self.state.wake(vcpu));
    }

    /// The state that the vCPUs share.
    pub fn state(&self) -> &Arc<VmState> {
        &self.state
    }
}

/// A VM is run, awaited and ended like any [`VcpuSet`].
impl Deref for Vm {
    type Target = VcpuSet;

    fn deref(&self) -> &VcpuSet {
        &self.vcpu_set
    }
}

impl VirtualMachine for Vm {
    fn vcpu_set(&self) -> &VcpuSet {
        &self.vcpu_set
    }

    fn told_wait(&self, vcpu: u32) -> Option<Nanos> {
        self.state.published_steal(vcpu)
    }

    fn results(&self) -> Vec<(String, u64)> {
        self.state.results()
    }
}

/// What every vCPU needs to start.
struct Start {
    cpuid: CpuId,
    entry: u64,
    root: u64,
    registers: Registers,
}

impl Start {
    fn prepare(&self, fd: &VcpuFd, layout: &Layout, index: u32) -> Result<(), MakeError> {
        fd.set_cpuid2(&self.cpuid).map_err(refused("the vCPU's features"))?;
        let made = fd.get_sregs().map_err(refused("the vCPU's special registers"))?;
        fd.set_sregs(&boot::special_registers(layout, index, self.root, made))
            .map_err(refused("to start the vCPU at CPL 3 in 64-bit mode"))?;
        fd.set_regs(&boot::registers(layout, index, self.entry)).map_err(refused("the vCPU's registers"))?;
        vm::follow_host(fd).map_err(refused("the host's TSC for the vCPU"))?;
        vm::kickable(fd).map_err(refused("a signal mask for the vCPU"))
    }
}
