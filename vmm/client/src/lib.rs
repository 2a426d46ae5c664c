//! Asks a node over its unix socket, for programs that wait for the answer.
//!
//! Each request has a connection of its own. What goes on, such as a node's events, is read as an iterator.

mod lines;

pub use lines::{Bytes, Events};

use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
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
        Ok(Self { path: path.to_owned(), runtime: Arc::new(runtime), patience: PATIENCE })
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
        let response = self.runtime.block_on(self.answer(Method::GET, target, None))?;
        Ok(Bytes::of(self.clone(), response.into_body()))
    }

    fn bytes(&self, method: Method, target: &str, body: Option<Vec<u8>>) -> Result<Vec<u8>, ClientError> {
        self.runtime.block_on(async {
            let response = self.answer(method, target, body).await?;
            let body = response.into_body().collect().await.map_err(|e| self.broken(e))?;
            Ok(body.to_bytes().to_vec())
        })
    }

    fn json<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T, ClientError> {
        serde_json::from_slice(bytes).map_err(|e| self.broken(e))
    }

    async fn answer(
        &self,
        method: Method,
        target: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Response<Incoming>, ClientError> {
        let no_node = |source| ClientError::NoNode { path: self.path.clone(), source };
        let stream = UnixStream::connect(&self.path).await.map_err(no_node)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|e| self.broken(e))?;
        // It ends with the answer.
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(target).header("host", "localhost");
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let request = request.body(Full::new(hyper::body::Bytes::from(body.unwrap_or_default())));
        let sent = sender.send_request(request.map_err(|e| self.broken(e))?);
        let response = match tokio::time::timeout(self.patience, sent).await {
            Ok(response) => response.map_err(|e| self.broken(e))?,
            Err(_) => return Err(self.broken(format!("no answer within {:?}", self.patience))),
        };
        if response.status().is_success() {
            return Ok(response);
        }
        Err(self.refused(response).await)
    }

    async fn refused(&self, response: Response<Incoming>) -> ClientError {
        let status: StatusCode = response.status();
        let body = match response.into_body().collect().await {
            Ok(body) => body.to_bytes(),
            Err(e) => return self.broken(e),
        };
        match serde_json::from_slice(&body) {
            Ok(problem) => ClientError::Problem(problem),
            Err(_) => self.broken(format!("status {status}")),
        }
    }

    fn broken(&self, what: impl fmt::Display) -> ClientError {
        ClientError::Broken { path: self.path.clone(), what: what.to_string() }
    }
}
