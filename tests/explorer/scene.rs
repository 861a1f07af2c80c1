//! One Service, one or two controllers that write for it, another controller's slices, and what happens to all of them in
//! this order. All that a controller does by itself after a message is one step here, so that the orders that matter
//! between two of them can all be tried: when each hears of a change or of a write, and when the server looks at
//! its requests.

#[path = "scene/yielding.rs"]
mod yielding;

use crate::model::{self, CustomSpec, Model, PodSpec, ServiceSpec, WatchEvent};
use crate::process::{Flight, Listed, Process, ToShard};
use crate::search::{Part, System};
use endpointd::core::address::Family;
use endpointd::core::body::Request;
use endpointd::core::facts::{EndpointFacts, Extras, Manager, SliceFacts, SliceMeta};
use endpointd::core::ids::Uid;
use endpointd::core::inbox::Change;
use endpointd::core::namespace::{Kind, Outcome, Settings};
use endpointd::core::object::ObjectName;
use endpointd::core::outputs::Outputs;
use endpointd::core::ports::SlicePorts;
use endpointd::core::publish::Load;
use endpointd::core::time::Time;
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The time for which slices of an annotation that is gone stay at least.
const SHORTEST: Duration = Duration::from_secs(30);
/// The time for which they stay at most.
const LONGEST: Duration = Duration::from_secs(600);
/// The most endpoints of a slice.
pub(crate) const LIMIT: usize = 2;

/// Something that happens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Happening {
    /// There are so many pods from now on.
    Scale(u8),
    /// The Service selects by its annotation, or by its selector. Where Endpoints are mirrored, it has no annotation.
    Annotated(bool),
    /// The Service is deleted and made again.
    Again,
    /// A pod is not ready any more.
    Fails(u8),
    /// Another controller has a slice with the addresses of these pods.
    Others(&'static [u8]),
    /// The other controller's slice goes.
    OthersGone,
}

/// A scene.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) name: &'static str,
    pub(crate) outputs: Outputs,
    pub(crate) annotated: bool,
    pub(crate) controllers: usize,
    pub(crate) pods: u8,
    pub(crate) script: Vec<Happening>,
    /// So many endpoints of a slice may be held.
    pub(crate) limit: usize,
    /// The answer to one request is lost, which was carried out or not.
    pub(crate) loss: bool,
}

/// An event or changes on their way to a controller.
#[derive(Clone, Debug)]
enum News {
    Watch(WatchEvent),
    Change(Vec<Change>),
}

#[derive(Clone, Debug)]
struct Controller {
    process: Process,
    slices: VecDeque<News>,
    inputs: VecDeque<News>,
}

/// A step.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Happen,
    /// The controller hears of pods and Services, or of slices.
    Input(usize),
    Slices(usize),
    Serve(usize, ObjectName),
    Lose(usize, ObjectName, bool),
    Answer(usize, ObjectName),
    Time,
}

#[derive(Clone)]
struct Server(Model);

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outputs = (&self.0.store, &self.0.mirrored, &self.0.version);
        (outputs, &self.0.pods, &self.0.services).fmt(f)
    }
}

/// A state of the whole.
#[derive(Clone)]
pub(crate) struct Stage<'s> {
    scene: &'s Scene,
    server: Part<Server>,
    controllers: Vec<Controller>,
    happened: usize,
    generation: u8,
    pods: u8,
    now: Duration,
    /// Since when the annotation is gone.
    yields: Option<Duration>,
    /// True if slices of the other controller have held endpoints since.
    replaced: bool,
    /// An answer may still be lost.
    loss: bool,
}

impl fmt::Debug for Stage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (
            &self.server,
            &self.controllers,
            self.happened,
            self.now,
            &self.yields,
            (self.replaced, self.loss),
        )
            .fmt(f)
    }
}

fn pod(number: u8) -> PodSpec {
    PodSpec {
        name: number,
        ..PodSpec::plain()
    }
}

impl<'s> Stage<'s> {
    /// All controllers have begun, and what they publish is in sync.
    pub(crate) fn start(scene: &'s Scene) -> Self {
        let mut server = Model::new(scene.limit);
        server.node(0, Some(0));
        let mut stage = Self {
            scene,
            server: Part::new(Server(server)),
            controllers: Vec::new(),
            happened: 0,
            generation: 0,
            pods: scene.pods,
            now: Duration::ZERO,
            yields: None,
            replaced: false,
            loss: false,
        };
        stage.put_service(scene.annotated);
        for number in 0..scene.pods {
            let facts = pod(number).facts();
            stage.server.change().0.pods.insert(facts.name.clone(), facts);
        }
        if scene.outputs.mirrored {
            let service = ServiceSpec::plain().facts().name;
            let spec = CustomSpec::plain(0b11);
            let server = &mut stage.server.change().0;
            server.custom_endpoints(&service, &spec);
            server.watch.clear();
        }
        for at in 0..scene.controllers {
            let settings = Settings {
                max_endpoints: scene.limit,
                outputs: scene.outputs,
                seed: 7 + at as u64,
                ..Settings::default()
            };
            let mut process = Process::new(settings, 3, false);
            process.looks_at_time = true;
            for kind in Kind::needed_for(scene.outputs) {
                let server = &stage.server.0;
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
            stage.controllers.push(Controller {
                process,
                slices: VecDeque::new(),
                inputs: VecDeque::new(),
            });
            stage.run(at);
            stage.settle();
        }
        stage.loss = scene.loss;
        stage
    }

    /// Takes steps, but none that happens by itself, until there is none.
    fn settle(&mut self) {
        for _ in 0..1000 {
            let steps = self.steps().into_iter();
            let Some(step) = steps.into_iter().find(|step| !matches!(step, Step::Happen)) else {
                return;
            };
            self.take(step).unwrap();
        }
        panic!("the cluster does not come to rest before the scene begins");
    }

    /// Takes steps in a random order, up to so many. Fails where the search would.
    pub(crate) fn walk(&mut self, seed: u64, most: usize) -> Result<(), String> {
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..most {
            let steps = self.steps();
            if self.is_quiet(&steps) {
                self.check_quiet()?;
            }
            if steps.is_empty() {
                return Ok(());
            }
            // Time passes only where nothing else happens, as far as that is up to chance.
            let quick = steps.len() - usize::from(matches!(steps.last(), Some(Step::Time)));
            let mut at = random.usize(..quick.max(1));
            // An answer may be lost late as well as early.
            while matches!(steps[at], Step::Lose(..)) && random.u8(..) > 0 {
                at = random.usize(..quick.max(1));
            }
            self.take(steps[at].clone())?;
            self.check()?;
        }
        Err(format!("it does not come to rest within {most} steps"))
    }

    /// Lets a controller do all that it does by itself.
    fn run(&mut self, at: usize) {
        let process = &mut self.controllers[at].process;
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
        let wakes = self.controllers.iter().flat_map(|controller| {
            let process = &controller.process;
            [process.timer, process.shard.state.next_look()]
        });
        wakes.flatten().min()
    }

    fn tell(&mut self, changes: &[Change]) {
        for controller in &mut self.controllers {
            controller.inputs.push_back(News::Change(changes.to_vec()));
        }
    }

    fn put_service(&mut self, annotated: bool) {
        let spec = ServiceSpec {
            generation: self.generation,
            selector: (!annotated).then_some(0),
            annotation: (annotated && !self.scene.outputs.mirrored).then_some(0),
            ..ServiceSpec::plain()
        };
        let facts = spec.facts();
        let resolved = facts.clone().resolve(model::NAMESPACE, self.scene.outputs);
        let server = &mut self.server.change().0;
        server.services.insert(facts.name.clone(), resolved);
        self.tell(&[Change::Service(facts, 1)]);
    }

    fn happen(&mut self) {
        let happening = self.scene.script[self.happened].clone();
        self.happened += 1;
        match happening {
            Happening::Scale(pods) => {
                let mut changes = Vec::new();
                for number in self.pods..pods {
                    let facts = pod(number).facts();
                    let server = &mut self.server.change().0;
                    server.pods.insert(facts.name.clone(), facts.clone());
                    changes.push(Change::Pod(facts, 1));
                }
                for number in pods..self.pods {
                    let name = pod(number).facts().name;
                    self.server.change().0.pods.remove(&name);
                    changes.push(Change::PodGone(name));
                }
                self.pods = pods;
                self.tell(&changes);
            }
            Happening::Annotated(annotated) => {
                self.yields = (!annotated).then_some(self.now);
                self.replaced = false;
                self.put_service(annotated);
            }
            Happening::Again => {
                self.generation += 1;
                self.put_service(self.scene.annotated);
            }
            Happening::Fails(number) => {
                let spec = PodSpec {
                    ready: false,
                    ..pod(number)
                };
                let facts = spec.facts();
                let server = &mut self.server.change().0;
                server.pods.insert(facts.name.clone(), facts.clone());
                self.tell(&[Change::Pod(facts, 1)]);
            }
            Happening::Others(pods) => {
                let facts = Self::others(pods);
                self.server.change().0.put_slice(facts);
            }
            Happening::OthersGone => self.server.change().0.delete_slice("others"),
        }
    }

    /// The server looks at a request. `lost` says that no answer comes, and whether it was carried out all the same.
    fn serve(&mut self, at: usize, object: ObjectName, lost: Option<bool>) -> Result<(), String> {
        let Some(Flight::Sent(request)) = self.controllers[at].process.flights.get(&object).cloned() else {
            return Err("no such request is out".to_owned());
        };
        let carried = (lost != Some(false)).then(|| self.server.change().0.carry_out(&object, &request));
        let answer = match (lost, carried) {
            (None, Some(outcome)) => Flight::Answered(outcome, Load::Answered),
            _ => Flight::Answered(Outcome::Unknown, Load::Unanswered),
        };
        self.controllers[at].process.flights.insert(object, answer);
        Ok(())
    }

    /// A slice of the built-in controller.
    fn others(pods: &[u8]) -> SliceFacts {
        let service = ServiceSpec::plain().facts();
        let endpoints = pods.iter().map(|number| EndpointFacts {
            addresses: vec![pod(*number).facts().v4.expect("it has one").to_string().into()],
            ready: Some(true),
            ..EndpointFacts::default()
        });
        let manager = (
            "endpointslice.kubernetes.io/managed-by",
            Manager::Builtin.as_str(),
        );
        SliceFacts {
            meta: SliceMeta {
                name: "others".into(),
                service: service.name.clone(),
                manager: Manager::Builtin,
                uid: Uid::from("others"),
                version: 0,
                owner: service.uid.into(),
                deleting: false,
            },
            created: Some(Time::from_seconds(1)),
            labels: [("kubernetes.io/service-name", &*service.name), manager]
                .into_iter()
                .collect(),
            extras: Extras::default(),
            family: Some(Family::V4),
            ports: SlicePorts::default(),
            endpoints: endpoints.collect(),
        }
    }

    /// The slices that a controller has sent a request to delete.
    fn deletes(&self, at: usize) -> BTreeSet<Arc<str>> {
        let flights = self.controllers[at].process.flights.iter();
        let deletes = flights.filter(|(_, flight)| matches!(flight, Flight::Sent(Request::Delete(_))));
        deletes.map(|(object, _)| object.name.clone()).collect()
    }
}

impl System for Stage<'_> {
    type Step = Step;

    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for (at, controller) in self.controllers.iter().enumerate() {
            for (object, flight) in &controller.process.flights {
                match flight {
                    Flight::Sent(_) => {
                        steps.push(Step::Serve(at, object.clone()));
                        if self.loss {
                            let lose = |carried| Step::Lose(at, object.clone(), carried);
                            steps.extend([true, false].map(lose));
                        }
                    }
                    Flight::Answered(..) => steps.push(Step::Answer(at, object.clone())),
                }
            }
            if !controller.inputs.is_empty() {
                steps.push(Step::Input(at));
            }
            if !controller.slices.is_empty() {
                steps.push(Step::Slices(at));
            }
        }
        if self.happened < self.scene.script.len() {
            steps.push(Step::Happen);
        }
        // Time is long against messages.
        if self.wakes().is_some() && steps.iter().all(|step| matches!(step, Step::Happen)) {
            steps.push(Step::Time);
        }
        steps
    }

    fn take(&mut self, step: Step) -> Result<(), String> {
        let controller = match step {
            Step::Happen => {
                self.happen();
                None
            }
            Step::Input(at) | Step::Slices(at) => {
                let controller = &mut self.controllers[at];
                let news = match step {
                    Step::Input(_) => controller.inputs.pop_front(),
                    _ => controller.slices.pop_front(),
                };
                match news.ok_or("there is no news")? {
                    News::Watch(event) => controller.process.show(event),
                    News::Change(changes) => controller.process.deliver(changes),
                }
                Some(at)
            }
            Step::Serve(at, object) => {
                self.serve(at, object, None)?;
                None
            }
            Step::Lose(at, object, carried) => {
                self.loss = false;
                self.serve(at, object, Some(carried))?;
                None
            }
            Step::Answer(at, object) => {
                self.controllers[at].process.answer(&object);
                Some(at)
            }
            Step::Time => {
                self.now = self.now.max(self.wakes().ok_or("nothing waits for a time")?);
                for at in 0..self.controllers.len() {
                    let before = self.deletes(at);
                    let process = &mut self.controllers[at].process;
                    if process.timer.is_some_and(|timer| timer <= self.now) {
                        process.pass_time();
                    }
                    if process
                        .shard
                        .state
                        .next_look()
                        .is_some_and(|look| look <= self.now)
                    {
                        process.to_shard.push_back(ToShard::Due);
                    }
                    self.run(at);
                    for name in self.deletes(at).difference(&before) {
                        self.check_deleted(name)?;
                    }
                }
                None
            }
        };
        if let Some(at) = controller {
            let before = self.deletes(at);
            self.run(at);
            let after = self.deletes(at);
            for name in after.difference(&before) {
                self.check_deleted(name)?;
            }
        }
        // A decision may wait for the answer to an earlier request.
        self.replaced |= self.others_hold_endpoints();
        if !self.server.0.watch.is_empty() {
            for event in std::mem::take(&mut self.server.change().0.watch) {
                for controller in &mut self.controllers {
                    controller.slices.push_back(News::Watch(event.clone()));
                }
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    fn is_quiet(&self, steps: &[Step]) -> bool {
        steps.is_empty()
    }

    fn check_quiet(&self) -> Result<(), String> {
        for controller in &self.controllers {
            if let Some(what) = controller.process.clone().leftovers() {
                return Err(what);
            }
        }
        let server = &self.server.0;
        if self.scene.outputs.slices {
            let (published, expected) = (server.published(), server.expected());
            if published != expected {
                return Err(format!("slices say {published:?}, and should say {expected:?}"));
            }
        }
        if self.scene.outputs.custom {
            self.check_custom()?;
        }
        if self.scene.outputs.mirrored {
            let (published, expected) = (server.published_mirrored(), server.expected_mirrored());
            if published != expected {
                return Err(format!(
                    "mirrored slices say {published:?}, and should say {expected:?}"
                ));
            }
        }
        let wanted = usize::from(self.pods).div_ceil(self.scene.limit).max(1);
        let slices = server.store.len();
        // Slices that were filled by two are not packed again.
        if self.yields.is_none() && slices > 2 * wanted {
            return Err(format!("there are {slices} slices, for which {wanted} would do"));
        }
        Ok(())
    }
}
