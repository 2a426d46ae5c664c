//! What a vCPU is to any policy: its priority, its class, and the group whose cap it shares.

mod cap;
mod class;

pub use cap::{Cap, Group, GroupId};
pub use class::Class;

use crate::ids::Nice;

/// What the scheduler has to know of a vCPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Attributes {
    /// Static priority within its class.
    pub nice: Nice,
    /// What kind of work it does.
    pub class: Class,
    /// The group that shares a cap, and that cap. Only a [capped](crate::policy::Capped) policy enforces it.
    pub group: Option<Group>,
}
