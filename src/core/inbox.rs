//! The changes of a namespace that have not been applied yet: latest wins by object, so the inbox is never larger than
//! the namespace, however far behind its shard is.

mod applying;
mod latest;

pub use applying::Applying;

use super::facts::{PodFacts, ServiceFacts};
use super::namespace::{Kind, NamespaceState, OutputEvent};
use super::nodes::{NodeDirectory, NodeView, ZoneView};
use super::object::Output;
use super::time::Time;
use super::work::TurnBudget;
use latest::Latest;
use smallvec::SmallVec;
use std::sync::Arc;

/// A change in a namespace. `epoch` counts the lists of the object's kind.
#[derive(Clone, Debug)]
pub enum Change {
    /// A pod from a list or a watch.
    Pod(PodFacts, u8),
    /// A pod is gone.
    PodGone(Box<str>),
    /// A Service from a list or a watch.
    Service(ServiceFacts, u8),
    /// A Service is gone.
    ServiceGone(Arc<str>),
    /// An event of an object that this process may write.
    Output(OutputEvent),
    /// A node on which the namespace has pods has changed.
    Node(Arc<NodeView>),
    /// The CPU capacity of the zones has changed.
    Zones(ZoneView),
    /// Another list of a kind is about to arrive.
    Begin(Kind),
    /// The list of an epoch is complete, and shows this version.
    End(Kind, u8, u64),
    /// The objects of a kind are no longer followed: see [`NamespaceState::forget`].
    Forget(Kind),
}

/// A change for a namespace.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The change.
    pub change: Change,
}

/// The changes that wait for one shard.
#[derive(Clone, Debug, Default)]
pub struct Pending {
    pods: Latest<Box<str>, PodEvent>,
    services: Latest<Arc<str>, Option<(ServiceFacts, u8)>>,
    /// By [`Output`].
    outputs: [Latest<Box<str>, OutputEvent>; Output::ALL.len()],
    nodes: Latest<Arc<str>, Arc<NodeView>>,
    zones: Option<ZoneView>,
    lists: [ListEvent; Kind::ALL.len()],
    /// Kinds that were forgotten before all else that waits of them.
    forgotten: [bool; Kind::ALL.len()],
    any: bool,
}

#[derive(Clone, Debug)]
struct PodEvent {
    /// `None` when it is gone.
    latest: Option<(PodFacts, u8)>,
    /// The Ready times of states that were merged away: that of the first, and the earliest that came after it and
    /// moved forward. Whatever time is known of the pod, the earliest that moves forward from there is among these and
    /// the latest one's.
    earlier: SmallVec<[Time; 2]>,
}

/// The last list event of one kind. An end that another beginning follows no longer matters: the next end sweeps what
/// that one would have swept.
#[derive(Clone, Copy, Debug, Default)]
enum ListEvent {
    #[default]
    None,
    Begun,
    Ended {
        epoch: u8,
        version: u64,
    },
}

impl Pending {
    /// Returns whether nothing waits.
    pub fn is_empty(&self) -> bool {
        !self.any
    }

    /// Returns the number of objects that wait.
    pub fn len(&self) -> usize {
        let inputs = self.pods.len() + self.services.len() + self.nodes.len();
        inputs + self.outputs.iter().map(Latest::len).sum::<usize>()
    }

    /// Merges an event into what waits.
    pub fn push(&mut self, event: Change) {
        self.any = true;
        match event {
            Change::Pod(facts, epoch) => self.push_pod(facts, epoch),
            Change::PodGone(name) => {
                self.pods.insert(
                    name,
                    PodEvent {
                        latest: None,
                        earlier: SmallVec::new(),
                    },
                );
            }
            Change::Service(facts, epoch) => {
                self.services.insert(facts.name.clone(), Some((facts, epoch)));
            }
            Change::ServiceGone(name) => {
                self.services.insert(name, None);
            }
            Change::Output(event) => self.push_output(event),
            Change::Node(view) => self.push_node(view),
            Change::Zones(view) => self.push_zones(view),
            Change::Begin(kind) => self.lists[kind.index()] = ListEvent::Begun,
            Change::End(kind, epoch, version) => {
                self.lists[kind.index()] = ListEvent::Ended { epoch, version };
            }
            Change::Forget(kind) => self.forget(kind),
        }
    }

    /// Adds an event of an object, unless one waits that says as much.
    fn push_output(&mut self, event: OutputEvent) {
        let waiting = &mut self.outputs[event.output() as usize];
        if waiting
            .get(event.name())
            .is_none_or(|known| event.supersedes(known))
        {
            waiting.insert(event.name().into(), event);
        }
    }

    /// Adds a view of a node, unless a later one waits: they come from several tasks, so a later one may come first.
    fn push_node(&mut self, view: Arc<NodeView>) {
        let known = self.nodes.get(&view.name);
        if known.is_none_or(|known| known.version < view.version) {
            self.nodes.insert(view.name.clone(), view);
        }
    }

    /// Adds a view of all zones, unless a later one waits.
    fn push_zones(&mut self, view: ZoneView) {
        let known = self.zones.as_ref();
        if known.is_none_or(|known| known.version < view.version) {
            self.zones = Some(view);
        }
    }

    /// Drops what waits of a kind that is not followed any more.
    fn forget(&mut self, kind: Kind) {
        let Some(output) = kind.output() else { return };
        self.outputs[output as usize].clear();
        self.lists[kind.index()] = ListEvent::None;
        self.forgotten[kind.index()] = true;
    }

    /// Returns the names of the Services that have changed.
    pub fn services(&self) -> impl Iterator<Item = &Arc<str>> {
        self.services.names()
    }

    /// Takes the changes of slices and Endpoints, in an order in which they can be applied. Changes of whole lists, and
    /// kinds that are forgotten, are returned too, but stay.
    pub fn take_published(&mut self) -> impl Iterator<Item = Change> + use<> {
        let kinds = || Kind::ALL.into_iter();
        let forgotten = kinds().zip(self.forgotten).filter(|(_, forgotten)| *forgotten);
        let ends = kinds().zip(self.lists).filter_map(|(kind, list)| match list {
            ListEvent::Ended { epoch, version } => Some(Change::End(kind, epoch, version)),
            ListEvent::None | ListEvent::Begun => None,
        });
        let outputs = std::mem::take(&mut self.outputs).into_iter();
        let outputs = outputs.flat_map(Latest::into_entries);
        let outputs = outputs.map(|(_, event)| Change::Output(event));
        let forgotten = forgotten.map(|(kind, _)| Change::Forget(kind));
        forgotten.chain(outputs).chain(ends)
    }

    fn push_pod(&mut self, facts: PodFacts, epoch: u8) {
        let mut earlier = SmallVec::new();
        if let Some(PodEvent {
            latest: Some((old, _)),
            earlier: before,
        }) = self.pods.get_mut(&facts.name)
        {
            earlier = std::mem::take(before);
            if let Some(time) = old.ready_time.filter(|_| old.ready_time != facts.ready_time) {
                match earlier[..] {
                    [] => earlier.push(time),
                    [first] if time > first => earlier.push(time),
                    [first, next] if time > first && time < next => earlier[1] = time,
                    _ => {}
                }
            }
        }
        self.pods.insert(
            facts.name.clone(),
            PodEvent {
                latest: Some((facts, epoch)),
                earlier,
            },
        );
    }

    /// Applies everything that waits, as [`Applying`] does.
    pub fn apply(self, state: &mut NamespaceState, nodes: &mut dyn NodeDirectory) {
        let done = self.begin().step(state, nodes, &mut TurnBudget::unlimited());
        debug_assert!(done, "an unlimited budget is never spent");
    }

    /// Begins to apply everything that waits.
    pub fn begin(self) -> Applying {
        let ends = Kind::ALL.into_iter().zip(self.lists);
        Applying {
            forgotten: self.forgotten,
            nodes: self.nodes.into_entries(),
            pods: self.pods.into_entries(),
            matching: None,
            services: self.services.into_entries(),
            outputs: self.outputs.map(Latest::into_entries),
            zones: self.zones,
            zones_watched: false,
            lists: ends
                .filter(|(_, list)| !matches!(list, ListEvent::None))
                .collect(),
            unlisted: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::facts::NodeFacts;
    use crate::core::namespace::{ObjectEvent, PendingLists, Settings};
    use crate::core::nodes::NodeTable;

    fn pod(time: i64) -> PodFacts {
        PodFacts {
            ready_time: Some(Time::from_seconds(time)),
            ..PodFacts::bare("p")
        }
    }

    fn slice_gone(name: &str, version: u64) -> Change {
        Change::Output(OutputEvent::Slice(ObjectEvent::Gone(name.into(), version)))
    }

    /// Returns the earliest of the merged times that lies after `known`.
    fn earliest_after(known: i64, times: &[i64]) -> Option<i64> {
        let mut pending = Pending::default();
        for &time in times {
            pending.push(Change::Pod(pod(time), 0));
        }
        let (_, PodEvent { latest, earlier }) = pending.pods.into_entries().next().unwrap();
        let latest = latest.and_then(|(facts, _)| facts.ready_time);
        let after = earlier
            .into_iter()
            .chain(latest)
            .filter(|t| *t > Time::from_seconds(known))
            .min();
        times
            .iter()
            .copied()
            .find(|t| after == Some(Time::from_seconds(*t)))
    }

    #[test]
    fn merging_keeps_the_earliest_time_that_moves_forward() {
        assert_eq!(earliest_after(1, &[2, 3, 4]), Some(2));
        assert_eq!(
            earliest_after(2, &[2, 3, 4]),
            Some(3),
            "the first event was known already"
        );
        assert_eq!(earliest_after(2, &[2, 4, 3]), Some(3));
        assert_eq!(earliest_after(0, &[5]), Some(5));
        assert_eq!(earliest_after(5, &[5, 5]), None);
    }

    #[test]
    fn the_latest_event_of_an_object_is_all_that_waits() {
        let mut pending = Pending::default();
        assert!(pending.is_empty());
        for i in 0..1000 {
            pending.push(Change::Pod(pod(i), 0));
        }
        pending.push(Change::PodGone("p".into()));
        assert_eq!(pending.len(), 1);
        assert!(pending.pods.get("p").unwrap().latest.is_none());
    }

    #[test]
    fn what_came_before_a_kind_was_forgotten_is_forgotten() {
        let mut pending = Pending::default();
        pending.push(slice_gone("before", 7));
        pending.push(Change::Output(OutputEvent::Endpoints(ObjectEvent::Gone(
            "before".into(),
            7,
        ))));
        pending.push(Change::Begin(Kind::Slice));
        pending.push(Change::Forget(Kind::Slice));
        pending.push(slice_gone("after", 5));
        let [slices, endpoints, _] = &pending.outputs;
        let version = slices.get("after").map(OutputEvent::version);
        assert_eq!((version, slices.len()), (Some(5), 1));
        assert_eq!(endpoints.len(), 1, "another kind");
        assert!(matches!(pending.lists[Kind::Slice.index()], ListEvent::None));

        let mut state = NamespaceState::new("ns".into(), Settings::default(), PendingLists::NONE);
        pending.apply(&mut state, &mut NodeTable::default());
        assert_eq!(state.plan(), []);
        let mut ended = Pending::default();
        ended.push(Change::End(Kind::Slice, 1, 9));
        ended.apply(&mut state, &mut NodeTable::default());
        assert!(state.is_empty());
    }

    #[test]
    fn an_older_view_of_a_slice_or_node_does_not_replace_a_newer_one() {
        let mut pending = Pending::default();
        pending.push(slice_gone("s", 7));
        pending.push(slice_gone("s", 5));
        assert_eq!(pending.outputs[0].get("s").unwrap().version(), 7);
        for (version, facts) in [(2, None), (1, Some(NodeFacts::default()))] {
            pending.push(Change::Node(Arc::new(NodeView {
                name: "n".into(),
                version,
                facts,
                zone: None,
            })));
        }
        assert_eq!(pending.nodes.get("n").unwrap().version, 2);
    }
}
