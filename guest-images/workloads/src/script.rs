//! A small program that replaces itself by itself when it is done, without end: its memory is given back, its page
//! tables are made anew, its image is loaded again. One operation is one life.
//!
//! A life is that of a trivial script: it checks that its image is complete, fills `touch_kb` of memory, and computes
//! for `work_us`. An image that is not complete, or memory that is not fresh, ends the VM.

use crate::params::Params;
use alloc::vec;
use stile_rt::abi::{exit, milestone};
use stile_rt::{Boot, Cpu, doorbell, exec, heap};

/// Length of the data linked with the program (units: words): as much as a small shell has.
const WORDS: usize = 16 << 10;
/// The data, which are in the image.
static LIBRARY: [u64; WORDS] = library();
/// Lives of this image so far. A fresh image begins at 0.
static mut LIVES: u64 = 0;

const fn word(place: usize) -> u64 {
    (place as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

const fn library() -> [u64; WORDS] {
    let mut words = [0; WORDS];
    let mut place = 0;
    while place < WORDS {
        words[place] = word(place);
        place += 1;
    }
    words
}

/// One life of vCPU 0. With several vCPUs there would be no single life to end.
pub fn main(cpu: Cpu) -> u32 {
    if Boot::page().vcpus() != 1 {
        crate::params::refuse(cpu, format_args!("what replaces itself has one vCPU"));
    }
    let params = Params::of(cpu);
    assert!(is_fresh(), "the data of an earlier life is still there");
    assert!(is_whole(&LIBRARY), "the image is not whole");
    heap::init(Boot::page());
    let memory = vec![0xa5u8; (params.number("touch_kb", 128) as usize) << 10];
    assert!(memory.iter().all(|byte| *byte == 0xa5), "memory does not hold what was written");
    params.work(params.number("work_us", 200) * 1000).run(cpu);
    cpu.op_done();
    doorbell::progress(milestone::READY);
    if exec::is_possible() { exec::exec() } else { exit::OK }
}

/// Whether the image's data are as they were loaded. They are not after this.
#[allow(unsafe_code, reason = "a word that must be in memory, whatever the compiler knows of it")]
fn is_fresh() -> bool {
    // SAFETY: there is one vCPU, so there is no other reference. Volatile, since the monitor changes it behind the
    // compiler.
    unsafe {
        let lives = &raw mut LIVES;
        let before = lives.read_volatile();
        lives.write_volatile(before + 1);
        before == 0
    }
}

fn is_whole(library: &[u64]) -> bool {
    library.iter().enumerate().all(|(place, found)| {
        // SAFETY: a reference is valid to read. Volatile, since the compiler knows the words and would not read them.
        #[allow(unsafe_code, reason = "the point is to look")]
        let found = unsafe { core::ptr::from_ref(found).read_volatile() };
        found == word(place)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_with_a_torn_page_is_not_whole() {
        assert!(is_whole(&LIBRARY));
        let mut torn = LIBRARY.to_vec();
        torn[1024..1536].fill(0);
        assert!(!is_whole(&torn));
    }

    #[test]
    fn only_the_first_life_finds_fresh_data() {
        assert!(is_fresh());
        assert!(!is_fresh());
    }
}
