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
        normal::normal(
            &self.api,
            &self.namespace,
            &endpoints,
            &slices,
            &mut self.created,
        )
        .await
    }

    /// How the state at the end of a step differs from the recorded one, trigger times included or left out.
    pub(crate) fn differences(&self, step: usize, state: &Value, timed: bool) -> Vec<String> {
        let recorded = &self.steps()[step];
        let timed = timed && self.timed(step);
        let compared = compared(self.scenario);
        let want = normal::cut(&recorded["then"], compared, timed);
        let got = if self.scenario["packing"] == "free" {
            normal::cut(&normal::pack(state), compared, timed)
        } else {
            normal::cut(state, compared, timed)
        };
        let mut found = Vec::new();
        normal::differ(&want, &got, "", limit(self.scenario) as u64, &mut found);
        found
            .into_iter()
            .map(|difference| format!("step {step}{difference}"))
            .collect()
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

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
