//! How long the controller itself takes to answer a neighbour's flip: from its event to the request that writes it.

use super::meter::{Meter, Moment};
use super::neighbours;
use crate::observe::visible::{SetId, Shown, Visibility};
use crate::observe::{PodNumber, shown_in_slice};
use crate::report::model::Latency;
use memory_apiserver::{event_of, object_of};
use parking_lot::Mutex;
use std::collections::HashMap;
use tokio::time::Instant;

/// The flips that are under way, and how long those took that are not. The relay writes to it.
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

/// A neighbour's slice as the controller writes it.
pub(super) struct Written {
    path: String,
    set: SetId,
    shown: Vec<(PodNumber, Shown)>,
    /// When the controller had sent the request.
    at: Moment,
}

impl Delays {
    pub(super) fn new() -> Self {
        let state = State {
            flips: std::array::from_fn(|_| {
                // Only writes pass here, and no lists.
                let mut flips = Visibility::new();
                flips.begin_late();
                flips
            }),
            written: HashMap::new(),
        };
        Self {
            state: Mutex::new(state),
            meter: Meter::new(),
        }
    }

    /// Forgets what was measured so far.
    pub(super) fn clear(&self) {
        let mut state = self.state.lock();
        state.flips.iter_mut().for_each(Visibility::clear);
        self.meter.clear();
    }

    /// How many flips the server told the controller of, and how long the controller took: by the clock on the wall, in
    /// processor time, and in requests that it sent and flips that it was told of meanwhile, a millisecond for each.
    pub(super) fn report(&self) -> (u64, [Latency; 4]) {
        let state = self.state.lock();
        (
            self.meter.flips(),
            state.flips.each_ref().map(Visibility::latency),
        )
    }

    /// The server has sent an event of a watch to the controller.
    pub(super) fn event(&self, event: &[u8], at: Instant) {
        // Most events are of objects that are not measured, and are not decoded.
        if memchr::memmem::find(event, neighbours::NAMESPACE.as_bytes()).is_none() {
            return;
        }
        let Some((change, object)) = event_of(event) else {
            return;
        };
        let metadata = &object["metadata"];
        let [namespace, name] =
            ["namespace", "name"].map(|field| metadata[field].as_str().unwrap_or_default());
        // A Service or a slice has no such name.
        let pod = neighbours::pod_of(name).filter(|_| namespace.starts_with(neighbours::NAMESPACE));
        let Some(pod) = pod.filter(|_| change == "MODIFIED") else {
            return;
        };
        let conditions = object["status"]["conditions"].as_array();
        let ready = conditions
            .into_iter()
            .flatten()
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
        self.meter.count_flip();
        let at = self.meter.moment(at);
        let mut state = self.state.lock();
        for (flips, at) in state.flips.iter_mut().zip(at.clocks()) {
            let change = neighbours::announce(flips, pod, ready);
            flips.answered(&change, at);
        }
    }

    /// The server has taken a request.
    pub(super) fn written(&self, written: Written) {
        let Written { path, set, shown, at } = written;
        let mut state = self.state.lock();
        let before = state.written.insert(path, shown.clone());
        let before = before.unwrap_or_default();
        for (flips, at) in state.flips.iter_mut().zip(at.clocks()) {
            flips.turns(set, &before, &shown, at);
        }
    }
}

impl Written {
    /// The slices that a request writes, if they are a neighbour's.
    pub(super) fn set_of(method: &str, path: &str) -> Option<SetId> {
        neighbours::of_slice(path).filter(|_| method == "PUT")
    }

    /// A request that the controller sent, if it writes a neighbour's slice.
    pub(super) fn read(method: &str, path: &str, body: &[u8], at: Moment) -> Option<Self> {
        Some(Self {
            path: path.to_owned(),
            set: Self::set_of(method, path)?,
            shown: shown_in_slice(object_of(body)?.to_string().as_bytes()).ok()?,
            at,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::pod_ip;
    use crate::oracle::Family;
    use std::time::Duration;

    #[test]
    fn a_flip_takes_from_its_event_to_the_request_that_shows_it() {
        let delays = Delays::new();
        let path = "/apis/discovery.k8s.io/v1/namespaces/neighbour-1/endpointslices/svc-a";
        let slice = |ready: bool| {
            let (ip, other) = (pod_ip(5, Family::V4), pod_ip(9, Family::V4));
            format!(
                r#"{{"kind":"EndpointSlice","addressType":"IPv4","endpoints":[
                    {{"addresses":["{ip}"],"conditions":{{"ready":{ready},"serving":{ready},"terminating":false}}}},
                    {{"addresses":["{other}"],"conditions":{{"ready":true,"serving":true,"terminating":false}}}}]}}"#
            )
        };
        let event = |pod: u32, namespace: &str| {
            format!(
                r#"{{"type":"MODIFIED","object":{{"metadata":{{"name":"pod-{pod}","namespace":"{namespace}"}},
                    "status":{{"conditions":[{{"type":"Ready","status":"False"}}]}}}}}}"#
            )
        };
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let write = |method, path: &str, ready, millis| {
            if let Some(written) =
                Written::read(method, path, slice(ready).as_bytes(), Moment::all(at(millis)))
            {
                delays.written(written);
            }
        };
        write("PUT", path, true, 0);
        delays.event(event(5, "neighbour-1").as_bytes(), at(10));
        // None of these shows it.
        delays.event(event(5, "hostile").as_bytes(), at(11));
        write("PUT", path, true, 12);
        write("GET", path, false, 13);
        let other = path.replace("neighbour-1", "hostile");
        write("PUT", &other, false, 14);
        assert_eq!((delays.report().0, delays.report().1[0].never_seen), (1, 1));
        write("PUT", path, false, 30);
        let (events, [report, ..]) = delays.report();
        assert_eq!(
            (events, report.count, report.never_seen, report.overtaken),
            (1, 1, 0, 0)
        );
        assert!(report.max.abs_diff(20_000) < 50, "{report:?}");
    }
}
