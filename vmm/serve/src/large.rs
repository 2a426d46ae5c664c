//! Answers of many megabytes: a few at a time, since a client may take its time with one.

use axum::body::{Body, Bytes};
use futures_util::stream::unfold;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// As many are held at a time. Other clients wait for theirs.
const MOST: usize = 4;
/// Bytes that are on their way to a client at a time.
const PIECE: usize = 64 << 10;

/// Room for large answers.
#[derive(Clone)]
pub(crate) struct Room(Arc<Semaphore>);

/// A place for one of them, until it is dropped.
pub(crate) struct Place(#[expect(dead_code, reason = "it is there to be dropped")] OwnedSemaphorePermit);

impl Room {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(MOST)))
    }

    /// Waits for a place. `None`: the server ends.
    pub(crate) async fn place(&self) -> Option<Place> {
        Arc::clone(&self.0).acquire_owned().await.ok().map(Place)
    }
}

/// An answer that keeps its place until the client has taken it, or has gone.
pub(crate) fn body(bytes: Vec<u8>, place: Place) -> Body {
    let pieces = unfold((Bytes::from(bytes), place), |(mut rest, place)| async move {
        // A copy: a part of the whole would hold all of it.
        let piece = Bytes::copy_from_slice(&rest.split_to(rest.len().min(PIECE)));
        (!piece.is_empty()).then_some((Ok::<_, Infallible>(piece), (rest, place)))
    });
    Body::from_stream(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::StreamExt;

    #[tokio::test]
    async fn an_answer_holds_its_place_until_it_is_taken_or_dropped() {
        let room = Room::new();
        let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(3 * PIECE + 1).collect();
        let mut bodies = Vec::new();
        for _ in 0..MOST {
            bodies.push(body(bytes.clone(), room.place().await.expect("there is room")));
        }
        assert_eq!(room.0.available_permits(), 0);
        let mut taken = Vec::new();
        let mut pieces = bodies.pop().expect("there are some").into_data_stream();
        while let Some(piece) = pieces.next().await {
            taken.extend(piece.expect("it does not fail"));
        }
        assert!(taken == bytes);
        assert_eq!(room.0.available_permits(), 1);
        drop(bodies);
        assert_eq!(room.0.available_permits(), MOST);
    }
}
