//! vCPUs that take turns by spinning: nothing but their code tells that they wait.

use core::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// Turns of each vCPU.
const ROUNDS: u32 = 50;

/// Number of vCPUs that take turns; 0: they do other things.
static VCPUS: AtomicU32 = AtomicU32::new(0);
/// The turn that it is.
static TURN: AtomicU32 = AtomicU32::new(0);

/// So many vCPUs take turns, those that are yet to be started included.
pub(crate) fn begin(vcpus: u32) {
    VCPUS.store(vcpus, SeqCst);
}

/// Whether vCPUs take turns.
pub(crate) fn are_taken() -> bool {
    VCPUS.load(SeqCst) != 0
}

/// Takes the turns of the vCPU with this number, and waits until the last one's are over.
pub(crate) fn take(vcpu: u32) {
    let all = VCPUS.load(SeqCst);
    for round in 0..ROUNDS {
        let mine = round * all + vcpu;
        wait_for(mine);
        TURN.store(mine + 1, SeqCst);
    }
    wait_for(ROUNDS * all);
}

fn wait_for(turn: u32) {
    while TURN.load(SeqCst) != turn {
        core::hint::spin_loop();
    }
}
