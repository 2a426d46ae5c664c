//! Who sends a request, and what that user may do.

use crate::answer::Refused;
use axum::extract::Request;
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use stile_api::{Author, Problem, Reason};

/// The sender of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A process on the other end of the unix socket.
    Process {
        /// Its user.
        uid: u32,
        /// The process, if it is known.
        pid: Option<i32>,
    },
    /// Whoever may reach the loopback interface.
    Loopback,
}

impl Peer {
    /// The author of a change that it asks for.
    pub(crate) fn author(self) -> Author {
        match self {
            Self::Process { uid, pid } => Author { uid: Some(uid), pid },
            Self::Loopback => Author { uid: None, pid: None },
        }
    }

    /// Whether it may change anything: the user of this process may, and root.
    pub(crate) fn may_change(self) -> bool {
        match self {
            Self::Process { uid, .. } => uid == 0 || uid == rustix::process::geteuid().as_raw(),
            Self::Loopback => false,
        }
    }
}

/// Lets a request through that its sender may make.
pub(crate) async fn check(request: Request, next: Next) -> Response {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    let peer = request.extensions().get::<Peer>().copied().unwrap_or(Peer::Loopback);
    if reads || peer.may_change() {
        return next.run(request).await;
    }
    let problem = match peer {
        Peer::Process { uid, .. } => {
            let own = rustix::process::geteuid().as_raw();
            Problem::new(Reason::Forbidden, format!("user {uid} may read, and not {} anything", request.method()))
                .remedy(format!("user {own}, who runs the node, and root may change it"))
        }
        Peer::Loopback => {
            Problem::new(Reason::Forbidden, "this port is for reading").remedy("send it to the node's unix socket")
        }
    };
    Refused(problem).into_response()
}
