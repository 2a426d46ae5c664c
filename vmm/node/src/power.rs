//! The power buttons of Linux guests.

use crate::make::Machine;
use crate::vm::NodeVm;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time between two presses. A guest that is on its way out ignores further ones.
const BETWEEN: Duration = Duration::from_secs(2);

/// Has the guests switch themselves off that have a power button, and waits for their end, but no longer than this.
///
/// The button is pressed again and again, for a guest that has no driver for it yet misses a press.
pub(crate) fn switch_off(vms: &[(Arc<NodeVm>, Arc<Machine>)], grace: Duration) {
    let until = Instant::now() + grace;
    loop {
        let again = until.min(Instant::now() + BETWEEN);
        let pressed: Vec<_> = vms.iter().filter(|(_, machine)| press(machine)).collect();
        let ends = |vm: &NodeVm| vm.wait_for_end(again.saturating_duration_since(Instant::now()));
        if pressed.into_iter().all(|(vm, _)| ends(vm)) || Instant::now() >= until {
            return;
        }
    }
}

/// Presses the power button of a guest. False: it has none, cannot take it now, or has ended.
fn press(machine: &Machine) -> bool {
    let status = machine.vm.vcpu_set().status();
    let linux = machine.linux.as_ref().filter(|_| !status.is_paused() && !status.has_ended());
    linux.inspect(|linux| linux.press_power_button()).is_some()
}
