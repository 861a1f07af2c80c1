//! The whole: controllers, an API server, and everything that is on its way between them.

use crate::cases::{Case, Fault, apply, pods_after};
use crate::model::{self, EndpointsTamper, MirroredTamper, Model, WatchEvent};
use crate::process::{Flight, Listed, Process, ToShard, ToWriter};
use crate::search::{Part, System};
use crate::step::Step;
use endpointd::core::body::Request;
use endpointd::core::namespace::{Kind, Outcome, Settings};
use endpointd::core::object::ObjectName;
use endpointd::core::publish::Load;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

/// So often creates fail, where they do.
const FAILURES: u32 = 5;
/// The pauses between these come to 0.75 s at least.
const FAILED_FOR: Duration = Duration::from_millis(740);

/// A state of the whole.
#[derive(Clone)]
pub(crate) struct World<'c> {
    case: &'c Case,
    /// The API server.
    server: Part<Server>,
    /// How many of the case's changes have happened.
    changed: usize,
    /// How many of the case's edits have happened.
    edited: usize,
    process: Process,
    /// By kind, what its watch has yet to show.
    slices: VecDeque<WatchEvent>,
    endpoints: VecDeque<WatchEvent>,
    mirrored: VecDeque<WatchEvent>,
    /// Lists on their way: how many changes pods show, or what the outputs are.
    lists: Vec<(Kind, Listed, u64, usize)>,
    fault: Option<Fault>,
    /// How often creates have failed in a row.
    failed: u32,
    /// Another process is still to take over.
    succession: bool,
    /// The process is still to lose the lease.
    relapse: bool,
    /// Requests of the last leader that are still on their way.
    late: Vec<(ObjectName, Request)>,
}

/// The API server: its objects, without what the model does beside that.
#[derive(Clone)]
struct Server(Model);

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outputs = (&self.0.store, &self.0.endpoints, &self.0.mirrored);
        (outputs, &self.0.version, &self.0.pods).fmt(f)
    }
}

impl fmt::Debug for World<'_> {
    /// All that decides what can happen from here on.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World")
            .field("server", &self.server)
            .field("changed", &(self.changed, self.edited))
            .field("process", &self.process)
            .field("slices", &self.slices)
            .field("endpoints", &self.endpoints)
            .field("mirrored", &self.mirrored)
            .field("lists", &self.lists)
            .field("fault", &(self.fault, self.failed))
            .field("succession", &(self.succession, self.relapse, &self.late))
            .finish()
    }
}

impl<'c> World<'c> {
    /// A controller that has begun on a cluster that was in sync before what happened while none ran; its lists are
    /// in its inbox.
    pub(crate) fn start(case: &'c Case) -> Self {
        let mut server = Model::new(2);
        server.node(0, Some(0));
        for service in &case.services {
            let facts = service.facts().resolve(model::NAMESPACE, case.outputs);
            server.services.insert(facts.name.clone(), facts);
        }
        for pod in &case.pods {
            server.pods.insert(pod.facts().name.clone(), pod.facts());
        }
        let first = case.edits.first().and_then(|edit| edit.spec());
        if let Some(spec) = &first {
            server.custom_endpoints(&case.services[0].facts().name, spec);
            server.watch.clear();
        }
        let mut world = Self {
            case,
            server: Part::new(Server(server)),
            edited: case.edits.len(),
            // None happens before the controller has begun anew.
            changed: case.changes.len(),
            process: Self::process(case),
            slices: VecDeque::new(),
            endpoints: VecDeque::new(),
            mirrored: VecDeque::new(),
            lists: Vec::new(),
            fault: None,
            failed: 0,
            succession: false,
            relapse: false,
            late: Vec::new(),
        };
        if !case.empty {
            world.list_everything();
            world.process.delivered = case.changes.len();
            world.settle();
        }
        for change in &case.before {
            // No watch shows the result.
            let _ = apply(&mut world.server.change().0.pods, *change);
        }
        world.process = Self::process(case);
        world.list_everything();
        (world.changed, world.fault, world.succession) = (0, case.fault, case.succession);
        if case.succession || case.relapse {
            // Other cases play what happens at the start.
            (world.changed, world.process.delivered) = (case.changes.len(), case.changes.len());
            (world.fault, world.succession) = (None, false);
            world.settle();
            (world.changed, world.fault) = (0, case.fault);
            (world.succession, world.relapse) = (case.succession, case.relapse);
            world.process.delivered = 0;
        }
        world.edited = case.edits.len().min(1);
        world
    }

    fn process(case: &Case) -> Process {
        let settings = Settings {
            max_endpoints: 2,
            outputs: case.outputs,
            seed: 7,
            ..Settings::default()
        };
        Process::new(settings, case.window, case.echoes)
    }

    fn list_everything(&mut self) {
        for kind in Kind::needed_for(self.case.outputs) {
            let listed = self.listed(kind);
            self.process.list(listed, self.server.0.version);
        }
    }

    /// The list that the server would answer with now.
    fn listed(&self, kind: Kind) -> Listed {
        match kind {
            Kind::Node => {
                let nodes = self.server.0.zones.iter();
                Listed::Nodes(nodes.map(|(name, facts)| (name.clone(), facts.clone())).collect())
            }
            Kind::Pod => Listed::Pods(self.server.0.pods.values().cloned().collect()),
            Kind::Service => Listed::Services(self.server.0.services.values().cloned().collect()),
            Kind::Slice => Listed::Slices(self.server.0.store.values().cloned().collect()),
            Kind::Endpoints => Listed::Endpoints(self.server.0.endpoints.values().cloned().collect()),
            Kind::Mirrored => Listed::Mirrored(self.server.0.mirrored.values().cloned().collect()),
        }
    }

    /// Takes the first possible step until there is none.
    fn settle(&mut self) {
        for _ in 0..1000 {
            let Some(step) = self.steps().into_iter().next() else {
                return;
            };
            self.take(step).unwrap();
        }
        panic!("the cluster does not come to rest before the case begins");
    }

    /// True while a process that has begun to lead has yet to list a kind that others wrote.
    fn is_awaited(&self, kind: Kind) -> bool {
        let needed = Kind::needed_for(self.case.outputs).any(|needed| needed == kind);
        needed && self.process.leads && self.process.awaits(kind)
    }

    /// True while the process follows the watch of an output.
    fn follows(&self, kind: Kind) -> bool {
        self.process.leads && !self.process.awaits(kind)
    }

    /// Another process takes over; nothing but its requests is left of the last one.
    fn lead(&mut self, shown: usize, broken: bool) {
        self.succession = false;
        let flights = std::mem::take(&mut self.process.flights);
        self.leave(flights);
        self.process = Self::process(self.case);
        for kind in [Kind::Node, Kind::Service, Kind::Pod] {
            let listed = match kind {
                Kind::Pod => Listed::Pods(pods_after(self.case, shown).0),
                kind => self.listed(kind),
            };
            self.process.list(listed, self.server.0.version);
        }
        self.process.shard_turn();
        self.process.win(shown, self.changed, broken);
        self.stop_watching();
    }

    /// Drops what was on its way to a process that does not lead any more.
    fn stop_watching(&mut self) {
        self.slices.clear();
        self.endpoints.clear();
        self.mirrored.clear();
        self.lists.clear();
    }

    /// Leaves requests that are not waited for any more: they are carried out all the same, or not.
    fn leave(&mut self, flights: BTreeMap<ObjectName, Flight>) {
        for (object, flight) in flights {
            if let Flight::Sent(request) = flight
                && !matches!(request, Request::Fetch | Request::Probe)
            {
                self.late.push((object, request));
            }
        }
    }

    fn fault_steps(&self) -> Vec<Step> {
        let Some(fault) = self.fault else {
            return Vec::new();
        };
        let sent = |writes: bool| {
            let sent = self
                .process
                .flights
                .iter()
                .filter(move |(_, flight)| match flight {
                    Flight::Sent(request) => !writes || !matches!(request, Request::Fetch | Request::Probe),
                    Flight::Answered(..) => false,
                });
            sent.map(|(object, _)| Step::FaultOf(object.clone())).collect()
        };
        let stored = || {
            let slices = self.server.0.store.keys();
            let slices = slices.map(|name| ObjectName::slice((&**name).into()));
            let endpoints = self.server.0.endpoints.keys();
            let endpoints = endpoints.map(|name| ObjectName::endpoints(name.clone()));
            let mirrored = self.server.0.mirrored.keys();
            let mirrored = mirrored.map(|name| ObjectName::mirrored((&**name).into()));
            // Endpoints that users write are theirs.
            let endpoints = endpoints.filter(|_| self.case.edits.is_empty());
            slices
                .chain(endpoints)
                .chain(mirrored)
                .map(Step::FaultOf)
                .collect()
        };
        match fault {
            Fault::Conflict => sent(true),
            Fault::LostBefore | Fault::LostAfter | Fault::BareNotFoundOr500 | Fault::Throttled => sent(false),
            Fault::ForeignEdit | Fault::ForeignDelete => stored(),
            Fault::OutputsExpire => Kind::needed_for(self.case.outputs)
                .filter(|kind| kind.is_output() && self.follows(*kind))
                .map(Step::FaultIn)
                .collect(),
            Fault::Scrape if self.process.has_reports() => vec![Step::Scrape],
            Fault::EchoLost | Fault::EchoTwice => [
                (Kind::Slice, self.slices.is_empty()),
                (Kind::Endpoints, self.endpoints.is_empty()),
                (Kind::Mirrored, self.mirrored.is_empty()),
            ]
            .into_iter()
            .filter(|(_, empty)| !empty)
            .map(|(kind, _)| Step::FaultIn(kind))
            .collect(),
            // A new leader's watch of pods breaks as often as it may without that.
            Fault::PodsExpire
                if self.process.delivered == self.changed && self.process.leads_from_the_start() =>
            {
                vec![Step::FaultIn(Kind::Pod)]
            }
            Fault::PodsExpire | Fault::CreatesFail | Fault::Scrape => Vec::new(),
        }
    }

    /// The watch of an output shows its next event, and the writer is told of it so many times.
    fn show_next(&mut self, kind: Kind, times: usize) -> Result<(), String> {
        let events = match kind {
            Kind::Slice => &mut self.slices,
            Kind::Endpoints => &mut self.endpoints,
            Kind::Mirrored => &mut self.mirrored,
            Kind::Node | Kind::Pod | Kind::Service => return Err("inputs have no echoes".to_owned()),
        };
        let event = events.pop_front().ok_or("the watch has nothing to show")?;
        self.process.echo(&event, times);
        self.process.show(event);
        Ok(())
    }

    /// The server looks at a request.
    fn serve(&mut self, object: &ObjectName, fault: Option<Fault>) {
        let Some(Flight::Sent(request)) = self.process.flights.get(object).cloned() else {
            return;
        };
        let fails = self.fault == Some(Fault::CreatesFail)
            && self.failed < FAILURES
            && matches!(request, Request::Create(_));
        self.failed += u32::from(fails);
        let answer = match fault {
            None if fails => (Outcome::Unknown, Load::Declined),
            None => (self.server.change().0.carry_out(object, &request), Load::Answered),
            Some(Fault::LostAfter) => {
                self.server.change().0.carry_out(object, &request);
                (Outcome::Unknown, Load::Unanswered)
            }
            Some(Fault::LostBefore) => (Outcome::Unknown, Load::Unanswered),
            Some(Fault::Conflict) => (Outcome::Conflict, Load::Declined),
            Some(Fault::Throttled) => (Outcome::Throttled, Load::Overloaded),
            // Neither says anything of the object.
            Some(_) => (Outcome::Unknown, Load::Declined),
        };
        let flight = Flight::Answered(answer.0, answer.1);
        self.process.flights.insert(object.clone(), flight);
    }

    fn edit(&mut self, object: &ObjectName) {
        if let Some(mut slice) = self.server.0.store.get(&*object.name).cloned() {
            slice.endpoints.clear();
            self.server.change().0.put_slice(slice);
        } else if self.server.0.mirrored.contains_key(&*object.name) {
            let server = &mut self.server.change().0;
            server.tamper_with_mirrored(&object.name, MirroredTamper::DropEndpoint);
        } else {
            self.server
                .change()
                .0
                .tamper_with_endpoints(&object.name, EndpointsTamper::DropSubset);
        }
    }

    fn delete(&mut self, object: &ObjectName) {
        if self.server.0.store.contains_key(&*object.name) {
            self.server.change().0.delete_slice(&object.name);
        } else if self.server.0.mirrored.contains_key(&*object.name) {
            let server = &mut self.server.change().0;
            server.tamper_with_mirrored(&object.name, MirroredTamper::Delete);
        } else {
            self.server.change().0.delete_endpoints(&object.name);
        }
    }

    /// Moves the events that the server has to show to the watches of their kinds.
    fn sort_events(&mut self) {
        if self.server.0.watch.is_empty() {
            return;
        }
        for event in std::mem::take(&mut self.server.change().0.watch) {
            // Before a kind is listed, and by a process that does not lead, it is not watched.
            match event {
                WatchEvent::Seen(_) | WatchEvent::Gone(..) => {
                    if self.follows(Kind::Slice) {
                        self.slices.push_back(event);
                    }
                }
                WatchEvent::Endpoints(_) | WatchEvent::EndpointsGone(..) => {
                    if self.follows(Kind::Endpoints) {
                        self.endpoints.push_back(event);
                    }
                }
                WatchEvent::Mirrored(_) | WatchEvent::MirroredGone(..) => {
                    if self.follows(Kind::Mirrored) {
                        self.mirrored.push_back(event);
                    }
                }
            }
        }
    }

    /// The next edit of Endpoints happens.
    fn edit_endpoints(&mut self) {
        let edit = self.case.edits[self.edited];
        self.edited += 1;
        let name = self.case.services[0].facts().name;
        let server = &mut self.server.change().0;
        match edit.spec() {
            Some(spec) => server.custom_endpoints(&name, &spec),
            None => server.delete_endpoints(&name),
        }
    }

    /// The next change happens.
    fn happen(&mut self) {
        let change = self.case.changes[self.changed];
        self.changed += 1;
        // The watch shows it when its turn comes.
        let _ = apply(&mut self.server.change().0.pods, change);
    }
}

impl System for World<'_> {
    type Step = Step;

    fn now(&self) -> Option<Duration> {
        // This fault is over at a certain time.
        (self.fault != Some(Fault::CreatesFail)).then_some(self.process.now)
    }

    fn steps(&self) -> Vec<Step> {
        let process = &self.process;
        let mut steps = Vec::new();
        if !process.to_shard.is_empty() {
            steps.push(Step::Shard);
        }
        if !process.to_writer.is_empty() {
            steps.push(Step::Writer);
        }
        for (object, flight) in &process.flights {
            steps.push(match flight {
                Flight::Sent(_) => Step::Serve(object.clone()),
                Flight::Answered(..) => Step::Answer(object.clone()),
            });
        }
        if !self.slices.is_empty() {
            steps.push(Step::Watch(Kind::Slice));
        }
        if !self.endpoints.is_empty() {
            steps.push(Step::Watch(Kind::Endpoints));
        }
        steps.extend(self.lists.first().map(|(kind, ..)| Step::List(*kind)));
        if !self.mirrored.is_empty() {
            steps.push(Step::Watch(Kind::Mirrored));
        }
        if self.edited < self.case.edits.len() {
            steps.push(Step::Edit);
        }
        let outputs = model::WRITTEN.into_iter();
        steps.extend(outputs.filter(|kind| self.is_awaited(*kind)).map(Step::List));
        let listing = self.lists.iter().any(|(kind, ..)| *kind == Kind::Pod);
        if process.delivered < self.case.changes.len() && process.watches_pods() && !listing {
            steps.push(Step::Change);
        }
        if process.wants_bookmark() && process.delivered == self.changed {
            steps.push(Step::Bookmark);
        }
        if process.pods.as_ref().is_some_and(|pods| pods.reading) {
            steps.push(Step::ReadVersion);
        }
        if process.pods.as_ref().is_some_and(|pods| pods.listing) {
            steps.push(Step::ListPods);
        }
        if process.view_wakes().is_some() {
            steps.push(Step::View);
        }
        if process.timer.is_some() {
            steps.push(Step::Time);
        }
        if wait_ends(process).is_some() {
            steps.push(Step::Wait);
        }
        if self.succession {
            for shown in 0..=self.changed {
                steps.extend([false, true].map(|broken| Step::Lead { shown, broken }));
            }
        }
        if self.relapse {
            steps.push(Step::Lose);
        }
        if !self.process.leads {
            steps.push(Step::WinAgain);
        }
        steps.extend(self.late.iter().map(|(object, _)| Step::Late(object.clone())));
        steps.extend(self.fault_steps());
        steps
    }

    fn take(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Shard => self.process.shard_turn(),
            Step::Writer => {
                let message = self.process.to_writer.pop_front();
                self.process
                    .tell_writer(message.ok_or("the writer has no message")?);
            }
            Step::Scrape => {
                self.fault = None;
                self.process.tell_writer(ToWriter::Ping);
            }
            Step::Time => self.process.pass_time(),
            Step::Wait => end_wait(&mut self.process),
            Step::Change => {
                if self.process.delivered == self.changed {
                    self.happen();
                }
                let (_, shown) = pods_after(self.case, self.process.delivered + 1);
                self.process.show_pod(shown.ok_or("nothing has happened")?);
            }
            Step::Lead { shown, broken } => self.lead(shown, broken),
            Step::ReadVersion => self.process.read_version(self.changed),
            Step::Bookmark => self.process.bookmark(self.changed),
            Step::ListPods => self
                .process
                .list_pods(pods_after(self.case, self.changed).0, self.changed),
            Step::View => self.process.wake_view(),
            Step::Lose => {
                self.relapse = false;
                let flights = self.process.lose();
                self.leave(flights);
                self.stop_watching();
            }
            Step::Edit => self.edit_endpoints(),
            Step::WinAgain => self.process.win_again(self.changed),
            Step::Late(object) => {
                let at = self.late.iter().position(|(late, _)| *late == object);
                let (object, request) = self.late.remove(at.ok_or("no such request is late")?);
                self.server.change().0.carry_out(&object, &request);
            }
            Step::Watch(kind) => self.show_next(kind, 1)?,
            Step::List(kind) if self.is_awaited(kind) => {
                self.process.list(self.listed(kind), self.server.0.version);
            }
            Step::List(kind) => {
                let (_, listed, version, changed) = self.lists.remove(0);
                if kind == Kind::Pod {
                    self.process.delivered = changed;
                }
                self.process.list(listed, version);
            }
            Step::Serve(object) => self.serve(&object, None),
            Step::Answer(object) => self.process.answer(&object),
            Step::FaultOf(object) => {
                let fault = self.fault.take().ok_or("there is no fault")?;
                match fault {
                    Fault::ForeignEdit => self.edit(&object),
                    Fault::ForeignDelete => self.delete(&object),
                    fault => self.serve(&object, Some(fault)),
                }
            }
            Step::FaultIn(kind) if matches!(self.fault, Some(Fault::EchoLost | Fault::EchoTwice)) => {
                let lost = self.fault.take() == Some(Fault::EchoLost);
                self.show_next(kind, if lost { 0 } else { 2 })?;
            }
            Step::FaultIn(kind) => {
                self.fault = None;
                self.process.watches(kind, None);
                match kind {
                    Kind::Slice => self.slices.clear(),
                    Kind::Endpoints => self.endpoints.clear(),
                    Kind::Mirrored => self.mirrored.clear(),
                    Kind::Node | Kind::Pod | Kind::Service => {
                        // The next change is not shown by the watch, but listed.
                        if self.changed < self.case.changes.len() {
                            self.happen();
                        }
                    }
                }
                let listed = self.listed(kind);
                self.lists
                    .push((kind, listed, self.server.0.version, self.changed));
            }
        }
        self.sort_events();
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        if self.process.stale {
            return Err("a leader writes on a view that is older than its term".to_owned());
        }
        if self.failed == FAILURES && self.process.now < FAILED_FOR {
            let now = self.process.now;
            return Err(format!(
                "a request that fails is tried {FAILURES} times within {now:?}"
            ));
        }
        Ok(())
    }

    fn is_quiet(&self, steps: &[Step]) -> bool {
        // A change of leader, a fault and a request of a process that leads no longer may never come.
        let waits = |step: &Step| {
            let happens = matches!(step, Step::Late(_) | Step::Lead { .. } | Step::Lose);
            let strikes = matches!(step, Step::FaultOf(_) | Step::FaultIn(_) | Step::Scrape);
            happens || strikes
        };
        steps.iter().all(waits)
    }

    fn check_quiet(&self) -> Result<(), String> {
        let mut process = self.process.clone();
        if let Some(what) = process.leftovers() {
            return Err(what);
        }
        if self.case.outputs.slices || self.case.outputs.custom {
            let (published, expected) = (self.server.0.published(), self.server.0.expected());
            if published != expected {
                return Err(format!("slices say {published:?}, and should say {expected:?}"));
            }
        }
        if self.case.outputs.endpoints {
            let (published, expected) = (
                self.server.0.published_endpoints(),
                self.server.0.expected_endpoints(),
            );
            if published != expected {
                return Err(format!(
                    "Endpoints say {published:?}, and should say {expected:?}"
                ));
            }
        }
        if self.case.outputs.mirrored {
            let (published, expected) = (
                self.server.0.published_mirrored(),
                self.server.0.expected_mirrored(),
            );
            if published != expected {
                return Err(format!(
                    "mirrored slices say {published:?}, and should say {expected:?}"
                ));
            }
        }
        let slices = self.server.0.store.len();
        let wanted = if self.case.outputs.slices || self.case.outputs.custom {
            self.case.services.len()
        } else {
            0
        };
        if slices != wanted {
            return Err(format!("there are {slices} slices, and should be {wanted}"));
        }
        Ok(())
    }
}

/// Returns when the wait of one of the shard's objects ends, unless the shard has already been told.
fn wait_ends(process: &Process) -> Option<Duration> {
    let told = process
        .to_shard
        .iter()
        .any(|message| matches!(message, ToShard::Due));
    process.shard.state.next_look_at_deferral().filter(|_| !told)
}

/// That time comes.
fn end_wait(process: &mut Process) {
    if let Some(at) = wait_ends(process) {
        process.now = process.now.max(at);
        process.to_shard.push_back(ToShard::Due);
    }
}
