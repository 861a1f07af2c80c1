//! The lifecycle of the objects that we publish, shared by slices, Endpoints, and any kind added later.
//!
//! ```text
//!                    the Service is managed, and what the object holds is known
//!        ┌──────────┐ content was read  ┌─────────┐ the Service is not managed  ┌───────────┐
//!  ────► │ Adopting │ ────────────────► │ Managed │ ─────────────────────────►  │ Unmanaged │
//!        └──────────┘                   └─────────┘ ◄─────────────────────────  └───────────┘
//!              │ it is another's             │          the Service is managed        ▲
//!              ▼                             │ nobody needs it                        │ there is such a
//!        ┌──────────┐ ◄──────────────────────┘                 ┌──────────┐           │ Service
//!        │ Deleting │ ◄────────────────────────────────────────│ Leftover │ ──────────┘
//!        └──────────┘   the server has no such Service either  └──────────┘
//!              │ deleted, or gone
//!              ▼
//!          forgotten
//! ```
//!
//! In each phase an object is in sync with the API server, or has a request due, or has one in flight, never two.
//! [`next_step`] decides which request is due, and [`effect`] what an answer means: these two are the whole protocol.
//! [`Published`] has what differs between kinds: how objects are stored, what they should hold, and how that is
//! compared with what was read. [`ObjectState`] has the only retry clock of an object.

mod driver;

use super::{NamespaceState, WorkItem};
use crate::core::body::Request;
use crate::core::facts::{EndpointsFacts, SliceFacts};
use crate::core::hash::KeyedMap;
use crate::core::object::{Flight, ObjectState, Phase, Remote};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The result of a request, as far as the API server's answer proves it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// A create or an update was accepted; the object has this UID and resourceVersion now.
    Written(Remote),
    /// A delete was accepted.
    Deleted,
    /// A get was answered.
    Fetched(Content),
    /// The object does not exist.
    NotFound,
    /// The object is not the one that the request was computed against.
    Conflict,
    /// An object with the name of the one to create already exists.
    Exists,
    /// The object exists, but belongs to another controller.
    Foreign,
    /// The namespace is terminating and takes no new objects.
    Terminating,
    /// The API server rejects this request, or rejects us.
    Rejected,
    /// The object is larger than the API server accepts.
    TooLarge {
        /// The size of its JSON, as it was sent.
        bytes: usize,
    },
    /// The request was not carried out, but may be another time.
    Throttled,
    /// It is not known whether the request was carried out.
    Unknown,
}

impl Outcome {
    /// Returns the size of the object, if the API server refused it for its size.
    fn too_large(&self) -> Option<usize> {
        match self {
            Self::TooLarge { bytes } => Some(*bytes),
            _ => None,
        }
    }
}

/// An object as returned by a get.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// A slice.
    Slice(Box<SliceFacts>),
    /// An Endpoints object.
    Endpoints(Box<EndpointsFacts>),
}

/// A request whose turn has come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Granted {
    /// The request to send.
    pub request: Request,
    /// The number of changes it carries.
    pub changes: u32,
}

/// The request that an object needs next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// Fetch the object from the API server.
    Fetch,
    /// Create it, or update it if the API server has it.
    Write,
    /// Delete it.
    Delete,
    /// Check whether a Service of its name exists.
    Probe,
    /// No request: it is forgotten.
    Forget,
    /// No request.
    Rest,
}

fn next_step(phase: Phase, object: &ObjectState) -> Step {
    match phase {
        // Nothing is decided while the object's state is unknown.
        _ if object.needs_refetch => Step::Fetch,
        Phase::Managed => Step::Write,
        Phase::Adopting { .. } => Step::Fetch,
        Phase::Deleting | Phase::Leftover { confirmed: true } if object.remote.is_some() => Step::Delete,
        Phase::Deleting | Phase::Leftover { confirmed: true } => Step::Forget,
        Phase::Leftover { confirmed: false } => Step::Probe,
        Phase::Unmanaged => Step::Rest,
    }
}

/// The effect of an answer on the object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Effect {
    /// The API server has what was sent.
    Accepted,
    /// The API server has what the answer shows.
    Read,
    /// The API server never had it: a create whose answer was lost did not take place.
    NeverCreated,
    /// The API server no longer has it: we have deleted it.
    Deleted,
    /// The API server no longer has it: others have deleted it.
    Lost,
    /// It has been given to another manager.
    GivenAway,
    /// The API server has no Service of its name.
    Confirmed,
    /// The API server has a Service of its name.
    Spared,
    /// Its namespace takes no new objects.
    Terminating,
    /// The request was not carried out, or may not have been.
    Failed,
}

/// Interprets an answer. `on_server` says whether the API server was known to have the object.
fn effect(phase: Phase, flight: Flight, outcome: &Outcome, on_server: bool) -> Effect {
    let managed = phase == Phase::Managed;
    match (flight, outcome) {
        (_, Outcome::Fetched(_)) => Effect::Read,
        (Flight::Create | Flight::Update, Outcome::Written(_)) => Effect::Accepted,
        (Flight::Delete, Outcome::Deleted | Outcome::NotFound) => Effect::Deleted,
        (Flight::Probe, Outcome::NotFound) => Effect::Confirmed,
        (Flight::Probe, Outcome::Exists) => Effect::Spared,
        (Flight::Fetch, Outcome::NotFound) if managed && !on_server => Effect::NeverCreated,
        (Flight::Fetch, Outcome::Foreign) if managed && on_server => Effect::GivenAway,
        (Flight::Create | Flight::Update | Flight::Fetch, Outcome::NotFound | Outcome::Foreign) => {
            Effect::Lost
        }
        (Flight::Create, Outcome::Terminating) => Effect::Terminating,
        _ => Effect::Failed,
    }
}

/// Handles a request that was not carried out, or may not have been: its changes are due again, or need a refetch
/// first.
fn set_back(phase: Phase, object: &mut ObjectState, flight: Flight, outcome: &Outcome) {
    match (flight, outcome) {
        // Nothing waits for the answer, but an object that a create may have made is needed once the Service is
        // managed again.
        (Flight::Create, Outcome::Unknown | Outcome::Exists) if phase == Phase::Unmanaged => {
            object.needs_refetch = true;
        }
        _ if phase == Phase::Unmanaged => object.fail(*outcome == Outcome::Rejected),
        (Flight::Create | Flight::Update, Outcome::Throttled) => {
            object.undo_departure();
            object.fail(false);
        }
        (
            Flight::Create | Flight::Update,
            Outcome::Rejected | Outcome::TooLarge { .. } | Outcome::Terminating,
        ) => {
            object.undo_departure();
            object.fail(true);
        }
        // Somebody else wrote, or our write may have been applied: the object needs a refetch, and at once, unless
        // that keeps happening.
        (Flight::Create | Flight::Update, outcome) => object.mark_unconfirmed(*outcome != Outcome::Unknown),
        // Another object has the name, and a watch may have shown it already.
        (Flight::Delete, Outcome::Conflict) => object.mark_unconfirmed(true),
        (Flight::Delete | Flight::Fetch | Flight::Probe, outcome) => {
            object.fail(*outcome == Outcome::Rejected);
        }
    }
}

/// The queued objects of one kind: those to be checked, and those that cannot be yet.
#[derive(Clone, Debug)]
pub(super) struct Queue<Id, Facts> {
    /// Objects that may be due. May name some that no longer exist.
    pub(super) wanted: BTreeSet<Id>,
    /// Objects that were granted while their Service must not be written: due again when that is over.
    pub(super) blocked: BTreeSet<Id>,
    /// Objects that were listed before their pods and Services, with the epoch of the last list that showed each: they
    /// are adopted when those are known.
    pub(super) arrivals: KeyedMap<Arc<str>, (u8, Facts)>,
}

impl<Id, Facts> Default for Queue<Id, Facts> {
    fn default() -> Self {
        Self {
            wanted: BTreeSet::new(),
            blocked: BTreeSet::new(),
            arrivals: KeyedMap::default(),
        }
    }
}

impl<Id, Facts> Queue<Id, Facts> {
    /// Returns whether nothing waits that could matter later. Blocked objects do not count: the state knows them
    /// anyway.
    pub(super) fn is_empty(&self) -> bool {
        self.wanted.is_empty() && self.arrivals.is_empty()
    }
}

/// The metadata that the lifecycle needs.
pub(super) trait Metadata {
    /// `metadata.name`.
    fn name(&self) -> &str;
    /// `metadata.resourceVersion`.
    fn version(&self) -> u64;
    /// Returns whether the object is being deleted.
    fn is_deleting(&self) -> bool;
}

/// A kind of object that we publish.
pub(super) trait Published: Sized {
    /// The key of an object in the state.
    type Id: Clone + Ord;
    /// The metadata, as a watch shows it.
    type Meta: Metadata;
    /// The whole object, as a list or a get shows it.
    type Facts;

    /// Returns the queue of this kind.
    fn queue(state: &mut NamespaceState) -> &mut Queue<Self::Id, Self::Facts>;
    /// Finds the object of a name.
    fn find(state: &NamespaceState, name: &str) -> Option<Self::Id>;
    /// Returns the object's name.
    fn name<'s>(state: &'s NamespaceState, id: &'s Self::Id) -> Option<&'s Arc<str>>;
    /// Returns the object's phase and state, if it is known.
    fn get<'s>(state: &'s NamespaceState, id: &Self::Id) -> Option<(Phase, &'s ObjectState)>;
    /// Returns the same as [`Self::get`], to be changed.
    fn get_mut<'s>(
        state: &'s mut NamespaceState,
        id: &Self::Id,
    ) -> Option<(&'s mut Phase, &'s mut ObjectState)>;
    /// Returns the objects that the list of an epoch, as of a resourceVersion, shows to be gone.
    fn unlisted(state: &NamespaceState, epoch: u8, version: u64) -> Vec<Arc<str>>;
    /// Returns the metadata of a whole object.
    fn meta(facts: &Self::Facts) -> &Self::Meta;
    /// Extracts the object of this kind from an answer.
    fn content(content: Content) -> Option<Self::Facts>;

    /// Returns whether a managed object must be written, as far as is known without building it.
    fn differs(state: &NamespaceState, id: &Self::Id) -> bool;
    /// Returns whether its Service cannot be evaluated yet.
    fn awaits(state: &NamespaceState, id: &Self::Id) -> bool;
    /// Builds what a managed object should hold, to be sent; `None` if the API server turns out to have exactly that.
    fn build(state: &mut NamespaceState, id: &Self::Id) -> Option<Vec<u8>>;
    /// Records that what was built is sent: it counts as published from here on.
    fn depart(state: &mut NamespaceState, id: &Self::Id, flight: Flight);
    /// Records that the API server has what was sent.
    fn accepted(_state: &mut NamespaceState, _id: &Self::Id) {}
    /// Returns the work item that asks for the object's turn.
    fn want(state: &NamespaceState, id: &Self::Id) -> Option<WorkItem>;
    /// Returns the position in a plan, lowest first.
    fn order(_state: &NamespaceState, _id: &Self::Id) -> u8 {
        0
    }

    /// Takes in an unknown object that was listed or read whole.
    fn arrive(state: &mut NamespaceState, facts: Self::Facts, epoch: u8);
    /// Takes in an unknown object that a watch has shown.
    fn appear(state: &mut NamespaceState, meta: &Self::Meta, epoch: u8);
    /// Handles a version of a known object that a watch has shown and that is not ours.
    fn change(state: &mut NamespaceState, id: &Self::Id, meta: &Self::Meta);
    /// Compares an object that was read, while nothing of ours was in flight, with what it should hold.
    fn reconcile_observed(state: &mut NamespaceState, id: &Self::Id, facts: Self::Facts);
    /// Handles an object that a watch or a list shows to be gone, or no longer ours.
    fn vanish(state: &mut NamespaceState, id: &Self::Id, version: u64);
    /// Handles an object that the API server does not have: a managed one is created again, others are forgotten.
    fn remake(state: &mut NamespaceState, id: &Self::Id);
    /// Handles a managed object that has been given to another manager.
    fn give_away(state: &mut NamespaceState, id: &Self::Id);
    /// Forgets an object.
    fn forget(state: &mut NamespaceState, id: &Self::Id);
    /// Handles an answer to a request of an object that has been forgotten since.
    fn answered_late(_state: &mut NamespaceState, _name: &str, _outcome: &Outcome) {}
    /// Notifies people, where they should hear of it, that a request has failed once more.
    fn remark_failure(
        state: &mut NamespaceState,
        id: &Self::Id,
        flight: Flight,
        bytes: Option<usize>,
        why: Option<&str>,
    );
}

#[cfg(test)]
mod tests;
