//! Faults of single requests: what the client sees, and what the store has.

use crate::client::{Answer, Api, PODS, SLICES, pod, slice};
use memory_apiserver::{
    Config, Failure, Fault, FaultPlan, Latency, Over, RequestRecord, Resources, Rule, Stage, Verb, Verbs,
};
use serde_json::{Value, json};
use std::io::{self, ErrorKind};
use std::time::Duration;
use tokio::time::{Instant, timeout};

async fn api() -> Api {
    let config = Config::default().gc(false).seed(1).request_log(100);
    Api::new(config).await
}

fn one(rule: Rule) -> FaultPlan {
    FaultPlan::new(1).rule(rule)
}

/// The last request that was hit.
fn hit(api: &Api) -> RequestRecord {
    let mut requests = api.server.requests().into_iter();
    requests.rfind(|request| !request.faults.is_empty()).unwrap()
}

/// Creates a slice under a fault; the second value is whether it is there afterwards.
async fn create_under(api: &Api, fault: Fault) -> (io::Result<Answer>, bool) {
    let spared = api.spared();
    spared.call("DELETE", &format!("{SLICES}/web-1"), json!({})).await;
    api.server
        .set_faults(one(Rule::on(Verb::Create, "endpointslices").fault(fault)));
    let answer = api.attempt("POST", SLICES, slice("web-1")).await;
    (answer, !spared.is_gone(&format!("{SLICES}/web-1")).await)
}

#[tokio::test(start_paused = true)]
async fn refusals_read_as_the_real_servers() {
    let api = api().await;
    let busy = Failure::TooManyRequests { retry_after: 7 };
    let cases = [
        (Failure::Conflict, 409, "Conflict", "cannot be fulfilled"),
        (Failure::AlreadyExists, 409, "AlreadyExists", "already exists"),
        (Failure::NotFound, 404, "NotFound", "not found"),
        (Failure::Forbidden, 403, "Forbidden", "cannot create resource"),
        (
            Failure::NamespaceTerminating,
            403,
            "Forbidden",
            "being terminated",
        ),
        (Failure::Invalid, 422, "Invalid", "metadata.annotations: Too long"),
        (busy, 429, "TooManyRequests", "try again later"),
        (Failure::Internal, 500, "InternalError", "Internal error occurred"),
        (Failure::StorageTimeout, 500, "", "etcdserver: request timed out"),
        (Failure::Unavailable, 503, "ServiceUnavailable", "unable"),
        (Failure::Timeout, 504, "Timeout", "allotted timeout"),
    ];
    for (failure, code, reason, said) in cases {
        for stage in [Stage::Before, Stage::After] {
            let (answer, there) = create_under(&api, Fault::Fail(stage, failure)).await;
            let answer = answer.unwrap();
            let status = &answer.body;
            assert_eq!(
                (answer.status, &status["kind"], &status["code"]),
                (code, &json!("Status"), &json!(code))
            );
            assert_eq!(status["reason"].as_str().unwrap_or(""), reason);
            let message = status["message"].as_str().unwrap();
            assert!(message.contains(said), "{failure:?}: {message}");
            if matches!(code, 403..=409) {
                assert!(
                    message.contains(r#"endpointslices.discovery.k8s.io "web-1""#),
                    "{message}"
                );
                assert_eq!(status["details"]["name"], "web-1");
            }
            if failure == busy {
                assert_eq!(
                    (&*answer.retry_after, &status["details"]["retryAfterSeconds"]),
                    ("7", &json!(7))
                );
            }
            assert_eq!(there, stage == Stage::After, "{failure:?} {stage:?}");
            let record = hit(&api);
            assert_eq!(record.faults, [format!("{failure:?} {stage:?}")]);
            assert_eq!((record.status, record.applied), (code, there));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_no_status() {
    let api = api().await;
    for (failure, status, retry_after, text) in [
        (Failure::NoRoute, 404, "", "default backend - 404"),
        (
            Failure::Overloaded { retry_after: 1 },
            429,
            "1",
            "Too many requests, please try again later.\n",
        ),
    ] {
        for stage in [Stage::Before, Stage::After] {
            let (answer, there) = create_under(&api, Fault::Fail(stage, failure)).await;
            let answer = answer.unwrap();
            assert_eq!((answer.status, &*answer.retry_after), (status, retry_after));
            assert_eq!(
                (&*answer.media, &answer.raw[..]),
                ("text/plain; charset=utf-8", text.as_bytes())
            );
            assert_eq!(there, stage == Stage::After);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn lost_connections() {
    let api = api().await;
    for (failure, kind) in [
        (Failure::Reset, ErrorKind::ConnectionReset),
        (Failure::Closed, ErrorKind::UnexpectedEof),
    ] {
        for stage in [Stage::Before, Stage::After] {
            let (answer, there) = create_under(&api, Fault::Fail(stage, failure)).await;
            assert_eq!(answer.unwrap_err().kind(), kind);
            assert_eq!(there, stage == Stage::After);
            let record = hit(&api);
            assert_eq!((record.status, record.applied), (0, there));
        }
    }
    // A head that promises all, and a body that breaks off.
    let (answer, there) = create_under(&api, Fault::CutAnswer).await;
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert!(there);
}

#[tokio::test(start_paused = true)]
async fn hanging_requests_go_on_when_the_plan_is_cleared() {
    for stage in [Stage::Before, Stage::After] {
        let api = api().await;
        let spared = api.spared();
        let hangs = Rule::on(Verb::Create, "pods").fault(Fault::Fail(stage, Failure::Hang));
        api.server.set_faults(one(hangs));
        // A client that gives up.
        let given_up = timeout(Duration::from_secs(3600), api.attempt("POST", PODS, pod("a"))).await;
        assert!(given_up.is_err());
        assert_eq!(spared.is_gone(&format!("{PODS}/a")).await, stage == Stage::Before);
        let record = &api.server.requests()[1];
        assert_eq!(record.faults, [format!("Hang {stage:?}")]);
        assert_eq!((record.status, record.applied), (0, stage == Stage::After));
        assert_eq!(record.at, Duration::from_secs(3600));
        // One that waits.
        let waiting = api.attempt("POST", PODS, pod("b"));
        let clears = async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert_eq!(spared.is_gone(&format!("{PODS}/b")).await, stage == Stage::Before);
            api.server.clear_faults();
        };
        let (answer, ()) = tokio::join!(waiting, clears);
        assert_eq!(answer.unwrap().status, 201);
        assert!(!spared.is_gone(&format!("{PODS}/b")).await);
        assert_eq!(api.server.fault_counts(), [(format!("Hang {stage:?}"), 2)].into());
    }
}

#[tokio::test(start_paused = true)]
async fn delays_add_up_before_and_after() {
    let api = api().await;
    let spared = api.spared();
    let wait = |stage, ms| Fault::Delay(stage, Latency::Constant(Duration::from_millis(ms)));
    let plan = FaultPlan::new(1)
        .rule(Rule::on(Verb::Create, "pods").fault(wait(Stage::Before, 100)))
        .rule(Rule::on(Verb::Create, "pods").fault(wait(Stage::Before, 50)))
        .rule(Rule::on(Verb::Create, "pods").fault(wait(Stage::After, 1000)));
    api.server.set_faults(plan);
    let began = Instant::now();
    let looks = async {
        tokio::time::sleep(Duration::from_millis(149)).await;
        assert!(spared.is_gone(&format!("{PODS}/a")).await);
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert!(!spared.is_gone(&format!("{PODS}/a")).await);
    };
    let (answer, ()) = tokio::join!(api.attempt("POST", PODS, pod("a")), looks);
    assert_eq!(answer.unwrap().status, 201);
    assert_eq!(Instant::now() - began, Duration::from_millis(1150));
    // Cleared in the middle, the rest is not waited for, nor does another fault follow.
    let rule = Rule::on(Verb::Create, "pods");
    let plan = FaultPlan::new(1)
        .rule(rule.clone().fault(wait(Stage::Before, 10_000)))
        .rule(rule.fault(Fault::before(Failure::Internal)));
    api.server.set_faults(plan);
    let began = Instant::now();
    let clears = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        api.server.clear_faults();
    };
    let (answer, ()) = tokio::join!(api.attempt("POST", PODS, pod("b")), clears);
    assert_eq!(answer.unwrap().status, 201);
    assert_eq!(Instant::now() - began, Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn latencies_keep_to_their_bounds() {
    let ms = Duration::from_millis;
    let mean = Latency::Exponential {
        mean: ms(100),
        cap: ms(250),
    };
    let api = api().await;
    for (latency, least, middle, most) in [
        (Latency::Uniform(ms(20), ms(40)), 20..30, 25..35, 35..42),
        (mean, 0..5, 50..90, 250..252),
    ] {
        let rule = Rule::on(Verb::Get, "namespaces").fault(Fault::Delay(Stage::Before, latency.clone()));
        api.server.set_faults(one(rule));
        let mut times = Vec::new();
        for _ in 0..300 {
            let began = Instant::now();
            api.get("/api/v1/namespaces/ns").await;
            times.push((Instant::now() - began).as_millis());
        }
        times.sort_unstable();
        let within = least.contains(&times[0]) && middle.contains(&times[150]) && most.contains(&times[299]);
        assert!(within, "{latency:?}: {} {} {}", times[0], times[150], times[299]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_budget_makes_wait_or_refuses() {
    let budget = |over| {
        let fault = Fault::Budget {
            per_second: 10.0,
            burst: 3,
            over,
        };
        one(Rule::on(Verbs::WRITES, Resources::ALL).fault(fault))
    };
    let api = api().await;
    api.server.set_faults(budget(Over::Wait));
    let began = Instant::now();
    let names: Vec<String> = (0..13).map(|i| format!("p{i}")).collect();
    let writes = names.iter().map(|name| async {
        let answer = api.call("POST", PODS, pod(name)).await;
        (answer.status, (Instant::now() - began).as_millis())
    });
    let done = futures::future::join_all(writes).await;
    assert!(done.iter().all(|(status, _)| *status == 201));
    let after: Vec<u128> = done.iter().map(|(_, ms)| *ms).collect();
    assert_eq!(after[..3], [0, 0, 0], "the burst");
    for (i, ms) in after.iter().enumerate().skip(3) {
        let due = (i as u128 - 2) * 100;
        assert!((due..=due + 1).contains(ms), "write {i} after {ms} ms");
    }
    assert_eq!(api.server.fault_counts().into_values().sum::<u64>(), 10);
    // Reads are free.
    api.get(PODS).await;
    api.server.set_faults(budget(Over::Refuse));
    let mut taken = 0;
    for i in 0..40 {
        let answer = api.call("POST", PODS, pod(&format!("q{i}"))).await;
        assert!(matches!(answer.status, 201 | 429), "{}", answer.status);
        taken += u32::from(answer.status == 201);
        tokio::time::advance(Duration::from_millis(50)).await;
    }
    // Two seconds at ten a second, and the burst.
    assert!((21..=23).contains(&taken), "{taken}");
}

#[tokio::test(start_paused = true)]
async fn a_paged_list_fails_in_the_middle() {
    let api = api().await;
    for i in 0..6 {
        api.create(PODS, pod(&format!("p{i}"))).await;
    }
    let next = |list: &Value| {
        format!(
            "{PODS}?limit=2&continue={}",
            list["metadata"]["continue"].as_str().unwrap()
        )
    };
    for (failure, code) in [(Failure::Gone, 410), (Failure::Internal, 500)] {
        let pages = Rule::on(Verb::List, "pods").continued().skip(1);
        api.server.set_faults(one(pages.fault(Fault::before(failure))));
        let first = api.get(&format!("{PODS}?limit=2")).await;
        let second = api.get(&next(&first)).await;
        let third = api.call("GET", &next(&second), Value::Null).await;
        assert_eq!(third.status, code);
        if code == 410 {
            // The rest can be had at the present version.
            let rest = api.spared().get(&next(&third.body)).await;
            assert_eq!(crate::client::names(&rest), ["p4", "p5"]);
        }
        // A whole list is no page.
        assert_eq!(crate::client::names(&api.get(PODS).await).len(), 6);
    }
}

#[tokio::test(start_paused = true)]
async fn compactions_make_versions_too_old() {
    let api = api().await;
    let first = crate::client::version(&api.create(PODS, pod("a")).await);
    api.create(PODS, pod("b")).await;
    let compacts = Rule::on(Verb::Get, "pods").at_most(1).fault(Fault::Compact);
    api.server.set_faults(one(compacts));
    let path = format!("{PODS}?watch=1&timeoutSeconds=1&resourceVersion={first}");
    assert_eq!(api.watch(&path).await.told().await, "ADDED b");
    api.get(&format!("{PODS}/a")).await;
    let told = api.watch(&path).await.rest().await;
    assert_eq!(told[0]["object"]["code"], 410);
    assert_eq!(api.server.fault_counts()["Compact"], 1);
}
