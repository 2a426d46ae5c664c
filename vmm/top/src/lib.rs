//! `stile top`: the VMs of a node, its pCPUs, and which vCPU has which pCPU, live on a terminal.
//!
//! * [`run`] takes the terminal over, and gives it back at its end, at a panic and at a signal that ends the process.
//! * [`Node`] is what it needs of a node. This crate knows no HTTP. Two threads wait for the node, one for frames and
//!   one for the answers to orders, so a key is never delayed by the network.
//! * [`App`] is the state, without thread, clock or terminal: keys and news go in, orders come out. [`draw()`] shows
//!   it.

mod app;
mod column;
mod draw;
mod history;
mod link;
mod node;
mod terminal;

pub use app::{Action, App};
pub use draw::draw;
pub use node::{Frames, Node, Order};
pub use terminal::{TopError, TopOptions, run};
