//! Answers of many megabytes. A client may take its time with one, so there are only a few at a time.

use axum::body::{Body, Bytes};
use futures_util::stream::unfold;
use std::convert::Infallible;
use tokio::sync::OwnedSemaphorePermit;

/// Large answers that are held at a time. Further requests wait.
pub(crate) const MOST: usize = 4;
/// Bytes that are on their way to a client at a time.
const PIECE: usize = 64 << 10;

/// An answer that keeps its place until the client has taken it, or has gone.
pub(crate) fn body(bytes: Vec<u8>, place: OwnedSemaphorePermit) -> Body {
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
    use std::sync::Arc;
    use tokio::sync::Semaphore;

    #[tokio::test]
    async fn an_answer_keeps_its_place_until_it_is_taken_or_dropped() {
        let room = Arc::new(Semaphore::new(2));
        let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(3 * PIECE + 1).collect();
        let answer = || body(bytes.clone(), Arc::clone(&room).try_acquire_owned().expect("there is room"));
        let (dropped, read) = (answer(), answer());
        assert_eq!(room.available_permits(), 0);
        let mut taken = Vec::new();
        let mut pieces = read.into_data_stream();
        while let Some(piece) = pieces.next().await {
            taken.extend(piece.expect("it does not fail"));
        }
        assert!(taken == bytes);
        assert_eq!(room.available_permits(), 1);
        drop(dropped);
        assert_eq!(room.available_permits(), 2);
    }
}
