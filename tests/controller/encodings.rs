//! The encodings of requests and answers: protobuf where the server speaks it, JSON where it does not, and the same
//! objects either way.

use crate::cluster;
use crate::scene::{NAMESPACE, Scene};
use endpointd::cluster::codec::Encoding;
use endpointd::ops::run::run;
use http::{HeaderMap, HeaderName, HeaderValue, Request, header};
use kube::Client;
use kube::client::Body;
use memory_apiserver::{ApiServer, Config, Protobuf, Resources};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tower::Service as _;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const JSON: &str = "application/json";

/// Returns whether a path says which versions and resources there are.
fn is_discovery(path: &str) -> bool {
    path == "/apis/discovery.k8s.io" || path == "/apis/discovery.k8s.io/v1"
}

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

type Log = Arc<Mutex<Vec<Exchange>>>;

fn text(headers: &HeaderMap, name: HeaderName) -> String {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or_default().to_owned()
}

/// A client that notes the media types of its requests and answers. With `json_alone`, the server takes no bodies in
/// protobuf from it.
fn tapped(server: &ApiServer, log: &Log, json_alone: bool) -> Client {
    let (server, log) = (server.service(), log.clone());
    let service = tower::service_fn(move |mut request: Request<Body>| {
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
            if json_alone && exchange.sent == PROTOBUF {
                let unknown = HeaderValue::from_static("application/x-unknown");
                request.headers_mut().insert(header::CONTENT_TYPE, unknown);
            }
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

/// Runs a history against a server. Returns what was exchanged, and the objects that resulted, without their versions.
async fn play(config: Config, encoding: Encoding) -> (Vec<Exchange>, Vec<Value>) {
    let log = Log::default();
    let mut options = cluster::options(3);
    options.encoding = encoding;
    let server = Scene::server(config);
    let clients = cluster::clients(|| tapped(&server, &log, false));
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
    let mut objects = Vec::new();
    for kind in ["Endpoints", "EndpointSlice"] {
        objects.extend(scene.api.list(kind, NAMESPACE).await.unwrap());
    }
    for object in &mut objects {
        for field in ["resourceVersion", "uid", "generation", "creationTimestamp"] {
            object["metadata"].as_object_mut().unwrap().remove(field);
        }
    }
    scene.controller.abort();
    let exchanges = log.lock().clone();
    (exchanges, objects)
}

fn is_output(exchange: &Exchange) -> bool {
    exchange.path.contains("/endpoint")
}

#[tokio::test(start_paused = true)]
async fn what_results_does_not_depend_on_the_encoding() {
    let (protobuf, expected) = play(Config::default(), Encoding::Protobuf).await;
    assert!(
        expected.len() > 5,
        "several slices of both families, and Endpoints"
    );
    for exchange in &protobuf {
        assert!(exchange.status < 300, "{exchange:?}");
        // Events are few, and are written in JSON. Discovery is read once in minutes.
        if exchange.path.contains("/events") || is_discovery(&exchange.path) {
            continue;
        }
        assert!(exchange.accept.starts_with(PROTOBUF), "{exchange:?}");
        // A single object is read when another client may have changed it: by whom is of interest then.
        let single = exchange.method == "GET" && exchange.path.ends_with("/namespaces/default/endpoints/s");
        assert_eq!(
            exchange.accept.matches("drop=metadata.managedFields").count(),
            if single { 0 } else { 2 },
            "{exchange:?}"
        );
        let deleted = exchange.method == "DELETE";
        assert!(deleted || exchange.answered.starts_with(PROTOBUF), "{exchange:?}");
        if matches!(&*exchange.method, "PUT" | "POST") {
            assert_eq!(exchange.sent, PROTOBUF);
        }
    }
    let writes = |exchanges: &[Exchange]| exchanges.iter().filter(|e| !e.sent.is_empty()).count();
    assert!(writes(&protobuf) > 10);
    assert!(protobuf.iter().any(|exchange| exchange.method == "DELETE"));

    let (json, objects) = play(Config::default(), Encoding::Json).await;
    assert_eq!(objects, expected);
    assert_eq!(writes(&json), writes(&protobuf));
    for exchange in &json {
        let types = [&exchange.accept, &exchange.answered];
        assert!(types.iter().all(|media| media.starts_with(JSON)), "{exchange:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn json_is_used_for_a_resource_that_the_server_has_no_protobuf_for() {
    let (_, expected) = play(Config::default(), Encoding::Json).await;
    for resources in ["endpointslices", "pods", "*"] {
        let config = || Config::default().protobuf(Protobuf::Unsupported(Resources::from([resources])));
        let (exchanges, objects) = play(config(), Encoding::Protobuf).await;
        assert_eq!(objects, expected, "{resources}");
        let of_it = |path: &str| {
            resources == "*" || path.ends_with(resources) || path.contains(&format!("/{resources}/"))
        };
        for exchange in exchanges
            .iter()
            .filter(|e| !e.path.contains("/events") && e.method != "DELETE" && !is_discovery(&e.path))
        {
            assert_eq!(
                exchange.answered.starts_with(JSON),
                of_it(&exchange.path),
                "{exchange:?}"
            );
            if exchange.sent == PROTOBUF {
                assert_eq!(exchange.status == 415, of_it(&exchange.path), "{exchange:?}");
            }
        }
        let refused = exchanges.iter().filter(|e| e.status == 415).count();
        assert_eq!(
            refused, 0,
            "{resources}: the list showed it before the first write"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_proxy_that_answers_in_json_is_understood() {
    let (_, expected) = play(Config::default(), Encoding::Json).await;
    let config = Config::default().protobuf(Protobuf::AcceptIgnored);
    let (exchanges, objects) = play(config, Encoding::Protobuf).await;
    assert_eq!(objects, expected);
    assert!(
        exchanges
            .iter()
            .all(|exchange| exchange.answered.starts_with(JSON))
    );
    assert!(
        exchanges
            .iter()
            .filter(|e| is_output(e))
            .all(|exchange| exchange.sent != PROTOBUF)
    );
}

/// A body that was encoded before the server showed that it takes no protobuf is refused, and sent again in JSON.
#[tokio::test(start_paused = true)]
async fn a_write_that_is_refused_for_its_encoding_is_sent_again() {
    let log = Log::default();
    let server = Scene::server(Config::default());
    let mut clients = cluster::clients(|| cluster::client(&server));
    clients.objects = tapped(&server, &log, true).into();
    let controller = tokio::spawn(async move {
        run(clients, cluster::options(100), std::future::pending())
            .await
            .unwrap();
    });
    let scene = Scene::of(server, controller).await;
    scene.node("n0", Some("z0")).await;
    scene.pod(1, "n0", true).await;
    scene.service(json!({}), json!({})).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(scene.addresses("addresses").await, 1);
    let exchanges = log.lock().clone();
    let refused = exchanges.iter().filter(|exchange| exchange.status == 415).count();
    assert!(
        (1..=2).contains(&refused),
        "once for slices, once for Endpoints: {exchanges:?}"
    );
    assert!(
        exchanges
            .iter()
            .filter(|e| e.status < 300)
            .all(|e| e.sent == JSON),
        "{exchanges:?}"
    );
    assert!(scene.events().await.is_empty(), "nobody is told of it");
}

#[tokio::test(start_paused = true)]
async fn the_first_update_of_an_object_ends_the_tracking_of_its_fields() {
    for clear in [false, true] {
        for encoding in [Encoding::Json, Encoding::Protobuf] {
            let mut options = cluster::options(100);
            (options.encoding, options.settings.clear_managed_fields) = (encoding, clear);
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
                assert_eq!(tracked().await, [!clear, !clear], "{encoding:?}");
            }
            assert_eq!(scene.writes("") - created, 6, "no write is made for this alone");
            scene.controller.abort();
        }
    }
}
