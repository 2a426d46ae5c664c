//! The work of a job: source text is made, compressed, decompressed and compared. Memory is allocated once, at the
//! start.

use alloc::boxed::Box;
use alloc::vec;
use miniz_oxide::deflate::core::{
    CompressorOxide, TDEFLFlush, TDEFLStatus, compress, create_comp_flags_from_zip_params,
};
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::{
    TINFL_FLAG_COMPUTE_ADLER32, TINFL_FLAG_PARSE_ZLIB_HEADER, TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF,
};
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

/// Source in a piece (units: bytes).
const SOURCE: usize = 8 << 10;
/// Room for the result (units: bytes), enough also for a source that cannot be compressed.
const OBJECT: usize = SOURCE + 1024;
/// zlib's fast level, with a header of 15 window bits.
const LEVEL: i32 = 1;
const WINDOW_BITS: i32 = 15;
/// Words that source is made of.
const WORDS: [&[u8]; 16] = [
    b"static ",
    b"int ",
    b"return ",
    b"struct ",
    b"if (",
    b") {\n",
    b"}\n",
    b"->next",
    b"unsigned ",
    b" = 0;\n",
    b"list_head ",
    b"spin_lock(&",
    b"&& ",
    b"(void)",
    b"char *",
    b"\t\t",
];

/// A piece of a job's source.
#[derive(Debug, Clone, Copy)]
pub struct Piece {
    /// Number of the job.
    pub seed: u64,
    /// Number of the piece.
    pub number: u32,
}

/// A worker's tools.
pub struct Workbench {
    compressor: Box<CompressorOxide>,
    decompressor: Box<DecompressorOxide>,
    source: Box<[u8]>,
    object: Box<[u8]>,
    back: Box<[u8]>,
}

impl Workbench {
    /// New tools.
    pub fn new() -> Self {
        let flags = create_comp_flags_from_zip_params(LEVEL, WINDOW_BITS, 0);
        Self {
            compressor: Box::new(CompressorOxide::new(flags)),
            decompressor: Box::default(),
            source: vec![0; SOURCE].into_boxed_slice(),
            object: vec![0; OBJECT].into_boxed_slice(),
            back: vec![0; SOURCE].into_boxed_slice(),
        }
    }

    /// Compiles a piece. Returns its result, mixed with `before`, the result of the pieces before; `None` if the result
    /// does not decompress to the source.
    pub fn compile(&mut self, piece: Piece, before: u64) -> Option<u64> {
        write_source(&mut self.source, mixed(piece.seed ^ u64::from(piece.number)));
        self.compressor.reset();
        let (status, read, object) = compress(&mut self.compressor, &self.source, &mut self.object, TDEFLFlush::Finish);
        if status != TDEFLStatus::Done || read != self.source.len() {
            return None;
        }
        self.check(object).then(|| mixed(before ^ hash(&self.object[..object])))
    }

    /// Whether an object of this length decompresses to the source.
    fn check(&mut self, object: usize) -> bool {
        let flags =
            TINFL_FLAG_PARSE_ZLIB_HEADER | TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF | TINFL_FLAG_COMPUTE_ADLER32;
        self.decompressor.init();
        let (status, _, written) = decompress(&mut self.decompressor, &self.object[..object], &mut self.back, 0, flags);
        status == TINFLStatus::Done && self.back[..written] == *self.source
    }

    /// What a compiler cache does with a source that it knows: reads it and hashes it.
    pub fn hash_source(&mut self, seed: u64) -> u64 {
        /// Sources are longer than a piece.
        const READS: u64 = 8;
        (0..READS).fold(seed, |hashed, read| {
            write_source(&mut self.source, mixed(seed ^ read));
            mixed(hashed ^ hash(&self.source))
        })
    }
}

impl Default for Workbench {
    fn default() -> Self {
        Self::new()
    }
}

impl core::fmt::Debug for Workbench {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Workbench").finish_non_exhaustive()
    }
}

/// Fills a buffer with text of this seed.
fn write_source(buffer: &mut [u8], seed: u64) {
    let (mut state, mut at) = (seed, 0);
    while at < buffer.len() {
        state = mixed(state);
        let word = WORDS[(state % WORDS.len() as u64) as usize];
        let length = word.len().min(buffer.len() - at);
        buffer[at..at + length].copy_from_slice(&word[..length]);
        at += length;
        // A name from time to time, so that no two sources are alike.
        if state >> 62 == 0 && at < buffer.len() {
            buffer[at] = b'a' + (state >> 32) as u8 % 26;
            at += 1;
        }
    }
}

/// FNV-1a.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// The step of SplitMix64: neighbouring numbers get unrelated results.
pub fn mixed(value: u64) -> u64 {
    let z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number from 0 to 99 for a seed.
pub fn chance(seed: u64) -> u64 {
    mixed(seed) % 100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_comes_back_whole_and_depends_on_its_seed_its_number_and_what_was_before() {
        let mut bench = Workbench::new();
        let mut of = |seed, number, before| bench.compile(Piece { seed, number }, before).unwrap();
        let first = of(1, 0, 7);
        assert_eq!(of(1, 0, 7), first, "the same tools again");
        assert!([of(2, 0, 7), of(1, 1, 7), of(1, 0, 8)].iter().all(|other| *other != first));
    }

    #[test]
    fn an_object_with_one_wrong_bit_is_noticed() {
        let mut bench = Workbench::new();
        bench.compile(Piece { seed: 1, number: 0 }, 0).unwrap();
        let length = 1000;
        assert!(!bench.check(length), "cut short");
        let (_, _, whole) = {
            bench.compressor.reset();
            compress(&mut bench.compressor, &bench.source, &mut bench.object, TDEFLFlush::Finish)
        };
        assert!(bench.check(whole));
        bench.object[whole / 2] ^= 1;
        assert!(!bench.check(whole));
    }

    #[test]
    fn source_shrinks_like_text_does() {
        let mut bench = Workbench::new();
        write_source(&mut bench.source, 3);
        bench.compressor.reset();
        let (_, _, length) = compress(&mut bench.compressor, &bench.source, &mut bench.object, TDEFLFlush::Finish);
        assert!((SOURCE / 10..SOURCE / 2).contains(&length), "{length}");
    }

    #[test]
    fn chances_are_even() {
        let below = (0..10_000).filter(|&seed| chance(seed) < 85).count();
        assert!((8_300..8_700).contains(&below), "{below}");
    }
}
