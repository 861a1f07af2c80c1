//! Simulated kube-proxies beside a run: each lists and watches all slices that a kube-proxy does, on a connection of its own
//! and in protobuf.
//!
//! ```text
//!  OutputWatch ──► Marks (change, version) ──┐
//!                                            ├──► Matcher ──► p50, p99, max over all proxies
//!  Proxy (1 to N) ──► Timeline (version, when) ┘
//! ```
//!
//! They run on threads of their own, so that the generator and the observer do not wait for them.

mod differences;
mod frames;
mod metrics;
mod proxy;
mod resume;
mod shared;
mod timeline;

pub(crate) use self::differences::Echoes;
use self::metrics::Reading;
use self::proxy::{Proxy, View};
use self::shared::{Counts, Own, Shared};
use self::timeline::Matcher;
use crate::figures::{number, time};
use crate::observe::marks::Marks;
use crate::parse::byte_rate;
use crate::progress::{Stage, every_so_often};
use crate::report::model;
use crate::target::{Connector, Target};
use anyhow::{Context, anyhow, ensure};
use kube::Client;
use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::time::{Instant, interval, sleep, timeout};

/// So many proxies make their first list and begin their watch at a time.
const STARTING: usize = 32;
/// More threads than these would take the machine from what is measured.
const MOST_THREADS: usize = 4;
/// How often changes and proxies are brought together.
const TICK: Duration = Duration::from_millis(100);
/// Open files that everything else needs.
const OTHER_FILES: u64 = 512;
/// A proxy may have two connections for a moment, and where the server is in this process, it has the other end of each.
const FILES_OF_A_PROXY: u64 = 4;
/// How long proxies may have another number of slices than the API server: others may make and delete slices meanwhile.
const RECOUNTS: u32 = 10;
const RECOUNT_PAUSE: Duration = Duration::from_millis(500);

/// The flags of the proxies.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Flags {
    /// Number of simulated kube-proxies beside the run. Each lists and watches the slices of the whole cluster as a
    /// kube-proxy does, that is, in protobuf and without those of headless Services, on a connection of its own; the report
    /// says when they saw each change, and how often their watches were ended
    #[arg(long, value_name = "PROXIES", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(crate) watchers: Option<u16>,
    /// Have each simulated kube-proxy list everything again whenever its watch is ended; by default it goes on from the
    /// last version, as a kube-proxy does, and lists again only if the API server has forgotten that version
    #[arg(long, requires = "watchers")]
    pub(crate) watchers_relist: bool,
    /// Bytes that each simulated kube-proxy reads in a second at most, such as 200K or 1M; by default, as fast as it can
    #[arg(long, value_name = "BYTES", requires = "watchers", value_parser = byte_rate)]
    pub(crate) watcher_rate: Option<u64>,
    /// Have the simulated kube-proxies speak HTTP/2, as kube-proxy does; by default, they speak HTTP/1.1 as all else here
    #[arg(long, requires = "watchers")]
    pub(crate) watchers_http2: bool,
    /// Beside the proxies there is a watch such as endpointd tells from how late they are.
    #[arg(skip)]
    pub(crate) echo: Option<EchoOver>,
}

/// How a watch such as endpointd's own is made. endpointd's are over HTTP/1.1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EchoOver {
    Http1,
    Http2,
}

/// The proxies of a run. They end when this is dropped.
pub(crate) struct Watchers {
    runtime: Option<Runtime>,
    shared: Arc<Shared>,
    proxies: Arc<[Arc<Own>]>,
    echo: Option<Echo>,
    matcher: Arc<Mutex<Matcher>>,
    marks: Arc<Marks>,
    /// For questions that are not a proxy's.
    client: Client,
    is_embedded: bool,
}

/// A watch such as endpointd's own, on a thread of its own as endpointd is a process of its own.
struct Echo {
    runtime: Option<Runtime>,
    own: Arc<Own>,
}

/// The measured part of a run has begun.
pub(crate) struct Begun {
    at: Instant,
    counts: Counts,
    server: Option<Reading>,
}

/// The results of the proxies.
pub(crate) struct Finished {
    pub(crate) figures: model::Watchers,
    /// The delays of the watch that is like endpointd's; none where there was none.
    pub(crate) echoes: Option<Echoes>,
    /// The faults in what they received, a line each.
    pub(crate) problems: Vec<String>,
}

/// Sees that so many proxies have the open files that they need, and raises the limit if it can.
pub(crate) fn reserve_files(flags: &Flags) -> anyhow::Result<()> {
    let Some(proxies) = flags.watchers else {
        return Ok(());
    };
    let needed = u64::from(proxies) * FILES_OF_A_PROXY + OTHER_FILES;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // None means that there is no limit.
    if current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    ensure!(
        maximum.is_none_or(|maximum| maximum >= needed),
        "{proxies} watchers need {needed} open files, and the limit (ulimit -Hn) is {}",
        maximum.unwrap_or_default()
    );
    let raised = Rlimit {
        current: Some(needed),
        maximum,
    };
    setrlimit(Resource::Nofile, raised)
        .with_context(|| format!("raising the limit of open files to {needed}"))
}

// === impl Flags ===

impl Flags {
    /// The parameters of a report.
    pub(crate) fn parameters(&self) -> Vec<(&'static str, String)> {
        let mut parameters = Vec::new();
        if let Some(proxies) = self.watchers {
            parameters.push(("watchers", proxies.to_string()));
            parameters.push(("watchers-relist", self.watchers_relist.to_string()));
            parameters.push(("watchers-http2", self.watchers_http2.to_string()));
        }
        if let Some(rate) = self.watcher_rate {
            parameters.push(("watcher-rate", rate.to_string()));
        }
        parameters
    }
}

// === impl Watchers ===

impl Watchers {
    /// Starts the proxies, and waits until all have listed and begun to watch; none if none are wanted.
    pub(crate) async fn start(
        target: &Target,
        flags: &Flags,
        marks: Arc<Marks>,
        limit: Duration,
    ) -> anyhow::Result<Option<Self>> {
        let Some(proxies) = flags.watchers else {
            return Ok(None);
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = cores.saturating_sub(2).clamp(1, MOST_THREADS);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("watchers")
            .enable_all()
            .build()?;
        let watchers = Self {
            shared: Arc::new(Shared::new(flags.watchers_relist, flags.watcher_rate)),
            proxies: (0..proxies).map(|_| Arc::default()).collect(),
            echo: match flags.echo {
                Some(over) => Some(Echo::start(target, over, limit).await?),
                None => None,
            },
            matcher: Arc::new(Mutex::new(Matcher::new(flags.echo.is_some()))),
            marks,
            client: target.client()?,
            is_embedded: target.is_embedded(),
            runtime: Some(runtime),
        };
        let begun = watchers.spawn(target.connector(), flags.watchers_http2);
        let stage = Stage::begin("watchers", proxies.into());
        let show = || {
            let begun = *begun.borrow();
            stage.set(begun as u64, || format!("{} connected", number(begun as u64)));
        };
        let mut following = begun.clone();
        let all = following.wait_for(|begun| *begun == usize::from(proxies));
        if every_so_often(show, timeout(limit, all)).await.is_err() {
            let begun = *begun.borrow();
            drop(stage);
            let why = watchers.shared.failure();
            let what = format!(
                "only {begun} of {proxies} watchers were connected within {}",
                time(limit)
            );
            return Err(match why {
                Some(why) => why.context(what),
                None => anyhow!("{what}"),
            });
        }
        let elapsed = time(stage.elapsed());
        let received = crate::figures::bytes(watchers.shared.counts().bytes);
        stage.end(&format!(
            "{elapsed}: {} connected, {received} received",
            number(proxies.into())
        ));
        Ok(Some(watchers))
    }

    /// Starts their tasks; the answer says how many watch.
    fn spawn(&self, connector: Connector, is_http2: bool) -> tokio::sync::watch::Receiver<usize> {
        let runtime = self.runtime.as_ref().expect("it is there until this is dropped");
        let begun = self.shared.begun();
        let (shared, proxies) = (Arc::clone(&self.shared), Arc::clone(&self.proxies));
        runtime.spawn(async move {
            let starting = Arc::new(Semaphore::new(STARTING));
            for own in proxies.iter() {
                let permit = Arc::clone(&starting).acquire_owned().await;
                let permit = permit.expect("the semaphore is not closed");
                let client = if is_http2 {
                    connector.http2_client()
                } else {
                    connector.client()
                };
                match client {
                    Ok(client) => {
                        let (shared, own) = (Arc::clone(&shared), Arc::clone(own));
                        let proxy = Proxy::new(client, View::Proxy, shared, own, permit);
                        tokio::spawn(proxy.run());
                    }
                    Err(error) => shared.failed(error),
                }
            }
        });
        let (matcher, marks) = (Arc::clone(&self.matcher), Arc::clone(&self.marks));
        let (proxies, echo) = (Arc::clone(&self.proxies), self.echo_own());
        runtime.spawn(async move {
            let mut ticks = interval(TICK);
            loop {
                ticks.tick().await;
                look(&matcher, &marks, &proxies, echo.as_deref());
            }
        });
        begun
    }

    /// The last version that the watch such as endpointd's has shown; nought if there is none.
    pub(crate) fn echoed(&self) -> u64 {
        self.echo
            .as_ref()
            .map_or(0, |echo| echo.own.timeline.lock().version())
    }

    fn echo_own(&self) -> Option<Arc<Own>> {
        self.echo.as_ref().map(|echo| Arc::clone(&echo.own))
    }

    /// Changes are made from now on.
    pub(crate) async fn begin(&self) -> Begun {
        let server = self.server().await;
        self.shared.churns(true);
        Begun {
            at: Instant::now(),
            counts: self.shared.counts(),
            server,
        }
    }

    /// No more changes are made.
    pub(crate) fn settle(&self) {
        self.shared.churns(false);
    }

    /// Waits until the proxies have received what the observer has, or until the time is up. Then there are figures.
    pub(crate) async fn finish(&self, begun: Begun, limit: Duration) -> Finished {
        let deadline = Instant::now() + limit;
        let stage = Stage::begin("watchers", self.proxies.len() as u64);
        let echo = self.echo_own();
        let behind = loop {
            let behind = look(&self.matcher, &self.marks, &self.proxies, echo.as_deref());
            if behind == 0 || Instant::now() >= deadline {
                break behind;
            }
            let done = self.proxies.len() - behind;
            stage.set(done as u64, || {
                format!("{} have the last change", number(done as u64))
            });
            sleep(TICK).await;
        };
        let elapsed = time(stage.elapsed());
        stage.end(&if behind == 0 {
            format!("{elapsed}: all have the last change")
        } else {
            format!("{} lack the last change", number(behind as u64))
        });
        let seconds = Instant::now().saturating_duration_since(begun.at).as_secs_f64();
        let counts = self.shared.counts().since(&begun.counts);
        let server = self.server().await;
        let server = begun
            .server
            .zip(server)
            .and_then(|(before, after)| after.since(before));
        let latency = self.matcher.lock().latency(self.proxies.len());
        let echoes = self.matcher.lock().echoes();
        let mut problems = Vec::new();
        let all = self.proxies.len();
        if behind > 0 {
            let limit = time(limit);
            problems.push(format!(
                "{behind} of {all} watchers had not received the last change {limit} after the slices were right"
            ));
        } else if let Some(problem) = self.recount().await {
            problems.push(problem);
        }
        let figures = model::Watchers {
            count: all as u64,
            latency,
            ended: counts.ended,
            ended_in_churn: counts.ended_in_churn,
            timed_out: counts.timed_out,
            lists: counts.lists,
            events: counts.events,
            bytes: counts.bytes,
            bytes_per_second: counts.bytes as f64 / seconds,
            terminated: server.map(|server| server.terminated),
            server_cpu_seconds: server.and_then(|server| server.cpu),
        };
        Finished {
            figures,
            echoes,
            problems,
        }
    }

    /// Finds proxies that know of more or fewer slices than there are.
    async fn recount(&self) -> Option<String> {
        let mut problem = None;
        for _ in 0..RECOUNTS {
            let expected = match proxy::slices_now(&self.client).await {
                Ok(expected) => expected,
                Err(error) => {
                    return Some(format!(
                        "the slices of the watchers could not be verified: {error:#}"
                    ));
                }
            };
            let wrong = self.proxies.iter().map(|own| own.timeline.lock().slices);
            let wrong: Vec<u64> = wrong.filter(|slices| *slices != expected).collect();
            let first = wrong.first()?;
            problem = Some(format!(
                "{} of {} watchers know of another number of slices than there are: {first} instead of {expected}",
                wrong.len(),
                self.proxies.len()
            ));
            sleep(RECOUNT_PAUSE).await;
        }
        problem
    }

    async fn server(&self) -> Option<Reading> {
        // It has no metrics, and its CPU time is this process's.
        if self.is_embedded {
            return None;
        }
        metrics::read(&self.client).await
    }
}

impl Drop for Watchers {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // The proxies do nothing that is worth waiting for.
            runtime.shutdown_background();
        }
    }
}

impl Echo {
    /// Starts it, and waits until it watches.
    async fn start(target: &Target, over: EchoOver, limit: Duration) -> anyhow::Result<Self> {
        let client = match over {
            EchoOver::Http1 => target.client()?,
            EchoOver::Http2 => target.connector().http2_client()?,
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("echo")
            .enable_all()
            .build()?;
        let own = Arc::<Own>::default();
        let shared = Arc::new(Shared::new(false, None));
        let starting = Arc::new(Semaphore::new(1)).acquire_owned().await?;
        let mut begun = shared.begun();
        let proxy = Proxy::new(
            client,
            View::Echo,
            Arc::clone(&shared),
            Arc::clone(&own),
            starting,
        );
        runtime.spawn(proxy.run());
        let echo = Self {
            runtime: Some(runtime),
            own,
        };
        if timeout(limit, begun.wait_for(|begun| *begun > 0)).await.is_err() {
            let what = format!("a watch of metadata did not begin within {}", time(limit));
            return Err(match shared.failure() {
                Some(why) => why.context(what),
                None => anyhow!("{what}"),
            });
        }
        Ok(echo)
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Brings changes and proxies together; the answer is how many proxies have not received what the observer has, or what was
/// written.
fn look(matcher: &Mutex<Matcher>, marks: &Marks, proxies: &[Arc<Own>], echo: Option<&Own>) -> usize {
    let mut matcher = matcher.lock();
    let (new, mut observed) = marks.take();
    matcher.add(new);
    let now = Instant::now();
    if let Some(echo) = echo {
        let mut timeline = echo.timeline.lock();
        matcher.echo(&mut timeline, now);
        observed = timeline.version();
    }
    let newest = matcher.newest().max(observed);
    let behind = proxies.iter().filter(|own| {
        let mut timeline = own.timeline.lock();
        matcher.look_at(&mut timeline, observed, now);
        timeline.version() < newest
    });
    behind.count()
}
