//! A device by which a guest of one vCPU replaces its program by itself: all its memory is given back, boot structures and
//! page tables are made anew, the image is loaded again. It happens on the thread and the time of the vCPU that asks.
//!
//! What guest and monitor tell each other (call blocks, gauges, steals) stays where it is: it is the VM's, not the program's,
//! and the monitor may be reading it. The vCPU keeps its registers; the guest jumps to its entry by itself.
#![allow(unsafe_code, reason = "the host is told to take pages back")]

use super::boot::{self, BootError, BootParams};
use super::image::{Image, ImageError};
use super::layout::{Layout, LayoutError};
use crate::devices::MmioDevice;
use crate::vm::Range;
use std::io;
use std::mem::offset_of;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use stile_abi::{BOOT_INFO_GPA, BootInfo, MMIO_BASE};
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

/// Why there is no such device for a VM.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The image.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// Its place in memory.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The host does not take memory back.
    #[error("the host does not take the guest's memory back")]
    Release(#[source] io::Error),
    /// What there was of guest memory is no more.
    #[error("guest memory cannot be read")]
    Memory(#[from] vm_memory::GuestMemoryError),
    /// The new program.
    #[error(transparent)]
    Boot(#[from] BootError),
}

/// The device.
#[derive(Debug)]
pub struct Reloader {
    memory: GuestMemoryMmap,
    layout: Layout,
    image: &'static [u8],
    cmdline: String,
    failed: OnceLock<ReloadError>,
}

impl Reloader {
    /// For a VM of one vCPU with this memory, image and command line.
    pub fn new(memory: &GuestMemoryMmap, image: &'static [u8], cmdline: &str) -> Result<Self, ReloadError> {
        let layout = Layout::new(memory.last_addr().0 + 1, 1, Image::parse(image)?.end())?;
        Ok(Self { memory: memory.clone(), layout, image, cmdline: cmdline.to_owned(), failed: OnceLock::new() })
    }

    /// Why the guest could not be given a new program, if so. It finds nothing where it goes on, and faults.
    pub fn failed(&self) -> Option<&ReloadError> {
        self.failed.get()
    }

    fn reload(&self) -> Result<(), ReloadError> {
        let image = Image::parse(self.image)?;
        let frequency = GuestAddress(BOOT_INFO_GPA + offset_of!(BootInfo, tsc_khz) as u64);
        let tsc_khz = self.memory.load(frequency, Relaxed)?;
        let (told, end) = (self.layout.calls.start, self.layout.memory);
        self.release(Range { start: 0, end: told })?;
        self.release(Range { start: self.layout.stacks.start, end })?;
        let params = BootParams { cmdline: &self.cmdline, tsc_khz, device_mmio: Some(MMIO_BASE) };
        boot::prepare(&self.memory, &self.layout, &image, &params)?;
        Ok(())
    }

    /// Gives whole pages back to the host; what is read there next is zero.
    fn release(&self, range: Range) -> Result<(), ReloadError> {
        let host = self.memory.get_host_address(GuestAddress(range.start))?;
        let bytes = (range.end - range.start) as usize;
        // SAFETY: the range lies in the one mapping of guest memory, which this holds a reference to, and holds nothing of
        // the monitor's own: only the guest's one vCPU uses it, which waits for this.
        let refused = unsafe { libc::madvise(host.cast(), bytes, libc::MADV_DONTNEED) };
        if refused == 0 { Ok(()) } else { Err(ReloadError::Release(io::Error::last_os_error())) }
    }
}

impl MmioDevice for Reloader {
    fn read(&self, _offset: u64, data: &mut [u8]) {
        data.fill(0);
    }

    fn write(&self, _offset: u64, _data: &[u8]) {
        if let Err(error) = self.reload() {
            // Only the first one tells what went wrong.
            let _ = self.failed.set(error);
        }
    }

    fn notify(&self, _queue: u16) {}
}

#[cfg(test)]
mod tests {
    use super::super::image::forge;
    use super::*;
    use stile_abi::IMAGE_MIN_GPA;

    const MEMORY: usize = 8 << 20;

    fn booted() -> (GuestMemoryMmap, Reloader) {
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), MEMORY)]).unwrap();
        let file: &'static [u8] = forge::code(&[0x90; 64]).leak();
        let reloader = Reloader::new(&memory, file, "a=1").unwrap();
        let params = BootParams { cmdline: "a=1", tsc_khz: 2_600_000, device_mmio: Some(MMIO_BASE) };
        boot::prepare(&memory, &reloader.layout, &Image::parse(file).unwrap(), &params).unwrap();
        (memory, reloader)
    }

    fn bytes(memory: &GuestMemoryMmap, range: Range) -> Vec<u8> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        memory.read_slice(&mut bytes, GuestAddress(range.start)).unwrap();
        bytes
    }

    #[test]
    fn a_reloaded_program_finds_memory_as_the_first_one_did() {
        let (memory, reloader) = booted();
        let below = Range { start: 0, end: reloader.layout.calls.start };
        let before = bytes(&memory, below);
        for (at, value) in [(IMAGE_MIN_GPA + 3, 7u8), (BOOT_INFO_GPA + 64, 9), (reloader.layout.heap.start + 5, 1)] {
            memory.write_obj(value, GuestAddress(at)).unwrap();
        }
        reloader.write(0, &[1, 0, 0, 0]);
        assert!(reloader.failed().is_none());
        assert!(bytes(&memory, below) == before, "boot structures, page tables and image are those of the first time");
        let heap = Range { start: reloader.layout.stacks.start, end: MEMORY as u64 };
        assert!(bytes(&memory, heap).iter().all(|byte| *byte == 0));
    }

    #[test]
    fn what_guest_and_monitor_tell_each_other_survives() {
        let (memory, reloader) = booted();
        let kept = [reloader.layout.calls.start, reloader.layout.gauge(0), reloader.layout.steal(0)].map(GuestAddress);
        kept.iter().for_each(|at| memory.write_obj(77u64, *at).unwrap());
        reloader.write(0, &[1, 0, 0, 0]);
        assert!(kept.iter().all(|at| memory.read_obj::<u64>(*at).unwrap() == 77));
    }
}
