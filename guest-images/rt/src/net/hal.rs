//! What virtio-drivers has to know about memory. A guest's memory is mapped one to one, so nothing is ever translated,
//! shared or copied.
#![allow(unsafe_code, reason = "memory that the device writes to")]

use alloc::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use core::ptr::NonNull;

use virtio_drivers::{BufferDirection, Hal, PAGE_SIZE, PhysAddr};

/// Physical is virtual.
pub(super) struct Identity;

fn pages_layout(pages: usize) -> Layout {
    Layout::from_size_align(pages * PAGE_SIZE, PAGE_SIZE).expect("a queue has a few pages")
}

// SAFETY: memory comes zeroed, aligned to pages and exclusive from the allocator; a guest's virtual address is the
// physical one that the device uses.
unsafe impl Hal for Identity {
    fn dma_alloc(pages: usize, _: BufferDirection) -> (PhysAddr, NonNull<u8>) {
        let layout = pages_layout(pages);
        // SAFETY: the layout's size is not 0, no queue is empty.
        let memory = unsafe { alloc_zeroed(layout) };
        match NonNull::new(memory) {
            Some(memory) => (memory.as_ptr() as PhysAddr, memory),
            None => handle_alloc_error(layout),
        }
    }

    unsafe fn dma_dealloc(_: PhysAddr, memory: NonNull<u8>, pages: usize) -> i32 {
        // SAFETY: the caller hands back what `dma_alloc` gave for as many pages.
        unsafe { dealloc(memory.as_ptr(), pages_layout(pages)) };
        0
    }

    unsafe fn mmio_phys_to_virt(address: PhysAddr, _: usize) -> NonNull<u8> {
        NonNull::new(address as *mut u8).expect("no device lies at address 0")
    }

    unsafe fn share(buffer: NonNull<[u8]>, _: BufferDirection) -> PhysAddr {
        buffer.cast::<u8>().as_ptr() as PhysAddr
    }

    unsafe fn unshare(_: PhysAddr, _: NonNull<[u8]>, _: BufferDirection) {}
}
