//! Is the watch by which endpointd tells how late others are a fair sample? endpointd watches its slices as metadata alone, over
//! HTTP/1.1, and holds writes back by how late these small events come. A kube-proxy watches whole slices, in protobuf and over
//! HTTP/2, and the server is busy with hundreds of those.
//!
//! ```text
//!  Writers ──► API server ──┬──► proxies (whole slices) ──┐
//!     │                     └──► a watch of metadata ─────┼──► Matcher ──► both delays, and their difference, for each write
//!     └──► Marks (version, when it was answered) ─────────┘
//! ```
//!
//! No controller runs: the part itself writes, since it has to know when each write was answered. It does so without regard to
//! how late anything is, and then as endpointd does, which has no more than a few writes whose event it has not seen.

mod writers;

use self::writers::Writers;
use super::Work;
use crate::figures::{number, time};
use crate::process::Usage;
use crate::real::cluster::Cluster;
use crate::real::table::Outcome;
use crate::report::model::{self, Latency};
use crate::target::Target;
use crate::watchers::{EchoOver, Echoes, Flags, Watchers, reserve_files};
use anyhow::ensure;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long watches may take to begin, and to show the last write.
const LIMIT: Duration = Duration::from_secs(180);

/// The default of `--max-writes-without-echo`.
const WINDOW: usize = 8;

/// Writes at a fixed rate, and the proxies that are shown them.
#[derive(Clone, Copy, Debug)]
struct Load {
    proxies: u16,
    /// Writes a second.
    rate: u32,
    lasting: Duration,
    is_http2: bool,
    metadata: EchoOver,
    /// How many writes may be without an echo, as `--max-writes-without-echo` has it; any number if there is none.
    window: Option<usize>,
}

/// The figures of a load.
struct Row {
    load: Load,
    writes: usize,
    watchers: model::Watchers,
    echoes: Echoes,
    /// Cores that kube-apiserver used while slices were written and shown; none if it does not say.
    server_cores: Option<f64>,
    /// The same of this program: the proxies, and those who write. Near one core, they are what is late.
    own_cores: Option<f64>,
}

pub(super) async fn run(work: &Work) -> anyhow::Result<Outcome> {
    // The server in memory, and any other without HTTPS, does not speak HTTP/2.
    let speaks_http2 = work.server.is_none();
    let load = |proxies, rate, seconds, is_http2| Load {
        proxies: work.watchers.unwrap_or(proxies),
        rate,
        lasting: Duration::from_secs(seconds),
        is_http2: is_http2 && speaks_http2,
        metadata: EchoOver::Http1,
        window: None,
    };
    let (slices, loads) = if work.quick {
        (20, vec![load(40, 20, 4, true)])
    } else {
        let free = [(100, 50), (300, 50), (100, 100)].map(|(proxies, rate)| load(proxies, rate, 20, true));
        let mut loads = free.to_vec();
        loads.push(load(100, 100, 20, false));
        for metadata in [EchoOver::Http1, EchoOver::Http2] {
            loads.extend(free.map(|load| Load {
                metadata,
                window: Some(WINDOW),
                ..load
            }));
        }
        (200, loads)
    };
    let cluster = work.cluster("echo", &[]).await?;
    let measured = measure(&cluster, slices, &loads).await;
    cluster.stop().await?;
    let rows = measured?;
    eprintln!("{}", table(&rows));
    let words = rows.iter().map(Row::words).collect::<Vec<_>>().join("; ");
    Ok(Outcome::passed(words))
}

async fn measure(cluster: &Cluster, slices: usize, loads: &[Load]) -> anyhow::Result<Vec<Row>> {
    let target = Target::cluster(cluster.admin()).await?;
    let writers = Writers::fill(cluster.http().await?, slices).await?;
    let mut rows = Vec::new();
    for load in loads {
        eprintln!("echo: {load:?}");
        let flags = Flags {
            watchers: Some(load.proxies),
            watchers_http2: load.is_http2,
            echo: Some(load.metadata),
            ..Flags::default()
        };
        reserve_files(&flags)?;
        let marks = Arc::default();
        let watchers = Watchers::start(&target, &flags, Arc::clone(&marks), LIMIT).await?;
        let watchers = watchers.expect("there are some, since their number is given");
        let begun = watchers.begin().await;
        let (start, before) = (Instant::now(), own_cpu());
        let writes = writers.write(load, &marks, || watchers.echoed()).await?;
        watchers.settle();
        let finished = watchers.finish(begun, LIMIT).await;
        let seconds = Instant::now().saturating_duration_since(start).as_secs_f64();
        let own = own_cpu()
            .zip(before)
            .map(|(now, before)| now.saturating_sub(before));
        ensure!(finished.problems.is_empty(), "{}", finished.problems.join("; "));
        let echoes = finished.echoes.expect("the flags ask for them");
        let (unseen, unechoed) = (finished.figures.latency.never_seen, echoes.latency.never_seen);
        ensure!(
            unseen + unechoed == 0,
            "{unechoed} writes were not shown as metadata, and {unseen} not to a proxy"
        );
        rows.push(Row {
            load: *load,
            writes,
            server_cores: finished.figures.server_cpu_seconds.map(|cpu| cpu / seconds),
            own_cores: own.map(|cpu| cpu.as_secs_f64() / seconds),
            watchers: finished.figures,
            echoes,
        });
    }
    writers.clear().await?;
    Ok(rows)
}

/// CPU time that this program used so far, where the system tells.
fn own_cpu() -> Option<Duration> {
    let pid = i32::try_from(std::process::id()).ok()?;
    Some(Usage::of(pid)?.cpu)
}

/// The rows in Markdown.
fn table(rows: &[Row]) -> String {
    let mut out = "| proxies | metadata | writes a second | writes without an echo | writes | from the answer to the event, metadata p50 / \
                   p99 / max | the same, proxies | a proxy after the metadata, least / p50 / p99 / max | watches that the server \
                   ended | cores of kube-apiserver, of this program |\n"
        .to_owned();
    let _ = writeln!(out, "{}|", "|---".repeat(10));
    for row in rows {
        let Load {
            proxies,
            rate,
            is_http2,
            metadata,
            window,
            ..
        } = row.load;
        let [least, p50, p99, most] = row.differences();
        let _ = writeln!(
            out,
            "| {proxies} over {} | over {} | {rate} | {} | {} | {} | {} | {least} / {p50} / {p99} / {most} | {} | {}, {} |",
            protocol(is_http2),
            protocol(metadata == EchoOver::Http2),
            window.map_or_else(|| "any".to_owned(), |window| format!("at most {window}")),
            number(row.writes as u64),
            delays(&row.echoes.latency),
            delays(&row.watchers.latency),
            row.watchers.ended,
            cores(row.server_cores),
            cores(row.own_cores)
        );
    }
    out
}

fn delays(latency: &Latency) -> String {
    let time = |micros| time(Duration::from_micros(micros));
    let Latency { p50, p99, max, .. } = latency;
    format!("{} / {} / {}", time(*p50), time(*p99), time(*max))
}

fn protocol(is_http2: bool) -> &'static str {
    if is_http2 { "HTTP/2" } else { "HTTP/1.1" }
}

fn cores(cores: Option<f64>) -> String {
    cores.map_or_else(|| "not known".to_owned(), |cores| format!("{cores:.2}"))
}

/// A difference in words; it is less than nought if the proxy was first.
fn signed(micros: i32) -> String {
    let sign = if micros < 0 { "-" } else { "" };
    let length = Duration::from_micros(micros.unsigned_abs().into());
    format!("{sign}{}", time(length))
}

// === impl Row ===

impl Row {
    /// How much later a proxy saw a write than the watch of metadata: the least of all, p50, p99 and the most.
    fn differences(&self) -> [String; 4] {
        let of = |part| self.echoes.proxies_after.quantile(part);
        [0.0, 0.5, 0.99, 1.0].map(|part| of(part).map_or_else(|| "none".to_owned(), signed))
    }

    fn words(&self) -> String {
        let [_, p50, p99, _] = self.differences();
        let Load {
            proxies,
            rate,
            metadata,
            window,
            ..
        } = self.load;
        let over = protocol(metadata == EchoOver::Http2);
        let window = window.map_or_else(String::new, |window| format!(", {window} without an echo"));
        format!(
            "{proxies} proxies, {rate} writes a second{window}: metadata over {over} {} after the answer (p50 / p99 / max), proxies {}, {p50} / {p99} later",
            delays(&self.echoes.latency),
            delays(&self.watchers.latency)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_both_delays_and_their_difference() {
        let latency = |p50| Latency {
            count: 10,
            p50,
            p99: 2 * p50,
            max: 3 * p50,
            ..Latency::default()
        };
        let row = Row {
            load: Load {
                proxies: 300,
                rate: 50,
                lasting: Duration::from_secs(20),
                is_http2: true,
                metadata: EchoOver::Http1,
                window: Some(8),
            },
            writes: 1_000,
            watchers: model::Watchers {
                latency: latency(30_000),
                ended: 2,
                ..model::Watchers::default()
            },
            echoes: Echoes {
                latency: latency(10_000),
                ..Echoes::default()
            },
            server_cores: Some(1.2),
            own_cores: None,
        };
        let table = table(&[row]);
        let last = table.lines().last().unwrap();
        assert_eq!(
            last,
            "| 300 over HTTP/2 | over HTTP/1.1 | 50 | at most 8 | 1,000 | 10 ms / 20 ms / 30 ms | 30 ms / 60 ms / 90 ms | none / none / none / none | 2 | 1.20, not known |"
        );
        for line in table.lines() {
            assert_eq!(line.matches('|').count(), 11, "{line}");
        }
        assert_eq!(
            [signed(-1_500), signed(0), signed(2_000)],
            ["-1.5 ms", "0 µs", "2.0 ms"]
        );
    }
}
