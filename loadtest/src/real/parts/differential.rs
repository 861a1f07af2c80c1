//! The same random changes are made to two control planes, of which kube-controller-manager keeps one and endpointd the other;
//! after each, what both have settled on is compared.
//!
//! ```text
//!  seed ──► Steps ──► operation ──┬──► plane with kube-controller-manager ──► state ──┐
//!                                 └──► plane with endpointd ────────────────► state ──┴──► equal?
//! ```
//!
//! A lane is a namespace of each plane; several lanes of a pair of planes go on at the same time. What is found is written down
//! as a scenario, which `loadtest record` can play again.

mod known;
mod steps;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::Path,
    time::Duration,
};

use anyhow::{Context, ensure};
use futures::future::{try_join, try_join_all};
use jiff::Timestamp;
use scenario::{Api, Compared, Error, Play, Scenario, carry_out};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use self::{
    known::{Difference, Facts, Published, compare, published},
    steps::Steps,
};
use super::{Work, scenarios::RECORDED_WITH};
use crate::{
    figures::number,
    real::{
        cluster::{Cluster, UPSTREAM},
        folder::Program,
        table::Outcome,
    },
};

/// What a pair of planes is for: the limit of slices, and whether it matters which slice holds which endpoint. Where slices
/// are small, that depends on more than the state, and the controllers need not agree.
const PAIRS: [(usize, bool); 2] = [(100, true), (6, false)];
/// Namespaces of a pair in which changes are made at the same time.
const LANES: usize = 4;
/// Changes in one namespace before the next one begins.
const HISTORY: usize = 250;
/// The shortest time after a change until a state counts as settled.
const SHORTEST: Duration = Duration::from_millis(120);
const LOOK: Duration = Duration::from_millis(40);
/// How long the controllers may take to agree. endpointd keeps some slices for ten seconds, and kube-controller-manager's
/// retries take some.
const LIMIT: Duration = Duration::from_secs(20);
/// How long states have to stay equal at the end of a history.
const QUIET: Duration = Duration::from_millis(1_500);
/// So many differences are enough to know that something is wrong.
const MANY: usize = 10;
const NODES: [(&str, &str); 5] = [
    ("node0", "east"),
    ("node1", "west"),
    ("node2", "north"),
    ("node3", "east"),
    ("node4", "west"),
];

/// One control plane of a pair.
struct Side {
    api: Api,
    cluster: Cluster,
}

/// What a lane has found.
#[derive(Debug, Default)]
struct Found {
    steps: usize,
    refused: usize,
    /// Differences that `docs/differences.md` has, by its words.
    known: BTreeMap<&'static str, usize>,
    /// All others, in words.
    unknown: Vec<String>,
}

/// What became of one change.
enum Settled {
    Equal,
    Different(Vec<Difference>),
}

/// A history in both control planes.
struct Pair<'a> {
    plays: [Play<'a>; 2],
    max: usize,
    /// Why the sides differ for a while, where `docs/differences.md` says why.
    reasons: BTreeSet<&'static str>,
}

pub(super) async fn run(work: &Work) -> anyhow::Result<Outcome> {
    let version = work.folder().version(Program::ControllerManager)?;
    let share = work.steps.div_ceil(PAIRS.len() * LANES);
    let pairs = PAIRS
        .iter()
        .enumerate()
        .map(|(number, (max, exact))| pair(work, number, *max, *exact, share));
    let mut all = Found::default();
    for found in try_join_all(pairs).await?.into_iter().flatten() {
        all.add(found);
    }
    let known: usize = all.known.values().sum();
    let mut words = format!(
        "{} changes, seed {}: {} not in docs/differences.md, {known} that are ({} changes were refused by both API servers)",
        number(all.steps as u64),
        work.seed,
        all.unknown.len(),
        all.refused
    );
    for (known, count) in &all.known {
        let _ = write!(words, "\n{count} times: {known}");
    }
    for unknown in &all.unknown {
        let _ = write!(words, "\n{unknown}");
    }
    let is_reference = version.starts_with(RECORDED_WITH);
    Ok(match all.unknown.is_empty() {
        true => Outcome::passed(words),
        false if is_reference => Outcome::failed(words),
        // endpointd publishes what the reference does, wherever it runs.
        false => Outcome::passed(format!(
            "kube-controller-manager {version} is not {RECORDED_WITH}: {words}"
        )),
    })
}

/// Runs the lanes of a pair of planes.
async fn pair(
    work: &Work,
    number: usize,
    max: usize,
    exact: bool,
    steps: usize,
) -> anyhow::Result<Vec<Found>> {
    let name = |side: &str| format!("differential-{number}-{side}");
    let (upstream_name, own_name) = (name("upstream"), name("endpointd"));
    let (upstream, own) = try_join(side(work, &upstream_name), side(work, &own_name)).await?;
    let mut upstream = upstream;
    let max_flag = format!("--max-endpoints-per-slice={max}");
    let flags = [&*max_flag, "--kube-api-qps=5000", "--kube-api-burst=10000"];
    let mut controller = upstream.cluster.start_upstream(UPSTREAM, &flags)?;
    let mut endpointd = own
        .cluster
        .start_endpointd("endpointd", max, &["--kube-api-qps=0", "--controllers=*"])
        .await?;
    let sides = [&upstream, &own];
    let lanes = (0..LANES).map(|at| {
        let seed = work.seed + (number * LANES + at) as u64;
        lane(&work.out, sides, seed, max, exact, steps)
    });
    let found = controller.during(endpointd.during(try_join_all(lanes))).await?;
    own.cluster.audit(&[&max_flag]).await?;
    endpointd.stop().await?;
    controller.end_or_kill(Duration::from_secs(10)).await?;
    upstream.cluster.stop().await?;
    own.cluster.stop().await?;
    Ok(found)
}

/// A plane with the nodes that all lanes share.
async fn side(work: &Work, name: &str) -> anyhow::Result<Side> {
    let cluster = work.cluster(name, &[]).await?;
    let api = Api(cluster.client().await?);
    for node in nodes() {
        carry_out(&api, "", &node).await?;
    }
    Ok(Side { api, cluster })
}

fn nodes() -> Vec<Value> {
    let node = |(name, zone): (&str, &str)| {
        json!({ "create": {
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": name, "labels": { "topology.kubernetes.io/zone": zone } },
            "status": {
                "allocatable": { "cpu": "4" }, "capacity": { "cpu": "4" },
                "conditions": [{ "type": "Ready", "status": "True" }],
            },
        } })
    };
    NODES.map(node).to_vec()
}

/// Makes changes in one namespace after the other until there were enough.
async fn lane(
    out: &Path,
    sides: [&Side; 2],
    seed: u64,
    max: usize,
    exact: bool,
    count: usize,
) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let mut number = 0;
    while found.steps < count && found.unknown.len() < MANY {
        let name = format!("differential-{seed}-{number}");
        let steps = HISTORY.min(count - found.steps);
        // Every history has a seed of its own, so that one can be repeated alone.
        let history = history(sides, &name, seed * 1_000 + number, max, exact, steps);
        let (part, script) = history.await.with_context(|| format!("history {name}"))?;
        if !part.unknown.is_empty() {
            let path = out.join(format!("{name}.json"));
            let script = serde_json::to_string(&script)?;
            std::fs::write(&path, script).with_context(|| format!("writing {}", path.display()))?;
        }
        found.add(part);
        number += 1;
    }
    Ok(found)
}

/// Makes changes in a namespace until there were enough, or the controllers disagree. Also all that was done, as a scenario.
async fn history(
    sides: [&Side; 2],
    name: &str,
    seed: u64,
    max: usize,
    exact: bool,
    count: usize,
) -> anyhow::Result<(Found, Value)> {
    let packing = if exact { "exact" } else { "free" };
    let mut script = json!({
        "name": name, "why": "a history of random changes on which the controllers did not agree",
        "packing": packing, "steps": [{ "do": nodes() }],
    });
    let rules = script.clone();
    let mut pair = Pair {
        plays: sides.map(|side| Play::new(side.api.clone(), Scenario(&rules), name.to_owned())),
        max,
        reasons: BTreeSet::new(),
    };
    for play in &pair.plays {
        play.create_namespace().await?;
    }
    let mut steps = Steps::new(name, seed, NODES.map(|(node, _)| node), Timestamp::now());
    let mut found = Found::default();
    let first = steps.populate();
    script_step(&mut script, &first);
    for operation in &first {
        pair.act(operation).await?;
    }
    let mut settled = pair.settle(steps.facts(), SHORTEST * 4).await?;
    while let Settled::Equal = settled {
        if found.steps >= count {
            settled = pair.settle(steps.facts(), QUIET).await?;
            break;
        }
        let operation = steps.next();
        found.steps += 1;
        script_step(&mut script, std::slice::from_ref(&operation));
        settled = if pair.act(&operation).await? {
            pair.settle(steps.facts(), SHORTEST).await?
        } else {
            found.refused += 1;
            Settled::Equal
        };
    }
    for reason in pair.reasons {
        *found.known.entry(reason).or_default() += 1;
    }
    let Settled::Different(differences) = settled else {
        return Ok((found, script));
    };
    let last = script["steps"].as_array().and_then(|steps| steps.last());
    for difference in differences {
        match difference.reason(steps.facts(), max) {
            Some(reason) => *found.known.entry(reason).or_default() += 1,
            None => found.unknown.push(format!(
                "{name}, after {} changes, the last of which is {}\n    {difference}",
                found.steps,
                last.map_or(&Value::Null, |last| &last["do"]),
            )),
        }
    }
    Ok((found, script))
}

/// Adds a step to a scenario.
fn script_step(script: &mut Value, operations: &[Value]) {
    let steps = script["steps"].as_array_mut().expect("a script has steps");
    steps.push(json!({ "do": operations }));
}

// === impl Pair ===

impl Pair<'_> {
    /// Carries out a change on both sides. Whether it was accepted; both have to say the same.
    async fn act(&mut self, operation: &Value) -> anyhow::Result<bool> {
        let [first, second] = &mut self.plays;
        let (first, second) = tokio::join!(first.act(operation), second.act(operation));
        let code = |outcome: Result<(), Error>| match outcome {
            Ok(()) => Ok(None),
            Err(error) => match error.code() {
                Some(code) => Ok(Some((code, error.to_string()))),
                None => Err(error),
            },
        };
        let (first, second) = (code(first)?, code(second)?);
        let (one, other) = (first.as_ref().map(|it| it.0), second.as_ref().map(|it| it.0));
        ensure!(
            one == other,
            "the API servers answer differently to {operation}: {first:?} and {second:?}"
        );
        Ok(first.is_none())
    }

    /// Waits until both sides are equal and stay so, for at least this time.
    async fn settle(&mut self, facts: &Facts, shortest: Duration) -> anyhow::Result<Settled> {
        let begin = Instant::now();
        let mut equal_since = None;
        loop {
            sleep(LOOK).await;
            let [upstream, own] = self.states().await?;
            let differences = compare(&upstream, &own, facts, self.max, &mut self.reasons);
            let now = Instant::now();
            if differences.is_empty() {
                let since = *equal_since.get_or_insert(now);
                // Looks that are far apart, on a busy machine, are two all the same.
                if now.saturating_duration_since(begin) >= shortest && since < now {
                    return Ok(Settled::Equal);
                }
            } else {
                equal_since = None;
                if now.saturating_duration_since(begin) >= LIMIT {
                    return Ok(Settled::Different(differences));
                }
            }
        }
    }

    /// What both sides publish now.
    async fn states(&mut self) -> anyhow::Result<[Published; 2]> {
        let compared = Compared {
            endpoints: true,
            slices: true,
            mirrored: true,
            trigger_times: true,
        };
        let [first, second] = &mut self.plays;
        let scenario = first.scenario;
        let (first, second) = tokio::join!(first.state(), second.state());
        let of = |state| published(&scenario.observed(&state, compared));
        Ok([of(first?), of(second?)])
    }
}

// === impl Found ===

impl Found {
    fn add(&mut self, other: Self) {
        self.steps += other.steps;
        self.refused += other.refused;
        for (known, count) in other.known {
            *self.known.entry(known).or_default() += count;
        }
        self.unknown.extend(other.unknown);
    }
}
