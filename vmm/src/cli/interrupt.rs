//! Ctrl-C and SIGTERM.

use super::failure::Failure;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A flag that Ctrl-C and SIGTERM set. A second one changes nothing: it may be the same key, sent to the process and to
/// its group.
pub(super) fn on_interrupt() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&flag)).map_err(Failure::run)?;
    }
    Ok(flag)
}
