//! What netbench's client and server share: the start of the network, and one exchange on either side of it.
//!
//! A request is its own length less 4, the reply's length less 4, both as 4 bytes in network order, and padding. A reply
//! starts with its length less 4.

use crate::params::{Params, refuse};
use crate::tbench::{MESSAGE_MAX, MESSAGE_MIN};
use alloc::boxed::Box;
use alloc::vec;
use stile_rt::net::transport::{MmioTransport, Transport};
use stile_rt::net::{Address, NetError, Park, Stack, Stream};
use stile_rt::{Boot, Cpu, clock::Ticks, heap, net};

/// The stack of a guest.
pub type GuestStack = Stack<MmioTransport<'static>, Cpu>;

/// Starts the network of this guest; ends the VM with a message if it cannot.
pub fn start(cpu: Cpu, params: &Params) -> GuestStack {
    let boot = Boot::page();
    heap::init(boot);
    let text = params.text("net.ip").unwrap_or_else(|| refuse(cpu, format_args!("net.ip is missing")));
    let address = Address::parse(text).unwrap_or_else(|bad| refuse(cpu, format_args!("net.ip={bad}")));
    net::device(boot)
        .and_then(|transport| Stack::new(transport, address, params.clock, cpu))
        .unwrap_or_else(|error| refuse(cpu, format_args!("network: {error}")))
}

/// Room for any message, with zeros to pad it with.
pub fn message_buffer() -> Box<[u8]> {
    vec![0; MESSAGE_MAX].into_boxed_slice()
}

/// Sends a request and waits for the whole reply.
pub fn ask<T: Transport, P: Park>(
    stack: &mut Stack<T, P>,
    stream: &Stream,
    buffer: &mut [u8],
    (request, reply): (usize, usize),
    deadline: Ticks,
) -> Result<(), NetError> {
    put_length(&mut buffer[..4], request);
    put_length(&mut buffer[4..8], reply);
    stack.send_all(stream, &buffer[..request], deadline)?;
    stack.recv_exact(stream, &mut buffer[..4], Some(deadline))?;
    if get_length(&buffer[..4]) != Some(reply) {
        return Err(NetError::Closed);
    }
    stack.recv_exact(stream, &mut buffer[4..reply], Some(deadline))
}

/// Waits for a request and sends the reply that it asks for. A request that breaks the format counts as closed.
pub fn answer<T: Transport, P: Park>(
    stack: &mut Stack<T, P>,
    stream: &Stream,
    buffer: &mut [u8],
    patience_ns: u64,
) -> Result<(), NetError> {
    let deadline = stack.deadline(patience_ns);
    stack.recv_exact(stream, &mut buffer[..8], Some(deadline))?;
    let lengths = (get_length(&buffer[..4]), get_length(&buffer[4..8]));
    let (Some(request), Some(reply)) = lengths else { return Err(NetError::Closed) };
    stack.recv_exact(stream, &mut buffer[8..request], Some(deadline))?;
    put_length(&mut buffer[..4], reply);
    stack.send_all(stream, &buffer[..reply], deadline)
}

fn put_length(bytes: &mut [u8], length: usize) {
    bytes.copy_from_slice(&(length as u32 - 4).to_be_bytes());
}

/// The length of a message, if it keeps the bounds.
fn get_length(bytes: &[u8]) -> Option<usize> {
    let length = u32::from_be_bytes(bytes.try_into().ok()?) as usize + 4;
    (MESSAGE_MIN..=MESSAGE_MAX).contains(&length).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_survive_the_wire_within_their_bounds() {
        let mut bytes = [0; 4];
        for length in [MESSAGE_MIN, 103, MESSAGE_MAX] {
            put_length(&mut bytes, length);
            assert_eq!(get_length(&bytes), Some(length));
        }
        for length in [4, MESSAGE_MIN - 1, MESSAGE_MAX + 1] {
            put_length(&mut bytes, length);
            assert_eq!(get_length(&bytes), None);
        }
        assert_eq!(get_length(&[0xff; 4]), None);
    }
}
