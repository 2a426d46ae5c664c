//! Answers to requests: problems as JSON, with the status that their reason has.

use aide::OperationOutput;
use aide::generate::GenContext;
use aide::openapi::Operation;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use stile_api::{Problem, Reason};

/// The answer to a request that was not carried out.
#[derive(Debug)]
pub(crate) struct Refused(pub(crate) Problem);

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

/// The statuses of problems, and what each means.
pub(crate) const STATUSES: [(u16, &str); 9] = [
    (400, "The request is malformed, or asks for what never can be."),
    (403, "The client may not do this."),
    (404, "There is no such thing."),
    (405, "There is no such method here."),
    (409, "The thing is in a state in which that cannot be done, or the request contradicts this host or itself."),
    (413, "The request has more bytes than are taken."),
    (422, "The host cannot do it."),
    (500, "A mistake in stile."),
    (504, "It was not done in time."),
];

pub(crate) fn status(reason: Reason) -> StatusCode {
    match reason {
        Reason::Invalid => StatusCode::BAD_REQUEST,
        Reason::Forbidden => StatusCode::FORBIDDEN,
        Reason::NotFound => StatusCode::NOT_FOUND,
        Reason::Conflict => StatusCode::CONFLICT,
        Reason::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Reason::Unsupported => StatusCode::UNPROCESSABLE_ENTITY,
        Reason::TimedOut => StatusCode::GATEWAY_TIMEOUT,
        Reason::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (status(self.0.reason), axum::Json(self.0)).into_response()
    }
}

/// Every operation has the same answers to what it refuses; `routes` adds them.
impl OperationOutput for Refused {
    type Inner = Problem;

    fn operation_response(_: &mut GenContext, _: &mut Operation) -> Option<aide::openapi::Response> {
        None
    }
}
