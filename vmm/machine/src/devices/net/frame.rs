//! The bounce buffer: one Ethernet frame behind room for the virtio-net header, so that the same bytes can be copied
//! out of the sender's buffers and into the receiver's in one piece each.

use super::Mac;

/// Longest frame: 1500 bytes of payload behind an Ethernet header (units: bytes). No configuration key: the device
/// offers no larger MTU.
pub const MAX_FRAME: usize = 1514;
/// Shortest frame: its Ethernet header (units: bytes). Nothing here pads to 60 bytes, there is no wire.
pub const MIN_FRAME: usize = 14;
/// `virtio_net_hdr_v1`, which precedes each frame in either direction (units: bytes).
pub const HEADER_BYTES: usize = 12;

/// What each receiver finds before a frame: no offload, and the frame lies in one buffer (`num_buffers`, the last
/// field, is 1).
const RECEIVE_HEADER: [u8; HEADER_BYTES] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];

/// One frame on its way. About 1.5 KiB: meant for the stack, and to be used again.
#[derive(Clone)]
pub struct Frame {
    bytes: [u8; HEADER_BYTES + MAX_FRAME],
    /// Of the frame, without header.
    length: usize,
}

impl Frame {
    /// An empty buffer.
    pub fn new() -> Self {
        Self { bytes: [0; HEADER_BYTES + MAX_FRAME], length: 0 }
    }

    /// The frame alone.
    pub fn ethernet(&self) -> &[u8] {
        &self.bytes[HEADER_BYTES..][..self.length]
    }

    /// The frame as a receiver's buffer shall hold it.
    pub fn with_header(&self) -> &[u8] {
        &self.bytes[..HEADER_BYTES + self.length]
    }

    /// Length of the frame alone (units: bytes).
    pub fn length(&self) -> usize {
        self.length
    }

    /// Whom it is for.
    pub fn destination(&self) -> Mac {
        self.mac_at(0)
    }

    /// Whom it is from, as the sender says.
    pub fn source(&self) -> Mac {
        self.mac_at(6)
    }

    /// Where a sender's header and frame are to be copied to. Ends with [`Frame::filled`].
    pub(super) fn buffer(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Makes the `length` bytes that were copied to [`Frame::buffer`] a frame. `Err`: how long it would have been.
    pub(super) fn filled(&mut self, length: usize) -> Result<(), usize> {
        let length = length.saturating_sub(HEADER_BYTES);
        self.length = 0;
        if !(MIN_FRAME..=MAX_FRAME).contains(&length) {
            return Err(length);
        }
        self.length = length;
        // The sender's header is of no use to the receiver: no offload was negotiated.
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
