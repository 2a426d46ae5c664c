//! Asks a node over its unix socket, for programs that wait for the answer.
//!
//! A client keeps its connection from one request to the next. What goes on, such as a node's events, is read as an
//! iterator, on a connection of its own.

mod connection;
mod lines;

pub use lines::{Bytes, Events};

use connection::{Connection, Kept, Unanswered};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use stile_api::Problem;
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};

/// How long a node may take to begin its answer. It may have to wait for a VM.
const PATIENCE: Duration = Duration::from_secs(120);

/// A request was not answered as it should be.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens.
    #[error("no node listens on {}", path.display())]
    NoNode {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The node refuses.
    #[error("{0}")]
    Problem(Problem),
    /// The connection broke, or its other end is no node.
    #[error("the node on {} does not answer as one: {what}", path.display())]
    Broken {
        /// The socket.
        path: PathBuf,
        /// How.
        what: String,
    },
}

impl ClientError {
    /// What to do about it.
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::NoNode { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                Some("run it as the node's user, or as a member of the socket's group".to_owned())
            }
            Self::NoNode { .. } => {
                Some("start one with `stile serve`, or name its socket with --socket or STILE_SOCKET".to_owned())
            }
            Self::Problem(problem) => problem.remedy.clone(),
            Self::Broken { .. } => None,
        }
    }
}

/// A node. Clones share what they wait on, so each thread has a client of its own.
#[derive(Clone)]
pub struct Client {
    path: PathBuf,
    runtime: Arc<Runtime>,
    kept: Arc<Kept>,
    patience: Duration,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Client {
    /// The node that listens on this socket. It is connected with at the first request.
    pub fn new(path: &Path) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        Ok(Self { path: path.to_owned(), runtime: Arc::new(runtime), kept: Arc::default(), patience: PATIENCE })
    }

    /// The same node, for requests with which it may take so much longer.
    #[must_use]
    pub fn with_time_for(&self, longer: Duration) -> Self {
        Self { patience: PATIENCE.saturating_add(longer), ..self.clone() }
    }

    /// Asks for this.
    pub fn get<T: DeserializeOwned>(&self, target: &str) -> Result<T, ClientError> {
        self.json(&self.bytes(Method::GET, target, None)?)
    }

    /// Asks for this, as it is.
    pub fn get_bytes(&self, target: &str) -> Result<Vec<u8>, ClientError> {
        self.bytes(Method::GET, target, None)
    }

    /// Has this done, with a body of JSON if there is one.
    pub fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        target: &str,
        body: Option<&impl Serialize>,
    ) -> Result<T, ClientError> {
        let body = body.map(|body| serde_json::to_vec(body).map_err(|e| self.broken(e))).transpose()?;
        self.json(&self.bytes(method, target, body)?)
    }

    /// Has this done, with this body if there is one. There is nothing to read in the answer.
    pub fn send_bytes(&self, method: Method, target: &str, body: Option<Vec<u8>>) -> Result<(), ClientError> {
        self.bytes(method, target, body).map(drop)
    }

    /// Has this done, without a body.
    pub fn post<T: DeserializeOwned>(&self, target: &str) -> Result<T, ClientError> {
        self.send(Method::POST, target, None::<&()>)
    }

    /// Server-sent events of this endpoint, until the connection ends.
    pub fn events<T: DeserializeOwned>(&self, target: &str) -> Result<Events<T>, ClientError> {
        Ok(Events::of(self.pieces(target)?))
    }

    /// The bytes of an answer that goes on, as they come.
    pub fn pieces(&self, target: &str) -> Result<Bytes, ClientError> {
        let body = self.runtime.block_on(async {
            let (response, _) = self.answer(Method::GET, target, None).await?;
            let status = response.status();
            if status.is_success() {
                Ok(response.into_body())
            } else {
                Err(self.refused(status, &self.all_of(response).await?))
            }
        })?;
        Ok(Bytes::of(self.clone(), body))
    }

    fn bytes(&self, method: Method, target: &str, body: Option<Vec<u8>>) -> Result<Vec<u8>, ClientError> {
        self.runtime.block_on(async {
            let (response, connection) = self.answer(method, target, body).await?;
            let status = response.status();
            let body = self.all_of(response).await?;
            self.kept.put(connection);
            if status.is_success() { Ok(body) } else { Err(self.refused(status, &body)) }
        })
    }

    async fn all_of(&self, response: Response<Incoming>) -> Result<Vec<u8>, ClientError> {
        let body = response.into_body().collect().await.map_err(|e| self.broken(e))?;
        Ok(body.to_bytes().to_vec())
    }

    fn json<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T, ClientError> {
        serde_json::from_slice(bytes).map_err(|e| self.broken(e))
    }

    /// The answer, whatever its status is, and the connection that it comes on.
    async fn answer(
        &self,
        method: Method,
        target: &str,
        body: Option<Vec<u8>>,
    ) -> Result<(Response<Incoming>, Connection), ClientError> {
        let mut request = Request::builder().method(method).uri(target).header("host", "localhost");
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let request = request.body(Full::new(hyper::body::Bytes::from(body.unwrap_or_default())));
        let sent = self.send_on_either(request.map_err(|e| self.broken(e))?);
        let answer = tokio::time::timeout(self.patience, sent).await;
        answer.unwrap_or_else(|_| Err(self.broken(format!("no answer within {:?}", self.patience))))
    }

    /// Sends on the kept connection, or on a new one if there is none or the node has hung up on it.
    async fn send_on_either(
        &self,
        mut request: Request<Full<hyper::body::Bytes>>,
    ) -> Result<(Response<Incoming>, Connection), ClientError> {
        if let Some(mut connection) = self.kept.take() {
            match connection.ask(request).await {
                Ok(response) => return Ok((response, connection)),
                Err(Unanswered::Unsent(again)) => request = *again,
                Err(Unanswered::Broken(e)) => return Err(self.broken(e)),
            }
        }
        let no_node = |source| ClientError::NoNode { path: self.path.clone(), source };
        let stream = UnixStream::connect(&self.path).await.map_err(no_node)?;
        let mut connection = Connection::over(stream).await.map_err(|e| self.broken(e))?;
        match connection.ask(request).await {
            Ok(response) => Ok((response, connection)),
            Err(Unanswered::Unsent(_)) => Err(self.broken("it hung up")),
            Err(Unanswered::Broken(e)) => Err(self.broken(e)),
        }
    }

    fn refused(&self, status: StatusCode, body: &[u8]) -> ClientError {
        match serde_json::from_slice(body) {
            Ok(problem) => ClientError::Problem(problem),
            Err(_) => self.broken(format!("status {status}")),
        }
    }

    fn broken(&self, what: impl fmt::Display) -> ClientError {
        ClientError::Broken { path: self.path.clone(), what: what.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;

    /// Answers this many requests on the next connection, and hangs up.
    fn answers(listener: &UnixListener, requests: usize) {
        let (mut stream, _) = listener.accept().expect("the client connects");
        for _ in 0..requests {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).expect("the client sends a request");
                head.push(byte[0]);
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n7").expect("the client reads");
        }
    }

    #[test]
    fn a_connection_serves_all_requests_until_the_node_hangs_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let client = Client::new(&path).unwrap();
        for requests in [3, 1, 2] {
            std::thread::scope(|scope| {
                scope.spawn(|| answers(&listener, requests));
                for _ in 0..requests {
                    assert_eq!(client.get::<u32>("/").unwrap(), 7);
                }
            });
        }
    }
}
