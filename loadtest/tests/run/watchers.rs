//! Runs beside simulated kube-proxies.

use super::cluster::Cluster;
use super::{loadtest, scratch, text, verified};
use ::loadtest::report::model::{Report, Watchers};
use memory_apiserver::{After, Ending, ErrorEvent, Failure, Fault, FaultPlan, Rule, Verb, WatchFault};
use std::time::Duration;

/// A run beside five proxies on a server whose watches by proxies have this fault.
fn run_with(name: &str, fault: Fault, flags: &[&str]) -> Report {
    let cluster = Cluster::start(name);
    let rule = Rule::on(Verb::Watch, "endpointslices").client("loadtest-proxy");
    cluster.set_faults(FaultPlan::new(7).rule(rule.fault(fault)));
    let dir = scratch(name);
    let output = cluster
        .loadtest(&["run", "steady", "--spawn", "--seed=7", "--pods=120"])
        .args(["--namespaces=2", "--rate=50", "--duration=3s", "--watchers=5"])
        .args(flags)
        .arg("--report")
        .arg(&dir)
        .output()
        .unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    let report = ::loadtest::report::read(&dir).unwrap();
    std::fs::remove_dir_all(dir).unwrap();
    report
}

fn watchers(report: &Report) -> &Watchers {
    report.watchers.as_ref().unwrap()
}

/// Each proxy saw each change that the observer saw.
fn assert_all_seen(report: &Report) {
    let watchers = watchers(report);
    let expected = report.slices.count * watchers.count;
    assert_eq!(
        (watchers.latency.count, watchers.latency.never_seen),
        (expected, 0),
        "{watchers:?}"
    );
    assert!(expected > 0 && report.verdict.verified, "{:?}", report.verdict);
}

#[test]
fn proxies_see_all_changes_and_none_of_their_watches_ends() {
    let report = verified(
        "steady",
        "--pods=200 --namespaces=2 --rate=100 --duration=2s --watchers=20 --budget=watchers.p99=30s,watchers.ended=0",
    );
    assert_all_seen(&report);
    let watchers = watchers(&report);
    assert_eq!(
        (watchers.count, watchers.ended, watchers.timed_out, watchers.lists),
        (20, 0, 0, 0)
    );
    assert!(watchers.latency.p50 > 0 && watchers.latency.p50 <= watchers.latency.max);
    let writes = report.writes.slices.all();
    assert_eq!(watchers.events, 20 * writes, "{watchers:?}");
    assert!(watchers.bytes > watchers.events * 100 && watchers.bytes_per_second > 0.0);
    assert_eq!((watchers.terminated, watchers.server_cpu_seconds), (None, None));
    assert_eq!(report.parameters["watchers"], "20");
    assert!(
        report.budgets.iter().all(|budget| budget.met),
        "{:?}",
        report.budgets
    );
}

#[test]
fn proxies_ask_for_no_slices_of_headless_services() {
    let report = verified(
        "sandbox",
        "--alive=40 --cluster-ip --rate=20 --life=300ms --duration=2s --watchers=3",
    );
    let watchers = watchers(&report);
    // Half of what the observer sees is of headless Services.
    let all = 3 * report.slices.count;
    assert!(
        watchers.latency.count > 0 && watchers.latency.count < all * 3 / 4,
        "{watchers:?}"
    );
    assert_eq!(watchers.latency.never_seen, 0);
}

#[test]
fn a_run_fails_before_its_first_change_where_proxies_cannot_watch() {
    let cluster = Cluster::start("no-proxies");
    let rule = Rule::on(Verb::Watch, "endpointslices").client("loadtest-proxy");
    let refused = Fault::before(Failure::Forbidden);
    cluster.set_faults(FaultPlan::new(7).rule(rule.fault(refused)));
    let output = cluster
        .loadtest(&["run", "steady", "--spawn", "--pods=60", "--namespaces=1"])
        .args(["--watchers=3", "--time-limit=5s"])
        .output()
        .unwrap();
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    let expected =
        "only 0 of 3 watchers were connected within 5.00 s: a watch of slices was answered with 403";
    assert!(err.contains(expected), "{err}");
    assert!(!err.contains("churn") && err.contains("cleaned up"), "{err}");
}

#[test]
fn a_proxy_that_is_too_slow_fails_the_verification() {
    let output = loadtest(&["run", "steady", "--pods=400", "--namespaces=1", "--rate=100"])
        .args(["--duration=2s", "--watchers=2", "--watcher-rate=20K"])
        .args(["--time-limit=5s"])
        .output()
        .unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{out}{err}");
    assert!(
        out.contains("NOT VERIFIED") && out.contains("2 of 2 watchers had not received the last change"),
        "{out}{err}"
    );
}

#[test]
fn a_proxy_whose_watch_is_cut_goes_on_where_it_was() {
    let cut = WatchFault::End {
        after: After::Events(20),
        how: Ending::Reset,
    };
    let report = run_with("cut-watches", cut.into(), &["--watcher-rate=1M"]);
    assert_all_seen(&report);
    let watchers = watchers(&report);
    assert!(watchers.ended >= 5 && watchers.ended_in_churn > 0, "{watchers:?}");
    assert_eq!(watchers.lists, 0);
}

#[test]
fn a_proxy_that_lists_again_does_so_whenever_its_watch_is_cut() {
    let cut = WatchFault::End {
        after: After::Time(Duration::from_secs(1)),
        how: Ending::Clean,
    };
    let report = run_with("listing-again", cut.into(), &["--watchers-relist"]);
    assert_all_seen(&report);
    let watchers = watchers(&report);
    assert!(watchers.ended >= 5, "{watchers:?}");
    assert!(
        watchers.lists + 5 >= watchers.ended && watchers.lists > 0,
        "{watchers:?}"
    );
}

#[test]
fn a_proxy_lists_again_when_the_server_has_forgotten_its_version() {
    let expired = WatchFault::Error {
        after: After::Events(20),
        event: ErrorEvent::Expired,
    };
    let report = run_with("forgotten-versions", expired.into(), &[]);
    assert_all_seen(&report);
    let watchers = watchers(&report);
    assert!(watchers.ended >= 5 && watchers.lists >= 5, "{watchers:?}");
}
