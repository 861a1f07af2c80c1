//! The real binary under the rules that `deploy/kustomize` grants it, on a server that enforces them: they are
//! enough for all that it does, and each of them is used; and when one is missing, the log says which.

pub(crate) mod grants;
pub(crate) mod process;

use crate::cluster::Api;
use crate::objects;
use futures::StreamExt as _;
use grants::{Grant, Grants};
use memory_apiserver::{Config, Fault, FaultPlan, Handle, Resources, Rule, Verb, start};
use process::WithToken;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Far longer than anything takes on a machine that is busy with other things.
const LIMIT: Duration = Duration::from_secs(90);
const LOOK: Duration = Duration::from_millis(50);
const MANAGED: &str = "endpoints.kubernetes.io/managed-by";

/// Grants that `run` itself never uses, and why they are there.
const UNUSED: [(&str, &str, &str); 6] = [
    ("pods", "get", "`explain` asks for one pod"),
    ("nodes", "get", "and for the nodes of its pods"),
    (
        "endpoints/restricted",
        "create",
        "asked for by admission plugins before they take addresses of pods",
    ),
    ("endpointslices/restricted", "create", "likewise"),
    (
        "services/finalizers",
        "update",
        "asked for by OwnerReferencesPermissionEnforcement",
    ),
    ("leases", "list", "not granted: a watch of one name is"),
];

/// A server that enforces rules. Lists are streamed by it, or not.
async fn server(grants: &[&Grants], streams: bool) -> (Handle, Api) {
    let handle = start(
        Config::default()
            .request_log(50_000)
            .access(grants::access(grants)),
    )
    .await
    .unwrap();
    if !streams {
        let watches = Rule::on(Verb::Watch, Resources::ALL).fault(Fault::NoStreamingLists);
        handle.server().set_faults(FaultPlan::new(1).rule(watches));
    }
    let service = handle.server().service_without_faults().with_token(grants::ADMIN);
    let api = Api(kube::Client::new(service, "default"));
    (handle, api)
}

fn service(name: &str) -> Value {
    objects::service_with(&json!({"metadata": {"name": name}}))
}

async fn pod(api: &Api, number: usize) {
    let pod = objects::pod(&format!("p{number}"), &format!("10.1.0.{number}"), "n");
    // The pod may be there already.
    let _ = api.create(&pod, "default").await;
}

/// A Service, its pods, and Endpoints that have lost theirs.
async fn fill(api: &Api) {
    api.create(&objects::node("n", None, None), "").await.unwrap();
    for number in 1..=3 {
        pod(api, number).await;
    }
    api.create(&service("s"), "default").await.unwrap();
    let labels = json!({MANAGED: "endpoint-controller"});
    let left =
        json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "left", "labels": labels}});
    api.create(&left, "default").await.unwrap();
}

/// Some of everything happens, so that everything has to be done.
async fn disturb(api: &Api, round: usize) {
    let odd = json!({"metadata": {"labels": {"odd": round.to_string()}}});
    let second = round.is_multiple_of(2);
    let conditions = [objects::ready_condition(second, round as u32)];
    let status = json!({"status": {"conditions": conditions}});
    let _ = api.patch("Pod", "default", "p1", Some("status"), &status).await;
    let _ = api.patch("Endpoints", "default", "s", None, &odd).await;
    for slice in api.slices_of("default", "s").await.unwrap().iter().take(1) {
        let name = slice["metadata"]["name"].as_str().unwrap();
        let _ = api.patch("EndpointSlice", "default", name, None, &odd).await;
    }
    let mode = if second { json!("Auto") } else { Value::Null };
    let mode = json!({"metadata": {"annotations": {"service.kubernetes.io/topology-mode": mode}}});
    let _ = api.patch("Service", "default", "s", None, &mode).await;
    if second {
        let _ = api.create(&service("t"), "default").await;
        pod(api, 3).await;
    } else {
        let _ = api.delete("Service", "default", "t", None).await;
        let _ = api.delete("Pod", "default", "p3", Some(0)).await;
    }
}

/// Waits until something is so, and disturbs meanwhile.
async fn until(
    what: &str,
    api: Option<&Api>,
    process: &mut WithToken,
    mut is_so: impl AsyncFnMut(&str) -> bool,
) {
    let begin = Instant::now();
    let mut round = 0;
    loop {
        let log = process.log();
        if is_so(&log).await {
            return;
        }
        assert!(process.is_running(), "it has ended\n{log}");
        let waited = Instant::now().saturating_duration_since(begin);
        assert!(waited < LIMIT, "{what}: not within {LIMIT:?}\n{log}");
        if let Some(api) = api {
            disturb(api, round).await;
            round += 1;
        }
        sleep(LOOK).await;
    }
}

/// Requests that were answered, as `PUT endpoints`.
fn done(handle: &Handle, since: usize) -> BTreeSet<String> {
    let requests = handle.server().requests().into_iter().skip(since);
    let requests = requests.filter(|request| request.status < 300);
    requests
        .map(|request| format!("{} {}", request.method, grants::resource_of(&request.path)))
        .collect()
}

fn forbidden(log: &str) -> Vec<&str> {
    log.lines().filter(|line| line.contains("forbidden")).collect()
}

#[tokio::test]
async fn the_rules_are_enough_for_all_that_is_done() {
    for streams in [true, false] {
        let grants = Grants::of_base();
        let (handle, api) = server(&[&grants], streams).await;
        fill(&api).await;
        let mut process = WithToken::start(&handle, grants.token(), &["--max-endpoints-per-slice=1"]);
        let events = async || {
            let list = api.call(http::Method::GET, "/api/v1/events", None).await.unwrap();
            let counts = list["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|event| event["count"].as_u64());
            counts.max().flatten().unwrap_or(0)
        };
        until(
            "an Event that has happened again",
            Some(&api),
            &mut process,
            async |_| events().await > 1,
        )
        .await;
        until("the leftover is gone", None, &mut process, async |_| {
            let left = Api::path("Endpoints", "default", Some("left")).unwrap();
            api.call(http::Method::GET, &left, None).await.is_err()
        })
        .await;
        let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/endpointd";
        process.terminate().await;
        let lease = api.call(http::Method::GET, lease, None).await.unwrap();
        assert_eq!(lease["spec"]["holderIdentity"], "", "it was given up");
        let done = done(&handle, 0);
        for needed in [
            "DELETE endpointslices",
            "DELETE endpoints",
            "POST events",
            "PATCH events",
            "PUT leases",
        ] {
            assert!(done.contains(needed), "{needed}: {done:?}");
        }
        assert_eq!(forbidden(&process.log()), [""; 0]);
    }
}

/// Takes away one verb on one resource, and waits until the log names both.
async fn without(grant: Grant) -> Result<(), String> {
    let grants = Grants::of_base().without(&grant);
    // A server that streams lists is not asked for any.
    let (handle, api) = server(&[&grants], false).await;
    fill(&api).await;
    let mut process = WithToken::start(
        &handle,
        grants.token(),
        &[
            "--max-endpoints-per-slice=1",
            "--leader-elect-lease-duration=3s",
            "--leader-elect-renew-deadline=2s",
            "--leader-elect-retry-period=200ms",
        ],
    );
    let resource = grant.resource.split('/').next().unwrap();
    let named = format!(r#"cannot {} resource "{resource}""#, grant.verb).replace('"', "");
    let begin = Instant::now();
    let mut round = 0;
    while Instant::now().saturating_duration_since(begin) < LIMIT {
        let log = process.log().replace(['"', '\\'], "");
        let lines = forbidden(&log);
        if lines
            .iter()
            .any(|line| line.contains(&named) && line.contains("WARN"))
        {
            let others: Vec<_> = lines.iter().filter(|line| !line.contains(&named)).collect();
            return if others.is_empty() {
                Ok(())
            } else {
                Err(format!("{grant:?}: others are refused too: {others:?}"))
            };
        }
        if !process.is_running() {
            break;
        }
        disturb(&api, round).await;
        round += 1;
        sleep(LOOK).await;
    }
    Err(format!("{grant:?}: nothing says {named}\n{}", process.log()))
}

#[tokio::test]
async fn each_rule_that_is_missing_is_named_in_the_log() {
    let mut grants: Vec<Grant> = Grants::of_base().all();
    for (resource, verb, why) in UNUSED {
        let before = grants.len();
        grants.retain(|grant| (&*grant.resource, &*grant.verb) != (resource, verb));
        let granted = before > grants.len();
        assert_eq!(
            granted,
            !why.starts_with("not granted"),
            "{verb} {resource}: {why}"
        );
    }
    assert!(grants.len() >= 25, "{grants:?}");
    let outcomes = futures::stream::iter(grants.into_iter().map(without)).buffer_unordered(3);
    let failed: Vec<String> = outcomes.filter_map(async |outcome| outcome.err()).collect().await;
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// The value of a metric, and 0 before it is there.
fn value(metrics: &str, name: &str) -> f64 {
    let line = metrics
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0.0, |value| value.parse().unwrap())
}

#[tokio::test]
async fn a_dry_run_beside_a_leader_may_only_read_and_only_reads() {
    let (writer, reader) = (Grants::of_base(), Grants::of_dry_run());
    for Grant { verb, resource, .. } in reader.all() {
        assert!(["get", "list", "watch"].contains(&&*verb), "{verb} {resource}");
        assert_ne!(resource, "leases");
    }
    let (handle, api) = server(&[&writer, &reader], true).await;
    fill(&api).await;
    let leader = WithToken::start(&handle, writer.token(), &[]);
    let address = process::free_address();
    let port = format!("--admin-port={}", address.port());
    let mut dry_run = WithToken::start(
        &handle,
        reader.token(),
        &["--dry-run", "--dry-run-patience=2s", &port],
    );
    let metrics = async || process::metrics(address).await;
    let compared = "endpointd_dry_run_comparisons_total";
    let (out, oldest) = (
        "endpointd_services_out_of_sync",
        "endpointd_services_out_of_sync_oldest_seconds",
    );
    until("both work", Some(&api), &mut dry_run, async |_| {
        value(&metrics().await, compared) >= 10.0
    })
    .await;
    until("all is in sync", None, &mut dry_run, async |_| {
        value(&metrics().await, out) == 0.0
    })
    .await;

    drop(leader);
    let before = handle.server().requests().len();
    api.create(&service("alone"), "default").await.unwrap();
    until("the difference is logged", None, &mut dry_run, async |log| {
        let metrics = metrics().await;
        value(&metrics, out) >= 1.0 && value(&metrics, oldest) >= 2.0 && log.contains("dry run: out of sync")
    })
    .await;
    let text = metrics().await;
    let created = value(
        &text,
        r#"endpointd_dry_run_differences_total{operation="create"}"#,
    );
    assert!(created >= 2.0, "a slice and Endpoints: {text}");
    let log = dry_run.log();
    let logged: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("service=alone"))
        .collect();
    assert_eq!(logged.len(), 1, "{log}");
    for part in [
        "WARN",
        "namespace=default",
        "create EndpointSlice",
        "create Endpoints alone",
    ] {
        assert!(logged[0].contains(part), "{part}: {}", logged[0]);
    }
    // Without the leader, only this test writes: one Service.
    let requests = handle.server().requests();
    let writes: Vec<_> = requests[before..]
        .iter()
        .filter(|request| request.method != "GET")
        .collect();
    assert_eq!(writes.len(), 1, "{writes:?}");

    let _leader = WithToken::start(&handle, writer.token(), &[]);
    until("it is in sync again", None, &mut dry_run, async |log| {
        let again = |line: &str| line.contains("in sync again") && line.contains("service=alone");
        value(&metrics().await, out) == 0.0 && log.lines().any(again)
    })
    .await;
    let refused = handle
        .server()
        .requests()
        .into_iter()
        .filter(|request| request.status == 403);
    assert_eq!(refused.count(), 0);
    assert_eq!(forbidden(&dry_run.log()), [""; 0]);
    dry_run.terminate().await;
}
