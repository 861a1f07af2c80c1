//! What is stored against what would be written, in plain words.

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

/// One thing that is wrong with an object.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Difference {
    /// The gravest first.
    pub rank: Rank,
    /// What it is.
    pub text: String,
    /// The pod that it is about.
    pub pod: Option<Box<str>>,
}

/// What kind of thing is wrong, the gravest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Rank {
    /// The object should not be there, or is not there.
    Object,
    /// An endpoint should not be there: traffic goes nowhere.
    Extra,
    /// An endpoint is missing.
    Missing,
    /// An endpoint says something wrong of itself.
    Endpoint,
    /// Ports.
    Port,
    /// Labels and annotations.
    Metadata,
}

/// Gathers differences.
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

    /// Labels that differ; those that `counts` leaves out are no reason to write.
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

    /// Ports that differ; `of` says whose they are, if not the whole object's.
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

    /// `what x, should be y`, if they are not the same.
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

/// What a difference is about.
#[derive(Clone, Copy)]
struct Subject<'a> {
    address: &'a str,
    pod: Option<&'a str>,
}

/// `10.0.0.5 (pod web-1)`.
fn addressed(address: &str, pod: Option<&str>) -> String {
    match pod {
        Some(pod) => format!("{address} (pod {pod})"),
        None => address.to_owned(),
    }
}

/// `http 8080/TCP`.
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

/// As what a pod was seen. Of two looks that agree about it, only those mean the same that saw the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PodState(Uid, Option<Time>, bool, bool);

impl PodState {
    /// What a pod's endpoints hang on, and since when.
    pub fn of(pod: &PodFacts) -> Self {
        Self(pod.uid.clone(), pod.ready_time, pod.ready, pod.terminating)
    }
}
