//! Reports as files, and the command that compares them.
#![allow(
    clippy::unwrap_used,
    reason = "clippy does not see that helpers of a test are tests"
)]

use loadtest::report::{self, model};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[path = "page/sample.rs"]
mod sample;

use model::Report;

/// A directory of its own for a test, gone when the test is.
struct Dir(PathBuf);

// === impl Dir ===

impl Dir {
    fn new(name: &str) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("page-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    /// Saves a report in a directory of this name.
    fn save(&self, name: &str, report: &Report) -> report::Saved {
        report::save(report, &self.0.join(name)).unwrap()
    }

    /// Compares reports and gives the page.
    fn compare(&self, name: &str, reports: &[Report]) -> PathBuf {
        let saved: Vec<PathBuf> = reports
            .iter()
            .enumerate()
            .map(|(number, report)| self.save(&format!("{name}-{number}"), report).json)
            .collect();
        let out = self.0.join(format!("{name}.html"));
        let output = loadtest()
            .arg("compare")
            .args(&saved)
            .arg("--out")
            .arg(&out)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        out
    }

    /// All pages that there are to look at, by name.
    fn pages(&self) -> Vec<(&'static str, PathBuf)> {
        let (fast, slow) = (sample::endpointd(), sample::three_processes());
        let names = ["endpointd", "three", "failed", "empty", "huge", "hostile"];
        let mut pages: Vec<_> = names
            .into_iter()
            .zip(sample::all())
            .map(|(name, report)| (name, self.save(name, &report).html))
            .collect();
        pages.push(("throttled", self.save("throttled", &sample::throttled()).html));
        pages.push(("watched", self.save("watched", &sample::watched()).html));
        pages.push(("claimed", self.save("claimed", &sample::claimed()).html));
        pages.push(("repeated", self.save("repeated", &sample::repeated()).html));
        let repeated = [sample::repeated(), sample::throttled()];
        pages.push(("compare-repeated", self.compare("compare-repeated", &repeated)));
        pages.push(("compare", self.compare("compare", &[slow.clone(), fast.clone()])));
        pages.push((
            "compare-three",
            self.compare("compare-three", &[slow, fast, sample::failed()]),
        ));
        pages.push(("compare-all", self.compare("compare-all", &sample::all())));
        pages
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn loadtest() -> Command {
    Command::new(env!("CARGO_BIN_EXE_loadtest"))
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A start tag: its name and its attributes.
type Tag<'a> = (&'a str, Vec<(&'a str, &'a str)>);

/// The start tags of a page. It was written by a template, so its attributes are quoted or have no value.
fn tags(page: &str) -> Vec<Tag<'_>> {
    let mut tags = Vec::new();
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        rest = &rest[start + 1..];
        let end = rest.find(|c: char| c.is_whitespace() || c == '>').unwrap();
        let (name, mut attributes) = rest.split_at(end);
        let mut found = Vec::new();
        loop {
            attributes = attributes.trim_start();
            if let Some(after) = attributes.strip_prefix('>') {
                rest = after;
                break;
            }
            let end = attributes
                .find(|c: char| c.is_whitespace() || c == '>' || c == '=')
                .unwrap();
            let (attribute, after) = attributes.split_at(end);
            if let Some(quoted) = after.strip_prefix("=\"") {
                let (value, after) = quoted.split_once('"').unwrap();
                found.push((attribute, value));
                attributes = after;
            } else {
                assert!(!after.starts_with('='), "{name} {attribute} is not quoted");
                found.push((attribute, ""));
                attributes = after;
            }
        }
        if let "style" | "script" = name {
            rest = &rest[rest.find("</").unwrap()..];
        }
        tags.push((name, found));
    }
    tags
}

/// Returns what in a page would load something, leave it, or run code beside its one script.
fn faults(page: &str) -> Vec<String> {
    const ADDRESSES: [&str; 14] = [
        "src",
        "href",
        "xlink:href",
        "srcset",
        "imagesrcset",
        "action",
        "formaction",
        "poster",
        "data",
        "background",
        "ping",
        "cite",
        "manifest",
        "codebase",
    ];
    const ELEMENTS: [&str; 9] = [
        "iframe", "object", "embed", "base", "frame", "img", "video", "audio", "form",
    ];
    let mut faults = Vec::new();
    let mut scripts = 0;
    for (name, attributes) in tags(page) {
        if ELEMENTS.contains(&name) {
            faults.push(format!("<{name}>"));
        }
        scripts += u32::from(name == "script");
        for (attribute, value) in attributes {
            let address =
                ADDRESSES.contains(&attribute) && !(value.starts_with('#') || value.starts_with("data:"));
            let code = attribute.starts_with("on") || attribute == "style";
            let elsewhere =
                value.contains("url(") || (attribute == "http-equiv" && value != "Content-Security-Policy");
            if address || code || elsewhere {
                faults.push(format!("<{name} {attribute}=\"{value}\">"));
            }
        }
    }
    if scripts != 1 {
        faults.push(format!("{scripts} scripts"));
    }
    for text in [
        "url(",
        "@import",
        "fetch(",
        "XMLHttpRequest",
        "WebSocket",
        "import(",
        "innerHTML",
    ] {
        for part in ["style", "script"] {
            let (_, rest) = page.split_once(&format!("<{part}>")).unwrap();
            let (inside, _) = rest.split_once(&format!("</{part}>")).unwrap();
            if inside.contains(text) {
                faults.push(format!("{text} in <{part}>"));
            }
        }
    }
    faults
}

#[test]
fn pages_name_nothing_outside_themselves() {
    let dir = Dir::new("static");
    for (name, page) in dir.pages() {
        let page = fs::read_to_string(page).unwrap();
        assert_eq!(faults(&page), Vec::<String>::new(), "{name}");
        let (_, policy) = page
            .split_once("http-equiv=\"Content-Security-Policy\" content=\"")
            .unwrap();
        let (policy, _) = policy.split_once('"').unwrap();
        assert!(
            policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe"),
            "{policy}"
        );
    }
}

#[test]
fn what_would_be_loaded_is_found() {
    let dir = Dir::new("faults");
    let page = fs::read_to_string(dir.save("one", &sample::endpointd()).html).unwrap();
    for (markup, wanted) in [
        (
            "<a href=\"https://example.com\">",
            "<a href=\"https://example.com\">",
        ),
        ("<img src=\"data:,\">", "<img>"),
        ("<p style=\"color: red\">", "<p style=\"color: red\">"),
        ("<p onclick=\"a()\">", "<p onclick=\"a()\">"),
        ("<path fill=\"url(http://x)\">", "<path fill=\"url(http://x)\">"),
        (
            "<meta http-equiv=\"refresh\" content=\"0\">",
            "<meta http-equiv=\"refresh\">",
        ),
        ("<script></script>", "2 scripts"),
    ] {
        let spoiled = page.replacen("<main>", &format!("<main>{markup}"), 1);
        assert_eq!(faults(&spoiled), [wanted], "{markup}");
    }
    let spoiled = page.replacen("<style>", "<style>@import 'x';", 1);
    assert_eq!(faults(&spoiled), ["@import in <style>"]);
}

#[test]
fn a_comparison_is_printed_and_written() {
    let dir = Dir::new("compare");
    let slow = dir.save("slow", &sample::three_processes()).json;
    let fast = dir.save("fast", &sample::endpointd());
    // A directory stands for the report in it.
    let output = loadtest()
        .current_dir(&dir.0)
        .arg("compare")
        .arg(&slow)
        .arg(fast.json.parent().unwrap())
        .output()
        .unwrap();
    let text = stdout(&output);
    assert!(output.status.success(), "{text}{}", stderr(&output));
    assert!(
        text.contains("A   kube-controller-manager 1.36\nB   endpointd\n"),
        "{text}"
    );
    assert!(
        text.contains("×") && !text.contains('\u{1b}') && !text.contains("warning"),
        "{text}"
    );
    assert!(text.ends_with("\ncompare.html\n"), "{text}");
    let page = fs::read_to_string(dir.0.join("compare.html")).unwrap();
    assert!(page.contains("2 runs side by side"));
}

#[test]
fn a_comparison_fails_where_a_figure_is_worse_by_more_than_is_allowed() {
    let dir = Dir::new("above");
    let fast = dir.save("fast", &sample::endpointd()).json;
    let slow = dir.save("slow", &sample::three_processes()).json;
    let compared = |first: &Path, second: &Path, limit: &str| {
        let output = loadtest()
            .current_dir(&dir.0)
            .arg("compare")
            .args([first, second])
            .args(["--fail-above", limit])
            .output()
            .unwrap();
        (output.status.code(), stdout(&output), stderr(&output))
    };
    let (code, text, _) = compared(&fast, &slow, "1.2");
    assert_eq!(code, Some(3), "{text}");
    assert!(
        text.contains("\nworse by more than ×1.2:\n  B: Slices: change to visible, p50: "),
        "{text}"
    );
    let (code, text, _) = compared(&fast, &fast, "1.2");
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.ends_with("\nno figure is worse by more than ×1.2, and none is missing\n"),
        "{text}"
    );
    // A figure that a run lacks, and a run that went wrong, are told in the last line.
    let failed = dir.save("failed", &sample::failed()).json;
    let (code, text, _) = compared(&fast, &failed, "1000");
    assert_eq!(code, Some(3), "{text}");
    let last = text.lines().next_back().unwrap();
    assert!(
        last.starts_with("failed: ") && last.ends_with(", 1 figure is missing, B was not verified"),
        "{text}"
    );
    for wrong in ["0.9", "x", "inf", "NaN"] {
        let (code, _, text) = compared(&fast, &slow, wrong);
        assert_eq!(code, Some(2), "{wrong}");
        assert!(text.contains("such as 1.2"), "{wrong}: {text}");
    }
}

#[test]
fn runs_that_should_not_be_compared_are_warned_of() {
    let dir = Dir::new("warn");
    let saved = [sample::endpointd(), sample::failed()];
    let saved = saved
        .iter()
        .enumerate()
        .map(|(n, report)| dir.save(&n.to_string(), report).json);
    let out = dir.0.join("page.html");
    let output = loadtest()
        .arg("compare")
        .args(saved)
        .arg("--out")
        .arg(&out)
        .output()
        .unwrap();
    let text = stdout(&output);
    assert!(output.status.success(), "{text}{}", stderr(&output));
    for warning in [
        "warning: B was not verified",
        "warning: B had a generator",
        "warning: rate: 500 (A); 200 (B)",
    ] {
        assert!(text.contains(warning), "{warning}: {text}");
    }
    assert!(fs::read_to_string(out).unwrap().contains("Compare with care"));
}

#[test]
fn bad_input_is_one_line() {
    let dir = Dir::new("bad");
    let good = dir.save("good", &sample::endpointd()).json;
    let file = |name: &str, contents: &str| {
        let path = dir.0.join(name);
        fs::write(&path, contents).unwrap();
        path
    };
    let out = dir.0.join("out.html");
    for (bad, wanted) in [
        (
            dir.0.join("nowhere.json"),
            "nowhere.json: No such file or directory",
        ),
        (file("text.json", "not JSON"), "text.json is no report: "),
        (
            file("other.json", "{\"kind\": \"Pod\"}"),
            "other.json is no report: it has no \"schema\"",
        ),
        (
            file("newer.json", "{\"schema\": 99}"),
            "newer.json has schema 99, and this loadtest knows those up to 1",
        ),
    ] {
        let output = loadtest()
            .arg("compare")
            .arg(&good)
            .arg(&bad)
            .arg("--out")
            .arg(&out)
            .output()
            .unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.starts_with("error: ") && text.contains(wanted), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(output.stdout.is_empty() && !out.exists());
    }
    let output = loadtest().arg("compare").arg(&good).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
