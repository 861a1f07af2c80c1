//! A pod and a Service of its own, which come and go in this order, and one controller: what is written for them may wait
//! a moment. The watches of pods, of Services and of both outputs show their events in any order, the garbage collector
//! does its work at any time, an answer may be lost, and another process may take over.

use crate::model::{self, Model, PodSpec, ServiceSpec, WatchEvent};
use crate::process::{Flight, Listed, Process, ToShard};
use crate::search::{Part, System};
use endpointd::core::body::Request;
use endpointd::core::inbox::Change;
use endpointd::core::namespace::{Kind, Outcome, Settings};
use endpointd::core::object::ObjectName;
use endpointd::core::outputs::Outputs;
use endpointd::core::publish::Load;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// The longest time for which a write waits.
const LONGEST: Duration = Duration::from_millis(500);

/// Something that happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Happening {
    /// The Service is made, under a new UID.
    Service,
    /// It is deleted in the foreground: it stays until the garbage collector has deleted its slices, or for longer.
    Going,
    /// It is deleted, and a finalizer of another program holds it: its slices stay until it is gone.
    Held,
    ServiceGone,
    /// The pod is there, and ready or not.
    Pod(bool),
    PodGone,
}

/// A history of a pod and its Service.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) name: String,
    /// One alone: what the two have in common is little, and both together have very many orders.
    outputs: Outputs,
    script: Vec<Happening>,
    /// The answer to one request is lost, which was carried out or not.
    loss: bool,
    /// Another process takes over, once, at any point.
    succession: bool,
}

/// A step.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Happen,
    /// The watch of a kind shows its next event.
    Watch(Kind),
    Serve(ObjectName),
    Lose(ObjectName, bool),
    Answer(ObjectName),
    /// The garbage collector deletes the slices of a Service that is gone.
    Collect,
    Lead,
    /// A request of the last leader is carried out after all.
    Late,
    Time,
}

#[derive(Clone)]
struct Server(Model);

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outputs = (&self.0.store, &self.0.endpoints, &self.0.version);
        (outputs, &self.0.pods, &self.0.services).fmt(f)
    }
}

/// A state of the whole.
#[derive(Clone)]
pub(crate) struct Stage<'c> {
    claim: &'c Claim,
    server: Part<Server>,
    process: Process,
    pods: VecDeque<Change>,
    services: VecDeque<Change>,
    slices: VecDeque<WatchEvent>,
    endpoints: VecDeque<WatchEvent>,
    happened: usize,
    generation: u8,
    now: Duration,
    /// When the process heard of the Service that it knows.
    heard: Option<Duration>,
    /// The garbage collector was faster than the watch of Services.
    raced: bool,
    /// The writes so far.
    writes: usize,
    loss: bool,
    succession: bool,
    late: Vec<(ObjectName, Request)>,
}

impl fmt::Debug for Stage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let watches = (&self.pods, &self.services, &self.slices, &self.endpoints);
        let once = (self.loss, self.succession, &self.late);
        let counts = (self.happened, self.now, self.heard, self.raced, self.writes);
        (&self.server, &self.process, watches, counts, once).fmt(f)
    }
}

impl<'c> Stage<'c> {
    pub(crate) fn start(claim: &'c Claim) -> Self {
        let mut server = Model::new(2);
        server.node(0, Some(0));
        let mut stage = Self {
            claim,
            process: Self::process(&server, claim.outputs),
            server: Part::new(Server(server)),
            pods: VecDeque::new(),
            services: VecDeque::new(),
            slices: VecDeque::new(),
            endpoints: VecDeque::new(),
            happened: 0,
            generation: 0,
            now: Duration::ZERO,
            heard: None,
            raced: false,
            writes: 0,
            loss: claim.loss,
            succession: claim.succession,
            late: Vec::new(),
        };
        stage.run();
        stage
    }

    /// A process that has just begun to lead, and has listed everything.
    fn process(server: &Model, outputs: Outputs) -> Process {
        let settings = Settings {
            max_endpoints: 2,
            outputs,
            seed: 7,
            ..Settings::default()
        };
        let mut process = Process::new(settings, 3, false);
        process.looks_at_time = true;
        for kind in Kind::needed_for(settings.outputs) {
            let listed = match kind {
                Kind::Node => Listed::Nodes(server.zones.clone().into_iter().collect()),
                Kind::Pod => Listed::Pods(server.pods.values().cloned().collect()),
                Kind::Service => Listed::Services(server.services.values().cloned().collect()),
                Kind::Slice => Listed::Slices(server.store.values().cloned().collect()),
                Kind::Endpoints => Listed::Endpoints(server.endpoints.values().cloned().collect()),
                Kind::Mirrored => Listed::Mirrored(server.mirrored.values().cloned().collect()),
            };
            process.list(listed, server.version);
        }
        process
    }

    /// Lets the controller do all that it does by itself.
    fn run(&mut self) {
        let process = &mut self.process;
        process.now = self.now;
        while !process.to_shard.is_empty() || !process.to_writer.is_empty() {
            while !process.to_shard.is_empty() {
                process.shard_turn();
            }
            while let Some(message) = process.to_writer.pop_front() {
                process.tell_writer(message);
            }
        }
    }

    fn wakes(&self) -> Option<Duration> {
        let wakes = [self.process.timer, self.process.shard.state.next_look()];
        wakes.into_iter().flatten().min()
    }

    fn put_service(&mut self, deleting: bool, foreground: bool) {
        let spec = ServiceSpec {
            generation: self.generation,
            ..ServiceSpec::plain()
        };
        let mut facts = spec.facts();
        (facts.deleting, facts.foreground) = (deleting, foreground);
        let server = &mut self.server.change().0;
        let resolved = facts.clone().resolve(model::NAMESPACE, Outputs::ALL);
        server.services.insert(facts.name.clone(), resolved);
        self.services.push_back(Change::Service(facts, 1));
    }

    fn happen(&mut self) {
        let happening = self.claim.script[self.happened];
        self.happened += 1;
        match happening {
            Happening::Service => {
                self.generation += 1;
                self.put_service(false, false);
            }
            Happening::Going => self.put_service(true, true),
            Happening::Held => self.put_service(true, false),
            Happening::ServiceGone => {
                let name = ServiceSpec::plain().facts().name;
                self.server.change().0.services.remove(&name);
                self.services.push_back(Change::ServiceGone(name));
            }
            Happening::Pod(ready) => {
                let spec = PodSpec {
                    ready,
                    ..PodSpec::plain()
                };
                let facts = spec.facts();
                let server = &mut self.server.change().0;
                server.pods.insert(facts.name.clone(), facts.clone());
                self.pods.push_back(Change::Pod(facts, 1));
            }
            Happening::PodGone => {
                let name = PodSpec::plain().facts().name;
                self.server.change().0.pods.remove(&name);
                self.pods.push_back(Change::PodGone(name));
            }
        }
    }

    /// The slices whose Service is gone, or deletes them before it goes.
    fn orphans(&self) -> Vec<Box<str>> {
        let server = &self.server.0;
        let slices = server.store.values().filter(|slice| {
            let owner = server.services.get(&slice.meta.service);
            owner.is_none_or(|owner| owner.foreground || !slice.meta.owner.includes(&owner.uid))
        });
        slices.map(|slice| slice.meta.name.clone()).collect()
    }

    fn serve(&mut self, object: &ObjectName, lost: Option<bool>) -> Result<(), String> {
        let Some(Flight::Sent(request)) = self.process.flights.get(object).cloned() else {
            return Err("no such request is out".to_owned());
        };
        self.writes += usize::from(!matches!(request, Request::Fetch | Request::Probe));
        let carried = (lost != Some(false)).then(|| self.server.change().0.carry_out(object, &request));
        let answer = match (lost, carried) {
            (None, Some(outcome)) => Flight::Answered(outcome, Load::Answered),
            _ => Flight::Answered(Outcome::Unknown, Load::Unanswered),
        };
        self.process.flights.insert(object.clone(), answer);
        Ok(())
    }

    /// Another process takes over; nothing but its requests is left of the last one.
    fn lead(&mut self) {
        self.succession = false;
        for (object, flight) in std::mem::take(&mut self.process.flights) {
            if let Flight::Sent(request) = flight
                && !matches!(request, Request::Fetch | Request::Probe)
            {
                self.late.push((object, request));
            }
        }
        self.process = Self::process(&self.server.0, self.claim.outputs);
        self.heard = (!self.server.0.services.is_empty()).then_some(self.now);
        self.pods.clear();
        self.services.clear();
        self.slices.clear();
        self.endpoints.clear();
    }

    /// The Service, as it is now.
    fn service(&self) -> Option<&endpointd::core::facts::ServiceFacts> {
        self.server.0.services.values().next()
    }
}

impl System for Stage<'_> {
    type Step = Step;

    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for (object, flight) in &self.process.flights {
            match flight {
                Flight::Sent(_) => {
                    steps.push(Step::Serve(object.clone()));
                    if self.loss {
                        steps.extend([true, false].map(|carried| Step::Lose(object.clone(), carried)));
                    }
                }
                Flight::Answered(..) => steps.push(Step::Answer(object.clone())),
            }
        }
        let watches = [
            (Kind::Pod, self.pods.is_empty()),
            (Kind::Service, self.services.is_empty()),
            (Kind::Slice, self.slices.is_empty()),
            (Kind::Endpoints, self.endpoints.is_empty()),
        ];
        let waiting = watches.into_iter().filter(|(_, empty)| !empty);
        steps.extend(waiting.map(|(kind, _)| Step::Watch(kind)));
        if !self.orphans().is_empty() {
            steps.push(Step::Collect);
        }
        let quick = steps.is_empty();
        if !self.late.is_empty() {
            steps.push(Step::Late);
        }
        if self.happened < self.claim.script.len() {
            steps.push(Step::Happen);
        }
        if self.succession {
            steps.push(Step::Lead);
        }
        // Time is long against messages.
        if quick && self.wakes().is_some() {
            steps.push(Step::Time);
        }
        steps
    }

    fn take(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Happen => self.happen(),
            Step::Watch(Kind::Pod) => self.process.deliver(self.pods.pop_front()),
            Step::Watch(Kind::Service) => {
                let change = self.services.pop_front();
                match &change {
                    Some(Change::Service(facts, _)) if !facts.deleting => self.heard = Some(self.now),
                    _ => self.heard = None,
                }
                self.process.deliver(change);
            }
            Step::Watch(kind) => {
                let events = match kind {
                    Kind::Slice => &mut self.slices,
                    _ => &mut self.endpoints,
                };
                let event = events.pop_front().ok_or("the watch has nothing to show")?;
                self.process.show(event);
            }
            Step::Serve(object) => self.serve(&object, None)?,
            Step::Lose(object, carried) => {
                self.loss = false;
                self.serve(&object, Some(carried))?;
            }
            Step::Answer(object) => self.process.answer(&object),
            Step::Collect => {
                self.raced |= !self.services.is_empty();
                for name in self.orphans() {
                    self.server.change().0.delete_slice(&name);
                }
            }
            Step::Lead => self.lead(),
            Step::Late => {
                let (object, request) = self.late.remove(0);
                self.server.change().0.carry_out(&object, &request);
            }
            Step::Time => {
                self.now = self.now.max(self.wakes().ok_or("nothing waits for a time")?);
                if self.process.timer.is_some_and(|timer| timer <= self.now) {
                    self.process.pass_time();
                }
                let look = self.process.shard.state.next_look();
                if look.is_some_and(|look| look <= self.now) {
                    self.process.to_shard.push_back(ToShard::Due);
                }
            }
        }
        self.run();
        if !self.server.0.watch.is_empty() {
            for event in std::mem::take(&mut self.server.change().0.watch) {
                match event {
                    WatchEvent::Seen(_) | WatchEvent::Gone(..) => self.slices.push_back(event),
                    _ => self.endpoints.push_back(event),
                }
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        // A request whose answer was lost has pauses of its own.
        let faultless = !self.claim.loss && !self.claim.succession;
        let over = self.heard.is_some_and(|heard| self.now >= heard + LONGEST);
        let server = &self.server.0;
        let none = server.store.is_empty() && server.endpoints.is_empty() && self.process.flights.is_empty();
        if faultless && over && none && self.services.is_empty() {
            return Err("the first slice waits for longer than it may".to_owned());
        }
        Ok(())
    }

    fn is_quiet(&self, steps: &[Step]) -> bool {
        // Neither may ever come.
        steps.iter().all(|step| matches!(step, Step::Lead | Step::Late))
    }

    fn check_quiet(&self) -> Result<(), String> {
        if let Some(what) = self.process.clone().leftovers() {
            return Err(what);
        }
        let server = &self.server.0;
        let Some(service) = self.service() else {
            if !server.endpoints.is_empty() {
                return Err("Endpoints are left of a Service that is gone".to_owned());
            }
            let faultless = !self.claim.loss && !self.claim.succession;
            // The watch of pods may show the end of the pod first, and what a Service loses does not wait. Slices go with their
            // Service.
            let most = 2 + usize::from(self.claim.outputs.endpoints);
            let quick = faultless && !self.raced && self.now < LONGEST;
            if quick && self.writes > most {
                return Err(format!("there are {} writes", self.writes));
            }
            return Ok(());
        };
        if service.deleting {
            let stale = |slice: &endpointd::core::facts::SliceFacts| !slice.endpoints.is_empty();
            if server.pods.is_empty() && server.store.values().any(stale) {
                return Err("an endpoint is left whose pod is gone".to_owned());
            }
            return Ok(());
        }
        let (published, expected) = (server.published(), server.expected());
        if self.claim.outputs.slices && published != expected {
            return Err(format!("slices say {published:?}, and should say {expected:?}"));
        }
        let (published, expected) = (server.published_endpoints(), server.expected_endpoints());
        if self.claim.outputs.endpoints && published != expected {
            return Err(format!(
                "Endpoints say {published:?}, and should say {expected:?}"
            ));
        }
        if server.store.len() > 1 {
            return Err(format!("there are {} slices", server.store.len()));
        }
        Ok(())
    }
}

pub(crate) fn all() -> Vec<Claim> {
    use Happening::{Going, Held, Pod, PodGone, Service, ServiceGone};
    let claim = |name: &str, script: &[Happening]| Claim {
        name: name.to_owned(),
        outputs: Outputs::NONE,
        script: script.to_vec(),
        loss: false,
        succession: false,
    };
    let again = [Service, ServiceGone, Service];
    let ready = [Service, Pod(true)];
    let mut claims = vec![
        claim("the first endpoint never comes", &[Service]),
        claim("the first endpoint is never ready", &[Service, Pod(false)]),
        claim("Service first", &[Service, Pod(true), ServiceGone, PodGone]),
        claim(
            "pod first",
            &[Pod(false), Service, Pod(true), PodGone, ServiceGone],
        ),
        claim("the endpoint comes and goes", &[Service, Pod(true), PodGone]),
        claim("the Service is made again", &again),
        claim(
            "the Service is made again, with a pod",
            &[Service, Pod(true), ServiceGone, Service],
        ),
        claim(
            "deleted in the foreground",
            &[Service, Pod(true), Going, PodGone, ServiceGone],
        ),
        claim("kept in its deletion", &[Service, Pod(true), Going, PodGone]),
        claim("held in its deletion", &[Service, Pod(true), Held, PodGone]),
    ];
    let gone_again = [Service, Going, ServiceGone, Service];
    let loses_its_pod = [Pod(true), Service, Going, PodGone];
    for (name, script) in [
        ("the first endpoint never comes", &[Service][..]),
        ("a ready endpoint", &ready),
        ("the Service is made again", &again),
        ("deleted in the foreground, and made again", &gone_again),
        ("held, and made again", &[Service, Held, ServiceGone, Service]),
        ("its pod goes while it is deleted", &loses_its_pod),
    ] {
        claims.push(Claim {
            loss: true,
            ..claim(&format!("{name}, an answer is lost"), script)
        });
    }
    for (name, script) in [
        ("the first endpoint never comes", &[Service][..]),
        ("a ready endpoint", &ready),
        ("the Service is made again", &again),
        ("deleted in the foreground, and made again", &gone_again),
    ] {
        claims.push(Claim {
            succession: true,
            ..claim(&format!("{name}, succession"), script)
        });
    }
    let of = |outputs: Outputs, kind: &str| {
        let named = claims.iter().cloned().map(move |claim| Claim {
            name: format!("claim, {kind}: {}", claim.name),
            outputs,
            ..claim
        });
        named.collect::<Vec<_>>()
    };
    let slices = Outputs {
        slices: true,
        ..Outputs::NONE
    };
    let endpoints = Outputs {
        endpoints: true,
        ..Outputs::NONE
    };
    // With a slice it has too many orders.
    let taken_over = Claim {
        succession: true,
        outputs: endpoints,
        ..claim(
            "claim, Endpoints: its pod goes while it is deleted, succession",
            &loses_its_pod,
        )
    };
    [of(slices, "slice"), of(endpoints, "Endpoints"), vec![taken_over]].concat()
}
