//! Faults of requests and watches in protobuf.

use crate::client::{Api, PODS, Watch, pod};
use crate::protobuf::{METADATA, PROTOBUF};
use crate::wire::{self, at, event, frames, open};
use http::{Request, header};
use memory_apiserver::{
    After, Ending, ErrorEvent, Failure, Fault, FaultPlan, Rule, Stage, Verb, Verbs, WatchFault,
};
use serde_json::json;
use std::io::ErrorKind;
use std::time::Duration;

const WATCH: &str = "/api/v1/namespaces/ns/pods?watch=1&timeoutSeconds=600";

/// A server with the pods `p0` to `p4`.
async fn five() -> Api {
    let api = Api::plain().await;
    for i in 0..5 {
        api.create(PODS, pod(&format!("p{i}"))).await;
    }
    api
}

fn set(api: &Api, fault: WatchFault) {
    let rule = Rule::on(Verb::Watch, "pods").fault(fault.into());
    api.server.set_faults(FaultPlan::new(1).rule(rule));
}

async fn open_watch(api: &Api, path: &str, accept: &str) -> Watch {
    let request = Request::get(path).header("accept", accept);
    let response = api
        .send(request.body(http_body_util::Full::default()).unwrap())
        .await;
    assert_eq!(
        response.headers()[header::CONTENT_TYPE],
        "application/vnd.kubernetes.protobuf;stream=watch"
    );
    Watch::of(response.into_body())
}

/// All that a watch tells within ten seconds, or until it ends.
async fn told(api: &Api, path: &str, accept: &str) -> (Vec<u8>, Option<ErrorKind>) {
    let mut watch = open_watch(api, path, accept).await;
    let mut all = Vec::new();
    while let Ok(Some(piece)) = tokio::time::timeout(Duration::from_secs(10), watch.piece()).await {
        match piece {
            Ok(piece) => all.extend_from_slice(&piece),
            Err(error) => return (all, Some(error.kind())),
        }
    }
    (all, None)
}

#[tokio::test(start_paused = true)]
async fn cut_in_the_middle_of_a_frame() {
    let api = five().await;
    let (whole, _) = told(&api, WATCH, PROTOBUF).await;
    let first = frames(&whole).0[0].len() as u64;
    for (bytes, count) in [
        (2, 0),
        (first - 1, 0),
        (first, 1),
        (first + 3, 1),
        (first + 70, 1),
    ] {
        let after = After::Bytes(bytes);
        set(
            &api,
            WatchFault::End {
                after,
                how: Ending::Reset,
            },
        );
        let (all, error) = told(&api, WATCH, PROTOBUF).await;
        assert_eq!(
            (all.len() as u64, error),
            (bytes, Some(ErrorKind::ConnectionReset))
        );
        assert_eq!(all, whole[..all.len()]);
        assert_eq!(frames(&all).0.len(), count);
    }
}

#[tokio::test(start_paused = true)]
async fn error_events() {
    let api = five().await;
    for (error, reason, code) in [
        (ErrorEvent::Expired, "Expired", 410),
        (ErrorEvent::Internal, "InternalError", 500),
    ] {
        for accept in [PROTOBUF, METADATA] {
            let after = After::Events(2);
            set(&api, WatchFault::Error { after, event: error });
            let (all, end) = told(&api, WATCH, accept).await;
            let (frames, rest) = frames(&all);
            assert_eq!((frames.len(), rest.len(), end), (3, 0, None));
            let (told, kind, status) = event(frames[2]);
            assert_eq!((told.as_str(), kind.as_str()), ("ERROR", "v1 Status"));
            assert_eq!(wire::text(status, &[4]), reason);
            let low = (code & 0x7f) as u8 | 0x80;
            assert!(status.ends_with(&[0x30, low, (code >> 7) as u8]), "{code}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_frame_that_holds_no_message() {
    let api = five().await;
    let (whole, _) = told(&api, WATCH, PROTOBUF).await;
    set(
        &api,
        WatchFault::Malformed {
            after: After::Events(1),
        },
    );
    let (all, _) = told(&api, WATCH, PROTOBUF).await;
    let ((ours, rest), (healthy, _)) = (frames(&all), frames(&whole));
    assert_eq!(
        (ours.len(), rest.len()),
        (5, 0),
        "frames are told apart all the same"
    );
    for (i, (ours, healthy)) in ours.into_iter().zip(healthy).enumerate() {
        assert_eq!(ours == healthy, i != 1);
        assert_eq!(ours[4] & 7, if i == 1 { 7 } else { 2 });
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_decoded() {
    let api = five().await;
    let (whole, _) = told(&api, WATCH, PROTOBUF).await;
    let field = "/metadata/labels".to_owned();
    let after = After::Events(1);
    set(&api, WatchFault::WrongType { field, after });
    for accept in [PROTOBUF, METADATA] {
        let (all, _) = told(&api, WATCH, accept).await;
        let (ours, rest) = frames(&all);
        assert_eq!((ours.len(), rest.len()), (5, 0));
        let (_, _, object) = event(ours[1]);
        let metadata = wire::fields(at(object, &[1]));
        let labels = metadata.iter().rfind(|field| field.number == 11).unwrap();
        assert!(labels.bytes.is_empty(), "a number instead of an entry");
        assert_eq!(event(ours[0]).2.len(), event(ours[2]).2.len());
    }
    assert_eq!(frames(&whole).0.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn events_twice_and_bookmarks_never() {
    let api = five().await;
    set(&api, WatchFault::Repeat { rate: 1.0 });
    let (all, _) = told(&api, WATCH, PROTOBUF).await;
    let (twice, _) = frames(&all);
    assert_eq!(twice.len(), 10);
    assert!(twice.chunks(2).all(|pair| pair[0] == pair[1]));
    let initial =
        format!("{WATCH}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true");
    for (initial_end, count) in [(true, 5), (false, 6)] {
        set(&api, WatchFault::NoBookmarks { initial_end });
        let (all, _) = told(&api, &initial, PROTOBUF).await;
        assert_eq!(frames(&all).0.len(), count);
    }
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_is_set_later_reaches_open_watches() {
    let api = five().await;
    let mut watch = open_watch(&api, WATCH, PROTOBUF).await;
    let first = watch.piece().await.unwrap().unwrap();
    assert_eq!(frames(&first).0.len(), 5);
    set(
        &api,
        WatchFault::Malformed {
            after: After::Events(0),
        },
    );
    api.patch(&format!("{PODS}/p0"), json!({"metadata": {"labels": {"x": "y"}}}))
        .await;
    let piece = watch.piece().await.unwrap().unwrap();
    assert_eq!(piece[4] & 7, 7);
}

#[tokio::test(start_paused = true)]
async fn refusals_in_the_form_that_is_accepted() {
    let api = five().await;
    let path = format!("{PODS}/p0");
    for (failure, status, reason) in [
        (Failure::Conflict, 409, "Conflict"),
        (
            Failure::TooManyRequests { retry_after: 3 },
            429,
            "TooManyRequests",
        ),
        (Failure::Timeout, 504, "Timeout"),
    ] {
        for stage in [Stage::Before, Stage::After] {
            let rule = Rule::on(Verbs::ALL, "pods").fault(Fault::Fail(stage, failure));
            api.server.set_faults(FaultPlan::new(1).rule(rule));
            let answer = api.raw("GET", &path, &[("accept", PROTOBUF)], b"").await;
            assert_eq!((answer.status, answer.media.as_str()), (status, PROTOBUF));
            let (kind, refusal) = open(&answer.raw);
            assert_eq!(
                (kind.as_str(), wire::text(refusal, &[4]).as_str()),
                ("v1 Status", reason)
            );
            let answer = api.raw("GET", &path, &[("accept", METADATA)], b"").await;
            assert_eq!(
                (answer.media.as_str(), &answer.body["reason"]),
                ("application/json", &json!(reason))
            );
        }
    }
    // A create is known by the name in its body, here as there.
    let body = wire::envelope("v1", "Pod", &wire::field(1, &wire::field(1, b"made")));
    let rule = Rule::on(Verb::Create, "pods").fault(Fault::before(Failure::AlreadyExists));
    api.server.set_faults(FaultPlan::new(1).rule(rule));
    let headers = [("content-type", PROTOBUF), ("accept", PROTOBUF)];
    let answer = api.raw("POST", PODS, &headers, &body).await;
    assert_eq!(answer.status, 409);
    assert_eq!(wire::text(open(&answer.raw).1, &[5, 1]), "made");
    // A list whose answer breaks off.
    let rule = Rule::on(Verb::List, "pods").fault(Fault::CutAnswer);
    api.server.set_faults(FaultPlan::new(1).rule(rule));
    let request = Request::get(PODS).header("accept", PROTOBUF);
    let mut body = api
        .send(request.body(http_body_util::Full::default()).unwrap())
        .await
        .into_body();
    let (mut got, mut error) = (Vec::new(), None);
    while let Some(frame) = http_body_util::BodyExt::frame(&mut body).await {
        match frame {
            Ok(frame) => got.extend_from_slice(&frame.into_data().unwrap()),
            Err(lost) => error = Some(lost.kind()),
        }
    }
    assert_eq!(error, Some(ErrorKind::ConnectionReset));
    assert!(!got.ends_with(b"\x1a\0\"\0"));
}
