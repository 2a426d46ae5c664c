//! The global allocator: all memory that the monitor left free.
//!
//! Its lock is a plain spin lock, and a scheduler can preempt the holder. So workloads with several vCPUs do not
//! allocate once they run.

use crate::Boot;
use linked_list_allocator::LockedHeap;

#[cfg_attr(feature = "guest", global_allocator)]
static HEAP: LockedHeap = LockedHeap::empty();

/// Gives the free memory to the allocator. Called once, by one vCPU, before the first allocation.
pub fn init(boot: Boot) {
    let (start, bytes) = boot.heap();
    #[allow(unsafe_code, reason = "the monitor tells which memory is free")]
    // SAFETY: the range is mapped, writable, used by nothing else, and handed out once.
    unsafe {
        HEAP.lock().init(start as *mut u8, bytes as usize);
    }
}
