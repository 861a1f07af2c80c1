//! `loadtest real`, on stand-ins for the programs of a control plane: how it starts and ends them, and what it says when
//! something is wrong with them.
#![allow(
    clippy::unwrap_used,
    reason = "clippy does not see that helpers of a test are tests"
)]

use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use tokio::time::Instant;

const LOADTEST: &str = env!("CARGO_BIN_EXE_loadtest");
/// Far longer than anything takes on a machine that is busy with other things.
const LIMIT: Duration = Duration::from_secs(90);

/// A folder with stand-ins, removed when it is dropped. Each stand-in notes its number and its flags.
struct StandIns(PathBuf);

/// Serves HTTPS as kube-apiserver does, from memory; what is stored goes with the process.
const API_SERVER: &str = r#"
flags=""
for flag in "$@"; do case $flag in
    --secure-port=*) flags="$flags --port=${flag#*=}" ;;
    --tls-cert-file=*|--tls-private-key-file=*) flags="$flags $flag" ;;
esac; done
exec LOADTEST serve $flags
"#;
/// It makes no folder above its own: a `mkdir` that outlives a killed shell must not bring back what has been removed.
const ETCD: &str = r#"
for flag in "$@"; do case $flag in --data-dir=*) test -d "${flag#*=}" || mkdir "${flag#*=}"; date >"${flag#*=}/started" ;; esac; done
exec sleep 1000
"#;

impl StandIns {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("loadtest-stand-ins-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        let stand_ins = Self(path);
        stand_ins.put("etcd", "3.6.0", ETCD);
        stand_ins.put("kube-apiserver", "v1.36.0", API_SERVER);
        stand_ins
    }

    /// Puts a program into the folder, which says its version if it is asked.
    fn put(&self, name: &str, version: &str, script: &str) {
        let path = self.0.join(name);
        let noted = self.0.join("started");
        let text = format!(
            "#!/bin/sh\ntest \"$1\" != --version || {{ echo \"{name} {version}\"; exit 0; }}\n\
             echo \"$$ {name} $*\" >>{}\n{}",
            noted.display(),
            script.replace("LOADTEST", LOADTEST)
        );
        // Another test may start a process at any moment, which would keep a file open that is being written.
        let draft = self.0.join(format!("{name}.draft"));
        fs::write(&draft, text).unwrap();
        fs::set_permissions(&draft, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(&draft, path).unwrap();
    }

    /// The processes that were started, with their flags.
    fn started(&self) -> Vec<(i32, String)> {
        let text = fs::read_to_string(self.0.join("started")).unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        lines
            .map(|(pid, rest)| (pid.parse().unwrap(), rest.to_owned()))
            .collect()
    }

    /// Returns those among them that have not ended.
    fn running(&self) -> Vec<i32> {
        let pids = self.started().into_iter().map(|(pid, _)| pid);
        pids.filter(|pid| is_running(*pid)).collect()
    }

    fn real(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(LOADTEST);
        command
            .arg("real")
            .arg("--bin")
            .arg(&self.0)
            .arg("--out")
            .arg(self.0.join("out"))
            .args(arguments)
            .env("TMPDIR", self.temporary())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Where temporary files go, so that those that are left can be seen.
    fn temporary(&self) -> PathBuf {
        let path = self.0.join("tmp");
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn left(&self) -> BTreeSet<String> {
        let entries = fs::read_dir(self.temporary()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect()
    }
}

impl Drop for StandIns {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Whether there is such a process, and it is no zombie that its new parent has not waited for.
fn is_running(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.chars().next());
    !matches!(state, None | Some(Some('Z') | None))
}

fn text(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(
            Instant::now().saturating_duration_since(start) < LIMIT,
            "{what}: not within {LIMIT:?}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs it until it has started these stand-ins.
fn begun(stand_ins: &StandIns, count: usize) -> Child {
    let child = stand_ins.real(&["control-plane"]).spawn().unwrap();
    until("the stand-ins run", || stand_ins.running().len() >= count);
    child
}

#[test]
fn a_control_plane_is_started_with_certificates_and_ports_of_its_own_and_leaves_nothing() {
    let stand_ins = StandIns::new("started");
    let output = stand_ins.real(&["control-plane"]).output().unwrap();
    let (out, err) = text(&output);
    // A server that keeps everything in memory cannot pass: what was written before the restart is gone.
    assert_eq!(output.status.code(), Some(1), "{out}{err}");
    assert!(
        err.contains("kube-apiserver 1.36.0") && err.contains("kubectl"),
        "{err}"
    );
    assert!(out.contains("control-plane  FAILED"), "{out}");
    assert!(out.contains("the API server's restart lost objects"), "{out}");
    assert!(out.ends_with("0 passed, 1 failed, 0 skipped\n"), "{out}");

    let started = stand_ins.started();
    let (servers, stores): (Vec<_>, Vec<_>) = started
        .iter()
        .partition(|(_, flags)| flags.starts_with("kube-apiserver"));
    // Started; after the snapshot; after the restart of the API server alone.
    assert_eq!((servers.len(), stores.len()), (3, 2), "{started:#?}");
    for (_, flags) in servers {
        for flag in [
            "--authorization-mode=RBAC",
            "--bind-address=127.0.0.1",
            "--token-auth-file=",
            "--service-account-issuer=",
        ] {
            assert!(flags.contains(flag), "{flag}: {flags}");
        }
    }
    assert_eq!(stand_ins.running(), [0; 0]);
    assert_eq!(stand_ins.left(), BTreeSet::new());
    let log = fs::read_to_string(stand_ins.0.join("out/control-plane-kube-apiserver.log")).unwrap();
    assert!(log.contains("serving on"), "logs stay: {log}");
}

#[test]
fn an_api_server_that_ends_at_once_is_shown_with_the_end_of_its_log() {
    let stand_ins = StandIns::new("ends");
    stand_ins.put(
        "kube-apiserver",
        "v1.36.0",
        "echo 'error: unknown flag' >&2; exit 3\n",
    );
    let start = Instant::now();
    let output = stand_ins.real(&["control-plane"]).output().unwrap();
    let (out, err) = text(&output);
    assert_eq!(output.status.code(), Some(1), "{out}{err}");
    assert!(
        out.contains("kube-apiserver ended by itself: exit status: 3"),
        "{out}"
    );
    assert!(err.contains("error: unknown flag"), "{err}");
    assert!(
        Instant::now().saturating_duration_since(start) < LIMIT / 2,
        "it was waited for in vain"
    );
    until("etcd is ended, too", || stand_ins.running().is_empty());
    assert_eq!(stand_ins.left(), BTreeSet::new());
}

#[test]
fn a_port_that_another_program_has_taken_is_no_failure() {
    let stand_ins = StandIns::new("port");
    let script = format!(
        "mkdir {0}/first 2>/dev/null && {{ echo 'bind: address already in use' >&2; exit 1; }}\n{API_SERVER}",
        stand_ins.0.display()
    );
    stand_ins.put("kube-apiserver", "v1.36.0", &script);
    let output = stand_ins.real(&["control-plane"]).output().unwrap();
    let (out, _) = text(&output);
    assert!(out.contains("restart lost objects"), "it went on: {out}");
    let started = stand_ins.started();
    let mut ports: Vec<&str> = started
        .iter()
        .filter_map(|(_, flags)| flags.split(' ').find(|flag| flag.starts_with("--secure-port=")))
        .collect();
    ports.dedup();
    assert_eq!(ports.len(), 2, "the second start has other ports: {started:#?}");
}

#[test]
fn what_is_not_in_the_folder_is_skipped_by_name() {
    let stand_ins = StandIns::new("skipped");
    fs::remove_file(stand_ins.0.join("etcd")).unwrap();
    let output = stand_ins.real(&["control-plane"]).output().unwrap();
    let (out, err) = text(&output);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    assert!(out.contains("control-plane  skipped"), "{out}");
    assert!(out.contains("there is no etcd in the folder"), "{out}");
    assert!(stand_ins.started().is_empty());
}

#[test]
fn asked_to_stop_it_ends_what_it_has_started() {
    let stand_ins = StandIns::new("stopped");
    // One that is never ready, so that it is stopped while it waits.
    stand_ins.put("kube-apiserver", "v1.36.0", "exec sleep 1000\n");
    let mut child = begun(&stand_ins, 2);
    let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    until("the stand-ins have ended", || stand_ins.running().is_empty());
    assert_eq!(stand_ins.left(), BTreeSet::new());
}

#[test]
fn killed_outright_it_takes_its_processes_along() {
    let stand_ins = StandIns::new("killed");
    stand_ins.put("kube-apiserver", "v1.36.0", "exec sleep 1000\n");
    let mut child = begun(&stand_ins, 2);
    child.kill().unwrap();
    child.wait().unwrap();
    until("the stand-ins have ended", || stand_ins.running().is_empty());
}

#[test]
fn processes_that_do_not_end_when_asked_are_killed() {
    let stand_ins = StandIns::new("stubborn");
    let stubborn = format!(
        "trap '' TERM\n{}",
        ETCD.replace("exec sleep 1000", "while :; do sleep 1; done")
    );
    stand_ins.put("etcd", "3.6.0", &stubborn);
    let output = stand_ins.real(&["control-plane"]).output().unwrap();
    assert!(text(&output).0.contains("restart lost objects"));
    assert_eq!(stand_ins.running(), [0; 0]);
    assert_eq!(stand_ins.left(), BTreeSet::new());
}

/// A folder of scenarios: those of these names, with the configuration of the last one and a state of the first one spoilt, or
/// not.
fn scenarios(stand_ins: &StandIns, names: &[&str], spoilt: bool) -> PathBuf {
    let folder = stand_ins.0.join(format!("scenarios-{spoilt}"));
    fs::create_dir_all(&folder).unwrap();
    let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/goldens");
    for name in names {
        let mut text = fs::read_to_string(goldens.join(format!("{name}.json"))).unwrap();
        if spoilt {
            text = text.replace("\"serving\": true", "\"serving\": false");
        }
        fs::write(folder.join(format!("{name}.json")), text).unwrap();
    }
    folder
}

/// The parts that need nothing but an API server, on the one in memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_that_need_nothing_else_run_on_a_server_in_memory() {
    let server = memory_apiserver::start(memory_apiserver::Config::default().gc(false))
        .await
        .unwrap();
    let url = server.url();
    let outcome = tokio::task::spawn_blocking(move || {
        let stand_ins = StandIns::new("server");
        let run = |folder: &Path, parts: &[&str]| {
            let mut command = Command::new(LOADTEST);
            command
                .args(["real", "--quick", "--server", &url, "--scenarios"])
                .arg(folder)
                .arg("--out")
                .arg(stand_ins.0.join("out"))
                .args(parts);
            command.output().unwrap()
        };
        let folder = scenarios(&stand_ins, &["basic"], false);
        let good = run(&folder, &["scenarios", "take-over", "outages"]);
        let spoilt = scenarios(&stand_ins, &["clusterip"], true);
        let bad = run(&spoilt, &["scenarios"]);
        let report = fs::read_to_string(stand_ins.0.join("out/scenarios.txt")).unwrap();
        (good, bad, report)
    });
    let (good, bad, report) = outcome.await.unwrap();
    let (out, err) = text(&good);
    assert_eq!(good.status.code(), Some(0), "{out}{err}");
    let (scenarios, others) = out.split_once('\n').unwrap();
    assert!(
        scenarios.contains("passed") && scenarios.contains("endpointd: 1 of 1 (default)"),
        "{out}"
    );
    assert!(others.contains("1 of each under churn"), "{out}");
    assert!(others.contains("needs the binaries of a control plane"), "{out}");
    assert!(out.ends_with("2 passed, 0 failed, 1 skipped\n"), "{out}");

    let (out, err) = text(&bad);
    assert_eq!(bad.status.code(), Some(1), "{out}{err}");
    assert!(out.contains("endpointd: 0 of 1 (default)"), "{out}");
    assert!(err.contains("clusterip: differs (- recorded, + found)"), "{err}");
    assert!(
        report.contains("endpointd, default, clusterip: clusterip: differs"),
        "{report}"
    );
}

/// The watch of metadata and the kube-proxies, on a server whose answers cost it little.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_delays_of_each_write_and_their_difference_are_shown() {
    let config = memory_apiserver::Config::default().gc(false);
    let server = memory_apiserver::start(config).await.unwrap();
    let url = server.url();
    let outcome = tokio::task::spawn_blocking(move || {
        let stand_ins = StandIns::new("echo");
        let mut command = Command::new(LOADTEST);
        command.args([
            "real",
            "--quick",
            "--server",
            &url,
            "--watchers=5",
            "echo",
            "--out",
        ]);
        command.arg(stand_ins.0.join("out")).output().unwrap()
    });
    let (out, err) = text(&outcome.await.unwrap());
    assert!(out.contains("echo  passed"), "{out}{err}");
    assert!(
        out.contains("5 proxies, 20 writes a second: metadata over HTTP/1.1 "),
        "{out}"
    );
    let row = err
        .lines()
        .find(|line| line.starts_with("| 5 over HTTP/1.1 | over HTTP/1.1 | 20 | any | 80 |"));
    let row = row.unwrap_or_else(|| panic!("there is no row of 80 writes: {err}"));
    assert!(
        row.contains("| 0 | not known, ") && !row.contains("none"),
        "{row}"
    );
}
