//! Endpoints whose answers go on: events, frames, consoles. A reader that does not read holds up nobody but itself.

use crate::answer::Refused;
use crate::crew::Crew;
use crate::extract::{Path, Query};
use crate::handlers::VmName;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use stile_api::{Event, Happened};
use stile_config::Span;
use stile_node::{Frames, Piece, Scrollback, now};
use tokio::sync::broadcast::error::RecvError;

/// Time between two frames, where the request does not say, and the shortest.
const INTERVAL: Duration = Duration::from_secs(1);
const SHORTEST: Duration = Duration::from_millis(100);
/// Time after which a line without meaning shows that the connection lives.
const ALIVE: Duration = Duration::from_secs(15);
/// Most bytes of a console that are sent in one piece.
const PIECE: usize = 64 << 10;
/// A guest may print any bytes.
const TEXT: (HeaderName, HeaderValue) = (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
/// The header with the number of the byte after those in the answer.
const NEXT: HeaderName = HeaderName::from_static("stile-next");

#[derive(Deserialize, JsonSchema)]
pub(crate) struct FramesQuery {
    /// Time between two frames, `100ms` at least; `1s` without this.
    interval: Option<Span>,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct ConsoleQuery {
    /// Number of the first byte to send, counted since the VM was created. Without this all that is kept.
    #[serde(default)]
    #[schemars(range(max = u64::MAX))]
    from: u64,
}

fn sent(name: &'static str, data: &impl Serialize) -> Result<Sent, Infallible> {
    // What the API's types hold can be written as JSON.
    Ok(Sent::default().event(name).json_data(data).unwrap_or_default())
}

/// What happens from now on, as server-sent events.
pub(crate) async fn events(State(crew): State<Crew>) -> Response {
    let stream = unfold(crew.node().bus().listen(), |mut events| async {
        let event = match events.recv().await {
            Ok(event) => event,
            Err(RecvError::Lagged(events)) => Event { at: now(), what: Happened::Missed { events } },
            Err(RecvError::Closed) => return None,
        };
        Some((sent("event", &event), events))
    });
    Sse::new(stream).keep_alive(KeepAlive::new().interval(ALIVE)).into_response()
}

/// A frame for each interval, as server-sent events.
pub(crate) async fn frames(State(crew): State<Crew>, Query(query): Query<FramesQuery>) -> Result<Response, Refused> {
    let interval = query.interval.map_or(INTERVAL, Span::duration).max(SHORTEST);
    let node = Arc::clone(crew.node());
    let first = crew.look(move |_| Ok(Frames::of(node))).await?;
    let stream = unfold((crew, first), move |(crew, mut frames)| async move {
        tokio::time::sleep(interval).await;
        let taken = crew.look(move |_| {
            let frame = frames.take();
            Ok((frame, frames))
        });
        let (frame, frames) = taken.await.ok()?;
        Some((sent("frame", &frame), (crew, frames)))
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(ALIVE)).into_response())
}

/// What a guest has printed.
pub(crate) async fn console(
    State(crew): State<Crew>,
    Path(vm): Path<VmName>,
    Query(query): Query<ConsoleQuery>,
) -> Result<Response, Refused> {
    let console = crew.look(move |node| Ok(node.vm(vm.name())?.console.clone())).await?;
    let Piece { bytes, next, .. } = console.read(query.from, usize::MAX);
    Ok(([TEXT, (NEXT, HeaderValue::from(next))], Body::from(bytes)).into_response())
}

/// What a guest has printed, and what it prints.
pub(crate) async fn follow_console(
    State(crew): State<Crew>,
    Path(vm): Path<VmName>,
    Query(query): Query<ConsoleQuery>,
) -> Result<Response, Refused> {
    let console = crew.look(move |node| Ok(node.vm(vm.name())?.console.clone())).await?;
    Ok(([TEXT], Body::from_stream(followed(console, query.from))).into_response())
}

fn followed(console: Scrollback, from: u64) -> impl futures_util::Stream<Item = Result<Bytes, Infallible>> {
    let follow = console.follow();
    unfold((console, follow, from), |(console, mut follow, from)| async move {
        loop {
            follow.borrow_and_update();
            let is_over = console.is_over();
            let Piece { bytes, next, .. } = console.read(from, PIECE);
            if !bytes.is_empty() {
                return Some((Ok(Bytes::from(bytes)), (console, follow, next)));
            }
            if is_over {
                return None;
            }
            // The other end is the console itself, which this holds.
            follow.changed().await.ok()?;
        }
    })
}
