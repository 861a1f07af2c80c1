//! Describes in plain words how a stored object differs from the one that would be written.

pub(super) mod endpoints;
pub(super) mod mirrored;
pub(super) mod slices;

use crate::core::ids::Uid;
use crate::core::labels::Labels;
use crate::core::namespace::NamespaceState;
use crate::core::ports::SlicePort;
use crate::core::slices::Conditions;
use crate::core::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// One difference between a stored object and the desired one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Difference {
    /// The severity, by which differences are sorted.
    pub rank: Rank,
    /// The description.
    pub text: String,
    /// The pod that it is about, if any.
    pub pod: Option<Box<str>>,
    /// Where the text begins to say what is stored and what should be, if it is about a field of an endpoint.
    pub(super) field: Option<usize>,
}

/// The kind of a difference, most severe first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Rank {
    /// The object should not exist, or is missing.
    Object,
    /// An endpoint should not be there, and traffic to it is lost.
    Extra,
    /// An endpoint is missing.
    Missing,
    /// A field of an endpoint is wrong.
    Endpoint,
    /// The ports differ.
    Port,
    /// Labels or annotations differ.
    Metadata,
}

/// Collects differences.
#[derive(Debug, Default)]
struct Found(Vec<Difference>);

impl Found {
    fn add(&mut self, rank: Rank, text: impl Into<String>) {
        self.about(rank, None, text);
    }

    fn about(&mut self, rank: Rank, pod: Option<&str>, text: impl Into<String>) {
        self.0.push(Difference {
            rank,
            text: text.into(),
            pod: pod.map(Into::into),
            field: None,
        });
    }

    /// Adds labels that differ, except those that `counts` rejects, because they are no reason to write.
    fn labels(&mut self, stored: &Labels, desired: &Labels, counts: impl Fn(&str) -> bool) {
        // There may be thousands.
        let mut left: BTreeMap<_, _> = stored.iter().filter(|(key, _)| counts(key)).collect();
        for (key, value) in desired.iter().filter(|(key, _)| counts(key)) {
            match left.remove(key) {
                None => self.add(Rank::Metadata, format!("label {key}={value} is missing")),
                Some(other) if other != value => {
                    self.add(
                        Rank::Metadata,
                        format!("label {key} differs: {other}, should be {value}"),
                    );
                }
                Some(_) => {}
            }
        }
        for key in left.into_keys() {
            self.add(Rank::Metadata, format!("label {key} should not be there"));
        }
    }

    /// Adds ports that differ; `of` names their owner, if that is not the whole object.
    fn ports<'p>(
        &mut self,
        stored: impl IntoIterator<Item = &'p SlicePort>,
        desired: impl IntoIterator<Item = &'p SlicePort>,
        of: &str,
        pod: Option<&str>,
    ) {
        let stored: BTreeSet<_> = stored.into_iter().collect();
        let desired: BTreeSet<_> = desired.into_iter().collect();
        // One with the same name as a port that is missing stands in its place.
        let extra = stored.difference(&desired);
        let mut extra: BTreeMap<_, _> = extra.map(|port| (&port.name, *port)).collect();
        for port in desired.difference(&stored) {
            let text = match extra.remove(&port.name) {
                Some(other) => format!("{of}port {} should be {}", spelled(other), spelled(port)),
                None => format!("{of}port {} is missing", spelled(port)),
            };
            self.about(Rank::Port, pod, text);
        }
        for port in extra.into_values() {
            let text = format!("{of}port {} should not be there", spelled(port));
            self.about(Rank::Port, pod, text);
        }
    }

    /// Adds `what x, should be y` if the two values differ.
    fn field(&mut self, of: NamedEndpoint<'_>, what: &str, stored: Option<&str>, desired: Option<&str>) {
        self.ranked(Rank::Endpoint, of, what, stored, desired);
    }

    fn ranked(
        &mut self,
        rank: Rank,
        of: NamedEndpoint<'_>,
        what: &str,
        stored: Option<&str>,
        desired: Option<&str>,
    ) {
        if stored != desired {
            let stored = stored.unwrap_or("not set");
            let should = desired.map_or_else(|| "not be set".to_owned(), |desired| format!("be {desired}"));
            self.0.push(Difference {
                rank,
                text: format!("{}: {what} {stored}, should {should}", of.address),
                pod: of.pod.map(Into::into),
                field: Some(of.address.len() + 2),
            });
        }
    }

    fn finish(mut self) -> Vec<Difference> {
        if self.0.is_empty() {
            self.add(Rank::Metadata, "would be written anew");
        }
        self.0.sort();
        self.0.dedup();
        self.0
    }
}

/// The endpoint that a difference is about.
#[derive(Clone, Copy)]
struct NamedEndpoint<'a> {
    address: &'a str,
    pod: Option<&'a str>,
}

/// Formats an address as `10.0.0.5 (pod web-1)`.
fn addressed(address: &str, pod: Option<&str>) -> String {
    match pod {
        Some(pod) => format!("{address} (pod {pod})"),
        None => address.to_owned(),
    }
}

/// Formats a port as `http 8080/TCP`.
pub(super) fn spelled(port: &SlicePort) -> String {
    let mut text = String::new();
    if let Some(name) = port.name.as_deref().filter(|name| !name.is_empty()) {
        let _ = write!(text, "{name} ");
    }
    match port.number {
        Some(number) => {
            let _ = write!(text, "{number}/{}", port.protocol.as_str());
        }
        None => {
            let _ = write!(text, "any/{}", port.protocol.as_str());
        }
    }
    if let Some(app) = &port.app_protocol {
        let _ = write!(text, " ({app})");
    }
    text
}

/// The state in which a pod was seen: what its endpoints depend on, and since when it has been ready or not. Two findings
/// about a pod are the same only if its state was the same too.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PodState(Uid, Conditions, Option<Time>);

impl PodState {
    /// Captures the state of a pod, if there is such a pod.
    pub(super) fn of(core: &NamespaceState, pod: &str) -> Option<Self> {
        let (uid, conditions, ready_time) = core.pod(pod)?;
        Some(Self(uid.clone(), conditions, ready_time))
    }
}
