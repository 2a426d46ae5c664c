//! The HTTP API of a node: HTTP/1.1 and JSON on a unix socket.
//!
//! One thread answers all requests. What may wait, such as the start of a VM, runs on threads made for it, and no vCPU
//! waits for any of them. Who owns the socket's process may do all; whoever else may connect, by the mode of the
//! socket, may read. The same API, for reading only, can be had on a port of the loopback interface, beside a page that
//! shows the node.
//!
//! `routes` lists the endpoints; the OpenAPI document is made of them and of the types.

mod answer;
mod connections;
mod crew;
mod extract;
mod handlers;
mod large;
mod page;
mod peer;
mod routes;
mod server;
mod socket;
mod stream;

pub use routes::document;
pub use server::{Listeners, ServeError, Server};
pub use socket::{SocketError, default_path, listen};
