//! The pods that a Service's Endpoints object shows, kept beside the Service whatever the server has of the object.

use crate::core::hash::IdMap;
use crate::core::ids::{PodId, ServiceId};
use crate::core::ports::{SlicePort, SlicePorts};
use crate::core::queue::Priority;
use crate::core::subsets::Members;
use std::net::IpAddr;

/// The pods that a Service's Endpoints object shows. Kept while the Service is managed.
#[derive(Clone, Debug)]
pub(super) struct ServiceEndpoints {
    pub(super) members: Members<SlicePort, PodId>,
    /// Number of changes since the last evaluation.
    pub(super) changes: u32,
    /// True if the object has a new entry, which the next evaluation queues.
    pub(super) renewed: bool,
    pub(super) priority: Priority,
}

/// The members of a Service's Endpoints, while they are being collected.
#[derive(Clone, Debug)]
pub(super) struct Collecting {
    pub(super) id: ServiceId,
    /// The list to be replaced.
    pub(super) before: Option<Box<ServiceEndpoints>>,
    /// The Service's pods, and how many of them have been visited.
    pub(super) pods: Vec<PodId>,
    pub(super) at: usize,
    pub(super) resolved: IdMap<u32, SlicePorts>,
    pub(super) found: Vec<(PodId, IpAddr, bool, SlicePorts)>,
}

impl ServiceEndpoints {
    pub(super) fn touch(&mut self, priority: Priority) {
        self.changes += 1;
        self.priority = self.priority.min(priority);
    }
}
