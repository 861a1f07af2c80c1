//! Reports are written and read, and what is read stays text.

use super::model::{Process, ProcessSample};
use super::*;
use std::path::PathBuf;

/// A directory of its own for a test, gone when the test is.
struct Dir(PathBuf);

// === impl Dir ===

impl Dir {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("loadtest-report-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn file(&self, contents: &str) -> PathBuf {
        let path = self.0.join("some.json");
        fs::write(&path, contents).unwrap();
        path
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn problem(path: &Path) -> String {
    format!("{:#}", read(path).unwrap_err())
}

#[test]
fn what_was_saved_is_read_again() {
    let dir = Dir::new("again");
    let more = [
        sample::throttled(),
        sample::repeated(),
        sample::watched(),
        sample::claimed(),
    ];
    for report in sample::all().into_iter().chain(more) {
        let saved = save(&report, &dir.0.join("new/er")).unwrap();
        assert_eq!(read(&saved.json).unwrap(), report);
        assert_eq!(read(saved.json.parent().unwrap()).unwrap(), report);
        assert!(
            fs::read_to_string(&saved.html)
                .unwrap()
                .starts_with("<!DOCTYPE html>")
        );
        assert_eq!(fs::read_dir(saved.json.parent().unwrap()).unwrap().count(), 2);
    }
}

#[test]
fn unknown_and_missing_fields_are_no_error() {
    let dir = Dir::new("fields");
    let path = dir.file(
        r#"{"schema": 1, "title": "t", "colour": "red", "machine": {"cores": 3, "gpu": {}},
            "processes": [{"name": "p", "threads": 9, "overTime": [{"at": 1.5}]}]}"#,
    );
    let report = read(&path).unwrap();
    assert_eq!((report.title.as_str(), report.machine.cores), ("t", 3));
    let sample = ProcessSample {
        at: 1.5,
        ..Default::default()
    };
    let process = Process {
        name: "p".to_owned(),
        over_time: vec![sample],
        ..Default::default()
    };
    assert_eq!(report.processes, [process]);
    assert!(!report.verdict.verified);
    assert_eq!(report.converge_seconds, None);
}

#[test]
fn figures_that_json_cannot_hold_do_not_spoil_a_report() {
    let dir = Dir::new("numbers");
    let mut report = sample::endpointd();
    report.writes.per_change = f64::NAN;
    report.processes[0].over_time[3].cpu = f64::INFINITY;
    let saved = save(&report, &dir.0).unwrap();
    let read = read(&saved.json).unwrap();
    report.writes.per_change = 0.0;
    report.processes[0].over_time[3].cpu = 0.0;
    assert_eq!(read, report);
    let page = fs::read_to_string(&saved.html).unwrap();
    assert!(!page.contains("NaN") && !page.contains("inf\"") && !page.contains(">inf"));
}

#[test]
fn what_is_no_report_is_told_in_one_line() {
    let dir = Dir::new("bad");
    let missing = dir.0.join("missing.json");
    assert!(
        problem(&missing).contains("missing.json: No such file"),
        "{}",
        problem(&missing)
    );
    assert!(problem(&dir.0).contains("report.json: No such file"));
    for (contents, wanted) in [
        ("", "some.json is no report: EOF"),
        ("{\"schema\": 1,", "some.json is no report: EOF"),
        ("<html>", "some.json is no report: expected value"),
        ("{}", "some.json is no report: it has no \"schema\""),
        ("[1]", "some.json is no report: it has no \"schema\""),
        ("{\"schema\": 0}", "some.json is no report: it has no \"schema\""),
        (
            "{\"schema\": 1, \"phases\": 3}",
            "some.json is no report: invalid type",
        ),
        (
            "{\"schema\": 2}",
            "some.json has schema 2, and this loadtest knows those up to 1",
        ),
    ] {
        let problem = problem(&dir.file(contents));
        assert!(
            problem.contains(wanted) && !problem.contains('\n'),
            "{contents}: {problem}"
        );
    }
}

#[test]
fn text_of_a_report_stays_text() {
    let page = page::of_one(&sample::hostile());
    assert_eq!(page.matches("<script").count(), 1);
    assert!(!page.contains("<img") && !page.contains("\"'>"));
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert!(page.contains("&amp;amp;"));
}

#[test]
fn a_page_shows_what_was_measured() {
    let page = page::of_one(&sample::endpointd());
    for id in [
        "slices",
        "endpoints",
        "distribution",
        "work",
        "queue",
        "cpu",
        "memory",
    ] {
        assert!(
            page.contains(&format!("<figure class=\"plot\" id=\"{id}\">")),
            "{id}"
        );
    }
    assert_eq!(page.matches("<details>").count(), 7);
    for text in [
        "rolling restart of all",
        "SIGKILL",
        "no writer for up to 1.60 s",
        "AMD EPYC",
        "3a81cc0",
    ] {
        assert!(page.contains(text), "{text}");
    }
    assert!(!page::of_one(&sample::three_processes()).contains("id=\"queue\""));
    assert!(page::of_one(&sample::empty()).contains("Nothing was measured."));
}

#[test]
fn throttling_and_what_is_above_a_budget_are_shown() {
    let throttled = sample::throttled();
    let page = page::of_one(&throttled);
    for text in [
        "Throttled 93 % of the time",
        "waited for the default <span class=\"flag\">--kube-api-qps,</span>",
        "3 budgets missed",
        "Time throttled",
        "id=\"throttled\"",
        "doubtful\"><span class=\"label\">Slices, p99",
        "doubtful\" data-head=\"p99\">",
    ] {
        assert!(page.contains(text), "{text}");
    }
    let text = table(&throttled, false);
    assert!(
        text.contains("THROTTLED 93 % OF THE TIME") && text.contains("MISSED"),
        "{text}"
    );

    let mut free = sample::endpointd();
    let page = page::of_one(&free);
    assert!(!page.contains("hrottled"), "nothing is known of it");
    free.throttling = Some(model::Throttling::default());
    let page = page::of_one(&free);
    assert!(page.contains("Not throttled") && !page.contains("id=\"throttled\""));
    assert!(page.contains("did not hold back its writes"));
    for (share, words) in [
        (0.008, "for 0.8 % of the time"),
        (0.0001, "for less than 0.1 % of the time"),
    ] {
        free.throttling = Some(model::Throttling {
            share,
            ..model::Throttling::default()
        });
        let page = page::of_one(&free);
        assert!(
            page.contains("Hardly throttled") && page.contains(words),
            "{share}"
        );
        assert!(!page.contains("did not hold back"), "{share}");
        assert!(table(&free, false).contains("hardly throttled"), "{share}");
    }
}

#[test]
fn a_repeated_run_shows_medians_and_ranges() {
    let report = sample::repeated();
    let page = page::of_one(&report);
    assert!(page.contains("3 rounds") && page.contains("Figures of all rounds"));
    assert!(
        table(&report, false).contains("3 rounds"),
        "{}",
        table(&report, false)
    );
}
