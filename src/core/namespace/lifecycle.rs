//! The lifecycle of the objects that we publish, shared by slices, Endpoints, and any kind added later.
//!
//! An object enters the state in one of four [phases](Phase):
//!
//! | Phase | Which objects enter in it |
//! |---|---|
//! | `Managed` | those that are created here for a managed Service, and Endpoints that a watch shows beside one |
//! | `Unmanaged` | slices that are listed or shown, until they are attributed to their Service; most Endpoints; mirrored slices that name no Service |
//! | `Adopting` | mirrored slices that are listed or shown and name a Service |
//! | `Leftover` | Endpoints that this process finds without a Service when it begins to write |
//!
//! The ways from phase to phase:
//!
//! | From | To | When |
//! |---|---|---|
//! | `Unmanaged` | `Adopting` | a slice turns out to belong to a managed Service: it names the Service, which owns it |
//! | `Unmanaged`, `Leftover` | `Managed` | the Service of an Endpoints object becomes managed |
//! | `Unmanaged` | `Deleting` | a slice names a managed Service that does not own it, or is withdrawn; the Service of an Endpoints object is gone |
//! | `Adopting` | `Managed` | its content has been read |
//! | `Adopting` | `Deleting` | its owner or its family turns out to be none of its Service's; a mirrored slice is not needed |
//! | `Managed` | `Unmanaged` | its Service is no longer managed |
//! | `Managed` | `Deleting` | it is no longer needed |
//! | `Deleting` | `Managed` | Endpoints, or a mirrored slice, are needed again |
//! | `Deleting` | `Unmanaged` | the Endpoints are another client's now, or their new Service has no selector |
//! | `Leftover` | `Unmanaged` | there is such a Service after all, or the object is no longer the one that was found, or no longer ours |
//!
//! An object in `Deleting` is forgotten once it is deleted or gone, and so is one in `Leftover`, which is deleted once a probe has
//! confirmed that the API server has no such Service either.
//!
//! In each phase an object is in sync with the API server, or has a request due, or has one in flight, never two.
//! [`next_step`] decides which request is due, and [`effect`] what an answer means: these two are the whole protocol.
//! [`Publishing`] has the parts that differ between kinds: what objects should hold, and how that is compared with what
//! was read. [`ObjectState`] has the only retry clock of an object.

mod arrivals;
mod driver;
mod notices;

pub(super) use driver::Lifecycle;
pub(super) use notices::Notices;

use super::WorkItem;
use super::context::Context;
use crate::core::body::{Encode, Request};
use crate::core::compact::table::{EntryId, Named, Table};
use crate::core::events::Notice;
use crate::core::facts::{EndpointsFacts, SliceFacts};
use crate::core::ids::Uid;
use crate::core::object::{Editor, ObjectState, Phase, Refusal, Remote, RequestKind};
use crate::core::priority::Stage;
use crate::core::time::Time;
use arrivals::Arrivals;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// The result of a request, as far as the API server's answer proves it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// A create or an update was accepted; the object has this UID and resourceVersion now.
    Written(Remote),
    /// A delete was accepted. Servers since Kubernetes 1.38 say a version of the resource at which the object is gone:
    /// that of its deletion, or a later one.
    Deleted(Option<u64>),
    /// A get was answered.
    Fetched {
        /// The object.
        content: Content,
        /// The client that wrote it last.
        editor: Editor,
    },
    /// The object does not exist.
    NotFound,
    /// The object is not the one that the request was computed against.
    Conflict,
    /// An object with the name of the one to create already exists.
    Exists,
    /// The object exists, but belongs to another controller.
    Foreign {
        /// The client that wrote it last.
        editor: Editor,
    },
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
    /// Creates the answer to a get, of an object that no other client is known to have changed.
    pub fn fetched(content: Content) -> Self {
        Self::Fetched {
            content,
            editor: Editor::Unknown,
        }
    }

    fn refusal(&self) -> Refusal {
        match self {
            Self::Rejected | Self::TooLarge { .. } => Refusal::Rejected,
            Self::Terminating => Refusal::Terminating,
            _ => Refusal::None,
        }
    }

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

impl Content {
    /// Returns the units of work that it takes to take it in.
    fn units(&self) -> u64 {
        match self {
            Self::Slice(facts) => facts.units(),
            Self::Endpoints(facts) => facts.units(),
        }
    }
}

/// A request whose turn has come. `B` is an encoded object.
#[derive(Clone, PartialEq, Eq)]
pub struct BuiltRequest<B = Vec<u8>> {
    /// The request to send.
    pub request: Request<B>,
    /// The number of changes it carries.
    pub changes: u32,
}

impl fmt::Debug for BuiltRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("BuiltRequest");
        out.field("request", &self.request)
            .field("changes", &self.changes)
            .finish()
    }
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

fn next_step(object: &ObjectState) -> Step {
    match object.phase {
        // While the object's state is unknown, only a fetch can be due.
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
enum AnswerEffect {
    /// The API server has what was sent.
    Accepted,
    /// The API server has what the answer shows.
    Read,
    /// The API server never had it: a create whose answer was lost did not take place.
    NeverCreated,
    /// The API server no longer has it: we have deleted it.
    Deleted,
    /// The API server no longer has it as ours: others have deleted it, or have given it to another manager.
    Lost,
    /// The API server has no Service of its name.
    Confirmed,
    /// The API server has a Service of its name.
    Spared,
    /// The request was not carried out, or may not have been.
    Failed,
}

/// Interprets an answer. `on_server` says whether the API server was known to have the object.
fn effect(phase: Phase, flight: RequestKind, outcome: &Outcome, on_server: bool) -> AnswerEffect {
    let managed = phase == Phase::Managed;
    match (flight, outcome) {
        (_, Outcome::Fetched { .. }) => AnswerEffect::Read,
        (RequestKind::Create | RequestKind::Update, Outcome::Written(_)) => AnswerEffect::Accepted,
        (RequestKind::Delete, Outcome::Deleted(_) | Outcome::NotFound) => AnswerEffect::Deleted,
        (RequestKind::Probe, Outcome::NotFound) => AnswerEffect::Confirmed,
        (RequestKind::Probe, Outcome::Exists) => AnswerEffect::Spared,
        (RequestKind::Fetch, Outcome::NotFound) if managed && !on_server => AnswerEffect::NeverCreated,
        (
            RequestKind::Create | RequestKind::Update | RequestKind::Fetch,
            Outcome::NotFound | Outcome::Foreign { .. },
        ) => AnswerEffect::Lost,
        _ => AnswerEffect::Failed,
    }
}

/// Handles a request that was not carried out, or may not have been: its changes are due again, or need a refetch
/// first.
fn set_back(object: &mut ObjectState, flight: RequestKind, outcome: &Outcome) {
    let phase = object.phase;
    match (flight, outcome) {
        // The answer matters no more, but an object that a create may have made is needed once the Service is managed
        // again.
        (RequestKind::Create, Outcome::Unknown | Outcome::Exists | Outcome::Conflict)
            if phase == Phase::Unmanaged =>
        {
            object.needs_refetch = true;
        }
        _ if phase == Phase::Unmanaged => object.fail(outcome.refusal()),
        (RequestKind::Create | RequestKind::Update, Outcome::Throttled) => {
            object.undo_departure();
            object.fail(Refusal::None);
        }
        (
            RequestKind::Create | RequestKind::Update,
            Outcome::Rejected | Outcome::TooLarge { .. } | Outcome::Terminating,
        ) => {
            object.undo_departure();
            object.fail(outcome.refusal());
        }
        // Another client wrote, or our write may have been applied: the object needs a refetch, and at once, unless
        // that keeps happening.
        (RequestKind::Create | RequestKind::Update, outcome) => {
            object.mark_unconfirmed(*outcome != Outcome::Unknown);
        }
        // Another object has the name, and a watch may have shown it already.
        (RequestKind::Delete, Outcome::Conflict) => object.mark_unconfirmed(true),
        (RequestKind::Delete | RequestKind::Fetch | RequestKind::Probe, outcome) => {
            object.fail(outcome.refusal());
        }
    }
}

/// The objects of one kind: those that are known, those that wait for their turn, and those that were listed too early.
#[derive(Clone, Debug)]
pub(super) struct Objects<T: Published> {
    known: Table<T::Id, T>,
    /// Objects that may be due.
    wanted: BTreeSet<T::Id>,
    /// Objects that were granted while their Service must not be written: due again when that is over.
    blocked: BTreeSet<T::Id>,
    /// Blocked objects that the present plan has not checked yet.
    to_release: BTreeSet<T::Id>,
    /// Objects that were listed before their pods and Services.
    arrivals: Arrivals<T::Facts>,
    /// Objects that may be due, but not before all others have been planned, by their position in a plan. Used only
    /// where more are wanted than are planned in one go.
    last: BTreeSet<(Stage, T::Id)>,
}

impl<T: Published> Default for Objects<T> {
    fn default() -> Self {
        Self {
            known: Table::default(),
            wanted: BTreeSet::new(),
            blocked: BTreeSet::new(),
            to_release: BTreeSet::new(),
            arrivals: Arrivals::default(),
            last: BTreeSet::new(),
        }
    }
}

impl<T: Published> Deref for Objects<T> {
    type Target = Table<T::Id, T>;

    fn deref(&self) -> &Self::Target {
        &self.known
    }
}

impl<T: Published> DerefMut for Objects<T> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.known
    }
}

impl<T: Published> Objects<T> {
    /// Returns whether nothing is known, and nothing waits that could matter later.
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty() && self.arrivals.is_empty()
    }

    /// Returns whether the next plan has anything to do here.
    pub(super) fn has_to_plan(&self) -> bool {
        !(self.wanted.is_empty()
            && self.last.is_empty()
            && self.blocked.is_empty()
            && self.to_release.is_empty()
            && self.arrivals.is_empty())
    }

    /// Queues an object for the next plan, which checks whether it is due. One that is in flight asks again when its
    /// answer arrives.
    pub(super) fn want(&mut self, id: T::Id) {
        self.wanted.insert(id);
    }

    /// Forgets an object that is known.
    pub(super) fn remove(&mut self, id: T::Id) -> T {
        self.wanted.remove(&id);
        self.blocked.remove(&id);
        self.to_release.remove(&id);
        if !self.last.is_empty() {
            self.last.retain(|(_, other)| *other != id);
        }
        self.known.remove(id)
    }

    /// Returns the object of a name, if a request of it is in flight.
    pub(super) fn in_flight(&self, name: &str) -> Option<T::Id> {
        let id = self.known.find(name);
        id.filter(|id| self.known[*id].as_ref().flight.is_some())
    }

    /// Returns whether an object of this name was listed and waits for its pods and Services.
    pub(super) fn has_arrived(&self, name: &str) -> bool {
        self.arrivals.get(name).is_some()
    }

    /// Takes the first, in the order of adoption, of the objects that were listed before their pods and Services were
    /// known, with the epoch of its list.
    pub(super) fn take_arrival(&mut self) -> Option<ObjectEvent<T::Facts, <T::Facts as Whole>::Meta>> {
        self.arrivals.take_first()
    }

    /// Drops some objects, from a number on, of those that are forgotten. Returns whether more are left.
    pub(super) fn shed(&mut self, from: usize, count: usize) -> bool {
        let mut waiting = (0..count).map_while(|_| self.take_arrival());
        let waits = waiting.by_ref().count() == count;
        self.known.shed(from, count) || waits
    }
}

/// Compares two objects of a kind: the older one is adopted first, then the one whose name comes first.
pub(super) fn adoption_order<F: Whole>(a: &F, b: &F) -> Ordering {
    let names = || a.meta().name().cmp(b.meta().name());
    a.created().cmp(&b.created()).then_with(names)
}

/// The metadata that the lifecycle needs.
pub(super) trait ObjectMeta {
    /// `metadata.name`.
    fn name(&self) -> &str;
    /// `metadata.resourceVersion`.
    fn version(&self) -> u64;
    /// `metadata.uid`.
    fn uid(&self) -> &Uid;
    /// Returns whether the object is being deleted.
    fn is_deleting(&self) -> bool;
    /// Returns the object as this version of it.
    fn remote(&self) -> Remote {
        Remote {
            uid: self.uid().clone(),
            version: self.version(),
        }
    }
}

/// A whole object, as a list or a get shows it.
pub(super) trait Whole: Clone + fmt::Debug + Sized {
    /// The metadata, as a watch shows it.
    type Meta: ObjectMeta;

    /// Returns the metadata.
    fn meta(&self) -> &Self::Meta;
    /// Returns when it was created, if the order of adoption depends on it.
    fn created(&self) -> Option<Time>;
    /// Returns the units of work that it takes to take the object in.
    fn units(&self) -> u64;
    /// Extracts the object from an answer.
    fn from_content(content: Content) -> Option<Self>;
}

/// An event of one object, in the form in which it was read: whole or its metadata alone.
#[derive(Clone, Debug)]
pub enum ObjectEvent<W, M> {
    /// The whole object, from the list of an epoch.
    Whole(Box<W>, u8),
    /// Its metadata, from a watch that began with the list of an epoch.
    Meta(M, u8),
    /// The object of this name is gone, or not ours any more, as of a resourceVersion.
    Gone(Box<str>, u64),
}

/// Returns the name of the object of an event.
pub(super) fn name_of<W: Whole>(event: &ObjectEvent<W, W::Meta>) -> &str {
    match event {
        ObjectEvent::Whole(facts, _) => facts.meta().name(),
        ObjectEvent::Meta(meta, _) => meta.name(),
        ObjectEvent::Gone(name, _) => name,
    }
}

/// Returns the resourceVersion that an event shows.
pub(super) fn version_of<W: Whole>(event: &ObjectEvent<W, W::Meta>) -> u64 {
    match event {
        ObjectEvent::Whole(facts, _) => facts.meta().version(),
        ObjectEvent::Meta(meta, _) => meta.version(),
        ObjectEvent::Gone(_, version) => *version,
    }
}

/// An object that we publish, as the state keeps it. The lifecycle's part of it is an [`ObjectState`].
pub(super) trait Published:
    Named + AsRef<ObjectState> + AsMut<ObjectState> + Clone + fmt::Debug + Send + 'static
{
    /// The number of an object in the state.
    type Id: EntryId + Send + 'static;
    /// The whole object.
    type Facts: Whole + Send + 'static;

    /// Returns the work item that asks for the object's turn.
    fn work_item(&self) -> WorkItem;
    /// Returns the place of its write among those of its Service.
    fn stage(&self) -> Stage {
        Stage::Create
    }
    /// Records that the API server has what was sent.
    fn accepted(&mut self) {}
}

/// A view of the owners that objects of one kind depend on, with what differs between kinds. The lifecycle itself uses
/// nothing of it but the objects and the context.
pub(super) trait Publishing:
    AsRef<Objects<<Self as Publishing>::Entry>>
    + AsMut<Objects<<Self as Publishing>::Entry>>
    + AsRef<Context>
    + AsMut<Context>
    + Sized
{
    /// The state that is kept of an object.
    type Entry: Published;

    /// Returns whether a managed object must be written, as far as is known without building it.
    fn differs(&self, entry: &Self::Entry) -> bool;
    /// Returns whether the object's Service cannot be evaluated yet.
    fn waits_for_slices(&self, entry: &Self::Entry) -> bool;
    /// Builds what a managed object should hold, to be sent: it counts as published from here on. `None` if the API
    /// server turns out to have exactly that.
    fn build<E: Encode>(&mut self, id: Id<Self>, encoder: &mut E) -> Option<E::Body>;
    /// Handles a version that a watch has shown and that is not ours. `known` is the object, unless it is unknown.
    fn seen(&mut self, known: Option<Id<Self>>, meta: &Meta<Self>, epoch: u8);
    /// Takes in an object that was listed or read whole. One that is known, and of which no request is in flight, is
    /// compared with what it should hold.
    fn read(&mut self, known: Option<Id<Self>>, facts: Facts<Self>, epoch: u8);
    /// Handles an object that the API server does not have any more, or not as ours.
    fn gone(&mut self, id: Id<Self>, gone: Gone);
    /// Returns the Event that tells users of what is wrong with an object, where they should hear of it.
    fn notice(&self, entry: &Self::Entry, trouble: Trouble, message: String) -> Option<Notice>;
}

/// The number of an object at a desk.
pub(super) type Id<P> = <<P as Publishing>::Entry as Published>::Id;
/// A whole object at a desk.
pub(super) type Facts<P> = <<P as Publishing>::Entry as Published>::Facts;
/// The metadata of an object at a desk.
pub(super) type Meta<P> = <Facts<P> as Whole>::Meta;

/// Returns the objects of a kind.
fn objects<P: Publishing>(desk: &P) -> &Objects<P::Entry> {
    desk.as_ref()
}

/// Returns the objects of a kind, to be changed.
fn objects_mut<P: Publishing>(desk: &mut P) -> &mut Objects<P::Entry> {
    desk.as_mut()
}

/// Returns the state of the lifecycle of one object.
fn object_of<P: Publishing>(desk: &P, id: Id<P>) -> &ObjectState {
    objects(desk)[id].as_ref()
}

/// Returns the state of the lifecycle of one object, to be changed.
fn object_mut<P: Publishing>(desk: &mut P, id: Id<P>) -> &mut ObjectState {
    objects_mut(desk)[id].as_mut()
}

/// Returns the context, to be changed.
fn context_mut<P: Publishing>(desk: &mut P) -> &mut Context {
    desk.as_mut()
}

/// How an object has gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Gone {
    /// A watch or a list shows it to be gone, or no longer ours, as of this resourceVersion. It may be there again.
    Shown(u64),
    /// The API server does not have it: a managed one is created again, others are forgotten.
    Missing,
    /// It is forgotten: what is known of it can no longer matter.
    Unneeded,
}

/// A problem with an object that users are told of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Trouble {
    /// A request failed.
    Failed(RequestKind),
    /// Another controller writes it too.
    Rival,
}

#[cfg(test)]
mod tests;
