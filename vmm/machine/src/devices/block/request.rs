//! One request to a disk, from its chain to its status.
//!
//! A request that goes beyond the disk, or that the host's file refuses, gets a status that says so. Only a chain
//! without room for header or status is malformed. A request that reaches outside of the disk has no effect at all.

use std::io::{self, Read, Write};

use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_ID_BYTES, VIRTIO_BLK_S_IOERR, VIRTIO_BLK_S_OK, VIRTIO_BLK_S_UNSUPP, VIRTIO_BLK_T_DISCARD,
    VIRTIO_BLK_T_FLUSH, VIRTIO_BLK_T_GET_ID, VIRTIO_BLK_T_IN, VIRTIO_BLK_T_OUT, VIRTIO_BLK_T_WRITE_ZEROES,
};

use super::disk::{Disk, SECTOR_BYTES};
use crate::devices::virtio::{Answer, ChainError, Request};

/// `virtio_blk_outhdr`: type, a reserved word, sector (units: bytes).
const HEADER_BYTES: usize = 16;
/// `virtio_blk_discard_write_zeroes`: sector, sectors, flags (units: bytes).
const SEGMENT_BYTES: usize = 16;
/// The one flag of a segment: its zeros need no storage.
const UNMAP: u32 = 1;

/// Most segments in one discard. As much as drivers put into one request.
pub(super) const SEGMENTS_MAX: u32 = 16;
/// Most segments in one write-zeroes. Its zeros may have to be written.
pub(super) const ZEROED_SEGMENTS_MAX: u32 = 1;
/// Most sectors in a segment: 32 MiB. Zeroing that many takes some ten milliseconds where zeros have to be written.
pub(super) const SEGMENT_SECTORS_MAX: u32 = (32 << 20) / SECTOR_BYTES as u32;
/// Most bytes in one buffer of a read or write. It is announced, so that a sound driver never meets [`BYTES_MAX`].
pub(super) const BUFFER_BYTES_MAX: u32 = 256 << 10;
/// Most buffers in a read or write. Header and status take two of the 256 descriptors.
pub(super) const BUFFERS_MAX: u32 = 254;
/// Most bytes in one read or write. A longer one would keep a reset waiting.
const BYTES_MAX: u64 = 64 << 20;

/// Why a request did not succeed, as a status for its driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    Io,
    Unsupported,
}

impl From<io::Error> for Refusal {
    fn from(_: io::Error) -> Self {
        Self::Io
    }
}

/// Carries out a request, copying through `buffer`. With `sync`, data are on the host's storage before the request is
/// reported as done.
pub(super) fn perform(
    disk: &Disk,
    mut request: Request<'_>,
    buffer: &mut [u8],
    sync: bool,
) -> Result<Answer, ChainError> {
    request.must_read(HEADER_BYTES)?;
    request.must_write(1)?;
    let room = request.writer.available_bytes() - 1;
    let mut status = request.writer.split_off(room);
    let mut beyond = 0;
    let outcome = answer(disk, &mut request, buffer, sync, &mut beyond);
    let code = match outcome {
        Ok(()) => VIRTIO_BLK_S_OK,
        Err(Refusal::Io) => VIRTIO_BLK_S_IOERR,
        Err(Refusal::Unsupported) => VIRTIO_BLK_S_UNSUPP,
    };
    // Room for it was checked above.
    let _ = status.write_all(&[code as u8]);
    let whole = request.writer.available_bytes() == 0;
    // This fits: one request's data are bounded.
    let written = request.writer.bytes_done() as u32 + u32::from(whole);
    Ok(Answer { written, beyond })
}

fn answer(
    disk: &Disk,
    request: &mut Request<'_>,
    buffer: &mut [u8],
    sync: bool,
    beyond: &mut u64,
) -> Result<(), Refusal> {
    let mut header = [0; HEADER_BYTES];
    request.reader.read_exact(&mut header)?;
    let sector = u64::from_le_bytes(part(&header, 8));
    match u32::from_le_bytes(part(&header, 0)) {
        VIRTIO_BLK_T_IN => read(disk, sector, request, buffer),
        VIRTIO_BLK_T_OUT => {
            write(disk, sector, request, buffer)?;
            if sync { Ok(disk.flush()?) } else { Ok(()) }
        }
        VIRTIO_BLK_T_FLUSH => Ok(disk.flush()?),
        VIRTIO_BLK_T_GET_ID => {
            let mut id = [0; VIRTIO_BLK_ID_BYTES as usize];
            id.iter_mut().zip(disk.id().bytes()).for_each(|(to, from)| *to = from);
            let length = id.len().min(request.writer.available_bytes());
            Ok(request.writer.write_all(&id[..length])?)
        }
        VIRTIO_BLK_T_DISCARD => {
            let segments = segments(disk, request, SEGMENTS_MAX, 0)?;
            Ok(segments.iter().try_for_each(|segment| disk.discard(segment.offset, segment.length))?)
        }
        VIRTIO_BLK_T_WRITE_ZEROES => {
            let segments = segments(disk, request, ZEROED_SEGMENTS_MAX, UNMAP)?;
            *beyond = segments.iter().map(|segment| segment.length).sum();
            let zero =
                |segment: &Segment| disk.write_zeroes(segment.offset, segment.length, segment.flags & UNMAP != 0);
            segments.iter().try_for_each(zero)?;
            if sync { Ok(disk.flush()?) } else { Ok(()) }
        }
        _ => Err(Refusal::Unsupported),
    }
}

fn read(disk: &Disk, sector: u64, request: &mut Request<'_>, buffer: &mut [u8]) -> Result<(), Refusal> {
    let length = request.writer.available_bytes() as u64;
    let mut at = place(disk, sector, length)?;
    let end = at + length;
    while at < end {
        let size = chunk(buffer.len(), end - at);
        let part = &mut buffer[..size];
        disk.read(at, part)?;
        request.writer.write_all(part)?;
        at += part.len() as u64;
    }
    Ok(())
}

fn write(disk: &Disk, sector: u64, request: &mut Request<'_>, buffer: &mut [u8]) -> Result<(), Refusal> {
    let length = request.reader.available_bytes() as u64;
    let mut at = place(disk, sector, length)?;
    if disk.read_only() {
        return Err(Refusal::Io);
    }
    let end = at + length;
    while at < end {
        let size = chunk(buffer.len(), end - at);
        let part = &mut buffer[..size];
        request.reader.read_exact(part)?;
        disk.write(at, part)?;
        at += part.len() as u64;
    }
    Ok(())
}

fn chunk(buffer: usize, left: u64) -> usize {
    usize::try_from(left).map_or(buffer, |left| left.min(buffer))
}

/// The offset at which a read or write of so many bytes begins; an error if the disk cannot carry it out.
fn place(disk: &Disk, sector: u64, length: u64) -> Result<u64, Refusal> {
    if length > BYTES_MAX || !length.is_multiple_of(SECTOR_BYTES) {
        return Err(Refusal::Io);
    }
    within(disk, sector, length / SECTOR_BYTES)
}

/// The offset of a sector; an error if it and the sectors after it are not all on the disk.
fn within(disk: &Disk, sector: u64, sectors: u64) -> Result<u64, Refusal> {
    let end = sector.checked_add(sectors).filter(|end| *end <= disk.sectors());
    // The disk's size in bytes fits, and so do all positions on it.
    end.map(|_| sector * SECTOR_BYTES).ok_or(Refusal::Io)
}

/// A part of a disk to be discarded or zeroed (units: bytes).
struct Segment {
    offset: u64,
    length: u64,
    flags: u32,
}

/// The segments of a request, all of them checked.
fn segments(disk: &Disk, request: &mut Request<'_>, most: u32, flags_known: u32) -> Result<Vec<Segment>, Refusal> {
    let bytes = request.reader.available_bytes();
    if disk.read_only() || !bytes.is_multiple_of(SEGMENT_BYTES) || bytes > most as usize * SEGMENT_BYTES {
        return Err(Refusal::Io);
    }
    let mut segments = Vec::with_capacity(bytes / SEGMENT_BYTES);
    for _ in 0..bytes / SEGMENT_BYTES {
        let mut raw = [0; SEGMENT_BYTES];
        request.reader.read_exact(&mut raw)?;
        let (sectors, flags) = (u32::from_le_bytes(part(&raw, 8)), u32::from_le_bytes(part(&raw, 12)));
        if flags & !flags_known != 0 {
            return Err(Refusal::Unsupported);
        }
        if sectors > SEGMENT_SECTORS_MAX {
            return Err(Refusal::Io);
        }
        let offset = within(disk, u64::from_le_bytes(part(&raw, 0)), sectors.into())?;
        // fallocate refuses a length of 0, so an empty segment is left out.
        if sectors > 0 {
            segments.push(Segment { offset, length: u64::from(sectors) * SECTOR_BYTES, flags });
        }
    }
    Ok(segments)
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&bytes[at..][..N]);
    part
}
