//! The traffic of tbench: its operations, their shares, and the bytes that each sends and gets back. Pure.
//!
//! Each operation is one request and one reply. Their sizes are those of the SMB packets that the operation would need;
//! L is the length of a path. Shares are those of dbench 4's client trace. Operations are drawn at random and not
//! replayed, since the trace is not ours to ship. Sizes of reads and writes are drawn so that their mean is the
//! trace's, 15.2 kB.

/// TCP port of the server.
pub const PORT: u16 = 7003;
/// Longest message in either direction (units: bytes).
pub const MESSAGE_MAX: usize = 59 + 61_440;
/// Shortest message: the two lengths that a request starts with (units: bytes).
pub const MESSAGE_MIN: usize = 8;

/// What a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of SMB operations, as dbench has them")]
pub enum Operation {
    ReadX,
    NtCreateX,
    Qpathinfo,
    Close,
    WriteX,
    Find,
    Unlink,
    Qfsinfo,
    Qfileinfo,
    Sfileinfo,
    Flush,
    Rename,
    LockX,
    UnlockX,
}

/// Shares of the operations (units: hundredths of a percent). They add up to 100.02 %, the trace's own rounding.
const SHARES: [(Operation, u32); 14] = [
    (Operation::ReadX, 2710),
    (Operation::NtCreateX, 1730),
    (Operation::Qpathinfo, 1570),
    (Operation::Close, 1270),
    (Operation::WriteX, 860),
    (Operation::Find, 610),
    (Operation::Unlink, 350),
    (Operation::Qfsinfo, 290),
    (Operation::Qfileinfo, 270),
    (Operation::Sfileinfo, 140),
    (Operation::Flush, 120),
    (Operation::Rename, 70),
    (Operation::LockX, 6),
    (Operation::UnlockX, 6),
];

/// Payloads of reads and writes (units: bytes) and their shares (units: percent).
const PAYLOADS: [(usize, u32); 5] = [(512, 18), (4096, 24), (16_384, 40), (32_768, 12), (61_440, 6)];

/// Lengths of paths (units: bytes): those of the trace, such as `\clients\client1\~dmtmp\PARADOX\ANSWER.MB`.
const PATH_LENGTHS: core::ops::Range<usize> = 24..57;
/// Entries that a Find returns.
const FIND_ENTRIES: core::ops::Range<usize> = 1..11;

/// One request and its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// What is asked for.
    pub operation: Operation,
    /// Length of the request (units: bytes).
    pub request: usize,
    /// Length of the reply (units: bytes).
    pub reply: usize,
    /// Bytes read or written, which count as throughput (units: bytes).
    pub payload: usize,
}

impl Exchange {
    /// The first exchange of a connection, by which both sides know that the other is there.
    pub const SYNC: (usize, usize) = (8, 8);

    /// An operation with the path length, payload and entries it uses.
    fn of(operation: Operation, path: usize, payload: usize, entries: usize) -> Self {
        use Operation::*;
        let (request, reply) = match operation {
            Unlink => (43 + 2 * path, 39),
            NtCreateX => (74 + 2 * path, 87),
            WriteX => (59 + payload, 55),
            ReadX => (59, 59 + payload),
            Close => (47, 39),
            Rename => (47 + 2 * (path + path), 39),
            Flush => (41, 39),
            Qpathinfo => (55 + 2 * path, 71),
            Qfileinfo | Qfsinfo => (59, 71),
            Find => (59 + 2 * path, 39 + 90 * entries),
            Sfileinfo => (71, 47),
            LockX | UnlockX => (51, 39),
        };
        let payload = if matches!(operation, ReadX | WriteX) { payload } else { 0 };
        Self { operation, request, reply, payload }
    }
}

/// An endless sequence of exchanges. The same seed gives the same sequence.
#[derive(Debug, Clone)]
pub struct Mix {
    state: u64,
}

impl Mix {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next exchange.
    pub fn next_exchange(&mut self) -> Exchange {
        let operation = self.weighted(&SHARES);
        let path = self.within(PATH_LENGTHS);
        let payload = self.weighted(&PAYLOADS);
        let entries = self.within(FIND_ENTRIES);
        Exchange::of(operation, path, payload, entries)
    }

    fn weighted<T: Copy, const N: usize>(&mut self, table: &[(T, u32); N]) -> T {
        let mut rest = self.below(table.iter().map(|(_, weight)| weight).sum());
        for &(item, weight) in table {
            if rest < weight {
                return item;
            }
            rest -= weight;
        }
        table[0].0
    }

    fn within(&mut self, range: core::ops::Range<usize>) -> usize {
        range.start + self.below(range.len() as u32) as usize
    }

    /// A number below `bound`, uniform but for some 1/2^32.
    fn below(&mut self, bound: u32) -> u32 {
        (((self.random() >> 32) * u64::from(bound)) >> 32) as u32
    }

    /// SplitMix64: any seed is as good as any other, also 0, 1, 2, ...
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: usize = 200_000;

    fn draws() -> impl Iterator<Item = Exchange> {
        let mut mix = Mix::new(1);
        (0..DRAWS).map(move |_| mix.next_exchange())
    }

    #[test]
    fn shares_add_up_to_a_hundred_percent() {
        let total: u32 = SHARES.iter().map(|(_, share)| share).sum();
        assert!(total.abs_diff(10_000) <= 5, "{total}");
        assert_eq!(PAYLOADS.iter().map(|(_, share)| share).sum::<u32>(), 100);
    }

    #[test]
    fn operations_are_drawn_in_their_shares() {
        for (operation, share) in SHARES {
            let drawn = draws().filter(|e| e.operation == operation).count() as f64 / DRAWS as f64;
            let wanted = f64::from(share) / 10_000.0;
            assert!((drawn - wanted).abs() < 0.005, "{operation:?}: {drawn} instead of {wanted}");
        }
    }

    #[test]
    fn reads_and_writes_move_fifteen_kilobytes_in_the_mean() {
        let payloads: Vec<_> = draws().map(|e| e.payload).filter(|&payload| payload > 0).collect();
        let mean = payloads.iter().sum::<usize>() as f64 / payloads.len() as f64;
        assert!((mean - 15_200.0).abs() < 300.0, "{mean}");
    }

    #[test]
    fn sizes_follow_the_path_the_payload_and_the_entries() {
        let sizes = |operation, path, payload, entries| {
            let exchange = Exchange::of(operation, path, payload, entries);
            (exchange.request, exchange.reply, exchange.payload)
        };
        assert_eq!(sizes(Operation::Unlink, 30, 512, 1), (103, 39, 0));
        assert_eq!(sizes(Operation::NtCreateX, 30, 512, 1), (134, 87, 0));
        assert_eq!(sizes(Operation::WriteX, 30, 512, 1), (571, 55, 512));
        assert_eq!(sizes(Operation::ReadX, 30, 512, 1), (59, 571, 512));
        assert_eq!(sizes(Operation::Rename, 30, 512, 1), (167, 39, 0));
        assert_eq!(sizes(Operation::Find, 30, 512, 7), (119, 669, 0));
    }

    #[test]
    fn every_message_keeps_its_bounds() {
        for exchange in draws() {
            for length in [exchange.request, exchange.reply] {
                assert!((MESSAGE_MIN..=MESSAGE_MAX).contains(&length), "{exchange:?}");
            }
        }
    }

    #[test]
    fn a_seed_gives_one_sequence_and_another_seed_another() {
        let first = |seed| {
            let mut mix = Mix::new(seed);
            [(); 20].map(|()| mix.next_exchange())
        };
        assert_eq!(first(7), first(7));
        assert_ne!(first(7), first(8));
    }
}
