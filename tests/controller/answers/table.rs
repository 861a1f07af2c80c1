//! Every kind of request that the controller makes, against every answer that never changes: it sends few requests and
//! logs few lines, however long that lasts. So it does where nothing stands in for the server. Minutes are of the clock that the test owns.

mod kinds;

use self::kinds::{ANNOTATED, ELECTION, KINDS, MIRRORED};
use crate::constant::{Constant, Picks};
use crate::gate::{Gate, Sent};
use crate::log::Log;
use crate::standby::run_elected;
use crate::world::{NS, World, node, service};
use crate::{cluster, objects};
use endpointd::core::outputs::Outputs;
use futures::FutureExt as _;
use kube::Client;
use memory_apiserver::{Failure, Fault, FaultPlan, Rule, Verb};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

const MINUTE: Duration = Duration::from_secs(60);
/// How long a case lasts before it is measured, in minutes. Pauses have grown by then.
const SETTLING: u32 = 3;
/// How long it is measured, in minutes.
const MEASURED: u32 = 5;
/// Requests in the time before: pauses that double from 100 ms are a dozen requests apart from their limit.
const MOST_AT_FIRST: usize = 100;
/// Requests a minute: each of those that are tried again waits 15 to 30 seconds in the end, and some are several.
const MOST: usize = 20;
/// The same where each watch shows something newer and ends at once: the pause after it grows to two seconds and no more, since it
/// is the delay of events where a proxy ends watches like this. Each is a watch and the reading of a version.
const MOST_MOVING: usize = 5 * MOST;
/// Where versions go backwards again and again: each time, all seven lists are made anew, and that is told for each, a few times a
/// minute.
const MOST_REWINDING: usize = 5 * MOST;
const MOST_LINES_REWINDING: usize = 7 * MOST_LINES;
/// Lines a minute: that an outage lasts is told every 30 seconds, once for what is refused and once for what has no answer.
const MOST_LINES: usize = 7;

/// A kind of request.
struct Kind {
    name: &'static str,
    picks: Picks,
    /// Answers to other requests, without which this one would not be made.
    others: &'static [(Picks, Constant)],
    scene: Scene,
    /// The answers to it. If these are all, the server's own is one more.
    answers: &'static [Constant],
    /// Requests a minute, where they are meant to be many.
    most: usize,
}

/// The scene that makes the controller send it.
#[derive(Clone, Copy)]
enum Scene {
    /// A start.
    Start,
    /// A pod that changes.
    Pod,
    /// A new Service.
    Service,
    /// A slice too many.
    Stray,
    /// A Service that is deleted.
    Gone,
    /// Objects that another client changes.
    Edited,
    /// Endpoints whose Service may be gone.
    Leftover,
    /// Endpoints to mirror, which change.
    Mirrored,
    /// New ones.
    NewMirrored,
    /// Mirrored ones that are deleted.
    GoneMirrored,
    /// Endpoints whose slices would be too large, which change.
    Refused,
    /// A pod of a Service with an annotated selector, which changes.
    Annotated,
    /// A new Service of that kind.
    NewAnnotated,
    /// A slice of it too many.
    StrayAnnotated,
    /// A write that is refused, which users hear of.
    Told,
    /// Something that users hear of for the second time.
    ToldAgain,
    /// An election.
    Elected,
}

/// Answers to some requests in the server's place.
fn stub(gate: &Gate, rules: Vec<(Picks, Constant)>) {
    gate.stub(Arc::new(move |sent| {
        let (_, constant) = rules.iter().find(|(picks, _)| picks(sent))?;
        let (constant, sent) = (*constant, sent.clone());
        Some(async move { constant.answer(&sent).await }.boxed())
    }));
}

fn endpoints(name: &str, ip: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": name},
        "subsets": [{"addresses": [{"ip": ip}], "ports": [{"port": 80}]}],
    })
}

/// Endpoints that are not mirrored: a slice has one port of a name, so each of the ports would need slices of its own for all
/// addresses.
fn tangled() -> Value {
    let addresses: Vec<_> = (0..1000)
        .map(|n| json!({"ip": format!("10.9.{}.{}", n / 250, n % 250)}))
        .collect();
    let ports: Vec<_> = (1..=140).map(|port| json!({"name": "p", "port": port})).collect();
    json!([{"addresses": addresses, "ports": ports}])
}

/// A Service without a selector.
fn selectorless() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]},
    })
}

/// A Service whose selector is an annotation.
fn annotated() -> Value {
    let mut service = selectorless();
    service["metadata"]["annotations"] = json!({"endpointd.io/selector": "app=a"});
    service
}

/// A slice of the Service that is not needed, of the controller of this name.
fn stray(manager: &str) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "endpoints": [],
        "metadata": {"name": "stray", "labels": {
            "kubernetes.io/service-name": "s",
            "endpointslice.kubernetes.io/managed-by": manager,
        }},
    })
}

/// Publishes a Service with two pods, before the answer begins to count.
async fn publish(world: &mut World, rules: Vec<(Picks, Constant)>) {
    world.pods(2).await;
    world.make(service()).await;
    world.start_up().await;
    stub(&world.gate, rules);
}

/// Publishes Endpoints of a Service without a selector, before the answer begins to count.
async fn publish_mirrored(world: &mut World, rules: Vec<(Picks, Constant)>) {
    world.make(selectorless()).await;
    world.make(endpoints("s", "10.9.0.1")).await;
    world.start_up().await;
    assert_eq!(world.slices().await.len(), 1);
    stub(&world.gate, rules);
}

/// Publishes a Service whose selector is an annotation, before the answer begins to count.
async fn publish_annotated(world: &mut World, rules: Vec<(Picks, Constant)>) {
    world.pods(2).await;
    world.make(annotated()).await;
    world.start_up().await;
    assert_eq!(world.slices().await.len(), 1);
    stub(&world.gate, rules);
}

/// Starts a controller that has a Service to publish.
async fn begin(world: &mut World, rules: Vec<(Picks, Constant)>) {
    world.pods(2).await;
    world.make(service()).await;
    stub(&world.gate, rules);
    world.start();
}

/// Plays a case until its answer has begun to count.
async fn play(world: &mut World, scene: Scene, rules: Vec<(Picks, Constant)>) {
    let custom = Outputs {
        custom: true,
        ..Outputs::ALL
    };
    world.options.settings.outputs = match scene {
        Scene::ToldAgain | Scene::Annotated | Scene::NewAnnotated | Scene::StrayAnnotated => custom,
        _ => Outputs::ALL,
    };
    world.make(node("n1", None, None)).await;
    match scene {
        Scene::Start => begin(world, rules).await,
        Scene::Pod => {
            publish(world, rules).await;
            world.flip("p1", false, 1).await;
        }
        Scene::Service => {
            world.pods(2).await;
            world.start_up().await;
            stub(&world.gate, rules);
            world.make(service()).await;
        }
        Scene::Gone => {
            publish(world, rules).await;
            world.delete("Service", "s").await;
        }
        Scene::Stray => {
            publish(world, rules).await;
            world.make(stray("endpointslice-controller.k8s.io")).await;
        }
        Scene::Edited => {
            publish(world, rules).await;
            let label = json!({"metadata": {"labels": {"edited": "1"}}});
            world.patch("Endpoints", "s", label.clone()).await;
            let slice = world.slices().await.remove(0);
            let name = slice["metadata"]["name"].as_str().unwrap();
            world.patch("EndpointSlice", name, label).await;
        }
        Scene::Leftover => {
            let mut leftover = endpoints("late", "10.9.0.1");
            leftover["metadata"]["labels"] =
                json!({"endpoints.kubernetes.io/managed-by": "endpoint-controller"});
            world.make(leftover).await;
            stub(&world.gate, rules);
            world.start();
        }
        Scene::Told => {
            let fails = |kind| Rule::on(Verb::Update, kind).fault(Fault::before(Failure::Invalid));
            let plan = FaultPlan::new(1)
                .rule(fails("endpointslices"))
                .rule(fails("endpoints"));
            world.pods(2).await;
            world.make(service()).await;
            world.start_up().await;
            world.server.set_faults(plan);
            stub(&world.gate, rules);
            world.flip("p1", false, 1).await;
        }
        Scene::ToldAgain => {
            let selects =
                |selector: &str| json!({"metadata": {"annotations": {"endpointd.io/selector": selector}}});
            world.make(annotated()).await;
            world.patch("Service", "s", selects("app in")).await;
            world.start_up().await;
            stub(&world.gate, rules);
            world.patch("Service", "s", selects("app=a")).await;
            sleep(MINUTE / 60).await;
            world.patch("Service", "s", selects("app in")).await;
        }
        Scene::Mirrored | Scene::NewMirrored | Scene::GoneMirrored | Scene::Refused => {
            mirror(world, scene, rules).await;
        }
        Scene::Annotated | Scene::NewAnnotated | Scene::StrayAnnotated => {
            annotate(world, scene, rules).await;
        }
        Scene::Elected => unreachable!("an election is played apart"),
    }
}

/// Plays a case about Endpoints to mirror.
async fn mirror(world: &mut World, scene: Scene, rules: Vec<(Picks, Constant)>) {
    match scene {
        Scene::Mirrored => {
            publish_mirrored(world, rules).await;
            let changed = json!({"subsets": endpoints("s", "10.9.0.2")["subsets"]});
            world.patch("Endpoints", "s", changed).await;
        }
        Scene::NewMirrored => {
            world.make(selectorless()).await;
            world.start_up().await;
            stub(&world.gate, rules);
            world.make(endpoints("s", "10.9.0.1")).await;
        }
        Scene::GoneMirrored => {
            publish_mirrored(world, rules).await;
            world.delete("Endpoints", "s").await;
        }
        Scene::Refused => {
            let mut endpoints = endpoints("s", "10.9.0.1");
            endpoints["subsets"] = tangled();
            world.make(selectorless()).await;
            world.make(endpoints).await;
            world.start_up().await;
            assert!(world.slices().await.is_empty());
            stub(&world.gate, rules);
            let label = json!({"metadata": {"labels": {"edited": "1"}}});
            world.patch("Endpoints", "s", label).await;
        }
        _ => unreachable!("there are no Endpoints to mirror"),
    }
}

/// Plays a case about a Service whose selector is an annotation.
async fn annotate(world: &mut World, scene: Scene, rules: Vec<(Picks, Constant)>) {
    match scene {
        Scene::Annotated => {
            publish_annotated(world, rules).await;
            world.flip("p1", false, 1).await;
        }
        Scene::NewAnnotated => {
            world.pods(2).await;
            world.start_up().await;
            stub(&world.gate, rules);
            world.make(annotated()).await;
        }
        Scene::StrayAnnotated => {
            publish_annotated(world, rules).await;
            world.make(stray("endpointd.io")).await;
        }
        _ => unreachable!("no Service has an annotation"),
    }
}

/// The outcome of a case: requests at first and in the time that is measured, with those that the answer was given to, and
/// lines.
struct Counted {
    at_first: usize,
    answered: usize,
    requests: usize,
    lines: Vec<String>,
    last: Vec<String>,
}

/// Counts for as long as a case lasts, or until there is no doubt: the gate ends a test that sends much more.
async fn count(gate: &Gate, picks: Picks, log: &Log) -> Counted {
    let over = |minutes: u32, sent: &[Sent]| sent.len() > minutes as usize * 2_000;
    let mut first = Vec::new();
    for minute in 1..=SETTLING {
        sleep(MINUTE).await;
        first.extend(gate.take_all());
        if over(minute, &first) {
            break;
        }
    }
    log.take();
    let mut sent = Vec::new();
    for minute in 1..=MEASURED {
        if over(SETTLING, &first) || over(minute, &sent) {
            break;
        }
        sleep(MINUTE).await;
        sent.extend(gate.take_all());
    }
    let answered = first.iter().chain(&sent).filter(|sent| picks(sent)).count();
    Counted {
        at_first: first.len(),
        answered,
        requests: sent.len(),
        lines: log.take(),
        last: sent.iter().rev().take(6).map(Sent::line).collect(),
    }
}

/// Plays one kind of request against every answer, the server's own first. Returns what is out of bounds.
async fn row(kind: &Kind) -> String {
    let mut wrong = String::new();
    let mut met = 0;
    let own = (kind.answers == Constant::ALL).then_some(None);
    let answers = own.into_iter().chain(kind.answers.iter().copied().map(Some));
    let answers: Vec<_> = answers.collect();
    for &constant in &answers {
        let log = Log::record();
        let mut rules: Vec<_> = constant
            .map(|constant| (kind.picks, constant))
            .into_iter()
            .collect();
        rules.extend_from_slice(kind.others);
        let counted = match kind.scene {
            Scene::Elected => elect(kind, rules, &log).await,
            scene => {
                let mut world = World::new(100);
                play(&mut world, scene, rules).await;
                count(&world.gate, kind.picks, &log).await
            }
        };
        met += usize::from(counted.answered > 0);
        let minutes = MEASURED as usize;
        let answer = constant.map_or_else(
            || "the server's own".to_owned(),
            |constant| format!("{constant:?}"),
        );
        let name = format!("{}, {answer}", kind.name);
        println!(
            "{name}: {} at first, {:.1} requests a minute, {:.1} lines a minute",
            counted.at_first,
            counted.requests as f64 / minutes as f64,
            counted.lines.len() as f64 / minutes as f64,
        );
        // A watch ahead of the versions that are read looks like a store that goes backwards, again and again.
        let backwards = counted
            .lines
            .iter()
            .any(|line| line.contains("resourceVersions went backwards"));
        let most = match constant {
            _ if backwards => kind.most * MOST_REWINDING / MOST,
            Some(Constant::Moves) => kind.most * MOST_MOVING / MOST,
            _ => kind.most,
        };
        let most_lines = if backwards {
            MOST_LINES_REWINDING
        } else {
            MOST_LINES
        };
        // As many as later, at most, and those before the pauses have grown.
        let first = (MOST_AT_FIRST * kind.most / MOST).max(SETTLING as usize * most);
        if counted.at_first > first || counted.requests > most * minutes {
            let _ = writeln!(
                wrong,
                "{name}: {} requests at first, {} in {minutes} minutes: {:#?}",
                counted.at_first, counted.requests, counted.last
            );
        }
        if counted.lines.len() > most_lines * minutes {
            let last: Vec<_> = counted.lines.iter().rev().take(6).collect();
            let _ = writeln!(wrong, "{name}: {} lines: {last:#?}", counted.lines.len());
        }
    }
    if met < answers.len() {
        let _ = writeln!(
            wrong,
            "{}: the request is made with {met} of the answers only",
            kind.name
        );
    }
    wrong
}

async fn elect(kind: &Kind, rules: Vec<(Picks, Constant)>, log: &Log) -> Counted {
    let (server, start) = (cluster::server(), Instant::now());
    let api = cluster::Api(cluster::client(&server));
    api.create(&objects::node("n1", None, None), "").await.unwrap();
    api.create(&service(), NS).await.unwrap();
    let gate = Gate::new(&server);
    let client = || Client::new(gate.clone(), "default");
    let (clients, candidacy) = (cluster::clients(client), cluster::candidacy_since(start, "a"));
    // A client that replaces a Lease has read it before.
    stub(&gate, rules);
    let (lease, (stop, stopped)) = (client(), oneshot::channel::<()>());
    let task = tokio::spawn(async move {
        let stopped = async {
            // It never comes to a message.
            let _ = stopped.await;
        };
        run_elected(clients, lease, candidacy, stopped).await;
    });
    let counted = count(&gate, kind.picks, log).await;
    drop(stop);
    task.await.unwrap();
    counted
}

async fn rows(kinds: &[Kind]) {
    let mut wrong = String::new();
    for kind in kinds {
        wrong.push_str(&row(kind).await);
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[tokio::test(start_paused = true)]
async fn requests_for_objects_are_few_whatever_the_answer() {
    rows(KINDS).await;
}

#[tokio::test(start_paused = true)]
async fn requests_for_endpoints_to_mirror_are_few_whatever_the_answer() {
    rows(MIRRORED).await;
}

#[tokio::test(start_paused = true)]
async fn requests_for_slices_of_annotated_services_are_few_whatever_the_answer() {
    rows(ANNOTATED).await;
}

#[tokio::test(start_paused = true)]
async fn requests_for_the_lease_are_few_whatever_the_answer() {
    rows(ELECTION).await;
}
