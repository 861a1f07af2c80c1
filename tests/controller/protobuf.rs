//! The encoding of requests and answers: protobuf, and what is said of a server, or a proxy, that answers in another.

use crate::cluster;
use crate::log::Log;
use crate::scene::{NAMESPACE, Scene};
use endpointd::ops::run::run;
use http::{HeaderMap, HeaderName, Request, header};
use kube::Client;
use kube::client::Body;
use memory_apiserver::{ApiServer, Config, Protobuf, Resources};
use parking_lot::Mutex;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tower::Service as _;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// A request and the type of its answer.
#[derive(Clone, Debug)]
struct Exchange {
    method: String,
    path: String,
    accept: String,
    sent: String,
    answered: String,
    status: u16,
}

type Exchanges = Arc<Mutex<Vec<Exchange>>>;

fn text(headers: &HeaderMap, name: HeaderName) -> String {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or_default().to_owned()
}

/// A client that notes the media types of its requests and answers.
fn tapped(server: &ApiServer, log: &Exchanges) -> Client {
    let (server, log) = (server.service(), log.clone());
    let service = tower::service_fn(move |request: Request<Body>| {
        let (mut server, log) = (server.clone(), log.clone());
        async move {
            let mut exchange = Exchange {
                method: request.method().to_string(),
                path: request.uri().path().to_owned(),
                accept: text(request.headers(), header::ACCEPT),
                sent: text(request.headers(), header::CONTENT_TYPE),
                answered: String::new(),
                status: 0,
            };
            let answer = server.call(request).await;
            if let Ok(answer) = &answer {
                exchange.answered = text(answer.headers(), header::CONTENT_TYPE);
                exchange.status = answer.status().as_u16();
            }
            log.lock().push(exchange);
            answer
        }
    });
    Client::new(service, NAMESPACE)
}

#[tokio::test(start_paused = true)]
async fn all_is_read_and_written_in_protobuf() {
    let log = Exchanges::default();
    let options = cluster::options(3);
    let server = Scene::server(Config::default());
    let clients = cluster::clients(|| tapped(&server, &log));
    let controller = tokio::spawn(async move {
        run(clients, options, std::future::pending()).await.unwrap();
    });
    let scene = Scene::of(server, controller).await;
    scene.node("n0", Some("z0")).await;
    scene.node("n1", Some("z1")).await;
    scene
        .service(
            json!({"a": "é\u{1}\""}),
            json!({"trafficDistribution": "PreferClose", "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack"}),
        )
        .await;
    for number in 1..=8 {
        scene
            .pod(number, if number % 2 == 0 { "n0" } else { "n1" }, true)
            .await;
    }
    scene.rest().await;
    for (number, ready) in [(1, false), (2, false), (1, true), (5, false)] {
        scene.flip(number, ready, number).await;
        scene.rest().await;
    }
    // Others edit an object, which is read again.
    let endpoints = json!({"subsets": []});
    scene
        .api
        .patch("Endpoints", NAMESPACE, "s", None, &endpoints)
        .await
        .unwrap();
    scene.rest().await;
    // A deletion is answered with a Status, in whatever type.
    scene.service_gone().await;
    scene.rest().await;
    scene
        .service(
            json!({"a": "é\u{1}\""}),
            json!({"trafficDistribution": "PreferClose", "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack"}),
        )
        .await;
    scene.rest().await;
    scene.controller.abort();
    let exchanges = log.lock().clone();
    for exchange in &exchanges {
        assert!(exchange.status < 300, "{exchange:?}");
        // Events are few, and are written in JSON.
        if exchange.path.contains("/events") {
            continue;
        }
        assert!(exchange.accept.starts_with(PROTOBUF), "{exchange:?}");
        // A single object is read when another client may have changed it: by whom is of interest then.
        let single = exchange.method == "GET" && exchange.path.ends_with("/namespaces/default/endpoints/s");
        assert_eq!(
            exchange.accept.matches("drop=metadata.managedFields").count(),
            usize::from(!single),
            "{exchange:?}"
        );
        let deleted = exchange.method == "DELETE";
        assert!(deleted || exchange.answered.starts_with(PROTOBUF), "{exchange:?}");
        if matches!(&*exchange.method, "PUT" | "POST") {
            assert_eq!(exchange.sent, PROTOBUF);
        }
    }
    assert!(
        exchanges
            .iter()
            .filter(|exchange| !exchange.sent.is_empty())
            .count()
            > 10
    );
    assert!(exchanges.iter().any(|exchange| exchange.method == "DELETE"));
}

/// Runs beside a server of a kind for a minute. Returns the warnings.
async fn warnings(protobuf: Protobuf) -> Vec<String> {
    let log = Log::record();
    let server = Scene::server(Config::default().protobuf(protobuf));
    let controller = cluster::controller(&server, cluster::options(100));
    let scene = Scene::of(server, controller).await;
    scene.node("n0", Some("z0")).await;
    scene.pod(1, "n0", true).await;
    scene.service(json!({}), json!({})).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(scene.writes("/endpoint"), 0, "nothing is known");
    scene.controller.abort();
    let lines = log.take().into_iter();
    lines.filter(|line| !line.starts_with("INFO")).collect()
}

#[tokio::test(start_paused = true)]
async fn a_proxy_that_ignores_what_is_asked_for_is_told_of() {
    let told = warnings(Protobuf::AcceptIgnored).await;
    let why = "the server answered in JSON, and was asked for protobuf";
    assert!(told.iter().all(|line| line.contains(why)), "{told:#?}");
    let first = told
        .iter()
        .filter(|line| line.starts_with("WARN a request failed"));
    assert_eq!(first.count(), 1, "the others say that it goes on: {told:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_without_protobuf_is_told_of() {
    let told = warnings(Protobuf::Unsupported(Resources::from(["*"]))).await;
    assert!(
        told.iter().any(|line| line.contains("406 NotAcceptable")),
        "{told:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_first_update_of_an_object_ends_the_tracking_of_its_fields() {
    for clear in [false, true] {
        let mut options = cluster::options(100);
        options.settings.clear_managed_fields = clear;
        let server = Scene::server(Config::default().managed_fields(true));
        let controller = cluster::controller(&server, options);
        let scene = Scene::of(server, controller).await;
        scene.node("n0", Some("z0")).await;
        scene.pod(1, "n0", true).await;
        scene.service(json!({}), json!({})).await;
        scene.rest().await;
        let tracked = async || {
            let mut found = Vec::new();
            for kind in ["Endpoints", "EndpointSlice"] {
                for object in scene.api.list(kind, NAMESPACE).await.unwrap() {
                    found.push(object["metadata"]["managedFields"].is_array());
                }
            }
            found
        };
        assert_eq!(tracked().await, [true, true], "a create is always tracked");
        let created = scene.writes("");
        for number in 1..=3 {
            scene.flip(1, number % 2 == 0, number).await;
            scene.rest().await;
            assert_eq!(tracked().await, [!clear, !clear]);
        }
        assert_eq!(scene.writes("") - created, 6, "no write is made for this alone");
        scene.controller.abort();
    }
}
