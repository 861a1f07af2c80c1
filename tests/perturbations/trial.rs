//! Playing a scenario while a plan is carried out.

use crate::cluster;
use crate::line::{Line, Rules, Sent};
use crate::plan::{Action, Plan, Point, Undisturbed};
use crate::player::{But, Player, QUIET};
use endpointd::ops::run::{Options, run};
use kube::Client;
use memory_apiserver::ApiServer;
use parking_lot::Mutex;
use scenario::Scenario;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// How long a controller takes to start, with time to spare.
const START: Duration = Duration::from_secs(1);
/// For how long nothing may be written in the end. The longest pause between tries is half of it.
const STILL: Duration = Duration::from_secs(60);
/// The time after which every client has seen what an operation did.
const SEEN: Duration = Duration::from_millis(10);

/// The server, and the processes of the controller one after the other. Clones are the same stage.
#[derive(Clone)]
struct Stage {
    server: ApiServer,
    options: Options,
    state: Arc<Mutex<State>>,
}

struct State {
    line: Line,
    process: Option<JoinHandle<()>>,
    /// How many processes have been started.
    started: u64,
}

/// Plays a scenario undisturbed. Returns what was sent and shown, or how the states differ from the recorded ones.
pub(crate) fn undisturbed(scenario: &Value) -> Result<Undisturbed, Vec<String>> {
    in_virtual_time(async {
        let rules = Rules {
            noted: true,
            ..Rules::default()
        };
        let stage = Stage::new(scenario, rules);
        let mut found = Undisturbed::default();
        stage.start();
        sleep(START).await;
        found.at_start = stage.line().sent_count();
        let mut player = Player::new(scenario, &stage.server);
        player.begin().await;
        let mut differences = Vec::new();
        for (i, step) in player.steps().iter().enumerate() {
            let mut operations = Vec::new();
            for operation in step["do"].as_array().unwrap() {
                player.act(operation).await;
                operations.push(stage.server.resource_version());
            }
            player.settle(QUIET).await;
            found.operations.push(operations);
            found.ends.push(stage.server.resource_version());
            let sent = stage.line().sent().into_iter().skip(found.sent.len());
            found.sent.extend(sent.map(|sent| (sent, i)));
            let state = player.state().await;
            differences.extend(player.differences(i, &state, &But::default()));
        }
        found.events = stage.line().events();
        differences.extend(stage.end().await);
        if differences.is_empty() {
            Ok(found)
        } else {
            Err(differences)
        }
    })
}

/// Plays a scenario while a plan is carried out. How it ends otherwise than recorded.
pub(crate) fn disturbed(scenario: &Value, plan: &Plan) -> Vec<String> {
    in_virtual_time(async {
        let stage = Stage::new(scenario, plan.rules.clone());
        let first = stage.line();
        stage.start();
        if plan.rules.cut.is_some() {
            stage.follow_up(plan.pause, plan.then_late);
        }
        sleep(START).await;
        let mut player = Player::new(scenario, &stage.server);
        player.begin().await;
        let mut differences = Vec::new();
        for (i, step) in player.steps().iter().enumerate() {
            for (at, operation) in step["do"].as_array().unwrap().iter().enumerate() {
                player.act(operation).await;
                if let Some(action) = plan.actions.get(&Point::Operation(i, at)) {
                    sleep(SEEN).await;
                    stage.perform(action);
                }
            }
            let mut settled = stage.settle(&player).await;
            if let Some(action) = plan.actions.get(&Point::End(i)) {
                stage.perform(action);
                settled &= stage.settle(&player).await;
                if let Action::Restart(as_of) = action {
                    let shown = stage.line().shown_as_of();
                    if !as_of.keys().eq(&shown) {
                        differences.push(format!(
                            "the plan was not carried out: {shown:?} were listed as of then"
                        ));
                    }
                    stage.line().release();
                    settled &= stage.settle(&player).await;
                }
            }
            if !settled {
                differences.push(format!("step {i} does not settle"));
            }
            // Until it is disturbed it is the undisturbed run, which has been compared.
            if i >= plan.compared_from {
                let state = player.state().await;
                let mut but = But {
                    trigger_times: true,
                    ..But::default()
                };
                if plan.may_miss() {
                    but.services = player.abandoned().await;
                }
                differences.extend(player.differences(i, &state, &but));
                if i > plan.compared_from {
                    differences.extend(
                        player.other_triggers(i, &state, &but, |want, got| {
                            time_fits(scenario, plan, want, got)
                        }),
                    );
                }
            }
        }
        differences.extend(carried_out(plan, &first));
        differences.extend(stage.end().await);
        differences
    })
}

/// True if a trigger time may stand for the recorded one.
fn time_fits(scenario: &Value, plan: &Plan, want: Option<&str>, got: Option<&str>) -> bool {
    // While a Service is an external name, the Ready times that moved forward wait for it in the process's memory.
    let lost = got.is_none() && scenario["name"] == "to-external-name" && plan.restarts();
    // No time is earlier than that of the first write of a Service, which is the time of its creation.
    let earlier =
        got == Some("<service creation>") || (got.is_some() && want.is_none_or(|want| got < Some(want)));
    want == got || lost || (earlier && plan.moves_events())
}

/// Fails a plan that did not meet the requests and events that it was made for.
fn carried_out(plan: &Plan, first: &Line) -> Option<String> {
    if plan.rules.cut.is_some() && !first.is_cut() {
        return Some("the plan was not carried out: nobody was killed".to_owned());
    }
    if let Some(last) = &plan.last
        && first.sent().last() != Some(last)
    {
        let sent = first.sent();
        return Some(format!(
            "the plan was not carried out: it was {:?} that was sent last",
            sent.last()
        ));
    }
    let held = plan
        .rules
        .held
        .iter()
        .next()
        .map(|(kind, version)| (*kind, *version));
    let withheld = first.withheld();
    (held != withheld).then(|| format!("the plan was not carried out: {withheld:?} was held back first"))
}

/// Runs something on a paused clock and one thread.
fn in_virtual_time<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(work)
}

impl Stage {
    fn new(scenario: &Value, rules: Rules) -> Self {
        let server = cluster::server();
        let state = State {
            line: Line::new(&server, rules),
            process: None,
            started: 0,
        };
        Self {
            server,
            options: cluster::options(Scenario(scenario).max_endpoints()),
            state: Arc::new(Mutex::new(state)),
        }
    }

    fn line(&self) -> Line {
        self.state.lock().line.clone()
    }

    /// Starts a process on the present line.
    fn start(&self) {
        let mut state = self.state.lock();
        state.started += 1;
        let clients = cluster::clients(|| Client::new(state.line.clone(), "default"));
        let mut options = self.options;
        // Each process draws names of its own.
        options.settings.seed = state.started;
        state.process = Some(tokio::spawn(async move {
            run(clients, options, std::future::pending()).await.unwrap();
        }));
    }

    /// Starts a process in the place of one that was killed, on a line with these rules.
    fn start_again(&self, rules: Rules) {
        {
            let mut state = self.state.lock();
            state.line.cut();
            if let Some(process) = state.process.take() {
                process.abort();
            }
            state.line = Line::new(&self.server, rules);
        }
        self.start();
    }

    /// When the plan kills the first process, another one is started after a pause.
    fn follow_up(&self, pause: Duration, then_late: Option<&'static str>) {
        let (stage, line) = (self.clone(), self.line());
        tokio::spawn(async move {
            line.until_cut().await;
            sleep(pause).await;
            let mut rules = Rules::default();
            if let Some(kind) = then_late {
                rules.held.insert(kind, stage.server.resource_version() + 1);
            }
            stage.start_again(rules);
        });
    }

    fn perform(&self, action: &Action) {
        match action {
            Action::Release => self.line().release(),
            Action::Hide => {
                self.server.compact();
                self.line().break_held();
            }
            Action::Restart(as_of) => self.start_again(Rules {
                as_of: as_of.clone(),
                ..Rules::default()
            }),
        }
    }

    /// Waits until nothing has been written for a while, by a process that has been there all the time.
    async fn settle(&self, player: &Player<'_>) -> bool {
        loop {
            let before = self.state.lock().started;
            let settled = player.settle(QUIET).await;
            if !self.line().is_cut() && self.state.lock().started == before {
                return settled;
            }
            sleep(SEEN).await;
        }
    }

    /// Checks that nothing more is written, neither by the process that is there nor by one that takes over from it.
    async fn end(&self) -> Vec<String> {
        let mut found = Vec::new();
        let (line, version) = (self.line(), self.server.resource_version());
        let before = line.sent_count();
        sleep(STILL).await;
        let sent = line.sent().into_iter().skip(before);
        let sent: Vec<_> = sent.filter(|sent| !sent.looks_around).collect();
        if !sent.is_empty() || self.server.resource_version() != version {
            found.push(format!("it is not still in the end: {sent:?}"));
        }
        let running = !self
            .state
            .lock()
            .process
            .as_ref()
            .is_none_or(JoinHandle::is_finished);
        if !running {
            found.push("the controller has ended".to_owned());
        }
        self.start_again(Rules::default());
        sleep(START).await;
        let sent = self.line().sent();
        // A warning is told again by a process that comes to know of it.
        let writes = |sent: &&Sent| sent.verb != http::Method::GET && !sent.path.ends_with("/events");
        let writes: Vec<_> = sent.iter().filter(writes).collect();
        if !writes.is_empty() {
            found.push(format!("a controller that takes over writes: {writes:?}"));
        }
        found
    }
}
