//! The cost of JSON and protobuf to the server: lists, single objects, writes, and changes told to ten watchers, in one
//! process.
//!
//! `cargo run --release -p memory-apiserver --example messages [PODS]`

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use memory_apiserver::{ApiServer, ApiService, Config};
use serde_json::Value;
use tower::Service;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// A pod as a kubelet and a scheduler leave it, with its managed fields.
const POD: &str = include_str!("../tests/wire/list.drop.json");
const PODS: &str = "/api/v1/namespaces/default/pods";
const WATCHERS: usize = 10;

async fn call(service: &mut ApiService, method: Method, path: &str, media: &str, body: Bytes) -> Bytes {
    let request = Request::builder().method(method).uri(path);
    let request = request.header("accept", media).header("content-type", media);
    let request = request
        .body(Full::new(body))
        .expect("a request of constant parts is one");
    let response = service
        .call(request)
        .await
        .expect("without faults every request is answered");
    let status = response.status();
    let body = response
        .into_body()
        .collect()
        .await
        .expect("without faults bodies are whole");
    let body = body.to_bytes();
    assert!(
        status.is_success(),
        "{path}: {status} {}",
        String::from_utf8_lossy(&body)
    );
    body
}

/// How long this thread has had a processor, in seconds: other work on the machine does not count.
fn busy() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = stat
        .split_whitespace()
        .next()
        .and_then(|nanos| nanos.parse::<f64>().ok());
    nanos.unwrap_or(0.0) / 1e9
}

/// Reads a list or a watch's events and forgets them; the number of bytes.
async fn drain(service: &mut ApiService, path: &str, media: &str, mut events: u64) -> usize {
    let request = Request::get(path).header("accept", media);
    let request = request
        .body(Full::<Bytes>::default())
        .expect("a request of constant parts is one");
    let answer = service
        .call(request)
        .await
        .expect("without faults every request is answered");
    let (mut body, mut bytes) = (answer.into_body(), 0);
    while let Some(piece) = body.frame().await {
        let piece = piece.expect("without faults").into_data().unwrap_or_default();
        bytes += piece.len();
        let mut at = 0;
        while events > 0 && at < piece.len() {
            at += if media == JSON {
                memchr::memchr(b'\n', &piece[at..]).map_or(piece.len(), |end| end + 1)
            } else {
                let len: [u8; 4] = piece[at..at + 4].try_into().unwrap_or_default();
                u32::from_be_bytes(len) as usize + 4
            };
            events -= 1;
            if events == 0 {
                return bytes;
            }
        }
    }
    bytes
}

/// The resident memory of this process in MB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap_or("");
    line.split_whitespace()
        .nth(1)
        .and_then(|kb| kb.parse::<usize>().ok())
        .unwrap_or(0)
        / 1024
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let count: usize = std::env::args()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(20_000);
    let server = ApiServer::new(Config::default().gc(false).seed(1));
    let mut service = server.service();
    let list: Value = serde_json::from_str(POD).expect("the recorded list is JSON");
    let mut pod = list["items"][0].clone();
    let fields: Vec<&str> = vec![
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "ownerReferences",
        "namespace",
    ];
    pod["metadata"]
        .as_object_mut()
        .expect("an object has metadata")
        .retain(|name, _| !fields.contains(&name.as_str()));
    for i in 0..count {
        pod["metadata"]["name"] = format!("pod-{i:07}").into();
        call(&mut service, Method::POST, PODS, JSON, pod.to_string().into()).await;
    }
    println!("{count} pods: {} MB", resident());
    let each = |seconds: f64| seconds * 1e6 / count as f64;
    for media in [JSON, PROTOBUF, PROTOBUF] {
        let began = busy();
        let bytes = drain(&mut service, PODS, media, 0).await;
        let seconds = busy() - began;
        println!(
            "list, {media}: {:.2} us and {} bytes a pod; {} MB",
            each(seconds),
            bytes / count,
            resident()
        );
    }
    for media in [JSON, PROTOBUF] {
        let (began, mut bodies) = (busy(), Vec::new());
        for i in 0..count {
            let path = format!("{PODS}/pod-{i:07}");
            bodies.push(call(&mut service, Method::GET, &path, media, Bytes::new()).await);
        }
        let read = busy();
        for (i, body) in bodies.into_iter().enumerate() {
            let path = format!("{PODS}/pod-{i:07}");
            call(&mut service, Method::PUT, &path, media, body).await;
        }
        println!(
            "{media}: get {:.2} us, put without a change {:.2} us",
            each(read - began),
            each(busy() - read)
        );
    }
    for media in [JSON, PROTOBUF] {
        let from = server.resource_version();
        // No more than the watchers may lag behind.
        let changes = count.min(9_000);
        for i in 0..changes {
            let patch = format!(r#"{{"metadata":{{"labels":{{"round":"{}"}}}}}}"#, media.len());
            let path = format!("{PODS}/pod-{i:07}");
            let request = Request::patch(path).header("content-type", "application/merge-patch+json");
            let request = request.body(Full::new(Bytes::from(patch)));
            let request = request.expect("a request of constant parts is one");
            let answer = service
                .call(request)
                .await
                .expect("without faults every request is answered");
            assert!(answer.status().is_success());
        }
        let (before, path) = (resident(), format!("{PODS}?watch=1&resourceVersion={from}"));
        let began = busy();
        drain(&mut service, &path, media, changes as u64).await;
        let first = busy();
        for _ in 1..WATCHERS {
            drain(&mut service, &path, media, changes as u64).await;
        }
        let event = |seconds: f64| seconds * 1e6 / changes as f64;
        println!(
            "{media}: an event to the first watcher {:.2} us, to each other {:.2} us; {} MB more",
            event(first - began),
            event(busy() - first) / (WATCHERS - 1) as f64,
            resident().saturating_sub(before)
        );
    }
}
