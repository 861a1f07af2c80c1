//! The plan at work: its rules' generators and counts, and what it did.

use super::{Ask, Failure, Fault, FaultPlan, Over, Rule, Stage, Verb, WatchFault};
use fastrand::Rng;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// How many records are kept; the counts go on.
const KEEP: usize = 100_000;

/// The server's plan, if any.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Odd while a plan is set; every change of the plan moves it. All that requests look at without a plan.
    generation: AtomicU64,
    /// The latest plan; kept when it was cleared, for what it did.
    plan: Mutex<Option<Arc<Active>>>,
}

/// A plan that was set.
#[derive(Debug)]
pub(crate) struct Active {
    since: Instant,
    /// True once the plan is cleared or replaced: whatever it holds goes on.
    lifted: watch::Sender<bool>,
    /// Wakes what hangs in the order in which it came, so that a run replays exactly.
    released: tokio::sync::Notify,
    client: String,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    rules: Vec<Armed>,
    records: VecDeque<FaultRecord>,
    counts: BTreeMap<String, u64>,
}

/// A rule with what it draws from and how far it is.
#[derive(Debug)]
struct Armed {
    rule: Rule,
    label: String,
    rng: Rng,
    /// Matching requests so far.
    matched: u64,
    fired: u64,
    /// When the budget's next request would be due, were there no burst.
    due: Option<Instant>,
}

/// A fault that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultRecord {
    /// When, on tokio's clock since the plan was set.
    pub at: Duration,
    /// The fault, as [`Fault`] prints it.
    pub fault: String,
    /// The verb of the request.
    pub verb: Verb,
    /// The plural name of the kind.
    pub resource: &'static str,
}

/// How a request ends that is not answered as it should be.
#[derive(Debug)]
pub(crate) enum Fate {
    Before(Failure),
    After(Failure),
    NoStreamingLists,
    CutAnswer(Rng),
}

/// All that hits one request, each with its rule.
#[derive(Debug, Default)]
pub(crate) struct Hit {
    pub(crate) compact: Option<usize>,
    pub(crate) before: Vec<(usize, Duration)>,
    pub(crate) after: Vec<(usize, Duration)>,
    pub(crate) fate: Option<(usize, Fate)>,
    pub(crate) watch: Vec<(usize, WatchFault, Rng)>,
}

// === impl Faults ===

impl Faults {
    pub(crate) fn set(&self, plan: FaultPlan) {
        let mut current = self.plan.lock();
        let old = current.replace(Arc::new(Active::new(plan)));
        self.generation
            .store((self.generation() + 1) | 1, Ordering::Release);
        // After the generation: what the old plan held must find the new one.
        if let Some(old) = old {
            old.lift();
        }
    }

    pub(crate) fn clear(&self) {
        let current = self.plan.lock();
        self.generation
            .store((self.generation() + 1) & !1, Ordering::Release);
        if let Some(plan) = current.as_ref() {
            plan.lift();
        }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Whether a plan was set at this generation.
    pub(crate) fn is_set(generation: u64) -> bool {
        generation & 1 == 1
    }

    /// The plan that is set and its generation.
    pub(crate) fn active(&self) -> Option<(u64, Arc<Active>)> {
        let plan = self.plan.lock();
        let generation = self.generation();
        let plan = plan.as_ref().filter(|_| Self::is_set(generation))?;
        Some((generation, Arc::clone(plan)))
    }

    /// The latest plan, set or cleared.
    pub(crate) fn latest(&self) -> Option<Arc<Active>> {
        self.plan.lock().clone()
    }
}

// === impl Active ===

impl Active {
    fn new(plan: FaultPlan) -> Self {
        let mut rng = Rng::with_seed(plan.seed);
        let armed = |rule: Rule| Armed {
            label: rule.fault.to_string(),
            rng: rng.fork(),
            matched: 0,
            fired: 0,
            due: None,
            rule,
        };
        let state = State {
            rules: plan.rules.into_iter().map(armed).collect(),
            records: VecDeque::new(),
            counts: BTreeMap::new(),
        };
        Self {
            since: Instant::now(),
            lifted: watch::Sender::new(false),
            released: tokio::sync::Notify::new(),
            client: plan.client,
            state: Mutex::new(state),
        }
    }

    fn lift(&self) {
        self.lifted.send_replace(true);
        self.released.notify_waiters();
    }

    pub(crate) fn is_lifted(&self) -> bool {
        *self.lifted.borrow()
    }

    pub(crate) fn lifted(&self) -> watch::Receiver<bool> {
        self.lifted.subscribe()
    }

    /// Waits, but not beyond the plan's end.
    pub(crate) async fn pause(&self, time: Duration) {
        tokio::select! {
            biased;
            () = self.until_lifted() => {}
            () = tokio::time::sleep(time) => {}
        }
    }

    pub(crate) async fn until_lifted(&self) {
        // The sender is this plan's own and cannot be gone.
        let released = self.released.notified();
        // Registered at its creation, so a lift in between is not missed.
        if !self.is_lifted() {
            released.await;
        }
    }

    /// Returns the faults that hit a request.
    pub(crate) fn draw(&self, ask: &Ask) -> Hit {
        self.ask_rules(ask, |_| true)
    }

    /// Returns the faults that hit a watch that has begun already.
    pub(crate) fn draw_within_watch(&self, ask: &Ask) -> Hit {
        self.ask_rules(ask, |fault| matches!(fault, Fault::Watch(_)))
    }

    fn ask_rules(&self, ask: &Ask, wanted: impl Fn(&Fault) -> bool) -> Hit {
        let mut hit = Hit::default();
        if !ask.client.starts_with(&self.client) {
            return hit;
        }
        let now = Instant::now();
        let passed = now.saturating_duration_since(self.since);
        let mut state = self.state.lock();
        for (i, armed) in state.rules.iter_mut().enumerate() {
            if wanted(&armed.rule.fault) && armed.rule.when.covers(ask, passed) {
                armed.fire(i, ask, now, &mut hit);
            }
        }
        hit
    }

    /// Notes that a fault happened; the answer is its name.
    pub(crate) fn note(&self, rule: usize, ask: &Ask) -> String {
        let at = Instant::now().saturating_duration_since(self.since);
        let mut state = self.state.lock();
        let fault = state.rules[rule].label.clone();
        *state.counts.entry(fault.clone()).or_default() += 1;
        if state.records.len() == KEEP {
            state.records.pop_front();
        }
        state.records.push_back(FaultRecord {
            at,
            fault: fault.clone(),
            verb: ask.verb,
            resource: ask.kind.resource,
        });
        fault
    }

    pub(crate) fn label(&self, rule: usize) -> String {
        self.state.lock().rules[rule].label.clone()
    }

    pub(crate) fn records(&self) -> Vec<FaultRecord> {
        self.state.lock().records.iter().cloned().collect()
    }

    pub(crate) fn counts(&self) -> BTreeMap<String, u64> {
        self.state.lock().counts.clone()
    }
}

// === impl Armed ===

impl Armed {
    /// Decides whether a request the rule is about is hit, and by what.
    fn fire(&mut self, index: usize, ask: &Ask, now: Instant, hit: &mut Hit) {
        let fault = &self.rule.fault;
        let moot = match fault {
            Fault::NoStreamingLists => hit.fate.is_some() || !ask.is_streaming_list(),
            Fault::CutAnswer => hit.fate.is_some() || ask.verb == Verb::Watch,
            Fault::Watch(_) => ask.verb != Verb::Watch,
            fault => fault.is_fate() && hit.fate.is_some(),
        };
        let when = &self.rule.when;
        if moot || when.limit.is_some_and(|limit| self.fired >= limit) {
            return;
        }
        self.matched += 1;
        let Some(counted) = self.matched.checked_sub(when.skip).filter(|n| *n > 0) else {
            return;
        };
        if !counted.is_multiple_of(when.every) || (when.rate < 1.0 && self.rng.f64() >= when.rate) {
            return;
        }
        match fault {
            Fault::Fail(Stage::Before, failure) => hit.fate = Some((index, Fate::Before(*failure))),
            Fault::Fail(Stage::After, failure) => hit.fate = Some((index, Fate::After(*failure))),
            Fault::CutAnswer => hit.fate = Some((index, Fate::CutAnswer(self.rng.fork()))),
            Fault::NoStreamingLists => hit.fate = Some((index, Fate::NoStreamingLists)),
            Fault::Delay(stage, latency) => {
                let time = latency.draw(&mut self.rng);
                match stage {
                    Stage::Before => hit.before.push((index, time)),
                    Stage::After => hit.after.push((index, time)),
                }
            }
            Fault::Budget {
                per_second,
                burst,
                over,
            } => {
                let each = Duration::from_secs_f64(1.0 / per_second.max(1e-3));
                let ahead = each * (*burst).max(1).saturating_sub(1);
                let due = self.due.map_or(now, |due| due.max(now));
                let wait = due.saturating_duration_since(now + ahead);
                let is_over = !wait.is_zero();
                if is_over && *over == Over::Refuse {
                    if hit.fate.is_some() {
                        return;
                    }
                    hit.fate = Some((index, Fate::Before(Failure::Overloaded { retry_after: 1 })));
                } else {
                    self.due = Some(due + each);
                    if !is_over {
                        return;
                    }
                    hit.before.push((index, wait));
                }
            }
            Fault::Compact => hit.compact = Some(index),
            Fault::Watch(fault) => hit.watch.push((index, fault.clone(), self.rng.fork())),
        }
        self.fired += 1;
    }
}
