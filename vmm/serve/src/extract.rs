//! What handlers take out of requests. What does not fit is refused as a problem.

use crate::answer::Refused;
use aide::OperationInput;
use aide::generate::GenContext;
use aide::openapi::Operation;
use axum::body::{Body, Bytes};
use axum::extract::rejection::{BytesRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::Response;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::Duration;
use stile_api::{Problem, Reason};

/// Most bytes of a body.
pub(crate) const BODY_MAX: usize = 1 << 20;
/// How long a request's body may take to come.
const BODY_IN: Duration = Duration::from_secs(10);

/// Parameters in the path.
#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Path), rejection(Refused))]
pub(crate) struct Path<T>(pub(crate) T);

/// Parameters in the query.
#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Query), rejection(Refused))]
pub(crate) struct Query<T>(pub(crate) T);

/// A body of JSON.
pub(crate) struct Json<T>(pub(crate) T);

/// A body of any bytes.
pub(crate) struct Raw(pub(crate) Bytes);

impl From<PathRejection> for Refused {
    fn from(rejection: PathRejection) -> Self {
        Problem::new(Reason::Invalid, format!("the path: {}", rejection.body_text())).into()
    }
}

impl From<QueryRejection> for Refused {
    fn from(rejection: QueryRejection) -> Self {
        let text = rejection.body_text();
        let told = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text);
        Problem::new(Reason::Invalid, format!("the query: {told}")).into()
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refused> {
        if !is_json(request.headers()) {
            let kind = Problem::new(Reason::Invalid, "the request has no body of JSON");
            return Err(kind.remedy("send Content-Type: application/json").into());
        }
        let bytes = Raw::from_request(request, state).await?.0;
        let malformed = |e| Problem::new(Reason::Invalid, format!("the body: {e}"));
        let value = serde_json::from_slice(&bytes).map(whole).map_err(malformed)?;
        if let Some(key) = null_in(&value) {
            let null = Problem::new(Reason::Invalid, format!("the body: {key}: null is no value"));
            return Err(null.remedy("leave the key out").into());
        }
        Ok(Self(T::deserialize(value).map_err(malformed)?))
    }
}

impl<S: Send + Sync> FromRequest<S> for Raw {
    type Rejection = Refused;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refused> {
        // It is here: see `whole_body`.
        Bytes::from_request(request, state).await.map(Self).map_err(refused)
    }
}

/// Reads the body before anything else is looked at. Were a request answered while its client still sends, the client
/// might find a closed connection in place of the answer.
pub(crate) async fn whole_body(request: Request, next: Next) -> Result<Response, Refused> {
    let (parts, body) = request.into_parts();
    let bytes = read(Request::from_parts(parts.clone(), body)).await?;
    Ok(next.run(Request::from_parts(parts, Body::from(bytes))).await)
}

async fn read(request: Request) -> Result<Bytes, Refused> {
    let length =
        request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    // One that is announced is not waited for.
    if length.is_some_and(|length| length > BODY_MAX as u64) {
        let large = format!("the body: more than {BODY_MAX} bytes");
        return Err(Problem::new(Reason::TooLarge, large).into());
    }
    let Ok(read) = tokio::time::timeout(BODY_IN, Bytes::from_request(request, &())).await else {
        let late = format!("the body did not come within {BODY_IN:?}");
        return Err(Problem::new(Reason::TimedOut, late).into());
    };
    read.map_err(refused)
}

fn refused(rejection: BytesRejection) -> Refused {
    let reason = match rejection.status().as_u16() {
        413 => Reason::TooLarge,
        _ => Reason::Invalid,
    };
    Problem::new(reason, format!("the body: {}", rejection.body_text())).into()
}

/// The same value with whole numbers as such: JSON Schema takes 5.0 for an integer.
fn whole(value: Value) -> Value {
    /// From here on not every whole number is a float.
    const EXACT: f64 = (1_u64 << 53) as f64;
    match value {
        Value::Number(number) if number.is_f64() => match number.as_f64() {
            Some(float) if float.fract() == 0.0 && float.abs() < EXACT => Value::from(float as i64),
            _ => Value::Number(number),
        },
        Value::Array(items) => items.into_iter().map(whole).collect(),
        Value::Object(table) => table.into_iter().map(|(key, value)| (key, whole(value))).collect(),
        value => value,
    }
}

/// The first key with the value null, at any depth. serde would take such a key for one that is left out, and the
/// document of the API allows no null.
fn null_in(value: &Value) -> Option<&str> {
    match value {
        Value::Object(table) => table.iter().find_map(|(key, value)| match value {
            Value::Null => Some(key.as_str()),
            value => null_in(value),
        }),
        Value::Array(items) => items.iter().find_map(null_in),
        _ => None,
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    kind.and_then(|kind| kind.split(';').next())
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

impl<T: JsonSchema> OperationInput for Path<T> {
    fn operation_input(context: &mut GenContext, operation: &mut Operation) {
        axum::extract::Path::<T>::operation_input(context, operation);
    }
}

impl<T: JsonSchema> OperationInput for Query<T> {
    fn operation_input(context: &mut GenContext, operation: &mut Operation) {
        axum::extract::Query::<T>::operation_input(context, operation);
    }
}

impl<T: JsonSchema> OperationInput for Json<T> {
    fn operation_input(context: &mut GenContext, operation: &mut Operation) {
        axum::Json::<T>::operation_input(context, operation);
    }
}

impl OperationInput for Raw {
    fn operation_input(context: &mut GenContext, operation: &mut Operation) {
        Bytes::operation_input(context, operation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_is_given_up() {
        let never = futures_util::stream::pending::<Result<Bytes, std::io::Error>>();
        let request = Request::post("/").header("content-type", "application/json");
        let request = request.body(axum::body::Body::from_stream(never)).unwrap();
        let began = tokio::time::Instant::now();
        let Err(Refused(problem)) = read(request).await else { panic!("it came") };
        assert_eq!((problem.reason, began.elapsed().as_secs()), (Reason::TimedOut, BODY_IN.as_secs()));
    }

    #[test]
    fn a_null_is_found_at_any_depth() {
        assert_eq!(null_in(&json!({ "a": [{ "b": { "c": null } }] })), Some("c"));
        assert_eq!(null_in(&json!({ "a": [{ "b": {} }, 0] })), None);
    }

    #[test]
    fn whole_numbers_are_integers_however_they_are_written() {
        let value = whole(json!({ "a": [5.0, 0.5, -3.0, 7], "b": { "c": 1e300 } }));
        assert_eq!(value.to_string(), r#"{"a":[5,0.5,-3,7],"b":{"c":1e+300}}"#);
    }
}
