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
    /// With whom it shares a cap; only a [capped](crate::policy::Capped) policy keeps to it.
    pub group: Option<Group>,
}
