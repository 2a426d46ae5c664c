//! Commands that ask a node.

mod answer;
pub(super) mod args;
mod console;
mod events;
mod flight;
mod scheduling;
mod top;
mod vms;

use super::failure::Failure;
use args::NodeCommand;

pub(super) use flight::{trace, why};

/// Carries out a command.
pub(super) fn ask(command: &NodeCommand) -> Result<(), Failure> {
    match command {
        NodeCommand::Ps(args) => vms::ps(args),
        NodeCommand::Inspect(args) => vms::inspect(args),
        NodeCommand::Create(args) => vms::create(args),
        NodeCommand::Start(args) => vms::all(args, "start"),
        NodeCommand::Pause(args) => vms::all(args, "pause"),
        NodeCommand::Resume(args) => vms::all(args, "resume"),
        NodeCommand::Stop(args) => vms::stop(args),
        NodeCommand::Delete(args) => vms::delete(args),
        NodeCommand::Console(args) => console::console(args),
        NodeCommand::Set(args) => scheduling::set(args),
        NodeCommand::Policy(args) => scheduling::policy(args),
        NodeCommand::Pcpus(args) => scheduling::pcpus(args),
        NodeCommand::Changes(args) => scheduling::changes(args),
        NodeCommand::Confirm(args) => scheduling::settle(args, "confirm"),
        NodeCommand::Revert(args) => scheduling::settle(args, "revert"),
        NodeCommand::Events(args) => events::events(args),
        NodeCommand::Record(args) => flight::record(args),
        NodeCommand::Top(args) => top::top(args),
    }
}
