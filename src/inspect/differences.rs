//! Describes in plain words how a stored object differs from the one that would be written.

mod endpoints;
mod slices;

pub(crate) use endpoints::of_endpoints;
pub(super) use slices::hints;
pub(crate) use slices::{SliceContext, of_slice};

use crate::core::facts::PodFacts;
use crate::core::ids::Uid;
use crate::core::labels::Labels;
use crate::core::ports::SlicePort;
use crate::core::time::Time;
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
        });
    }

    /// Adds labels that differ, except those that `counts` rejects, because they are no reason to write.
    fn labels(&mut self, stored: &Labels, desired: &Labels, counts: impl Fn(&str) -> bool) {
        for (key, value) in desired.iter().filter(|(key, _)| counts(key)) {
            match stored.get(key) {
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
        for (key, _) in stored.iter().filter(|(key, _)| counts(key)) {
            if desired.get(key).is_none() {
                self.add(Rank::Metadata, format!("label {key} should not be there"));
            }
        }
    }

    /// Adds ports that differ; `of` names their owner, if that is not the whole object.
    fn ports(&mut self, stored: &[SlicePort], desired: &[SlicePort], of: &str, pod: Option<&str>) {
        let named = |ports: &[SlicePort], port: &SlicePort| {
            let mut found = ports.iter().filter(|other| other.name == port.name);
            found.next().cloned()
        };
        for port in desired.iter().filter(|port| !stored.contains(port)) {
            let text = match named(stored, port).filter(|other| !desired.contains(other)) {
                Some(other) => format!("{of}port {} should be {}", spelled(&other), spelled(port)),
                None => format!("{of}port {} is missing", spelled(port)),
            };
            self.about(Rank::Port, pod, text);
        }
        for port in stored.iter().filter(|port| !desired.contains(port)) {
            if named(desired, port).is_none_or(|other| stored.contains(&other)) {
                let text = format!("{of}port {} should not be there", spelled(port));
                self.about(Rank::Port, pod, text);
            }
        }
    }

    /// Adds `what x, should be y` if the two values differ.
    fn field(&mut self, of: Subject<'_>, what: &str, stored: Option<&str>, desired: Option<&str>) {
        if stored != desired {
            let stored = stored.unwrap_or("not set");
            let text = match desired {
                Some(desired) => format!("{}: {what} {stored}, should be {desired}", of.address),
                None => format!("{}: {what} {stored}, should not be set", of.address),
            };
            self.about(Rank::Endpoint, of.pod, text);
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
struct Subject<'a> {
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

/// The state in which a pod was seen. Two findings about a pod are the same only if its state was the same too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PodState(Uid, Option<Time>, bool, bool);

impl PodState {
    /// Captures the state that a pod's endpoints depend on, and since when it has been ready or not.
    pub fn of(pod: &PodFacts) -> Self {
        Self(pod.uid.clone(), pod.ready_time, pod.ready, pod.terminating)
    }
}
