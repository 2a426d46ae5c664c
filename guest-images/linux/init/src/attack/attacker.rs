//! A queue of a device in memory of this process, with descriptors of any content.

use super::arena::{Arena, PAGES};
use super::device::Device;
use super::error::AttackError;
use fastrand::Rng;

/// Features that any device may have: version 1, tables of descriptors, and events by index.
const VERSION_1: u64 = 1 << 32;
const INDIRECT_TABLES: u64 = 1 << 28;
const EVENT_INDEX: u64 = 1 << 29;

/// Flags of a descriptor.
pub(super) const NEXT: u16 = 1;
pub(super) const WRITE: u16 = 2;
pub(super) const INDIRECT: u16 = 4;

/// What the pages of an arena are for.
pub(super) const DESCRIPTORS: usize = 0;
pub(super) const AVAILABLE: usize = 1;
pub(super) const USED: usize = 2;
pub(super) const TABLE: usize = 3;
/// Headers and text, which devices only read.
pub(super) const TEXT: usize = 4;
/// Buffers that devices write to.
const BUFFERS: std::ops::Range<usize> = 5..PAGES;
/// Descriptors of a queue, and of a page.
pub(super) const SIZE: u16 = 64;

/// A descriptor.
#[derive(Clone, Copy)]
pub(super) struct Descriptor {
    pub(super) address: u64,
    pub(super) length: u32,
    pub(super) flags: u16,
    pub(super) next: u16,
}

/// A device, memory for it, and the choices.
pub(super) struct Attacker {
    pub(super) device: Device,
    pub(super) arena: Arena,
    pub(super) random: Rng,
    /// Accesses to registers, and descriptors.
    pub(super) inputs: u64,
}

impl Attacker {
    pub(super) fn new(device: Device, random: Rng) -> Result<Self, AttackError> {
        Ok(Self { device, arena: Arena::new()?, random, inputs: 0 })
    }

    /// One of these, of which there is at least one.
    pub(super) fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.random.usize(..of.len())]
    }

    /// Writes a descriptor of a queue or a table.
    pub(super) fn describe(&mut self, page: usize, index: u16, descriptor: Descriptor) {
        let Descriptor { address, length, flags, next } = descriptor;
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&address.to_le_bytes());
        bytes[8..12].copy_from_slice(&length.to_le_bytes());
        bytes[12..14].copy_from_slice(&flags.to_le_bytes());
        bytes[14..].copy_from_slice(&next.to_le_bytes());
        self.arena.write(page, 16 * usize::from(index), &bytes);
        self.inputs += 1;
    }

    /// Makes these chains available, and says that there are so many.
    pub(super) fn offer(&mut self, heads: &[u16], claimed: u16) {
        for (at, head) in heads.iter().enumerate() {
            self.arena.write(AVAILABLE, 4 + 2 * at, &head.to_le_bytes());
        }
        self.arena.write(AVAILABLE, 2, &claimed.to_le_bytes());
        self.inputs += 1;
    }

    /// Empties rings and tables, with the device off.
    pub(super) fn fresh(&mut self) {
        self.device.reset();
        self.arena.clear(DESCRIPTORS..TEXT);
    }

    /// Starts the device with one queue, and notifies it.
    pub(super) fn strike(&mut self, queue: u32) {
        let features = self.one_of(&[
            VERSION_1,
            VERSION_1,
            VERSION_1 | INDIRECT_TABLES,
            VERSION_1 | EVENT_INDEX,
            VERSION_1 | INDIRECT_TABLES | EVENT_INDEX,
        ]);
        self.device.begin(features);
        let places = [DESCRIPTORS, AVAILABLE, USED].map(|page| self.arena.address(page));
        self.device.set_up(queue, SIZE.into(), places);
        self.device.go();
        let times = self.random.u64(1..4);
        (0..times).for_each(|_| self.device.notify(queue));
        self.inputs += 20 + times;
    }

    /// A page that devices may write to.
    pub(super) fn buffer(&mut self) -> u64 {
        let page = self.random.usize(BUFFERS);
        self.arena.address(page)
    }

    /// The number of a queue that the device may have.
    pub(super) fn queue(&mut self) -> u32 {
        self.random.u32(..3)
    }
}
