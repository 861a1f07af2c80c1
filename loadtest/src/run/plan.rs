//! The plan of a run, with everything decided: from flags, from a profile's defaults, or from a file.

use super::phase::{Phase, Profile, Tuning};
use super::sizes::{Layout, MAX_NAMESPACES, MAX_NODES, MAX_PODS, MAX_SERVICES, SizeFlags, Sizes};
use crate::figures::number;
use anyhow::{Context, bail, ensure};
use clap::ValueEnum;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Where a plan comes from.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// One phase, with its defaults.
    Profile(Profile),
    /// Phases of a file.
    File(PathBuf),
}

/// A file of phases.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct File {
    name: Option<String>,
    seed: Option<u64>,
    pods: Option<usize>,
    namespaces: Option<usize>,
    services: Option<usize>,
    nodes: Option<usize>,
    alive: Option<usize>,
    #[serde(default)]
    cluster_ip: bool,
    #[serde(default)]
    layout: Layout,
    phases: Vec<Tuning>,
}

/// The plan of a run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) name: String,
    pub(super) seed: u64,
    pub(super) sizes: Sizes,
    pub(super) layout: Layout,
    pub(super) phases: Vec<Phase>,
}

// === impl Source ===

impl Source {
    /// A profile's name, or else something that looks like a file's.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if let Ok(profile) = Profile::from_str(text, false) {
            return Ok(Self::Profile(profile));
        }
        let path = PathBuf::from(text);
        if path.extension().is_some() || path.components().count() > 1 {
            return Ok(Self::File(path));
        }
        let names: Vec<String> = Profile::value_variants().iter().map(Profile::to_string).collect();
        Err(format!("expected {}, or a YAML file", names.join(", ")))
    }
}

// === impl Plan ===

impl Plan {
    /// Decides everything, or says in one line what cannot be.
    pub(super) fn new(
        source: &Source,
        sizes: &SizeFlags,
        tuning: &Tuning,
        seed: Option<u64>,
    ) -> anyhow::Result<Self> {
        let seed = |file: Option<u64>| seed.or(file).unwrap_or_else(|| fastrand::u64(..1_000_000));
        match source {
            Source::Profile(profile) => {
                let layout = profile.layout();
                let sizes = layout.sizes(sizes)?;
                Ok(Self {
                    name: profile.to_string(),
                    seed: seed(None),
                    sizes,
                    layout,
                    phases: vec![tuning.phase(*profile, &sizes)?],
                })
            }
            Source::File(path) => {
                let shown = path.display();
                ensure!(
                    !tuning.is_given(),
                    "the phases of {shown} have parameters of their own: give none beside it"
                );
                let text = std::fs::read_to_string(path).with_context(|| format!("reading {shown}"))?;
                let file: File = serde_saphyr::from_str(&text)
                    .map_err(|error| anyhow::anyhow!("{}", one_line(&error.to_string())))
                    .with_context(|| format!("reading {shown}"))?;
                let name = file.name.clone().unwrap_or_else(|| {
                    let stem = path.file_stem().unwrap_or_default();
                    stem.to_string_lossy().into_owned()
                });
                let seed = seed(file.seed);
                Self::of_file(&file, name, sizes, seed).with_context(|| shown.to_string())
            }
        }
    }

    fn of_file(file: &File, name: String, flags: &SizeFlags, seed: u64) -> anyhow::Result<Self> {
        let sizes = file.layout.sizes(&SizeFlags {
            pods: flags.pods.or(file.pods),
            namespaces: flags.namespaces.or(file.namespaces),
            services: flags.services.or(file.services),
            alive: flags.alive.or(file.alive),
            cluster_ip: flags.cluster_ip || file.cluster_ip,
            nodes: flags.nodes.or(file.nodes),
        })?;
        let Sizes {
            pods,
            namespaces,
            services,
            nodes,
        } = sizes;
        for (count, limit, what) in [
            (pods, MAX_PODS, "pods"),
            (namespaces, MAX_NAMESPACES, "namespaces"),
            (services, MAX_SERVICES, "services"),
            (nodes, MAX_NODES, "nodes"),
        ] {
            ensure!(
                (1..=limit).contains(&count),
                "{count} {what} are not in 1..={limit}"
            );
        }
        if file.phases.is_empty() {
            bail!("there are no phases");
        }
        let mut phases = Vec::new();
        for (index, tuning) in file.phases.iter().enumerate() {
            let number = index + 1;
            let Some(profile) = tuning.profile else {
                bail!("phase {number} has no profile");
            };
            ensure!(
                profile != Profile::Sandbox || file.layout == Layout::Sandbox,
                "phase {number}: {profile} needs the layout sandbox"
            );
            phases.push(
                tuning
                    .phase(profile, &sizes)
                    .with_context(|| format!("phase {number}"))?,
            );
        }
        Ok(Self {
            name,
            seed,
            sizes,
            layout: file.layout,
            phases,
        })
    }

    /// The title of its report: its name and its size.
    pub(super) fn title(&self) -> String {
        let Sizes { pods, services, .. } = self.sizes;
        if self.layout == Layout::Sandbox {
            return format!("{}, {} alive", self.name, number(pods as u64));
        }
        let (pods, services) = (number(pods as u64), number(services as u64));
        format!("{}, {pods} pods, {services} Services", self.name)
    }

    pub(super) fn has_restarts(&self) -> bool {
        self.phases.iter().any(|phase| phase.profile == Profile::Restart)
    }

    /// Pods have their zone in a label, as Kubernetes gives it to them from 1.35 on.
    pub(super) fn labels_zones(&self) -> bool {
        self.phases.iter().any(|phase| phase.profile == Profile::ZoneLoss)
    }

    /// The flags that a controller is started with before the user's: the default limit of writes is reached by some hundred
    /// sandboxes a second.
    pub(super) fn controller_flags(&self) -> &'static [&'static str] {
        match self.layout {
            Layout::Sandbox => &["--kube-api-qps=0"],
            Layout::Even | Layout::Demo => &[],
        }
    }

    /// How many sandboxes are made, beside those that are there from the beginning, at most.
    pub(super) fn claims(&self) -> usize {
        self.phases.iter().map(Phase::claims).sum()
    }

    /// All parameters, for the report.
    pub(super) fn parameters(&self) -> BTreeMap<String, String> {
        let Sizes {
            pods,
            namespaces,
            services,
            nodes,
        } = self.sizes;
        let sizes = [
            ("pods", pods),
            ("namespaces", namespaces),
            ("services", services),
            ("nodes", nodes),
        ];
        let mut all: BTreeMap<String, String> = sizes
            .into_iter()
            .map(|(name, count)| (name.to_owned(), count.to_string()))
            .collect();
        all.insert("seed".to_owned(), self.seed.to_string());
        if !self.controller_flags().is_empty() {
            let flags = self.controller_flags().join(" ");
            all.insert("controller-flags".to_owned(), flags);
        }
        for (index, phase) in self.phases.iter().enumerate() {
            let prefix = if self.phases.len() == 1 {
                String::new()
            } else {
                format!("{}.{}.", index + 1, phase.profile)
            };
            for (name, value) in phase.parameters() {
                all.insert(format!("{prefix}{name}"), value);
            }
        }
        all
    }
}

/// The first line of a message; parsers go on to show the place.
fn one_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn file(text: &str) -> anyhow::Result<Plan> {
        let file: File = serde_saphyr::from_str(text).map_err(|error| anyhow::anyhow!("{error}"))?;
        Plan::of_file(&file, "test".to_owned(), &SizeFlags::default(), 7)
    }

    #[test]
    fn a_file_combines_profiles_in_phases() {
        let plan = file(
            "pods: 200\nnamespaces: 2\nservices: 4\nphases:\n- profile: steady\n  rate: 50\n  duration: 3s\n\
             - profile: rolling-update\n  surge: 0.5\n",
        )
        .unwrap();
        assert_eq!(
            (plan.sizes.pods, plan.sizes.services, plan.sizes.nodes),
            (200, 4, 3)
        );
        let [steady, update] = plan.phases.as_slice() else {
            panic!("{plan:?}")
        };
        assert_eq!((steady.rate, steady.duration), (50, Some(Duration::from_secs(3))));
        assert_eq!((update.surge, update.duration), (0.5, None));
        assert_eq!(plan.parameters()["2.rolling-update.surge"], "0.5");
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        for (text, expected) in [
            ("phases: []", "there are no phases"),
            ("phases: [{rate: 1}]", "phase 1 has no profile"),
            (
                "phases: [{profile: steady, rate: 0}]",
                "a rate of 0 is not in 1..=20000",
            ),
            (
                "phases: [{profile: steady, surge: 0.5}]",
                "--surge means nothing to steady",
            ),
            ("pods: 0\nphases: [{profile: steady}]", "0 pods"),
            (
                "services: 2\nphases: [{profile: steady}]",
                "too few for 10 namespaces",
            ),
            (
                "phases: [{profile: rolling-update, share: 1.5}]",
                "a share of 1.5",
            ),
            (
                "layout: demo\nphases: [{profile: sandbox}]",
                "needs the layout sandbox",
            ),
            ("phases: [{profile: steady, duration: 5}]", "expected a time"),
            ("phases: [{profile: steady, speed: 5}]", "speed"),
            (
                "phases: [{profile: zone-loss, duration: 5s}]",
                "--duration means nothing to zone-loss",
            ),
            ("nodes: 1\nphases: [{profile: zone-loss}]", "no zone can be lost"),
            ("pods: 5\nphases: [{profile: stedy}]", "stedy"),
        ] {
            let error = format!("{:#}", file(text).unwrap_err());
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
