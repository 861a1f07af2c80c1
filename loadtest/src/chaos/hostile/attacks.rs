//! The attacks that the owner of a namespace can make, up to the limits of the API: 1.5 MB an object, and 20 writes a
//! second.

use super::kinds::{Attack, NAMESPACE, collection, path, pod_number};
use super::{collisions, objects};
use crate::api::Http;
use crate::observe::pod_ip;
use crate::oracle::Family;
use memory_apiserver::{ApiServer, Failure, Fault, FaultPlan, Latency, Rule, Stage, Verbs};
use serde_json::{Value, json};
use std::time::Duration;

/// Services of each namespace whose pods flip.
const SERVICES: usize = 30;
/// How long the API server waits for a webhook by default.
const WEBHOOK_LIMIT: Duration = Duration::from_secs(10);

/// An attack that has been prepared.
pub(super) struct Strikes {
    http: Http,
    attack: Attack,
    scale: f64,
    /// The number of hostile namespaces, where there may be several.
    namespaces: usize,
    /// Bytes of the objects that the attack's memory is compared with.
    pub(super) bytes: u64,
}

impl Strikes {
    /// Makes what the attack needs. The controller is not there yet: a tenant has had all the time in the world.
    pub(super) async fn prepare(
        attack: Attack,
        http: Http,
        scale: f64,
        namespaces: usize,
    ) -> anyhow::Result<Self> {
        http.create("/api/v1/namespaces", &objects::namespace(NAMESPACE))
            .await?;
        let mut strikes = Self {
            http,
            attack,
            scale,
            namespaces,
            bytes: 0,
        };
        match attack {
            Attack::None => {}
            Attack::Collisions => strikes.prepare_collisions().await?,
            Attack::Ports => strikes.prepare_ports().await?,
            Attack::Services => {
                for number in 0..strikes.scaled(100_000) {
                    strikes
                        .service(&format!("services-{number}"), &json!({ "app": "services" }))
                        .await?;
                }
            }
            Attack::Mirrored => strikes.prepare_mirrored().await?,
            Attack::Backlog => strikes.prepare_backlog(strikes.scaled(200)).await?,
            Attack::Hanging => strikes.prepare_backlog(namespaces).await?,
        }
        Ok(strikes)
    }

    /// Begins what happens to the controller's writes while the attack lasts.
    pub(super) fn begin(&self, server: &ApiServer) {
        if self.attack == Attack::Hanging {
            let written = || Rule::on(Verbs::WRITES, ["endpoints", "endpointslices"]).namespace(NAMESPACE);
            let hangs = Fault::Delay(Stage::Before, Latency::Constant(WEBHOOK_LIMIT));
            let fails = Fault::Fail(Stage::Before, Failure::Internal);
            server.set_faults(
                FaultPlan::new(1)
                    .rule(written().fault(hangs))
                    .rule(written().fault(fails)),
            );
        }
    }

    /// Does it once.
    pub(super) async fn strike(&self, round: u64) -> anyhow::Result<()> {
        match self.attack {
            Attack::None => Ok(()),
            Attack::Collisions => self.collide(round).await,
            Attack::Ports => self.change_ports(round).await,
            Attack::Services => self.relabel_service(round).await,
            Attack::Mirrored => self.change_mirrored(round).await,
            Attack::Backlog => self.flip_backlog(round, self.scaled(200) as u64).await,
            Attack::Hanging => self.flip_backlog(round, self.namespaces as u64).await,
        }
    }

    async fn prepare_collisions(&self) -> anyhow::Result<()> {
        for number in 0..4 {
            self.make_colliding(number).await?;
        }
        let key = &collisions::keys(0, 1)[0];
        self.service("collisions", &json!({ key: "x" })).await
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
        self.pod(&name, &labels, &json!({}), at).await
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
        self.pod(&name, &labels, &container, at).await
    }

    async fn relabel_service(&self, round: u64) -> anyhow::Result<()> {
        let number = round % self.scaled(100_000) as u64;
        let patch = json!({ "metadata": { "labels": { "round": round.to_string() } } });
        self.http
            .patch(&path("services", &format!("services-{number}")), &patch)
            .await
    }

    /// Services without a selector, and their Endpoints, which are laid out as a slice for each of their ports and hundred
    /// addresses.
    async fn prepare_mirrored(&mut self) -> anyhow::Result<()> {
        for number in 0..self.scaled(10) as u32 {
            let name = format!("mirrored-{number}");
            let service = json!({ "metadata": { "name": name }, "spec": { "ports": [{ "port": 80 }] } });
            self.http.create(&collection("services"), &service).await?;
            let subsets = self.subsets(number, 0);
            let endpoints = json!({ "metadata": { "name": name }, "subsets": subsets });
            self.http.create(&collection("endpoints"), &endpoints).await?;
            self.bytes += (service.to_string().len() + endpoints.to_string().len()) as u64;
        }
        Ok(())
    }

    /// One of them loses an address, or gets it back.
    async fn change_mirrored(&self, round: u64) -> anyhow::Result<()> {
        let count = self.scaled(10) as u64;
        let (number, missing) = (round % count, usize::from((round / count).is_multiple_of(2)));
        let patch = json!({ "subsets": self.subsets(number as u32, missing) });
        let path = path("endpoints", &format!("mirrored-{number}"));
        self.http.patch(&path, &patch).await
    }

    /// A subset with addresses of about a kilobyte each, as they may be, and with ports that share a name.
    fn subsets(&self, object: u32, missing: usize) -> Value {
        let addresses = (0..(self.scaled(1_000) - missing) as u32).map(|number| {
            let at = pod_number(Attack::Mirrored, object * 1_000 + number);
            let long = |length: usize| format!("{}{number:06}", "x".repeat(length - 6));
            let target = json!({
                "kind": "Pod", "namespace": NAMESPACE, "name": long(253), "uid": long(253), "fieldPath": long(253),
            });
            let ip = pod_ip(at, Family::V4).to_string();
            json!({ "ip": ip, "hostname": long(63), "nodeName": long(253), "targetRef": target })
        });
        let ports = (1..=130).map(|port| json!({ "name": "p", "port": port, "protocol": "TCP" }));
        json!([{ "addresses": addresses.collect::<Value>(), "ports": ports.collect::<Value>() }])
    }

    /// Namespaces with a pod and some Services that select it.
    async fn prepare_backlog(&self, namespaces: usize) -> anyhow::Result<()> {
        for number in 0..namespaces as u64 {
            let namespace = format!("{NAMESPACE}-{number}");
            let within = format!("/api/v1/namespaces/{namespace}");
            self.http
                .create("/api/v1/namespaces", &objects::namespace(&namespace))
                .await?;
            let pod = objects::pod("pod", objects::NODE, &json!({ "app": "a" }), &json!({}));
            self.http.create(&format!("{within}/pods"), &pod).await?;
            self.set_backlog(number, true, 0).await?;
            for service in 0..SERVICES {
                let service = objects::service(&format!("svc-{service}"), &json!({}), &json!({ "app": "a" }));
                self.http.create(&format!("{within}/services"), &service).await?;
            }
        }
        Ok(())
    }

    /// The pod of one of the namespaces flips: in half of them to ready and in half to unready, so that what waits is of both
    /// priorities at any time.
    async fn flip_backlog(&self, round: u64, namespaces: u64) -> anyhow::Result<()> {
        let (number, turn) = (round % namespaces, round / namespaces);
        self.set_backlog(number, (turn + number) % 2 == 1, 10 + turn)
            .await
    }

    async fn set_backlog(&self, number: u64, ready: bool, at: u64) -> anyhow::Result<()> {
        let ip = pod_ip(pod_number(Attack::Backlog, number as u32), Family::V4);
        let path = format!("/api/v1/namespaces/{NAMESPACE}-{number}/pods/pod/status");
        self.http.patch(&path, &objects::status(ip, ready, at)).await
    }

    async fn service(&self, name: &str, selector: &Value) -> anyhow::Result<()> {
        let service = objects::service(name, &json!({}), selector);
        self.http.create(&collection("services"), &service).await
    }

    async fn pod(&self, name: &str, labels: &Value, container: &Value, number: u32) -> anyhow::Result<()> {
        let body = objects::pod(name, objects::NODE, labels, container);
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

#[cfg(test)]
mod tests {
    use super::*;
    use kube::Client;
    use memory_apiserver::Config;

    #[tokio::test]
    async fn objects_are_as_large_as_the_api_takes_and_no_larger() {
        let server = ApiServer::new(Config::default().seed(1));
        let strikes = Strikes {
            http: Http::new(Client::new(server.service(), "default")),
            attack: Attack::Mirrored,
            scale: 1.0,
            namespaces: 1,
            bytes: 0,
        };
        let length = strikes.subsets(1, 0).to_string().len();
        assert!((1_100_000..1_500_000).contains(&length), "{length}");
    }
}
