//! Instructions of a flip in the running program, counted by callgrind: from the watch event of a pod to the answers
//! of the writes, with the runtime, the actors and the HTTP client. Needs valgrind; without it, nothing is counted.
//!
//! ```text
//! cargo bench --bench running [-- FILTER]
//! ENDPOINTD_BEFORE=path/to/another/endpointd cargo bench --bench running
//! ENDPOINTD_NOW=target/dist/endpointd ENDPOINTD_BEFORE=... cargo bench --bench running
//! ```
//!
//! The other forms count another binary in the same run. `ENDPOINTD_PROFILE=FILE` keeps what callgrind wrote of the last one. Each is run twice for as long, with flips and without, so
//! that what the start costs, and what it does in idle time, drops out.

#[path = "support/process.rs"]
#[allow(dead_code)] // Other benchmarks use more of it.
mod process;

use kube::Client;
use memory_apiserver::{Config, start};
use process::{Cluster, Process, WORKLOAD, fill, set_ready, settled};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

const CLUSTER: Cluster = Cluster {
    pods: 2_000,
    namespaces: 4,
    services: &[("", "http")],
};
const FLIPS: u32 = 1_500;

/// A load: its name, flags of the program, outputs of each Service, and flips a second.
const LOADS: &[(&str, &[&str], u64, u32)] = &[
    ("both outputs, 50 flips/s", &[], 2, 50),
    (
        "slices, 50 flips/s",
        &["--controllers=endpointslice-controller"],
        1,
        50,
    ),
    ("both outputs, 300 flips/s", &[], 2, 300),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|a| a == "--test" || a == "--list") {
        return;
    }
    let valgrind = Command::new("valgrind").arg("--version").output();
    if valgrind.is_err() {
        println!("valgrind is not installed: nothing is counted");
        return;
    }
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    let now = std::env::var("ENDPOINTD_NOW").unwrap_or_else(|_| env!("CARGO_BIN_EXE_endpointd").into());
    let before = std::env::var("ENDPOINTD_BEFORE").ok();
    for load in LOADS {
        if filter.is_some_and(|filter| !load.0.contains(filter.as_str())) {
            continue;
        }
        let mut counts = Vec::new();
        for (which, program) in [("before", before.as_deref()), ("now", Some(&*now))] {
            let Some(program) = program else { continue };
            let (idle, _) = run(Path::new(program), load, false);
            let (busy, writes) = run(Path::new(program), load, true);
            let each = busy.saturating_sub(idle) / u64::from(FLIPS);
            let writes = writes as f64 / f64::from(FLIPS);
            println!(
                "{each:>9} instructions a flip, {writes:.2} writes: {}, {which}",
                load.0
            );
            counts.push(each as f64);
        }
        if let [before, now] = counts[..] {
            println!("{:>9.2} of what it was: {}", now / before, load.0);
        }
    }
}

/// Returns the flag with which the program writes as fast as the server answers, if it knows that: nobody watches here, and the
/// budget for watchers on 500 nodes would have several flips share a write.
fn unwatched(program: &Path) -> Option<&'static str> {
    let help = Command::new(program).args(["run", "--help"]).output();
    let help = help.expect("the program can be run").stdout;
    String::from_utf8_lossy(&help)
        .contains("--watchers ")
        .then_some("--watchers=0")
}

/// Returns the instructions of a whole run of the program, and the writes for the flips.
fn run(program: &Path, load: &(&str, &[&str], u64, u32), flips: bool) -> (u64, u64) {
    let (_, flags, outputs, rate) = *load;
    // The server has a thread of its own, whatever the generator does.
    let runtime = tokio::runtime::Runtime::new().expect("threads can be started");
    let directory = std::env::temp_dir().join(format!("endpointd-running-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("temporary files can be made");
    let log = directory.join("valgrind.log");
    let writes = runtime.block_on(async {
        let server = start(Config::default()).await.expect("a port is free");
        fill(server.server(), &CLUSTER).await;
        let mut valgrind = Command::new("valgrind");
        valgrind.arg("--tool=callgrind");
        match std::env::var("ENDPOINTD_PROFILE") {
            Ok(file) if flips => valgrind.arg(format!("--callgrind-out-file={file}")),
            _ => valgrind.arg("--callgrind-out-file=/dev/null"),
        };
        valgrind.arg(format!("--log-file={}", log.display())).arg(program);
        let made = server.server().resource_version();
        let flags: Vec<&str> = flags.iter().copied().chain(unwatched(program)).collect();
        let process = Process::start(valgrind, &server.url(), &flags);
        let services = u64::from(CLUSTER.pods / WORKLOAD);
        settled(server.server(), made, services * outputs).await;
        let client = Client::new(server.server().service(), "default");
        let begun = Instant::now();
        let before = server.server().resource_version();
        for flip in 0..FLIPS {
            sleep_until(begun + Duration::from_secs(1) * flip / rate).await;
            if flips {
                // Each Service in turn, and another of its pods each time.
                let number = flip * (WORKLOAD + 7) % CLUSTER.pods;
                let ready = flip / CLUSTER.pods % 2 == 1;
                set_ready(&client, &CLUSTER, number, ready, 1 + flip / rate).await;
            }
        }
        sleep(Duration::from_secs(3)).await;
        let written = server.server().resource_version() - before;
        process.stop();
        written.saturating_sub(if flips { u64::from(FLIPS) } else { 0 })
    });
    let text = std::fs::read_to_string(&log).expect("valgrind writes its log");
    let _ = std::fs::remove_dir_all(&directory);
    let collected = text.lines().find_map(|line| line.split_once("Collected : "));
    let collected = collected.and_then(|(_, count)| count.trim().parse().ok());
    (
        collected.unwrap_or_else(|| panic!("callgrind counts: {text}")),
        writes,
    )
}
