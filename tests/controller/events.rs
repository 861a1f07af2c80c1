//! Events, from the handle to an API server.

use crate::cluster::{Api, client};
use endpointd::actors::events::{EventHandle, EventWriter, WallClock};
use endpointd::cluster::events::EventClient;
use endpointd::core::events::{Involved, InvolvedKind, Notice, Source};
use endpointd::core::ids::Uid;
use endpointd::core::leadership::role::Role;
use endpointd::core::time::Time;
use endpointd::tenant_log::TenantLog;
use http::Method;
use memory_apiserver::{ApiServer, Config};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

const EVENTS: &str = "/api/v1/namespaces/default/events";

fn notice(name: &str) -> Notice {
    Notice {
        source: Source::Endpoints,
        involved: Involved {
            kind: InvolvedKind::Endpoints,
            namespace: "default".into(),
            name: name.into(),
            uid: Uid::none(),
            version: None,
        },
        warning: true,
        reason: "FailedToCreateEndpoint",
        message: "it did not work".to_owned(),
    }
}

fn server() -> ApiServer {
    ApiServer::new(
        Config::default()
            .request_log(10_000)
            .start_time("2026-01-01T00:00:00Z".parse().unwrap()),
    )
}

/// Wall time from tokio's clock, so that it can be simulated too.
fn clock() -> WallClock {
    let start = Instant::now();
    let midnight = Time::parse("2026-01-01T00:00:00Z").unwrap().as_nanoseconds();
    WallClock::new(move || {
        let passed = since(start).as_nanos();
        Time::from_nanoseconds(midnight + i64::try_from(passed).unwrap())
    })
}

/// A handle, and the task that writes what is recorded.
fn writer(client: kube::Client) -> (EventHandle, JoinHandle<()>) {
    let (handle, writer) = EventWriter::new(EventClient::new(client), TenantLog::default(), clock());
    (handle, tokio::spawn(writer.run()))
}

async fn events(api: &Api) -> Vec<Value> {
    let list = api.call(Method::GET, EVENTS, None).await.unwrap();
    list["items"].as_array().cloned().unwrap()
}

fn writes(server: &ApiServer) -> Vec<String> {
    let requests = server.requests().into_iter();
    let writes = requests.filter(|r| r.path.contains("/events") && r.method != "GET");
    writes.map(|r| r.method.clone()).collect()
}

/// A server that is no API server: it answers each request with `answer`, or never.
async fn odd_server(answer: Option<&'static str>) -> (kube::Client, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    tokio::spawn(async move {
        let mut open = Vec::new();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 65_536];
            if stream.read(&mut request).await.unwrap() > 0 {
                count.fetch_add(1, Ordering::SeqCst);
            }
            if let Some(answer) = answer {
                stream.write_all(answer.as_bytes()).await.unwrap();
                stream.shutdown().await.unwrap();
            }
            open.push(stream);
        }
    });
    (
        kube::Client::try_from(kube::Config::new(url.parse().unwrap())).unwrap(),
        asked,
    )
}

fn since(start: Instant) -> Duration {
    Instant::now().saturating_duration_since(start)
}

/// Records many notices, and how long that took.
fn storm(handle: &EventHandle) -> Duration {
    let start = Instant::now();
    for number in 0..100_000 {
        let mut notice = notice(&format!("s{number}"));
        notice.involved.namespace = format!("ns-{}", number % 100).into();
        handle.record(notice);
    }
    since(start)
}

#[tokio::test(start_paused = true)]
async fn repeated_events_are_counted_in_one_object() {
    let server = server();
    let api = Api(client(&server));
    let (handle, _writer) = writer(client(&server));
    for _ in 0..1000 {
        handle.record(notice("s"));
        sleep(Duration::from_secs(36)).await;
    }
    let events = events(&api).await;
    assert_eq!(events.len(), 1, "{events:?}");
    let event = &events[0];
    assert_eq!(event["count"], 1000);
    assert_eq!(event["firstTimestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(event["lastTimestamp"], "2026-01-01T09:59:24Z");
    assert_eq!(event["type"], "Warning");
    assert_eq!(event["source"], json!({"component": "endpoint-controller"}));
    assert_eq!(
        event["involvedObject"],
        json!({"apiVersion": "v1", "kind": "Endpoints", "namespace": "default", "name": "s"})
    );
    let writes = writes(&server);
    assert_eq!(writes.iter().filter(|method| **method == "POST").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_expired_event_is_made_again() {
    let server = server();
    let api = Api(client(&server));
    let (handle, _writer) = writer(client(&server));
    handle.record(notice("s"));
    sleep(Duration::from_secs(1)).await;
    let name = events(&api).await[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    api.call(Method::DELETE, &format!("{EVENTS}/{name}"), None)
        .await
        .unwrap();
    handle.record(notice("s"));
    sleep(Duration::from_secs(1)).await;
    let events = events(&api).await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["count"], 1);
    assert_eq!(writes(&server), ["POST", "DELETE", "PATCH", "POST"]);
}

#[tokio::test(start_paused = true)]
async fn a_storm_of_notices_is_written_in_moderation() {
    let server = server();
    let (handle, _writer) = writer(client(&server));
    for number in 0..100_000 {
        let mut notice = notice("s");
        notice.involved.namespace = format!("ns-{}", number % 1000).into();
        handle.record(notice);
        if number % 1000 == 0 {
            sleep(Duration::from_millis(100)).await;
        }
    }
    // A burst of 50, and 5 a second. The queue has room for 1,024, and what is beyond is dropped.
    let soon = writes(&server).len();
    assert!((98..=101).contains(&soon), "{soon}");
    sleep(Duration::from_secs(3600)).await;
    let all = writes(&server).len();
    assert!((1100..=1125).contains(&all), "{all}");
}

/// One namespace's owner cannot take the place of others, and a namespace that was quiet has all of its share.
#[tokio::test(start_paused = true)]
async fn a_loud_namespace_leaves_others_their_events() {
    let server = server();
    let api = Api(client(&server));
    let (handle, _writer) = writer(client(&server));
    for number in 0..10_000 {
        handle.record(notice(&format!("s{number}")));
    }
    let mut quiet = notice("quiet");
    quiet.involved.namespace = "quiet".into();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "quiet"}});
    api.create(&namespace, "").await.unwrap();
    handle.record(quiet);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(events(&api).await.len(), 10, "the loud one's share");
    let path = EVENTS.replace("default", "quiet");
    let list = api.call(Method::GET, &path, None).await.unwrap();
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
    sleep(Duration::from_secs(6)).await;
    handle.record(notice("later"));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(events(&api).await.len(), 11);
}

/// A process that has lost its lease writes nothing that it is told meanwhile.
#[tokio::test(start_paused = true)]
async fn a_standby_writes_no_events() {
    let server = server();
    let api = Api(client(&server));
    let (handle, _writer) = writer(client(&server));
    for (role, name) in [(Role::Standby, "between"), (Role::Leader, "new")] {
        handle.change_role(role);
        handle.record(notice(name));
    }
    sleep(Duration::from_secs(1)).await;
    let events = events(&api).await;
    let names = events
        .iter()
        .map(|event| event["involvedObject"]["name"].as_str());
    assert_eq!(names.collect::<Vec<_>>(), [Some("new")]);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_being_deleted_is_left_alone() {
    let server = server();
    let api = Api(client(&server));
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gone", "finalizers": ["a.example/b"]},
    });
    api.create(&namespace, "").await.unwrap();
    api.delete("Namespace", "", "gone", None).await.unwrap();
    let (handle, _writer) = writer(client(&server));
    for namespace in ["gone", "never-there"] {
        let mut lost = notice("s");
        lost.involved.namespace = namespace.into();
        handle.record(lost);
    }
    handle.record(notice("s"));
    sleep(Duration::from_secs(600)).await;
    assert_eq!(writes(&server), ["POST", "POST", "POST"]);
    assert_eq!(events(&api).await.len(), 1);
}

#[tokio::test]
async fn a_server_that_never_answers_holds_up_nobody() {
    let (client, asked) = odd_server(None).await;
    let (handle, writer) = writer(client);
    handle.record(notice("first"));
    let start = Instant::now();
    while asked.load(Ordering::SeqCst) == 0 {
        assert!(since(start) < Duration::from_secs(10), "no request came");
        sleep(Duration::from_millis(5)).await;
    }
    let took = storm(&handle);
    assert!(took < Duration::from_secs(2), "{took:?}");
    sleep(Duration::from_millis(200)).await;
    assert_eq!(asked.load(Ordering::SeqCst), 1, "one request at a time");
    writer.abort();
    assert!(
        storm(&handle) < Duration::from_secs(2),
        "recording blocks after the writer has ended"
    );
}

#[tokio::test]
async fn a_server_that_refuses_holds_up_nobody_and_is_not_pestered() {
    const FORBIDDEN: &str = "HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\n\
        Content-Length: 49\r\nConnection: close\r\n\r\n{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"code\":403}";
    let (client, asked) = odd_server(Some(FORBIDDEN)).await;
    let (handle, _writer) = writer(client);
    let start = Instant::now();
    let took = storm(&handle);
    assert!(took < Duration::from_secs(2), "{took:?}");
    // A refusal is an answer, so the burst goes, and then 5 a second.
    while asked.load(Ordering::SeqCst) < 55 {
        assert!(since(start) < Duration::from_secs(20), "{asked:?}");
        sleep(Duration::from_millis(5)).await;
    }
    sleep(Duration::from_secs(1)).await;
    let (asked, passed) = (asked.load(Ordering::SeqCst), since(start));
    let allowed = 51.0 + 5.0 * passed.as_secs_f64();
    assert!(
        f64::from(u32::try_from(asked).unwrap()) <= allowed,
        "{asked} in {passed:?}"
    );
}
