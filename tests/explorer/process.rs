//! One controller as a machine: the shard, the publisher and what lies between them, each with the queue that its
//! actor has. A step is what an actor does in one turn.

use crate::model::{self, NAMESPACE, WatchEvent};
use endpointd::core::body::Request;
use endpointd::core::facts::{EndpointsFacts, NodeFacts, PodFacts, ServiceFacts, SliceFacts};
use endpointd::core::inbox::{Event, Pending};
use endpointd::core::namespace::{Kind, NamespaceState, Outcome, Settings};
use endpointd::core::nodes::NodeTable;
use endpointd::core::object::{ObjectKey, ObjectName};
use endpointd::core::publish::reports::{Report, Reports};
use endpointd::core::publish::{Load, Next, Pacing, Publisher, Replied};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// A message to the shard.
#[derive(Clone, Debug)]
pub(crate) enum ToShard {
    Wake,
    Grant(ObjectName),
    Outcome(ObjectName, Outcome),
}

/// A message to the writer.
#[derive(Clone, Debug)]
pub(crate) enum ToWriter {
    Wake,
    Done(ObjectName, Outcome, Load),
    Tick,
    Writes(bool),
}

/// A request that is out.
#[derive(Clone, Debug)]
pub(crate) enum Flight {
    /// The server has yet to look at it.
    Sent(Request),
    /// It has an answer, which has yet to arrive.
    Answered(Outcome, Load),
}

/// Everything that a list of a kind shows.
#[derive(Clone, Debug)]
pub(crate) enum Listed {
    Nodes(Vec<(Arc<str>, NodeFacts)>),
    Pods(Vec<PodFacts>),
    Services(Vec<ServiceFacts>),
    Slices(Vec<SliceFacts>),
    Endpoints(Vec<EndpointsFacts>),
}

/// A controller.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) shard: NamespaceState,
    nodes: NodeTable,
    inbox: Pending,
    shard_woken: bool,
    pub(crate) to_shard: VecDeque<ToShard>,
    reports: Reports,
    writer_woken: bool,
    pub(crate) to_writer: VecDeque<ToWriter>,
    pub(crate) publisher: Publisher,
    pub(crate) tick: Option<Duration>,
    now: Duration,
    pub(crate) flights: BTreeMap<ObjectName, Flight>,
    /// By kind, how often it was listed.
    epochs: [u8; Kind::ALL.len()],
    /// How many changes of pods are in the inbox, and how many the shard has applied.
    pub(crate) delivered: usize,
    pub(crate) applied: usize,
    /// Whether the process may start writes.
    pub(crate) fence: bool,
}

impl Process {
    pub(crate) fn new(settings: Settings, window: usize, holds: endpointd::core::namespace::Holds) -> Self {
        let pacing = Pacing {
            qps: 0.0,
            burst: 1,
            in_flight: window,
            slice_batch: Duration::ZERO,
            endpoints_batch: Duration::ZERO,
        };
        Self {
            shard: NamespaceState::new(NAMESPACE.into(), settings, holds),
            nodes: NodeTable::default(),
            inbox: Pending::default(),
            shard_woken: false,
            to_shard: VecDeque::new(),
            reports: Reports::default(),
            writer_woken: false,
            to_writer: VecDeque::new(),
            publisher: Publisher::new(pacing, 0),
            tick: None,
            now: Duration::ZERO,
            flights: BTreeMap::new(),
            epochs: [0; Kind::ALL.len()],
            delivered: 0,
            applied: 0,
            fence: true,
        }
    }

    /// Puts events into the inbox, as the router does.
    pub(crate) fn deliver(&mut self, events: impl IntoIterator<Item = Event>) {
        for event in events {
            self.inbox.push(event);
        }
        if !std::mem::replace(&mut self.shard_woken, true) {
            self.to_shard.push_back(ToShard::Wake);
        }
    }

    /// The watch of an output shows something.
    pub(crate) fn show(&mut self, event: WatchEvent) {
        let epoch = |kind: Kind| self.epochs[kind.index()];
        let event = match event {
            WatchEvent::Seen(meta) => Event::SliceMeta(meta, epoch(Kind::Slice)),
            WatchEvent::Gone(name, version) => Event::SliceGone(name, version),
            WatchEvent::Endpoints(meta) => Event::EndpointsMeta(meta, epoch(Kind::Endpoints)),
            WatchEvent::EndpointsGone(name, version) => Event::EndpointsGone(name, version),
        };
        self.deliver([event]);
    }

    /// The watch of pods shows a change.
    pub(crate) fn show_pod(&mut self, pod: Result<PodFacts, Box<str>>) {
        let epoch = self.epochs[Kind::Pod.index()];
        self.deliver([match pod {
            Ok(facts) => Event::Pod(facts, epoch),
            Err(name) => Event::PodGone(name),
        }]);
    }

    /// A list is whole: it is handed on in one go.
    pub(crate) fn list(&mut self, listed: Listed, version: u64, lift: bool) {
        let kind = match listed {
            Listed::Nodes(_) => Kind::Node,
            Listed::Pods(_) => Kind::Pod,
            Listed::Services(_) => Kind::Service,
            Listed::Slices(_) => Kind::Slice,
            Listed::Endpoints(_) => Kind::Endpoints,
        };
        self.epochs[kind.index()] += 1;
        let epoch = self.epochs[kind.index()];
        let mut events = vec![Event::Begin(kind)];
        match listed {
            Listed::Nodes(nodes) => {
                for (name, facts) in nodes {
                    if let Some(change) = self.nodes.apply(&name, facts, epoch) {
                        events.push(Event::Node(change.view));
                    }
                }
            }
            Listed::Pods(pods) => events.extend(pods.into_iter().map(|pod| Event::Pod(pod, epoch))),
            Listed::Services(services) => {
                events.extend(services.into_iter().map(|service| Event::Service(service, epoch)));
            }
            Listed::Slices(slices) => {
                let ours = slices.into_iter().filter(model::is_ours);
                events.extend(ours.map(|slice| Event::Slice(Box::new(slice), epoch)));
            }
            Listed::Endpoints(endpoints) => {
                events.extend(
                    endpoints
                        .into_iter()
                        .map(|e| Event::Endpoints(Box::new(e), epoch)),
                );
            }
        }
        if lift {
            events.push(Event::End(kind, epoch, version));
        }
        self.deliver(events);
    }

    /// The shard handles its next message.
    pub(crate) fn shard_turn(&mut self) {
        let mut said = Vec::new();
        match self.to_shard.pop_front() {
            None => return,
            Some(ToShard::Wake) => {
                self.shard_woken = false;
                self.applied = self.delivered;
                std::mem::take(&mut self.inbox).apply(&mut self.shard, &mut self.nodes);
            }
            Some(ToShard::Grant(object)) => {
                let reply = self.shard.reply_to_grant(&object);
                said.push((object, reply));
            }
            Some(ToShard::Outcome(object, outcome)) => {
                let reply = self.shard.reply_to_outcome(&object, outcome, None);
                said.push((object, reply));
            }
        }
        let wanted = self.shard.plan().into_iter();
        said.extend(wanted.map(|want| (want.object.clone(), Report::Wanted(want))));
        // Nobody takes them here, and they are no part of what decides.
        drop((
            self.shard.take_remarks(),
            self.shard.take_syncs(),
            self.shard.take_work(),
        ));
        for (object, report) in said {
            self.reports.say(key(object), report, self.now);
        }
        if !self.reports.is_empty() && !std::mem::replace(&mut self.writer_woken, true) {
            self.to_writer.push_back(ToWriter::Wake);
        }
    }

    /// The writer handles its next message.
    pub(crate) fn writer_turn(&mut self) {
        match self.to_writer.pop_front() {
            None => return,
            Some(ToWriter::Wake) => {
                self.writer_woken = false;
                while let Some((key, reported)) = self.reports.take() {
                    match self.publisher.reported(&key, reported, self.now) {
                        Replied::Send(granted) => self.send(key.object, granted.request),
                        Replied::Unsent => self.done(&key.object, Outcome::Refused, Load::Unknown),
                        Replied::Nothing => {}
                    }
                }
            }
            Some(ToWriter::Done(object, outcome, load)) => self.done(&object, outcome, load),
            Some(ToWriter::Tick) => self.tick = self.tick.filter(|&at| at > self.now),
            Some(ToWriter::Writes(writes)) => self.publisher.set_writes(writes),
        }
        loop {
            match self.publisher.next(self.now) {
                Next::Grant { key, .. } => self.to_shard.push_back(ToShard::Grant(key.object)),
                Next::Wait { until, .. } => {
                    if let Some(until) = until.filter(|until| self.tick.is_none_or(|tick| tick > *until)) {
                        self.tick = Some(until);
                    }
                    return;
                }
            }
        }
    }

    fn send(&mut self, object: ObjectName, request: Request) {
        let reads = matches!(request, Request::Fetch | Request::Probe);
        let flight = if self.fence || reads {
            Flight::Sent(request)
        } else {
            Flight::Answered(Outcome::Unknown, Load::Unknown)
        };
        let before = self.flights.insert(object, flight);
        assert!(before.is_none(), "an object has one request out");
    }

    fn done(&mut self, object: &ObjectName, outcome: Outcome, load: Load) {
        self.to_shard.push_back(ToShard::Outcome(object.clone(), outcome));
        self.publisher
            .answered(&key(object.clone()), load, Duration::ZERO, None, true, self.now);
    }

    /// The answer to an object's request arrives.
    pub(crate) fn answer(&mut self, object: &ObjectName) {
        if let Some(Flight::Answered(outcome, load)) = self.flights.remove(object) {
            self.to_writer
                .push_back(ToWriter::Done(object.clone(), outcome, load));
        }
    }

    /// The time comes that the publisher waits for.
    pub(crate) fn pass_time(&mut self) {
        if let Some(tick) = self.tick {
            self.now = self.now.max(tick);
            self.to_writer.push_back(ToWriter::Tick);
        }
    }

    /// What is left to do where nothing is on its way any more: nothing, if all is well.
    pub(crate) fn leftovers(&mut self) -> Option<String> {
        if !self.publisher.queue().is_idle() {
            return Some("the publisher keeps an object that nobody will ask for".to_owned());
        }
        if !self.reports.is_empty() {
            return Some("the writer was not woken for what a shard has said".to_owned());
        }
        let wanted = self.shard.plan();
        (!wanted.is_empty()).then(|| format!("the shard wants something and has not said so: {wanted:?}"))
    }
}

fn key(object: ObjectName) -> ObjectKey {
    ObjectKey {
        namespace: NAMESPACE.into(),
        object,
    }
}
