//! `loadtest record`: carries out the steps of scenarios on any cluster, and records the Endpoints and
//! `EndpointSlices` that its controllers settle on after each.

mod cleanup;
mod diff;
#[cfg(test)]
mod tests;

use self::cleanup::Footprint;
use crate::target::Target;
use crate::{parse, serve};
use anyhow::{Context, bail, ensure};
use futures::{Stream, StreamExt};
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use scenario::{Api, Compared, Play, Scenario, differences};
use serde::Serialize;
use serde_json::Value;
use serde_json::ser::PrettyFormatter;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The exit code that shells report for a command that Ctrl-C ended.
const INTERRUPTED: u8 = 130;
/// How long a new namespace may be without the service account that admission gives to its pods.
const ACCOUNT_LIMIT: Duration = Duration::from_secs(10);
const ACCOUNT_PAUSE: Duration = Duration::from_millis(200);

const HELP: &str = "\
Each scenario is played in a namespace of its own, step by step. A step is over when no Endpoints
and no EndpointSlices of the namespace have changed for --quiet; the state is then written into
the step's `then`, without what no two runs share: UIDs, versions, times, generated names, and
orders that mean nothing. All other fields stay as they are.

The namespace and the Nodes that a scenario creates must not exist before, and are deleted
afterwards, also when recording fails or is interrupted; a second Ctrl-C leaves them. A scenario
that would write to another Namespace, or to a Node that it has not created, is refused.

The pods are never run: a cluster without kubelets, scheduler and garbage collector gives states
that depend on nothing but the controllers under test. `loadtest serve --gc=false` is one. On a
cluster in use, Nodes that a scenario marks as Ready can attract pods: DaemonSets create theirs
there, and the scheduler binds pods that are pending. Without a namespace controller a deleted
namespace stays, and the next recording needs another --namespace.

  loadtest record --context test new.json              record a scenario
  loadtest record --context test --check tests/*.json  compare a cluster with recorded scenarios";

/// Flags of `loadtest record`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub struct Args {
    /// Scenario files, which are rewritten in place
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Compare with the recorded states instead of writing them, and print what differs
    #[arg(long)]
    check: bool,
    /// The kubeconfig of the cluster; otherwise the one that kubectl would read
    #[arg(long, value_name = "FILE", conflicts_with = "server")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig, if it is not the current one
    #[arg(long, value_name = "NAME", conflicts_with = "server")]
    context: Option<String>,
    /// An API server that needs no credentials, such as that of `loadtest serve` or of `kubectl proxy`
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// The namespace to play in, which must not exist; `g-` and the scenario's name otherwise
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Play in a namespace that exists. It must hold no Pods, Services, Endpoints and slices, and all of
    /// these that are in it afterwards are deleted
    #[arg(long, requires = "namespace")]
    existing_namespace: bool,
    /// How long the outputs must keep still until a step is over. kube-controller-manager retries after a second
    #[arg(long, value_parser = parse::duration, default_value = "2200ms", value_name = "TIME")]
    quiet: Duration,
    /// How long the outputs of a step may keep changing until the recording fails
    #[arg(long, value_parser = parse::duration, default_value = "40s", value_name = "TIME")]
    settle_limit: Duration,
    /// The limit of endpoints in a slice that the cluster's controller runs with; a scenario written for another
    /// limit is refused
    #[arg(long, default_value_t = 100, value_name = "COUNT")]
    max_endpoints_per_slice: usize,
    /// Leave slices of the mirroring controller out of the comparison, for clusters that run none
    #[arg(long, requires = "check")]
    without_mirroring: bool,
    /// Do not ask before writing to a server that is not on loopback
    #[arg(long)]
    yes: bool,
}

/// How a command ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// Every scenario was recorded, or found equal.
    Well,
    /// Some scenario could not be played, or differs.
    Badly,
    /// The user stopped it.
    Interrupted,
}

/// The job that a command line asks for.
struct Job<'a> {
    args: &'a Args,
    files: Vec<File>,
    api: Api,
}

/// A scenario file.
struct File {
    path: PathBuf,
    content: Value,
}

/// Records or compares scenarios until all are done, or the user stops it.
pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut job = Job::prepare(&args).await?;
    // From here on Ctrl-C cleans up. Before, it ends the process, also while a question waits for an answer.
    let mut stops = serve::stops()?;
    Ok(match job.record(&mut stops, &mut io::stdout()).await? {
        Ended::Well => ExitCode::SUCCESS,
        Ended::Badly => ExitCode::FAILURE,
        Ended::Interrupted => ExitCode::from(INTERRUPTED),
    })
}

/// Plays a scenario, and deletes what it created whatever becomes of it. None if the user stopped it; stopping it
/// a second time gives the deletion up.
async fn cleaned_up(
    args: &Args,
    play: Play<'_>,
    stops: &mut (impl Stream<Item = ()> + Unpin),
) -> Option<anyhow::Result<Vec<Value>>> {
    let mark = format!("{:016x}", fastrand::u64(..));
    let mut play = play.marked(mark.clone());
    let footprint = Footprint::new(&play, mark, args.existing_namespace);
    let played = tokio::select! {
        biased;
        Some(()) = stops.next() => return None,
        free = footprint.check_free() => match free {
            Ok(()) => tokio::select! {
                biased;
                Some(()) = stops.next() => None,
                states = states(args, &mut play) => Some(states),
            },
            Err(error) => return Some(Err(error)),
        }
    };
    let interrupted = played.is_none();
    let (removed, stopped) = removed(&footprint, interrupted, stops).await;
    let removed = removed.with_context(|| format!("not everything was deleted from {}", footprint.places()));
    match (played, removed) {
        (played, removed) if stopped => {
            for error in played.and_then(Result::err).into_iter().chain(removed.err()) {
                eprintln!("error: {error:#}");
            }
            None
        }
        (Some(Err(error)), Err(also)) => Some(Err(error.context(format!("{also:#}")))),
        (_, Err(error)) => Some(Err(error)),
        (played, Ok(())) => played,
    }
}

/// Deletes what a play created. The user must ask twice to stop that, or once more after having stopped the play.
/// The second value says whether the user has asked to stop at all.
async fn removed(
    footprint: &Footprint,
    mut stopped: bool,
    stops: &mut (impl Stream<Item = ()> + Unpin),
) -> (anyhow::Result<()>, bool) {
    const HINT: &str = "deleting what the scenario created; Ctrl-C once more leaves it";
    if stopped {
        eprintln!("{HINT}");
    }
    let mut removal = pin!(footprint.remove());
    loop {
        tokio::select! {
            biased;
            Some(()) = stops.next() => {
                if stopped {
                    return (Err(anyhow::anyhow!("interrupted")), true);
                }
                stopped = true;
                eprintln!("{HINT}");
            }
            removed = &mut removal => return (removed, stopped),
        }
    }
}

/// The normalised states that the outputs settle on, one after each step.
async fn states(args: &Args, play: &mut Play<'_>) -> anyhow::Result<Vec<Value>> {
    if !args.existing_namespace {
        play.create_namespace().await?;
    }
    let mut states = Vec::new();
    for (i, step) in play.scenario.steps().iter().enumerate() {
        for operation in step["do"].as_array().into_iter().flatten() {
            let done = carry_out(play, operation).await;
            done.with_context(|| format!("step {i}, {}", shown(operation)))?;
        }
        ensure!(
            play.settle(args.quiet, args.settle_limit).await?,
            "step {i}: the outputs still change after {:?}",
            args.settle_limit
        );
        states.push(play.state().await?);
    }
    Ok(states)
}

/// Carries out an operation, when the namespace's service account is there if it takes one.
async fn carry_out(play: &mut Play<'_>, operation: &Value) -> Result<(), scenario::Error> {
    let deadline = Instant::now() + ACCOUNT_LIMIT;
    loop {
        match play.act(operation).await {
            Err(scenario::Error::Refused {
                code: 403, message, ..
            }) if message.contains("serviceaccount") && Instant::now() < deadline => {
                sleep(ACCOUNT_PAUSE).await;
            }
            outcome => return outcome,
        }
    }
}

/// An operation in a few words, such as `patch Pod p1`.
fn shown(operation: &Value) -> String {
    let Some((verb, of)) = operation.as_object().and_then(|fields| fields.iter().next()) else {
        return operation.to_string();
    };
    let words = [&of["kind"], &of["metadata"]["name"], &of["name"], &of["service"]];
    let words = words.into_iter().filter_map(Value::as_str);
    [&**verb].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

// === impl Job ===

impl<'a> Job<'a> {
    /// Reads the files, and asks for leave to write to the cluster. Nothing is sent yet.
    async fn prepare(args: &'a Args) -> anyhow::Result<Self> {
        ensure!(
            args.quiet < args.settle_limit,
            "--quiet ({:?}) must be shorter than --settle-limit ({:?})",
            args.quiet,
            args.settle_limit
        );
        let mut files = Vec::new();
        for path in &args.files {
            files.push(File::read(path, args).with_context(|| path.display().to_string())?);
        }
        let target = Target::Cluster {
            config: Box::new(args.config().await?),
            path: args.kubeconfig.clone().unwrap_or_default(),
        };
        target.confirm("Create and delete namespaces and nodes", args.yes)?;
        Ok(Self {
            args,
            files,
            api: Api(target.client()?),
        })
    }

    /// Records or compares all files. Each item of `stops` is a wish of the user to stop.
    async fn record(
        &mut self,
        stops: &mut (impl Stream<Item = ()> + Unpin),
        out: &mut impl Write,
    ) -> anyhow::Result<Ended> {
        let args = self.args;
        let mut ended = Ended::Well;
        for file in &mut self.files {
            let name = file.scenario().name().to_owned();
            let play = Play::new(self.api.clone(), file.scenario(), args.namespace(&name));
            let Some(outcome) = cleaned_up(args, play, stops).await else {
                return Ok(Ended::Interrupted);
            };
            let states = match outcome {
                Ok(states) => states,
                Err(error) => {
                    eprintln!("error: {name}: {error:#}");
                    ended = Ended::Badly;
                    continue;
                }
            };
            if !args.check {
                file.write(&states)?;
                writeln!(out, "{name}: recorded {} steps", states.len())?;
            } else if file.compare(&states, !args.without_mirroring, out)? {
                writeln!(out, "{name}: equal")?;
            } else {
                ended = Ended::Badly;
            }
        }
        Ok(ended)
    }
}

// === impl Args ===

impl Args {
    /// The connection, without retries that would hide failures.
    async fn config(&self) -> anyhow::Result<Config> {
        let mut config = if let Some(url) = &self.server {
            Config::new(url.parse().with_context(|| format!("--server {url}"))?)
        } else {
            let kubeconfig = match &self.kubeconfig {
                Some(path) => Kubeconfig::read_from(path),
                None => Kubeconfig::read(),
            };
            let options = KubeConfigOptions {
                context: self.context.clone(),
                ..KubeConfigOptions::default()
            };
            let config =
                Config::from_custom_kubeconfig(kubeconfig.context("reading the kubeconfig")?, &options);
            config.await.context("reading the kubeconfig")?
        };
        config.default_retry = false;
        Ok(config)
    }

    fn namespace(&self, scenario: &str) -> String {
        self.namespace.clone().unwrap_or_else(|| format!("g-{scenario}"))
    }
}

// === impl File ===

impl File {
    /// Reads a file, and refuses one that cannot be played.
    fn read(path: &Path, args: &Args) -> anyhow::Result<Self> {
        let file = Self {
            path: path.to_owned(),
            content: serde_json::from_slice(&std::fs::read(path)?)?,
        };
        let scenario = file.scenario();
        ensure!(!scenario.name().is_empty(), "the scenario has no name");
        ensure!(!scenario.steps().is_empty(), "the scenario has no steps");
        scenario.check()?;
        let limit = scenario.max_endpoints();
        ensure!(
            limit == args.max_endpoints_per_slice,
            "the scenario is for slices of {limit} endpoints: play it on a controller that runs with \
             --max-endpoints-per-slice={limit}, and give this command the same flag"
        );
        if args.existing_namespace
            && scenario
                .operations()
                .any(|op| op.get("delete_namespace").is_some())
        {
            bail!("the scenario deletes its namespace, which --existing-namespace leaves alone");
        }
        Ok(file)
    }

    fn scenario(&self) -> Scenario<'_> {
        Scenario(&self.content)
    }

    /// Puts the states into the file, all at once.
    fn write(&mut self, states: &[Value]) -> anyhow::Result<()> {
        for (i, state) in states.iter().enumerate() {
            let then = self.scenario().recordable(state);
            self.content["steps"][i]["then"] = then;
        }
        let temporary = self.path.with_extension("json.new");
        std::fs::write(&temporary, pretty(&self.content) + "\n")
            .and_then(|()| std::fs::rename(&temporary, &self.path))
            .with_context(|| format!("writing {}", self.path.display()))
    }

    /// Whether the states are the recorded ones. If not, it prints the steps in which they differ.
    fn compare(&self, states: &[Value], mirrored: bool, out: &mut impl Write) -> anyhow::Result<bool> {
        let scenario = self.scenario();
        let mut equal = true;
        for (i, state) in states.iter().enumerate() {
            let compared = Compared {
                endpoints: true,
                slices: true,
                mirrored,
                trigger_times: scenario.compares_trigger_times(i),
            };
            let (want, got) = (scenario.recorded(i, compared), scenario.observed(state, compared));
            let same = |want: &Value| differences(want, &got, scenario.max_endpoints()).is_empty();
            if same(&want) || scenario.of_endpointd(i, compared).is_some_and(|own| same(&own)) {
                continue;
            }
            if equal {
                writeln!(out, "{}: differs (- recorded, + found)", scenario.name())?;
            }
            equal = false;
            let operations = scenario.steps()[i]["do"].as_array().into_iter().flatten();
            let operations: Vec<String> = operations.map(shown).collect();
            writeln!(out, "  step {i}, after {}:", operations.join(", "))?;
            for line in diff::unified(&pretty(&want), &pretty(&got)) {
                writeln!(out, "    {line}")?;
            }
        }
        Ok(equal)
    }
}

fn pretty(value: &Value) -> String {
    let mut text = Vec::new();
    let mut to = serde_json::Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(b" "));
    value
        .serialize(&mut to)
        .expect("a JSON value can be written to memory");
    String::from_utf8(text).expect("JSON is UTF-8")
}
