//! The attacks that the owner of a namespace can make, up to the limits of the API: 1.5 MB an object, and 20 writes a
//! second.

use super::kinds::{Attack, NAMESPACE, collection, path, pod_number};
use super::{bulk, collisions, objects, webhooks};
use crate::api::Http;
use crate::observe::pod_ip;
use crate::oracle::Family;
use anyhow::Context;
use memory_apiserver::{Failure, Fault, FaultPlan, Handle, Rule, Stage, Verbs};
use serde_json::{Value, json};

/// An object of about 1.4 MB, as its largest part.
const LARGE: usize = 1_400_000;

/// An attack that has been prepared.
pub(super) struct Strikes {
    http: Http,
    attack: Attack,
    kinds: Vec<Attack>,
    scale: f64,
    /// The number of hostile namespaces, where there may be several.
    namespaces: usize,
    /// The slice that is edited, once there is one.
    slice: Option<String>,
    /// Bytes of the objects that the attack's memory is compared with.
    bytes: u64,
}

impl Strikes {
    /// Makes what the attack needs. The controller is not there yet: a tenant has had all the time in the world.
    pub(super) async fn prepare(
        attack: Attack,
        http: Http,
        handle: &Handle,
        scale: f64,
        namespaces: usize,
    ) -> anyhow::Result<Self> {
        http.create("/api/v1/namespaces", &objects::namespace(NAMESPACE))
            .await?;
        let kinds = match attack {
            Attack::All => {
                let others = Attack::ALL.into_iter();
                others
                    .filter(|kind| *kind != Attack::None && (*kind as u8) < Attack::Refused as u8)
                    .collect()
            }
            one => vec![one],
        };
        let mut strikes = Self {
            http,
            attack,
            kinds,
            scale,
            namespaces,
            slice: None,
            bytes: 0,
        };
        for kind in strikes.kinds.clone() {
            strikes.bytes += strikes.prepare_one(kind).await?;
            if kind == Attack::Refused {
                refuse(handle);
            }
        }
        Ok(strikes)
    }

    /// Begins what happens to the controller's writes while the attack lasts.
    pub(super) fn begin(&self, handle: &Handle) {
        if let Some(plan) = webhooks::plan(self.attack) {
            handle.server().set_faults(plan);
        }
    }

    /// Writes a second.
    pub(super) fn rate(&self) -> f64 {
        match self.attack {
            Attack::Refusals => 1.0,
            // The server takes as long for them as the controller.
            Attack::Mirrored | Attack::Subsets => 2.0,
            Attack::Backlog => 40.0,
            Attack::Slice => 100.0,
            Attack::Zones => 50.0,
            _ => 20.0,
        }
    }

    /// Does it once.
    pub(super) async fn strike(&mut self, count: u64) -> anyhow::Result<()> {
        let kind = self.kinds[count as usize % self.kinds.len()];
        let round = count / self.kinds.len() as u64;
        match kind {
            Attack::None => Ok(()),
            Attack::Collisions => self.collide(round).await,
            Attack::Selectors => self.select(round).await,
            Attack::Ports => self.change_ports(round).await,
            Attack::Matches => {
                let patch = json!({ "metadata": { "labels": { "changes": round.to_string() } } });
                self.http.patch(&path("pods", "matches"), &patch).await
            }
            Attack::Services => self.relabel_service(round).await,
            Attack::Fan => self.flip("fan", pod_number(kind, 0), round).await,
            Attack::Slice => self.edit_slice(round).await,
            Attack::Large => {
                let pod = round % 10;
                self.flip(&format!("large-{pod}"), pod_number(kind, pod as u32), round / 10)
                    .await
            }
            Attack::Zones => {
                let zone = format!("zone-{}", round % 7);
                let patch = json!({ "metadata": { "labels": { "topology.kubernetes.io/zone": zone } } });
                self.http.patch("/api/v1/nodes/wanderer", &patch).await
            }
            Attack::Refused => {
                let number = round % self.scaled(1_000) as u64;
                let patch = json!({ "metadata": { "labels": { "round": round.to_string() } } });
                self.http
                    .patch(&path("services", &format!("refused-{number}")), &patch)
                    .await
            }
            Attack::Mirrored => {
                let (path, patch) = bulk::change_mirrored(round, self.scaled(10) as u64, self.scaled(1_000));
                self.http.patch(&path, &patch).await
            }
            Attack::Refusals => {
                let (path, patch) = bulk::change_refused(round, self.scaled(20) as u64);
                self.http.patch(&path, &patch).await
            }
            Attack::Backlog => {
                let (path, patch) = bulk::flip_backlog(round, self.scaled(200) as u64);
                self.http.patch(&path, &patch).await
            }
            Attack::Throttling | Attack::Hanging => {
                let (path, patch) = bulk::flip_backlog(round, self.namespaces as u64);
                self.http.patch(&path, &patch).await
            }
            Attack::Annotated => {
                let (path, patch) = bulk::change_annotated(round, self.scaled(5_000) as u64);
                self.http.patch(&path, &patch).await
            }
            Attack::Subsets => {
                let (path, patch) = bulk::change_subsets(round, self.scaled(6) as u64);
                self.http.patch(&path, &patch).await
            }
            Attack::Replaced => {
                let (path, patch) = bulk::change_replaced(round, self.scaled(16_000) as u64);
                self.http.patch(&path, &patch).await
            }
            Attack::All => unreachable!("it is taken apart when it is prepared"),
        }
    }

    /// Bytes of the objects that the attack's memory is compared with.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the bytes of the objects that it made, where that counts.
    async fn prepare_one(&self, attack: Attack) -> anyhow::Result<u64> {
        let made = match attack {
            Attack::Mirrored => bulk::mirrored(self.scaled(10), self.scaled(1_000)),
            Attack::Refusals => bulk::refused(self.scaled(20)),
            Attack::Backlog => bulk::backlog(self.scaled(200), 30),
            Attack::Throttling | Attack::Hanging => bulk::backlog(self.namespaces, webhooks::SERVICES),
            Attack::Replaced => bulk::replaced(self.scaled(16_000)),
            Attack::Annotated => bulk::annotated(self.scaled(5_000), self.scaled(10), self.scaled(33_000)),
            Attack::Subsets => bulk::subsets(self.scaled(6), self.scaled(22_000)),
            other => {
                self.prepare_other(other).await?;
                Vec::new()
            }
        };
        let mut bytes = 0;
        for made in made {
            self.http.create(&made.collection, &made.object).await?;
            bytes += made.object.to_string().len() as u64;
            if let Some((path, status)) = made.status {
                self.http.patch(&path, &status).await?;
            }
        }
        Ok(bytes)
    }

    async fn prepare_other(&self, attack: Attack) -> anyhow::Result<()> {
        match attack {
            Attack::None | Attack::All => Ok(()),
            Attack::Mirrored
            | Attack::Refusals
            | Attack::Backlog
            | Attack::Annotated
            | Attack::Replaced
            | Attack::Subsets
            | Attack::Throttling
            | Attack::Hanging => unreachable!("they are made in bulk"),
            Attack::Collisions => {
                for number in 0..4 {
                    self.make_colliding(number).await?;
                }
                let key = &collisions::keys(0, 1)[0];
                self.service("collisions", &json!({ key: "x" })).await
            }
            Attack::Selectors => {
                let labels = objects::labels(self.selector_keys());
                self.pods(attack, 10, objects::NODE, &labels, &json!({})).await?;
                self.service("selectors", &labels).await
            }
            Attack::Ports => self.prepare_ports().await,
            Attack::Matches => self.prepare_matches().await,
            Attack::Services => self.services(attack, self.scaled(100_000)).await,
            Attack::Fan => {
                let labels = json!({ "app": "fan" });
                self.pod("fan", objects::NODE, &labels, &json!({}), pod_number(attack, 0))
                    .await?;
                self.services(attack, self.scaled(5_000)).await
            }
            Attack::Slice => {
                let labels = json!({ "app": "slice" });
                self.pods(attack, self.scaled(100), objects::NODE, &labels, &json!({}))
                    .await?;
                self.service("slice", &labels).await
            }
            Attack::Large => {
                let text = "x".repeat((LARGE as f64 * self.scale) as usize);
                let container = json!({ "env": [{ "name": "LARGE", "value": text }] });
                let labels = json!({ "app": "large" });
                self.pods(attack, 10, objects::NODE, &labels, &container).await?;
                self.service("large", &labels).await
            }
            Attack::Zones => {
                self.http
                    .create("/api/v1/nodes", &objects::node("wanderer"))
                    .await?;
                let labels = json!({ "app": "zones" });
                self.pods(attack, self.scaled(1_000), "wanderer", &labels, &json!({}))
                    .await?;
                self.service("zones", &labels).await
            }
            Attack::Refused => self.services(attack, self.scaled(1_000)).await,
        }
    }

    async fn prepare_matches(&self) -> anyhow::Result<()> {
        const SERVICES: usize = 100;
        let keys: Vec<_> = (0..self.scaled(20_000))
            .map(|number| format!("match-{number:06}"))
            .collect();
        let own = |number: usize| format!("own-{number}");
        let all = keys.iter().cloned().chain((0..SERVICES).map(own));
        let (labels, at) = (objects::labels(all), pod_number(Attack::Matches, 0));
        self.pod("matches", objects::NODE, &labels, &json!({}), at)
            .await?;
        for number in 0..SERVICES {
            let selector = objects::labels(keys.iter().cloned().chain([own(number)]));
            self.service(&format!("matches-{number}"), &selector).await?;
        }
        Ok(())
    }

    async fn prepare_ports(&self) -> anyhow::Result<()> {
        for number in 0..4 {
            let service = json!({
                "metadata": { "name": format!("ports-{number}") },
                "spec": { "selector": { "app": "ports" }, "ports": self.service_ports(0) },
            });
            self.http.create(&collection("services"), &service).await?;
        }
        for number in 0..10 {
            self.make_with_ports(number, 0).await?;
        }
        Ok(())
    }

    /// A port of a Service changes, and then a pod is replaced by one whose ports are other ones.
    async fn change_ports(&self, round: u64) -> anyhow::Result<()> {
        if round.is_multiple_of(2) {
            let patch = json!({ "spec": { "ports": self.service_ports(round) } });
            let service = format!("ports-{}", round / 2 % 4);
            return self.http.patch(&path("services", &service), &patch).await;
        }
        let number = (round / 2 % 10) as u32;
        self.http
            .delete(&path("pods", &format!("ports-{number}")), 0)
            .await?;
        self.make_with_ports(number, round).await
    }

    fn service_ports(&self, round: u64) -> Value {
        let count = self.scaled(10_000);
        let last = count as u64 + round % 1000;
        let numbers = (0..count as u64 - 1).chain([last]);
        numbers
            .map(|number| json!({ "name": port_name(number), "port": 1 + number, "targetPort": port_name(number) }))
            .collect()
    }

    async fn make_with_ports(&self, pod: u32, round: u64) -> anyhow::Result<()> {
        let own = 20_000 + u64::from(pod) * 1000 + round % 1000;
        let ports: Vec<_> = (0..self.scaled(10_000) as u64)
            .map(|number| {
                let at = if number == 0 { own } else { 1 + number };
                json!({ "name": port_name(number), "containerPort": at })
            })
            .collect();
        let (name, labels) = (format!("ports-{pod}"), json!({ "app": "ports" }));
        let container = json!({ "ports": ports });
        let at = pod_number(Attack::Ports, pod);
        self.pod(&name, objects::NODE, &labels, &container, at).await
    }

    /// Mostly a label more or less; sometimes the whole pod anew.
    async fn collide(&self, round: u64) -> anyhow::Result<()> {
        let number = (round % 4) as u32;
        let pod = path("pods", &format!("collisions-{number}"));
        if round % 20 == 19 {
            self.http.delete(&pod, 0).await?;
            return self.make_colliding(number).await;
        }
        let key = format!("more-{}", round % 40);
        let value = if round % 80 < 40 { json!("x") } else { Value::Null };
        self.http
            .patch(&pod, &json!({ "metadata": { "labels": { key: value } } }))
            .await
    }

    async fn make_colliding(&self, number: u32) -> anyhow::Result<()> {
        let labels = objects::labels(collisions::keys(number.into(), self.scaled(25_000)));
        let name = format!("collisions-{number}");
        let at = pod_number(Attack::Collisions, number);
        self.pod(&name, objects::NODE, &labels, &json!({}), at).await
    }

    /// Another of the selector's keys is left out each time.
    async fn select(&self, round: u64) -> anyhow::Result<()> {
        if round % 2 == 1 {
            return self
                .flip(
                    &format!("selectors-{}", round / 2 % 10),
                    pod_number(Attack::Selectors, (round / 2 % 10) as u32),
                    round / 20,
                )
                .await;
        }
        let count = self.scaled(10_000) as u64;
        let key = |number: u64| format!("key-{:06}", number % count);
        let patch =
            json!({ "spec": { "selector": { key(round): Value::Null, key(round + count - 2): "x" } } });
        self.http.patch(&path("services", "selectors"), &patch).await
    }

    fn selector_keys(&self) -> impl Iterator<Item = String> {
        (0..self.scaled(10_000)).map(|number| format!("key-{number:06}"))
    }

    async fn relabel_service(&self, round: u64) -> anyhow::Result<()> {
        let number = round % self.scaled(100_000) as u64;
        let patch = json!({ "metadata": { "labels": { "round": round.to_string() } } });
        self.http
            .patch(&path("services", &format!("services-{number}")), &patch)
            .await
    }

    async fn edit_slice(&mut self, round: u64) -> anyhow::Result<()> {
        let slices = format!("/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices");
        if self.slice.is_none() {
            let list = self
                .http
                .read(&format!(
                    "{slices}?labelSelector=kubernetes.io%2Fservice-name%3Dslice"
                ))
                .await?;
            let name = list["items"][0]["metadata"]["name"].as_str();
            self.slice = name.map(|name| format!("{slices}/{name}"));
        }
        let Some(slice) = &self.slice else { return Ok(()) };
        // The controller puts this right each time: a port that the attack made up, and no endpoints.
        let patch = json!({ "endpoints": [], "ports": [{ "name": "", "protocol": "TCP", "port": 1 + round % 1000 }] });
        self.http.patch(slice, &patch).await.or_else(|error| {
            // It may have been replaced.
            self.slice = None;
            crate::api::code(&error).map(|_| ()).context(error)
        })
    }

    async fn flip(&self, pod: &str, number: u32, round: u64) -> anyhow::Result<()> {
        let status = objects::status(pod_ip(number, Family::V4), round % 2 == 1, 10 + round);
        self.http
            .patch(&format!("{}/status", path("pods", pod)), &status)
            .await
    }

    async fn service(&self, name: &str, selector: &Value) -> anyhow::Result<()> {
        let service = objects::service(name, &json!({}), selector);
        self.http.create(&collection("services"), &service).await
    }

    /// Services of the attack's name, which select pods by it.
    async fn services(&self, attack: Attack, count: usize) -> anyhow::Result<()> {
        for number in 0..count {
            self.service(
                &format!("{attack}-{number}"),
                &json!({ "app": attack.to_string() }),
            )
            .await?;
        }
        Ok(())
    }

    /// Pods of the attack's name.
    async fn pods(
        &self,
        attack: Attack,
        count: usize,
        node: &str,
        labels: &Value,
        container: &Value,
    ) -> anyhow::Result<()> {
        for number in 0..count as u32 {
            let name = format!("{attack}-{number}");
            self.pod(&name, node, labels, container, pod_number(attack, number))
                .await?;
        }
        Ok(())
    }

    async fn pod(
        &self,
        name: &str,
        node: &str,
        labels: &Value,
        container: &Value,
        number: u32,
    ) -> anyhow::Result<()> {
        let body = objects::pod(name, node, labels, container);
        self.http.create(&collection("pods"), &body).await?;
        let status = objects::status(pod_ip(number, Family::V4), true, 0);
        self.http
            .patch(&format!("{}/status", path("pods", name)), &status)
            .await
    }

    fn scaled(&self, count: usize) -> usize {
        ((count as f64 * self.scale) as usize).max(2)
    }
}

fn port_name(number: u64) -> String {
    format!("p{number:06}")
}

/// The server refuses the controller's writes for the namespace, half of them as not valid and half as not allowed.
fn refuse(handle: &Handle) {
    let refused = |failure| {
        Rule::on(Verbs::WRITES, ["endpoints", "endpointslices"])
            .namespace(NAMESPACE)
            .every(2)
            .fault(Fault::Fail(Stage::Before, failure))
    };
    let rest = Rule::on(Verbs::WRITES, ["endpoints", "endpointslices"]).namespace(NAMESPACE);
    let plan = FaultPlan::new(1)
        .rule(refused(Failure::Invalid))
        .rule(rest.fault(Fault::Fail(Stage::Before, Failure::Forbidden)));
    handle.server().set_faults(plan);
}
