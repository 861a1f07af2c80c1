//! Faults over TCP, seen by a client that reads the socket itself.

use memory_apiserver::{
    After, Config, Ending, Failure, Fault, FaultPlan, Handle, Latency, Rule, Stage, Verb, WatchFault, start,
};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Sends a request and reads until the connection is over: what came, and how it ended.
fn exchange(handle: &Handle, agent: &str, request: &str, body: &str) -> (String, Option<ErrorKind>) {
    let mut stream = TcpStream::connect(handle.addr()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(
        stream,
        "{request} HTTP/1.1\r\nHost: x\r\nUser-Agent: {agent}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
    let error = loop {
        match stream.read(&mut buffer) {
            Ok(0) => break None,
            Ok(n) => all.extend_from_slice(&buffer[..n]),
            Err(error) => break Some(error.kind()),
        }
    };
    (String::from_utf8(all).unwrap(), error)
}

const CREATE: &str = "POST /api/v1/namespaces";
const WATCH: &str = "GET /api/v1/namespaces?watch=1&timeoutSeconds=2";

async fn server(fault: impl Into<Fault>, verb: Verb) -> Handle {
    let config = Config::default().gc(false).request_log(100);
    let handle = start(config).await.unwrap();
    let rule = Rule::on(verb, "namespaces").fault(fault.into());
    handle
        .server()
        .set_faults(FaultPlan::new(1).only_client("controller/").rule(rule));
    handle
}

/// The request as the controller's and as another client's.
async fn both(
    handle: Handle,
    request: &'static str,
    body: &'static str,
) -> (Handle, [(String, Option<ErrorKind>); 2]) {
    tokio::task::spawn_blocking(move || {
        let controller = exchange(&handle, "controller/1", request, body);
        let other = exchange(&handle, "other/1", "GET /api/v1/namespaces", "");
        (handle, [controller, other])
    })
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_reset_or_closed() {
    let body = r#"{"metadata":{"name":"new"}}"#;
    for stage in [Stage::Before, Stage::After] {
        for (failure, kind) in [
            (Failure::Reset, Some(ErrorKind::ConnectionReset)),
            (Failure::Closed, None),
        ] {
            let handle = server(Fault::Fail(stage, failure), Verb::Create).await;
            let (_handle, [lost, list]) = both(handle, CREATE, body).await;
            assert_eq!(lost, (String::new(), kind), "{failure} {stage}");
            assert!(list.0.starts_with("HTTP/1.1 200 OK"));
            assert_eq!(list.0.contains(r#""name":"new""#), stage == Stage::After);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_breaks_off() {
    let handle = server(Fault::CutAnswer, Verb::Create).await;
    let (_handle, [cut, list]) = both(handle, CREATE, r#"{"metadata":{"name":"new"}}"#).await;
    assert_eq!(cut.1, Some(ErrorKind::ConnectionReset));
    let (head, body) = cut.0.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 201 Created"));
    let promised = head.lines().find_map(|l| {
        l.to_ascii_lowercase()
            .strip_prefix("content-length: ")?
            .parse::<usize>()
            .ok()
    });
    assert!(body.len() < promised.unwrap());
    assert!(list.0.contains(r#""name":"new""#));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_is_cut_in_the_middle_of_a_line() {
    for (how, kind) in [
        (Ending::Reset, Some(ErrorKind::ConnectionReset)),
        (Ending::Closed, None),
        (Ending::Clean, None),
    ] {
        let after = After::Bytes(60);
        let handle = server(WatchFault::End { after, how }, Verb::Watch).await;
        let (_handle, [watch, _]) = both(handle, WATCH, "").await;
        assert_eq!(watch.1, kind, "{how:?}");
        let (head, body) = watch.0.split_once("\r\n\r\n").unwrap();
        assert!(head.to_ascii_lowercase().contains("transfer-encoding: chunked"));
        // One chunk of 60 bytes; only a clean end has the last chunk.
        let rest = body
            .strip_prefix("3C\r\n{\"type\":\"ADDED\",\"object\":")
            .unwrap();
        assert_eq!(rest.ends_with("\r\n0\r\n\r\n"), how == Ending::Clean, "{rest:?}");
        assert_eq!(rest.trim_end_matches("0\r\n\r\n").trim_end().len(), 60 - 25);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hanging_request_ends_with_its_client_or_with_the_plan() {
    let body = r#"{"metadata":{"name":"new"}}"#;
    let handle = server(Fault::before(Failure::Hang), Verb::Create).await;
    let addr = handle.addr();
    let mut stream = TcpStream::connect(addr).unwrap();
    write!(
        stream,
        "POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nUser-Agent: controller/1\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let until = async |done: &dyn Fn() -> bool| {
        tokio::time::timeout(Duration::from_secs(20), async {
            while !done() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .unwrap();
    };
    until(&|| handle.server().faults_injected().len() == 1).await;
    assert!(handle.server().requests().is_empty());
    drop(stream);
    until(&|| handle.server().requests().len() == 1).await;
    let record = handle.server().requests().remove(0);
    assert_eq!((record.status, record.applied), (0, false));
    let server = handle.server().clone();
    let waiting = tokio::spawn(both(handle, CREATE, body));
    until(&|| server.faults_injected().len() == 2).await;
    server.clear_faults();
    let (_handle, [answer, list]) = waiting.await.unwrap();
    assert!(answer.0.starts_with("HTTP/1.1 201 Created"));
    assert!(list.0.contains(r#""name":"new""#));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_and_delays_come_over_a_socket() {
    let handle = server(
        Fault::before(Failure::Overloaded { retry_after: 3 }),
        Verb::Create,
    )
    .await;
    let (_handle, [refused, _]) = both(handle, CREATE, "{}").await;
    assert!(refused.0.starts_with("HTTP/1.1 429 Too Many Requests"));
    assert!(refused.0.to_ascii_lowercase().contains("retry-after: 3\r\n"));
    assert!(
        refused
            .0
            .ends_with("\r\n\r\nToo many requests, please try again later.\n")
    );
    let time = Duration::from_millis(300);
    let handle = server(Fault::Delay(Stage::After, Latency::Constant(time)), Verb::Create).await;
    let began = tokio::time::Instant::now();
    let (_handle, [created, _]) = both(handle, CREATE, r#"{"metadata":{"name":"new"}}"#).await;
    assert!(created.0.starts_with("HTTP/1.1 201"));
    assert!(tokio::time::Instant::now() - began >= time);
}
