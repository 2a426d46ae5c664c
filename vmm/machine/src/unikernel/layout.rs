//! Addresses of everything in a unikernel guest's memory.
//!
//! In ascending order:
//! 1. a page that is left unmapped, so that null pointers fault;
//! 2. the boot-information page;
//! 3. the monitor's ring-0 structures;
//! 4. page tables;
//! 5. from [`IMAGE_MIN_GPA`] the image;
//! 6. call blocks, gauges and steals of the vCPUs;
//! 7. stacks of the vCPUs, each above an unmapped guard page;
//! 8. the heap, up to the end.

use crate::vm::Range;
use stile_abi::{CallBlock, Gauge, IMAGE_MIN_GPA, MEMORY_MAX, STACK_BYTES, Steal};

/// Bytes in a page.
pub const PAGE: u64 = 4096;
/// Descriptor table page.
pub const GDT: u64 = 0x2000;
/// Interrupt descriptors, in the descriptor table page.
pub const IDT: u64 = GDT + 0x800;
/// Page of the ring-0 exception stubs.
pub const STUBS: u64 = 0x3000;
/// Task-state segments with their exception stacks, [`TSS_STRIDE`] apart, one per vCPU; page tables follow.
pub const TSS: u64 = 0x4000;
/// Space for one vCPU's task-state segment and exception stack (units: bytes).
pub const TSS_STRIDE: u64 = 1024;

/// The addresses of one VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Memory size (units: bytes).
    pub memory: u64,
    /// Number of vCPUs.
    pub vcpus: u32,
    /// The range for page tables.
    pub tables: Range,
    /// The image, in whole pages.
    pub image: Range,
    /// [`CallBlock`]s.
    pub calls: Range,
    /// [`Gauge`]s.
    pub gauges: Range,
    /// [`Steal`]s.
    pub steals: Range,
    /// Stacks and guard pages.
    pub stacks: Range,
    /// Free memory.
    pub heap: Range,
}

/// Why the memory of a VM does not do.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum LayoutError {
    /// Too small for the image, the stacks of all vCPUs and at least one page of heap.
    #[error("memory of {have} KiB is too small for {vcpus} vCPU(s) and this image: at least {need} KiB are needed")]
    TooSmall {
        /// KiB given.
        have: u64,
        /// KiB needed.
        need: u64,
        /// vCPUs asked for.
        vcpus: u32,
    },
    /// The memory reaches into the device window.
    #[error("memory of {have} KiB is too large: devices begin at {} KiB", MEMORY_MAX / 1024)]
    TooLarge {
        /// KiB given.
        have: u64,
    },
}

impl Layout {
    /// Lays out a VM with an image that ends at `image_end`.
    pub fn new(memory: u64, vcpus: u32, image_end: u64) -> Result<Self, LayoutError> {
        let n = u64::from(vcpus);
        let image = Range { start: IMAGE_MIN_GPA, end: page_up(image_end) };
        let calls = Range { start: image.end, end: image.end + n * size_of::<CallBlock>() as u64 };
        let gauges = Range { start: calls.end, end: calls.end + n * size_of::<Gauge>() as u64 };
        let steals = Range { start: gauges.end, end: gauges.end + n * size_of::<Steal>() as u64 };
        let stacks_start = page_up(steals.end);
        let stacks = Range { start: stacks_start, end: stacks_start + n * (PAGE + STACK_BYTES) };
        let need = stacks.end + PAGE;
        if memory < need {
            return Err(LayoutError::TooSmall { have: memory / 1024, need: need / 1024, vcpus });
        }
        if memory > MEMORY_MAX {
            return Err(LayoutError::TooLarge { have: memory / 1024 });
        }
        let tables = Range { start: page_up(TSS + n * TSS_STRIDE), end: IMAGE_MIN_GPA };
        let heap = Range { start: stacks.end, end: memory & !(PAGE - 1) };
        Ok(Self { memory, vcpus, tables, image, calls, gauges, steals, stacks, heap })
    }

    /// The stack of a vCPU, without its guard page.
    pub fn stack(&self, vcpu: u32) -> Range {
        let end = self.stacks.start + (u64::from(vcpu) + 1) * (PAGE + STACK_BYTES);
        Range { start: end - STACK_BYTES, end }
    }

    /// Address of a vCPU's call block.
    pub fn call_block(&self, vcpu: u32) -> u64 {
        self.calls.start + u64::from(vcpu) * size_of::<CallBlock>() as u64
    }

    /// Address of a vCPU's gauge.
    pub fn gauge(&self, vcpu: u32) -> u64 {
        self.gauges.start + u64::from(vcpu) * size_of::<Gauge>() as u64
    }

    /// Address of a vCPU's steal.
    pub fn steal(&self, vcpu: u32) -> u64 {
        self.steals.start + u64::from(vcpu) * size_of::<Steal>() as u64
    }

    /// Address of a vCPU's task-state segment.
    pub fn tss(&self, vcpu: u32) -> u64 {
        TSS + u64::from(vcpu) * TSS_STRIDE
    }
}

/// The next page boundary.
pub fn page_up(address: u64) -> u64 {
    address.next_multiple_of(PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_follow_each_other_without_overlap() {
        let l = Layout::new(64 << 20, 16, IMAGE_MIN_GPA + 12345).unwrap();
        assert!(l.image.end <= l.calls.start && l.calls.end <= l.gauges.start && l.gauges.end <= l.steals.start);
        assert!(l.steals.end <= l.stacks.start);
        assert!(l.stacks.end <= l.heap.start && l.heap.start < l.heap.end && l.heap.end <= l.memory);
        assert_eq!(l.stack(15).end, l.stacks.end);
        assert_eq!(l.stack(0).start, l.stacks.start + PAGE, "a guard page below the first stack");
    }

    #[test]
    fn a_thousand_vcpus_leave_room_for_page_tables() {
        let l = Layout::new(256 << 20, 1024, IMAGE_MIN_GPA + (1 << 20)).unwrap();
        // Tables: top three levels, 4 KiB tables for low memory, image and stacks.
        assert!((l.tables.end - l.tables.start) / PAGE > 6 + 2 + (l.stacks.end - l.image.start) / (2 << 20) + 2);
    }

    #[test]
    fn memory_too_small_names_what_is_needed() {
        let Err(LayoutError::TooSmall { need, .. }) = Layout::new(4 << 20, 1024, IMAGE_MIN_GPA) else {
            panic!("4 MiB cannot hold 1024 stacks")
        };
        assert!(Layout::new(need * 1024, 1024, IMAGE_MIN_GPA).is_ok());
        assert!(Layout::new(need * 1024 - PAGE, 1024, IMAGE_MIN_GPA).is_err());
    }

    #[test]
    fn memory_in_the_device_window_is_refused() {
        assert!(matches!(Layout::new(MEMORY_MAX + PAGE, 1, IMAGE_MIN_GPA), Err(LayoutError::TooLarge { .. })));
    }
}
