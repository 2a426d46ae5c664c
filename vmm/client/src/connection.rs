//! The connection that a client keeps from one request to the next.

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::UnixStream;

/// A connection that was idle for longer is not used again. A node hangs up on one after 30 s.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// A connection that waits for the next request.
struct Idle {
    connection: Connection,
    since: Instant,
}

/// The place for one connection.
#[derive(Default)]
pub(crate) struct Kept(Mutex<Option<Idle>>);

impl Kept {
    /// The connection, unless there is none, or it was idle for long.
    pub(crate) fn take(&self) -> Option<Connection> {
        let idle = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        (idle.since.elapsed() < IDLE_MAX).then_some(idle.connection)
    }

    /// Keeps a connection for the next request. The answer to the last one must have been read.
    pub(crate) fn put(&self, connection: Connection) {
        let idle = Idle { connection, since: Instant::now() };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(idle);
    }
}

/// A connection with a node. It stays open until it is dropped and its last answer is read.
pub(crate) struct Connection(SendRequest<Full<Bytes>>);

/// A request was not answered.
pub(crate) enum Unanswered {
    /// The connection had ended before. The node has not seen this request.
    Unsent(Box<Request<Full<Bytes>>>),
    /// The node may have seen it.
    Broken(hyper::Error),
}

impl Connection {
    /// A new one.
    pub(crate) async fn over(stream: UnixStream) -> Result<Self, hyper::Error> {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self(sender))
    }

    /// Sends a request, and returns the answer when it begins.
    pub(crate) async fn ask(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Unanswered> {
        if self.0.ready().await.is_err() {
            return Err(Unanswered::Unsent(Box::new(request)));
        }
        self.0.try_send_request(request).await.map_err(|mut error| match error.take_message() {
            Some(request) => Unanswered::Unsent(Box::new(request)),
            None => Unanswered::Broken(error.into_error()),
        })
    }
}
