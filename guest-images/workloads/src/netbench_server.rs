//! The server of one NetBench-like client, like one process of a file server. It answers one connection at a time, and
//! waits for the next one when that is gone. An operation is a request answered.

use crate::netbench;
use crate::params::Params;
use crate::tbench::PORT;
use stile_rt::abi::{exit, milestone};
use stile_rt::{Cpu, doorbell};

/// After this time without a whole request a connection is given up (units: ns). A client gives up much sooner and says
/// so. This is for a client that was not able to.
const PATIENCE_NS: u64 = 60_000_000_000;

/// vCPU 0 is the server. Other vCPUs have no work.
pub fn main(cpu: Cpu) -> u32 {
    if cpu.index() != 0 {
        return exit::OK;
    }
    let mut stack = netbench::start(cpu, &Params::of(cpu));
    let mut buffer = netbench::message_buffer();
    let mut listener = stack.listen(PORT);
    doorbell::progress(milestone::READY);
    loop {
        let Ok(stream) = stack.accept(&mut listener) else { continue };
        let mut answer = || netbench::answer(&mut stack, &stream, &mut buffer, PATIENCE_NS);
        while netbench::fail_if_corrupt(cpu, answer()).is_ok() {
            cpu.op_done();
        }
        stack.close(stream);
    }
}
