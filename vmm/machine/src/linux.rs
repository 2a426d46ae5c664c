//! A virtual machine that boots Linux: an unmodified kernel with ACPI and virtio devices. Its interrupt controllers are
//! KVM's or in user space ([`Interrupts`]).
//!
//! [`Payload::open`] checks kernel, initramfs and command line without KVM. [`LinuxVm::create`] makes memory, boot
//! structures, devices and vCPUs, and adds the vCPUs to a domain. From then on the VM is run, awaited and ended like
//! any [`VcpuSet`].
//!
//! The guest sees a PC without its legacy hardware (see [`acpi`]). It has a serial port, up to 19 virtio devices behind
//! memory-mapped registers ([`layout`]), and one package with a core for each vCPU ([`cpuid`]). Its clocks are the
//! host's TSC and kvmclock.

pub mod acpi;
pub mod apic;
pub mod boot;
pub mod cmdline;
pub mod cpuid;
pub mod devices;
pub mod entry;
mod exits;
pub mod file;
pub mod initrd;
mod irqchip;
pub mod kernel;
pub mod layout;
mod msr_exits;
mod msrs;
mod payload;
pub mod ports;
pub mod power;
pub mod serial;
mod spin_look;
mod state;
mod steal;
mod userspace;
mod vcpu;

pub use payload::{Payload, PayloadError};
pub use state::LinuxState;

use crate::devices::DeviceError;
use crate::devices::virtio::{Attachment, AttachmentMaker, Interrupt};
use crate::halt::{self, Halting};
use crate::spin::LastSpot;
use crate::vm::clock::TscClock;
use crate::vm::console::{Console, Sink};
use crate::vm::host_exits::Pause;
use crate::vm::{
    self, HostFeatures, MakeError, PaidBy, RetiredVcpu, VcpuSet, VirtualMachine, VmStatus, check_vcpus, refused,
    vm_with,
};
use boot::BootError;
use cpuid::{Features, StealTime};
use kernel::Protocol;
use kvm_ioctls::{IoEventAddress, Kvm, MsrExitReason, VcpuFd, VmFd};
use layout::{DEVICES_MAX, POWER_BUTTON_GSI, SERIAL_GSI, device_base, device_gsi};
use std::io;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::Sender;
use std::time::Duration;
use stile_sched::attributes::Attributes;
use stile_sched::{Domain, Nanos};
use userspace::{Apics, Pin, Pristine, UserVcpu};
use vcpu::LinuxVcpu;
use vm_memory::GuestMemoryMmap;

/// Offset, from a device's first register, of the register to which drivers write the number of a queue that has new
/// chains.
const QUEUE_NOTIFY: u64 = virtio_bindings::virtio_mmio::VIRTIO_MMIO_QUEUE_NOTIFY as u64;

/// Where the interrupt controllers of a VM are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupts {
    /// In KVM. A halted vCPU waits inside KVM_RUN, which executors cannot carry.
    Kernel,
    /// In this process. A halt is an exit, and the domain knows of every event that ends it.
    User,
}

/// Describes a VM to be made.
pub struct Spec<'a> {
    /// Name, which messages and the console show.
    pub name: &'a str,
    /// Kernel, initramfs and command line.
    pub payload: &'a Payload,
    /// Number of vCPUs, from 1 to what KVM allows.
    pub vcpus: u32,
    /// How the domain schedules each vCPU.
    pub attributes: Attributes,
    /// Where its interrupt controllers are.
    pub interrupts: Interrupts,
    /// How long KVM polls for an event after a vCPU has halted, before its thread sleeps. `None`: as the host's KVM is
    /// set. Without meaning for [`Interrupts::User`].
    pub halt_poll: Option<Duration>,
    /// Features of the host that the guest has besides those that all have.
    pub shown: HostFeatures,
    /// Where the serial port's output goes.
    pub console: Sink,
    /// Make the VM's devices, given its memory.
    pub devices: Vec<AttachmentMaker<'a>>,
}

/// Why a VM could not be made.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// KVM or the domain refused.
    #[error(transparent)]
    Machine(#[from] MakeError),
    /// The host gives no guest virtualisation.
    #[error(
        "this host's KVM offers no virtualisation inside guests: load kvm_intel or kvm_amd with nested=1, or leave out \
         `nested`"
    )]
    NoNesting,
    /// There are more devices than interrupt lines.
    #[error("{0} devices: a Linux guest has at most {DEVICES_MAX}")]
    Devices(usize),
    /// The boot structures do not fit into memory.
    #[error(transparent)]
    Boot(#[from] BootError),
    /// The serial port cannot be connected with KVM.
    #[error("the serial port cannot be made")]
    Serial(#[source] io::Error),
    /// The power button cannot be made.
    #[error("the power button cannot be made")]
    Button(#[source] io::Error),
    /// A device cannot be made, or not be connected with KVM.
    #[error("device {number} cannot be made")]
    Device {
        /// Its number, from 0.
        number: usize,
        /// Cause.
        #[source]
        source: DeviceError,
    },
}

/// A Linux VM in a domain: a [`VcpuSet`], the guest's memory, and its devices.
pub struct LinuxVm {
    state: Arc<LinuxState>,
    vcpu_set: VcpuSet,
    fd: VmFd,
}

impl LinuxVm {
    /// Makes a VM and adds its vCPUs to `domain`. They do not run until [`VcpuSet::start`].
    pub fn create(kvm: &Kvm, spec: Spec<'_>, domain: Arc<dyn Domain>) -> Result<Self, CreateError> {
        let created = stile_sched::time::monotonic();
        check_vcpus(kvm, spec.vcpus)?;
        if spec.devices.len() > DEVICES_MAX {
            return Err(CreateError::Devices(spec.devices.len()));
        }
        let layout = spec.payload.layout;
        let memory = vm::map(&layout.regions())?;
        let machine = acpi::Machine { vcpus: spec.vcpus, devices: spec.devices.len() };
        let protocol = boot::prepare(&memory, spec.payload, &machine)?;
        entry::write(&memory, &protocol).map_err(BootError::Memory)?;
        let fd = vm_with(kvm, &memory, spec.shown)?;
        let status = Arc::new(VmStatus::new(spec.name, spec.vcpus));
        let steal = tells_steal(&fd, &*domain);
        let features = Features::of_host(kvm, spec.vcpus, steal, spec.shown).map_err(refused("its CPU features"))?;
        if spec.shown.nested && !features.has_virtualisation() {
            return Err(CreateError::NoNesting);
        }
        let (features, apics) = match spec.interrupts {
            Interrupts::Kernel => {
                if steal == StealTime::Monitor {
                    msr_exits::let_out(&fd, MsrExitReason::Filter, &[steal::MSR])
                        .map_err(refused("exits for a register"))?;
                }
                kernel_controllers(&fd, spec.halt_poll)?;
                (features, None)
            }
            Interrupts::User => {
                let (features, apics) = user_controllers(kvm, &fd, features, steal, &status)?;
                (features, Some(Arc::new(apics)))
            }
        };
        let devices = make_devices(spec.devices, &memory)?;
        let console = Console::new(spec.name, spec.console).paid_by(PaidBy::from(Arc::clone(&status)));
        let serial = serial::SerialPort::new(console).map_err(CreateError::Serial)?;
        let (vcpu_set, retired) = VcpuSet::new(Arc::clone(&status), created);
        let tells_panic = spec.payload.cmdline.tells_panic();
        let steal = (0..spec.vcpus).map(|_| AtomicU64::new(0)).collect();
        let button = Interrupt::new().map_err(CreateError::Button)?;
        let state = Arc::new(LinuxState { status, memory, serial, button, devices, apics, tells_panic, steal });
        let vm = Self { state, vcpu_set, fd };
        vm.connect()?;
        vm.add_vcpus(&features, &protocol, spec.attributes, domain, &retired)?;
        vm.charge_devices();
        Ok(vm)
    }

    /// Connects devices with KVM: notifications that make no exit, and interrupts.
    fn connect(&self) -> Result<(), MakeError> {
        self.lead(self.state.serial.interrupt(), SERIAL_GSI)?;
        self.lead(&self.state.button, POWER_BUTTON_GSI)?;
        for (number, device) in self.state.devices.iter().enumerate() {
            self.lead(&device.interrupt, device_gsi(number))?;
            let notify = IoEventAddress::Mmio(device_base(number) + QUEUE_NOTIFY);
            for (queue, event) in (0u32..).zip(&device.queue_events) {
                self.fd.register_ioevent(event, &notify, queue).map_err(refused("an event for a queue"))?;
            }
        }
        Ok(())
    }

    /// Has the VM pay for the CPU time of the threads that serve its devices.
    fn charge_devices(&self) {
        for device in &self.state.devices {
            let payer: Arc<VmStatus> = Arc::clone(&self.state.status);
            device.worker().payer().name(payer);
        }
    }

    /// Leads an interrupt line to this input of the VM's I/O APIC.
    fn lead(&self, line: &Interrupt, gsi: u32) -> Result<(), MakeError> {
        match &self.state.apics {
            None => self.fd.register_irqfd(line.event(), gsi).map_err(refused("an interrupt by an event"))?,
            Some(apics) => line.lead_to(Arc::new(Pin { apics: Arc::clone(apics), number: gsi as usize })),
        }
        Ok(())
    }

    fn add_vcpus(
        &self,
        features: &Features,
        protocol: &Protocol,
        attributes: Attributes,
        domain: Arc<dyn Domain>,
        retired: &Sender<RetiredVcpu>,
    ) -> Result<(), MakeError> {
        self.vcpu_set.enlist(domain, attributes, |index| {
            let fd = self.fd.create_vcpu(u64::from(index)).map_err(refused("a vCPU"))?;
            prepare(&fd, index, features)?;
            let (vm, retired) = (Arc::clone(&self.state), retired.clone());
            match &self.state.apics {
                None => {
                    irqchip::set_up_lines(&fd).map_err(refused("the vCPU's local APIC"))?;
                    enter_kernel(&fd, index, protocol)?;
                    let (halting, steal) = (Halting::default(), steal::StealTime::default());
                    let pause = Pause::default();
                    let (last_spot, pending) = (LastSpot::default(), None);
                    Ok(Box::new(LinuxVcpu { index, fd, halting, last_spot, pending, pause, steal, vm, retired }))
                }
                Some(apics) => {
                    let pristine = Pristine::of(&fd, index).map_err(refused("the vCPU's state after a reset"))?;
                    enter_kernel(&fd, index, protocol)?;
                    Ok(Box::new(UserVcpu::new(index, fd, pristine, Arc::clone(apics), vm, retired)))
                }
            }
        })
    }

    /// The state that the vCPUs share.
    pub fn state(&self) -> &Arc<LinuxState> {
        &self.state
    }
}

/// Makes the VM's interrupt controllers in KVM.
fn kernel_controllers(fd: &VmFd, halt_poll: Option<Duration>) -> Result<(), MakeError> {
    irqchip::create(fd).map_err(refused("interrupt controllers in the kernel"))?;
    match halt_poll {
        Some(span) => halt::set_poll(fd, span.into()).map_err(refused("how long to spin for a halted vCPU")),
        None => Ok(()),
    }
}

/// Makes the VM's interrupt controllers here, and the CPUID that goes with them.
fn user_controllers(
    kvm: &Kvm,
    fd: &VmFd,
    features: Features,
    steal: StealTime,
    status: &Arc<VmStatus>,
) -> Result<(Features, Apics), MakeError> {
    userspace::let_out(fd, steal)
        .map_err(refused("exits for model-specific registers (it has them since Linux 5.10)"))?;
    let trial = userspace::trial::of(kvm, &features.clone().without_kernel_apic(true))?;
    let has_deadline = trial.deadline_comes_out;
    let apics = Apics::new(Arc::clone(status), TscClock::new(trial.tsc_khz), has_deadline);
    Ok((features.without_kernel_apic(has_deadline), apics))
}

fn make_devices(makers: Vec<AttachmentMaker<'_>>, memory: &GuestMemoryMmap) -> Result<Vec<Attachment>, CreateError> {
    let make = |(number, make): (usize, AttachmentMaker<'_>)| {
        make(memory).map_err(|source| CreateError::Device { number, source })
    };
    makers.into_iter().enumerate().map(make).collect()
}

/// What tells a guest in this domain its steal time. The monitor does it where a policy decides which vCPU runs and KVM
/// can leave the register to it.
fn tells_steal(fd: &VmFd, domain: &dyn Domain) -> StealTime {
    match domain.has_policy() {
        false => StealTime::Kvm,
        true if msr_exits::can_let_out(fd) => StealTime::Monitor,
        true => StealTime::Untold,
    }
}

/// The state in which every vCPU starts, the boot vCPU and those that the guest starts.
fn prepare(fd: &VcpuFd, index: u32, features: &Features) -> Result<(), MakeError> {
    let features = features.of_vcpu(index).map_err(refused("so many CPU features"))?;
    fd.set_cpuid2(&features).map_err(refused("the vCPU's features"))?;
    msrs::set(fd).map_err(refused("the vCPU's model-specific registers"))?;
    fd.set_fpu(&entry::fpu()).map_err(refused("the vCPU's floating-point state"))?;
    vm::follow_host(fd).map_err(refused("the host's TSC for the vCPU"))?;
    vm::kickable(fd).map_err(refused("a signal mask for the vCPU"))
}

/// Gives the boot vCPU the registers with which it enters the kernel.
fn enter_kernel(fd: &VcpuFd, index: u32, protocol: &Protocol) -> Result<(), MakeError> {
    if index != 0 {
        return Ok(());
    }
    let made = fd.get_sregs().map_err(refused("the vCPU's special registers"))?;
    fd.set_sregs(&entry::special_registers(protocol, made))
        .map_err(refused("to start the vCPU in the kernel's mode"))?;
    fd.set_regs(&entry::registers(protocol)).map_err(refused("the vCPU's registers"))
}

/// A VM is run, awaited and ended like any [`VcpuSet`].
impl Deref for LinuxVm {
    type Target = VcpuSet;

    fn deref(&self) -> &VcpuSet {
        &self.vcpu_set
    }
}

impl VirtualMachine for LinuxVm {
    fn vcpu_set(&self) -> &VcpuSet {
        &self.vcpu_set
    }

    fn told_wait(&self, vcpu: u32) -> Option<Nanos> {
        self.state.told_steal(vcpu)
    }
}
