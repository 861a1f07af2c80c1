//! Faults within watches.

use crate::client::{Api, PODS, SLICES, Watch, pod, slice};
use memory_apiserver::{
    After, Ending, ErrorEvent, Failure, Fault, FaultPlan, Latency, Rule, Verb, WatchFault,
};
use serde_json::{Value, json};
use std::io::ErrorKind;
use std::time::Duration;
use tokio::time::{Instant, timeout};

const WATCH: &str = "/api/v1/namespaces/ns/pods?watch=1&timeoutSeconds=600";

/// A server with the pods `p0` to `p4` and a watch fault on pods.
async fn under(fault: impl Into<Fault>) -> Api {
    let api = Api::plain().await;
    for i in 0..5 {
        api.create(PODS, pod(&format!("p{i}"))).await;
    }
    set(&api, fault);
    api
}

fn set(api: &Api, fault: impl Into<Fault>) {
    let rule = Rule::on(Verb::Watch, "pods").fault(fault.into());
    api.server.set_faults(FaultPlan::new(1).rule(rule));
}

/// Whether nothing comes for this long.
async fn is_quiet(watch: &mut Watch, time: Duration) -> bool {
    timeout(time, watch.piece()).await.is_err()
}

async fn touch(api: &Api, name: &str, label: &str) {
    api.label(&format!("{PODS}/{name}"), json!({"x": label})).await;
}

#[tokio::test(start_paused = true)]
async fn ended_after_events_or_a_time() {
    let how = Ending::Clean;
    let api = under(WatchFault::End {
        after: After::Events(3),
        how,
    })
    .await;
    let told = api.watch(WATCH).await.rest().await;
    assert_eq!(told.len(), 3);
    let after = After::Time(Duration::from_secs(90));
    set(&api, WatchFault::End { after, how });
    let began = Instant::now();
    assert_eq!(api.watch(WATCH).await.rest().await.len(), 5);
    assert_eq!(Instant::now() - began, Duration::from_secs(90));
    assert_eq!(api.server.fault_counts().into_values().collect::<Vec<_>>(), [1]);
}

#[tokio::test(start_paused = true)]
async fn silent_and_then_it_goes_on() {
    let api = under(WatchFault::Silent {
        after: Duration::from_secs(10),
        lasting: Duration::from_secs(100),
    })
    .await;
    let began = Instant::now();
    let mut watch = api.watch(&format!("{WATCH}&allowWatchBookmarks=true")).await;
    for i in 0..5 {
        assert_eq!(watch.told().await, format!("ADDED p{i}"));
    }
    touch(&api, "p0", "1").await;
    assert_eq!(watch.told().await, "MODIFIED p0");
    assert!(is_quiet(&mut watch, Duration::from_secs(11)).await);
    touch(&api, "p1", "2").await;
    // Not even the bookmark of a minute.
    assert!(is_quiet(&mut watch, Duration::from_secs(98)).await);
    assert_eq!(watch.told().await, "MODIFIED p1");
    assert_eq!(Instant::now() - began, Duration::from_secs(110));
    assert_eq!(watch.next().await.unwrap()["type"], "BOOKMARK");
    assert_eq!(api.server.faults_injected()[0].at, Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn errors_as_the_answer_and_as_events() {
    let api = under(Fault::before(Failure::Gone)).await;
    let path = format!("{WATCH}&resourceVersion=2");
    let answer = api.call("GET", &path, Value::Null).await;
    assert_eq!(
        (answer.status, answer.body["reason"].as_str()),
        (410, Some("Expired"))
    );
    let at = After::Time(Duration::from_secs(5));
    for (after, event, count, code) in [
        (After::Events(0), ErrorEvent::Expired, 1, 410),
        (After::Events(2), ErrorEvent::Expired, 3, 410),
        (at, ErrorEvent::Internal, 6, 500),
    ] {
        set(&api, WatchFault::Error { after, event });
        let told = api.watch(WATCH).await.rest().await;
        let last = told.last().unwrap();
        assert_eq!(
            (told.len(), &last["type"], &last["object"]["code"]),
            (count, &json!("ERROR"), &json!(code))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn events_come_twice() {
    let api = under(WatchFault::Repeat { rate: 1.0 }).await;
    let mut watch = api.watch(WATCH).await;
    for i in 0..5 {
        assert_eq!(watch.next().await.unwrap(), watch.next().await.unwrap());
        assert_eq!(api.server.faults_injected().len(), i + 1);
    }
    set(&api, WatchFault::Repeat { rate: 0.5 });
    let mut seen = 0;
    for i in 0..100 {
        touch(&api, "p0", &i.to_string()).await;
        let piece = watch.piece().await.unwrap().unwrap();
        seen += piece.split_inclusive(|c| *c == b'\n').count();
    }
    assert!((130..170).contains(&seen), "{seen}");
}

#[tokio::test(start_paused = true)]
async fn lag_keeps_the_order_within_a_kind_and_not_between_kinds() {
    let lag = Latency::Uniform(Duration::from_secs(1), Duration::from_secs(9));
    let api = under(WatchFault::Lag(lag)).await;
    let mut pods = api
        .watch(&format!(
            "{WATCH}&resourceVersion={}",
            api.server.resource_version()
        ))
        .await;
    let mut slices = api.watch(&format!("{SLICES}?watch=1")).await;
    let began = Instant::now();
    for i in 0..10 {
        touch(&api, "p0", &i.to_string()).await;
        // The answer is there, the event is not.
        assert!(is_quiet(&mut pods, Duration::from_millis(50)).await);
    }
    api.create(SLICES, slice("s")).await;
    assert_eq!(
        slices.told().await,
        "ADDED s",
        "a later write of another kind is told first"
    );
    assert!(Instant::now() - began < Duration::from_secs(1));
    for i in 0..10 {
        let event = pods.next().await.unwrap();
        assert_eq!(event["object"]["metadata"]["labels"]["x"], i.to_string());
    }
    let passed = Instant::now() - began;
    assert!(
        passed > Duration::from_secs(1) && passed < Duration::from_secs(10),
        "{passed:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn lines_and_objects_that_cannot_be_read() {
    let after = After::Events(1);
    let api = under(WatchFault::Malformed { after }).await;
    let lines = |pieces: Vec<u8>| -> Vec<Result<Value, serde_json::Error>> {
        pieces
            .split_inclusive(|c| *c == b'\n')
            .map(serde_json::from_slice)
            .collect()
    };
    let told = lines(api.watch(WATCH).await.pieces().await.0);
    let broken = told[1].as_ref().unwrap_err();
    assert!(broken.is_syntax() && !broken.is_eof(), "{broken}");
    assert_eq!(told.iter().filter(|l| l.is_ok()).count(), 4);
    for field in ["/metadata/labels", "/spec/containers/0/name"] {
        let wrong = WatchFault::WrongType {
            field: field.to_owned(),
            after,
        };
        set(&api, wrong);
        let told = api.watch(WATCH).await.rest().await;
        let wrong = told
            .iter()
            .map(|event| event["object"].pointer(field) == Some(&json!([[7]])));
        assert_eq!(wrong.collect::<Vec<_>>(), [false, true, false, false, false]);
    }
}

#[tokio::test(start_paused = true)]
async fn bookmarks_are_withheld() {
    let streaming =
        format!("{WATCH}&allowWatchBookmarks=1&sendInitialEvents=1&resourceVersionMatch=NotOlderThan");
    for initial_end in [false, true] {
        let api = under(WatchFault::NoBookmarks { initial_end }).await;
        let told = api.watch(&streaming).await.rest().await;
        let bookmarks = told.iter().filter(|e| e["type"] == "BOOKMARK").count();
        assert_eq!(
            (told.len() - bookmarks, bookmarks),
            (5, usize::from(!initial_end))
        );
        assert!(api.server.fault_counts().into_values().sum::<u64>() >= 9);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_without_streaming_lists() {
    let api = under(Fault::NoStreamingLists).await;
    let path =
        format!("{WATCH}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true");
    let answer = api.call("GET", &path, Value::Null).await;
    assert_eq!(answer.status, 422);
    let status = answer.body;
    assert_eq!(status["details"]["causes"][0]["field"], "sendInitialEvents");
    assert_eq!(status["details"]["kind"], "ListOptions");
    assert_eq!(api.watch(WATCH).await.told().await, "ADDED p0");
}

#[tokio::test(start_paused = true)]
async fn open_watches_meet_the_plan_and_go_on_after_it() {
    let api = Api::plain().await;
    let mut watch = api.watch(WATCH).await;
    let mut spared = api.spared().watch(WATCH).await;
    api.create(PODS, pod("p0")).await;
    assert_eq!(watch.told().await, "ADDED p0");
    assert_eq!(spared.told().await, "ADDED p0");
    set(
        &api,
        WatchFault::Lag(Latency::Constant(Duration::from_secs(3600))),
    );
    touch(&api, "p0", "1").await;
    assert!(is_quiet(&mut watch, Duration::from_secs(50)).await);
    assert_eq!(spared.told().await, "MODIFIED p0");
    api.server.clear_faults();
    assert_eq!(watch.told().await, "MODIFIED p0");
    touch(&api, "p0", "2").await;
    assert_eq!(watch.told().await, "MODIFIED p0");
    // A plan after the plan; it finds an idle watch, too.
    let after = After::Time(Duration::from_secs(1));
    let ends = WatchFault::End {
        after,
        how: Ending::Reset,
    };
    let (sets, ended) = tokio::join!(
        async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            set(&api, ends);
            Instant::now()
        },
        async {
            let (all, error) = watch.pieces().await;
            assert_eq!((all.len(), error), (0, Some(ErrorKind::ConnectionReset)));
            Instant::now()
        }
    );
    assert_eq!(ended - sets, Duration::from_secs(1));
    assert_eq!(spared.told().await, "MODIFIED p0");
    assert!(
        is_quiet(&mut spared, Duration::from_secs(10)).await,
        "and not ended"
    );
}
