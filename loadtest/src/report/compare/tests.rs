//! Ratios, the reasons to doubt a comparison, and the failures that it can be asked for.

use super::super::figures::{Figure, Judgement};
use super::super::model::Throttling;
use super::super::sample;
use super::super::text::WIDTH;
use super::*;

fn comparison(reports: impl IntoIterator<Item = Report>) -> Comparison<'static> {
    Comparison::of(
        reports
            .into_iter()
            .map(|report| (Path::new("some.json"), report))
            .collect(),
    )
}

fn figure<'a>(comparison: &'a Comparison<'_>, group: &str, name: &str) -> &'a Figure {
    let group = comparison
        .groups
        .iter()
        .find(|other| other.title.starts_with(group))
        .unwrap();
    group.figures.iter().find(|figure| figure.name == name).unwrap()
}

fn judged(one: Report, other: Report, group: &str, name: &str) -> (Option<f64>, Judgement) {
    let comparison = comparison([one, other]);
    let standing = figure(&comparison, group, name).standing(1);
    (standing.ratio, standing.judgement)
}

#[test]
fn a_figure_stands_to_that_of_the_first_run() {
    let judged = |one: u64, other: u64| {
        let report = |max| {
            let mut report = sample::endpointd();
            report.slices.max = max;
            report
        };
        judged(report(one), report(other), "Slices", "max")
    };
    assert_eq!(judged(100, 105), (Some(1.05), Judgement::Same));
    assert_eq!(
        judged(100, 250),
        (Some(2.5), Judgement::Noise),
        "a single event decides"
    );
    assert_eq!(judged(100, 1_010), (Some(10.1), Judgement::Worse));
    assert_eq!(judged(1_250, 100), (Some(0.08), Judgement::Better));
    assert_eq!(judged(0, 3), (None, Judgement::Worse));
    assert_eq!(judged(0, 0), (None, Judgement::Same));
}

#[test]
fn rounds_are_compared_by_their_ranges_and_a_single_run_by_all_of_the_noise() {
    let judged = |one: &[u64], other: &[u64]| {
        let [one, other] = [one, other].map(|p50| sample::repeated(p50, 100.0));
        judged(one, other, "Slices", "p50").1
    };
    let first = [100, 105, 110, 115, 120];
    assert_eq!(judged(&first, &[121, 125, 130, 135, 140]), Judgement::Worse);
    assert_eq!(judged(&[121, 125, 130, 135, 140], &first), Judgement::Better);
    assert_eq!(judged(&first, &[119, 125, 130, 135, 140]), Judgement::Noise);
    assert_eq!(judged(&first, &[90, 95, 112, 130, 150]), Judgement::Same);
    assert_eq!(
        judged(&[100, 101], &[110, 111]),
        Judgement::Noise,
        "two are too few"
    );
    assert_eq!(judged(&first, &[170]), Judgement::Noise);
    assert_eq!(judged(&first, &[190]), Judgement::Worse);
}

#[test]
fn shares_of_throttled_time_differ_by_points_and_writes_under_a_limit_are_not_judged() {
    let with = |share, per_change| {
        let mut report = sample::endpointd();
        report.throttling = Some(Throttling { share, seconds: 1.0 });
        report.writes.per_change = per_change;
        report
    };
    let throttled = |one, other| judged(with(one, 1.0), with(other, 1.0), "Changes", "time throttled").1;
    assert_eq!(throttled(0.004, 0.02), Judgement::Same);
    assert_eq!(throttled(0.0, 0.2), Judgement::Worse);
    // Changes that wait share a write: 1.65 writes a change beside 1.94 are the limit's doing.
    let writes = |one: (f64, f64), other: (f64, f64)| {
        judged(
            with(one.0, one.1),
            with(other.0, other.1),
            "Changes",
            "writes per change",
        )
        .1
    };
    assert_eq!(writes((0.0, 1.94), (0.3, 1.65)), Judgement::Throttled);
    assert_eq!(writes((0.3, 1.65), (0.0, 1.94)), Judgement::Throttled);
    assert_eq!(writes((0.0, 1.94), (0.005, 1.65)), Judgement::Better);
}

/// Returns the failures of these with `--fail-above`, and the last line of the text.
fn failed(reports: [Report; 2], limit: f64) -> (Failures, String) {
    let comparison = comparison(reports);
    let failures = figures::failures(&comparison.runs, &comparison.groups, limit);
    let told = told(limit, &failures);
    let last = told.lines().next_back().unwrap().to_owned();
    (failures, last)
}

#[test]
fn a_figure_that_is_worse_by_more_than_the_limit_fails() {
    let p50 = [100, 101, 102, 103, 104];
    let (fast, slow) = (sample::repeated(&p50, 100.0), sample::repeated(&p50, 130.0));
    let (found, last) = failed([fast.clone(), slow.clone()], 1.2);
    assert!(
        found.worse[0].starts_with("B: endpointd, CPU per change: 130 "),
        "{:?}",
        found.worse
    );
    assert_eq!(last, "failed: 1 figure is worse by more than ×1.2");
    let none = "no figure is worse by more than ×1.4, and none is missing";
    assert_eq!(failed([fast.clone(), slow.clone()], 1.4).1, none);
    assert!(
        failed([slow, fast], 1.0).0.is_none(),
        "better is no reason to fail"
    );
    for (text, is_factor) in [("1.2", true), ("0.9", false), ("inf", false), ("x", false)] {
        assert_eq!(factor(text).is_ok(), is_factor, "{text}");
    }
}

#[test]
fn a_figure_that_is_gone_and_a_run_that_was_not_verified_fail() {
    let mut gone = sample::endpointd();
    gone.slices.count = 0;
    gone.slices.never_seen = 12;
    let (failures, last) = failed([sample::endpointd(), gone.clone()], 1.2);
    let first = &failures.missing[0];
    assert!(
        first.starts_with("B: Slices: change to visible, p50: not measured, "),
        "{first}"
    );
    assert!(last.contains("5 figures are missing"), "{last}");
    assert!(failed([gone, sample::endpointd()], 1.2).0.missing.is_empty());
    // One round that lacks it is enough.
    let p50 = [100, 101, 102, 103, 104];
    let mut once = sample::repeated(&p50, 100.0);
    once.rounds[1].slices.count = 0;
    assert!(
        !failed([sample::repeated(&p50, 100.0), once], 1.2)
            .0
            .missing
            .is_empty()
    );
    // A short time that the clock did not show is not missing, and a process that could not be read is.
    let mut quick = sample::endpointd();
    quick.processes[0].cold_cpu_seconds = 0.0;
    assert!(failed([sample::endpointd(), quick.clone()], 1.2).0.is_none());
    quick.processes[0].unread = true;
    assert!(!failed([sample::endpointd(), quick], 1.2).0.missing.is_empty());
    let mut wrong = sample::endpointd();
    wrong.verdict.verified = false;
    assert_eq!(
        failed([sample::endpointd(), wrong], 1.2).1,
        "failed: B was not verified"
    );
}

#[test]
fn differences_are_warned_of() {
    let with = |flags: &[&str]| Report {
        flags: Some(flags.iter().map(|&flag| flag.to_owned()).collect()),
        ..sample::endpointd()
    };
    let mut other = sample::failed();
    other.profile = "demo".to_owned();
    other.machine.cores = 64;
    other.seconds = 12.5;
    other.parameters.remove("pods");
    let warnings =
        warnings(&comparison([with(&["run", "--kube-api-qps", "100"]), sample::upstream(), other]).runs);
    assert_eq!(
        warnings,
        [
            "C was not verified: its figures are those of a run that went wrong",
            "C had a generator that lagged: the load was lower than it claims to be",
            "profile: steady (A, B); demo (C)",
            "pods: 20000 (A, B); not known (C)",
            "flag of the controller: --kube-api-qps: 100 (A); not known (B, C)",
            "machine: AMD EPYC, 2 cores, 24.0 GiB, Linux (A, B); AMD EPYC, 64 cores, 24.0 GiB, Linux (C)",
            "length: 60.0 s (A, B); 12.5 s (C)",
            "C warned: the load average was 7.3 on 2 cores",
        ]
    );
    let same = [
        with(&["--kube-api-qps=1", "--kube-api-qps", "50"]),
        with(&["--kube-api-qps=50"]),
    ];
    assert_eq!(super::warnings(&comparison(same).runs), [""; 0]);
}

#[test]
fn both_controllers_stand_beside_each_other_in_the_table_and_on_the_page() {
    let both = comparison([sample::upstream(), sample::endpointd()]);
    let table = both.table(false);
    assert!(
        table.starts_with("A   kube-controller-manager\nB   endpointd\n"),
        "{table}"
    );
    assert!(
        table.contains("\nkube-controller-manager / endpointd\n"),
        "{table}"
    );
    let p50 = table
        .lines()
        .find(|line| line.trim_start().starts_with("p50"))
        .unwrap();
    let words: Vec<&str> = p50.split_whitespace().collect();
    assert_eq!((words[1], words[words.len() - 1]), ("↓", "+"), "{p50}");
    let page = page::of(&both.runs, &both.groups, &both.warnings);
    assert_eq!(
        page.matches("class=\"curve c1\"").count(),
        4,
        "a key and three curves"
    );
    assert!(page.contains("<span>better</span>") && !page.contains("<span>worse</span>"));

    let all = [
        sample::failed(),
        sample::hostile(),
        sample::upstream(),
        sample::endpointd(),
    ];
    let several = comparison(all.iter().chain(&all).cloned());
    for line in several.table(false).lines() {
        assert!(
            line.chars().count() <= WIDTH && !line.contains('\u{1b}'),
            "{line}"
        );
    }
    assert_eq!(several.runs[3].label(), "D endpointd (some.json)");
}
