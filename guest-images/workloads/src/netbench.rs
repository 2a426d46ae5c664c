//! What netbench's client and server share: the start of the network, and one exchange on either side of it.
//!
//! A request holds its own length less 4, the reply's length less 4, both as 4 bytes in network order, and padding. A
//! reply starts with its length less 4. All but the shortest messages carry a mark near their beginning and at their
//! end: the number of the request, and in a reply its complement. A message that is cut, joined, or not the one that is
//! due is found by its marks, and ends the VM.

use crate::params::{Params, refuse};
use crate::tbench::{MESSAGE_MAX, MESSAGE_MIN};
use alloc::boxed::Box;
use alloc::vec;
use core::fmt::Write;
use stile_rt::console::Console;
use stile_rt::net::transport::{MmioTransport, Transport};
use stile_rt::net::{Address, NetError, Park, Stack, Stream};
use stile_rt::{Boot, Cpu, clock::Ticks, doorbell, heap, net};

/// The stack of a guest.
pub type GuestStack = Stack<MmioTransport<'static>, Cpu>;

/// Starts the network of this guest. Ends the VM with a message if it cannot.
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

/// Offset of the first mark. The other mark is at the message's end.
const MARK_AT: usize = 8;
/// Shorter messages have no room for marks.
const MARKED_MIN: usize = MARK_AT + 8;
/// The exit code of a guest that found a message broken.
const CORRUPT: u32 = 1;

/// Why an exchange failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExchangeError {
    /// The connection is gone or too slow.
    Net(NetError),
    /// A message came that the other side did not send.
    Corrupt,
}

impl From<NetError> for ExchangeError {
    fn from(error: NetError) -> Self {
        Self::Net(error)
    }
}

/// Ends the VM if an exchange failed because a message was broken.
pub fn fail_if_corrupt<T>(cpu: Cpu, exchanged: Result<T, ExchangeError>) -> Result<T, NetError> {
    exchanged.map_err(|error| match error {
        ExchangeError::Net(error) => error,
        ExchangeError::Corrupt => {
            let mut out = Console::new(cpu);
            let _ = writeln!(out, "a message came that is not what was sent");
            out.flush();
            doorbell::exit(CORRUPT)
        }
    })
}

/// Sends the request of this number and waits for the whole reply.
pub fn ask<T: Transport, P: Park>(
    stack: &mut Stack<T, P>,
    stream: &Stream,
    buffer: &mut [u8],
    number: u32,
    (request, reply): (usize, usize),
    deadline: Ticks,
) -> Result<(), ExchangeError> {
    put_length(&mut buffer[..4], request);
    put_length(&mut buffer[4..8], reply);
    put_mark(&mut buffer[..request], number);
    stack.send_all(stream, &buffer[..request], deadline)?;
    stack.recv_exact(stream, &mut buffer[..4], Some(deadline))?;
    if get_length(&buffer[..4]) != Some(reply) {
        return Err(ExchangeError::Corrupt);
    }
    stack.recv_exact(stream, &mut buffer[4..reply], Some(deadline))?;
    match mark(&buffer[..reply]) {
        Some(mark) if mark != Some(!number) => Err(ExchangeError::Corrupt),
        _ => Ok(()),
    }
}

/// Waits for a request and sends the reply that it asks for.
pub fn answer<T: Transport, P: Park>(
    stack: &mut Stack<T, P>,
    stream: &Stream,
    buffer: &mut [u8],
    patience_ns: u64,
) -> Result<(), ExchangeError> {
    let deadline = stack.deadline(patience_ns);
    stack.recv_exact(stream, &mut buffer[..8], Some(deadline))?;
    let lengths = (get_length(&buffer[..4]), get_length(&buffer[4..8]));
    let (Some(request), Some(reply)) = lengths else { return Err(ExchangeError::Corrupt) };
    stack.recv_exact(stream, &mut buffer[8..request], Some(deadline))?;
    let number = match mark(&buffer[..request]) {
        Some(None) => return Err(ExchangeError::Corrupt),
        Some(Some(mark)) => !mark,
        None => 0,
    };
    put_length(&mut buffer[..4], reply);
    put_mark(&mut buffer[..reply], number);
    Ok(stack.send_all(stream, &buffer[..reply], deadline)?)
}

fn put_mark(message: &mut [u8], mark: u32) {
    if message.len() >= MARKED_MIN {
        message[MARK_AT..MARK_AT + 4].copy_from_slice(&mark.to_be_bytes());
        let end = message.len() - 4;
        message[end..].copy_from_slice(&mark.to_be_bytes());
    }
}

/// The mark of a message. `None` for a message without room for marks; `Some(None)` if its two marks differ.
fn mark(message: &[u8]) -> Option<Option<u32>> {
    let marked = message.len() >= MARKED_MIN;
    let (first, last) = (message.get(MARK_AT..MARK_AT + 4)?, message.last_chunk::<4>()?);
    marked.then(|| (first == last).then(|| u32::from_be_bytes(*last)))
}

fn put_length(bytes: &mut [u8], length: usize) {
    bytes.copy_from_slice(&(length as u32 - 4).to_be_bytes());
}

/// The length of a message, if it is within the limits.
fn get_length(bytes: &[u8]) -> Option<usize> {
    let length = u32::from_be_bytes(bytes.try_into().ok()?) as usize + 4;
    (MESSAGE_MIN..=MESSAGE_MAX).contains(&length).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_back_and_a_message_cut_or_joined_has_none() {
        let mut message = [0; 64];
        put_mark(&mut message[..40], 0x0102_0304);
        assert_eq!(mark(&message[..40]), Some(Some(0x0102_0304)));
        assert_eq!([mark(&message[..39]), mark(&message)], [Some(None); 2]);
        put_mark(&mut message[..MARKED_MIN - 1], 7);
        assert_eq!(mark(&message[..MARKED_MIN - 1]), None, "too short for marks");
        assert_eq!(mark(&message[..40]), Some(Some(0x0102_0304)), "nothing was written");
    }

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
