//! Plans: which requests they hit, that they replay, and that they end.

use crate::client::{Api, PODS, SLICES, Watch, pod, slice};
use http::Request;
use http_body_util::Full;
use memory_apiserver::{
    Config, Failure, Fault, FaultPlan, FaultRecord, RequestRecord, Resources, Rule, Verb, Verbs, WatchFault,
};
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashSet};
use std::mem::discriminant;
use std::time::Duration;
use tokio::time::{Instant, timeout};

async fn api(request_log: usize) -> Api {
    let config = Config::default()
        .gc(false)
        .seed(1)
        .start_time("2030-01-01T00:00:00Z".parse().unwrap())
        .request_log(request_log);
    Api::new(config).await
}

fn refuse() -> Fault {
    Fault::before(Failure::Internal)
}

/// Which of `n` requests to read the namespace fail.
async fn failing(api: &Api, n: usize) -> Vec<usize> {
    let mut failed = Vec::new();
    for i in 1..=n {
        let answer = api.call("GET", "/api/v1/namespaces/ns", Value::Null).await;
        if answer.status == 500 {
            failed.push(i);
        }
    }
    failed
}

#[tokio::test(start_paused = true)]
async fn counts_rates_and_windows() {
    let api = api(0).await;
    let on = || Rule::on(Verb::Get, "namespaces");
    let set = |rule: Rule| api.server.set_faults(FaultPlan::new(3).rule(rule));
    set(on().at_most(2).fault(refuse()));
    assert_eq!(failing(&api, 6).await, [1, 2]);
    set(on().every(3).fault(refuse()));
    assert_eq!(failing(&api, 10).await, [3, 6, 9]);
    set(on().skip(4).every(2).at_most(2).fault(refuse()));
    assert_eq!(failing(&api, 12).await, [6, 8]);
    set(on().rate(0.25).fault(refuse()));
    let some = failing(&api, 1000).await.len();
    assert!((200..300).contains(&some), "{some}");
    assert_eq!(api.server.faults_injected().len(), some);
    let seconds = Duration::from_secs;
    set(on().between(seconds(10), seconds(20)).fault(refuse()));
    assert!(failing(&api, 1).await.is_empty());
    tokio::time::advance(seconds(10)).await;
    assert_eq!(failing(&api, 1).await, [1]);
    assert_eq!(api.server.faults_injected()[0].at, seconds(10));
    tokio::time::advance(seconds(10)).await;
    assert!(failing(&api, 1).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn only_what_the_rule_is_about() {
    let api = api(0).await;
    let rule = Rule::on([Verb::Create, Verb::Delete], ["pods", "endpointslices"]);
    let rule = rule.namespace("n").name("web-").fault(refuse());
    api.server.set_faults(FaultPlan::new(1).rule(rule));
    let namespaces = "/api/v1/namespaces";
    let mut generated = slice("");
    generated["metadata"] = json!({"generateName": "web-"});
    for (method, path, body, status) in [
        (
            "POST",
            namespaces,
            json!({"metadata": {"name": "web-other"}}),
            201,
        ),
        ("POST", "/api/v1/namespaces/web-other/pods", pod("web-1"), 201),
        ("POST", PODS, pod("db-1"), 201),
        ("POST", PODS, pod("web-1"), 500),
        ("POST", SLICES, generated, 500),
        ("DELETE", &format!("{PODS}/web-1"), json!({}), 500),
        ("GET", PODS, Value::Null, 200),
    ] {
        assert_eq!(
            api.call(method, path, body).await.status,
            status,
            "{method} {path}"
        );
    }
    let hit = api.server.faults_injected();
    let told: Vec<_> = hit.iter().map(|r| (r.verb.name(), r.resource)).collect();
    assert_eq!(
        told,
        [
            ("create", "pods"),
            ("create", "endpointslices"),
            ("delete", "pods")
        ]
    );
    // Documents are for no rule.
    let all = Rule::on(Verbs::ALL, "*").fault(refuse());
    api.server.set_faults(FaultPlan::new(1).rule(all));
    api.get("/version").await;
    assert_eq!(api.call("GET", PODS, Value::Null).await.status, 500);
}

#[test]
#[should_panic(expected = "only a rule for watches")]
fn a_watch_fault_without_watches_is_a_mistake() {
    let fault = WatchFault::Repeat { rate: 1.0 };
    let _ = FaultPlan::new(1).rule(Rule::on(Verbs::WRITES, Resources::ALL).fault(fault.into()));
}

#[tokio::test(start_paused = true)]
async fn clients_are_told_apart() {
    let api = api(0).await;
    let path = "/api/v1/namespaces/ns";
    let forbidden = Rule::on(Verb::Get, "*")
        .client("endpointd-b")
        .fault(Fault::before(Failure::Forbidden));
    let plan = FaultPlan::new(1).only_client("endpointd").rule(forbidden);
    api.server
        .set_faults(plan.rule(Rule::on(Verb::Get, "*").fault(refuse())));
    for (client, status) in [("endpointd-a", 500), ("endpointd-b", 403), ("kubectl", 200)] {
        let named = api.through(api.server.service_as(client));
        assert_eq!(named.call("GET", path, Value::Null).await.status, status);
        let agent = [("user-agent", client)];
        assert_eq!(api.raw("GET", path, &agent, b"").await.status, status);
        assert_eq!(api.spared().raw("GET", path, &agent, b"").await.status, 200);
    }
    api.get(path).await;
}

#[tokio::test(start_paused = true)]
async fn the_first_fate_counts_and_later_rules_are_not_asked() {
    let api = api(10).await;
    let on = || Rule::on(Verb::Get, "namespaces");
    let plan = FaultPlan::new(1)
        .rule(on().at_most(1).fault(Fault::before(Failure::Conflict)))
        .rule(on().at_most(1).fault(refuse()));
    api.server.set_faults(plan);
    assert_eq!(failing(&api, 4).await, [2]);
    let hit: Vec<_> = api
        .server
        .requests()
        .into_iter()
        .map(|r| (r.status, r.faults))
        .collect();
    assert_eq!(hit[1], (409, vec!["Conflict Before".to_owned()]));
    assert_eq!(hit[2], (500, vec!["Internal Before".to_owned()]));
    assert_eq!(hit[3], (200, Vec::new()));
}

/// The result of a run: the log, the faults, the answers and all that remained, and what came from watches and when.
type Told = (Vec<RequestRecord>, Vec<FaultRecord>, Vec<Value>, Vec<Piece>);
type Piece = (Duration, String);

/// Watches a collection, again and again, for as long as the run takes.
async fn watching(api: Api, path: String, began: Instant) -> Vec<Piece> {
    let mut told = Vec::new();
    while Instant::now() - began < Duration::from_secs(60) {
        let request = Request::get(&path).body(Full::default()).unwrap();
        if let Ok(Ok(response)) = timeout(Duration::from_secs(3), api.try_send(request)).await {
            told.push((Instant::now() - began, response.status().to_string()));
            let mut watch = Watch::of(response.into_body());
            while let Some(piece) = watch.piece().await {
                let piece =
                    piece.map_or_else(|e| e.to_string(), |p| String::from_utf8_lossy(&p).into_owned());
                told.push((Instant::now() - began, piece));
            }
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    told
}

/// A fixed sequence of requests beside two watches.
async fn run(plan: Option<FaultPlan>) -> Told {
    let api = api(10_000).await;
    let began = Instant::now();
    let watches: Vec<_> = [PODS, SLICES]
        .into_iter()
        .map(|collection| {
            let path = format!("{collection}?watch=1&timeoutSeconds=30&allowWatchBookmarks=1");
            tokio::spawn(watching(api.through(api.service.clone()), path, began))
        })
        .collect();
    tokio::task::yield_now().await;
    if let Some(plan) = plan {
        api.server.set_faults(plan);
    }
    let mut answers = Vec::new();
    for i in 0..60 {
        for (collection, body) in [(PODS, pod(&format!("p{i}"))), (SLICES, slice(&format!("s{i}")))] {
            for (method, path, body) in [
                ("POST", collection.to_owned(), body),
                (
                    "PATCH",
                    format!("{collection}/p{i}"),
                    json!({"metadata": {"labels": {"x": "y"}}}),
                ),
                ("DELETE", format!("{collection}/s{i}"), json!({})),
            ] {
                let attempt = timeout(Duration::from_secs(3), api.attempt(method, &path, body));
                answers.push(json!(match attempt.await {
                    Ok(Ok(answer)) => answer.status.to_string(),
                    Ok(Err(error)) => error.to_string(),
                    Err(_) => "hangs".to_owned(),
                }));
            }
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    let mut told = Vec::new();
    for watch in watches {
        told.extend(watch.await.unwrap());
    }
    answers.extend(api.spared().everything().await);
    (api.server.requests(), api.server.faults_injected(), answers, told)
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_meets_the_same_faults() {
    let mut seen = BTreeSet::new();
    let mut differ = 0;
    for seed in 0..20 {
        let first = run(Some(FaultPlan::random(seed))).await;
        let again = run(Some(FaultPlan::random(seed))).await;
        assert_eq!(first, again, "{}", FaultPlan::random(seed));
        let other = FaultPlan::random(seed)
            .rules()
            .iter()
            .fold(FaultPlan::new(seed + 1000), |plan, rule| plan.rule(rule.clone()));
        differ += u32::from(run(Some(other)).await != first);
        seen.extend(first.1.into_iter().map(|r| r.fault));
    }
    assert!(differ >= 15, "the seed also decides what rules draw: {differ}");
    assert!(seen.len() > 30, "random plans bite: {seen:?}");
}

#[tokio::test(start_paused = true)]
async fn without_a_plan_nothing_changes() {
    let plain = run(None).await;
    assert!(plain.1.is_empty());
    let is_plain =
        |request: &RequestRecord| request.faults.is_empty() && request.applied == (request.status < 300);
    assert!(plain.0.iter().all(is_plain));
    // Nor with one that is for others.
    let nobody = FaultPlan::random(1).only_client("nobody");
    assert_eq!(run(Some(nobody)).await, plain);
    let api = api(0).await;
    let rule = Rule::on(Verbs::ALL, "*").fault(refuse());
    api.server.set_faults(FaultPlan::new(1).rule(rule));
    assert_eq!(failing(&api, 3).await.len(), 3);
    api.server.clear_faults();
    assert_eq!(failing(&api, 3).await.len(), 0);
    assert_eq!(
        api.server.fault_counts()["Internal Before"],
        3,
        "what it did stays"
    );
    api.server.set_faults(FaultPlan::new(1));
    assert!(api.server.fault_counts().is_empty());
}

#[test]
fn random_plans_are_of_all_sorts() {
    let (mut faults, mut failures, mut within) = (HashSet::new(), HashSet::new(), HashSet::new());
    for seed in 0..500 {
        let plan = FaultPlan::random(seed);
        assert_eq!(plan.to_string(), FaultPlan::random(seed).to_string());
        assert!((8..=15).contains(&plan.rules().len()), "{plan}");
        for rule in plan.rules() {
            faults.insert(discriminant(rule.what()));
            match rule.what() {
                Fault::Fail(_, failure) => _ = failures.insert(discriminant(failure)),
                Fault::Watch(fault) => _ = within.insert(discriminant(fault)),
                _ => {}
            }
        }
        let without = plan.retain(|fault| !matches!(fault, Fault::Watch(_)));
        assert!(
            without
                .rules()
                .iter()
                .all(|r| !matches!(r.what(), Fault::Watch(_)))
        );
    }
    assert_eq!(
        (faults.len(), failures.len(), within.len()),
        (7, 17, 8),
        "every sort of fault"
    );
}
