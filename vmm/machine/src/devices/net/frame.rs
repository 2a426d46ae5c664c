//! The bounce buffer: one Ethernet frame behind room for the virtio-net header. So header and frame can be copied out
//! of the sender's buffers in one piece, and into the receiver's in one piece.

use super::Mac;

/// Longest frame: 1500 bytes of payload behind an Ethernet header (units: bytes). No configuration key: the device
/// offers no larger MTU.
pub const MAX_FRAME: usize = 1514;
/// Shortest frame: its Ethernet header (units: bytes). Frames are not padded to 60 bytes, since there is no wire.
pub const MIN_FRAME: usize = 14;
/// `virtio_net_hdr_v1`, which precedes each frame in either direction (units: bytes).
pub const HEADER_BYTES: usize = 12;

/// The header before each frame for a receiver: no offload, and the frame is in one buffer (`num_buffers`, the last
/// field, is 1).
const RECEIVE_HEADER: [u8; HEADER_BYTES] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];

/// One frame on its way, of about 1.5 KiB. Meant for the stack, and for use by one frame after the other.
#[derive(Clone)]
pub struct Frame {
    bytes: [u8; HEADER_BYTES + MAX_FRAME],
    /// Length of the frame without header (units: bytes).
    length: usize,
}

impl Frame {
    /// An empty buffer.
    pub fn new() -> Self {
        Self { bytes: [0; HEADER_BYTES + MAX_FRAME], length: 0 }
    }

    /// The frame without header.
    pub fn ethernet(&self) -> &[u8] {
        &self.bytes[HEADER_BYTES..][..self.length]
    }

    /// Header and frame, as they go into a receiver's buffer.
    pub fn with_header(&self) -> &[u8] {
        &self.bytes[..HEADER_BYTES + self.length]
    }

    /// Length of the frame without header (units: bytes).
    pub fn length(&self) -> usize {
        self.length
    }

    /// Destination address.
    pub fn destination(&self) -> Mac {
        self.mac_at(0)
    }

    /// Source address. The sender may have put any address there.
    pub fn source(&self) -> Mac {
        self.mac_at(6)
    }

    /// The space for a sender's header and frame. [`Frame::filled`] must follow.
    pub(super) fn buffer(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Makes a frame of the `length` bytes that were copied to [`Frame::buffer`]. `Err`: the length of the frame, which
    /// no frame can have.
    pub(super) fn filled(&mut self, length: usize) -> Result<(), usize> {
        let length = length.saturating_sub(HEADER_BYTES);
        self.length = 0;
        if !(MIN_FRAME..=MAX_FRAME).contains(&length) {
            return Err(length);
        }
        self.length = length;
        // The receiver gets a header of its own: no offload was negotiated.
        self.bytes[..HEADER_BYTES].copy_from_slice(&RECEIVE_HEADER);
        Ok(())
    }

    fn mac_at(&self, offset: usize) -> Mac {
        let mut mac = [0; 6];
        mac.copy_from_slice(&self.bytes[HEADER_BYTES + offset..][..6]);
        Mac(mac)
    }
}

impl Default for Frame {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
pub(super) fn test_frame(to: Mac, from: Mac, payload: &[u8]) -> Frame {
    let mut frame = Frame::new();
    let ethernet = [&to.0[..], &from.0, &[0x88, 0xb5], payload].concat();
    frame.buffer()[HEADER_BYTES..][..ethernet.len()].copy_from_slice(&ethernet);
    frame.filled(HEADER_BYTES + ethernet.len()).unwrap();
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_outside_of_ethernet_are_refused() {
        let mut frame = Frame::new();
        assert_eq!(frame.filled(0), Err(0));
        assert_eq!(frame.filled(HEADER_BYTES + MIN_FRAME - 1), Err(MIN_FRAME - 1));
        assert_eq!(frame.filled(HEADER_BYTES + MIN_FRAME), Ok(()));
        assert_eq!(frame.filled(HEADER_BYTES + MAX_FRAME), Ok(()));
        assert_eq!(frame.filled(HEADER_BYTES + MAX_FRAME + 1), Err(MAX_FRAME + 1));
        assert_eq!(frame.length(), 0);
    }

    #[test]
    fn the_senders_header_does_not_reach_the_receiver() {
        let mut frame = Frame::new();
        frame.buffer()[..HEADER_BYTES].fill(0xff);
        frame.filled(HEADER_BYTES + MIN_FRAME).unwrap();
        assert_eq!(frame.with_header()[..HEADER_BYTES], RECEIVE_HEADER);
    }
}
