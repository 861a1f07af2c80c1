//! `loadtest run` and `loadtest clean` as a user runs them, on small clusters.
#![allow(
    clippy::unwrap_used,
    reason = "clippy does not see that helpers of a test are tests"
)]

use loadtest::report::model::Report;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[path = "run/cluster.rs"]
mod cluster;
#[path = "run/watchers.rs"]
mod watchers;

fn loadtest(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadtest"));
    // Where a controller that fails leaves its log.
    command
        .args(args)
        .stdin(Stdio::null())
        .env("TMPDIR", env!("CARGO_TARGET_TMPDIR"));
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("run-{}-{name}", std::process::id()))
}

/// Runs a profile on the server in memory, sees that it ends verified, and reads its report.
fn verified(profile: &str, flags: &str) -> Report {
    let dir = scratch(&profile.replace(['/', '.'], "-"));
    let output = loadtest(&["run", profile, "--seed=7"])
        .args(flags.split_whitespace())
        .arg("--report")
        .arg(&dir)
        .output()
        .unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{profile}: {out}{err}");
    let report: Report = serde_json::from_slice(&std::fs::read(dir.join("report.json")).unwrap()).unwrap();
    std::fs::remove_dir_all(dir).unwrap();
    assert!(
        report.verdict.verified && report.verdict.problems.is_empty(),
        "{out}"
    );
    assert_eq!(report.changes.failed, 0, "{out}");
    let seen = [&report.slices, &report.endpoints];
    assert_eq!(seen.map(|latency| latency.never_seen), [0, 0], "{out}");
    let controller = &report.processes[0];
    // The kernel counts in ticks of ten milliseconds, and a small start takes less than one.
    assert!(
        controller.cold_cpu_seconds + controller.cpu_seconds > 0.0 && controller.rss_bytes > 0,
        "{out}"
    );
    assert!(controller.peak_rss_bytes >= controller.rss_bytes, "{out}");
    assert!(report.converge_seconds.unwrap() > 0.0, "{out}");
    report
}

#[test]
fn steady_flips_are_all_seen_in_slices_and_endpoints() {
    let report = verified("steady", "--pods=300 --namespaces=3 --rate=100 --duration=2s");
    assert_eq!(report.changes.made, 200);
    assert_eq!(report.parameters["pods"], "300");
    assert_eq!(report.phases[0].changes, 200);
    for latency in [&report.slices, &report.endpoints] {
        assert_eq!(latency.count + latency.overtaken, 200, "{latency:?}");
        assert!(latency.count > 100 && latency.p50 > 0, "{latency:?}");
        assert!(latency.p50 <= latency.p90 && latency.p99 <= latency.p999 && latency.p999 <= latency.max);
        let sampled: u64 = latency.over_time.iter().map(|sample| sample.count).sum();
        assert_eq!(sampled, latency.count);
    }
    assert_eq!(report.generator_lag.count, 200);
    // On a busy machine one write carries many changes.
    let writes = &report.writes;
    assert!(
        writes.slices.updated > 0 && writes.endpoints.updated > 0,
        "{writes:?}"
    );
    assert_eq!(
        (writes.slices.created, writes.slices.deleted),
        (0, 0),
        "{writes:?}"
    );
    assert!(writes.slices.bytes > 0 && writes.per_change > 0.0, "{writes:?}");
}

#[test]
fn rolling_update() {
    let report = verified(
        "rolling-update",
        "--pods=200 --namespaces=2 --share=0.5 --rate=100",
    );
    // One of two Services: each of its pods is made, starts, ends, stops being ready, and is gone.
    assert!(
        report.changes.made > 400 && report.changes.made <= 500,
        "{}",
        report.changes.made
    );
    assert!(report.slices.count >= 200, "{:?}", report.slices);
}

#[test]
fn a_lost_zone_is_emptied_at_once_and_each_removal_is_seen() {
    let report = verified("zone-loss", "--pods=300 --namespaces=3 --nodes=9");
    // The three nodes of the zone, and the third of the pods that is on them.
    let removed = report.changes.made - 3;
    assert!((50..150).contains(&removed), "{removed}");
    assert_eq!(report.slices.count + report.slices.overtaken, removed);
    let loss = &report.phases[0];
    assert_eq!(loss.slices_written, 6, "{loss:?}");
    assert!(loss.slice_writes.updated >= 6 && loss.most_writes > 0, "{loss:?}");
}

#[test]
fn restart() {
    let report = verified(
        "restart",
        "--pods=200 --namespaces=2 --rate=50 --duration=2500ms --every=1s",
    );
    let signals: Vec<&str> = report
        .restarts
        .iter()
        .map(|restart| restart.signal.as_str())
        .collect();
    assert_eq!(signals, ["SIGKILL", "SIGTERM"]);
    for restart in &report.restarts {
        assert!(restart.without_writer_seconds > 0.0, "{restart:?}");
    }
}

#[test]
fn sandboxes_come_and_go_beside_those_that_stay() {
    let report = verified(
        "sandbox",
        "--alive=40 --cluster-ip --rate=20 --life=500ms --ready-after=100ms --duration=3s",
    );
    let claims = report.claims.unwrap();
    assert_eq!((claims.alive, claims.made), (40, 60));
    assert_eq!(report.parameters["services"], "80");
    // Each pod shows in the slices of both its Services, and at its end where these are there yet.
    assert_eq!(claims.ready.count, 120, "{:?}", claims.ready);
    assert!(
        claims.gone.count > 0 && claims.gone.count <= 120,
        "{:?}",
        claims.gone
    );
    let (slices, requests) = (report.writes.slices, claims.requests.unwrap());
    // A slice that is collected before the controller hears of its Service's end is made once more, and collected again.
    assert!((120..=180).contains(&slices.created), "{slices:?}");
    assert_eq!(
        slices.deleted, slices.created,
        "by the garbage collector: {slices:?}"
    );
    let of_slices = claims.slice_requests.unwrap();
    assert_eq!(
        (of_slices.create, of_slices.update),
        (slices.created, slices.updated)
    );
    assert!(requests.create >= 240 && requests.all() >= of_slices.all());
    assert_refused("run sandbox --pods=5", "give --alive");
    assert_refused(
        "run steady --alive=5",
        "--alive and --cluster-ip mean nothing here",
    );
}

#[test]
fn a_file_combines_phases() {
    let path = scratch("phases.yaml");
    std::fs::write(
        &path,
        "name: two\npods: 100\nnamespaces: 2\nservices: 4\nnodes: 6\nphases:\n\
         - { profile: steady, rate: 50, duration: 1s }\n- { profile: zone-loss }\n",
    )
    .unwrap();
    let report = verified(path.to_str().unwrap(), "");
    let names: Vec<&str> = report.phases.iter().map(|phase| phase.name.as_str()).collect();
    assert_eq!(
        (report.profile.as_str(), names),
        ("two", vec!["steady", "zone-loss"])
    );
    assert!(report.phases[0].to <= report.phases[1].from);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn one_sort_of_outputs_can_be_measured_alone() {
    let report = verified(
        "steady",
        "--pods=60 --namespaces=1 --rate=50 --duration=1s --outputs=slices",
    );
    assert!(report.slices.count > 0);
    assert_eq!((report.endpoints.count, report.writes.endpoints.created), (0, 0));
}

#[test]
fn a_limit_of_writes_is_seen_and_a_missed_budget_is_an_exit_code() {
    let dir = scratch("throttled");
    let output = loadtest(&[
        "run",
        "steady",
        "--seed=7",
        "--pods=200",
        "--namespaces=2",
        "--rate=100",
    ])
    .args([
        "--duration=3s",
        "--outputs=slices",
        "--budget=p99=20ms,throttled=10%",
        "--budget=memory=4GiB",
    ])
    .arg("--report")
    .arg(&dir)
    .args(["--", "--kube-api-qps=10", "--kube-api-burst=10"])
    .output()
    .unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(3), "{out}{err}");
    assert!(out.contains("verified, ") && out.contains("THROTTLED"), "{out}");
    let report: Report = serde_json::from_slice(&std::fs::read(dir.join("report.json")).unwrap()).unwrap();
    std::fs::remove_dir_all(dir).unwrap();
    let throttling = report.throttling.unwrap();
    // Ten writes a second for four Services whose pods change a hundred times a second.
    assert!(
        throttling.share > 0.3 && throttling.seconds > 1.0,
        "{throttling:?}"
    );
    let judged: Vec<_> = report
        .budgets
        .iter()
        .map(|budget| (budget.figure.as_str(), budget.met))
        .collect();
    assert_eq!(
        judged,
        [("slices.p99", false), ("throttled", false), ("memory", true)]
    );
    let flags = [
        "--max-endpoints-per-slice=100",
        "--watchers=0",
        "--controllers=endpointslice-controller",
        "--kube-api-qps=10",
        "--kube-api-burst=10",
    ];
    assert_eq!(report.flags.unwrap(), flags);
    assert_eq!(report.title, "steady, 200 pods, 4 Services");
}

#[test]
fn a_run_can_be_repeated() {
    let dir = scratch("repeated");
    let output = loadtest(&[
        "run",
        "steady",
        "--pods=60",
        "--namespaces=1",
        "--rate=50",
        "--duration=1s",
    ])
    .args(["--repeat=3", "--report"])
    .arg(&dir)
    .output()
    .unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    assert!(
        err.contains("round 3 of 3") && out.contains("3 rounds"),
        "{out}{err}"
    );
    let report = loadtest::report::read(&dir).unwrap();
    assert_eq!(report.rounds.len(), 3);
    assert!(report.verdict.verified && report.throttling.unwrap().share < 0.01);
    let mut latencies: Vec<u64> = report.rounds.iter().map(|round| round.slices.p99).collect();
    latencies.sort_unstable();
    assert_eq!(report.slices.p99, latencies[1], "the median is shown");
    for (number, round) in report.rounds.iter().enumerate() {
        assert_eq!(round.parameters["seed"], report.parameters["seed"]);
        let own = loadtest::report::read(&dir.join(format!("round-{}", number + 1))).unwrap();
        assert_eq!(own.slices.p99, round.slices.p99);
        assert!(!own.slices.over_time.is_empty() && round.slices.over_time.is_empty());
    }

    // A comparison of the run with itself finds nothing worse, and one that was not verified fails.
    let own = std::fs::read_to_string(dir.join("report.json")).unwrap();
    let wrong = own.replacen("\"verified\": true", "\"verified\": false", 1);
    let (path, page) = (dir.join("wrong.json"), dir.join("compare.html"));
    std::fs::write(&path, wrong).unwrap();
    for (other, code, last) in [
        (
            &dir,
            0,
            "no figure is worse by more than ×1.2, and none is missing",
        ),
        (&path, 3, "failed: B was not verified"),
    ] {
        let mut compare = loadtest(&["compare", "--fail-above=1.2", "--out"]);
        let output = compare.arg(&page).arg(&dir).arg(other).output().unwrap();
        let out = text(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{out}");
        assert_eq!(out.lines().next_back(), Some(last));
    }
    assert!(page.exists());
    std::fs::remove_dir_all(dir).unwrap();
}

/// A command that fails, whose standard error says why.
fn assert_refused(args: &str, expected: &str) {
    let args: Vec<&str> = args.split(' ').collect();
    let output = loadtest(&args).output().unwrap();
    let err = text(&output.stderr);
    assert!(!output.status.success(), "{args:?}");
    let line = err
        .lines()
        .find(|line| line.starts_with("error: "))
        .unwrap_or_else(|| panic!("{args:?}: {err}"));
    assert!(line.contains(expected), "{args:?}: {err}");
}

#[test]
fn an_error_and_its_cause_are_not_said_twice() {
    let missing = scratch("missing-kubeconfig");
    let output = loadtest(&["clean", "--kubeconfig", missing.to_str().unwrap()])
        .output()
        .unwrap();
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.starts_with("error: reading "), "{err}");
    assert_eq!(err.matches("No such file").count(), 1, "{err}");
}

#[test]
fn bad_input_is_refused_before_anything_is_started() {
    let missing = scratch("missing.yaml");
    let missing = missing.to_str().unwrap();
    let own = format!("run steady --spawn --pid {}", std::process::id());
    let with_file = |command: &str| format!("{command} {missing}");
    for (args, expected) in [
        (
            "run stedy",
            "invalid value 'stedy' for '<PROFILE>': expected steady, ",
        ),
        (&with_file("run"), "reading "),
        ("run steady --rate=0", "0 is not in 1..=20000"),
        ("run steady --pods=0", "0 is not in 1..=2000000"),
        ("run steady --duration=5", "expected a time such as"),
        ("run steady --run=Not_A_Name", "invalid value 'Not_A_Name'"),
        (&own, "cannot be used with"),
        (&with_file("run steady --kubeconfig"), "reading "),
        (&with_file("run restart --kubeconfig"), "give --spawn"),
        (&with_file("clean --kubeconfig"), "reading "),
        ("run steady --budget=p99=100", "such as p99=100ms"),
        ("run steady --repeat=0", "0 is not in 1..=100"),
        ("run steady --watchers=0", "0 is not in 1..=10000"),
        (
            "run steady --watchers=2 --watcher-rate=fast",
            "such as 200K or 1M",
        ),
        (
            "run steady --watchers=2 --outputs=endpoints",
            "watchers watch slices",
        ),
    ] {
        assert_refused(args, expected);
    }
}
