//! The real binary serves the metrics that the documentation lists: these, no others, with these types and labels; and
//! they say what is the case.

#![allow(clippy::unwrap_used)] // Tests: a panic is the failure.

#[path = "support/cluster.rs"]
#[allow(dead_code)] // Other tests use more of it.
mod cluster;
#[path = "support/http.rs"]
#[allow(dead_code)] // Other tests use more of it.
mod http_client;
#[path = "support/objects.rs"]
#[allow(dead_code)] // Other tests use more of it.
mod objects;
#[path = "support/process.rs"]
#[allow(dead_code)] // Other tests use more of it.
mod process;

use cluster::Api;
use http_client::get;
use memory_apiserver::{After, Config, Ending, Failure, Fault, FaultPlan, Rule, Verb, WatchFault};
use process::Process;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const SERVICES: usize = 12;
const PODS: u8 = 8;

/// A series: its labels and its value.
type Series = (BTreeMap<String, String>, f64);

/// A metric as it is documented: its type and its labels.
type Documented = (String, BTreeSet<String>);

/// The metrics that are served.
#[derive(Default)]
struct Scrape {
    types: BTreeMap<String, String>,
    /// By metric: a histogram's `_count`, `_sum` and `_bucket` are its own.
    labels: BTreeMap<String, BTreeSet<BTreeSet<String>>>,
    series: BTreeMap<String, Vec<Series>>,
}

impl Scrape {
    fn parse(text: &str) -> Self {
        let mut scrape = Self::default();
        for line in text.lines().filter(|line| !line.is_empty()) {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                let before = scrape.types.insert(name.to_owned(), kind.to_owned());
                assert_eq!(before, None, "{name} is declared twice");
            } else if !line.starts_with('#') {
                scrape.parse_series(line);
            }
        }
        scrape
    }

    fn parse_series(&mut self, line: &str) {
        let (head, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = head.split_once('{').unwrap_or((head, "}"));
        let labels = labels.strip_suffix('}').unwrap();
        // No value here holds a comma.
        let mut labels: BTreeMap<String, String> = labels
            .split(',')
            .filter_map(|label| {
                let (key, value) = label.split_once('=')?;
                Some((key.to_owned(), value.trim_matches('"').to_owned()))
            })
            .collect();
        let base = ["_bucket", "_sum", "_count"]
            .iter()
            .filter_map(|suffix| name.strip_suffix(suffix))
            .find(|base| self.types.get(*base).is_some_and(|kind| kind == "histogram"))
            .unwrap_or(name);
        let value = value.parse().unwrap();
        self.series
            .entry(name.to_owned())
            .or_default()
            .push((labels.clone(), value));
        labels.remove("le");
        let keys = labels.into_keys().collect();
        self.labels.entry(base.to_owned()).or_default().insert(keys);
    }

    /// The sum of the series that have these labels.
    fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let series = self.series.get(name).into_iter().flatten();
        let fits = |(of, _): &&Series| {
            labels
                .iter()
                .all(|(key, value)| of.get(*key).is_some_and(|v| v == value))
        };
        series.filter(fits).map(|(_, value)| value).sum()
    }
}

fn documented() -> BTreeMap<String, Documented> {
    let text = include_str!("../docs/metrics.md");
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    let rows = rows.map(|row| {
        let cells: Vec<&str> = row.split(" | ").map(str::trim).collect();
        let name = cells[0].trim_start_matches("| ").trim_matches('`');
        let labels = cells[2].split(", ").filter(|label| !label.is_empty());
        let labels = labels.map(|label| label.trim_matches('`').to_owned()).collect();
        (name.to_owned(), (cells[1].to_owned(), labels))
    });
    rows.collect()
}

fn pod(number: u8, ready: bool) -> Value {
    let mut pod = objects::pod(&format!("p{number}"), &format!("10.1.0.{number}"), "n1");
    pod["status"]["conditions"] = json!([objects::ready_condition(ready, u32::from(ready))]);
    pod
}

/// Scrapes until something is so.
async fn until(address: SocketAddr, what: &str, is_so: impl Fn(&Scrape) -> bool) -> Scrape {
    let (start, mut last) = (Instant::now(), String::new());
    loop {
        // The program may not listen yet.
        if let Ok(answer) = get(address, "/metrics").await {
            let scrape = Scrape::parse(&answer.body);
            if is_so(&scrape) {
                return scrape;
            }
            let of_ours = |line: &&str| line.starts_with("endpoint") && !line.contains("_bucket");
            last = answer.body.lines().filter(of_ours).collect::<Vec<_>>().join("\n");
        }
        let waited = Instant::now().saturating_duration_since(start);
        assert!(waited < Duration::from_secs(30), "never: {what}; {last}");
        sleep(Duration::from_millis(20)).await;
    }
}

async fn fill(api: &Api) {
    api.create(&objects::node("n1", None, None), "").await.unwrap();
    for number in 1..=PODS {
        api.create(&pod(number, true), "default").await.unwrap();
    }
    for number in 0..SERVICES {
        let distribution = (number == 0).then_some("PreferSameNode");
        let service = objects::service_with(&json!({
            "metadata": {"name": format!("s{number}")}, "spec": {"trafficDistribution": distribution},
        }));
        api.create(&service, "default").await.unwrap();
    }
}

/// Counts are whole numbers.
fn is(found: f64, value: f64) -> bool {
    (found - value).abs() < 0.01
}

/// Checks the figures of a cluster that has just been filled.
fn check_figures(all: &Scrape) {
    let (services, pods) = (SERVICES as f64, f64::from(PODS));
    for (name, labels, value) in [
        ("endpointd_pods", &[][..], pods),
        ("endpointd_label_sets", &[], 1.0),
        ("endpointd_shards", &[], 1.0),
        ("endpointd_lease_held", &[], 1.0),
        ("leader_election_master_status", &[("name", "endpointd")], 1.0),
        (
            "endpoint_slice_controller_endpoints_desired",
            &[],
            services * pods,
        ),
        (
            "endpoint_slice_controller_num_endpoint_slices",
            &[],
            services * 2.0,
        ),
        (
            "endpoint_slice_controller_desired_endpoint_slices",
            &[],
            services * 2.0,
        ),
        (
            "endpoint_slice_controller_changes",
            &[("operation", "create")],
            services * 2.0,
        ),
        (
            "endpoint_slice_controller_changes_total",
            &[("operation", "create")],
            services * 2.0,
        ),
        (
            "endpoint_slice_controller_services_count_by_traffic_distribution",
            &[("traffic_distribution", "PreferSameNode")],
            1.0,
        ),
        (
            "endpoint_slice_controller_endpointslices_changed_per_sync_sum",
            &[
                ("topology", "Disabled"),
                ("traffic_distribution", "PreferSameNode"),
            ],
            2.0,
        ),
        (
            "endpoint_slice_controller_endpoints_added_per_sync_sum",
            &[],
            services * pods,
        ),
        (
            "endpoint_slice_controller_syncs",
            &[("result", "success")],
            services,
        ),
        ("workqueue_depth", &[("name", "endpoint")], 0.0),
        (
            "workqueue_work_duration_seconds_count",
            &[("name", "endpoint_slice")],
            services * 2.0,
        ),
        (
            "endpointd_change_to_acknowledged_seconds_count",
            &[("output", "endpoints")],
            services,
        ),
        (
            "rest_client_requests_total",
            &[("code", "201"), ("method", "POST")],
            // Beside these the Lease.
            services * 3.0 + 1.0,
        ),
        ("endpointd_decode_failures_total", &[], 0.0),
    ] {
        let found = all.sum(name, labels);
        assert!(is(found, value), "{name} {labels:?}: {found}");
    }
    for name in [
        "endpointd_throttled_seconds_total",
        "process_resident_memory_bytes",
        "process_start_time_seconds",
    ] {
        assert!(all.sum(name, &[]) > 0.0, "{name}");
    }
    // A start of 36 writes at 100 a second.
    assert!((0.1..10.0).contains(&all.sum("endpointd_throttled_seconds_total", &[])));
    assert!(all.sum("endpointd_watch_lag_seconds", &[]) < 60.0);
}

fn compare_with_documentation(all: &Scrape) {
    let documented = documented();
    let names: BTreeSet<&String> = documented.keys().collect();
    let served: BTreeSet<&String> = all.types.keys().collect();
    let missing: Vec<_> = names.difference(&served).collect();
    let unknown: Vec<_> = served.difference(&names).collect();
    assert!(
        missing.is_empty() && unknown.is_empty(),
        "missing {missing:?}, unknown {unknown:?}"
    );
    for (name, (kind, labels)) in &documented {
        assert_eq!(&all.types[name], kind, "{name}");
        assert_eq!(all.labels[name], BTreeSet::from([labels.clone()]), "{name}");
    }
}

/// Takes everything away, and waits until nothing is counted any more.
async fn empty(api: &Api, address: SocketAddr) {
    for number in (1..=PODS).filter(|number| *number != 2) {
        let name = format!("p{number}");
        api.delete("Pod", "default", &name, Some(0)).await.unwrap();
    }
    for number in (0..SERVICES).filter(|number| *number != 1) {
        let name = format!("s{number}");
        api.delete("Service", "default", &name, None).await.unwrap();
    }
    let sums = [
        "endpointd_pods",
        "endpointd_label_sets",
        "endpoint_slice_controller_endpoints_desired",
        "endpoint_slice_controller_num_endpoint_slices",
        "endpoint_slice_controller_desired_endpoint_slices",
        "endpoint_slice_controller_services_count_by_traffic_distribution",
        // Whichever of a Service and its slices, which are collected with it, is seen to go first.
        "endpointd_shards",
    ];
    until(address, "all is gone", |scrape| {
        sums.iter().all(|name| scrape.sum(name, &[]) == 0.0)
    })
    .await;
}

/// Starts the program, to serve its metrics at this address.
fn serve(flags: &[&str]) -> (Process, SocketAddr) {
    // A port that was free a moment ago.
    let address = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let port = format!("--admin-port={}", address.port());
    let args: Vec<&str> = ["run"].iter().chain(flags).copied().chain([&*port]).collect();
    (Process::start(&args), address)
}

#[tokio::test]
async fn the_documented_metrics_are_served_and_no_others() {
    let (handle, api) = cluster::serve(Config::default()).await;
    fill(&api).await;
    let (process, address) = serve(&[
        "--server",
        &handle.url(),
        "--max-endpoints-per-slice=4",
        // Slow enough that something has to wait.
        "--kube-api-qps=100",
        "--kube-api-burst=1",
    ]);
    let (services, pods) = (SERVICES as f64, f64::from(PODS));
    let in_sync = |scrape: &Scrape| {
        scrape.sum("endpointd_services_out_of_sync", &[]) == 0.0
            && scrape.sum("endpointd_change_to_acknowledged_seconds_count", &[]) > 0.0
    };
    let all = until(address, "everything is written", |scrape| {
        in_sync(scrape) && scrape.sum("endpoint_slice_controller_changes", &[]) >= 2.0 * services
    })
    .await;

    check_figures(&all);

    // Now some churn: a pod that fails, one that goes, a Service that goes.
    let first = "/api/v1/namespaces/default/pods/p1/status";
    let body = pod(1, false);
    let content = "application/merge-patch+json";
    api.call(http::Method::PATCH, first, Some((content, &body)))
        .await
        .unwrap();
    api.delete("Pod", "default", "p2", Some(0)).await.unwrap();
    api.delete("Service", "default", "s1", None).await.unwrap();
    let mut all = until(address, "the changes are written", |scrape| {
        in_sync(scrape)
            && is(scrape.sum("endpointd_pods", &[]), pods - 1.0)
            && scrape.sum("endpoint_slice_controller_endpoints_removed_per_sync_sum", &[]) >= services - 1.0
            && scrape.sum("endpoint_slice_controller_changes", &[("operation", "update")]) >= services - 1.0
    })
    .await;
    let desired = all.sum("endpoint_slice_controller_endpoints_desired", &[]);
    assert!(is(desired, (services - 1.0) * (pods - 1.0)), "{desired}");

    // Beside it a dry run, which finds all in order; it has some metrics that others do not have.
    let (dry_run, its_address) = serve(&[
        "--server",
        &handle.url(),
        "--max-endpoints-per-slice=4",
        "--dry-run",
    ]);
    let dry = until(its_address, "a dry run has compared everything", |scrape| {
        scrape.sum("endpointd_dry_run_comparisons_total", &[]) >= services - 1.0
    })
    .await;
    drop(dry_run);
    assert!(is(dry.sum("endpointd_services_out_of_sync", &[]), 0.0));
    assert!(is(dry.sum("endpointd_dry_run_differences_total", &[]), 0.0));
    for (name, kind) in dry.types {
        let only_there = name.starts_with("endpointd_dry_run_");
        assert_eq!(only_there, !all.types.contains_key(&name), "{name}");
        if only_there {
            all.labels.insert(name.clone(), dry.labels[&name].clone());
            all.types.insert(name, kind);
        }
    }
    compare_with_documentation(&all);
    empty(&api, address).await;
    drop(process);
}

/// Each watch of pods is answered with 200, and ends at once.
#[tokio::test]
async fn a_watch_that_shows_nothing_did_not_count_as_late() {
    let (handle, api) = cluster::serve(Config::default()).await;
    let ends = WatchFault::End {
        after: After::Events(0),
        how: Ending::Clean,
    };
    let plan = || FaultPlan::new(1).rule(Rule::on(Verb::Watch, "pods").fault(Fault::from(ends.clone())));
    handle.server().set_faults(plan());
    let (process, address) = serve(&["--server", &handle.url()]);
    until(address, "pods are listed", |scrape| {
        scrape.sum("endpointd_lists_total", &[("resource", "pods")]) > 0.0
    })
    .await;
    sleep(Duration::from_secs(1)).await;
    let refuses = Rule::on(Verb::List, "pods").fault(Fault::before(Failure::Forbidden));
    handle.server().set_faults(plan().rule(refuses));
    // Pods change, so that no version shows that nothing is missing.
    api.create(&pod(1, true), "default").await.unwrap();
    sleep(Duration::from_secs(8)).await;
    until(address, "pods are late", |scrape| {
        let lag = scrape.sum("endpointd_watch_lag_seconds", &[("resource", "pods")]);
        assert!(lag > 7.0, "{lag} s");
        true
    })
    .await;
    drop(process);
}

#[tokio::test]
async fn the_lag_of_a_resource_that_was_never_listed_grows() {
    let (handle, _api) = cluster::serve(Config::default()).await;
    let plan = [Verb::List, Verb::Watch]
        .into_iter()
        .fold(FaultPlan::new(1), |plan, verb| {
            plan.rule(Rule::on(verb, "pods").fault(Fault::before(Failure::Forbidden)))
        });
    handle.server().set_faults(plan);
    let (process, address) = serve(&["--server", &handle.url()]);
    until(address, "pods are late, and Services are not", |scrape| {
        let lag = |resource| scrape.sum("endpointd_watch_lag_seconds", &[("resource", resource)]);
        lag("pods") > 3.0 && lag("services") > 0.0 && lag("services") < lag("pods")
    })
    .await;
    drop(process);
}
