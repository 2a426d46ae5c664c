//! A node and its API, over its socket, as programs of users see them.

mod changes;
mod connections;
mod figures;
mod harness;
mod random;
mod vms;
