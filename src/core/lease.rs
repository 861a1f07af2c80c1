//! The content of the Lease by which endpointd elects its leader (`core::leadership::election`).

use super::time::Time;

/// The holder of a Lease and how long it holds it, by the fields of the Lease's `spec`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Record {
    /// `holderIdentity`; empty when the Lease was released.
    pub holder: String,
    /// `leaseDurationSeconds`.
    pub seconds: i32,
    /// `acquireTime`.
    pub acquired: Option<Time>,
    /// `renewTime`.
    pub renewed: Option<Time>,
    /// `leaseTransitions`.
    pub transitions: i32,
}
