//! Two controllers and one Lease, in one process, on a clock that the test owns: what a standby costs, what it
//! writes when it takes over, and what becomes of one that has lost the Lease.

mod busy;

use crate::cluster::{self, Api};
use crate::gate::{Fate, Gate, Sent};
use crate::log::Log;
use crate::objects::{self, node, ready_condition, time};
use endpointd::cluster::connect::Clients;
use endpointd::ops::admin::HealthHandle;
use endpointd::ops::election::Candidacy;
use endpointd::ops::run::{Renewing, RunMode, run_observed};
use http::Method;
use kube::Client;
use memory_apiserver::ApiServer;
use scenario::TRIGGER;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

const NS: &str = "default";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/endpointd";
const SECOND: Duration = Duration::from_secs(1);
/// More than the lease duration, and some retries.
const EXPIRY: Duration = Duration::from_secs(18);

/// Runs a controller that stands for election, until it is stopped.
pub(crate) async fn run_elected(
    clients: Clients,
    lease: Client,
    candidacy: Candidacy,
    stopped: impl Future<Output = ()>,
) {
    let mode = RunMode::Candidate(Renewing::Here(lease), Box::new(candidacy));
    let health = HealthHandle::default();
    run_observed(clients, cluster::options(4), mode, &health, stopped)
        .await
        .unwrap();
}

/// A controller that stands for election.
struct Candidate {
    gate: Gate,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Candidate {
    fn start(server: &ApiServer, name: &str, start: Instant) -> Self {
        let gate = Gate::new(server);
        let client = || Client::new(gate.clone(), "default");
        let (clients, candidacy) = (cluster::clients(client), cluster::candidacy_since(start, name));
        let (lease, (stop, stopped)) = (client(), oneshot::channel::<()>());
        let task = tokio::spawn(async move {
            let stopped = async {
                if stopped.await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            run_elected(clients, lease, candidacy, stopped).await;
        });
        Self {
            gate,
            stop: Some(stop),
            task,
        }
    }

    /// The requests since the last time, without those about the Lease.
    fn sent(&self) -> Vec<Sent> {
        let mut sent = self.gate.take();
        sent.retain(|sent| sent.kind() != "leases");
        sent
    }

    fn outlines(&self) -> Vec<String> {
        let mut outlines: Vec<String> = self.sent().iter().map(Sent::outline).collect();
        outlines.sort();
        outlines
    }

    /// Ends it in order.
    async fn stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
        (&mut self.task).await.unwrap();
    }

    /// Makes the process vanish. The clock of tests stands while a process could go on: so all that it sends is lost.
    fn vanish(&self) {
        self.task.abort();
    }
}

struct Cluster {
    server: ApiServer,
    api: Api,
    start: Instant,
}

impl Cluster {
    /// A Service with three slices of four ready pods.
    async fn new() -> Self {
        let server = cluster::server();
        let api = Api(cluster::client(&server));
        let cluster = Self {
            server,
            api,
            start: Instant::now(),
        };
        cluster.api.create(&node("n0", None, None), "").await.unwrap();
        for number in 1..=12 {
            cluster.pod(number).await;
        }
        cluster.service("s", "a").await;
        cluster
    }

    fn candidate(&self, name: &str) -> Candidate {
        Candidate::start(&self.server, name, self.start)
    }

    /// Candidate `a`, which leads, and candidate `b`, which stands by. Both have read everything.
    async fn leader_and_standby(&self) -> (Candidate, Candidate) {
        let leader = self.candidate("a");
        sleep(SECOND).await;
        let standby = self.candidate("b");
        sleep(SECOND).await;
        (leader, standby)
    }

    async fn service(&self, name: &str, app: &str) {
        let over = json!({"metadata": {"name": name}, "spec": {"selector": {"app": app}}});
        self.api.create(&objects::service_with(&over), NS).await.unwrap();
    }

    async fn pod(&self, number: u8) {
        let pod = objects::pod(&format!("p{number}"), &format!("10.1.0.{number}"), "n0");
        self.api.create(&pod, NS).await.unwrap();
    }

    /// A node, a Service without a selector, and a pod that nothing selects.
    async fn bystanders(&self, number: u32) {
        let name = format!("other-{number}");
        self.api.create(&node(&name, None, None), "").await.unwrap();
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [{"port": 80}]},
        });
        self.api.create(&service, NS).await.unwrap();
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        });
        self.api.create(&pod, NS).await.unwrap();
    }

    async fn flip(&self, number: u8, ready: bool, seconds: u32) {
        let patch = json!({"status": {"conditions": [ready_condition(ready, seconds)]}});
        let name = format!("p{number}");
        let done = self.api.patch("Pod", NS, &name, Some("status"), &patch);
        done.await.unwrap();
    }

    async fn lease(&self) -> Value {
        self.api.call(Method::GET, LEASE, None).await.unwrap()["spec"].clone()
    }

    async fn ready(&self) -> usize {
        let slices = self.api.slices_of(NS, "s").await.unwrap();
        let endpoints = slices
            .iter()
            .flat_map(|slice| slice["endpoints"].as_array().unwrap());
        endpoints
            .filter(|endpoint| endpoint["conditions"]["ready"] == true)
            .count()
    }
}

#[tokio::test(start_paused = true)]
async fn a_standby_costs_the_server_no_more_than_watches_and_looks_at_the_lease() {
    let cluster = Cluster::new().await;
    let (leader, standby) = cluster.leader_and_standby().await;
    assert_eq!(leader.sent().len(), 4, "three slices and the Endpoints");
    let lease = cluster.lease().await;
    assert_eq!(lease["holderIdentity"], "a");
    assert_eq!(
        (&lease["leaseDurationSeconds"], &lease["leaseTransitions"]),
        (&json!(15), &json!(0))
    );
    for flip in 0..300u32 {
        cluster
            .flip((flip % 12) as u8 + 1, (flip / 12) % 2 == 1, flip % 60)
            .await;
        sleep(SECOND / 5).await;
    }
    assert!(leader.sent().len() >= 300, "the leader is busy");
    assert_eq!(
        standby.outlines(),
        [""; 0],
        "a standby sends nothing but lists and watches"
    );
    let lease = cluster.lease().await;
    assert_eq!(
        (&lease["holderIdentity"], &lease["leaseTransitions"]),
        (&json!("a"), &json!(0))
    );
}

#[tokio::test(start_paused = true)]
async fn taking_over_writes_what_differs_and_nothing_else() {
    let cluster = Cluster::new().await;
    let (leader, standby) = cluster.leader_and_standby().await;
    // The leader moves endpoints about: pods go, come, and go to other slices than at first.
    for number in [1, 2, 3, 5, 6, 9] {
        cluster
            .api
            .delete("Pod", NS, &format!("p{number}"), Some(0))
            .await
            .unwrap();
        sleep(SECOND).await;
    }
    for number in [1, 5, 9] {
        cluster.pod(number).await;
        sleep(SECOND).await;
    }
    leader.vanish();
    sleep(EXPIRY).await;
    assert_eq!(cluster.lease().await["holderIdentity"], "b");
    assert_eq!(cluster.lease().await["leaseTransitions"], 1);
    assert_eq!(
        standby.outlines(),
        [""; 0],
        "nothing differed, so nothing is written"
    );

    // And the changes that happen while no process writes are all that the next one writes.
    let third = cluster.candidate("c");
    sleep(SECOND).await;
    standby.vanish();
    cluster.flip(7, false, 30).await;
    cluster.service("new", "a").await;
    sleep(EXPIRY).await;
    let sent = third.sent();
    let mut outlines: Vec<String> = sent.iter().map(Sent::outline).collect();
    outlines.sort();
    assert_eq!(
        outlines,
        [
            "POST endpoints 201",
            "POST endpointslices 201",
            "POST endpointslices 201",
            "POST endpointslices 201",
            "PUT endpoints 200",
            "PUT endpointslices 200",
        ]
    );
    for sent in &sent {
        let (object, trigger) = (
            &sent.body["metadata"],
            &sent.body["metadata"]["annotations"][TRIGGER],
        );
        if sent.verb == Method::PUT {
            assert!(object["resourceVersion"].is_string());
            // It is unknown whether the time was published: none, rather than a wrong one.
            assert_eq!(*trigger, Value::Null, "{object}");
        } else {
            assert!(
                trigger.is_string(),
                "a new Service has the time of its creation: {object}"
            );
        }
    }
    // From then on it is as ever.
    cluster.flip(7, true, 50).await;
    sleep(SECOND).await;
    let sent = third.sent();
    assert_eq!(sent.len(), 4, "{sent:?}");
    for sent in sent {
        assert_eq!(sent.body["metadata"]["annotations"][TRIGGER], time(50));
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_ends_in_order_gives_the_lease_up_and_the_next_one_begins_at_once() {
    let cluster = Cluster::new().await;
    let (mut leader, standby) = cluster.leader_and_standby().await;
    sleep(6 * SECOND).await;
    cluster.flip(1, false, 9).await;
    sleep(SECOND / 10).await;
    leader.stop().await;
    let sent = leader.gate.take();
    let outputs = sent.iter().filter(|sent| sent.kind() != "leases").count();
    assert_eq!(outputs, 6, "the leader did not finish its writes");
    let (last, given) = (sent.last().unwrap(), &sent.last().unwrap().body["spec"]);
    assert_eq!(last.outline(), "PUT leases 200");
    let (duration, transitions) = (&given["leaseDurationSeconds"], &given["leaseTransitions"]);
    assert_eq!(
        (&given["holderIdentity"], duration, transitions),
        (&json!(""), &json!(1), &json!(0))
    );
    cluster.flip(2, false, 9).await;
    sleep(SECOND / 10).await;
    assert_eq!(cluster.lease().await["holderIdentity"], "b");
    assert_eq!(
        standby.outlines(),
        ["PUT endpoints 200", "PUT endpointslices 200"]
    );
    assert_eq!(cluster.ready().await, 10);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_in_time_stands_by_and_can_lead_again() {
    let cluster = Cluster::new().await;
    let (first, second) = cluster.leader_and_standby().await;
    first.sent();
    // Only the requests of the first one for the Lease fail: it sees all that happens, and could write.
    for _ in 0..60 {
        first.gate.next(Method::PUT, "leases", Fate::Refused(503));
    }
    let cut = Instant::now();
    for second in 0..30 {
        cluster.flip(1, second % 2 == 1, second).await;
        sleep(SECOND).await;
    }
    let took = Instant::now().saturating_duration_since(cut);
    assert!(took >= 30 * SECOND);
    let (of_first, of_second) = (first.sent().len(), second.sent().len());
    // Ten seconds at the most from the last renewal, at two writes a second; fifteen until the other begins.
    assert!((14..=22).contains(&of_first), "{of_first}");
    assert!((20..=34).contains(&of_second), "{of_second}");
    assert_eq!(cluster.lease().await["holderIdentity"], "b");
    assert!(!first.task.is_finished(), "the process goes on as a standby");

    // The other one goes; the first is allowed to write again.
    sleep(60 * SECOND).await;
    assert_eq!(first.outlines(), [""; 0]);
    cluster.api.delete("Pod", NS, "p4", Some(0)).await.unwrap();
    sleep(SECOND).await;
    second.vanish();
    cluster.flip(8, false, 59).await;
    while first.gate.unmet() > 0 {
        sleep(SECOND).await;
    }
    sleep(EXPIRY).await;
    assert_eq!(cluster.lease().await["holderIdentity"], "a");
    assert_eq!(first.outlines(), ["PUT endpoints 200", "PUT endpointslices 200"]);
    cluster.flip(9, false, 59).await;
    sleep(SECOND).await;
    assert_eq!(first.outlines(), ["PUT endpoints 200", "PUT endpointslices 200"]);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_not_renewed_in_time_is_not_said_to_be_lost_to_its_holder() {
    let log = Log::record();
    let cluster = Cluster::new().await;
    let leader = cluster.candidate("a");
    sleep(SECOND).await;
    for _ in 0..60 {
        leader.gate.next(Method::PUT, "leases", Fate::Refused(503));
    }
    log.take();
    sleep(12 * SECOND).await;
    let lines = log.take();
    let told: Vec<_> = lines.iter().filter(|line| line.contains("standby")).collect();
    let expected = "WARN the lease was not renewed in time; this process stops writing and becomes a standby";
    assert_eq!(told, [expected], "{lines:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_turn_comes_when_the_time_is_over_is_not_sent() {
    let cluster = Cluster::new().await;
    let first = cluster.candidate("a");
    sleep(SECOND).await;
    first.sent();
    let second = cluster.candidate("b");
    // One write is on its way for longer than the lease lasts; then it arrives.
    first.gate.next(Method::PUT, "endpointslices", Fate::Held);
    cluster.flip(1, false, 5).await;
    for _ in 0..60 {
        first.gate.next(Method::PUT, "leases", Fate::Refused(503));
    }
    sleep(25 * SECOND).await;
    assert_eq!(
        second.outlines(),
        ["PUT endpointslices 200"],
        "the Endpoints were written in time"
    );
    first.gate.release();
    sleep(5 * SECOND).await;
    let sent = first.sent();
    let late: Vec<_> = sent
        .iter()
        .filter(|sent| sent.kind() == "endpointslices")
        .collect();
    assert_eq!(late.len(), 1, "the late write is repeated: {late:?}");
    assert!(late[0].status.is_none_or(|status| status == 409), "{late:?}");
    assert_eq!(second.outlines(), [""; 0], "the late request has changed nothing");
    assert_eq!(cluster.ready().await, 11);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_deleted_ends_the_term_and_is_made_again() {
    let cluster = Cluster::new().await;
    let (first, second) = cluster.leader_and_standby().await;
    cluster.api.call(Method::DELETE, LEASE, None).await.unwrap();
    sleep(SECOND).await;
    assert_eq!(
        cluster.lease().await["holderIdentity"],
        "a",
        "the leader is the first to see that nobody holds the lease"
    );
    cluster.flip(1, false, 5).await;
    sleep(SECOND).await;
    first.sent();
    assert_eq!(second.outlines(), [""; 0]);
    assert_eq!(cluster.ready().await, 11);
}

impl Cluster {
    async fn delete_pod(&self, number: u8) {
        let name = format!("p{number}");
        self.api.delete("Pod", NS, &name, Some(0)).await.unwrap();
    }

    /// Watches what is published for so long: pods that do not exist are never in it.
    async fn never_shows_what_is_gone(&self, time: Duration) {
        let start = Instant::now();
        loop {
            let passed = Instant::now().saturating_duration_since(start);
            let pods = self.api.list("Pod", NS).await.unwrap();
            let names: Vec<&str> = pods
                .iter()
                .map(|pod| pod["metadata"]["name"].as_str().unwrap())
                .collect();
            for slice in self.api.slices_of(NS, "s").await.unwrap() {
                for endpoint in slice["endpoints"].as_array().unwrap() {
                    let name = endpoint["targetRef"]["name"].as_str().unwrap();
                    assert!(names.contains(&name), "{name} is published after {passed:?}");
                }
            }
            if passed >= time {
                return;
            }
            sleep(SECOND / 20).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_standby_whose_pod_watch_waits_to_be_tried_again_does_not_lead_on_what_it_knew() {
    let cluster = Cluster::new().await;
    let (mut leader, standby) = cluster.leader_and_standby().await;
    standby.gate.bar("pods", 503);
    sleep(5 * SECOND).await;
    for number in [1, 2] {
        cluster.delete_pod(number).await;
    }
    sleep(40 * SECOND).await;
    assert_eq!(
        cluster.ready().await,
        10,
        "the leader has taken the deleted pods out"
    );
    standby.gate.unbar("pods");
    leader.stop().await;
    sleep(SECOND / 20).await;
    assert_eq!(cluster.lease().await["holderIdentity"], "b");
    cluster.flip(3, false, 30).await;
    cluster.never_shows_what_is_gone(3 * SECOND).await;
    assert_eq!(cluster.ready().await, 9, "three seconds after the lease was won");
    cluster.never_shows_what_is_gone(60 * SECOND).await;
    assert_eq!(
        standby.outlines(),
        ["PUT endpoints 200", "PUT endpointslices 200"],
        "nothing but that change was written"
    );
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_pods_cannot_be_read_writes_nothing() {
    let cluster = Cluster::new().await;
    let (mut leader, standby) = cluster.leader_and_standby().await;
    standby.gate.bar("pods", 503);
    cluster.delete_pod(1).await;
    sleep(10 * SECOND).await;
    leader.stop().await;
    let requests = standby.gate.take_all().len();
    cluster.delete_pod(2).await;
    cluster.flip(3, false, 30).await;
    sleep(600 * SECOND).await;
    assert_eq!(cluster.lease().await["holderIdentity"], "b");
    let mut sent = standby.gate.take_all();
    sent.retain(|sent| sent.kind() != "leases");
    assert!(
        sent.iter().all(|sent| sent.verb == Method::GET),
        "a leader that cannot read pods writes"
    );
    assert!(
        sent.len() < 200,
        "the leader asks without a pause: {}, before {requests}",
        sent.len()
    );
    standby.gate.unbar("pods");
    sleep(35 * SECOND).await;
    assert_eq!(cluster.ready().await, 9);
    cluster.never_shows_what_is_gone(SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn the_headers_of_an_answer_prove_nothing_about_what_it_will_show() {
    let cluster = Cluster::new().await;
    let (mut leader, standby) = cluster.leader_and_standby().await;
    // Answers begin at once, and what they show is stuck.
    standby.gate.hold("pods");
    cluster.delete_pod(1).await;
    sleep(SECOND).await;
    leader.stop().await;
    cluster.never_shows_what_is_gone(30 * SECOND).await;
    assert_eq!(cluster.lease().await["holderIdentity"], "b");
    assert_eq!(
        standby.outlines(),
        [""; 0],
        "the new leader knows of nothing to write"
    );
    cluster.delete_pod(2).await;
    standby.gate.open("pods");
    sleep(3 * SECOND).await;
    cluster.never_shows_what_is_gone(SECOND).await;
    assert_eq!(cluster.ready().await, 10);
}

#[tokio::test(start_paused = true)]
async fn quiet_watches_are_proven_by_one_short_watch_each_and_nothing_is_listed_again() {
    let cluster = Cluster::new().await;
    // More than are listed again because that is quicker.
    for number in 0..500 {
        cluster.bystanders(number).await;
    }
    let (mut leader, standby) = cluster.leader_and_standby().await;
    // All has been quiet for so long that each kind's watch knows of nothing late.
    sleep(120 * SECOND).await;
    leader.sent();
    leader.stop().await;
    standby.gate.take_all();
    cluster.flip(3, false, 30).await;
    let start = Instant::now();
    while cluster.ready().await != 11 {
        sleep(SECOND / 100).await;
        let passed = Instant::now().saturating_duration_since(start);
        assert!(passed < 3 * SECOND, "taking over takes too long");
    }
    sleep(10 * SECOND).await;
    let sent = standby.gate.take_all();
    for kind in ["pods", "nodes", "services"] {
        let of_kind: Vec<&Sent> = sent.iter().filter(|sent| sent.kind() == kind).collect();
        let lists = of_kind.iter().filter(|sent| sent.lists()).count();
        assert_eq!(lists, 0, "{kind} are not listed again");
        assert!(of_kind.len() <= 4, "{kind}: {}", of_kind.len());
    }
}
