//! Work of a vCPU outside its guest is done in turns, and between two of them the scheduler decides whether it goes on.

use stile_sched::{Stop, kick};

/// What the scheduler learns between two turns. A kick is looked for here, as the guest is not entered.
pub(crate) fn between_turns() -> Stop {
    if kick::is_pending() { Stop::Overran } else { Stop::Exit }
}
