//! A device by which a guest with one vCPU replaces its own program. All its memory is given back to the host, boot
//! structures and page tables are made anew, and the image is loaded again. This happens on the thread and the time of
//! the vCPU.
//!
//! The structures that guest and monitor share (call blocks, gauges, steals) keep their contents: they belong to the
//! VM, not to the program, and the monitor may be reading them. The vCPU keeps its registers. The guest jumps to the
//! program's entry itself.
#![allow(unsafe_code, reason = "the host is told to take pages back")]

use super::boot::{self, BootError, BootParams};
use super::image::{Image, ImageError};
use super::layout::{Layout, LayoutError};
use crate::devices::virtio::Progress;
use crate::devices::{MmioDevice, Written};
use crate::vm::Range;
use std::io;
use std::mem::offset_of;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use stile_abi::{BOOT_INFO_GPA, BootInfo, MMIO_BASE};
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

/// Why a VM cannot have this device.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The file is not an image.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The image does not fit into memory.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The host does not take back memory.
    #[error("the host does not take the guest's memory back")]
    Release(#[source] io::Error),
    /// Why a program was not replaced. The old one is gone by then.
    #[error("guest memory cannot be read")]
    Memory(#[from] vm_memory::GuestMemoryError),
    /// The new program's boot structures do not fit.
    #[error(transparent)]
    Boot(#[from] BootError),
}

/// The device that replaces the program.
#[derive(Debug)]
pub struct Reloader {
    memory: GuestMemoryMmap,
    layout: Layout,
    image: &'static [u8],
    cmdline: String,
    failed: OnceLock<ReloadError>,
}

impl Reloader {
    /// The device of a VM of one vCPU with this memory, image and command line.
    pub fn new(memory: &GuestMemoryMmap, image: &'static [u8], cmdline: &str) -> Result<Self, ReloadError> {
        let layout = Layout::new(memory.last_addr().0 + 1, 1, Image::parse(image)?.end())?;
        Ok(Self { memory: memory.clone(), layout, image, cmdline: cmdline.to_owned(), failed: OnceLock::new() })
    }

    /// Why the program could not be replaced, if that happened. The guest then finds nothing at its next instruction,
    /// and faults.
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

    /// Gives whole pages back to the host. They read as zero afterwards.
    fn release(&self, range: Range) -> Result<(), ReloadError> {
        let host = self.memory.get_host_address(GuestAddress(range.start))?;
        let bytes = (range.end - range.start) as usize;
        // SAFETY: the range lies in the one mapping of guest memory, to which this value holds a reference. Nothing of
        // the monitor's own lies in the range: only the guest's one vCPU uses it, and that vCPU waits for this call.
        let refused = unsafe { libc::madvise(host.cast(), bytes, libc::MADV_DONTNEED) };
        if refused == 0 { Ok(()) } else { Err(ReloadError::Release(io::Error::last_os_error())) }
    }
}

impl MmioDevice for Reloader {
    fn read(&self, _offset: u64, data: &mut [u8]) {
        data.fill(0);
    }

    fn write(&self, _offset: u64, _data: &[u8]) -> Written {
        if let Err(error) = self.reload() {
            // The first error is kept.
            let _ = self.failed.set(error);
        }
        Written::Done
    }

    fn notify(&self, _queue: u16) -> Progress {
        Progress::Done
    }
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
        assert_eq!(reloader.write(0, &[1, 0, 0, 0]), Written::Done);
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
        assert_eq!(reloader.write(0, &[1, 0, 0, 0]), Written::Done);
        assert!(kept.iter().all(|at| memory.read_obj::<u64>(*at).unwrap() == 77));
    }
}
