//! Plays a recorded scenario against a server, and compares what its controller settles on with what
//! kube-controller-manager settled on.

use super::cluster::{self, Api};
use memory_apiserver::ApiServer;
use scenario::{Compared, Play, Scenario};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// For how long nothing must have been written until a step is over. Upstream tries again after a second.
pub(crate) const QUIET: Duration = Duration::from_millis(2200);
/// After so long a step is over all the same.
const LONGEST: Duration = Duration::from_secs(40);

/// Parts that are left out of a comparison, beside those that no run is compared by.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct But {
    /// The annotation with the trigger time.
    pub(crate) trigger_times: bool,
    /// The Endpoints and slices of these Services.
    pub(crate) services: BTreeSet<String>,
}

impl But {
    fn cut(&self, mut state: Value) -> Value {
        let of = |object: &Value| {
            let label = object["labels"]["kubernetes.io/service-name"].as_str();
            self.services
                .contains(label.or(object["name"].as_str()).unwrap_or_default())
        };
        for field in ["endpoints", "endpointslices", "groups"] {
            if let Some(objects) = state[field].as_array_mut() {
                objects.retain(|object| !of(object));
            }
        }
        state
    }
}

/// A scenario that is being played.
pub(crate) struct Player<'a> {
    server: ApiServer,
    play: Play<'a>,
}

impl<'a> Player<'a> {
    pub(crate) fn new(scenario: &'a Value, server: &ApiServer) -> Self {
        let (api, scenario) = (Api(cluster::client(server)), Scenario(scenario));
        Self {
            server: server.clone(),
            play: Play::new(api, scenario, format!("g-{}", scenario.name())),
        }
    }

    /// The steps: operations, and the state that they led to.
    pub(crate) fn steps(&self) -> &'a [Value] {
        self.play.scenario.steps()
    }

    /// Creates the namespace.
    pub(crate) async fn begin(&self) {
        self.play.create_namespace().await.unwrap();
    }

    /// Carries out one operation. A controller that is down has not created the Endpoints of a new Service yet, so
    /// theirs need not be found.
    pub(crate) async fn act(&mut self, operation: &Value) {
        if let Err(error) = self.play.act(operation).await {
            let on_endpoints = ["patch", "delete"]
                .iter()
                .any(|op| operation[op]["kind"] == "Endpoints");
            let tolerated = on_endpoints && error.code() == Some(404);
            assert!(tolerated, "{operation}: {error}");
        }
    }

    /// Waits until nothing has been written for so long. False if something was written all the time.
    pub(crate) async fn settle(&self, quiet: Duration) -> bool {
        let start = Instant::now();
        let (mut last, mut seen) = (start, self.server.resource_version());
        loop {
            sleep(Duration::from_millis(100)).await;
            let (now, version) = (Instant::now(), self.server.resource_version());
            if version != seen {
                (last, seen) = (now, version);
            }
            if now.saturating_duration_since(last) >= quiet {
                return true;
            }
            if now.saturating_duration_since(start) >= LONGEST {
                return false;
            }
        }
    }

    /// The state at the end of a step, in the form in which states are compared.
    pub(crate) async fn state(&mut self) -> Value {
        self.play.state().await.unwrap()
    }

    /// How the state at the end of a step differs from the recorded one.
    pub(crate) fn differences(&self, step: usize, state: &Value, but: &But) -> Vec<String> {
        let timed = !but.trigger_times && self.play.scenario.compares_trigger_times(step);
        let want = but.cut(self.recorded(step, timed));
        let got = but.cut(self.observed(state, timed));
        scenario::differences(&want, &got, self.play.scenario.max_endpoints())
            .into_iter()
            .map(|difference| format!("step {step}{difference}"))
            .collect()
    }

    /// Finds the objects that a step changed and whose trigger time does not fit the recorded one: `fits` is asked
    /// with the recorded time and the one found. The others keep what an earlier step gave them.
    pub(crate) fn other_triggers(
        &self,
        step: usize,
        state: &Value,
        but: &But,
        fits: impl Fn(Option<&str>, Option<&str>) -> bool,
    ) -> Vec<String> {
        if step == 0 || !self.play.scenario.compares_trigger_times(step) {
            return Vec::new();
        }
        let before = but.cut(self.recorded(step - 1, false));
        let after = but.cut(self.recorded(step, true));
        let got = but.cut(self.observed(state, true));
        let mut found = Vec::new();
        for field in ["endpoints", "endpointslices"] {
            let objects = |state: &Value| state[field].as_array().cloned().unwrap_or_default();
            // An owner that goes does not change them.
            let before: Vec<_> = objects(&before).iter().map(scenario::without_uids).collect();
            let got = objects(&got);
            for object in objects(&after) {
                let bare = scenario::without_trigger_times(&object);
                let foreign = field == "endpointslices" && !scenario::is_managed(&object);
                if foreign || before.contains(&scenario::without_uids(&bare)) {
                    continue;
                }
                let want = trigger(&object);
                let same = got.iter().filter(|o| scenario::without_trigger_times(o) == bare);
                let times: Vec<_> = same.map(trigger).collect();
                if !times.iter().any(|time| fits(want, *time)) {
                    found.push(format!(
                        "step {step}.{field}: want the trigger time {want:?}, got {times:?}: {bare}"
                    ));
                }
            }
        }
        found
    }

    /// The Services that had a selector in some step and are not fully managed now: there is none of that name, it
    /// has no selector, it is an external name, or it is being deleted, so that no slice is made for it any more.
    pub(crate) async fn abandoned(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for op in self.play.scenario.operations() {
            let (kind, name, spec) = match (&op["create"], &op["patch"]) {
                (Value::Null, patch) => (&patch["kind"], &patch["name"], &patch["patch"]["spec"]),
                (object, _) => (&object["kind"], &object["metadata"]["name"], &object["spec"]),
            };
            if kind == "Service" && selects(spec) {
                names.insert(text(name));
            }
        }
        for service in self.play.api.list("Service", &self.play.namespace).await.unwrap() {
            let (spec, meta) = (&service["spec"], &service["metadata"]);
            if selects(spec) && spec["type"] != "ExternalName" && meta["deletionTimestamp"].is_null() {
                names.remove(meta["name"].as_str().unwrap());
            }
        }
        names
    }

    /// The recorded state and the observed one, with the parts that are compared.
    fn recorded(&self, step: usize, trigger_times: bool) -> Value {
        let (scenario, compared) = (self.play.scenario, compared(trigger_times));
        let own = scenario.of_endpointd(step, compared);
        own.unwrap_or_else(|| scenario.recorded(step, compared))
    }

    fn observed(&self, state: &Value, trigger_times: bool) -> Value {
        let scenario = self.play.scenario;
        scenario.observed(state, compared(trigger_times))
    }
}

/// The parts of a state that are compared.
fn compared(trigger_times: bool) -> Compared {
    Compared {
        endpoints: true,
        slices: true,
        mirrored: true,
        trigger_times,
    }
}

/// The trigger time of an object.
fn trigger(object: &Value) -> Option<&str> {
    object["annotations"][scenario::TRIGGER].as_str()
}

fn selects(spec: &Value) -> bool {
    spec["selector"]
        .as_object()
        .is_some_and(|selector| !selector.is_empty())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
