//! An open watch, which finds out by itself that the plan has changed.

use super::{Ask, Faults, faulty};
use crate::body::Pieces;
use bytes::Bytes;
use futures::{Stream, stream};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The stream of a watch. Before each piece it compares a number with the plan's; a plan that was set meanwhile is asked
/// what it has in store for this watch.
struct OpenWatch {
    pieces: Pieces,
    faults: Arc<Faults>,
    /// The generation of the plan this watch was last told about.
    seen: u64,
    ask: Arc<Ask>,
}

/// Lets plans reach a watch from now on; that of the generation `seen` has been asked already.
pub(crate) fn attend(pieces: Pieces, faults: Arc<Faults>, seen: u64, ask: Arc<Ask>) -> Pieces {
    Box::pin(OpenWatch {
        pieces,
        faults,
        seen,
        ask,
    })
}

impl Stream for OpenWatch {
    type Item = io::Result<Bytes>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let watch = self.get_mut();
        if watch.faults.generation() != watch.seen {
            watch.seen = watch.faults.generation();
            if let Some((seen, plan)) = watch.faults.active() {
                watch.seen = seen;
                let ask = Arc::clone(&watch.ask);
                let hits = plan.draw_within_watch(&ask).watch;
                if !hits.is_empty() {
                    let pieces = std::mem::replace(&mut watch.pieces, Box::pin(stream::empty()));
                    watch.pieces = faulty(pieces, plan, ask, hits);
                }
            }
        }
        watch.pieces.as_mut().poll_next(cx)
    }
}
