//! What a run is to do, with everything decided: from flags, from a profile's defaults, or from a file.

use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

use anyhow::{Context, bail, ensure};
use clap::ValueEnum;
use serde::{Deserialize, Deserializer};

use super::args::SizeFlags;
use crate::parse;

const MAX_RATE: u32 = 20_000;
/// Pods of one Service, as upstream's own load tests deal them out: so many groups are large, middling, small.
pub(super) const MIX_GROUPS: [(usize, f64); 3] = [(250, 0.25), (30, 0.25), (5, 0.5)];

/// Something that happens to a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Profile {
    /// The readiness of pods changes, at a rate.
    Steady,
    /// A share of the Services has its pods replaced: new ones first, then old ones are drained, wave by wave.
    RollingUpdate,
    /// All pods of some nodes stop being ready at once, and later are deleted and replaced on other nodes.
    NodeLoss,
    /// From no pods to all, and back to none.
    Scale,
    /// A few pods change their readiness fast.
    Flap,
    /// The controller is ended and started again while the readiness of pods changes.
    Restart,
    /// One set of pods with a Service that has a cluster IP, and a headless one.
    HugeService,
    /// Many Services over the same pods, in one namespace.
    ManyServices,
    /// Services are created, edited, deleted, and deleted and created again at once.
    ServiceChurn,
    /// Groups of 250, 30 and 5 pods, whose readiness changes, and which are replaced and scaled now and then.
    Mix,
}

/// Where a plan comes from.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// One phase, with its defaults.
    Profile(Profile),
    /// Phases of a file.
    File(PathBuf),
}

/// How Services and pods are dealt out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Layout {
    /// Services of equal size in all namespaces.
    #[default]
    Even,
    /// See [`Profile::HugeService`].
    HugeService,
    /// See [`Profile::ManyServices`].
    ManyServices,
    /// See [`Profile::Mix`].
    Mix,
}

/// A phase's parameters, as they are given; the others have defaults.
#[derive(Clone, Debug, Default, clap::Args, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Tuning {
    #[arg(skip)]
    profile: Option<Profile>,
    /// Operations per second
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_RATE)))]
    rate: Option<u32>,
    /// How long to go on, e.g. 30s; profiles that have an end of their own begin again until then
    #[arg(long, value_parser = parse::duration)]
    #[serde(deserialize_with = "duration")]
    duration: Option<Duration>,
    /// rolling-update: the share of the Services whose pods are replaced, above 0 and up to 1
    #[arg(long)]
    share: Option<f64>,
    /// rolling-update: the share of a Service's pods that one wave replaces, above 0 and up to 1
    #[arg(long)]
    surge: Option<f64>,
    /// node-loss: how many nodes
    #[arg(long)]
    lost_nodes: Option<usize>,
    /// node-loss: how long until the pods of lost nodes are replaced
    #[arg(long, value_parser = parse::duration)]
    #[serde(deserialize_with = "duration")]
    outage: Option<Duration>,
    /// flap: how many pods
    #[arg(long)]
    flapping: Option<usize>,
    /// restart: time between two ends of the controller
    #[arg(long, value_parser = parse::duration)]
    #[serde(deserialize_with = "duration")]
    every: Option<Duration>,
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
    #[serde(default)]
    layout: Layout,
    /// Begins without pods.
    #[serde(default)]
    empty: bool,
    phases: Vec<Tuning>,
}

/// How many of everything there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) pods: usize,
    pub(super) namespaces: usize,
    pub(super) services: usize,
    pub(super) nodes: usize,
}

/// A phase, with everything decided.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Phase {
    pub(super) profile: Profile,
    pub(super) rate: u32,
    /// One round if there is none.
    pub(super) duration: Option<Duration>,
    pub(super) share: f64,
    pub(super) surge: f64,
    pub(super) lost_nodes: usize,
    pub(super) outage: Duration,
    pub(super) flapping: usize,
    pub(super) every: Duration,
}

/// What a run is to do.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) name: String,
    pub(super) seed: u64,
    pub(super) sizes: Sizes,
    pub(super) layout: Layout,
    pub(super) empty: bool,
    pub(super) phases: Vec<Phase>,
}

// === impl Profile ===

impl Profile {
    fn layout(self) -> Layout {
        match self {
            Self::HugeService => Layout::HugeService,
            Self::ManyServices => Layout::ManyServices,
            Self::Mix => Layout::Mix,
            _ => Layout::Even,
        }
    }

    fn default_rate(self) -> u32 {
        match self {
            Self::Steady | Self::Flap | Self::Restart | Self::Mix => 100,
            Self::RollingUpdate | Self::HugeService | Self::ServiceChurn => 50,
            Self::NodeLoss | Self::Scale => 500,
            Self::ManyServices => 5,
        }
    }

    /// Profiles without a duration of their own end when they are through.
    fn default_duration(self) -> Option<Duration> {
        match self {
            Self::RollingUpdate | Self::NodeLoss | Self::Scale => None,
            _ => Some(Duration::from_secs(30)),
        }
    }

    /// Whether it changes pods as they come, which any layout allows.
    fn edits_services(self) -> bool {
        self == Self::ServiceChurn
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value().expect("no profile is skipped");
        f.write_str(value.get_name())
    }
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

// === impl Layout ===

impl Layout {
    /// What is not given. A Service of 500 pods is large, as Services go, but not rare.
    fn sizes(self, given: &SizeFlags) -> anyhow::Result<Sizes> {
        let (pods, services, namespaces) = match self {
            Self::Even => (2_000, None, 10),
            Self::HugeService => (5_000, Some(2), 1),
            Self::ManyServices => (100, Some(200), 1),
            Self::Mix => (5_000, None, 10),
        };
        match self {
            Self::HugeService => {
                ensure!(
                    given.services.is_none(),
                    "a huge service is two Services: --services means nothing here"
                );
            }
            Self::Mix => ensure!(
                given.services.is_none(),
                "the mix decides how many Services there are: --services means nothing here"
            ),
            Self::Even | Self::ManyServices => {}
        }
        if matches!(self, Self::HugeService | Self::ManyServices) {
            ensure!(
                given.namespaces.is_none_or(|namespaces| namespaces == 1),
                "this profile works in one namespace: --namespaces means nothing here"
            );
        }
        let pods = given.pods.unwrap_or(pods);
        let namespaces = given.namespaces.unwrap_or(namespaces);
        let services = match self {
            Self::Mix => mix_groups(pods).len(),
            _ => given
                .services
                .or(services)
                .unwrap_or_else(|| (pods / 500).max(namespaces)),
        };
        if self != Self::Mix {
            ensure!(
                services >= namespaces,
                "{services} Services are too few for {namespaces} namespaces"
            );
        }
        Ok(Sizes {
            pods,
            namespaces,
            services,
            nodes: given.nodes.unwrap_or((pods / 100).clamp(3, 200)),
        })
    }
}

/// How many pods each group of a mix has.
pub(super) fn mix_groups(pods: usize) -> Vec<usize> {
    let mut groups = Vec::new();
    for (size, share) in MIX_GROUPS {
        let count = (pods as f64 * share / size as f64).round() as usize;
        groups.extend(std::iter::repeat_n(size, count));
    }
    // What is left over, or too much, is the last group's.
    let mut dealt = groups.iter().sum::<usize>();
    while dealt > pods {
        let last = groups.pop().expect("more than nothing is dealt out");
        dealt -= last;
    }
    if dealt < pods {
        groups.push(pods - dealt);
    }
    groups
}

// === impl Tuning ===

impl Tuning {
    fn phase(&self, profile: Profile, sizes: &Sizes) -> anyhow::Result<Phase> {
        let only = |given: bool, flag: &str, of: Profile| {
            ensure!(!given || profile == of, "--{flag} means nothing to {profile}");
            Ok(())
        };
        only(self.share.is_some(), "share", Profile::RollingUpdate)?;
        only(self.surge.is_some(), "surge", Profile::RollingUpdate)?;
        only(self.lost_nodes.is_some(), "lost-nodes", Profile::NodeLoss)?;
        only(self.outage.is_some(), "outage", Profile::NodeLoss)?;
        only(self.flapping.is_some(), "flapping", Profile::Flap)?;
        only(self.every.is_some(), "every", Profile::Restart)?;

        let rate = self.rate.unwrap_or_else(|| profile.default_rate());
        ensure!(
            (1..=MAX_RATE).contains(&rate),
            "a rate of {rate} is not in 1..={MAX_RATE}"
        );
        let share = |given: Option<f64>, default, name| {
            let share = given.unwrap_or(default);
            ensure!(
                share > 0.0 && share <= 1.0,
                "a {name} of {share} is not above 0 and up to 1"
            );
            Ok(share)
        };
        let lost_nodes = self.lost_nodes.unwrap_or_else(|| (sizes.nodes / 10).max(1));
        if profile == Profile::NodeLoss {
            ensure!(
                (1..sizes.nodes).contains(&lost_nodes),
                "of {} nodes, {lost_nodes} cannot be lost: one must be left, and one lost",
                sizes.nodes
            );
        }
        let flapping = self.flapping.unwrap_or(10.min(sizes.pods));
        ensure!(
            (1..=sizes.pods).contains(&flapping),
            "of {} pods, {flapping} cannot flap",
            sizes.pods
        );
        Ok(Phase {
            profile,
            rate,
            duration: self.duration.or_else(|| profile.default_duration()),
            share: share(self.share, 0.2, "share")?,
            surge: share(self.surge, 0.25, "surge")?,
            lost_nodes,
            outage: self.outage.unwrap_or(Duration::from_secs(2)),
            flapping,
            every: self.every.unwrap_or(Duration::from_secs(5)),
        })
    }

    fn is_given(&self) -> bool {
        let Self {
            profile,
            rate,
            duration,
            share,
            surge,
            lost_nodes,
            outage,
            flapping,
            every,
        } = self;
        profile.is_some()
            || rate.is_some()
            || share.or(*surge).is_some()
            || lost_nodes.or(*flapping).is_some()
            || duration.or(*outage).or(*every).is_some()
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
                    empty: *profile == Profile::Scale,
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
                Self::of_file(file, name, sizes, seed).with_context(|| shown.to_string())
            }
        }
    }

    fn of_file(file: File, name: String, flags: &SizeFlags, seed: u64) -> anyhow::Result<Self> {
        let sizes = file.layout.sizes(&SizeFlags {
            pods: flags.pods.or(file.pods),
            namespaces: flags.namespaces.or(file.namespaces),
            services: flags.services.or(file.services),
            nodes: flags.nodes.or(file.nodes),
        })?;
        let Sizes {
            pods,
            namespaces,
            services,
            nodes,
        } = sizes;
        for (count, limit, what) in [
            (pods, 200_000, "pods"),
            (namespaces, 1_000, "namespaces"),
            (services, 20_000, "services"),
            (nodes, 10_000, "nodes"),
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
                !profile.edits_services() || file.layout == Layout::Even,
                "phase {number}: {profile} needs the layout even"
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
            empty: file.empty,
            phases,
        })
    }

    pub(super) fn has_restarts(&self) -> bool {
        self.phases.iter().any(|phase| phase.profile == Profile::Restart)
    }

    /// Whether Services are edited, so that not everything about them is sure.
    pub(super) fn edits_services(&self) -> bool {
        self.phases.iter().any(|phase| phase.profile.edits_services())
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

// === impl Phase ===

impl Phase {
    fn parameters(&self) -> Vec<(&'static str, String)> {
        let span = |span: Duration| format!("{}s", span.as_secs_f64());
        let mut all = vec![("rate", self.rate.to_string())];
        if let Some(duration) = self.duration {
            all.push(("duration", span(duration)));
        }
        match self.profile {
            Profile::RollingUpdate => {
                all.push(("share", self.share.to_string()));
                all.push(("surge", self.surge.to_string()));
            }
            Profile::NodeLoss => {
                all.push(("lost-nodes", self.lost_nodes.to_string()));
                all.push(("outage", span(self.outage)));
            }
            Profile::Flap => all.push(("flapping", self.flapping.to_string())),
            Profile::Restart => all.push(("every", span(self.every))),
            _ => {}
        }
        all
    }
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| parse::duration(&text))
        .transpose()
        .map_err(serde::de::Error::custom)
}

/// The first line of a message; parsers go on to show the place.
fn one_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> anyhow::Result<Plan> {
        let file: File = serde_saphyr::from_str(text).map_err(|error| anyhow::anyhow!("{error}"))?;
        Plan::of_file(file, "test".to_owned(), &SizeFlags::default(), 7)
    }

    #[test]
    fn a_file_combines_profiles_in_phases() {
        let plan = file(
            "pods: 200\nnamespaces: 2\nservices: 4\nphases:\n- profile: steady\n  rate: 50\n  duration: 3s\n\
             - profile: node-loss\n  lost-nodes: 2\n  outage: 500ms\n",
        )
        .unwrap();
        assert_eq!(
            (plan.sizes.pods, plan.sizes.services, plan.sizes.nodes),
            (200, 4, 3)
        );
        let [steady, loss] = plan.phases.as_slice() else {
            panic!("{plan:?}")
        };
        assert_eq!((steady.rate, steady.duration), (50, Some(Duration::from_secs(3))));
        assert_eq!((loss.lost_nodes, loss.outage), (2, Duration::from_millis(500)));
        assert_eq!(plan.parameters()["2.node-loss.lost-nodes"], "2");
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
                "nodes: 2\nphases: [{profile: node-loss, lost-nodes: 2}]",
                "cannot be lost",
            ),
            (
                "services: 2\nphases: [{profile: steady}]",
                "too few for 10 namespaces",
            ),
            (
                "phases: [{profile: rolling-update, share: 1.5}]",
                "a share of 1.5",
            ),
            (
                "layout: mix\nphases: [{profile: service-churn}]",
                "needs the layout even",
            ),
            ("phases: [{profile: steady, duration: 5}]", "expected a time"),
            ("phases: [{profile: steady, speed: 5}]", "speed"),
            ("pods: 5\nphases: [{profile: stedy}]", "stedy"),
        ] {
            let error = format!("{:#}", file(text).unwrap_err());
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_mix_has_groups_of_three_sizes_and_loses_no_pod() {
        for pods in [1, 7, 100, 300, 5_000, 20_001] {
            assert_eq!(mix_groups(pods).iter().sum::<usize>(), pods, "{pods}");
        }
        let groups = mix_groups(5_000);
        for (size, _) in MIX_GROUPS {
            assert!(groups.contains(&size), "{size}");
        }
    }
}
