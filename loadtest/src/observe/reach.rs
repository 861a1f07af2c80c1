//! How many of a Service's endpoints a client can use: shown as ready, of a pod that is ready and was not asked to go.

use super::PodNumber;
use crate::report::model::Reachable;
use std::collections::HashMap;

/// The endpoints of one set.
#[derive(Debug, Default)]
pub(super) struct Reach {
    pods: HashMap<PodNumber, Endpoint>,
    now: u64,
    /// As many as there were when the measurement began, and the fewest since then.
    measured: Reachable,
}

#[derive(Clone, Copy, Debug, Default)]
struct Endpoint {
    is_shown: bool,
    is_ready: bool,
}

// === impl Reach ===

impl Reach {
    /// The objects show the pod as ready, or no longer. What is known of a pod at first is what they show.
    pub(super) fn shows(&mut self, pod: PodNumber, is_shown: bool) {
        let is_ready = self.pods.get(&pod).map_or(is_shown, |it| it.is_ready);
        self.set(pod, Endpoint { is_shown, is_ready });
    }

    /// The pod becomes ready, or no longer is, or is asked to go.
    pub(super) fn becomes(&mut self, pod: PodNumber, is_ready: bool) {
        let is_shown = self.pods.get(&pod).is_some_and(|it| it.is_shown);
        self.set(pod, Endpoint { is_shown, is_ready });
    }

    fn set(&mut self, pod: PodNumber, endpoint: Endpoint) {
        let is_usable = |it: Endpoint| it.is_shown && it.is_ready;
        // A pod's number never comes back.
        let before = if endpoint.is_shown || endpoint.is_ready {
            self.pods.insert(pod, endpoint)
        } else {
            self.pods.remove(&pod)
        };
        self.now += u64::from(is_usable(endpoint));
        self.now -= u64::from(before.is_some_and(is_usable));
        self.measured.fewest = self.measured.fewest.min(self.now);
    }

    /// Begins to measure.
    pub(super) fn begin(&mut self) {
        self.measured = Reachable {
            before: self.now,
            fewest: self.now,
        };
    }

    pub(super) fn measured(&self) -> Reachable {
        self.measured
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_counts_while_it_is_shown_and_its_pod_is_ready() {
        let mut reach = Reach::default();
        for pod in 0..4 {
            reach.shows(pod, true);
        }
        reach.begin();
        // A pod is replaced: its successor is shown late.
        reach.becomes(0, false);
        reach.becomes(4, true);
        reach.shows(0, false);
        reach.shows(1, false);
        reach.shows(4, true);
        reach.shows(1, true);
        assert_eq!(reach.measured(), Reachable { before: 4, fewest: 2 });
        assert_eq!(reach.now, 4);
    }
}
