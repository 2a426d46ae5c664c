//! The boot-information page as the guest reads it.
#![allow(unsafe_code, reason = "the monitor's structures lie at addresses it tells")]

use stile_abi::{BOOT_INFO_GPA, BootInfo, CallBlock, Gauge, MAGIC, Steal, VERSION};

/// The page, checked. Constant for the life of the VM.
#[derive(Debug, Clone, Copy)]
pub struct Boot(&'static BootInfo);

impl Boot {
    /// The page the monitor wrote. Only meaningful inside a guest.
    pub fn page() -> Self {
        // SAFETY: the monitor maps the page read-only at this address before any vCPU starts and never changes it.
        Self(unsafe { &*(BOOT_INFO_GPA as *const BootInfo) })
    }

    /// Whether guest and monitor were built from the same ABI.
    pub fn is_compatible(self) -> bool {
        self.0.magic == MAGIC
            && self.0.version == VERSION
            && self.0.boot_info_size as usize == size_of::<BootInfo>()
            && self.0.call_block_size as usize == size_of::<CallBlock>()
            && self.0.gauge_size as usize == size_of::<Gauge>()
            && self.0.steal_size as usize == size_of::<Steal>()
    }

    /// Number of vCPUs of this VM.
    pub fn vcpus(self) -> u32 {
        self.0.vcpus
    }

    /// TSC frequency (units: kHz).
    pub fn tsc_khz(self) -> u32 {
        self.0.tsc_khz
    }

    /// The VM's command line.
    pub fn cmdline(self) -> &'static str {
        let bytes = &self.0.cmdline[..(self.0.cmdline_len as usize).min(self.0.cmdline.len())];
        core::str::from_utf8(bytes).unwrap_or("")
    }

    /// Free memory, as (first address, bytes).
    pub fn heap(self) -> (u64, u64) {
        (self.0.heap_start, self.0.heap_end.saturating_sub(self.0.heap_start))
    }

    /// Address of the device's registers, if the VM has one.
    pub fn device_mmio(self) -> Option<u64> {
        (self.0.device_mmio != 0).then_some(self.0.device_mmio)
    }

    pub(crate) fn call_block(self, vcpu: u32) -> &'static CallBlock {
        debug_assert!(vcpu < self.0.vcpus);
        // SAFETY: `vcpus` blocks lie at this address, mapped for the life of the VM; all fields are atomics.
        unsafe { &*(self.0.calls as *const CallBlock).add(vcpu as usize) }
    }

    pub(crate) fn gauge(self, vcpu: u32) -> &'static Gauge {
        debug_assert!(vcpu < self.0.vcpus);
        // SAFETY: as `call_block`.
        unsafe { &*(self.0.gauges as *const Gauge).add(vcpu as usize) }
    }

    pub(crate) fn steal(self, vcpu: u32) -> &'static Steal {
        debug_assert!(vcpu < self.0.vcpus);
        // SAFETY: as `call_block`.
        unsafe { &*(self.0.steals as *const Steal).add(vcpu as usize) }
    }
}
