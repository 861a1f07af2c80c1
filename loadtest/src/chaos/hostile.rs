//! `loadtest chaos --hostile`: the owner of one namespace does the worst that the API lets them do, while pods of other
//! namespaces become ready and unready; and how long those others have to wait.
//!
//! ```text
//!  attacks.rs ──► namespace "hostile" ─┐                             ┌─► writes for both
//!                                      ├─► memory-apiserver ◄─ relay ┤   (a process of its own, with election on)
//!  neighbours.rs ──► flips of pods ────┘      │                      └─► its Lease, which must not be lost
//!                                             └─► a watching client: when is each flip published?
//! ```
//!
//! Two times are measured of each flip. The controller's own begins when the server has sent the line for its watch and
//! ends when the controller has sent the request that shows the flip (`relay.rs`, `delays.rs`). The limits are for what it
//! spends in that time: processor time, and requests. The time by the clock on the wall is printed beside them and decides
//! nothing; on a machine that has other things to do it says more about those. The whole begins with the server's answer to the flip and ends when a watching client is shown what was written: the
//! server, which shares the machine and takes a tenth of a second for each of the largest objects, is in it twice. How long
//! the server takes for a write that no controller is concerned with is measured beside them.

mod answers;
mod attacks;
mod bulk;
mod collisions;
mod delays;
mod kinds;
mod lease;
mod meter;
mod neighbours;
mod objects;
mod relay;
mod webhooks;

use self::attacks::Strikes;
use self::delays::Delays;
use self::kinds::Attack;
use self::lease::LeaseWatch;
use self::neighbours::{Neighbours, Probe};
use self::relay::Relay;
use crate::api::Http;
use crate::controller::{self, Server};
use crate::figures::time;
use crate::observe::latencies::Latencies;
use crate::observe::watch::{OutputWatch, Scope};
use crate::oracle::Outputs;
use crate::parse;
use crate::process::Process;
use crate::report::model::Latency;
use anyhow::Context;
use kube::Client;
use memory_apiserver::{Config, start};
use std::ffi::OsString;
use std::fmt;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

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
    /// Limit for the 99th percentile of the processor time that the controller uses from the server's watch event to its
    /// request. No single flip may take twice as much.
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
    /// Flips that the server told the controller of.
    told: u64,
    /// From the line to the request: by the clock on the wall, in processor time, and a millisecond for each request, and for each
    /// other flip.
    own: Latency,
    cpu_between: Latency,
    requests_between: Latency,
    flips_between: Latency,
    /// Requests for the attacker's objects: reads and writes.
    of_attacker: (u64, u64),
    /// The controller's memory at worst, and the bytes that the attacker's objects have, where they are compared.
    memory: Option<u64>,
    bytes: u64,
    /// From the server's answer to the flip until a watching client was shown it.
    whole: Latency,
    /// How long the server itself took for a write, one in a hundred and at worst.
    server: (Duration, Duration),
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
        Attack::ALL.to_vec()
    } else {
        args.only.clone()
    };
    println!(
        "A neighbour's flip takes, own: from the line for the controller until the controller's request, by the clock on \
         the wall, in processor time (CPU), in the controller's requests and in other flips; whole: from the \
         server's answer to it until a watching client is shown what was written. Server: how long a write takes that \
         concerns no controller"
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
    let strikes = Strikes::prepare(attack, http.clone(), &handle, args.scale, namespaces).await?;
    let scope = Scope {
        outputs: Outputs::SLICES,
        label: Some(neighbours::LABEL.to_owned()),
        services: Neighbours::services(),
    };
    let watch = OutputWatch::start(client.clone(), scope).await?;
    // Flips begin while the controller writes the first slices.
    watch.seen().slices.lock().begin_late();
    let needed = ["--leader-elect=true"]
        .iter()
        .chain(attack.flags())
        .map(OsString::from);
    let flags: Vec<_> = needed.chain(args.flags.iter().cloned()).collect();
    let bytes = strikes.bytes();
    let delays = Arc::new(Delays::new());
    let relay = Relay::start(handle.addr(), Arc::clone(&delays))?;
    let mut controller = controller::start(&Server::Url(relay.url()), 100, &flags)?;
    delays.meter.watch(controller.pid());
    controller.during(neighbours.published(watch.seen())).await?;
    watch.seen().slices.lock().clear();
    delays.clear();

    let lease = LeaseWatch::start(client.clone());
    let probe = Probe::start(http.clone()).await?;
    strikes.begin(&handle);
    let flips = neighbours.flip(watch.seen(), attack == Attack::Backlog);
    let cpu = cpu_time(&controller);
    let begin = Instant::now();
    let count = controller.during(strike(strikes, args.length)).await?;
    let lasted = Instant::now().saturating_duration_since(begin);
    let used = cpu_time(&controller)
        .zip(cpu)
        .map(|(after, before)| after.saturating_sub(before));
    let of_attacker = delays.meter.of_attacker();
    let made = flips.stop().await?;
    let server = probe.stop().await?;
    controller.during(last_flips(&watch, &delays)).await?;
    let (renewal, lost) = lease.stop().await?;
    let whole = watch.seen().slices.lock().latency();
    let (told, [own, cpu_between, requests_between, flips_between]) = delays.report();
    let memory = controller.usage().map(|usage| usage.peak_memory);
    // The controller may be in the middle of a hundred thousand writes, which an end in order would wait for.
    drop(controller);
    drop(relay);
    drop(watch);
    handle.shutdown().await;
    Ok(Outcome {
        attack,
        namespaces: (attack.namespaces().len() > 1).then_some(namespaces),
        strikes: count,
        flips: made,
        told,
        own,
        cpu_between,
        requests_between,
        flips_between,
        of_attacker,
        memory,
        bytes,
        whole,
        server: (quantile(&server, 0.99), quantile(&server, 1.0)),
        renewal,
        lost,
        cpu: used.map(|used| used.as_secs_f64() / lasted.as_secs_f64()),
    })
}

fn cpu_time(controller: &Process) -> Option<Duration> {
    controller.usage().map(|usage| usage.cpu)
}

/// Strikes for so long, and says how often.
async fn strike(mut strikes: Strikes, lasting: Duration) -> anyhow::Result<u64> {
    let begin = Instant::now();
    let mut tick = interval(Duration::from_secs(1).div_f64(strikes.rate()));
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

fn quantile(latencies: &Latencies, quantile: f64) -> Duration {
    latencies.quantile(quantile).unwrap_or_default()
}

/// Waits for the flips that are not published yet. A client may be shown one before the relay has read the answer to the
/// request that published it.
async fn last_flips(watch: &OutputWatch, delays: &Delays) -> anyhow::Result<()> {
    let begin = Instant::now();
    let misses = || watch.seen().slices.lock().latency().never_seen + delays.report().1[0].never_seen;
    while misses() > 0 && Instant::now().saturating_duration_since(begin) < LAST_LIMIT {
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

// === impl Outcome ===

impl Outcome {
    const HEAD: &str = "attack       strikes   flips   own p50       p99     worst   CPU p50       p99     worst  \
                        requests p99   worst  flips p50     p99   worst  whole p50       p99     worst  missed  server p99   worst  \
                        longest without renewal   CPU    reads  writes   memory";

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
                "before one flip in a hundred is written, the controller sends {between} other requests, more than {most}"
            ));
        }
        let flips = counted(self.flips_between.p50);
        if let Some(most) = bounds.flips.filter(|most| flips > *most) {
            faults.push(format!(
                "until every second flip is written, the controller is told of {flips} others, more than {most}"
            ));
        }
        // Objects that are there when the attack begins may be read once more.
        let reads = bounds
            .reads
            .map(|reads| (reads * self.strikes as f64) as u64 + 100);
        if let Some(most) = reads.filter(|most| self.of_attacker.0 > *most) {
            faults.push(format!(
                "the attacker's objects are read {} times, more than {most}",
                self.of_attacker.0
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
        if self.told != self.flips || self.flips == 0 {
            faults.push(format!(
                "of {} flips, {} were seen on their way to the controller, so this shows nothing",
                self.flips, self.told
            ));
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
            "{:13} {:>6} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}  {:>12} {:>7}  {:>9} {:>7} {:>7}  {:>9} {:>9} {:>9} {:>7} {:>11} {:>7} \
             {:>24} {:>5} {:>8} {:>7} {memory:>8}",
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
            counted(self.requests_between.max),
            counted(self.flips_between.p50),
            counted(self.flips_between.p99),
            counted(self.flips_between.max),
            micros(whole.p50),
            micros(whole.p99),
            micros(whole.max),
            self.missed(),
            time(self.server.0),
            time(self.server.1),
            if self.lost {
                "LOST".to_owned()
            } else {
                time(self.renewal)
            },
            cpu,
            self.of_attacker.0,
            self.of_attacker.1,
        )
    }
}

/// The number of requests or flips that a time stands for.
fn counted(micros: u64) -> u64 {
    micros / 1_000
}
