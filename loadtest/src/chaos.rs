//! `loadtest chaos`: random histories of small clusters under random faults, each from a seed, with endpointd as a
//! client of the server in this process; and what must be true when the faults are over.
//!
//! ```text
//!  seed ──► shape.rs (how the controller is run)      plan.rs (the faults its client meets)
//!   │
//!   ├─► history.rs ──► memory-apiserver ◄── link.rs ◄── endpointd, killed and started anew
//!   │   (no faults)                         (can be cut)
//!   └─► trial.rs: the faults end; equal to the oracle soon, then no write, then none by a new process
//! ```
//!
//! All of a seed runs on one thread and a paused clock, so that the seed alone decides every request of it. A share
//! of the seeds runs over real sockets and in real time instead.

mod api;
mod controller;
mod history;
pub mod hostile;
mod link;
mod losses;
mod plan;
mod shape;
mod trace;
mod trial;
pub(crate) mod world;

use memory_apiserver::ApiServer;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

pub use self::history::Count;
pub use self::trial::{Passed, Trial};

/// Flags of `loadtest chaos`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Number of seeds to run.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Share of the seeds that run over real sockets and in real time, 0 to 1.
    #[arg(long, default_value_t = 0.05, value_parser = share)]
    sockets: f64,
    /// Print every operation and every request.
    #[arg(long)]
    trace: bool,
    /// Another profile.
    #[command(flatten)]
    pub hostile: hostile::Args,
}

/// The results of many trials.
#[derive(Debug, Default)]
pub struct Summary {
    /// Trials that went well.
    pub passed: u64,
    /// How many of these ran over sockets.
    pub over_sockets: u64,
    /// The failures, with everything that is needed to see them again.
    pub failures: Vec<String>,
    /// How often which fault happened.
    pub faults: BTreeMap<String, u64>,
    /// How often the histories did what.
    pub operations: BTreeMap<&'static str, Count>,
    /// Requests, of the histories too.
    pub requests: u64,
    /// The longest time from the end of the faults until everything was right.
    pub slowest: Duration,
    /// Endpoints that were verified in the end.
    pub endpoints: u64,
}

/// Runs the seeds, and prints what fails.
pub fn run(args: &Args) -> ExitCode {
    let &Args {
        seeds,
        from,
        sockets,
        trace,
        hostile: _,
    } = args;
    let trials: Vec<Trial> = (from..from.saturating_add(seeds))
        .map(|seed| Trial {
            seed,
            sockets: is_over_sockets(seed, sockets),
            trace,
        })
        .collect();
    let summary = run_all(&trials, |failure| eprintln!("{failure}\n"));
    println!("{summary}");
    if summary.failures.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Runs trials, on as many threads as there are cores; those over sockets, which mostly wait, beside them.
pub fn run_all(trials: &[Trial], failed: impl Fn(&str) + Sync) -> Summary {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (sockets, here): (Vec<Trial>, Vec<Trial>) = trials.iter().partition(|trial| trial.sockets);
    let summary = Mutex::new(Summary::default());
    let work = |trials: &[Trial], next: &AtomicU64| {
        while let Some(trial) = trials.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
            let outcome = trial.run();
            let mut summary = summary.lock();
            match outcome {
                Ok(passed) => summary.add(*trial, &passed),
                Err(error) => {
                    let text = format!("{error:#}");
                    failed(&text);
                    summary.failures.push(text);
                }
            }
        }
    };
    let (next_here, next_over_sockets) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..cores.min(here.len()) {
            scope.spawn(|| work(&here, &next_here));
        }
        for _ in 0..(2 * cores).min(sockets.len()) {
            scope.spawn(|| work(&sockets, &next_over_sockets));
        }
    });
    summary.into_inner()
}

/// Fills the server's cluster and lets a seed's history happen to it until `stop` is set. The faults do not hit the
/// history's own requests. Pauses between operations are `pace` times what trials have.
pub async fn churn(server: &ApiServer, seed: u64, pace: f64, stop: &AtomicBool) {
    let client = kube::Client::new(server.service_without_faults(), "default");
    let mut history =
        history::History::new(crate::api::Http::new(client), seed, jiff::Timestamp::now(), None);
    history.fill().await;
    while !stop.load(Ordering::Relaxed) {
        history.run(Duration::from_millis(100), pace).await;
    }
    // However much the history has taken away, namespaces among it, there is something to verify.
    history.finish(pace).await;
    history.populate().await;
    history.finish(pace).await;
    if history.has_amends() {
        // Time for a controller to see what they are for.
        tokio::time::sleep(Duration::from_secs(5)).await;
        history.amend().await;
    }
}

/// Whether a seed is among the share of those that run over sockets.
fn is_over_sockets(seed: u64, share: f64) -> bool {
    fastrand::Rng::with_seed(seed).f64() < share
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("expected a share from 0 to 1".to_owned()),
    }
}

// === impl Summary ===

impl Summary {
    /// Faults that happened.
    pub fn faults_bit(&self) -> u64 {
        self.faults.values().sum()
    }

    fn add(&mut self, trial: Trial, passed: &Passed) {
        self.passed += 1;
        self.over_sockets += u64::from(trial.sockets);
        for (fault, count) in &passed.faults {
            // Without what differs from plan to plan, such as times.
            let name = fault
                .split(|c: char| c.is_ascii_digit() || c == '(')
                .find(|part| part.len() > 1);
            let name = if fault.starts_with(|c: char| c.is_ascii_digit()) {
                fault
            } else {
                name.unwrap_or(fault).trim_end()
            };
            *self.faults.entry(name.to_owned()).or_default() += count;
        }
        for (what, count) in &passed.operations {
            let sum = self.operations.entry(what).or_default();
            sum.done += count.done;
            sum.refused += count.refused;
        }
        self.requests += passed.requests.len() as u64;
        self.slowest = self.slowest.max(passed.settled_in);
        self.endpoints += passed.report.endpoints as u64;
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let operations: u64 = self.operations.values().map(|c| c.done + c.refused).sum();
        let failed = self.failures.len();
        write!(
            f,
            "{} seeds passed ({} over sockets), {failed} failed: {operations} operations, {} faults, {} requests, {} \
             endpoints verified; right {:?} after the faults at the latest",
            self.passed,
            self.over_sockets,
            self.faults_bit(),
            self.requests,
            self.endpoints,
            self.slowest
        )?;
        f.write_str("\noperations (refused):")?;
        for (what, Count { done, refused }) in &self.operations {
            write!(f, "\n  {what}: {done} ({refused})")?;
        }
        f.write_str("\nfaults:")?;
        for (fault, count) in &self.faults {
            write!(f, "\n  {fault}: {count}")?;
        }
        Ok(())
    }
}
