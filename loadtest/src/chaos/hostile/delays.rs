//! How long the controller itself takes to answer a neighbour's flip: from the server's answer to it, with which the event goes
//! out, until the request arrives that shows it.

use super::NAMESPACES;
use super::meter::{Meter, Moment};
use crate::observe::visible::{Change, SetId, Shown, Visibility};
use crate::observe::{PodNumber, shown_in_slice};
use crate::oracle::Family;
use crate::report::model::Latency;
use http::Method;
use memory_apiserver::{Arrival, object_of};
use parking_lot::Mutex;
use std::collections::HashMap;
use tokio::time::Instant;

/// The flips that are under way, and how long those took that are not.
pub(super) struct Delays {
    state: Mutex<State>,
    pub(super) meter: Meter,
}

struct State {
    /// By each clock.
    flips: [Visibility; 4],
    /// The pods that each written slice showed, by the path of the request.
    written: HashMap<String, Vec<(PodNumber, Shown)>>,
}

/// A flip that was announced to each clock.
pub(super) struct Flip([Change; 4]);

impl Delays {
    pub(super) fn new() -> Self {
        let flips = || {
            // Only writes are seen here, and no lists.
            let mut flips = Visibility::new();
            flips.begin_late();
            flips
        };
        Self {
            state: Mutex::new(State {
                flips: std::array::from_fn(|_| flips()),
                written: HashMap::new(),
            }),
            meter: Meter::new(),
        }
    }

    /// Forgets what was measured so far.
    pub(super) fn clear(&self) {
        self.state.lock().flips.iter_mut().for_each(Visibility::clear);
    }

    /// How long the controller took: by the clock on the wall, in processor time, and in writes that it sent and flips that were
    /// made meanwhile, a millisecond for each.
    pub(super) fn report(&self) -> [Latency; 4] {
        self.state.lock().flips.each_ref().map(Visibility::latency)
    }

    /// A pod is about to flip.
    pub(super) fn announce(&self, pod: PodNumber, ready: bool) -> Flip {
        let mut state = self.state.lock();
        Flip(state.flips.each_mut().map(|flips| announce(flips, pod, ready)))
    }

    /// The server has made the flip.
    pub(super) fn answered(&self, flip: &Flip) {
        self.meter.count_flip();
        let at = self.meter.moment(Instant::now());
        let mut state = self.state.lock();
        for ((flips, at), change) in state.flips.iter_mut().zip(at.clocks()).zip(&flip.0) {
            flips.answered(change, at);
        }
    }

    /// A request has arrived. The attacker and the neighbours patch, so other writes of outputs are the controller's.
    pub(super) fn arrived(&self, arrival: &Arrival<'_>) {
        let Arrival { method, path, body } = *arrival;
        if matches!(*method, Method::GET | Method::PATCH) || !path.contains("/endpoint") {
            return;
        }
        self.meter.count();
        if let Some(set) = of_slice(path).filter(|_| *method == Method::PUT)
            && let Some(slice) = object_of(body)
            && let Ok(shown) = shown_in_slice(slice.to_string().as_bytes())
        {
            self.written(path, set, &shown, self.meter.moment(Instant::now()));
        }
    }

    fn written(&self, path: &str, set: SetId, shown: &[(PodNumber, Shown)], at: Moment) {
        let mut state = self.state.lock();
        let before = state.written.insert(path.to_owned(), shown.to_vec());
        let before = before.unwrap_or_default();
        for (flips, at) in state.flips.iter_mut().zip(at.clocks()) {
            flips.turns(set, &before, shown, at);
        }
    }
}

/// The set that a slice with this path belongs to.
fn of_slice(path: &str) -> Option<SetId> {
    let rest = path.strip_prefix("/apis/discovery.k8s.io/v1/namespaces/neighbour-")?;
    let (number, _) = rest.split_once("/endpointslices/")?;
    Some((number.parse().ok()?, Family::V4))
}

/// A pod is to be shown so from now on.
pub(super) fn announce(flips: &mut Visibility, pod: PodNumber, ready: bool) -> Change {
    let shown = if ready { Shown::READY } else { Shown::NOT_READY };
    let set = (pod as usize % NAMESPACES, Family::V4);
    flips.announce(pod, std::iter::once((set, shown)), Instant::now())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::pod_ip;
    use crate::oracle::Family;
    use std::time::Duration;

    #[test]
    fn a_flip_takes_until_the_request_that_shows_it() {
        let delays = Delays::new();
        let path = "/apis/discovery.k8s.io/v1/namespaces/neighbour-1/endpointslices/svc-a";
        let write = |method: &Method, path: &str, ready: bool| {
            let (ip, other) = (pod_ip(5, Family::V4), pod_ip(9, Family::V4));
            let slice = format!(
                r#"{{"kind":"EndpointSlice","addressType":"IPv4","endpoints":[
                    {{"addresses":["{ip}"],"conditions":{{"ready":{ready},"serving":{ready},"terminating":false}}}},
                    {{"addresses":["{other}"],"conditions":{{"ready":true,"serving":true,"terminating":false}}}}]}}"#
            );
            delays.arrived(&Arrival {
                method,
                path,
                body: slice.as_bytes(),
            });
        };
        write(&Method::PUT, path, true);
        let flip = delays.announce(5, false);
        delays.answered(&flip);
        // None of these shows it.
        write(&Method::PUT, path, true);
        write(&Method::GET, path, false);
        write(&Method::PUT, &path.replace("neighbour-1", "hostile"), false);
        assert_eq!(delays.report().map(|latency| latency.never_seen), [1; 4]);
        std::thread::sleep(Duration::from_millis(20));
        write(&Method::PUT, path, false);
        let [wall, _, requests, flips] = delays.report();
        assert_eq!((wall.count, wall.never_seen, wall.overtaken), (1, 0, 0));
        assert!(wall.max >= 20_000, "{wall:?}");
        // Three writes of the controller, this one among them, and no other flip.
        assert_eq!((requests.max / 1_000, flips.max), (3, 0));
    }
}
