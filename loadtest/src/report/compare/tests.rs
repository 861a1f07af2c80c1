//! Ratios, what makes a comparison doubtful, and both forms of it.

use super::super::figures::{Figure, Group, Judgement};
use super::super::model::{Report, Throttling};
use super::super::sample;
use super::super::text::WIDTH;
use super::*;
use std::path::Path;

fn runs(reports: impl IntoIterator<Item = Report>) -> Vec<Run<'static>> {
    Run::named(
        reports
            .into_iter()
            .map(|report| (Path::new("some.json"), report))
            .collect(),
    )
}

fn figure<'a>(groups: &'a [Group], group: &str, name: &str) -> &'a Figure {
    let group = groups
        .iter()
        .find(|other| other.title.starts_with(group))
        .unwrap();
    group.figures.iter().find(|figure| figure.name == name).unwrap()
}

fn standing(one: u64, other: u64) -> (Option<f64>, Judgement) {
    let report = |max| {
        let mut report = sample::endpointd();
        report.slices.max = max;
        report.slices.never_seen = max;
        report
    };
    let groups = figures::groups(&runs([report(one), report(other)]));
    let figure = figure(&groups, "Slices", "max");
    assert_eq!(figure.standing(0).judgement, Judgement::Same);
    let standing = figure.standing(1);
    (standing.ratio, standing.judgement)
}

#[test]
fn ratios_are_to_the_first() {
    assert_eq!(standing(200, 200), (Some(1.0), Judgement::Same));
    assert_eq!(standing(100, 105), (Some(1.05), Judgement::Same));
    assert_eq!(
        standing(100, 250),
        (Some(2.5), Judgement::Noise),
        "a single event decides"
    );
    assert_eq!(standing(100, 1_010), (Some(10.1), Judgement::Worse));
    assert_eq!(standing(1_250, 100), (Some(0.08), Judgement::Better));
    assert_eq!(standing(0, 3), (None, Judgement::Worse));
    assert_eq!(standing(0, 0), (None, Judgement::Same));
    assert_eq!(standing(3, 0), (Some(0.0), Judgement::Better));
}

/// A report of rounds with these latencies (p50, in microseconds) and CPU times for each change.
fn repeated(p50: &[u64], cpu: f64) -> Report {
    let mut report = sample::endpointd();
    report.rounds = p50
        .iter()
        .map(|p50| {
            let mut round = sample::endpointd();
            round.slices.p50 = *p50;
            round.processes[0].cpu_micros_per_change = cpu;
            round
        })
        .collect();
    report
}

#[test]
fn rounds_that_overlap_are_neither_better_nor_worse() {
    let judged = |one: &[u64], other: &[u64]| {
        let groups = figures::groups(&runs([repeated(one, 100.0), repeated(other, 100.0)]));
        figure(&groups, "Slices", "p50").standing(1).judgement
    };
    assert_eq!(
        judged(&[100, 110, 120, 130, 140], &[135, 140, 150, 155, 160]),
        Judgement::Noise
    );
    assert_eq!(
        judged(&[100, 105, 110, 115, 120], &[121, 125, 130, 135, 140]),
        Judgement::Worse
    );
    assert_eq!(
        judged(&[121, 125, 130, 135, 140], &[100, 105, 110, 115, 120]),
        Judgement::Better
    );
    assert_eq!(
        judged(&[100, 101], &[110, 111]),
        Judgement::Noise,
        "two rounds are too few"
    );
    assert_eq!(
        judged(&[100, 105, 110, 115, 120], &[90, 95, 112, 130, 150]),
        Judgement::Same
    );
}

#[test]
fn a_repeated_run_and_a_single_one_differ_by_all_of_the_noise() {
    let p50 = [100, 101, 102, 103, 104];
    let judged = |one: &[u64], other: &[u64]| {
        let groups = figures::groups(&runs([repeated(one, 100.0), repeated(other, 100.0)]));
        figure(&groups, "Slices", "p50").standing(1).judgement
    };
    assert_eq!(judged(&p50, &[150]), Judgement::Noise);
    assert_eq!(judged(&p50, &[160]), Judgement::Worse);
    assert_eq!(judged(&[150], &p50), Judgement::Noise);
    assert_eq!(judged(&[160], &p50), Judgement::Better);
}

#[test]
fn shares_of_throttled_time_differ_by_points_and_not_by_times() {
    let throttled = |share| {
        let mut report = sample::endpointd();
        let throttling = Throttling {
            share,
            ..Throttling::default()
        };
        report.throttling = Some(throttling);
        report
    };
    let judged = |one, other| {
        let runs = runs([throttled(one), throttled(other)]);
        let groups = figures::groups(&runs);
        let failures = figures::failures(&runs, &groups, 1.2).worse;
        let throttled = figure(&groups, "Changes", "time throttled");
        (throttled.text(1), throttled.standing(1).judgement, failures.len())
    };
    assert_eq!(judged(0.0, 0.012), ("1.2 %".to_owned(), Judgement::Same, 0));
    assert_eq!(judged(0.004, 0.02), ("2.0 %".to_owned(), Judgement::Same, 0));
    assert_eq!(judged(0.012, 0.004), ("0.4 %".to_owned(), Judgement::Same, 0));
    assert_eq!(judged(0.0, 0.2), ("20 %".to_owned(), Judgement::Worse, 1));
    assert_eq!(judged(0.2, 0.0), ("0.0 %".to_owned(), Judgement::Better, 0));
}

/// Under a limit, changes wait and share writes: 1.65 writes a change beside 1.94 was called better, and was the limit's doing.
#[test]
fn fewer_writes_under_a_limit_are_not_called_better() {
    let with = |share, per_change| {
        let mut report = sample::endpointd();
        report.throttling = Some(Throttling {
            share,
            ..Throttling::default()
        });
        report.writes.per_change = per_change;
        report
    };
    let judged = |one: (f64, f64), other: (f64, f64)| {
        let runs = runs([with(one.0, one.1), with(other.0, other.1)]);
        let groups = figures::groups(&runs);
        let writes = figure(&groups, "Changes", "writes per change");
        writes.standing(1).judgement
    };
    assert_eq!(judged((0.0, 1.94), (0.3, 1.65)), Judgement::Throttled);
    assert_eq!(judged((0.3, 1.65), (0.0, 1.94)), Judgement::Throttled);
    assert_eq!(judged((0.3, 1.94), (0.3, 1.65)), Judgement::Throttled);
    assert_eq!(judged((0.0, 1.94), (0.005, 1.65)), Judgement::Better);
    assert_eq!(judged((0.0, 1.65), (0.0, 1.94)), Judgement::Worse);
    assert_eq!(judged((0.3, 1.65), (0.0, 1.65)), Judgement::Same);
}

#[test]
fn what_is_worse_by_more_than_the_limit_is_named() {
    let worse = |reports: [Report; 2], limit| {
        let runs = runs(reports);
        figures::failures(&runs, &figures::groups(&runs), limit).worse
    };
    let p50 = [100, 101, 102, 103, 104];
    let (fast, slow) = (repeated(&p50, 100.0), repeated(&p50, 130.0));
    let found = worse([fast.clone(), slow.clone()], 1.2);
    assert!(
        found
            .iter()
            .any(|line| line.starts_with("B: Processes, added up, CPU per change: ")),
        "{found:?}"
    );
    assert!(
        worse([fast.clone(), slow.clone()], 1.4).is_empty(),
        "not by so much"
    );
    assert!(worse([slow, fast], 1.0).is_empty(), "better is no reason to fail");
    let mut failing = sample::endpointd();
    failing.changes.failed = 3;
    let found = worse([sample::endpointd(), failing], 5.0);
    assert_eq!(found, ["B: Changes and writes, changes failed: 3 after 0"]);
}

/// Returns the failures of these with `--fail-above 1.2`, and the last line of the text.
fn failed(reports: [Report; 2]) -> (Failures, String) {
    let runs = runs(reports);
    let failures = figures::failures(&runs, &figures::groups(&runs), 1.2);
    let told = told(1.2, &failures);
    let last = told.lines().next_back().unwrap().to_owned();
    (failures, last)
}

#[test]
fn a_figure_that_is_gone_is_a_failure() {
    let mut gone = sample::endpointd();
    gone.slices.count = 0;
    gone.slices.never_seen = 12;
    let (failures, last) = failed([sample::endpointd(), gone.clone()]);
    assert_eq!(failures.missing.len(), 5, "{:?}", failures.missing);
    assert!(
        failures.missing[0].starts_with("B: Slices: change to visible, p50: not measured, "),
        "{:?}",
        failures.missing
    );
    assert!(last.contains("5 figures are missing"), "{last}");
    // A figure that the reference lacks is not missed.
    assert!(failed([gone, sample::endpointd()]).0.missing.is_empty());
    let p50 = [100, 101, 102, 103, 104];
    let mut once = repeated(&p50, 100.0);
    for round in &mut once.rounds[1..] {
        round.slices.count = 0;
    }
    let (failures, _) = failed([repeated(&p50, 100.0), once]);
    assert_eq!(failures.missing.len(), 6, "in one round of five");
    let (mut most, mut none) = (repeated(&p50, 100.0), repeated(&p50, 100.0));
    most.rounds[0].slices.count = 0;
    none.rounds.iter_mut().for_each(|round| round.slices.count = 0);
    let (failures, _) = failed([most, none]);
    assert!(
        !failures.missing.is_empty(),
        "in four rounds of five, and in none"
    );
    // A short time that the clock did not show is not missing.
    let mut quick = sample::endpointd();
    quick.processes[0].cold_cpu_seconds = 0.0;
    assert!(failed([sample::endpointd(), quick.clone()]).0.is_none());
    quick.processes[0].unread = true;
    assert!(!failed([sample::endpointd(), quick]).0.missing.is_empty());
}

#[test]
fn a_run_that_was_not_verified_is_a_failure() {
    let mut wrong = sample::endpointd();
    wrong.verdict.verified = false;
    let (failures, last) = failed([sample::endpointd(), wrong]);
    assert!(!failures.is_none());
    assert_eq!(last, "failed: B was not verified");
    let (failures, last) = failed([sample::endpointd(), sample::endpointd()]);
    assert!(failures.is_none());
    assert_eq!(last, "no figure is worse by more than ×1.2, and none is missing");
}

#[test]
fn flags_that_differ_are_warned_of_where_they_are_known() {
    let with = |flags: Option<&[&str]>| {
        let mut report = sample::endpointd();
        report.flags = flags.map(|flags| flags.iter().map(|&flag| flag.to_owned()).collect());
        report
    };
    let qps = with(Some(&[
        "--max-endpoints-per-slice=100",
        "--kube-api-qps=50",
        "--kube-api-qps=0",
    ]));
    let others = [
        with(Some(&["--max-endpoints-per-slice=100", "--log"])),
        with(None),
    ];
    let [usual, old] = others;
    assert_eq!(
        settings::warnings(&runs([usual.clone(), qps.clone()])),
        [
            "flag of the controller: --kube-api-qps: not given (A); 0 (B)",
            "flag of the controller: --log: given (A); not given (B)",
        ]
    );
    assert_eq!(
        settings::warnings(&runs([qps, old.clone()])),
        [
            "flag of the controller: --kube-api-qps: 0 (A); not known (B)",
            "flag of the controller: --max-endpoints-per-slice: 100 (A); not known (B)",
        ]
    );
    assert!(settings::warnings(&runs([old.clone(), old])).is_empty());
}

#[test]
fn a_flag_whose_value_is_a_word_of_its_own_is_the_same_flag() {
    let with = |flags: &[&str]| {
        let mut report = sample::endpointd();
        report.flags = Some(flags.iter().map(|&flag| flag.to_owned()).collect());
        report
    };
    let [one, other] = [
        &["run", "--kube-api-qps", "100"][..],
        &["run", "--kube-api-qps=100"][..],
    ]
    .map(with);
    assert!(figures::advice(&one).contains(" waited for --kube-api-qps=100, "));
    assert!(settings::warnings(&runs([one.clone(), other])).is_empty());
    assert_eq!(
        settings::warnings(&runs([one, with(&["--kube-api-qps=1", "--kube-api-qps", "50"])])),
        ["flag of the controller: --kube-api-qps: 100 (A); 50 (B)"]
    );
}

#[test]
fn what_one_run_lacks_has_no_ratio() {
    let groups = figures::groups(&runs([sample::endpointd(), sample::empty()]));
    let p50 = figure(&groups, "Slices", "p50");
    assert_eq!(
        (p50.standing(1).ratio, p50.standing(1).judgement),
        (None, Judgement::None)
    );
    assert_eq!(p50.text(1), "–");
    let made = figure(&groups, "Changes", "changes made");
    assert_eq!(made.standing(1).judgement, Judgement::None);
    // Figures that neither run has are not shown at all.
    let groups = figures::groups(&runs([sample::empty(), sample::empty()]));
    assert_eq!(groups.len(), 1);
    assert_eq!(groups[0].title, "Changes and writes");
}

#[test]
fn processes_are_added_up_and_shown_by_name_where_all_have_them() {
    let groups = figures::groups(&runs([sample::three_processes(), sample::endpointd()]));
    let memory = figure(&groups, "Processes", "memory at the end");
    let sum = memory.values[0].map(|spread| spread.median);
    assert_eq!(sum, Some(f64::from(512 + 730 + 140) * 1024.0 * 1024.0));
    assert!(!groups.iter().any(|group| group.title == "etcd"));
    let groups = figures::groups(&runs([sample::three_processes(), sample::three_processes()]));
    assert_eq!(
        figure(&groups, "etcd", "CPU in all").standing(1).judgement,
        Judgement::Same
    );
}

#[test]
fn runs_of_one_title_are_told_apart() {
    let named = runs([sample::endpointd(), sample::endpointd(), sample::failed()]);
    let labels: Vec<String> = named.iter().map(Run::label).collect();
    assert_eq!(
        labels,
        ["A endpointd (some.json)", "B endpointd (some.json)", "C broken"]
    );
}

#[test]
fn differences_are_warned_of() {
    assert_eq!(
        settings::warnings(&runs([sample::endpointd(), sample::three_processes()])),
        Vec::<String>::new()
    );

    let mut other = sample::failed();
    other.profile = "steady".to_owned();
    other.machine.cores = 64;
    other.machine.load_average = 9.0;
    other.parameters.remove("pods");
    other.versions.insert("loadtest".to_owned(), "0.2.0".to_owned());
    let warnings = settings::warnings(&runs([sample::endpointd(), sample::three_processes(), other]));
    let wanted = [
        "C was not verified",
        "C had a generator that lagged",
        "profile: burst (A, B); steady (C)",
        "pods: 20000 (A, B); not known (C)",
        "rate: 500 (A, B); 200 (C)",
        "machine: Cores: 2 (A, B); 64 (C)",
        "version of loadtest: 0.1.0 (3a81cc0) (A, B); 0.2.0 (C)",
        "length: 60.0 s (A, B); 12.5 s (C)",
        "C warned: the load average was 7.3",
        "C warned: the controller's metrics",
    ];
    assert_eq!(warnings.len(), wanted.len(), "{warnings:#?}");
    for (warning, wanted) in warnings.iter().zip(wanted) {
        assert!(warning.starts_with(wanted), "{warning}: {wanted}");
    }
}

#[test]
fn a_comparison_fits_on_a_terminal() {
    let all = sample::all();
    let eight: Vec<Report> = all.iter().chain(&all[..2]).cloned().collect();
    for reports in [all[..2].to_vec(), all[..3].to_vec(), eight] {
        let runs = runs(reports);
        let groups = figures::groups(&runs);
        let text = text::comparison(&runs, &groups, &settings::warnings(&runs), false);
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
            assert!(!line.contains('\u{1b}'));
        }
        for run in &runs[1..] {
            assert!(
                text.lines()
                    .any(|line| line.starts_with(' ') && line.contains(run.letter)),
                "{}",
                run.letter
            );
        }
    }
}

#[test]
fn a_comparison_names_ratio_and_judgement() {
    let runs = runs([sample::three_processes(), sample::endpointd()]);
    let groups = figures::groups(&runs);
    let text = text::comparison(&runs, &groups, &[], false);
    let p50 = text
        .lines()
        .find(|line| line.trim_start().starts_with("p50"))
        .unwrap();
    let words: Vec<&str> = p50.split_whitespace().collect();
    assert_eq!(words[..2], ["p50", "↓"], "{p50}");
    assert!(words[words.len() - 2].starts_with("×0.00"), "{p50}");
    assert_eq!(words[words.len() - 1], "+", "{p50}");
    let page = page::of_several(&runs, &groups, &[]);
    assert!(page.contains("<span>better</span>") && !page.contains("<span>worse</span>"));
    assert!(!page.contains("Compare with care"));
    let runs = self::runs([sample::endpointd(), sample::three_processes()]);
    assert!(page::of_several(&runs, &figures::groups(&runs), &[]).contains("<span>worse</span>"));
}

#[test]
fn text_of_reports_stays_text() {
    let runs = runs([sample::hostile(), sample::hostile(), sample::endpointd()]);
    let page = page::of_several(&runs, &figures::groups(&runs), &settings::warnings(&runs));
    assert_eq!(page.matches("<script").count(), 1);
    assert!(!page.contains("<img") && !page.contains("\"'>"));
    assert!(page.contains("Compare with care"));
}
