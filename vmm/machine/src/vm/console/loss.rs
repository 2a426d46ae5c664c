//! Tells what of a VM's output was lost, when its console ends.

use super::outlet::Lost;
use tracing::warn;

/// Tells that this part of the output of the VM `name` did not reach `place`.
pub(super) fn tell(name: &str, place: &str, lost: &Lost) {
    match lost {
        Lost { bytes: 0, .. } => {}
        Lost { bytes, error: Some(error) } => warn!("[{name}] {bytes} bytes of its output were lost: {place}: {error}"),
        Lost { bytes, error: None } => {
            warn!("[{name}] {bytes} bytes of its output were lost: {place} took it too slowly");
        }
    }
}
