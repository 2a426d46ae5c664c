//! A machine made of a clock: runs modelled guests under the very policies that run real ones.
//!
//! [`SimMachine`] drives a policy as the executors of a [`domain`](crate::domain) do: a fast path for yields while no
//! vCPU waits, stamps and kicks, a timer per slot for the lease's end and for the deadlines that the slot watches. But
//! time is a number. A run is a function of its arguments: the same seed gives the same run, event for event. What
//! things cost comes from [`Costs`], which `stile doctor --costs` measures on a host.
//!
//! Work per event grows with the logarithm of the number of slots, and not with the number of vCPUs.
//!
//! Not modelled: caches (but for the time a store takes to be seen), and whatever else runs on a host.
//!
//! Files: `machine` carries out decisions, [`guest`] says what guests do and `world` what they share (chat rooms are in
//! `room`, with their queues in `message_queue`), `agenda` knows which slot is next, `lock` is the executors' own,
//! `audit` holds every step against what must be true of any policy, [`host`] is a model of the stock host scheduler to
//! compare with.

mod agenda;
mod audit;
mod costs;
mod draw;
pub mod guest;
pub mod host;
mod lock;
mod machine;
mod message_queue;
mod room;
mod shard;
mod slot;
#[cfg(test)]
mod tests;
mod vcpu;
mod world;

pub use costs::Costs;
pub use draw::Draw;
pub use guest::Guest;
pub use machine::SimMachine;
pub use room::{Room, THREADS as THREADS_PER_USER};
pub use vcpu::{LateVcpu, Record};
pub use world::{Exchange, Gauge, World};
