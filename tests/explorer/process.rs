//! One controller as a machine: the shard, the publisher and what lies between them, each with the queue that its
//! actor has. A step is what an actor does in one turn.

use crate::model::{self, NAMESPACE, WatchEvent};
use crate::search::Part;
use endpointd::cluster::codec::Protobuf;
use endpointd::core::body::Request;
use endpointd::core::facts::{EndpointsFacts, NodeFacts, PodFacts, ServiceFacts, SliceFacts};
use endpointd::core::hash::Hashed;
use endpointd::core::inbox::{Change, Pending};
use endpointd::core::leadership::Term;
use endpointd::core::leadership::role::Role;
use endpointd::core::lists::Demand;
use endpointd::core::lists::list_state::{Announcement, ListState};
use endpointd::core::lists::list_watch::{Action, End, ListWatch};
use endpointd::core::namespace::{Kind, NamespaceState, Outcome, OutputEvent, Settings};
use endpointd::core::nodes::NodeTable;
use endpointd::core::object::{ObjectKey, ObjectName, Output};
use endpointd::core::publish::reports::{Report, Reports, Taken};
use endpointd::core::publish::signals::{Signal, Signals};
use endpointd::core::publish::throttling::Limit;
use endpointd::core::publish::{
    Landing, Load, Next, Pacing, Publisher, Replied, Resource, WatchLimits, Watchers, WriteEffect,
};
use endpointd::core::work::TurnBudget;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// A message to the shard.
#[derive(Clone, Debug)]
pub(crate) enum ToShard {
    Wake,
    Grant(ObjectName),
    Outcome(ObjectName, Outcome),
    Due,
}

/// A message to the writer.
#[derive(Clone, Debug)]
pub(crate) enum ToWriter {
    Wake,
    Done(ObjectName, Outcome, Load),
    Tick,
    Ping,
}

/// A request that is out.
#[derive(Clone, Debug)]
pub(crate) enum Flight {
    /// The server has yet to look at it.
    Sent(Request),
    /// The server has answered, and the answer has yet to arrive.
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
    Mirrored(Vec<SliceFacts>),
}

/// The state that the shard owns, and the nodes that it looks at.
#[derive(Clone, Debug)]
pub(crate) struct Shard {
    pub(crate) state: NamespaceState,
    nodes: NodeTable,
}

/// The list and watch of pods of a process that has just begun to lead.
#[derive(Clone, Debug)]
pub(crate) struct Pods {
    view: ListWatch,
    pub(crate) listing: bool,
    pub(crate) reading: bool,
    watching: bool,
}

/// A controller.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) shard: Part<Shard>,
    inbox: Part<Pending>,
    shard_woken: bool,
    /// The shard is told the time. Where nothing waits for it, states are fewer without.
    pub(crate) looks_at_time: bool,
    pub(crate) to_shard: VecDeque<ToShard>,
    reports: Reports,
    /// Writes wait for their echoes, and these have yet to reach the writer.
    echoes: bool,
    signals: Signals,
    awaits_echo: bool,
    writer_woken: bool,
    pub(crate) to_writer: VecDeque<ToWriter>,
    publisher: Part<Publisher>,
    tick: Option<Duration>,
    pub(crate) timer: Option<Duration>,
    pub(crate) now: Duration,
    pub(crate) flights: BTreeMap<ObjectName, Flight>,
    picture: ListState,
    pub(crate) pods: Option<Pods>,
    /// By kind, how often it was listed.
    pub(crate) epochs: [u8; Kind::ALL.len()],
    /// How many changes of pods are in the inbox, and how many the shard has applied.
    pub(crate) delivered: usize,
    applied: usize,
    /// How many changes of pods the shard has to apply before anything is written.
    floor: usize,
    /// A write left before that.
    pub(crate) stale: bool,
    /// The process holds the lease, in the term of this number.
    pub(crate) leads: bool,
    term: u64,
}

impl Process {
    /// One that begins now, and writes from the beginning. A namespace may have half of the window, rounded up.
    pub(crate) fn new(settings: Settings, window: usize, echoes: bool) -> Self {
        let mut pacing = Pacing::unlimited(2 * window - 1);
        if echoes {
            pacing.watch = WatchLimits {
                watchers: Watchers::Fixed(1),
                places: 2,
                ..WatchLimits::UNWATCHED
            };
        }
        let picture = ListState::new(settings.outputs);
        Self {
            shard: Part::new(Shard {
                state: NamespaceState::new(NAMESPACE.into(), settings, picture.holding_back()),
                nodes: NodeTable::default(),
            }),
            inbox: Part::new(Pending::default()),
            shard_woken: false,
            looks_at_time: false,
            to_shard: VecDeque::new(),
            reports: Reports::default(),
            echoes,
            signals: Signals::default(),
            awaits_echo: false,
            writer_woken: false,
            to_writer: VecDeque::new(),
            publisher: Part::new(Publisher::new(pacing, 0)),
            tick: None,
            timer: None,
            now: Duration::ZERO,
            flights: BTreeMap::new(),
            picture,
            pods: None,
            epochs: [0; Kind::ALL.len()],
            delivered: 0,
            applied: 0,
            floor: 0,
            stale: false,
            leads: true,
            term: 0,
        }
    }

    /// A standby that knows the inputs as listed wins the lease when so many changes of pods have happened. It may have
    /// been waiting to try a broken watch again.
    pub(crate) fn win(&mut self, shown: usize, happened: usize, broken: bool) {
        (self.delivered, self.applied) = (shown, shown);
        self.begin_term(happened, broken);
    }

    /// Takes the lease away, and with it all knowledge of outputs. Nothing waits for the requests in flight any
    /// more, which are returned.
    pub(crate) fn lose(&mut self) -> BTreeMap<ObjectName, Flight> {
        (self.leads, self.term) = (false, self.term + 1);
        self.change_role(Role::Standby);
        for kind in model::WRITTEN {
            let announcement = self.picture.forget(kind);
            self.announce(announcement);
        }
        let flights = std::mem::take(&mut self.flights);
        for object in flights.keys() {
            self.to_writer
                .push_back(ToWriter::Done(object.clone(), Outcome::Unknown, Load::Unknown));
        }
        flights
    }

    /// Gives the lease back.
    pub(crate) fn win_again(&mut self, happened: usize) {
        (self.leads, self.term) = (true, self.term + 1);
        self.begin_term(happened, false);
        self.change_role(Role::Leader);
    }

    /// Begins a term, in which nothing may be written on what was known before so many changes of pods.
    fn begin_term(&mut self, happened: usize, broken: bool) {
        let shown = self.delivered;
        self.floor = happened;
        let mut view = ListWatch::new(Demand::default());
        assert_eq!(view.act(self.now), Some(Action::List));
        view.listed(version(shown), 1, self.now, 0.5);
        let mut pods = Pods {
            view,
            listing: false,
            reading: false,
            watching: false,
        };
        while pods.view.act(self.now).is_some() {}
        pods.watching = true;
        if broken {
            pods.view.ended(End::Broken, self.now, 0.5);
            pods.watching = false;
        }
        self.pods = Some(pods);
        let announcements = self.picture.begin_term();
        self.announce(announcements);
        let demand = self.picture.demand();
        // These never change here, so any view of them is as new as the term.
        for kind in [Kind::Node, Kind::Service] {
            let announcement = self.picture.prove(kind, demand);
            self.announce(announcement);
        }
        if let Some(pods) = &mut self.pods {
            pods.view.demanded(demand, self.now);
        }
        self.follow_pods();
    }

    /// Does what the view of pods asks for.
    fn follow_pods(&mut self) {
        let Some(mut pods) = self.pods.take() else {
            return;
        };
        while let Some(action) = pods.view.act(self.now) {
            match action {
                Action::List => (pods.listing, pods.watching) = (true, false),
                Action::Watch { .. } => (pods.listing, pods.watching) = (false, true),
                Action::ReadVersion => pods.reading = true,
                Action::Prove(demand) => {
                    let announcement = self.picture.prove(Kind::Pod, demand);
                    self.announce(announcement);
                }
                Action::Rewound { .. } => panic!("no version goes backwards here"),
            }
        }
        if pods.view.is_idle() {
            (pods.listing, pods.watching) = (false, false);
        }
        pods.reading &= pods.view.is_reading();
        self.pods = Some(pods);
    }

    /// True if the process has not taken over from another.
    pub(crate) fn leads_from_the_start(&self) -> bool {
        self.pods.is_none()
    }

    /// True while the watch of pods is open.
    pub(crate) fn watches_pods(&self) -> bool {
        self.pods.as_ref().is_none_or(|pods| pods.watching)
    }

    /// True if a bookmark of the watch of pods would make a difference.
    pub(crate) fn wants_bookmark(&self) -> bool {
        let pods = self.pods.as_ref();
        pods.is_some_and(|pods| pods.watching && !pods.view.is_proven())
    }

    /// When the view of pods does something by itself.
    pub(crate) fn view_wakes(&self) -> Option<Duration> {
        self.pods.as_ref()?.view.wake()
    }

    pub(crate) fn wake_view(&mut self) {
        if let Some(at) = self.view_wakes() {
            self.now = self.now.max(at);
        }
        self.follow_pods();
    }

    /// The version that the server has of pods is read.
    pub(crate) fn read_version(&mut self, happened: usize) {
        if let Some(pods) = &mut self.pods {
            pods.reading = false;
            pods.view.version_read(Ok(version(happened)), self.now, 0.5);
        }
        self.follow_pods();
    }

    /// The watch of pods has shown all that has happened, and a bookmark says so.
    pub(crate) fn bookmark(&mut self, happened: usize) {
        if let Some(pods) = &mut self.pods {
            pods.view.shown(version(happened));
        }
        self.follow_pods();
    }

    /// A list of pods arrives that the view asked for.
    pub(crate) fn list_pods(&mut self, pods: Vec<PodFacts>, happened: usize) {
        self.delivered = happened;
        let asked = self.pods.as_ref().and_then(|pods| pods.view.listing());
        self.list_under(Listed::Pods(pods), version(happened), asked.unwrap_or_default());
        if let Some(pods) = &mut self.pods {
            pods.listing = false;
            pods.view.listed(version(happened), 1, self.now, 0.5);
        }
        self.follow_pods();
    }

    /// True while a kind that others wrote is still to be listed.
    pub(crate) fn awaits(&self, kind: Kind) -> bool {
        !self.picture.is_listed(kind)
    }

    fn announce(&mut self, announcements: impl IntoIterator<Item = Announcement>) {
        let events: Vec<_> = announcements.into_iter().map(Change::from).collect();
        if !events.is_empty() {
            self.deliver(events);
        }
    }

    /// Puts events into the inbox, as the router does.
    pub(crate) fn deliver(&mut self, events: impl IntoIterator<Item = Change>) {
        for event in events {
            self.inbox.change().push(event);
        }
        if !std::mem::replace(&mut self.shard_woken, true) {
            self.to_shard.push_back(ToShard::Wake);
        }
    }

    /// The watch of an output is opened, or ends.
    pub(crate) fn watches(&mut self, kind: Kind, from: Option<u64>) {
        if let Some(output) = kind.output() {
            self.signal([Signal::Opened(output, from)]);
        }
    }

    /// The echo of a write arrives so many times.
    pub(crate) fn echo(&mut self, event: &WatchEvent, times: usize) {
        let (output, gone, version) = match event {
            WatchEvent::Seen(meta) => (Output::Slice, None, meta.version),
            WatchEvent::Gone(name, version) => (Output::Slice, Some(&**name), *version),
            WatchEvent::Endpoints(meta) => (Output::Endpoints, None, meta.version),
            WatchEvent::EndpointsGone(name, version) => (Output::Endpoints, Some(&**name), *version),
            WatchEvent::Mirrored(meta) => (Output::Mirrored, None, meta.version),
            WatchEvent::MirroredGone(name, version) => (Output::Mirrored, Some(&**name), *version),
        };
        let at = self.now;
        let deleted = gone.map(|name| {
            let name = name.into();
            Signal::Deleted(key(ObjectName { output, name }))
        });
        let shown = Signal::Shown { output, version, at };
        for _ in 0..times {
            self.signal(deleted.iter().chain([&shown]).cloned());
        }
    }

    fn signal(&mut self, signals: impl IntoIterator<Item = Signal>) {
        if self.echoes {
            signals.into_iter().for_each(|signal| self.signals.push(signal));
            self.wake_writer();
        }
    }

    /// The watch of an output shows something.
    pub(crate) fn show(&mut self, event: WatchEvent) {
        let event = event.in_list(|kind| self.epochs[kind.index()]);
        self.deliver([Change::Output(event)]);
    }

    /// The watch of pods shows a change.
    pub(crate) fn show_pod(&mut self, pod: Result<PodFacts, Box<str>>) {
        self.delivered += 1;
        let epoch = self.epochs[Kind::Pod.index()];
        self.deliver([match pod {
            Ok(facts) => Change::Pod(facts, epoch),
            Err(name) => Change::PodGone(name),
        }]);
        if let Some(pods) = &mut self.pods {
            pods.view.shown(version(self.delivered));
        }
        self.follow_pods();
    }

    /// A list that was asked for just now is whole: it is handed on in one go.
    pub(crate) fn list(&mut self, listed: Listed, version: u64) {
        let demand = self.picture.demand();
        let kind = listed.kind();
        self.list_under(listed, version, demand);
        // A list that was asked for under a demand meets it.
        let announcement = self.picture.prove(kind, demand);
        self.announce(announcement);
    }

    fn list_under(&mut self, listed: Listed, version: u64, asked: Demand) {
        let kind = listed.kind();
        self.epochs[kind.index()] += 1;
        let epoch = self.epochs[kind.index()];
        let begin = self.picture.begin_list(kind);
        self.announce(begin);
        let mut events = Vec::new();
        match listed {
            Listed::Nodes(nodes) => {
                for (name, facts) in nodes {
                    if let Some(change) = self.shard.change().nodes.apply(&name, facts, epoch) {
                        events.push(Change::Node(change.view));
                    }
                }
            }
            Listed::Pods(pods) => events.extend(pods.into_iter().map(|pod| Change::Pod(pod, epoch))),
            Listed::Services(services) => {
                events.extend(
                    services
                        .into_iter()
                        .map(|service| Change::Service(service, epoch)),
                );
            }
            Listed::Slices(slices) => {
                let ours = slices.into_iter().filter(model::is_ours);
                events.extend(ours.map(|slice| Change::Output(OutputEvent::slice(slice, epoch))));
            }
            Listed::Endpoints(endpoints) => {
                events.extend(
                    endpoints
                        .into_iter()
                        .map(|e| Change::Output(OutputEvent::endpoints(e, epoch))),
                );
            }
            Listed::Mirrored(slices) => {
                let mirrored = slices.into_iter().filter(SliceFacts::is_mirrored);
                events.extend(mirrored.map(|slice| Change::Output(OutputEvent::mirrored(slice, epoch))));
            }
        }
        self.deliver(events);
        let end = self.picture.end_list(kind, epoch, version, asked);
        self.announce(end);
        self.watches(kind, Some(version));
    }

    /// The shard handles its next message.
    pub(crate) fn shard_turn(&mut self) {
        let mut said = Vec::new();
        if self.looks_at_time {
            self.shard.change().state.advance(self.now);
        }
        let Some(message) = self.to_shard.pop_front() else {
            return;
        };
        let Shard { state, nodes } = self.shard.change();
        match message {
            ToShard::Wake => {
                self.shard_woken = false;
                self.applied = self.delivered;
                std::mem::take(self.inbox.change()).apply(state, nodes);
            }
            ToShard::Grant(object) => {
                let reply = Report::to_grant(state.build_request(&object, &mut Protobuf));
                said.push((object, reply));
            }
            ToShard::Outcome(object, outcome) => {
                let reply = Report::to_outcome(state.apply_outcome(&object, outcome, None));
                said.push((object, reply));
            }
            ToShard::Due => {
                while state.look_at_one(self.now) {
                    state.step_passes(&mut TurnBudget::unlimited());
                }
            }
        }
        let planned = state.plan().into_iter();
        said.extend(planned.map(|item| (item.object.clone(), Report::Wanted(item))));
        let decides_nothing = (state.take_notices(), state.take_contested());
        drop((decides_nothing, state.take_syncs(), state.take_work()));
        let namespace = Hashed::new(NAMESPACE.into());
        for (object, report) in said {
            self.reports
                .push(&namespace, Hashed::new(object), report, self.now);
        }
        self.wake_writer();
    }

    fn change_role(&mut self, role: Role) {
        self.reports.change_role(role);
        self.wake_writer();
    }

    fn wake_writer(&mut self) {
        let waits = self.reports.is_urgent() || (self.awaits_echo && !self.signals.is_empty());
        if waits && !std::mem::replace(&mut self.writer_woken, true) {
            self.to_writer.push_back(ToWriter::Wake);
        }
    }

    /// Returns whether reports wait that the writer would take.
    pub(crate) fn has_reports(&self) -> bool {
        self.reports.settled() > 0 || self.reports.is_urgent()
    }

    /// The writer takes what the shard has reported, and changes of role.
    fn take_reports(&mut self) {
        while let Some(taken) = self.reports.take() {
            let (key, reported) = match taken {
                Taken::Role(change) => {
                    self.publisher.change().change_role(change);
                    continue;
                }
                Taken::Reported(key, reported) => (key, reported),
            };
            match self.publisher.change().reported(&key, reported, self.now) {
                Replied::Send(built) => self.send((*key.object).clone(), built.request),
                Replied::Unsent => self.done(&key.object, Outcome::Throttled, Load::Unknown),
                Replied::Nothing => {}
            }
        }
    }

    /// The writer handles a message.
    pub(crate) fn tell_writer(&mut self, message: ToWriter) {
        self.publisher.change().set_term(Term(self.term));
        for signal in self.signals.take() {
            self.publisher.change().signalled(&signal, self.now);
        }
        match message {
            ToWriter::Wake => {
                self.writer_woken = false;
                self.take_reports();
            }
            ToWriter::Done(object, outcome, load) => self.done(&object, outcome, load),
            ToWriter::Tick => self.tick = self.tick.filter(|&at| at > self.now),
            ToWriter::Ping => self.take_reports(),
        }
        if self.echoes {
            self.publisher.change().take_echoes();
            self.publisher.change().take_sent();
            self.publisher.change().take_beyond();
        }
        loop {
            match self.publisher.change().next(self.now) {
                Next::Grant { key, .. } => self.to_shard.push_back(ToShard::Grant((*key.object).clone())),
                Next::Wait { until, limited } => {
                    self.awaits_echo = limited == Some(Limit::Echoes);
                    if let Some(until) = until.filter(|until| self.tick.is_none_or(|tick| tick > *until)) {
                        (self.tick, self.timer) = (Some(until), Some(until));
                    }
                    return;
                }
            }
        }
    }

    fn send(&mut self, object: ObjectName, request: Request) {
        let reads = matches!(request, Request::Fetch | Request::Probe);
        if !self.leads && !reads {
            // The fence is closed.
            self.to_writer
                .push_back(ToWriter::Done(object, Outcome::Unknown, Load::Unknown));
            return;
        }
        self.stale |= !reads && self.applied < self.floor;
        let before = self.flights.insert(object, Flight::Sent(request));
        assert!(before.is_none(), "an object has one request out");
    }

    fn done(&mut self, object: &ObjectName, outcome: Outcome, load: Load) {
        let landing = Landing {
            load,
            effect: WriteEffect::of(&outcome, load),
            took: Duration::ZERO,
            pause: None,
            has_shard: true,
        };
        self.to_shard.push_back(ToShard::Outcome(object.clone(), outcome));
        self.publisher
            .change()
            .answered(&key(object.clone()), landing, self.now);
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
        if let Some(at) = self.timer.take() {
            self.now = self.now.max(at);
            self.to_writer.push_back(ToWriter::Tick);
        }
    }

    /// Work that is left where no message and no request is on its way any more. There should be none.
    pub(crate) fn leftovers(&mut self) -> Option<String> {
        if self.reports.is_urgent() {
            return Some("the writer was not woken for what a shard has said".to_owned());
        }
        // As it does for a scrape of the metrics.
        self.take_reports();
        if !self.publisher.queue().is_idle() {
            return Some("the publisher keeps an object that nobody will ask for".to_owned());
        }
        let mut publisher = self.publisher.clone();
        for signal in self.signals.take() {
            publisher.change().signalled(&signal, self.now);
        }
        publisher.change().next(self.now + MINUTE);
        if Resource::ALL
            .iter()
            .any(|resource| publisher.places(*resource).1 > 0)
        {
            return Some("the place of a write is lost".to_owned());
        }
        if self.picture.holding_back().any() {
            return Some("a kind is never shown to be as new as the term".to_owned());
        }
        let planned = self.shard.change().state.plan();
        (!planned.is_empty()).then(|| format!("the shard has not said of pending writes: {planned:?}"))
    }
}

impl Listed {
    fn kind(&self) -> Kind {
        match self {
            Self::Nodes(_) => Kind::Node,
            Self::Pods(_) => Kind::Pod,
            Self::Services(_) => Kind::Service,
            Self::Slices(_) => Kind::Slice,
            Self::Endpoints(_) => Kind::Endpoints,
            Self::Mirrored(_) => Kind::Mirrored,
        }
    }
}

/// The version of pods after so many changes.
fn version(happened: usize) -> u64 {
    1000 + happened as u64
}

fn key(object: ObjectName) -> Hashed<ObjectKey> {
    ObjectKey::hashed(NAMESPACE, object)
}
