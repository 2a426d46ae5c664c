//! A token that vCPUs pass round. A vCPU that does not have it spins, as an operating system does for a lock or until
//! other vCPUs have answered.

use core::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// How often each vCPU has the token.
const ROUNDS: u32 = 40;

/// The vCPUs that pass it; 0: there is no token.
static VCPUS: AtomicU32 = AtomicU32::new(0);
/// How often it was passed.
static PASSED: AtomicU32 = AtomicU32::new(0);

/// From now on there is a token for so many vCPUs.
pub(crate) fn introduce(vcpus: u32) {
    VCPUS.store(vcpus, SeqCst);
}

/// The vCPU of this number takes the token and passes it on, in each round. Without a token it does nothing.
pub(crate) fn pass(number: u32) {
    let vcpus = VCPUS.load(SeqCst);
    if vcpus == 0 {
        return;
    }
    for round in 0..ROUNDS {
        wait(round * vcpus + number);
        PASSED.fetch_add(1, SeqCst);
    }
}

/// Waits until the last round is over.
pub(crate) fn rest() {
    wait(ROUNDS * VCPUS.load(SeqCst));
}

fn wait(passed: u32) {
    while PASSED.load(SeqCst) != passed {
        core::hint::spin_loop();
    }
}
