//! The header at the start of each packet (`virtio_vsock_hdr`).

use super::{BUFFER_BYTES, GUEST_CID, HOST_CID};

/// Size of a header (units: bytes).
pub(super) const HEADER_BYTES: usize = 44;
/// The one type of connection: a stream.
pub(super) const STREAM: u16 = 1;

/// `VIRTIO_VSOCK_OP_*`.
pub(super) mod op {
    pub(in crate::devices::vsock) const REQUEST: u16 = 1;
    pub(in crate::devices::vsock) const RESPONSE: u16 = 2;
    pub(in crate::devices::vsock) const RESET: u16 = 3;
    pub(in crate::devices::vsock) const SHUTDOWN: u16 = 4;
    pub(in crate::devices::vsock) const DATA: u16 = 5;
    pub(in crate::devices::vsock) const CREDIT_UPDATE: u16 = 6;
    pub(in crate::devices::vsock) const CREDIT_REQUEST: u16 = 7;
}

/// In a shutdown: the sender receives no more.
pub(super) const RECEIVES_NO_MORE: u32 = 1;
/// In a shutdown: the sender sends no more.
pub(super) const SENDS_NO_MORE: u32 = 2;

/// The two ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Ports {
    pub(super) host: u32,
    pub(super) guest: u32,
}

/// A header, in the host's byte order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) src_cid: u64,
    pub(super) dst_cid: u64,
    pub(super) src_port: u32,
    pub(super) dst_port: u32,
    pub(super) length: u32,
    pub(super) kind: u16,
    pub(super) op: u16,
    pub(super) flags: u32,
    pub(super) buf_alloc: u32,
    pub(super) fwd_cnt: u32,
}

impl Header {
    /// A packet to the guest that has no data and a `fwd_cnt` of 0.
    pub(super) fn to_guest(ports: Ports, op: u16) -> Self {
        Self {
            src_cid: HOST_CID,
            dst_cid: GUEST_CID,
            src_port: ports.host,
            dst_port: ports.guest,
            kind: STREAM,
            op,
            buf_alloc: BUFFER_BYTES,
            ..Self::default()
        }
    }

    /// The reset that refuses the guest's packet with this header.
    pub(super) fn refusal(&self) -> Self {
        Self {
            src_cid: self.dst_cid,
            dst_cid: self.src_cid,
            src_port: self.dst_port,
            dst_port: self.src_port,
            kind: self.kind,
            op: op::RESET,
            ..Self::default()
        }
    }

    /// The ports of the connection to which a packet from the guest belongs.
    pub(super) fn ports(&self) -> Ports {
        Ports { host: self.dst_port, guest: self.src_port }
    }

    pub(super) fn parse(bytes: &[u8; HEADER_BYTES]) -> Self {
        let mut rest = &bytes[..];
        Self {
            src_cid: u64::from_le_bytes(take(&mut rest)),
            dst_cid: u64::from_le_bytes(take(&mut rest)),
            src_port: u32::from_le_bytes(take(&mut rest)),
            dst_port: u32::from_le_bytes(take(&mut rest)),
            length: u32::from_le_bytes(take(&mut rest)),
            kind: u16::from_le_bytes(take(&mut rest)),
            op: u16::from_le_bytes(take(&mut rest)),
            flags: u32::from_le_bytes(take(&mut rest)),
            buf_alloc: u32::from_le_bytes(take(&mut rest)),
            fwd_cnt: u32::from_le_bytes(take(&mut rest)),
        }
    }

    pub(super) fn bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let mut rest = &mut bytes[..];
        let mut put = |field: &[u8]| {
            let (to, after) = std::mem::take(&mut rest).split_at_mut(field.len());
            to.copy_from_slice(field);
            rest = after;
        };
        put(&self.src_cid.to_le_bytes());
        put(&self.dst_cid.to_le_bytes());
        put(&self.src_port.to_le_bytes());
        put(&self.dst_port.to_le_bytes());
        put(&self.length.to_le_bytes());
        put(&self.kind.to_le_bytes());
        put(&self.op.to_le_bytes());
        put(&self.flags.to_le_bytes());
        put(&self.buf_alloc.to_le_bytes());
        put(&self.fwd_cnt.to_le_bytes());
        bytes
    }
}

/// Takes the next field off `rest`, the rest of a header that is long enough for all its fields.
fn take<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    let mut field = [0; N];
    let (from, after) = rest.split_at(N);
    field.copy_from_slice(from);
    *rest = after;
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_every_field_has_its_place() {
        let bytes: [u8; HEADER_BYTES] = std::array::from_fn(|at| at as u8);
        let header = Header::parse(&bytes);
        assert_eq!(header.bytes(), bytes);
        assert_eq!((header.src_cid, header.dst_port), (0x0706_0504_0302_0100, 0x1716_1514));
        assert_eq!((header.length, header.kind, header.op), (0x1b1a_1918, 0x1d1c, 0x1f1e));
        assert_eq!((header.flags, header.buf_alloc, header.fwd_cnt), (0x2322_2120, 0x2726_2524, 0x2b2a_2928));
    }

    #[test]
    fn a_refusal_goes_back_to_where_the_packet_came_from() {
        let sent = Header { src_cid: 3, dst_cid: 9, src_port: 70, dst_port: 80, kind: 2, op: 5, ..Header::default() };
        let refusal = sent.refusal();
        assert_eq!((refusal.src_cid, refusal.dst_cid, refusal.src_port, refusal.dst_port), (9, 3, 80, 70));
        assert_eq!((refusal.kind, refusal.op), (2, op::RESET));
    }
}
