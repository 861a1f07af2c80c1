//! Faults over TCP, seen by a client that reads the socket itself.

use memory_apiserver::{
    After, Config, Ending, Failure, Fault, FaultPlan, Handle, Rule, Stage, Verb, WatchFault, start,
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
            assert_eq!(lost, (String::new(), kind), "{failure:?} {stage:?}");
            assert!(list.0.starts_with("HTTP/1.1 200 OK"));
            assert_eq!(list.0.contains(r#""name":"new""#), stage == Stage::After);
        }
    }
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
