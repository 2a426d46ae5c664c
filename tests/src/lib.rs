//! The parts that whole-VM tests share: KVM or a loud skip, carriers, guests and their console, bounded waits.
//!
//! The tests are in `tests/*.rs`. They assert what happens, never how fast: a wait ends when its condition holds, and
//! fails after a limit that no sound run comes near. Every test brings its own domain, so they run in parallel.

pub mod carrier;
pub mod guest;
pub mod halting;
pub mod process;
pub mod program;
pub mod ring0;
pub mod soak;
pub mod unanswered;
pub mod unfair;
pub mod watched;

pub use carrier::Carrier;
pub use guest::{Guest, Recipe};
pub use program::Program;
pub use ring0::Ring0Run;
pub use unfair::Unfair;

use kvm_ioctls::Kvm;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Names, separated by commas, of required parts. If one is missing, a test fails instead of being skipped.
const REQUIRE: &str = "STILE_REQUIRE";
/// A sound run stays far below this even on a loaded host with one CPU.
const LIMIT: Duration = Duration::from_secs(60);
/// Time between two checks of a condition: short against all waits, long against a check.
const PAUSE: Duration = Duration::from_micros(500);

/// KVM, or `None` after saying why the test is skipped.
///
/// # Panics
/// If the environment requires KVM and it is missing.
pub fn kvm() -> Option<Kvm> {
    let why = match stile_host::open_kvm() {
        Ok(kvm) => return Some(kvm),
        Err(why) => why,
    };
    missing("kvm", &why.to_string());
    None
}

/// The browser Chromium, or `None` after saying why the test is skipped.
///
/// # Panics
/// If the environment requires Chromium and it is missing.
pub fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("chromium")).find(|program| program.is_file());
    if found.is_none() {
        missing("chromium", "there is no program `chromium`; it is in the package of that name");
    }
    found
}

/// The error for a missing part.
fn missing(what: &str, why: &str) {
    let required = std::env::var(REQUIRE).unwrap_or_default();
    assert!(!required.split(',').any(|name| name.trim() == what), "{REQUIRE} names {what}, but {why}");
    skip(why);
}

/// Whether the CPU is emulated. Its times say nothing about those of a real CPU, so bounds of time are printed there
/// and not asserted. The host takes such a CPU away, under load for most of the time, and the kernel on it is not told:
/// it counts no steal. So nothing tells a policy that starves a vCPU from a host that does (docs/adr/0019).
pub fn is_emulated() -> bool {
    std::fs::read_to_string("/proc/cpuinfo").is_ok_and(|cpus| cpus.contains("QEMU TCG"))
}

/// Says on stderr that the calling test is skipped, and why.
pub fn skip(why: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    // Not through the harness, which would drop the output of a passing test; in one piece, since other tests print
    // too.
    let _ = std::io::stderr().write_all(format!("\nSKIPPED {test}: {why}\n").as_bytes());
}

/// KVM; without it the calling test returns.
#[macro_export]
macro_rules! require_kvm {
    () => {
        match $crate::kvm() {
            Some(kvm) => kvm,
            None => return,
        }
    };
}

/// Waits until a condition holds.
///
/// # Panics
/// If it does not hold within a minute.
#[track_caller]
pub fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < LIMIT, "waited {LIMIT:?} in vain: {what}");
        std::thread::sleep(PAUSE);
    }
}
