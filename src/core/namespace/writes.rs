//! Requests, built when their turn has come, and the server's answers.

use super::hinting::auto_hint;
use super::members::desired;
use super::{NamespaceState, Want};
use crate::core::body::{EndpointBody, PodReference, Preconditions, Request, SliceBody};
use crate::core::facts::{EndpointsFacts, SliceFacts};
use crate::core::hints::HintMode;
use crate::core::ids::SliceId;
use crate::core::object::{Flight, ObjectName, ObjectState, Output, Remote};
use crate::core::slices::{Role, Slice};

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
    Refused,
    /// Whether the request was carried out is not known.
    Unknown,
}

impl Outcome {
    /// The size of an object that the server refused for it.
    pub(super) fn too_large(&self) -> Option<usize> {
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

/// What it means for an object that a request was not carried out, or may not have been.
pub(super) fn set_back(object: &mut ObjectState, flight: Flight, outcome: &Outcome) {
    match (flight, outcome) {
        (Flight::Create | Flight::Update, Outcome::Refused) => {
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
        (Flight::Create | Flight::Update, outcome) => object.doubt(*outcome != Outcome::Unknown),
        // Another object has the name, and a watch may have shown it already.
        (Flight::Delete, Outcome::Conflict) => object.doubt(true),
        (Flight::Delete | Flight::Fetch | Flight::Probe, outcome) => {
            object.fail(*outcome == Outcome::Rejected);
        }
    }
    // What a watch showed while the request was out was left until now.
    object.unsure |= object
        .remote
        .as_ref()
        .is_some_and(|remote| remote.version < object.seen);
}

impl NamespaceState {
    /// It is an object's turn: the request to send, built from the state of this moment, or none if nothing is
    /// due any more. At most one request of an object is out at a time.
    pub fn grant(&mut self, object: &ObjectName) -> Option<Granted> {
        match object.output {
            Output::Slice => self.grant_slice(&object.name),
            Output::Endpoints => self.grant_endpoints(&object.name),
        }
    }

    /// The answer to an object's request; `why` is what the server said of a refusal. Returns the object if it
    /// is due again.
    pub fn outcome(&mut self, object: &ObjectName, outcome: Outcome, why: Option<&str>) -> Option<Want> {
        match object.output {
            Output::Slice => self.slice_outcome(&object.name, outcome, why),
            Output::Endpoints => self.endpoints_outcome(&object.name, outcome, why),
        }
    }

    fn grant_slice(&mut self, name: &str) -> Option<Granted> {
        let id = *self.slices_by_name.get(name)?;
        let slice = &self.slices[id.index()];
        if slice.object.flight.is_some() || !self.is_due(slice) {
            return None;
        }
        if self.is_held(slice) {
            self.held.insert(id);
            return None;
        }
        let (request, flight) = match slice.role {
            _ if slice.object.unsure => (Request::Fetch, Flight::Fetch),
            Role::Live => {
                let body = self.body(slice);
                if slice.object.remote.is_some() {
                    (Request::Update(body), Flight::Update)
                } else {
                    (Request::Create(body), Flight::Create)
                }
            }
            Role::Doomed => {
                let Some(remote) = &slice.object.remote else {
                    self.drop_slice(id);
                    return None;
                };
                (
                    Request::Delete(Preconditions::same_version(remote)),
                    Flight::Delete,
                )
            }
            Role::Adopting { .. } | Role::Parked => (Request::Fetch, Flight::Fetch),
        };
        let (pods, services) = (&self.pods, &self.services);
        let slice = &mut self.slices[id.index()];
        let changes = slice.object.changes;
        if matches!(flight, Flight::Create | Flight::Update) {
            let service = &services[slice.service.index()];
            slice.depart(flight, |pod| desired(&pods[pod.index()], service));
        } else {
            slice.object.depart(flight);
        }
        Some(Granted { request, changes })
    }

    fn slice_outcome(&mut self, name: &str, outcome: Outcome, why: Option<&str>) -> Option<Want> {
        let id = *self.slices_by_name.get(name)?;
        let slice = &mut self.slices[id.index()];
        let flight = slice.object.flight.take()?;
        let failures = slice.object.failures;
        let bytes = outcome.too_large();
        let live = slice.role == Role::Live;
        let fetched = matches!(outcome, Outcome::Fetched(_));
        let looked =
            flight == Flight::Fetch && (fetched || matches!(outcome, Outcome::NotFound | Outcome::Foreign));
        match (flight, outcome) {
            (flight, outcome) if slice.role == Role::Parked => self.parked_outcome(id, flight, outcome),
            (_, Outcome::Fetched(Content::Slice(facts))) => self.content_known(id, *facts),
            (Flight::Create | Flight::Update, Outcome::Written(remote)) => {
                slice.object.written(flight, remote);
            }
            (Flight::Delete, Outcome::Deleted | Outcome::NotFound) => self.drop_slice(id),
            (Flight::Fetch, Outcome::NotFound)
                if slice.role == Role::Live && slice.object.remote.is_none() =>
            {
                // A create that did not take place after all.
                slice.object.unsure = false;
            }
            (Flight::Fetch, Outcome::Foreign)
                if slice.role == Role::Live && slice.object.remote.is_some() =>
            {
                self.yield_remote(id);
            }
            (Flight::Create | Flight::Update | Flight::Fetch, Outcome::NotFound | Outcome::Foreign) => {
                slice.object.undo_departure();
                self.slice_missing(name);
            }
            (Flight::Create, Outcome::Terminating) => {
                // The namespace takes no objects any more, and with it goes everything else: not tried again
                // before something changes.
                slice.object.undo_departure();
                slice.object.fail(false);
                if live {
                    return None;
                }
            }
            (flight, outcome) => set_back(&mut slice.object, flight, &outcome),
        }
        if looked && let Some(slice) = self.slices.get_mut(id.index()) {
            slice.object.looked(fetched && live && failures == 0);
        }
        let slice = self.slices.get(id.index()).filter(|slice| *slice.name == *name)?;
        if slice.object.failures > failures {
            self.remark_slice_failure(id, bytes, why);
        }
        let slice = &self.slices[id.index()];
        if self.is_held(slice) {
            self.held.insert(id);
            return None;
        }
        (slice.object.flight.is_none() && self.is_due(slice)).then(|| Want::of_slice(slice))
    }

    /// Whether a request of a slice is due. Nothing is created for a Service that is being deleted.
    pub(super) fn is_due(&self, slice: &Slice) -> bool {
        let creates = slice.role == Role::Live && slice.object.remote.is_none() && !slice.object.unsure;
        slice.is_due() && !(creates && self.services[slice.service.index()].facts.deleting)
    }

    /// Whether a slice may not be written now, since its Service has not been evaluated in full: a list is
    /// awaited, or slices that the Service must know first. Looking at it is always allowed.
    pub(super) fn is_held(&self, slice: &Slice) -> bool {
        let awaiting = || {
            self.services
                .get(slice.service.index())
                .is_some_and(|s| s.awaiting > 0)
        };
        let writes = matches!(slice.role, Role::Live | Role::Doomed) && !slice.object.unsure;
        writes && (self.holds.any() || awaiting())
    }

    /// Nobody waits for the answer, but the slice it speaks of may be needed later.
    fn parked_outcome(&mut self, id: SliceId, flight: Flight, outcome: Outcome) {
        let slice = &mut self.slices[id.index()];
        match (flight, outcome) {
            (Flight::Create | Flight::Update, Outcome::Written(remote)) => slice.object.remote = Some(remote),
            (_, Outcome::Fetched(Content::Slice(facts))) => self.content_known(id, *facts),
            (Flight::Create, Outcome::Unknown | Outcome::Exists) => slice.object.unsure = true,
            (Flight::Create, _) | (_, Outcome::Deleted | Outcome::NotFound | Outcome::Foreign) => {
                self.drop_slice(id);
            }
            (_, outcome) => slice.object.fail(outcome == Outcome::Rejected),
        }
        if let Some(Slice { object, .. }) = self.slices.get_mut(id.index())
            && object
                .remote
                .as_ref()
                .is_some_and(|remote| remote.version < object.seen)
        {
            // While the request was out, somebody else wrote.
            object.unsure = true;
            if flight == Flight::Fetch {
                object.fail(false);
            }
        }
    }

    fn body(&self, slice: &Slice) -> Vec<u8> {
        let service = &self.services[slice.service.index()];
        let state = service.families[slice.family.index()].as_ref();
        let state = state.expect("a live slice's Service has the slice's family");
        let endpoints = || {
            slice.slots.iter().enumerate().map(|(at, slot)| {
                let pod = &self.pods[slot.pod.index()];
                let node = self.nodes.get(pod.node.index());
                let zone = node.and_then(|node| node.view.facts.as_ref()?.zone.as_deref());
                let node = node.map(|node| &*node.view.name);
                let conditions = desired(pod, service);
                EndpointBody {
                    hints: match service.facts.hints {
                        HintMode::Auto => auto_hint(slice, at),
                        mode => mode.hint(conditions.ready(), zone, node),
                    },
                    ip: pod
                        .ip(slice.family)
                        .expect("a placed pod has an address of the slice's family"),
                    conditions,
                    hostname: self.hostname(pod, &service.facts.name),
                    target: PodReference {
                        namespace: &self.namespace,
                        name: &pod.name,
                        uid: &pod.uid,
                    },
                    node,
                    zone,
                }
            })
        };
        SliceBody {
            namespace: &self.namespace,
            name: &slice.name,
            remote: slice.object.remote.as_ref(),
            extras: slice.object.extras.as_deref(),
            service: &service.facts,
            trigger: slice.object.trigger,
            address_type: slice.family.as_str(),
            ports: &state.groups.get(slice.group).ports,
            endpoints,
        }
        .to_json()
    }
}
