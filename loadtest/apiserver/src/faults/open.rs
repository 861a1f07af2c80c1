//! An open watch, which finds out by itself that the plan has changed.

use super::{Ask, Faults, faulty};
use crate::body::Pieces;
use bytes::Bytes;
use futures::stream;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The stream of a watch. Before each piece it compares a number with the plan's; a plan that was set meanwhile is asked
/// what it has in store for this watch.
pub(crate) struct OpenWatch {
    pieces: Pieces,
    gate: Option<Gate>,
}

struct Gate {
    faults: Arc<Faults>,
    /// The generation of the plan this watch was last told about.
    seen: u64,
    ask: Arc<Ask>,
}

impl OpenWatch {
    pub(crate) fn new(pieces: Pieces) -> Self {
        Self { pieces, gate: None }
    }

    /// From now on plans can reach this watch; that of the generation `seen` has been asked already.
    pub(crate) fn attend(&mut self, faults: Arc<Faults>, seen: u64, ask: Arc<Ask>) {
        self.gate = Some(Gate { faults, seen, ask });
    }

    /// Puts something between the watch and its reader.
    pub(crate) fn wrap(&mut self, with: impl FnOnce(Pieces) -> Pieces) {
        let pieces = std::mem::replace(&mut self.pieces, Box::pin(stream::empty()));
        self.pieces = with(pieces);
    }

    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if let Some(gate) = &mut self.gate
            && gate.faults.generation() != gate.seen
        {
            gate.seen = gate.faults.generation();
            if let Some((seen, plan)) = gate.faults.active() {
                gate.seen = seen;
                let ask = Arc::clone(&gate.ask);
                let hits = plan.draw_within_watch(&ask).watch;
                if !hits.is_empty() {
                    self.wrap(|pieces| faulty(pieces, plan, ask, hits));
                }
            }
        }
        self.pieces.as_mut().poll_next(cx)
    }
}
