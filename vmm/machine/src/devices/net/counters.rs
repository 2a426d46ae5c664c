//! The counters of a port. *Sent* and *received* are the guest's view: a frame that it sent came into the switch.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Why a frame was not delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// Counted at the receiver: it has no buffer, and [`WAITING_MAX`](super::WAITING_MAX) frames wait already.
    QueueFull,
    /// Counted at the receiver: its driver is not ready, or its device needs a reset.
    ReceiverDown,
    /// Counted at the sender: longer than Ethernet permits.
    Oversize,
    /// Counted at the sender: too short for an Ethernet header.
    Runt,
    /// Counted at the sender: its destination is at no other port.
    NoPort,
    /// Counted at the sender: its source is not the sender's own address.
    ForeignSource,
    /// Counted at the sender: it was for many, and the sender has sent too many of those.
    FloodLimit,
}

/// Frames that were not delivered, by reason; see [`DropReason`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Drops {
    /// [`DropReason::QueueFull`].
    pub queue_full: u64,
    /// [`DropReason::ReceiverDown`].
    pub receiver_down: u64,
    /// [`DropReason::Oversize`].
    pub oversize: u64,
    /// [`DropReason::Runt`].
    pub runt: u64,
    /// [`DropReason::NoPort`].
    pub no_port: u64,
    /// [`DropReason::ForeignSource`].
    pub foreign_source: u64,
    /// [`DropReason::FloodLimit`].
    pub flood_limit: u64,
}

impl Drops {
    /// Drops for any reason.
    pub fn total(&self) -> u64 {
        let refused = self.foreign_source + self.flood_limit;
        self.queue_full + self.receiver_down + self.oversize + self.runt + self.no_port + refused
    }
}

/// One reading of a port's counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Frames that the guest sent.
    pub sent_frames: u64,
    /// Ethernet bytes that the guest sent.
    pub sent_bytes: u64,
    /// Frames that reached the guest or wait for it.
    pub received_frames: u64,
    /// Ethernet bytes that reached the guest or wait for it.
    pub received_bytes: u64,
    /// Frames that were dropped.
    pub drops: Drops,
}

impl AddAssign for PortStats {
    fn add_assign(&mut self, other: Self) {
        self.sent_frames += other.sent_frames;
        self.sent_bytes += other.sent_bytes;
        self.received_frames += other.received_frames;
        self.received_bytes += other.received_bytes;
        self.drops.queue_full += other.drops.queue_full;
        self.drops.receiver_down += other.drops.receiver_down;
        self.drops.oversize += other.drops.oversize;
        self.drops.runt += other.drops.runt;
        self.drops.no_port += other.drops.no_port;
        self.drops.foreign_source += other.drops.foreign_source;
        self.drops.flood_limit += other.drops.flood_limit;
    }
}

/// The live counters. All accesses are relaxed: they order nothing.
#[derive(Debug, Default)]
pub(super) struct Counters {
    sent_frames: AtomicU64,
    sent_bytes: AtomicU64,
    received_frames: AtomicU64,
    received_bytes: AtomicU64,
    queue_full: AtomicU64,
    receiver_down: AtomicU64,
    oversize: AtomicU64,
    runt: AtomicU64,
    no_port: AtomicU64,
    foreign_source: AtomicU64,
    flood_limit: AtomicU64,
}

impl Counters {
    pub(super) fn sent(&self, bytes: usize) {
        self.sent_frames.fetch_add(1, Relaxed);
        self.sent_bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn received(&self, bytes: usize) {
        self.received_frames.fetch_add(1, Relaxed);
        self.received_bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn dropped(&self, reason: DropReason) {
        let counter = match reason {
            DropReason::QueueFull => &self.queue_full,
            DropReason::ReceiverDown => &self.receiver_down,
            DropReason::Oversize => &self.oversize,
            DropReason::Runt => &self.runt,
            DropReason::NoPort => &self.no_port,
            DropReason::ForeignSource => &self.foreign_source,
            DropReason::FloodLimit => &self.flood_limit,
        };
        counter.fetch_add(1, Relaxed);
    }

    pub(super) fn read(&self) -> PortStats {
        PortStats {
            sent_frames: self.sent_frames.load(Relaxed),
            sent_bytes: self.sent_bytes.load(Relaxed),
            received_frames: self.received_frames.load(Relaxed),
            received_bytes: self.received_bytes.load(Relaxed),
            drops: Drops {
                queue_full: self.queue_full.load(Relaxed),
                receiver_down: self.receiver_down.load(Relaxed),
                oversize: self.oversize.load(Relaxed),
                runt: self.runt.load(Relaxed),
                no_port: self.no_port.load(Relaxed),
                foreign_source: self.foreign_source.load(Relaxed),
                flood_limit: self.flood_limit.load(Relaxed),
            },
        }
    }
}
