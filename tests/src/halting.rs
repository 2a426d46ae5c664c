//! A guest of a few ring-0 instructions. Its vCPUs halt with their LAPIC in the kernel, as those of Linux do. They
//! compute or halt as the test says, and count their interrupts.
//!
//! It runs in real mode, since a host without hardware virtualisation emulates each of its instructions.

use kvm_bindings::{
    KVM_MAX_CPUID_ENTRIES, KVM_MP_STATE_RUNNABLE, kvm_lapic_state, kvm_mp_state, kvm_msi, kvm_regs,
    kvm_userspace_memory_region,
};
use kvm_ioctls::{Kvm, VcpuExit, VcpuFd, VmFd};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use stile_machine::halt::{self, Halting};
use stile_machine::vm;
use stile_sched::attributes::Attributes;
use stile_sched::ledger::Account;
use stile_sched::time::monotonic;
use stile_sched::{Domain, Nanos, Stop, Time, Vcpu, VcpuId};
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion, MemoryRegionAddress};

const MEMORY: usize = 1 << 20;
const VECTOR: u8 = 0x40;
const CODE: u16 = 0x1000;
const HANDLER: u16 = 0x2000;
/// A block for each vCPU: progress, whether to halt, interrupts.
const BLOCKS: u16 = 0x3000;
const BLOCK: u16 = 16;
const HALTS: u16 = 4;
const INTERRUPTS: u16 = 8;
const STACKS: u16 = 0x4000;
const STACK: u16 = 256;
/// The stacks end within the segment.
const MOST_VCPUS: u16 = 128;

/// `sti; again: inc dword [bx]; cmp byte [bx+4], 0; je again; hlt; jmp again`
const MAIN: [u8; 13] = [0xfb, 0x66, 0xff, 0x07, 0x80, 0x7f, 0x04, 0x00, 0x74, 0xf7, 0xf4, 0xeb, 0xf4];
/// `inc dword [bx+8]`, then the end of the interrupt by the x2APIC's register, `iret`; the main program needs no other
/// register than `bx`.
const INTERRUPT: [u8; 19] =
    [0x66, 0xff, 0x47, 0x08, 0x66, 0xb9, 0x0b, 0x08, 0x00, 0x00, 0x66, 0x31, 0xc0, 0x66, 0x31, 0xd2, 0x0f, 0x30, 0xcf];

const X2APIC: u64 = 3 << 10;
const SPURIOUS: usize = 0xf0;
const LVT_TIMER: usize = 0x320;
const INITIAL_COUNT: usize = 0x380;
const DIVIDE: usize = 0x3e0;
const PERIODIC: u32 = 1 << 17;
const BY_ONE: u32 = 0b1011;

/// The guest. It must be dropped after its domain.
pub struct HaltingGuest {
    vm: VmFd,
    memory: GuestMemoryMmap,
    ids: Vec<VcpuId>,
    times: Vec<Arc<Times>>,
    domain: Arc<dyn Domain>,
}

/// Times that a vCPU's thread notes.
#[derive(Debug, Default)]
pub struct Times {
    /// When it was last woken by an event while it dozed (unit: ns of CLOCK_MONOTONIC).
    woken: AtomicU64,
    /// When it ran for the first time after that.
    ran: AtomicU64,
    /// An unexpected exit.
    broken: Mutex<Option<String>>,
}

/// The description of a guest.
#[derive(Debug, Clone, Copy)]
pub struct HaltingRecipe {
    vcpus: u16,
    timer: Option<Nanos>,
    keeps_time: bool,
}

impl HaltingRecipe {
    /// A guest with this many vCPUs, which halt until the test says otherwise.
    pub fn vcpus(vcpus: u16) -> Self {
        assert!(vcpus <= MOST_VCPUS, "no room for {vcpus} stacks");
        Self { vcpus, timer: None, keeps_time: false }
    }

    /// Gives each vCPU a LAPIC timer: vCPU 0's has this period, and each further one's is a sixteenth of it longer.
    ///
    /// Timers of one period that fire together at the start do so for ever. Then each vCPU of a pCPU preempts the one
    /// that was woken before it, and the test measures only that.
    pub fn timer(self, period: Nanos) -> Self {
        Self { timer: Some(period), ..self }
    }

    /// Keeps the LAPICs' time outside KVM while the vCPUs doze.
    pub fn keeping_time(self) -> Self {
        Self { keeps_time: true, ..self }
    }

    /// Makes the guest and starts it; `None` if KVM has no LAPIC in the kernel.
    ///
    /// # Panics
    /// If KVM refuses anything else.
    pub fn start(self, kvm: &Kvm, domain: &Arc<dyn Domain>) -> HaltingGuest {
        let vm = kvm.create_vm().expect("a VM");
        vm.set_tss_address(0xfffb_d000).expect("a place for the TSS");
        vm.create_irq_chip().expect("an interrupt controller in the kernel");
        halt::set_poll(&vm, Nanos::ZERO).expect("no halt polling");
        let memory = memory(&vm, self.vcpus);
        let mut guest = HaltingGuest { vm, memory, ids: Vec::new(), times: Vec::new(), domain: Arc::clone(domain) };
        for index in 0..self.vcpus {
            let times = Arc::new(Times::default());
            let halting = if self.keeps_time { Halting::keeping_time() } else { Halting::default() };
            let fd = self.vcpu(kvm, &guest.vm, index);
            let vcpu = Halter { fd, halting, times: Arc::clone(&times) };
            let id = domain.add(Box::new(vcpu), Attributes::default()).expect("a thread for the vCPU");
            guest.ids.push(id);
            guest.times.push(times);
            domain.wake(id);
        }
        guest
    }

    fn vcpu(&self, kvm: &Kvm, vm: &VmFd, index: u16) -> VcpuFd {
        let fd = vm.create_vcpu(index.into()).expect("a vCPU");
        vm::kickable(&fd).expect("a signal mask for the vCPU");
        let mut cpuid = kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES).expect("KVM's CPUID");
        for entry in cpuid.as_mut_slice() {
            if entry.function == 0xb {
                entry.edx = index.into();
            }
        }
        fd.set_cpuid2(&cpuid).expect("a CPUID");
        let mut sregs = fd.get_sregs().expect("registers");
        (sregs.cs.base, sregs.cs.selector) = (0, 0);
        sregs.apic_base |= X2APIC;
        fd.set_sregs(&sregs).expect("registers");
        let (rbx, rsp) = (BLOCKS + BLOCK * index, STACKS + STACK * (index + 1));
        let regs = kvm_regs { rip: CODE.into(), rbx: rbx.into(), rsp: rsp.into(), rflags: 2, ..kvm_regs::default() };
        fd.set_regs(&regs).expect("registers");
        let mut lapic = fd.get_lapic().expect("a LAPIC");
        set(&mut lapic, SPURIOUS, 0x1ff);
        if let Some(period) = self.timer.map(|first| Nanos(first.0 + first.0 * u64::from(index) / 16)) {
            set(&mut lapic, LVT_TIMER, PERIODIC | u32::from(VECTOR));
            set(&mut lapic, DIVIDE, BY_ONE);
            set(&mut lapic, INITIAL_COUNT, u32::try_from(period.0).expect("a period of at most 4 s"));
        }
        fd.set_lapic(&lapic).expect("a LAPIC");
        fd.set_mp_state(kvm_mp_state { mp_state: KVM_MP_STATE_RUNNABLE }).expect("a vCPU that is started");
        fd
    }
}

fn set(lapic: &mut kvm_lapic_state, register: usize, value: u32) {
    for (byte, value) in lapic.regs[register..].iter_mut().zip(value.to_le_bytes()) {
        *byte = value as _;
    }
}

/// The guest's memory with its program; all vCPUs halt.
fn memory(vm: &VmFd, vcpus: u16) -> GuestMemoryMmap {
    let memory: GuestMemoryMmap = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), MEMORY)]).expect("memory");
    let write = |bytes: &[u8], at: u16| memory.write_slice(bytes, GuestAddress(at.into())).expect("it is memory");
    write(&MAIN, CODE);
    write(&INTERRUPT, HANDLER);
    write(&HANDLER.to_le_bytes(), 4 * u16::from(VECTOR));
    (0..vcpus).for_each(|vcpu| write(&[1], BLOCKS + BLOCK * vcpu + HALTS));
    let region = memory.iter().next().expect("one region");
    let address = region.get_host_address(MemoryRegionAddress(0)).expect("mapped");
    let region = kvm_userspace_memory_region {
        memory_size: MEMORY as u64,
        userspace_addr: address as u64,
        ..kvm_userspace_memory_region::default()
    };
    map(vm, region);
    memory
}

#[allow(unsafe_code, reason = "memory for a guest")]
fn map(vm: &VmFd, region: kvm_userspace_memory_region) {
    // SAFETY: the range is a mapping that the guest keeps until its vCPUs have ended.
    unsafe { vm.set_user_memory_region(region) }.expect("memory for the guest");
}

impl HaltingGuest {
    /// Interrupts that a vCPU has taken.
    pub fn interrupts(&self, vcpu: u16) -> u32 {
        self.word(vcpu, INTERRUPTS)
    }

    /// Rounds of a vCPU's main loop.
    pub fn progress(&self, vcpu: u16) -> u32 {
        self.word(vcpu, 0)
    }

    /// Whether a vCPU halts when it has nothing else to do, or computes for ever. A halted vCPU notices a change at its
    /// next interrupt.
    pub fn halts(&self, vcpu: u16, halts: bool) {
        let at = GuestAddress((BLOCKS + BLOCK * vcpu + HALTS).into());
        self.memory.store(u8::from(halts), at, SeqCst).expect("it is memory");
    }

    /// Interrupts a vCPU.
    pub fn interrupt(&self, vcpu: u16) {
        let msi =
            kvm_msi { address_lo: 0xfee0_0000 | u32::from(vcpu) << 12, data: VECTOR.into(), ..kvm_msi::default() };
        self.vm.signal_msi(msi).expect("KVM takes the message");
    }

    /// A vCPU's name in the domain.
    pub fn id(&self, vcpu: u16) -> VcpuId {
        self.ids[usize::from(vcpu)]
    }

    /// A vCPU's account so far.
    pub fn account(&self, vcpu: u16) -> Account {
        self.domain.account(self.ids[usize::from(vcpu)]).expect("it has not ended")
    }

    /// When a vCPU was last woken by an event in a doze, and when it ran after that.
    pub fn woken(&self, vcpu: u16) -> (Time, Time) {
        let times = &self.times[usize::from(vcpu)];
        (Time(times.woken.load(SeqCst)), Time(times.ran.load(SeqCst)))
    }

    /// Ends all vCPUs, and waits until they have.
    ///
    /// # Panics
    /// If a vCPU made an exit that was not expected.
    pub fn stop(self) {
        self.ids.iter().for_each(|id| self.domain.retire(*id));
        crate::wait_for("the vCPUs have ended", || self.times.iter().all(|times| Arc::strong_count(times) == 1));
        for times in &self.times {
            assert_eq!(*times.broken.lock().unwrap_or_else(PoisonError::into_inner), None);
        }
    }

    fn word(&self, vcpu: u16, offset: u16) -> u32 {
        self.memory.load(GuestAddress((BLOCKS + BLOCK * vcpu + offset).into()), SeqCst).expect("it is memory")
    }
}

/// One vCPU.
struct Halter {
    fd: VcpuFd,
    halting: Halting,
    times: Arc<Times>,
}

impl Vcpu for Halter {
    fn run(&mut self) -> Stop {
        let _ = self.times.ran.compare_exchange(0, monotonic().0, SeqCst, SeqCst);
        let broken = match self.fd.run() {
            Ok(VcpuExit::Intr) => return self.kicked(),
            Ok(other) => format!("exit {other:?}"),
            Err(e) if e.errno() == 4 => return self.kicked(),
            Err(e) => e.to_string(),
        };
        *self.times.broken.lock().unwrap_or_else(PoisonError::into_inner) = Some(broken);
        Stop::Done
    }

    fn halts_inside(&self) -> bool {
        true
    }

    fn doze(&mut self) -> bool {
        let event = self.halting.doze(&mut self.fd);
        if event {
            self.times.ran.store(0, SeqCst);
            self.times.woken.store(monotonic().0, SeqCst);
        }
        event
    }

    fn retired(self: Box<Self>, _: &Account) {}
}

impl Halter {
    fn kicked(&mut self) -> Stop {
        if self.halting.is_halted(&self.fd) { Stop::Halted } else { Stop::Kicked }
    }
}
