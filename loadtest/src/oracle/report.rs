//! The findings of the check, as data and as text.

use super::Outputs;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

/// The outcome of a check.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The outputs that were checked.
    pub outputs: Outputs,
    /// Services that the controller publishes.
    pub services: usize,
    /// Endpoints that these Services should have, counted once for each Service and family.
    pub endpoints: usize,
    /// Slices in the cluster, of all managers; none unless they were checked.
    pub slices: usize,
    /// Endpoints objects in the cluster, of all managers; none unless they were checked.
    pub objects: usize,
    /// Everything that is wrong.
    pub differences: Vec<Difference>,
}

/// One thing that is wrong with what is published of one Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Namespace of the Service.
    pub namespace: String,
    /// Name of the Service.
    pub service: String,
    /// The family of the slices in question, when there is one.
    pub family: Option<Family>,
    /// The port group of a slice or the port of an address, when the difference is about an endpoint, e.g.
    /// `http 8080/TCP`.
    pub ports: Option<String>,
    /// The subject of the difference: an endpoint, a slice, a zone, or the Endpoints object or an address of it.
    pub subject: String,
    /// The problem with the subject.
    pub problem: Problem,
}

/// The problems that a subject can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// It should be there and is not.
    Missing,
    /// It is there and should not be; the text says why, when that is not plain.
    Unexpected(&'static str),
    /// A field has the wrong value.
    Differs {
        /// The field's name as in the API.
        field: &'static str,
        /// The value that it should have.
        expected: String,
        /// The value that it has.
        found: String,
    },
    /// It stands more than once for its ports, in these slices or lists.
    Duplicate(Vec<String>),
    /// The slice holds more endpoints than the limit.
    TooLarge {
        /// How many it holds.
        endpoints: usize,
        /// How many it may hold.
        limit: usize,
    },
    /// The hints send more endpoints to the zone than leaves enough for the others.
    Overloaded {
        /// How many.
        endpoints: usize,
        /// The most that are allowed.
        maximum: usize,
    },
    /// The addresses are too many for one object, and those that were left out are the wrong ones.
    Truncation(String),
}

/// The Service under comparison and where its differences go.
pub(super) struct Comparison<'a> {
    namespace: String,
    name: String,
    pub(super) differences: &'a mut Vec<Difference>,
}

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

// === impl Comparison ===

impl<'a> Comparison<'a> {
    pub(super) fn of(service: &Service, differences: &'a mut Vec<Difference>) -> Self {
        Self {
            namespace: service.namespace().unwrap_or_default(),
            name: service.name_any(),
            differences,
        }
    }

    pub(super) fn add(
        &mut self,
        family: Option<Family>,
        ports: Option<&dyn ToString>,
        subject: String,
        problem: Problem,
    ) {
        self.differences.push(Difference {
            namespace: self.namespace.clone(),
            service: self.name.clone(),
            family,
            ports: ports.map(ToString::to_string),
            subject,
            problem,
        });
    }
}

// === impl Report ===

impl Report {
    /// Whether everything is as it should be.
    pub fn is_correct(&self) -> bool {
        self.differences.is_empty()
    }

    /// Adds what was found in another part of the same cluster.
    pub(super) fn add(&mut self, other: Self) {
        self.services += other.services;
        self.endpoints += other.endpoints;
        self.slices += other.slices;
        self.objects += other.objects;
        self.differences.extend(other.differences);
    }
}

impl fmt::Display for Report {
    /// With a precision, e.g. `{:.20}`, no more than so many differences are written out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_correct() {
            return write!(f, "verified: {}", Counts(self));
        }
        let count = self.differences.len();
        let noun = if count == 1 { "difference" } else { "differences" };
        write!(f, "wrong: {count} {noun} in {}", Counts(self))?;
        let shown = f.precision().unwrap_or(count).min(count);
        for difference in &self.differences[..shown] {
            write!(f, "\n  {difference}")?;
        }
        if shown < count {
            write!(f, "\n  and {} more", count - shown)?;
        }
        Ok(())
    }
}

/// The numbers of what was checked.
struct Counts<'a>(&'a Report);

impl fmt::Display for Counts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report {
            outputs,
            services,
            endpoints,
            slices,
            objects,
            ..
        } = self.0;
        write!(f, "{services} services, {endpoints} endpoints")?;
        if outputs.slices {
            write!(f, ", {slices} slices")?;
        }
        if outputs.endpoints {
            write!(f, ", {objects} Endpoints objects")?;
        }
        Ok(())
    }
}

// === impl Difference ===

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.service)?;
        if let Some(family) = self.family {
            write!(f, " {family}")?;
        }
        if let Some(ports) = &self.ports {
            write!(f, " [{ports}]")?;
        }
        write!(f, " {}: {}", self.subject, self.problem)
    }
}

// === impl Problem ===

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("missing"),
            Self::Unexpected("") => f.write_str("unexpected"),
            Self::Unexpected(why) => write!(f, "unexpected: {why}"),
            Self::Differs {
                field,
                expected,
                found,
            } => {
                write!(f, "differs in {field}: expected {expected}, found {found}")
            }
            Self::Duplicate(slices) => write!(f, "stands more than once: {}", slices.join(", ")),
            Self::TooLarge { endpoints, limit } => {
                write!(f, "too large: {endpoints} endpoints, limit {limit}")
            }
            Self::Overloaded { endpoints, maximum } => {
                write!(
                    f,
                    "overloaded: {endpoints} endpoints are hinted to it, at most {maximum} may be"
                )
            }
            Self::Truncation(why) => write!(f, "truncated wrongly: {why}"),
        }
    }
}

// === impl Family ===

impl Family {
    /// The family of an address.
    pub fn of(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// The family by its name in the API, `IPv4` or `IPv6`.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "IPv4" => Some(Self::V4),
            "IPv6" => Some(Self::V6),
            _ => None,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// A field with the wrong value.
pub(super) fn differs(field: &'static str, expected: &str, found: &str) -> Problem {
    Problem::Differs {
        field,
        expected: expected.to_owned(),
        found: found.to_owned(),
    }
}

/// A value that may not be there.
pub(super) fn show<T: ToString>(value: Option<&T>) -> String {
    let text = value.map_or_else(|| "none".to_owned(), ToString::to_string);
    if text.is_empty() {
        return "an empty text".to_owned();
    }
    text
}

/// Labels, sorted.
pub(super) fn show_labels(labels: &BTreeMap<String, String>) -> String {
    let pairs: Vec<String> = labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    format!("{{{}}}", pairs.join(", "))
}
