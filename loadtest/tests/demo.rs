//! The command as a person runs it, on small clusters.
#![allow(
    clippy::unwrap_used,
    reason = "clippy does not see that helpers of a test are tests"
)]

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

const SMALL: [&str; 9] = [
    "demo",
    "--pods=300",
    "--services=30",
    "--namespaces=3",
    "--nodes=6",
    "--duration=2s",
    "--rate=100",
    "--seed=7",
    "--time-limit=30s",
];

fn loadtest() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadtest"));
    // Where a controller that fails leaves its log.
    command
        .stdin(Stdio::null())
        .env("TMPDIR", env!("CARGO_TARGET_TMPDIR"));
    command
}

/// Runs a small demo with some more flags.
fn demo(flags: &[&str]) -> Output {
    let (command, rest) = SMALL.split_first().unwrap();
    loadtest().arg(command).args(flags).args(rest).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The number in the row of the table that begins so.
fn figure(table: &str, row: &str) -> u64 {
    let line = table
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(row))
        .unwrap();
    let word = line.split_whitespace().next().unwrap();
    word.replace(',', "").parse().unwrap()
}

#[test]
fn a_demo_ends_verified() {
    let output = demo(&[]);
    let text = stdout(&output);
    assert!(output.status.success(), "{text}{}", stderr(&output));

    let last = text.lines().last().unwrap();
    let verified = last.strip_prefix("verified: ").unwrap();
    let count = |noun: &str| -> u32 {
        let counts = verified.split(", ").find_map(|count| count.strip_suffix(noun));
        counts.unwrap().parse().unwrap()
    };
    assert!(count(" services") >= 20, "{last}");
    assert!(count(" endpoints") >= 300, "{last}");
    assert!(count(" slices") >= count(" services"), "{last}");

    assert!(figure(&text, "churn operations") >= 100, "{text}");
    assert!(figure(&text, "slice writes") > 0, "{text}");
    assert_eq!(figure(&text, "never seen"), 0, "{text}");
    assert!(figure(&text, "measured") > 100, "{text}");
}

#[test]
fn tampering_with_a_slice_is_found_and_named() {
    for (how, difference) in [
        ("corrupt", ": differs in addresses: expected "),
        ("drop", ": missing"),
        ("add", "/intruder (203.0.113.66) in slice "),
    ] {
        let output = demo(&["--tamper", how]);
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(1), "{text}{}", stderr(&output));

        let tampered = text
            .lines()
            .find_map(|line| line.strip_prefix("tampered with slice "))
            .unwrap();
        let (slice, _) = tampered.split_once(':').unwrap();
        // The API server makes the slice's name from the Service's, a hyphen and some characters.
        let (service, _) = slice.rsplit_once('-').unwrap();
        let lines: Vec<&str> = text
            .lines()
            .skip_while(|line| !line.starts_with("wrong: 1 difference in "))
            .collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[1].starts_with(&format!("  {service} IPv")), "{text}");
        assert!(lines[1].contains(difference), "{text}");
    }
}

#[test]
fn a_controller_that_fails_ends_the_demo_and_shows_its_log() {
    let output = loadtest()
        .args(["demo", "--pods=3", "--services=1", "--", "--no-such-flag"])
        .output()
        .unwrap();
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("error: the controller ended by itself: exit status: 2"),
        "{text}"
    );
    assert!(text.contains("--no-such-flag"), "{text}");
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_demo_leaves_no_controller_behind() {
    use rustix::process::{Pid, Signal, kill_process};

    let mut demo = loadtest()
        .args(["demo", "--pods=50", "--services=5", "--duration=1h"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut progress = BufReader::new(demo.stderr.take().unwrap());
    let mut lines = progress.by_ref().lines().map(Result::unwrap);
    let controller = lines
        .find_map(|line| {
            line.split_once("controller's PID ")
                .map(|(_, pid)| pid.to_owned())
        })
        .expect("the demo says which process its controller is");
    // A process that has ended may stay on as a zombie until its parent asks how it ended.
    let runs = || {
        let stat = std::fs::read_to_string(format!("/proc/{controller}/stat"));
        stat.is_ok_and(|stat| !stat.contains(") Z "))
    };
    assert!(runs());

    kill_process(Pid::from_raw(demo.id().cast_signed()).unwrap(), Signal::INT).unwrap();
    assert_eq!(demo.wait().unwrap().code(), Some(130));
    for _ in 0..100 {
        if !runs() {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("the controller is still there");
}

#[test]
fn bad_flags_get_one_clear_line() {
    let cases: [(&[&str], &str); 3] = [
        (
            &["demo", "--services=0"],
            "error: invalid value '0' for '--services <SERVICES>': 0 is not in 1..=20000",
        ),
        (
            &["demo", "--duration=15"],
            "expected a time such as 15s, 500ms or 2m",
        ),
        (
            &["serve", "--gc=maybe"],
            "error: invalid value 'maybe' for '--gc <BOOL>'",
        ),
    ];
    for (flags, expected) in cases {
        let output = loadtest().args(flags).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
        let text = stderr(&output);
        assert!(text.lines().next().unwrap().contains(expected), "{text}");
    }
}

#[test]
fn serve_says_so_when_its_port_is_taken() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let output = loadtest()
        .args(["serve", "--port", &port.to_string()])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(
        text.starts_with(&format!("error: listening on 127.0.0.1:{port}: ")),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1, "{text}");
}

#[test]
fn serve_writes_a_kubeconfig_and_ends_when_asked_to() {
    let path = std::env::temp_dir().join(format!("loadtest-kubeconfig-{}", std::process::id()));
    let mut serve = loadtest()
        .args(["serve", "--kubeconfig-out"])
        .arg(&path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(serve.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let url = lines.next().unwrap();
    let url = url.strip_prefix("serving on ").unwrap();
    assert_eq!(
        lines.next().unwrap(),
        format!("export KUBECONFIG={}", path.display())
    );
    let kubeconfig = std::fs::read_to_string(&path).unwrap();
    assert!(kubeconfig.contains(url), "{kubeconfig}");
    std::fs::remove_file(&path).unwrap();

    let pid = rustix::process::Pid::from_raw(serve.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(serve.wait().unwrap().success());
}
