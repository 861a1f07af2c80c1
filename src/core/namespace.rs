//! Everything known about one namespace, and the objects derived from it.
//!
//! Events go in through [`NamespaceState::apply_pod`] and its siblings and mark Services dirty;
//! [`NamespaceState::plan`] evaluates the dirty Services and returns the objects that are due;
//! [`NamespaceState::build_request`] builds the request for one of them when its turn comes, from the state at that moment;
//! [`NamespaceState::apply_outcome`] takes the API server's answer. The work of each call grows with what changed, except
//! that a change of a Service itself takes a pass over its pods.

mod context;
mod driver;
mod endpoints;
mod kind;
mod lifecycle;
mod mirror;
mod notices;
mod output_event;
mod rounds;
mod services;
mod slices;

pub use driver::NamespaceState;
pub use kind::{Kind, PendingLists};
pub use lifecycle::{BuiltRequest, Content, ObjectEvent, Outcome};
pub use mirror::{MirrorSync, MirrorTotals};
pub use output_event::{EndpointsEvent, OutputEvent, SliceEvent};
pub use services::{FamilyHealth, ServiceHealth, SyncReport, Totals};

use self::context::Context;
use self::mirror::Mirrors;
use self::services::Services;
use self::slices::Slices;
use super::backoff::Retry;
use super::inputs::Inputs;
use super::mirror::MAX_PER_SUBSET;
use super::object::{ObjectName, ObjectState};
use super::outputs::Outputs;
use super::priority::{Priority, Stage};
use std::sync::Arc;

/// Settings that do not change while the process runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// `--max-endpoints-per-slice`, 1 to 1000.
    pub max_endpoints: usize,
    /// `--mirroring-max-endpoints-per-subset`, 1 to 1000.
    pub max_mirrored: usize,
    /// `--controllers`.
    pub outputs: Outputs,
    /// `--legacy-tolerate-unready-annotation`: Endpoints honour the annotation of older controllers.
    pub legacy_tolerate_unready: bool,
    /// `--clear-managed-fields`: the first update of each object ends the server's tracking of its fields.
    pub clear_managed_fields: bool,
    /// Seed for the random part of slice names.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_endpoints: 100,
            max_mirrored: MAX_PER_SUBSET,
            outputs: Outputs::ALL,
            legacy_tolerate_unready: false,
            clear_managed_fields: false,
            seed: 0,
        }
    }
}

/// A work item: an object that is due.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkItem {
    /// The object.
    pub object: ObjectName,
    /// The Service that it is published for.
    pub service: Arc<str>,
    /// Whether the API server already has it, so that this is an update that may wait for others.
    pub exists: bool,
    /// The priority of its write.
    pub priority: Priority,
    /// Its place among the writes of its Service.
    pub stage: Stage,
    /// The delay because of earlier failures.
    pub retry: Retry,
    /// True if the object is only read for what is published elsewhere, so that it is not batched with later changes.
    pub reads: bool,
}

impl WorkItem {
    fn new(object_name: ObjectName, service: Arc<str>, object: &ObjectState, stage: Stage) -> Self {
        Self {
            object: object_name,
            service,
            exists: object.remote.is_some(),
            priority: object.priority,
            stage,
            retry: object.retry(),
            reads: false,
        }
    }
}

/// The parts of the state that the placement of endpoints in slices reads and changes: the inputs, the Services and the
/// slices.
struct Placement<'a> {
    ctx: &'a mut Context,
    inputs: &'a mut Inputs,
    services: &'a mut Services,
    slices: &'a mut Slices,
    /// Only asked which names are in use.
    mirrors: &'a Mirrors,
}

impl Placement<'_> {
    fn fresh_name(&mut self, service: &str) -> Arc<str> {
        fresh_name(self.ctx, self.slices, self.mirrors, service)
    }
}

/// Returns a name that the API server could have generated for a slice of the Service, and that is not in use here.
fn fresh_name(ctx: &mut Context, slices: &Slices, mirrors: &Mirrors, service: &str) -> Arc<str> {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    // The API server cuts the prefix to 58 bytes, which Service names (at most 63, ASCII) can exceed.
    let prefix: String = service.chars().chain(['-']).take(58).collect();
    loop {
        let letters = (0..5).map(|_| char::from(LETTERS[ctx.random.usize(..LETTERS.len())]));
        let name: Arc<str> = prefix.chars().chain(letters).collect::<String>().into();
        if slices.find(&name).is_none() && !mirrors.has_slice(&name) {
            return name;
        }
    }
}

/// The sizes of a namespace's state.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Sizes {
    /// Pods.
    pub pods: usize,
    /// Services.
    pub services: usize,
    /// Slices, including unmanaged ones.
    pub slices: usize,
    /// Endpoints objects, including unmanaged ones.
    pub endpoints: usize,
    /// Whole label maps.
    pub full_sets: usize,
    /// Distinct sets of selectors that match label maps.
    pub label_sets: usize,
}
