//! Pods and Services with details that only users want to see, for `endpointd explain`. The facts that plans are made
//! from do not contain them.

use super::{PodFacts, ServiceFacts};

/// A Service with the details that users know it by.
#[derive(Clone, Debug)]
pub struct ObservedService {
    /// The facts that plans are made from.
    pub facts: ServiceFacts,
    /// `spec.type`.
    pub kind: Box<str>,
    /// `spec.externalName`.
    pub external_name: Option<Box<str>>,
    /// True if it has a selector, regardless of its type.
    pub selects: bool,
    /// `spec.ports[].port`.
    pub port_numbers: Vec<i64>,
}

/// A pod with the details that explain its state.
#[derive(Clone, Debug)]
pub struct ObservedPod {
    /// The facts that plans are made from.
    pub facts: PodFacts,
    /// `status.phase`.
    pub phase: Box<str>,
    /// `status.reason`.
    pub reason: Option<Box<str>>,
    /// The message of the condition that keeps it from being ready.
    pub told: Option<Box<str>>,
    /// Whether its containers are ready, by the condition of that name.
    pub containers_ready: bool,
    /// Its readiness gates whose conditions are not true.
    pub unmet_gates: Vec<Box<str>>,
}
