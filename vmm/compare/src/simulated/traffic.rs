//! The requests of simulated clients of netbench: tbench's operations by their shares, as far as their sizes differ.

use std::sync::Arc;
use stile_sched::Nanos;
use stile_sched::sim::{Draw, Exchange};

/// Exchanges in the sequence of the clients. Each client begins at another place.
const EXCHANGES: usize = 4096;
/// Work for a message on either side, whatever its length: TCP, the device, the program.
const MESSAGE: Nanos = Nanos(3_000);
/// Additional work for each kilobyte of a message: copies and checksums.
const KILOBYTE: Nanos = Nanos(500);
/// Bytes of a message without payload.
const PLAIN: u32 = 90;

/// Reads, writes and listings among ten thousand operations. The others carry names and handles.
const READS: u64 = 2710;
const WRITES: u64 = 860;
const FINDS: u64 = 610;
/// Payloads of reads and writes (unit: bytes) and their shares (unit: percent), as the guest program draws them.
const PAYLOADS: [(u32, u64); 5] = [(512, 18), (4096, 24), (16_384, 40), (32_768, 12), (61_440, 6)];
/// Mean number of bytes of a listing.
const LISTING: u32 = 500;

/// A sequence of exchanges.
pub(super) fn draw(seed: u64) -> Arc<[Exchange]> {
    let mut draw = Draw::new(seed);
    (0..EXCHANGES).map(|_| one(&mut draw)).collect()
}

fn one(draw: &mut Draw) -> Exchange {
    let (operation, payload) = (draw.below(10_000), payload(draw.below(100)));
    let (request, reply, bytes) = match operation {
        n if n < READS => (PLAIN, PLAIN + payload, payload),
        n if n < READS + WRITES => (PLAIN + payload, PLAIN, payload),
        n if n < READS + WRITES + FINDS => (PLAIN, LISTING, 0),
        _ => (PLAIN, PLAIN, 0),
    };
    Exchange { asks: work(request), serves: work(request) + work(reply), takes: work(reply), bytes }
}

fn payload(mut rest: u64) -> u32 {
    for (bytes, share) in PAYLOADS {
        if rest < share {
            return bytes;
        }
        rest -= share;
    }
    PAYLOADS[0].0
}

fn work(bytes: u32) -> Nanos {
    Nanos(MESSAGE.0 + KILOBYTE.0 * u64::from(bytes) / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_have_the_mean_of_the_guest_program() {
        let all = (0..20).flat_map(|seed| draw(seed).iter().copied().collect::<Vec<_>>());
        let payloads: Vec<u32> = all.map(|exchange| exchange.bytes).filter(|&bytes| bytes > 0).collect();
        let mean = payloads.iter().map(|&bytes| f64::from(bytes)).sum::<f64>() / payloads.len() as f64;
        assert!((mean - 15_200.0).abs() < 300.0, "{mean}");
        let share = payloads.len() as f64 / (20 * EXCHANGES) as f64;
        assert!((share - 0.357).abs() < 0.01, "{share}");
    }
}
