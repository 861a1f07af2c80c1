//! One phase of a run: what happens, how fast, for how long.

use super::sizes::{Layout, Sizes};
use crate::parse;
use anyhow::ensure;
use clap::ValueEnum;
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::time::Duration;

const MAX_RATE: u32 = 20_000;

/// Something that happens to a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Profile {
    /// The readiness of pods changes, at a rate.
    Steady,
    /// A share of the Services has its pods replaced: new ones first, then old ones are drained, wave by wave.
    RollingUpdate,
    /// The controller is ended and started again while the readiness of pods changes.
    Restart,
    /// Services of every sort, whose pods change, are replaced and scaled, and which are edited now and then.
    Demo,
    /// All nodes of one zone fall silent, and their pods are removed, one request for each namespace.
    ZoneLoss,
    /// In one namespace, pods with Services of their own are made, live for a while, and are deleted with their Services.
    Sandbox,
}

/// A phase's parameters, as they are given; the others have defaults.
#[derive(Clone, Debug, Default, PartialEq, clap::Args, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Tuning {
    #[arg(skip)]
    pub(super) profile: Option<Profile>,
    /// Operations per second
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_RATE)))]
    pub(super) rate: Option<u32>,
    /// Duration, such as 30s; a profile that ends by itself is repeated until then
    #[arg(long, value_parser = parse::duration)]
    #[serde(deserialize_with = "duration")]
    pub(super) duration: Option<Duration>,
    /// rolling-update: share of the Services whose pods are replaced, above 0 and up to 1
    #[arg(long)]
    pub(super) share: Option<f64>,
    /// rolling-update: share of a Service's pods that one wave replaces, above 0 and up to 1
    #[arg(long)]
    pub(super) surge: Option<f64>,
    /// sandbox: time from when a sandbox is ready until it is deleted
    #[arg(long, value_parser = parse::duration)]
    #[serde(deserialize_with = "duration")]
    pub(super) life: Option<Duration>,
    /// sandbox: time from when its pod is made until that is ready
    #[arg(long, value_parser = parse::duration)]
    #[serde(deserialize_with = "duration")]
    pub(super) ready_after: Option<Duration>,
    /// restart: time between two restarts of the controller
    #[arg(long, value_parser = parse::duration)]
    #[serde(deserialize_with = "duration")]
    pub(super) every: Option<Duration>,
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
    pub(super) life: Duration,
    pub(super) ready_after: Duration,
    pub(super) every: Duration,
}

// === impl Profile ===

impl Profile {
    /// How a cluster is dealt out for it.
    pub(super) fn layout(self) -> Layout {
        match self {
            Self::Demo => Layout::Demo,
            Self::Sandbox => Layout::Sandbox,
            _ => Layout::Even,
        }
    }

    fn default_rate(self) -> u32 {
        match self {
            Self::Steady | Self::Restart | Self::Sandbox => 100,
            Self::RollingUpdate => 50,
            Self::Demo => 200,
            // As fast as the server takes it.
            Self::ZoneLoss => MAX_RATE,
        }
    }

    /// Profiles without a duration of their own end when they are through.
    fn default_duration(self) -> Option<Duration> {
        match self {
            Self::RollingUpdate | Self::ZoneLoss => None,
            Self::Sandbox => Some(Duration::from_secs(60)),
            Self::Demo => Some(Duration::from_secs(15)),
            Self::Steady | Self::Restart => Some(Duration::from_secs(30)),
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value().expect("no profile is skipped");
        f.write_str(value.get_name())
    }
}

// === impl Tuning ===

impl Tuning {
    /// Decides the rest.
    pub(super) fn phase(&self, profile: Profile, sizes: &Sizes) -> anyhow::Result<Phase> {
        let only = |given: bool, flag: &str, of: Profile| {
            ensure!(!given || profile == of, "--{flag} means nothing to {profile}");
            Ok(())
        };
        only(self.share.is_some(), "share", Profile::RollingUpdate)?;
        only(self.surge.is_some(), "surge", Profile::RollingUpdate)?;
        only(self.every.is_some(), "every", Profile::Restart)?;
        only(self.life.is_some(), "life", Profile::Sandbox)?;
        only(self.ready_after.is_some(), "ready-after", Profile::Sandbox)?;

        ensure!(
            self.duration.is_none() || profile != Profile::ZoneLoss,
            "--duration means nothing to {profile}: it ends when the zone is empty"
        );
        if profile == Profile::ZoneLoss {
            ensure!(
                sizes.nodes > 1,
                "of 1 node, no zone can be lost: one must be left"
            );
        }
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
        Ok(Phase {
            profile,
            rate,
            duration: self.duration.or_else(|| profile.default_duration()),
            share: share(self.share, 0.2, "share")?,
            surge: share(self.surge, 0.25, "surge")?,
            life: self.life.unwrap_or(Duration::from_secs(10)),
            ready_after: self.ready_after.unwrap_or(Duration::from_millis(200)),
            every: self.every.unwrap_or(Duration::from_secs(5)),
        })
    }

    /// At least one parameter is given.
    pub(super) fn is_given(&self) -> bool {
        *self != Self::default()
    }
}

// === impl Phase ===

impl Phase {
    /// How many sandboxes it makes at most.
    pub(super) fn claims(&self) -> usize {
        let seconds = self
            .duration
            .map_or(0, |duration| duration.as_secs_f64().ceil() as usize);
        if self.profile == Profile::Sandbox {
            seconds * self.rate as usize
        } else {
            0
        }
    }

    /// Returns the parameters that matter to it.
    pub(super) fn parameters(&self) -> Vec<(&'static str, String)> {
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
            Profile::Restart => all.push(("every", span(self.every))),
            Profile::Sandbox => {
                all.push(("life", span(self.life)));
                all.push(("ready-after", span(self.ready_after)));
            }
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
