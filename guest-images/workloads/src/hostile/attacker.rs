//! One vCPU that attacks: its memory, its random numbers, its count.

use super::device::Device;
use super::random::Random;
use stile_rt::{Boot, Cpu, doorbell};

/// Memory of each vCPU (unit: bytes): two queues of 256 descriptors, and as much again for buffers.
pub(super) const ARENA_BYTES: u64 = 128 << 10;
/// Inputs at which a vCPU reports for the first time.
const FIRST_REPORT: u64 = 1 << 10;

/// One vCPU that attacks.
#[derive(Debug)]
pub(super) struct Attacker {
    pub(super) cpu: Cpu,
    pub(super) random: Random,
    /// Its own memory, [`ARENA_BYTES`] from here, page-aligned.
    pub(super) arena: u64,
    /// The VM's network device, which all of its vCPUs use.
    pub(super) device: Option<Device>,
    /// Ports 1 to this one are attacked.
    pub(super) peers: u16,
    made: u64,
    report_at: u64,
}

impl Attacker {
    /// An attacker; `None` if the VM has too little memory.
    pub(super) fn new(cpu: Cpu, seed: u64, peers: u16) -> Option<Self> {
        let (heap, bytes) = Boot::page().heap();
        let at = u64::from(cpu.index()) * ARENA_BYTES;
        (at + ARENA_BYTES <= bytes).then(|| Self {
            cpu,
            random: Random::new(seed, cpu.index()),
            arena: heap + at,
            device: Boot::page().device_mmio().map(Device::at),
            peers: peers.max(1),
            made: 0,
            report_at: FIRST_REPORT,
        })
    }

    /// Counts inputs.
    pub(super) fn made(&mut self, inputs: u64) {
        self.made += inputs;
        self.cpu.gauge().add_ops(inputs);
        if self.made >= self.report_at {
            self.report_at = self.made * 2;
            doorbell::result(self.cpu, "inputs", self.made);
        }
    }

    /// A vCPU of this VM.
    pub(super) fn any_vcpu(&mut self) -> u32 {
        self.random.below(u64::from(Boot::page().vcpus())) as u32
    }
}
