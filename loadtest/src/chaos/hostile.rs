//! `loadtest chaos --hostile`: the owner of one namespace does the worst that the API lets them do, while pods of other
//! namespaces become ready and unready; and how long those others have to wait.
//!
//! ```text
//!  attacks.rs ──► namespace "hostile" ─┐
//!                                      ├─► memory-apiserver ◄── endpointd: a process of its own, with election on
//!  neighbours.rs ──► flips of pods ────┘      ├─► delays.rs: when does the write arrive that shows a flip?
//!                                             ├─► lease.rs: is the Lease kept?
//!                                             └─► a watching client: when is each flip published?
//! ```
//!
//! Both times begin with the server's answer to a flip. The limits are for what the controller spends until its write arrives:
//! processor time, writes for others, and flips that others make meanwhile. The times by the clock on the wall are printed beside
//! them and decide nothing; on a machine that has other things to do they say more about those. How long the server takes for a
//! write that no controller is concerned with is measured beside them.

mod attacks;
mod collisions;
mod delays;
mod kinds;
mod lease;
mod meter;
mod neighbours;
mod objects;

use self::attacks::Strikes;
use self::delays::Delays;
use self::kinds::Attack;
use self::lease::LeaseWatch;
use self::neighbours::{Neighbours, Probe};
use crate::api::Http;
use crate::controller::{self, Server};
use crate::figures::time;
use crate::observe::watch::{OutputWatch, Scope};
use crate::oracle::Outputs;
use crate::parse;
use crate::process::Process;
use crate::report::model::Latency;
use anyhow::{Context, ensure};
use clap::ValueEnum;
use kube::Client;
use memory_apiserver::{Config, start};
use std::ffi::OsString;
use std::fmt;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

/// The namespaces of the neighbours.
const NAMESPACES: usize = 4;
/// How long the controller may take until it leads and the neighbours are published.
const START_LIMIT: Duration = Duration::from_secs(120);
/// How long after the attack the last flips may take to be published before they count as never.
const LAST_LIMIT: Duration = Duration::from_secs(60);
/// How many times the limit the processor time of a single flip may be. There are hundreds of flips, so one that waits for a
/// second does not show in what one in a hundred takes.
const WORST: u32 = 2;
/// The memory of a controller without hostile objects.
const OWN_MEMORY: u64 = 64 << 20;
/// Watch events that the server keeps: large objects are many.
const HISTORY: usize = 1_000;

/// Flags of `loadtest chaos --hostile`.
#[derive(Clone, Debug, clap::Args)]
// Its name would be that of the struct that it is a part of.
#[group(skip)]
pub struct Args {
    /// Let one namespace attack the controller, and measure how long pods of other namespaces wait.
    #[arg(long)]
    hostile: bool,
    /// Duration of each attack.
    #[arg(long = "for", value_name = "TIME", default_value = "20s", value_parser = parse::duration, requires = "hostile")]
    length: Duration,
    /// Size and number of the attacks' objects, as a share of the worst case, 0 to 1.
    #[arg(long, default_value_t = 1.0, value_parser = super::share, requires = "hostile")]
    scale: f64,
    /// Run only this attack; may be given several times.
    #[arg(long, value_enum, value_name = "ATTACK", requires = "hostile")]
    only: Vec<Attack>,
    /// Limit for the 99th percentile of the processor time that the controller uses between a flip and the write that shows it. No
    /// single flip may take twice as much.
    #[arg(long, value_name = "TIME", default_value = "250ms", value_parser = parse::duration, requires = "hostile")]
    limit: Duration,
    /// More flags for `endpointd run`, after `--`.
    #[arg(last = true, requires = "hostile")]
    flags: Vec<OsString>,
}

/// The effect of an attack on the neighbours.
#[derive(Debug)]
struct Outcome {
    attack: Attack,
    /// The number of hostile namespaces, if the attack is made with several numbers of them.
    namespaces: Option<usize>,
    strikes: u64,
    flips: u64,
    /// Until the write arrives: by the clock on the wall, in processor time, and a millisecond for each write, and for each other
    /// flip.
    own: Latency,
    cpu_between: Latency,
    requests_between: Latency,
    flips_between: Latency,
    /// The controller's memory at worst, and the bytes that the attacker's objects have, where they are compared.
    memory: Option<u64>,
    bytes: u64,
    /// From the server's answer to the flip until a watching client was shown it.
    whole: Latency,
    /// How long the server itself took for a write, one in a hundred apart.
    server: Duration,
    /// The longest time between two renewals of the lease.
    renewal: Duration,
    /// The lease was lost.
    lost: bool,
    /// The controller's processor time, as a share of the attack's.
    cpu: Option<f64>,
}

// === impl Args ===

impl Args {
    /// `--hostile` is given.
    pub fn is_wanted(&self) -> bool {
        self.hostile
    }
}

/// Runs the attacks one after the other, each on a server and a controller of its own, and prints what they did.
pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let attacks = if args.only.is_empty() {
        Attack::value_variants().to_vec()
    } else {
        args.only.clone()
    };
    println!(
        "A neighbour's flip takes, own: until the controller's write arrives, by the clock on the wall, in processor time (CPU), in \
         the controller's writes and in other flips; whole: until a watching client is shown what was written. Server: how long a \
         write takes that concerns no controller"
    );
    println!("{}", Outcome::HEAD);
    let mut failed = 0;
    let runs = attacks
        .into_iter()
        .flat_map(|attack| attack.namespaces().iter().map(move |number| (attack, *number)));
    for (attack, namespaces) in runs {
        let outcome = assault(attack, namespaces, &args)
            .await
            .with_context(|| format!("attack {attack}"))?;
        let faults = outcome.faults(args.limit);
        println!("{outcome}{}", if faults.is_empty() { "" } else { "  FAILED" });
        for fault in &faults {
            println!("    {fault}");
        }
        failed += usize::from(!faults.is_empty());
    }
    Ok(if failed == 0 {
        println!(
            "the controller used no more than {} of processor time for a neighbour at p99, and {} at worst, and no lease was \
             lost",
            time(args.limit),
            time(args.limit * WORST)
        );
        ExitCode::SUCCESS
    } else {
        println!("{failed} attacks did what they must not");
        ExitCode::FAILURE
    })
}

/// One attack, from an empty cluster to the end of the last flip.
async fn assault(attack: Attack, namespaces: usize, args: &Args) -> anyhow::Result<Outcome> {
    let handle = start(Config::default().seed(1).history(HISTORY)).await?;
    // The attacker, the flips and the watch use no socket, so that the machine is the controller's as far as can be.
    let client = Client::new(handle.server().service_without_faults(), "default");
    let http = Http::new(client.clone());
    let neighbours = Arc::new(Neighbours::create(http.clone()).await?);
    let strikes = Strikes::prepare(attack, http.clone(), args.scale, namespaces).await?;
    let scope = Scope {
        outputs: Outputs::SLICES,
        label: Some(neighbours::LABEL.to_owned()),
        services: Neighbours::services(),
    };
    let watch = OutputWatch::start(client.clone(), scope).await?;
    // Flips begin while the controller writes the first slices.
    watch.seen().slices.lock().begin_late();
    let delays = Arc::new(Delays::new());
    let listening = Arc::clone(&delays);
    let is_first = handle
        .server()
        .on_request(move |arrival| listening.arrived(arrival));
    ensure!(is_first, "the server's requests are listened to already");
    let flags: Vec<_> = std::iter::once("--leader-elect=true".into())
        .chain(args.flags.iter().cloned())
        .collect();
    let mut controller = controller::start(&Server::Url(handle.url()), 100, &flags)?;
    delays.meter.watch(controller.pid());
    controller.during(neighbours.published(watch.seen())).await?;
    watch.seen().slices.lock().clear();
    delays.clear();

    let lease = LeaseWatch::start(client.clone());
    let probe = Probe::start(http.clone()).await?;
    strikes.begin(handle.server());
    let flips = neighbours.flip(watch.seen(), &delays, attack == Attack::Backlog);
    let cpu = cpu_time(&controller);
    let begin = Instant::now();
    let count = controller
        .during(strike(&strikes, attack.rate(), args.length))
        .await?;
    let lasted = Instant::now().saturating_duration_since(begin);
    let used = cpu_time(&controller)
        .zip(cpu)
        .map(|(after, before)| after.saturating_sub(before));
    let made = flips.stop().await?;
    let server = probe.stop().await?;
    controller.during(last_flips(&watch, &delays)).await?;
    let (renewal, lost) = lease.stop().await?;
    let whole = watch.seen().slices.lock().latency();
    let [own, cpu_between, requests_between, flips_between] = delays.report();
    let memory = controller.usage().map(|usage| usage.peak_memory);
    // The controller may be in the middle of a hundred thousand writes, which an end in order would wait for.
    drop(controller);
    drop(watch);
    handle.shutdown().await;
    Ok(Outcome {
        attack,
        namespaces: (attack.namespaces().len() > 1).then_some(namespaces),
        strikes: count,
        flips: made,
        own,
        cpu_between,
        requests_between,
        flips_between,
        memory,
        bytes: strikes.bytes,
        whole,
        server: server.quantile(0.99).unwrap_or_default(),
        renewal,
        lost,
        cpu: used.map(|used| used.as_secs_f64() / lasted.as_secs_f64()),
    })
}

fn cpu_time(controller: &Process) -> Option<Duration> {
    controller.usage().map(|usage| usage.cpu)
}

/// Strikes for so long, and says how often.
async fn strike(strikes: &Strikes, rate: f64, lasting: Duration) -> anyhow::Result<u64> {
    let begin = Instant::now();
    let mut tick = interval(Duration::from_secs(1).div_f64(rate));
    // A server that is slower than the attack makes it slower.
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut count = 0;
    while Instant::now().saturating_duration_since(begin) < lasting {
        tick.tick().await;
        strikes.strike(count).await?;
        count += 1;
    }
    Ok(count)
}

/// Waits for the flips that are not published yet.
async fn last_flips(watch: &OutputWatch, delays: &Delays) -> anyhow::Result<()> {
    let begin = Instant::now();
    let misses = || watch.seen().slices.lock().latency().never_seen + delays.report()[0].never_seen;
    while misses() > 0 && Instant::now().saturating_duration_since(begin) < LAST_LIMIT {
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

// === impl Outcome ===

impl Outcome {
    const HEAD: &str = "attack       strikes   flips   own p50       p99     worst   CPU p50       p99     worst  writes p99  \
                        flips p50  whole p99     worst  missed  server p99  without renewal   CPU   memory";

    fn label(&self) -> String {
        let number = self.namespaces.map(|number| format!(" {number}"));
        format!("{}{}", self.attack, number.unwrap_or_default())
    }

    /// Flips that were never published, or not before the pod's next one.
    fn missed(&self) -> u64 {
        let missed = |latency: &Latency| latency.never_seen + latency.overtaken;
        missed(&self.own).max(missed(&self.whole))
    }

    fn faults(&self, limit: Duration) -> Vec<String> {
        let mut faults = Vec::new();
        let p99 = Duration::from_micros(self.cpu_between.p99);
        if p99 > limit {
            faults.push(format!(
                "for one flip in a hundred the controller uses {} of processor time, more than {}",
                time(p99),
                time(limit)
            ));
        }
        let worst = Duration::from_micros(self.cpu_between.max);
        if worst > limit * WORST {
            faults.push(format!(
                "for one flip the controller uses {} of processor time, more than {}",
                time(worst),
                time(limit * WORST)
            ));
        }
        let bounds = self.attack.bounds();
        let between = counted(self.requests_between.p99);
        if let Some(most) = bounds.requests.filter(|most| between > *most) {
            faults.push(format!(
                "before one flip in a hundred is written, the controller sends {between} other writes, more than {most}"
            ));
        }
        let flips = counted(self.flips_between.p50);
        if let Some(most) = bounds.flips.filter(|most| flips > *most) {
            faults.push(format!(
                "until every second flip is written, there are {flips} others, more than {most}"
            ));
        }
        let memory = bounds
            .memory
            .map(|factor| (factor * self.bytes as f64) as u64 + OWN_MEMORY);
        if let (Some(most), Some(memory)) = (memory, self.memory)
            && memory > most
        {
            faults.push(format!(
                "the controller needs {} MiB of memory for {} KiB of objects, more than {} MiB",
                memory >> 20,
                self.bytes >> 10,
                most >> 20
            ));
        }
        // This finds a controller that waits without work too, which takes no processor time and sends no requests.
        if self.missed() > 0 {
            faults.push(format!(
                "{} flips were not published before the pod's next one",
                self.missed()
            ));
        }
        if self.own.count == 0 {
            faults.push("no flip was seen in a write of the controller, so this shows nothing".to_owned());
        }
        if self.lost {
            faults.push("the lease was lost".to_owned());
        }
        faults
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpu = self
            .cpu
            .map_or_else(|| "?".to_owned(), |cpu| format!("{:.0} %", cpu * 100.0));
        let micros = |micros| time(Duration::from_micros(micros));
        let (own, whole) = (&self.own, &self.whole);
        let memory = self
            .memory
            .map_or_else(|| "?".to_owned(), |bytes| format!("{} MiB", bytes >> 20));
        write!(
            f,
            "{:13} {:>6} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}  {:>10}  {:>9}  {:>9} {:>9} {:>7} {:>11} {:>16} {cpu:>5} {memory:>8}",
            self.label(),
            self.strikes,
            self.flips,
            micros(own.p50),
            micros(own.p99),
            micros(own.max),
            micros(self.cpu_between.p50),
            micros(self.cpu_between.p99),
            micros(self.cpu_between.max),
            counted(self.requests_between.p99),
            counted(self.flips_between.p50),
            micros(whole.p99),
            micros(whole.max),
            self.missed(),
            time(self.server),
            if self.lost {
                "LOST".to_owned()
            } else {
                time(self.renewal)
            },
        )
    }
}

/// The number of requests or flips that a time stands for.
fn counted(micros: u64) -> u64 {
    micros / 1_000
}
