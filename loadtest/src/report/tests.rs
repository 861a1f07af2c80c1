//! Reports are written and read, and what is read stays text.

use super::*;
use model::{Budget, Claims, Throttling, Watchers};

/// A directory of its own for a test, gone when the test is.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("loadtest-report-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_was_saved_is_read_again_but_for_what_json_cannot_hold() {
    let dir = Dir::new("again");
    let mut report = sample::repeated(&[1, 2, 3], 100.0);
    report.writes.per_change = f64::NAN;
    let saved = save(&report, &dir.0.join("new/er")).unwrap();
    report.writes.per_change = 0.0;
    assert_eq!(read(saved.json.parent().unwrap()).unwrap(), report);
    assert!(
        fs::read_to_string(&saved.html)
            .unwrap()
            .starts_with("<!DOCTYPE html>")
    );
    assert_eq!(fs::read_dir(saved.json.parent().unwrap()).unwrap().count(), 2);
}

#[test]
fn what_is_no_report_is_told_in_one_line_and_unknown_fields_are_no_error() {
    let dir = Dir::new("bad");
    let path = dir.0.join("some.json");
    assert!(format!("{:#}", read(&path).unwrap_err()).contains("some.json: No such file"));
    for (contents, wanted) in [
        ("", "some.json is no report: EOF"),
        ("<html>", "some.json is no report: expected value"),
        ("{}", "some.json is no report: it has no \"schema\""),
        (
            "{\"schema\": 1, \"phases\": 3}",
            "some.json is no report: invalid type",
        ),
        (
            "{\"schema\": 2}",
            "some.json has schema 2, and this loadtest knows those up to 1",
        ),
    ] {
        fs::write(&path, contents).unwrap();
        let problem = format!("{:#}", read(&path).unwrap_err());
        assert!(
            problem.contains(wanted) && !problem.contains('\n'),
            "{contents}: {problem}"
        );
    }
    fs::write(
        &path,
        r#"{"schema": 1, "title": "t", "queue": [{"at": 1}], "machine": {"gpu": {}}}"#,
    )
    .unwrap();
    assert_eq!(read(&path).unwrap().title, "t");
}

/// All forms in which a report is shown.
fn shown(report: &Report) -> [String; 2] {
    let dir = Dir::new(&fastrand::u64(..).to_string());
    let page = save(report, &dir.0).unwrap().html;
    [table(report, false), fs::read_to_string(page).unwrap()]
}

#[test]
fn what_went_wrong_is_shown_everywhere() {
    let mut report = sample::failed();
    report.throttling = Some(Throttling {
        share: 0.93,
        seconds: 55.8,
    });
    report.budgets = vec![Budget {
        figure: "slices.p99".to_owned(),
        limit: "100 ms".to_owned(),
        measured: "12.8 s".to_owned(),
        met: false,
    }];
    for text in shown(&report) {
        for wanted in [
            "NOT VERIFIED",
            "GENERATOR LAGGED",
            "THROTTLED 93 % OF THE TIME",
            "slices.p99",
            "12.8 s",
            "the load average was 7.3",
            "ns/service-9 IPv4",
            "and 15 more",
        ] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        assert!(!text.contains("ns/service-10 "), "{text}");
    }
    for text in shown(&sample::endpointd()) {
        assert!(
            text.contains("verified") && text.contains("generator kept up"),
            "{text}"
        );
        assert!(!text.contains("NOT") && !text.contains("hrottled"), "{text}");
    }
}

#[test]
fn a_report_moves_no_cursor_loads_nothing_and_runs_nothing() {
    let [text, page] = shown(&sample::hostile());
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text}");
    assert!(!page.contains("<script") && !page.contains("<img") && !page.contains("\"'>"));
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert!(page.contains("content=\"default-src 'none'; style-src 'sha256-") && !page.contains("url("));
}

#[test]
fn three_charts_are_drawn_of_what_was_measured() {
    let [_, page] = shown(&sample::endpointd());
    assert_eq!(page.matches("<figure>").count(), 3);
    assert_eq!(page.matches("class=\"curve c0\"").count(), 3);
    let [_, empty] = shown(&Report::default());
    assert_eq!(empty.matches("Nothing was measured.").count(), 3);
}

#[test]
fn a_table_fits_on_a_terminal_and_colour_changes_no_letter() {
    let mut watched = sample::endpointd();
    watched.watchers = Some(Watchers {
        count: 1_000,
        ended: 12_345,
        bytes: u64::MAX,
        ..Watchers::default()
    });
    let mut claimed = sample::repeated(&[1, 900, u64::MAX], 1e9);
    claimed.claims = Some(Claims {
        alive: 100_000,
        made: 18_000,
        ready: claimed.slices.clone(),
        ..Claims::default()
    });
    let reports = [
        sample::failed(),
        sample::hostile(),
        watched,
        claimed,
        Report::default(),
    ];
    for report in reports {
        let plain = table(&report, false);
        for line in plain.lines() {
            assert!(line.chars().count() <= text::WIDTH, "{line}");
        }
        let mut coloured = table(&report, true);
        while let Some(at) = coloured.find('\u{1b}') {
            let end = coloured[at..].find('m').unwrap();
            coloured.replace_range(at..=at + end, "");
        }
        let trimmed = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        assert_eq!(trimmed(&coloured), trimmed(&plain));
    }
}
