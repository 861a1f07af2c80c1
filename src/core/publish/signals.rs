//! Signals of the API server's state that our own watches give, on their way from the watches to the writer.
//!
//! A watch task adds a signal for each read, and must not wait; the writer takes them when it is awake. Their number is
//! bounded, however far behind the writer is: versions of one output are merged, and deletions beyond a number are left
//! out, since the publisher waits for one only for a bounded time.

use crate::core::hash::Hashed;
use crate::core::object::{ObjectKey, Output};
use std::time::Duration;

/// Number of signals above which versions of an output are merged. The later time counts for both then, so that no echo
/// seems quicker than it was; only a writer that has not run for so many reads of the watches sees any that seem slower.
const KEPT: usize = 512;
/// Number of signals above which deletions are left out.
const MOST: usize = 1024;

/// A report of one of our own watches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Signal {
    /// Our own watch of an output was opened, and shows what comes after this version; or it has ended.
    Opened(Output, Option<u64>),
    /// Our own watch of an output has shown everything up to this version, in bytes that arrived then.
    Shown {
        /// The output.
        output: Output,
        /// The version of the last event or bookmark.
        version: u64,
        /// When its bytes arrived.
        at: Duration,
    },
    /// Our own watch has shown that this object was deleted.
    Deleted(Hashed<ObjectKey>),
    /// The number of nodes of the cluster.
    Nodes(usize),
}

/// The signals that wait for the writer.
#[derive(Clone, Default, Debug)]
pub struct Signals {
    /// All signals but the number of nodes, in order.
    of_watches: Vec<Signal>,
    nodes: Option<usize>,
}

impl Signals {
    /// Adds a signal.
    pub fn push(&mut self, signal: Signal) {
        let known = &mut self.of_watches;
        match &signal {
            Signal::Opened(this, _) => {
                // The signals of an earlier watch do not matter any more.
                known.retain(|other| other.output() != Some(*this));
            }
            Signal::Nodes(nodes) => {
                self.nodes = Some(*nodes);
                return;
            }
            Signal::Shown { output, version, at } if known.len() >= KEPT => {
                let last = known.iter_mut().rev().find_map(|other| match other {
                    Signal::Shown {
                        output: of,
                        version,
                        at,
                    } if of == output => Some((version, at)),
                    _ => None,
                });
                if let Some((known, since)) = last {
                    (*known, *since) = ((*known).max(*version), *at);
                    return;
                }
            }
            Signal::Deleted(_) if known.len() >= MOST => return,
            Signal::Shown { .. } | Signal::Deleted(_) => {}
        }
        known.push(signal);
    }

    /// Takes all signals; those of each watch are in order.
    pub fn take(&mut self) -> Vec<Signal> {
        if self.is_empty() {
            // After most messages.
            return Vec::new();
        }
        let mut taken = std::mem::take(&mut self.of_watches);
        taken.extend(self.nodes.take().map(Signal::Nodes));
        taken
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.of_watches.is_empty() && self.nodes.is_none()
    }

    /// Returns whether the number of nodes has changed. That moves the budget, so a writer that waits for it must not
    /// sleep on.
    pub fn has_nodes(&self) -> bool {
        self.nodes.is_some()
    }
}

impl Signal {
    /// Returns the output whose watch has reported this.
    fn output(&self) -> Option<Output> {
        match self {
            Self::Opened(output, _) | Self::Shown { output, .. } => Some(*output),
            Self::Deleted(key) => Some(key.object.output),
            Self::Nodes(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::object::ObjectName;

    fn shown(version: u64) -> Signal {
        Signal::Shown {
            output: Output::Slice,
            version,
            at: Duration::from_millis(version),
        }
    }

    #[test]
    fn there_are_never_many() {
        let mut signals = Signals::default();
        for version in 0..100_000 {
            signals.push(shown(version));
            let name = format!("s{version}").as_str().into();
            let key = ObjectKey::hashed("ns", ObjectName::slice(name));
            signals.push(Signal::Deleted(key));
            signals.push(Signal::Nodes(version as usize));
        }
        let taken = signals.take();
        assert!(taken.len() <= MOST + 2, "{}", taken.len());
        assert!(taken.contains(&shown(99_999)) && taken.contains(&Signal::Nodes(99_999)));
    }

    #[test]
    fn a_watch_that_ends_takes_along_what_it_has_shown() {
        let mut signals = Signals::default();
        signals.push(Signal::Opened(Output::Slice, Some(0)));
        signals.push(shown(1));
        signals.push(Signal::Opened(Output::Endpoints, Some(0)));
        signals.push(Signal::Opened(Output::Slice, None));
        signals.push(Signal::Opened(Output::Slice, Some(0)));
        signals.push(shown(2));
        assert_eq!(
            signals.take(),
            [
                Signal::Opened(Output::Endpoints, Some(0)),
                Signal::Opened(Output::Slice, Some(0)),
                shown(2)
            ]
        );
    }
}
