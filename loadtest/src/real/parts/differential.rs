//! The same random changes are made to two control planes, of which kube-controller-manager keeps one and endpointd the other;
//! after each, what both have settled on is compared.
//!
//! ```text
//!  seed ──► Steps ──► operation ──┬──► plane with kube-controller-manager ──► state ──┐
//!                                 └──► plane with endpointd ────────────────► state ──┴──► equal?
//! ```
//!
//! A lane is a namespace of each plane; several lanes of a pair of planes go on at the same time. Each finding is
//! written down as a scenario, which `loadtest record` can play again.

mod known;
mod steps;

use self::known::{Difference, Facts, Published, Reasons, compare, published};
use self::steps::Steps;
use super::Work;
use super::scenarios::RECORDED_WITH;
use crate::api;
use crate::figures::number;
use crate::real::cluster::{Cluster, UPSTREAM};
use crate::real::folder::Program;
use crate::real::table::Outcome;
use anyhow::{Context, bail};
use futures::future::{join_all, try_join};
use jiff::Timestamp;
use parking_lot::Mutex;
use scenario::{Api, Compared, Error, Play, Scenario, carry_out};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The setting of each pair of planes: the limit of slices, and whether it matters which slice holds which endpoint.
/// Where slices are small, that depends on more than the state, and the controllers need not agree.
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

/// Changes in one namespace after the other.
struct Lane {
    seed: u64,
    histories: RangeInclusive<u64>,
    /// Whether it matters which slice holds which endpoint.
    exact: bool,
    /// Changes in all.
    steps: usize,
}

/// The findings.
#[derive(Debug, Default)]
struct Found {
    steps: usize,
    refused: usize,
    /// Differences that `docs/differences.md` has, by its words.
    known: BTreeMap<&'static str, usize>,
    /// All others, in words.
    unknown: Vec<String>,
    /// The errors that ended a lane or a pair before there were enough changes, in words.
    errors: Vec<String>,
}

/// The answer of both API servers to a change.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Accepted,
    Refused,
    /// Not the same: the objects that the controllers keep are not the same.
    Different(String),
}

/// The result of one change.
enum Settled {
    Equal,
    Different(Vec<Difference>),
    /// The API servers disagreed, in words.
    Answers(String),
}

/// A history in both control planes.
struct Pair<'a> {
    plays: [Play<'a>; 2],
    max: usize,
    /// Why the sides differ for a while, where `docs/differences.md` says why.
    reasons: Reasons,
}

pub(super) async fn run(work: &Work) -> anyhow::Result<Outcome> {
    let version = work.folder().version(Program::ControllerManager)?;
    let all = Mutex::new(Found::default());
    let pairs = PAIRS
        .iter()
        .enumerate()
        .map(|(number, (max, exact))| pair(work, number, *max, lanes(work, number, *exact), &all));
    let ends = join_all(pairs).await;
    let mut all = all.into_inner();
    for error in ends.into_iter().filter_map(Result::err) {
        all.errors.push(api::in_words(&error));
    }
    Ok(outcome(&all, work.seed, &version))
}

/// Returns the findings in words.
fn outcome(all: &Found, seed: u64, version: &str) -> Outcome {
    let known: usize = all.known.values().sum();
    let mut words = format!(
        "{} changes, seed {}: {} not in docs/differences.md, {known} that are ({} changes were refused by both API servers)",
        number(all.steps as u64),
        seed,
        all.unknown.len(),
        all.refused
    );
    for (known, count) in &all.known {
        let _ = write!(words, "\n{count} times: {known}");
    }
    for unknown in &all.unknown {
        let _ = write!(words, "\n{unknown}");
    }
    for error in &all.errors {
        let _ = write!(words, "\nended early: {error}");
    }
    let is_reference = version.starts_with(RECORDED_WITH);
    match (all.errors.is_empty(), all.unknown.is_empty()) {
        (true, true) => Outcome::passed(words),
        // endpointd publishes what the reference does, wherever it runs.
        (true, false) if !is_reference => Outcome::passed(format!(
            "kube-controller-manager {version} is not {RECORDED_WITH}: {words}"
        )),
        _ => Outcome::failed(words),
    }
}

/// Runs the lanes of a pair of planes. Their findings are added at once, so that they are not lost if there is an error
/// later.
async fn pair(
    work: &Work,
    number: usize,
    max: usize,
    lanes: Vec<Lane>,
    all: &Mutex<Found>,
) -> anyhow::Result<()> {
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
    let lanes = lanes.into_iter().map(|lane| async move {
        if let Err(error) = lane.run(&work.out, sides, max, all).await {
            all.lock().errors.push(api::in_words(&error));
        }
    });
    let lanes = async {
        join_all(lanes).await;
        Ok(())
    };
    controller.during(endpointd.during(lanes)).await?;
    own.cluster.audit(&[&max_flag]).await?;
    endpointd.stop().await?;
    controller.end_or_kill(Duration::from_secs(10)).await?;
    upstream.cluster.stop().await?;
    own.cluster.stop().await
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

/// The lanes of a pair of planes.
fn lanes(work: &Work, pair: usize, exact: bool) -> Vec<Lane> {
    if let Some((seed, number)) = work.history {
        return vec![Lane {
            seed,
            histories: number..=number,
            exact,
            steps: work.steps.min(HISTORY),
        }];
    }
    let lane = |at| Lane {
        seed: work.seed + (pair * LANES + at) as u64,
        histories: 0..=u64::MAX,
        exact,
        steps: work.steps.div_ceil(PAIRS.len() * LANES),
    };
    (0..LANES).map(lane).collect()
}

/// Adds a step to a scenario.
fn script_step(script: &mut Value, operations: &[Value]) {
    let steps = script["steps"].as_array_mut().expect("a script has steps");
    steps.push(json!({ "do": operations }));
}

// === impl Lane ===

impl Lane {
    /// Makes changes in one namespace after the other until there were enough.
    async fn run(self, out: &Path, sides: [&Side; 2], max: usize, all: &Mutex<Found>) -> anyhow::Result<()> {
        let (mut made, mut unknown) = (0, 0);
        for number in self.histories.clone() {
            if made >= self.steps || unknown >= MANY {
                break;
            }
            let name = format!("differential-{}-{number}", self.seed);
            let history = self.history(sides, &name, number, max, HISTORY.min(self.steps - made));
            let (part, mut script) = history.await.with_context(|| format!("history {name}"))?;
            made += part.steps;
            unknown += part.unknown.len();
            let found = part.unknown.join("\n");
            all.lock().add(part);
            if !found.is_empty() {
                eprintln!("   {found}");
                script["why"] = json!(found);
                let path = out.join(format!("{name}.json"));
                let script = serde_json::to_string(&script)?;
                std::fs::write(&path, script).with_context(|| format!("writing {}", path.display()))?;
            }
        }
        Ok(())
    }

    /// Makes changes in a namespace until there were enough, or the controllers disagree. Also all that was done, as a scenario.
    async fn history(
        &self,
        sides: [&Side; 2],
        name: &str,
        number: u64,
        max: usize,
        count: usize,
    ) -> anyhow::Result<(Found, Value)> {
        let packing = if self.exact { "exact" } else { "free" };
        let mut script = json!({
            "name": name, "why": "a history of random changes on which the controllers did not agree",
            "packing": packing, "steps": [{ "do": nodes() }],
        });
        let rules = script.clone();
        let mut pair = Pair {
            plays: sides.map(|side| Play::new(side.api.clone(), Scenario(&rules), name.to_owned())),
            max,
            reasons: Reasons::new(),
        };
        for play in &pair.plays {
            play.create_namespace().await?;
        }
        // Every history has a seed of its own, so that one can be repeated alone.
        let mut steps = Steps::new(
            name,
            self.seed * 1_000 + number,
            NODES.map(|(node, _)| node),
            Timestamp::now(),
        );
        let mut found = Found::default();
        let first = steps.populate();
        script_step(&mut script, &first);
        for operation in &first {
            if let Answer::Different(words) = pair.act(operation).await? {
                bail!("the API servers do not agree on a new namespace: {words}");
            }
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
            settled = match pair.act(&operation).await? {
                Answer::Accepted => pair.settle(steps.facts(), SHORTEST).await?,
                Answer::Refused => {
                    found.refused += 1;
                    Settled::Equal
                }
                Answer::Different(words) => Settled::Answers(words),
            };
        }
        for (reason, _) in &pair.reasons {
            *found.known.entry(*reason).or_default() += 1;
        }
        let differences = match settled {
            Settled::Equal => return Ok((found, script)),
            Settled::Answers(words) => {
                found
                    .unknown
                    .push(format!("{name}, after {} changes: {words}", found.steps));
                return Ok((found, script));
            }
            Settled::Different(differences) => differences,
        };
        let last = script["steps"].as_array().and_then(|steps| steps.last());
        for difference in differences {
            match difference.reason(steps.facts(), max, &pair.reasons) {
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
}

// === impl Pair ===

impl Pair<'_> {
    /// Carries out a change on both sides, which have to answer the same.
    async fn act(&mut self, operation: &Value) -> anyhow::Result<Answer> {
        let [first, second] = &mut self.plays;
        let (first, second) = tokio::join!(first.act(operation), second.act(operation));
        Ok(answer(operation, first, second)?)
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

    /// Returns what both sides publish now.
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

/// Returns the answer of two API servers to an operation.
fn answer(operation: &Value, first: Result<(), Error>, second: Result<(), Error>) -> Result<Answer, Error> {
    let refusal = |outcome: Result<(), Error>| match outcome {
        Ok(()) => Ok(None),
        Err(error) => match error.code() {
            Some(code) => Ok(Some((code, error.to_string()))),
            None => Err(error),
        },
    };
    let (first, second) = (refusal(first)?, refusal(second)?);
    let code = |refusal: &Option<(u16, String)>| refusal.as_ref().map(|(code, _)| *code);
    if code(&first) == code(&second) {
        return Ok(if first.is_none() {
            Answer::Accepted
        } else {
            Answer::Refused
        });
    }
    let words =
        |refusal: Option<(u16, String)>| refusal.map_or_else(|| "accepted".to_owned(), |(_, words)| words);
    Ok(Answer::Different(format!(
        "the API servers answer differently to {operation}\n    beside kube-controller-manager: {}\n    beside endpointd: {}",
        words(first),
        words(second)
    )))
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
        self.errors.extend(other.errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::real::table::Verdict;

    fn refused(code: u16) -> Result<(), Error> {
        Err(Error::Refused {
            request: "PATCH /x".to_owned(),
            code,
            message: "no".to_owned(),
        })
    }

    #[test]
    fn an_operation_that_one_server_refuses_is_a_difference_and_no_end_of_the_run() {
        let of = |first, second| answer(&json!({ "patch": {} }), first, second).unwrap();
        assert_eq!(of(Ok(()), Ok(())), Answer::Accepted);
        assert_eq!(of(refused(422), refused(422)), Answer::Refused);
        let Answer::Different(words) = of(Ok(()), refused(422)) else {
            panic!("the servers have answered differently");
        };
        assert!(
            words.contains("kube-controller-manager: accepted") && words.contains("endpointd: PATCH /x"),
            "{words}"
        );
        assert!(matches!(of(refused(404), refused(422)), Answer::Different(_)));
        let lost = Err(Error::Scenario("no operation".to_owned()));
        answer(&json!({}), Ok(()), lost).unwrap_err();
    }

    #[test]
    fn what_was_found_is_told_when_a_lane_has_ended_with_an_error() {
        let found = || Found {
            unknown: vec!["a slice too many".to_owned()],
            ..Found::default()
        };
        let mut all = found();
        all.add(Found {
            errors: vec!["no answer".to_owned()],
            ..Found::default()
        });
        let told = outcome(&all, 1, RECORDED_WITH);
        assert_eq!(told.verdict, Verdict::Failed);
        assert!(told.words.contains("a slice too many") && told.words.contains("ended early: no answer"));
        assert_eq!(outcome(&found(), 1, "1.30.0").verdict, Verdict::Passed);
        all.unknown.clear();
        assert_eq!(outcome(&all, 1, "1.30.0").verdict, Verdict::Failed);
        assert_eq!(
            outcome(&Found::default(), 1, RECORDED_WITH).verdict,
            Verdict::Passed
        );
    }
}
