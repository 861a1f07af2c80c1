//! Plays recorded scenarios with `loadtest record --check`, one process for each: endpointd is held against what upstream has
//! settled on, and kube-controller-manager against what it settled on when they were recorded.

use super::Work;
use crate::process::Process;
use crate::real::cluster::{Cluster, Endpointd, UPSTREAM};
use crate::real::folder::Program;
use crate::real::table::Outcome;
use anyhow::{Context, ensure};
use futures::future::try_join_all;
use scenario::Scenario;
use serde_json::Value;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version of Kubernetes that the scenarios were recorded with.
pub(super) const RECORDED_WITH: &str = "1.36";
/// With `--quick`, one of so many scenarios is played.
const QUICK: usize = 8;
/// The folder of scenarios that need custom-selector-controller, beside the others.
const CUSTOM: &str = "custom";
/// How many differences are shown beside their log.
const SHOWN: usize = 3;

/// A controller whose states are compared with the recorded ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contestant {
    Endpointd,
    Upstream,
}

/// Scenarios that are played on one control plane, one after the other, with one configuration.
#[derive(Clone, Debug)]
struct Batch {
    /// The configuration, such as `max4`.
    name: String,
    max_endpoints: usize,
    custom: bool,
    files: Vec<PathBuf>,
}

/// The result of a scenario with one of the controllers.
#[derive(Debug)]
struct Played {
    contestant: Contestant,
    batch: String,
    name: String,
    /// The message of `record`, if the states were not the recorded ones.
    wrong: Option<String>,
}

/// A controller that runs.
enum Running {
    Endpointd(Endpointd),
    Upstream(Process),
}

/// endpointd.
pub(super) async fn endpointd(work: &Work) -> anyhow::Result<Outcome> {
    let contestants = [Contestant::Endpointd];
    let played = play(work, "scenarios", &contestants).await?;
    let words = words(&contestants, &played);
    Ok(match wrong(&played) {
        None => Outcome::passed(words),
        Some(wrong) => Outcome::failed(format!("{words}\n{wrong}")),
    })
}

/// kube-controller-manager. One of another version than the recordings' may differ.
pub(super) async fn upstream(work: &Work) -> anyhow::Result<Outcome> {
    let contestants = [Contestant::Upstream];
    let version = work.folder().version(Program::ControllerManager)?;
    let played = play(work, "recordings", &contestants).await?;
    let words = words(&contestants, &played);
    let Some(wrong) = wrong(&played) else {
        return Ok(Outcome::passed(words));
    };
    let is_recorded = version.strip_prefix(RECORDED_WITH);
    if is_recorded.is_some_and(|rest| rest.is_empty() || rest.starts_with('.')) {
        return Ok(Outcome::failed(format!("{words}\n{wrong}")));
    }
    Ok(Outcome::passed(format!(
        "{words}: {version} differs from {RECORDED_WITH}, with which they were recorded\n{wrong}"
    )))
}

async fn play(work: &Work, part: &str, contestants: &[Contestant]) -> anyhow::Result<Vec<Played>> {
    let mut lanes = Vec::new();
    for contestant in contestants {
        let custom = *contestant != Contestant::Upstream;
        let batches = batches(work, custom)?;
        // A server that was given is used by one controller at a time.
        let planes = match work.server {
            Some(_) => 1,
            None => (work.planes / contestants.len()).max(1),
        };
        for (number, batches) in dealt(batches, planes).into_iter().enumerate() {
            lanes.push((*contestant, format!("{part}-{contestant}-{number}"), batches));
        }
    }
    let mut played = Vec::new();
    if work.server.is_some() {
        for (contestant, name, batches) in lanes {
            played.extend(lane(work, contestant, &name, batches).await?);
        }
    } else {
        let lanes = lanes.iter().map(|(contestant, name, batches)| {
            let batches = batches.clone();
            lane(work, *contestant, name, batches)
        });
        played.extend(try_join_all(lanes).await?.into_iter().flatten());
    }
    let path = work.out.join(format!("{part}.txt"));
    let mut report = std::fs::File::create(&path).with_context(|| format!("creating {}", path.display()))?;
    for Played {
        contestant,
        batch,
        name,
        wrong,
    } in &played
    {
        let wrong = wrong.as_deref().unwrap_or("equal");
        writeln!(report, "{contestant}, {batch}, {name}: {wrong}")?;
    }
    Ok(played)
}

/// The scenarios, by configuration.
fn batches(work: &Work, custom: bool) -> anyhow::Result<Vec<Batch>> {
    let mut batches: Vec<Batch> = Vec::new();
    let mut folders = vec![(work.scenarios.clone(), false)];
    let of_custom = work.scenarios.join(CUSTOM);
    if custom && of_custom.is_dir() {
        folders.push((of_custom, true));
    }
    for (folder, custom) in folders {
        for path in files(&folder)? {
            let text = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
            let content: Value =
                serde_json::from_slice(&text).with_context(|| format!("reading {}", path.display()))?;
            let max_endpoints = Scenario(&content).max_endpoints();
            let batch = batches
                .iter_mut()
                .find(|batch| batch.max_endpoints == max_endpoints && batch.custom == custom);
            match batch {
                Some(batch) => batch.files.push(path),
                None => batches.push(Batch {
                    name: match (custom, max_endpoints) {
                        (true, 100) => CUSTOM.to_owned(),
                        (false, 100) => "default".to_owned(),
                        (true, max) => format!("{CUSTOM}-max{max}"),
                        (false, max) => format!("max{max}"),
                    },
                    max_endpoints,
                    custom,
                    files: vec![path],
                }),
            }
        }
    }
    if work.quick {
        for batch in &mut batches {
            let mut number = 0;
            batch.files.retain(|_| {
                number += 1;
                (number - 1) % QUICK == 0
            });
        }
    }
    Ok(batches)
}

/// The scenario files of a folder, in their order.
fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            files.push(path);
        }
    }
    files.sort();
    ensure!(
        !files.is_empty(),
        "there are no scenarios in {}",
        folder.display()
    );
    Ok(files)
}

/// Deals the scenarios out to control planes, one after the other.
fn dealt(batches: Vec<Batch>, planes: usize) -> Vec<Vec<Batch>> {
    let mut dealt: Vec<Vec<Batch>> = vec![Vec::new(); planes];
    let mut next = 0;
    for batch in batches {
        for file in &batch.files {
            let plane = &mut dealt[next % planes];
            next += 1;
            match plane.last_mut().filter(|last| last.name == batch.name) {
                Some(last) => last.files.push(file.clone()),
                None => plane.push(Batch {
                    files: vec![file.clone()],
                    ..batch.clone()
                }),
            }
        }
    }
    dealt.retain(|batches| !batches.is_empty());
    dealt
}

/// Plays scenarios on a control plane.
async fn lane(
    work: &Work,
    contestant: Contestant,
    name: &str,
    batches: Vec<Batch>,
) -> anyhow::Result<Vec<Played>> {
    let mut cluster = work.cluster(name, &[]).await?;
    let mut played = Vec::new();
    for batch in batches {
        let mut controller = start(&mut cluster, contestant, &batch).await?;
        for file in &batch.files {
            let checking = check(&cluster, contestant, &batch, file);
            played.push(match &mut controller {
                Running::Endpointd(endpointd) => endpointd.during(checking).await?,
                Running::Upstream(process) => process.during(checking).await?,
            });
        }
        match controller {
            Running::Endpointd(endpointd) => endpointd.stop().await?,
            Running::Upstream(process) => process.end_or_kill(std::time::Duration::from_secs(10)).await?,
        }
    }
    cluster.stop().await?;
    Ok(played)
}

async fn start(cluster: &mut Cluster, contestant: Contestant, batch: &Batch) -> anyhow::Result<Running> {
    let max = batch.max_endpoints;
    Ok(match contestant {
        Contestant::Endpointd => {
            let controllers = if batch.custom {
                "--controllers=*,custom-selector-controller"
            } else {
                "--controllers=*"
            };
            Running::Endpointd(cluster.start_endpointd("endpointd", max, &[controllers]).await?)
        }
        Contestant::Upstream => {
            let max = format!("--max-endpoints-per-slice={max}");
            Running::Upstream(cluster.start_upstream(UPSTREAM, &[&max])?)
        }
    })
}

/// Plays one scenario, and compares.
async fn check(
    cluster: &Cluster,
    contestant: Contestant,
    batch: &Batch,
    file: &Path,
) -> anyhow::Result<Played> {
    let name = file
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["record", "--check", "--kubeconfig"])
        .arg(cluster.admin())
        // One server may see the scenario more than once.
        .arg(format!("--namespace={contestant}-{name}").to_lowercase())
        .arg(format!("--max-endpoints-per-slice={}", batch.max_endpoints))
        .arg(file);
    let mut command = tokio::process::Command::from(command);
    let output = command
        .kill_on_drop(true)
        .output()
        .await
        .context("running loadtest record")?;
    let text = [output.stdout, output.stderr].concat();
    let wrong = String::from_utf8_lossy(&text).trim().to_owned();
    Ok(Played {
        contestant,
        batch: batch.name.clone(),
        name,
        wrong: (!output.status.success()).then_some(wrong),
    })
}

/// How many were equal, for each contestant and configuration.
fn words(contestants: &[Contestant], played: &[Played]) -> String {
    let mut parts = Vec::new();
    for contestant in contestants {
        let of_contestant: Vec<&Played> = played.iter().filter(|it| it.contestant == *contestant).collect();
        let mut batches: Vec<&str> = of_contestant.iter().map(|it| it.batch.as_str()).collect();
        batches.sort_unstable();
        batches.dedup();
        let counts = batches.iter().map(|batch| {
            let of_batch: Vec<_> = of_contestant.iter().filter(|it| it.batch == *batch).collect();
            let equal = of_batch.iter().filter(|it| it.wrong.is_none()).count();
            format!("{equal} of {} ({batch})", of_batch.len())
        });
        let counts: Vec<String> = counts.collect();
        parts.push(format!("{contestant}: {}", counts.join(", ")));
    }
    parts.join("; ")
}

/// The first differences, if there are any.
fn wrong(played: &[Played]) -> Option<String> {
    let wrong: Vec<&Played> = played.iter().filter(|it| it.wrong.is_some()).collect();
    let names: Vec<&str> = wrong.iter().map(|it| it.name.as_str()).collect();
    let shown = wrong.iter().take(SHOWN).filter_map(|it| it.wrong.clone());
    let shown: Vec<String> = shown.collect();
    (!wrong.is_empty()).then(|| format!("not equal: {}\n{}", names.join(", "), shown.join("\n")))
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Endpointd => "endpointd",
            Self::Upstream => "kube-controller-manager",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_counted_and_shown() {
        let played = |name: &str, wrong: Option<&str>| Played {
            contestant: Contestant::Upstream,
            batch: "default".to_owned(),
            name: name.to_owned(),
            wrong: wrong.map(str::to_owned),
        };
        let all = [played("basic", None), played("dual", Some("dual: differs"))];
        assert_eq!(
            words(&[Contestant::Upstream], &all),
            "kube-controller-manager: 1 of 2 (default)"
        );
        assert_eq!(wrong(&all).unwrap(), "not equal: dual\ndual: differs");
        assert_eq!(wrong(&all[..1]), None);
    }
}
