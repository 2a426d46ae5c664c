//! The server: a thread that takes connections and answers requests.

use crate::connections::{Connections, HANG_UP_IN, MOST};
use crate::crew::Crew;
use crate::peer::Peer;
use crate::{page, routes};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use stile_jail::Kind;
use stile_node::Node;
use tokio::sync::{Semaphore, watch};
use tracing::warn;

/// How long after an error of `accept` the next one is tried: there may be no descriptor left.
const AGAIN: Duration = Duration::from_millis(100);

/// The server cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The host gives no thread, or no descriptor.
    #[error("the API cannot be served")]
    Host(#[from] io::Error),
    /// The address can be reached from other hosts.
    #[error("--http {0}: anyone who can reach this address could read all of the node")]
    NotLoopback(SocketAddr),
    /// Something listens there.
    #[error("--http {address}: cannot listen there")]
    Port {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// The sockets of a server. They are made before the jail is entered, which has no such right.
pub struct Listeners {
    socket: UnixListener,
    http: Option<TcpListener>,
}

impl Listeners {
    /// This unix socket, and a port for reading at this address of the loopback interface.
    ///
    /// # Errors
    /// The address can be reached from other hosts, or is in use.
    pub fn new(socket: UnixListener, http: Option<SocketAddr>) -> Result<Self, ServeError> {
        socket.set_nonblocking(true)?;
        Ok(Self { socket, http: http.map(loopback).transpose()? })
    }

    /// The address for reading.
    pub fn http(&self) -> Option<SocketAddr> {
        self.http.as_ref()?.local_addr().ok()
    }
}

/// A server. It ends when it is dropped.
pub struct Server {
    ending: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves a node on these sockets.
    pub fn start(node: Arc<Node>, listeners: Listeners) -> Result<Self, ServeError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let crew = Crew::start(node)?;
        let (ending, ends) = watch::channel(false);
        let thread = std::thread::Builder::new().name("api".into()).spawn(move || {
            stile_jail::narrow(Kind::Api);
            runtime.block_on(serve(crew, listeners, ends));
        })?;
        Ok(Self { ending, thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ending.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // A panic there has been told.
            let _ = thread.join();
        }
    }
}

fn loopback(address: SocketAddr) -> Result<TcpListener, ServeError> {
    if !address.ip().is_loopback() {
        return Err(ServeError::NotLoopback(address));
    }
    let listener = TcpListener::bind(address).map_err(|source| ServeError::Port { address, source })?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

async fn serve(crew: Crew, Listeners { socket, http }: Listeners, mut ends: watch::Receiver<bool>) {
    let room = Arc::new(Semaphore::new(MOST));
    let router = routes::router(crew);
    let api = Connections::new(router.clone(), Arc::clone(&room), ends.clone());
    let read = Connections::new(page::beside(router), Arc::clone(&room), ends.clone());
    let unix = tokio::spawn(take_local(socket, api));
    let tcp = http.map(|listener| tokio::spawn(take_remote(listener, read)));
    let _ = ends.wait_for(|ends| *ends).await;
    unix.abort();
    tcp.into_iter().for_each(|task| task.abort());
    // Clients get the rest of their answers, and readers of events the last ones.
    let all_gone = room.acquire_many(MOST as u32);
    let _ = tokio::time::timeout(HANG_UP_IN, all_gone).await;
}

async fn take_local(socket: UnixListener, connections: Connections) {
    let listener = match tokio::net::UnixListener::from_std(socket) {
        Ok(listener) => listener,
        Err(error) => return warn!("the socket of the API cannot be served: {error}"),
    };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => match stream.peer_cred() {
                Ok(peer) => connections.take(stream, Peer::Process { uid: peer.uid(), pid: peer.pid() }),
                Err(error) => warn!("a client that cannot be told apart was hung up on: {error}"),
            },
            Err(error) => {
                warn!("no connection can be taken: {error}; it is tried again");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

async fn take_remote(listener: TcpListener, connections: Connections) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return warn!("the port of the API cannot be served: {error}"),
    };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => connections.take(stream, Peer::Loopback),
            Err(error) => {
                warn!("no connection can be taken: {error}; it is tried again");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}
