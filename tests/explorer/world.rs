//! The whole: controllers, an API server, and everything that is on its way between them.

use crate::cases::{Case, Change, Fault};
use crate::model::{EndpointsTamper, Model, WatchEvent};
use crate::process::{Flight, Listed, Process};
use endpointd::core::body::Request;
use endpointd::core::facts::PodFacts;
use endpointd::core::namespace::{Holds, Kind, Outcome, Settings};
use endpointd::core::object::ObjectName;
use endpointd::core::publish::Load;
use std::collections::VecDeque;
use std::fmt;

/// What can happen next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// The next change of the cluster, as the watch of pods shows it.
    Change,
    /// The watch of an output shows its next event.
    Watch(Kind),
    /// A list arrives.
    List(Kind),
    Shard,
    Writer,
    /// The time comes that the writer waits for.
    Time,
    /// The server looks at a request.
    Serve(ObjectName),
    /// The answer to a request arrives.
    Answer(ObjectName),
    /// The fault strikes: a request, an object, or a watch.
    FaultOf(ObjectName),
    FaultIn(Kind),
}

/// A state of the whole.
#[derive(Clone)]
pub(crate) struct World<'c> {
    case: &'c Case,
    /// The API server: its objects, without what the model does beside that.
    server: Model,
    /// How many of the case's changes have happened.
    changed: usize,
    process: Process,
    /// By kind, what its watch has yet to show.
    slices: VecDeque<WatchEvent>,
    endpoints: VecDeque<WatchEvent>,
    /// Lists on their way: how many changes pods show, or what the outputs are.
    lists: Vec<(Kind, Listed, u64)>,
    fault: Option<Fault>,
}

impl fmt::Debug for World<'_> {
    /// All that decides what can happen from here on.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World")
            .field("store", &self.server.store)
            .field("published", &self.server.endpoints)
            .field("version", &self.server.version)
            .field("changed", &self.changed)
            .field("process", &self.process)
            .field("slices", &self.slices)
            .field("endpoints", &self.endpoints)
            .field("lists", &self.lists)
            .field("fault", &self.fault)
            .finish()
    }
}

/// The pods after so many changes.
fn apply(server: &mut Model, change: Change) -> Result<PodFacts, Box<str>> {
    let (Change::Flip(number) | Change::Toggle(number)) = change;
    let name: Box<str> = format!("pod-{number}").into();
    match (change, server.pods.get_mut(&name)) {
        (Change::Flip(_), Some(pod)) => {
            pod.ready = !pod.ready;
            Ok(pod.clone())
        }
        (Change::Toggle(_), Some(_)) => {
            server.pods.remove(&name);
            Err(name)
        }
        (_, None) => {
            let pod = crate::model::PodSpec {
                name: number,
                labels: number,
                generation: 1,
                ..crate::model::PodSpec::plain()
            };
            server.pods.insert(name, pod.facts());
            Ok(pod.facts())
        }
    }
}

impl<'c> World<'c> {
    /// A controller that has begun on a cluster that was in sync before what happened while none ran; its lists are
    /// in its inbox.
    pub(crate) fn start(case: &'c Case) -> Self {
        let settings = Settings {
            max_endpoints: 2,
            outputs: case.outputs,
            seed: 7,
            ..Settings::default()
        };
        let mut server = Model::new(2);
        server.node(0, Some(0));
        for service in &case.services {
            server
                .services
                .insert(service.facts().name.clone(), service.facts());
        }
        for pod in &case.pods {
            server.pods.insert(pod.facts().name.clone(), pod.facts());
        }
        let process = Process::new(settings, case.window, Holds::all(case.outputs));
        let mut world = Self {
            case,
            server,
            // None happens before the controller has begun anew.
            changed: case.changes.len(),
            process,
            slices: VecDeque::new(),
            endpoints: VecDeque::new(),
            lists: Vec::new(),
            fault: None,
        };
        world.list_everything();
        world.settle();
        for change in &case.before {
            // Nobody shows the result.
            let _ = apply(&mut world.server, *change);
        }
        world.process = Process::new(settings, case.window, Holds::all(case.outputs));
        world.list_everything();
        (world.changed, world.fault) = (0, case.fault);
        world
    }

    fn list_everything(&mut self) {
        for kind in Kind::needed_for(self.case.outputs) {
            let listed = self.listed(kind);
            self.process.list(listed, self.server.version, true);
        }
        // What the lists show, the watches do not.
        self.slices.clear();
        self.endpoints.clear();
    }

    /// What the server would list now.
    fn listed(&self, kind: Kind) -> Listed {
        match kind {
            Kind::Node => {
                let nodes = self.server.zones.iter();
                Listed::Nodes(nodes.map(|(name, facts)| (name.clone(), facts.clone())).collect())
            }
            Kind::Pod => Listed::Pods(self.server.pods.values().cloned().collect()),
            Kind::Service => Listed::Services(self.server.services.values().cloned().collect()),
            Kind::Slice => Listed::Slices(self.server.store.values().cloned().collect()),
            Kind::Endpoints => Listed::Endpoints(self.server.endpoints.values().cloned().collect()),
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

    /// All that can happen next.
    pub(crate) fn steps(&self) -> Vec<Step> {
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
        let listing = self.lists.iter().any(|(kind, ..)| *kind == Kind::Pod);
        if self.changed < self.case.changes.len() && !listing {
            steps.push(Step::Change);
        }
        if process.tick.is_some() {
            steps.push(Step::Time);
        }
        steps.extend(self.fault_steps());
        steps
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
            let slices = self.server.store.keys();
            let slices = slices.map(|name| ObjectName::slice((&**name).into()));
            let endpoints = self.server.endpoints.keys();
            let endpoints = endpoints.map(|name| ObjectName::endpoints(name.clone()));
            slices.chain(endpoints).map(Step::FaultOf).collect()
        };
        match fault {
            Fault::Conflict => sent(true),
            Fault::LostBefore
            | Fault::LostAfter
            | Fault::BareNotFound
            | Fault::Throttled
            | Fault::ServerError => sent(false),
            Fault::ForeignEdit | Fault::ForeignDelete => stored(),
            Fault::OutputsExpire => Kind::needed_for(self.case.outputs)
                .filter(|kind| matches!(kind, Kind::Slice | Kind::Endpoints))
                .map(Step::FaultIn)
                .collect(),
            Fault::PodsExpire => vec![Step::FaultIn(Kind::Pod)],
        }
    }

    /// Takes a step.
    pub(crate) fn take(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Shard => self.process.shard_turn(),
            Step::Writer => self.process.writer_turn(),
            Step::Time => self.process.pass_time(),
            Step::Change => {
                let change = self.case.changes[self.changed];
                self.changed += 1;
                let shown = apply(&mut self.server, change);
                self.process.delivered = self.changed;
                self.process.show_pod(shown);
            }
            Step::Watch(kind) => {
                let events = if kind == Kind::Slice {
                    &mut self.slices
                } else {
                    &mut self.endpoints
                };
                let event = events.pop_front().ok_or("the watch has nothing to show")?;
                self.process.show(event);
            }
            Step::List(_) => {
                let (_, listed, version) = self.lists.remove(0);
                self.process.list(listed, version, true);
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
            Step::FaultIn(kind) => {
                self.fault = None;
                match kind {
                    Kind::Slice => self.slices.clear(),
                    Kind::Endpoints => self.endpoints.clear(),
                    Kind::Node | Kind::Pod | Kind::Service => {
                        // What happens next is not shown, but listed.
                        if let Some(change) = self.case.changes.get(self.changed) {
                            self.changed += 1;
                            let _ = apply(&mut self.server, *change);
                        }
                    }
                }
                self.lists.push((kind, self.listed(kind), self.server.version));
            }
        }
        self.sort_events();
        Ok(())
    }

    /// The server looks at a request.
    fn serve(&mut self, object: &ObjectName, fault: Option<Fault>) {
        let Some(Flight::Sent(request)) = self.process.flights.get(object).cloned() else {
            return;
        };
        let answer = match fault {
            None => (self.server.carry_out(object, &request), Load::Answered),
            Some(Fault::LostAfter) => {
                self.server.carry_out(object, &request);
                (Outcome::Unknown, Load::Unanswered)
            }
            Some(Fault::LostBefore) => (Outcome::Unknown, Load::Unanswered),
            Some(Fault::Conflict) => (Outcome::Conflict, Load::Answered),
            Some(Fault::Throttled) => (Outcome::Refused, Load::Overloaded),
            // Neither says anything of the object.
            Some(_) => (Outcome::Unknown, Load::Answered),
        };
        let flight = Flight::Answered(answer.0, answer.1);
        self.process.flights.insert(object.clone(), flight);
    }

    fn edit(&mut self, object: &ObjectName) {
        if let Some(mut slice) = self.server.store.get(&*object.name).cloned() {
            slice.endpoints.clear();
            self.server.put_slice(slice);
        } else {
            self.server
                .tamper_with_endpoints(&object.name, EndpointsTamper::DropSubset);
        }
    }

    fn delete(&mut self, object: &ObjectName) {
        if self.server.store.contains_key(&*object.name) {
            self.server.delete_slice(&object.name);
        } else {
            self.server.delete_endpoints(&object.name);
        }
    }

    /// What the server has to show goes to the watch of its kind.
    fn sort_events(&mut self) {
        for event in std::mem::take(&mut self.server.watch) {
            match event {
                WatchEvent::Seen(_) | WatchEvent::Gone(..) => self.slices.push_back(event),
                WatchEvent::Endpoints(_) | WatchEvent::EndpointsGone(..) => self.endpoints.push_back(event),
            }
        }
    }

    /// What holds in every state.
    pub(crate) fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// What holds where nothing is on its way any more, and no time is waited for.
    pub(crate) fn check_final(&self) -> Result<(), String> {
        let mut process = self.process.clone();
        if let Some(what) = process.leftovers() {
            return Err(what);
        }
        if self.case.outputs.slices {
            let (published, expected) = (self.server.published(), self.server.expected());
            if published != expected {
                return Err(format!("slices say {published:?}, and should say {expected:?}"));
            }
        }
        if self.case.outputs.endpoints {
            let (published, expected) = (
                self.server.published_endpoints(),
                self.server.expected_endpoints(),
            );
            if published != expected {
                return Err(format!(
                    "Endpoints say {published:?}, and should say {expected:?}"
                ));
            }
        }
        let slices = self.server.store.len();
        let wanted = if self.case.outputs.slices {
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
