//! Pods and Services with what only people want to know of them, for `endpointd explain`. The facts that plans are made
//! from stay free of it.

use super::{PodFacts, ServiceFacts};

/// A Service, and what people call it by.
#[derive(Clone, Debug)]
pub struct ObservedService {
    /// What counts.
    pub facts: ServiceFacts,
    /// `spec.type`.
    pub kind: Box<str>,
    /// `spec.externalName`.
    pub external_name: Option<Box<str>>,
    /// Whether it has a selector, whatever its type.
    pub selects: bool,
    /// `spec.ports[].port`.
    pub port_numbers: Vec<i64>,
}

/// A pod, and why it is as it is.
#[derive(Clone, Debug)]
pub struct ObservedPod {
    /// What counts.
    pub facts: PodFacts,
    /// `status.phase`.
    pub phase: Box<str>,
    /// `status.reason`.
    pub reason: Option<Box<str>>,
    /// What the condition says that keeps it from being ready.
    pub told: Option<Box<str>>,
}
