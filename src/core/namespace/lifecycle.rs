//! The lifecycle of the objects that we publish: one for slices and Endpoints, and for whatever is published next.
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
//! In each phase an object is in step with the server, or a request is due, or one is in flight, never two. What is due
//! is decided by [`next_step`], and what an answer means by [`effect`]: these two are the whole protocol. What a kind
//! adds is in [`Published`]: how its objects are kept, what they should hold, and how that is compared with what was
//! read. [`ObjectState`] has the single clock of an object's retries.

mod driver;

use super::{NamespaceState, WorkItem};
use crate::core::body::Request;
use crate::core::facts::{EndpointsFacts, SliceFacts};
use crate::core::hash::KeyedMap;
use crate::core::object::{Flight, ObjectState, Phase, Remote};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What became of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// A create or an update was accepted; this is the object's version now.
    Written(Remote),
    /// A delete was accepted.
    Deleted,
    /// A get was answered.
    Fetched(Content),
    /// There is no such object.
    NotFound,
    /// The object is not the one that the request was computed against.
    Conflict,
    /// There is an object with the name of the one to create.
    Exists,
    /// There is such an object, and it is another controller's.
    Foreign,
    /// The namespace is going away and takes no new objects.
    Terminating,
    /// The server refuses the request as it is, or us.
    Rejected,
    /// The server takes no object as large as this one.
    TooLarge {
        /// Its size in JSON, as it was sent.
        bytes: usize,
    },
    /// The request was not carried out, and may be another time.
    Throttled,
    /// Whether the request was carried out is not known.
    Unknown,
}

impl Outcome {
    /// The size of an object that the server refused for it.
    fn too_large(&self) -> Option<usize> {
        match self {
            Self::TooLarge { bytes } => Some(*bytes),
            _ => None,
        }
    }
}

/// An object as the answer to a get shows it.
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
    /// What to send.
    pub request: Request,
    /// How many changes it carries.
    pub changes: u32,
}

/// The request that an object needs next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// Read what the server has.
    Fetch,
    /// Create it, or update it where the server has it.
    Write,
    /// Delete it.
    Delete,
    /// Ask for the Service of its name.
    Probe,
    /// None: it is forgotten.
    Forget,
    /// None.
    Rest,
}

fn next_step(phase: Phase, object: &ObjectState) -> Step {
    match phase {
        // Nothing is decided on what is not known.
        _ if object.needs_refetch => Step::Fetch,
        Phase::Managed => Step::Write,
        Phase::Adopting { .. } => Step::Fetch,
        Phase::Deleting | Phase::Leftover { confirmed: true } if object.remote.is_some() => Step::Delete,
        Phase::Deleting | Phase::Leftover { confirmed: true } => Step::Forget,
        Phase::Leftover { confirmed: false } => Step::Probe,
        Phase::Unmanaged => Step::Rest,
    }
}

/// What an answer means for the object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Effect {
    /// The server has what was sent.
    Accepted,
    /// The server has what the answer shows.
    Read,
    /// The server never had it: a create whose answer was lost did not take place.
    NeverCreated,
    /// The server does not have it any more: we have deleted it.
    Deleted,
    /// The server does not have it any more: others have deleted it.
    Lost,
    /// It has been given to another manager.
    GivenAway,
    /// The server has no Service of its name.
    Confirmed,
    /// The server has a Service of its name.
    Spared,
    /// Its namespace takes no new objects.
    Terminating,
    /// The request was not carried out, or it is not known whether it was.
    Failed,
}

/// `on_server` says whether the server was known to have the object.
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

/// A request was not carried out, or may not have been: what it carried is due again, or has to be looked at first.
fn set_back(phase: Phase, object: &mut ObjectState, flight: Flight, outcome: &Outcome) {
    match (flight, outcome) {
        // Nobody waits for the answer; but what a create may have made is needed when the Service is managed again.
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
        // Somebody else wrote, or our write may have been applied: what the server has must be seen, and at once,
        // unless that keeps happening.
        (Flight::Create | Flight::Update, outcome) => object.mark_unconfirmed(*outcome != Outcome::Unknown),
        // Another object has the name, and a watch may have shown it already.
        (Flight::Delete, Outcome::Conflict) => object.mark_unconfirmed(true),
        (Flight::Delete | Flight::Fetch | Flight::Probe, outcome) => {
            object.fail(*outcome == Outcome::Rejected);
        }
    }
}

/// The objects of one kind: which are to be looked at, and which cannot be yet.
#[derive(Clone, Debug)]
pub(super) struct Queue<Id, Facts> {
    /// Objects that may be due. May name some that are gone by now.
    pub(super) wanted: BTreeSet<Id>,
    /// Objects that were granted while nothing may be written of their Service: due again when that is over.
    pub(super) blocked: BTreeSet<Id>,
    /// Objects that were listed before their pods and Services, with the last list that showed each: they are taken over
    /// when those are known.
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
    /// Whether nothing waits that could matter later. What is blocked belongs to an object that is known.
    pub(super) fn is_empty(&self) -> bool {
        self.wanted.is_empty() && self.arrivals.is_empty()
    }
}

/// What the lifecycle needs of an object's metadata.
pub(super) trait Metadata {
    /// `metadata.name`.
    fn name(&self) -> &str;
    /// `metadata.resourceVersion`.
    fn version(&self) -> u64;
    /// Whether it is as good as gone.
    fn is_deleting(&self) -> bool;
}

/// A kind of object that is published.
pub(super) trait Published: Sized {
    /// How an object is found in the state, whatever its name.
    type Id: Clone + Ord;
    /// Its metadata, as a watch shows it.
    type Meta: Metadata;
    /// The whole of it, as a list or a get shows it.
    type Facts;

    /// The objects that wait.
    fn queue(state: &mut NamespaceState) -> &mut Queue<Self::Id, Self::Facts>;
    /// The object of a name.
    fn find(state: &NamespaceState, name: &str) -> Option<Self::Id>;
    /// The object's name.
    fn name<'s>(state: &'s NamespaceState, id: &'s Self::Id) -> Option<&'s Arc<str>>;
    /// How the object stands, if it is known.
    fn get<'s>(state: &'s NamespaceState, id: &Self::Id) -> Option<(Phase, &'s ObjectState)>;
    /// The same, to be changed.
    fn get_mut<'s>(
        state: &'s mut NamespaceState,
        id: &Self::Id,
    ) -> Option<(&'s mut Phase, &'s mut ObjectState)>;
    /// Those that the list of an epoch, as of a version, shows to be gone.
    fn unlisted(state: &NamespaceState, epoch: u8, version: u64) -> Vec<Arc<str>>;
    /// The metadata of a whole object.
    fn meta(facts: &Self::Facts) -> &Self::Meta;
    /// The object of this kind that an answer shows.
    fn content(content: Content) -> Option<Self::Facts>;

    /// Whether a managed object is to be written, as far as is known without building it.
    fn differs(state: &NamespaceState, id: &Self::Id) -> bool;
    /// Whether its Service cannot be evaluated yet.
    fn awaits(state: &NamespaceState, id: &Self::Id) -> bool;
    /// What a managed object should hold, to be sent; none if the server turns out to have just that.
    fn build(state: &mut NamespaceState, id: &Self::Id) -> Option<Vec<u8>>;
    /// What was built leaves: it counts as published from here on.
    fn depart(state: &mut NamespaceState, id: &Self::Id, flight: Flight);
    /// The server has what was sent.
    fn accepted(_state: &mut NamespaceState, _id: &Self::Id) {}
    /// How to ask for an object's turn.
    fn want(state: &NamespaceState, id: &Self::Id) -> Option<WorkItem>;
    /// The place in a plan, lowest first.
    fn order(_state: &NamespaceState, _id: &Self::Id) -> u8 {
        0
    }

    /// An object is not known, and was listed or read whole.
    fn arrive(state: &mut NamespaceState, facts: Self::Facts, epoch: u8);
    /// An object is not known, and a watch shows that it is there.
    fn appear(state: &mut NamespaceState, meta: &Self::Meta, epoch: u8);
    /// An object is known, and a watch shows a version that is not ours.
    fn change(state: &mut NamespaceState, id: &Self::Id, meta: &Self::Meta);
    /// An object was read, and nothing of ours is on its way to it: it is compared with what it should hold.
    fn reconcile_observed(state: &mut NamespaceState, id: &Self::Id, facts: Self::Facts);
    /// A watch or a list shows that an object is gone, or not among ours any more.
    fn vanish(state: &mut NamespaceState, id: &Self::Id, version: u64);
    /// The server does not have an object: a managed one is made again, others are forgotten.
    fn remake(state: &mut NamespaceState, id: &Self::Id);
    /// A managed object has been given to another manager.
    fn give_away(state: &mut NamespaceState, id: &Self::Id);
    /// An object is forgotten.
    fn forget(state: &mut NamespaceState, id: &Self::Id);
    /// An answer came to a request of an object that has been forgotten since.
    fn answered_late(_state: &mut NamespaceState, _name: &str, _outcome: &Outcome) {}
    /// A request has failed once more: people may have to hear of it.
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
