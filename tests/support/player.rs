//! Plays a recorded scenario against a server, and compares what its controller settles on with what
//! kube-controller-manager settled on.

use super::cluster::{self, Api};
use super::normal::{self, Compared};
use memory_apiserver::ApiServer;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// For how long nothing must have been written until a step is over. Upstream tries again after a second.
pub(crate) const QUIET: Duration = Duration::from_millis(2200);
/// After so long a step is over all the same.
const LONGEST: Duration = Duration::from_secs(40);

/// What is left out of a comparison beside what no run is compared by.
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
    pub(crate) api: Api,
    scenario: &'a Value,
    namespace: String,
    /// When the Services that were there until now were created.
    created: BTreeMap<String, BTreeSet<String>>,
    /// Whether the step has made pods that the controller may not have seen.
    pods: bool,
}

impl<'a> Player<'a> {
    pub(crate) fn new(scenario: &'a Value, server: &ApiServer) -> Self {
        Self {
            server: server.clone(),
            api: Api(cluster::client(server)),
            scenario,
            namespace: format!("g-{}", text(&scenario["name"])),
            created: BTreeMap::new(),
            pods: false,
        }
    }

    /// The steps: operations, and the state that they led to.
    pub(crate) fn steps(&self) -> &'a [Value] {
        self.scenario["steps"].as_array().unwrap()
    }

    /// Makes the namespace.
    pub(crate) async fn begin(&self) {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}});
        self.api.create(&namespace, "").await.unwrap();
    }

    /// Carries out one operation.
    pub(crate) async fn act(&mut self, operation: &Value) {
        let kind = operation["create"]["kind"].as_str();
        if kind == Some("Service") && self.pods {
            // The controller must have seen the pods: else which of them comes first is a race.
            sleep(Duration::from_millis(300)).await;
            self.pods = false;
        }
        self.pods |= kind == Some("Pod");
        self.operate(operation).await;
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
        self.pods = false;
        let endpoints = self.api.list("Endpoints", &self.namespace).await;
        let slices = self.api.list("EndpointSlice", &self.namespace).await;
        normal::normal(&self.api, &self.namespace, &endpoints, &slices, &mut self.created).await
    }

    /// How the state at the end of a step differs from the recorded one.
    pub(crate) fn differences(&self, step: usize, state: &Value, but: &But) -> Vec<String> {
        let timed = !but.trigger_times && self.timed(step);
        let want = but.cut(self.recorded(step, timed));
        let got = but.cut(self.observed(state, timed));
        let mut found = Vec::new();
        normal::differ(&want, &got, "", limit(self.scenario) as u64, &mut found);
        found
            .into_iter()
            .map(|difference| format!("step {step}{difference}"))
            .collect()
    }

    /// Of the objects that a step changed, those whose trigger time does not fit the recorded one: `fits` is asked
    /// with the recorded time and the one found. The others keep what an earlier step gave them.
    pub(crate) fn other_triggers(
        &self,
        step: usize,
        state: &Value,
        but: &But,
        fits: impl Fn(Option<&str>, Option<&str>) -> bool,
    ) -> Vec<String> {
        if step == 0 || !self.timed(step) {
            return Vec::new();
        }
        let before = but.cut(self.recorded(step - 1, false));
        let after = but.cut(self.recorded(step, true));
        let got = but.cut(self.observed(state, true));
        let mut found = Vec::new();
        for field in ["endpoints", "endpointslices"] {
            let objects = |state: &Value| state[field].as_array().cloned().unwrap_or_default();
            // An owner that goes does not change them.
            let before: Vec<_> = objects(&before).iter().map(normal::anonymous).collect();
            let got = objects(&got);
            for object in objects(&after) {
                let bare = normal::untimed(&object);
                let foreign = field == "endpointslices" && !normal::is_managed(&object);
                if foreign || before.contains(&normal::anonymous(&bare)) {
                    continue;
                }
                let want = normal::trigger(&object);
                let same = got.iter().filter(|o| normal::untimed(o) == bare);
                let times: Vec<_> = same.map(normal::trigger).collect();
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
        for op in self
            .steps()
            .iter()
            .flat_map(|step| step["do"].as_array().unwrap())
        {
            let (kind, name, spec) = match (&op["create"], &op["patch"]) {
                (Value::Null, patch) => (&patch["kind"], &patch["name"], &patch["patch"]["spec"]),
                (object, _) => (&object["kind"], &object["metadata"]["name"], &object["spec"]),
            };
            if kind == "Service" && selects(spec) {
                names.insert(text(name));
            }
        }
        for service in self.api.list("Service", &self.namespace).await {
            let (spec, meta) = (&service["spec"], &service["metadata"]);
            if selects(spec) && spec["type"] != "ExternalName" && meta["deletionTimestamp"].is_null() {
                names.remove(meta["name"].as_str().unwrap());
            }
        }
        names
    }

    fn recorded(&self, step: usize, timed: bool) -> Value {
        normal::cut(&self.steps()[step]["then"], compared(self.scenario), timed)
    }

    fn observed(&self, state: &Value, timed: bool) -> Value {
        let compared = compared(self.scenario);
        if self.scenario["packing"] == "free" {
            normal::cut(&normal::pack(state), compared, timed)
        } else {
            normal::cut(state, compared, timed)
        }
    }

    /// Of several changes in a step, which share a write is free, and with it the trigger time.
    fn timed(&self, step: usize) -> bool {
        let operations = self.steps()[step]["do"].as_array().unwrap();
        let changes = operations.iter().filter(|op| op["sleep"].is_null()).count();
        step == 0 || self.scenario["trigger"] == "exact" || changes <= 1
    }

    async fn operate(&self, op: &Value) {
        let (api, namespace) = (&self.api, &*self.namespace);
        if let Some(object) = op.get("create") {
            api.create(object, namespace)
                .await
                .unwrap_or_else(|e| panic!("{op}: {e:?}"));
        } else if let Some(p) = op.get("patch") {
            let sub = p["sub"].as_str();
            let done = api
                .patch(&text(&p["kind"]), namespace, &text(&p["name"]), sub, &p["patch"])
                .await;
            let tolerated = p["kind"] == "Endpoints" && matches!(done, Err((404, _)));
            assert!(tolerated || done.is_ok(), "{op}: {done:?}");
        } else if let Some(d) = op.get("delete") {
            let done = api
                .delete(
                    &text(&d["kind"]),
                    namespace,
                    &text(&d["name"]),
                    d["grace"].as_u64(),
                )
                .await;
            // A controller that is down has not made those of a new Service yet.
            let tolerated = d["kind"] == "Endpoints" && matches!(done, Err((404, _)));
            assert!(tolerated || done.is_ok(), "{op}: {done:?}");
        } else if let Some(p) = op.get("patch_slices") {
            for slice in api.slices_of(namespace, &text(&p["service"])).await {
                let name = text(&slice["metadata"]["name"]);
                api.patch("EndpointSlice", namespace, &name, None, &p["patch"])
                    .await
                    .unwrap();
            }
        } else if let Some(d) = op.get("delete_slices") {
            for slice in api.slices_of(namespace, &text(&d["service"])).await {
                let name = text(&slice["metadata"]["name"]);
                api.delete("EndpointSlice", namespace, &name, None).await.unwrap();
            }
        } else if op.get("delete_namespace").is_some() {
            api.delete("Namespace", "", namespace, None).await.unwrap();
        } else if let Some(seconds) = op["sleep"].as_f64() {
            sleep(Duration::from_secs_f64(seconds)).await;
        } else {
            panic!("unknown operation {op}");
        }
    }
}

/// What is compared of a scenario. All that is left out of the comparison stands here.
pub(crate) fn compared(scenario: &Value) -> Compared {
    Compared {
        endpoints: true,
        // Slices mirrored from hand-written Endpoints are the business of upstream's third controller, which this
        // one does not replace.
        slices: !text(&scenario["name"]).starts_with("mirror"),
        mirrored: false,
    }
}

/// How many endpoints a slice holds in a scenario.
pub(crate) fn limit(scenario: &Value) -> usize {
    if scenario["config"] == "max4" { 4 } else { 100 }
}

fn selects(spec: &Value) -> bool {
    spec["selector"]
        .as_object()
        .is_some_and(|selector| !selector.is_empty())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
