//! Watches that break in every way that servers and networks know: nothing is missed, and nothing is lost for
//! long.

use crate::cluster;
use crate::constant::Constant;
use crate::log::Log;
use crate::scene::{NAMESPACE, Scene};
use crate::world::{World, ip, service};
use endpointd::cluster::connect::Clients;
use endpointd::ops::run::run;
use futures::FutureExt as _;
use memory_apiserver::{
    Access, After, ApiServer, Config, Ending, ErrorEvent, Failure, Fault, FaultPlan, Latency, Rule, Verb,
    WatchFault,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);
const KINDS: [&str; 5] = ["pods", "services", "nodes", "endpointslices", "endpoints"];

async fn scene() -> Scene {
    let scene = Scene::start(cluster::options(3)).await;
    scene.node("n0", Some("z0")).await;
    scene.service(json!({}), json!({})).await;
    scene.rest().await;
    scene
}

fn plan(kinds: &[&'static str], fault: impl Into<Fault>) -> FaultPlan {
    let plan = FaultPlan::new(5).only_client("controller");
    let fault = fault.into();
    kinds.iter().fold(plan, |plan, kind| {
        plan.rule(Rule::on(Verb::Watch, *kind).fault(fault.clone()))
    })
}

/// Pods come, flip and go, users change slices and Endpoints; at the end the pods 3 to 9 are left, and ready.
async fn churn(scene: &Scene) {
    for round in 0..3u8 {
        for number in 1..=9 {
            if round == 0 {
                scene.pod(number, "n0", false).await;
            }
            scene.flip(number, round > 0, round * 20 + number).await;
            sleep(SECOND * 2).await;
        }
        for slice in scene.api.slices_of(NAMESPACE, "s").await.unwrap() {
            let name = slice["metadata"]["name"].as_str().unwrap();
            let label = json!({"metadata": {"labels": {"tampered": "1"}}});
            // The slice may have been deleted since the list.
            let _ = scene
                .api
                .patch("EndpointSlice", NAMESPACE, name, None, &label)
                .await;
        }
        let _ = scene.api.delete("Endpoints", NAMESPACE, "s", None).await;
        sleep(SECOND * 2).await;
    }
    for number in 1..=2 {
        let name = format!("p{number}");
        scene.api.delete("Pod", NAMESPACE, &name, Some(0)).await.unwrap();
    }
}

/// The addresses in slices, the number of those in Endpoints, and the number of labels that should not be there.
async fn published(scene: &Scene) -> (BTreeSet<String>, usize, usize) {
    let slices = scene.api.slices_of(NAMESPACE, "s").await.unwrap();
    let endpoints = slices
        .iter()
        .flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
    let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] == true);
    let names = ready.map(|endpoint| endpoint["targetRef"]["name"].as_str().unwrap().to_owned());
    let tampered = slices
        .iter()
        .filter(|slice| !slice["metadata"]["labels"]["tampered"].is_null());
    (
        names.collect(),
        scene.addresses("addresses").await,
        tampered.count(),
    )
}

async fn ends_well(scene: &Scene, within: Duration, case: &str) {
    sleep(within).await;
    let expected: BTreeSet<String> = (3..=9).map(|number| format!("p{number}")).collect();
    assert_eq!(published(scene).await, (expected, 7, 0), "{case}");
}

#[tokio::test(start_paused = true)]
async fn broken_watches_miss_nothing() {
    let end = |after, how| Fault::from(WatchFault::End { after, how });
    let cases: Vec<(&str, Fault)> = vec![
        (
            "cut in the middle of a line",
            end(After::Bytes(1500), Ending::Closed),
        ),
        (
            "reset in the middle of a line",
            end(After::Bytes(700), Ending::Reset),
        ),
        ("closed early", end(After::Events(2), Ending::Clean)),
        ("closed at once", end(After::Events(0), Ending::Clean)),
        ("closed now and then", end(After::Time(7 * SECOND), Ending::Clean)),
        (
            "410 in the stream",
            WatchFault::Error {
                after: After::Events(3),
                event: ErrorEvent::Expired,
            }
            .into(),
        ),
        (
            "410 at the start of the stream",
            WatchFault::Error {
                after: After::Events(0),
                event: ErrorEvent::Expired,
            }
            .into(),
        ),
        (
            "500 in the stream",
            WatchFault::Error {
                after: After::Events(1),
                event: ErrorEvent::Internal,
            }
            .into(),
        ),
        ("410 as the status", Fault::before(Failure::Gone)),
        ("500 as the status", Fault::before(Failure::Internal)),
        (
            "a status of too many requests",
            Fault::before(Failure::Overloaded { retry_after: 2 }),
        ),
        ("events come twice", WatchFault::Repeat { rate: 0.5 }.into()),
        (
            "events come late",
            WatchFault::Lag(Latency::Uniform(SECOND, 9 * SECOND)).into(),
        ),
        (
            "a line that is no JSON",
            WatchFault::Malformed {
                after: After::Events(2),
            }
            .into(),
        ),
        (
            "no bookmarks",
            WatchFault::NoBookmarks { initial_end: true }.into(),
        ),
    ];
    for (case, fault) in cases {
        println!("{case}");
        let scene = scene().await;
        scene.server.set_faults(plan(&KINDS, fault.clone()));
        churn(&scene).await;
        // Where no watch shows anything at all, only the lists that come after many tries do.
        ends_well(&scene, 400 * SECOND, case).await;
        assert!(
            !scene.server.faults_injected().is_empty(),
            "{case}: it really happened"
        );
        // And none of it leaves a mark.
        scene.server.clear_faults();
        let before = scene.writes("/namespaces/default/endpoints");
        sleep(300 * SECOND).await;
        assert_eq!(
            scene.writes("/namespaces/default/endpoints"),
            before,
            "{case}: it is quiet"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_says_nothing_is_not_believed() {
    for kinds in [&["pods"][..], &["endpointslices", "endpoints"], &KINDS] {
        let scene = scene().await;
        // Connections that stay open and dead for hours, those that take their place among them for a while.
        scene.server.set_faults(plan(
            kinds,
            WatchFault::Silent {
                after: SECOND,
                lasting: 10_000 * SECOND,
            },
        ));
        churn(&scene).await;
        ends_well(&scene, 400 * SECOND, "silent").await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_decoded_is_left_out_and_the_rest_goes_on() {
    let scene = scene().await;
    scene.pod(1, "n0", true).await;
    scene.rest().await;
    let rule = Rule::on(Verb::Watch, "pods").at_most(1);
    let wrong = WatchFault::WrongType {
        field: "/metadata/labels".to_owned(),
        after: After::Events(0),
    };
    let plan = FaultPlan::new(5)
        .rule(rule.fault(wrong.into()))
        .only_client("controller");
    scene.server.set_faults(plan);
    // This change is shown with labels that are no map.
    scene.flip(1, false, 1).await;
    scene.rest().await;
    assert_eq!(
        scene.addresses("addresses").await,
        1,
        "the last known state of the pod stays"
    );
    scene.pod(2, "n0", true).await;
    scene.rest().await;
    assert_eq!(scene.addresses("addresses").await, 2, "the rest goes on");
    scene.flip(1, false, 2).await;
    scene.rest().await;
    assert_eq!(
        scene.addresses("addresses").await,
        1,
        "the next event of the pod counts again"
    );
    let lists = |requests: Vec<memory_apiserver::RequestRecord>| {
        let lists = requests.into_iter();
        lists
            .filter(|r| r.path.contains("/pods?") && r.path.contains("sendInitialEvents"))
            .count()
    };
    assert_eq!(
        lists(scene.server.requests()),
        1,
        "the broken event led to another list"
    );
}

#[tokio::test(start_paused = true)]
async fn an_older_state_after_a_list_does_not_undo_a_newer_one() {
    // The watch lags, breaks and is begun anew by a list; then the store is compacted, too.
    let scene = scene().await;
    for number in 1..=9 {
        scene.pod(number, "n0", true).await;
    }
    scene.server.set_faults(plan(
        &KINDS,
        WatchFault::Lag(Latency::Uniform(SECOND, 5 * SECOND)),
    ));
    for round in 0..6u8 {
        for number in 1..=9 {
            scene.flip(number, round % 2 == 1, round * 9 + number).await;
            sleep(Duration::from_millis(300)).await;
        }
        scene.server.compact();
    }
    for number in 1..=2 {
        let name = format!("p{number}");
        scene.api.delete("Pod", NAMESPACE, &name, Some(0)).await.unwrap();
    }
    ends_well(&scene, 60 * SECOND, "lagging").await;
    let slices = scene.api.slices_of(NAMESPACE, "s").await.unwrap();
    let all: Vec<&Value> = slices
        .iter()
        .flat_map(|s| s["endpoints"].as_array().unwrap())
        .collect();
    assert_eq!(all.len(), 7, "none stands twice");
}

/// A proxy before the API server ends each watch of pods at once. Lists work.
#[tokio::test(start_paused = true)]
async fn pods_were_published_a_minute_late_where_each_watch_ends_at_once() {
    let mut world = World::new(100);
    world.nodes(1).await;
    world.pods(2).await;
    world.make(service()).await;
    world.start_up().await;
    world.gate.stub(Arc::new(|sent| {
        let sent = sent.clone();
        let ends = sent.kind() == "pods" && sent.watch && !sent.lists();
        ends.then(|| async move { Constant::Empty.answer(&sent).await }.boxed())
    }));
    // Ends the watch that is open.
    world.gate.bar("pods", 403);
    sleep(SECOND / 10).await;
    world.gate.unbar("pods");
    for (number, limit) in [(1, 5), (2, 32), (3, 32), (4, 32), (5, 32)] {
        let ready = number % 2 == 0;
        world.flip("p1", ready, number).await;
        let start = Instant::now();
        while !world.in_slices().await.contains(&(ip(1), ready)) {
            sleep(SECOND / 10).await;
            let waited = Instant::now().saturating_duration_since(start);
            assert!(waited < limit * SECOND, "flip {number} is not published");
        }
        sleep(10 * SECOND).await;
    }
}

/// A key that signs the tokens of service accounts may be replaced by another at once.
#[tokio::test(start_paused = true)]
async fn a_token_of_a_pod_that_is_refused_is_told_with_the_way_to_a_new_one() {
    let nobody = Access::from_objects(Vec::new()).unwrap().anonymous(false);
    let server = ApiServer::new(Config::default().access(nobody));
    for in_pod in [false, true] {
        let log = Log::record();
        let clients = Clients {
            in_pod,
            ..cluster::clients(|| cluster::client(&server))
        };
        run(clients, cluster::options(3), sleep(SECOND)).await.unwrap();
        let lines = log.take();
        let told: Vec<_> = lines.iter().filter(|line| line.contains(" 401 ")).collect();
        assert!(
            matches!(&told[..], [line] if line.contains("delete the pods of endpointd") == in_pod
                && line.contains("does not accept the")),
            "{lines:#?}"
        );
    }
}
