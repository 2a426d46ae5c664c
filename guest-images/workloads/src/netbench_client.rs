//! The NetBench-like client: tbench's operations, one after the other, over one TCP connection, without pause.
//!
//! An operation is a request with its reply. Its time is recorded, and the bytes that it read or wrote count as
//! payload. A request that is not answered in time counts as an error. The client then makes a new connection and goes
//! on.

use crate::netbench::{self, GuestStack};
use crate::params::{Params, refuse};
use crate::tbench::{Exchange, Mix, PORT};
use alloc::boxed::Box;
use core::net::Ipv4Addr;
use stile_rt::abi::milestone;
use stile_rt::clock::Ticks;
use stile_rt::net::{NetError, Stream};
use stile_rt::{Cpu, clock, doorbell};

/// How long a request, or making a connection, may take before it is an error (units: ns).
const TIMEOUT_NS: u64 = 5_000_000_000;
/// Pause before another attempt at a connection that was refused: the server is just starting (units: ns).
const RETRY_NS: u64 = 2_000_000;

/// vCPU 0 is the client. Other vCPUs have no work.
pub fn main(cpu: Cpu) -> u32 {
    if cpu.index() != 0 {
        return stile_rt::abi::exit::OK;
    }
    let params = Params::of(cpu);
    let server = params.text("server").and_then(|text| text.parse().ok());
    let server = server.unwrap_or_else(|| refuse(cpu, format_args!("server=A.B.C.D is missing or no address")));
    let mut client = Client {
        cpu,
        stack: netbench::start(cpu, &params),
        server,
        mix: Mix::new(params.number("seed", 1)),
        buffer: netbench::message_buffer(),
        asked: 0,
    };
    let mut ready = false;
    loop {
        let stream = client.connect();
        if !ready {
            doorbell::progress(milestone::READY);
            ready = true;
        }
        client.work(&stream);
        client.stack.close(stream);
    }
}

struct Client {
    cpu: Cpu,
    stack: GuestStack,
    server: Ipv4Addr,
    mix: Mix,
    buffer: Box<[u8]>,
    /// Requests so far.
    asked: u32,
}

impl Client {
    /// Makes a connection, with its first exchange. Each [`TIMEOUT_NS`] without one is an error.
    fn connect(&mut self) -> Stream {
        loop {
            let deadline = self.stack.deadline(TIMEOUT_NS);
            while clock::now() < deadline {
                let Ok(stream) = self.stack.connect(self.server, PORT, deadline) else {
                    self.stack.sleep(RETRY_NS);
                    continue;
                };
                match self.ask(&stream, Exchange::SYNC, deadline) {
                    Ok(()) => return stream,
                    Err(_) => self.stack.close(stream),
                }
            }
            self.cpu.gauge().add_errors(1);
        }
    }

    /// Does one exchange. Ends the VM if the answer is not the reply to it.
    fn ask(&mut self, stream: &Stream, sizes: (usize, usize), deadline: Ticks) -> Result<(), NetError> {
        self.asked = self.asked.wrapping_add(1);
        let exchanged = netbench::ask(&mut self.stack, stream, &mut self.buffer, self.asked, sizes, deadline);
        netbench::fail_if_corrupt(self.cpu, exchanged)
    }

    /// Does operations until one fails.
    fn work(&mut self, stream: &Stream) {
        let gauge = self.cpu.gauge();
        loop {
            let exchange = self.mix.next_exchange();
            let asked = clock::now();
            gauge.begin(asked.0);
            let deadline = self.stack.deadline(TIMEOUT_NS);
            let sizes = (exchange.request, exchange.reply);
            if self.ask(stream, sizes, deadline).is_err() {
                gauge.add_errors(1);
                return;
            }
            gauge.record(self.stack.clock().ns(clock::now().since(asked)));
            gauge.add_bytes(exchange.payload as u64);
            self.cpu.op_done();
        }
    }
}
