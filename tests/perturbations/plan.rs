//! The plans: everything that is done to a controller while it plays a scenario, made from what an undisturbed run
//! of the same scenario sent and was shown. Runs are deterministic, so a plan can name requests by their number and
//! events by their version.

use crate::line::{Cut, Event, KINDS, Rules, Sent};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// An undisturbed run.
#[derive(Default)]
pub(crate) struct Undisturbed {
    /// The requests of the controller, each with the step in which it was sent.
    pub(crate) sent: Vec<(Sent, usize)>,
    /// How many of these were sent before the first step.
    pub(crate) at_start: usize,
    /// The events that watches showed.
    pub(crate) events: Vec<Event>,
    /// The server's version after each operation of each step.
    pub(crate) operations: Vec<Vec<u64>>,
    /// The server's version at the end of each step.
    pub(crate) ends: Vec<u64>,
}

/// A moment at which the player of a scenario does something.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Point {
    /// After an operation of a step, by their numbers.
    Operation(usize, usize),
    /// When a step has settled.
    End(usize),
}

/// A disturbance at such a moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// Watches show what they held back.
    Release,
    /// The server forgets its history, and the watches that hold something back break.
    Hide,
    /// The controller is killed. A new one is shown lists and watches of these kinds as of these versions, until
    /// everything has settled; then its watches catch up.
    Restart(BTreeMap<&'static str, u64>),
}

/// The sorts of plans.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Sort {
    /// The process is killed before or after a request; another one starts at once, or five seconds later.
    Killed,
    /// From an event on, the watch of a kind shows nothing until the step has settled, or the next one has.
    Late,
    /// The process is killed before an event is shown. Another one lists at once, and its watch of that kind shows
    /// nothing until the step has settled.
    LateAfterRestart,
    /// The process is killed when a step has settled. Another one is shown one kind, or everything, as it was
    /// before an event of that step, or of any step when it is the last one, until it has settled on that.
    Stale,
    /// From an event on, the watch of a kind shows nothing until the same object has changed again, or, where it
    /// does not, until the step has settled. Then the server's history is compacted and the watch breaks, so that
    /// the next list is the first to show anything.
    Hidden,
}

/// One plan.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) sort: Sort,
    /// In words. Plans of a scenario differ in it.
    pub(crate) what: String,
    /// The rules of the first process.
    pub(crate) rules: Rules,
    /// The request that the first process must be sending when it is killed.
    pub(crate) last: Option<Sent>,
    /// For how long no process runs after the first was killed.
    pub(crate) pause: Duration,
    /// The watch of this kind shows a second process nothing that happens after its start, until it is released.
    pub(crate) then_late: Option<&'static str>,
    pub(crate) actions: BTreeMap<Point, Action>,
    /// The first step that is disturbed.
    pub(crate) from: usize,
    /// The first step whose end is compared again.
    pub(crate) compared_from: usize,
}

impl Plan {
    /// True if the controller does not see, or sees too late, how things were at the end of some step. What it
    /// would have left of a Service that is abandoned afterwards is not there then.
    pub(crate) fn may_miss(&self) -> bool {
        self.sort == Sort::Stale || self.compared_from > self.from
    }

    /// True if another process goes on.
    pub(crate) fn restarts(&self) -> bool {
        matches!(self.sort, Sort::Killed | Sort::LateAfterRestart | Sort::Stale)
    }

    /// True if events are shown at another moment than in the recorded run, or never. A Ready time that changes
    /// nothing that is published goes with the next write, as upstream has it, and that can be another one then.
    pub(crate) fn moves_events(&self) -> bool {
        self.sort != Sort::Killed
    }
}

impl fmt::Display for Sort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Killed => "killed at a request",
            Self::Late => "a watch is late",
            Self::LateAfterRestart => "killed before an event, then its watch is late",
            Self::Stale => "started on an older view",
            Self::Hidden => "an event is hidden",
        })
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.sort, self.what)
    }
}

/// When an event happened: its step, and the operation that caused it or came after it.
fn moment(undisturbed: &Undisturbed, version: u64) -> (usize, Option<usize>) {
    let step = undisturbed.ends.partition_point(|end| *end < version);
    let step = step.min(undisturbed.ends.len() - 1);
    let operations = &undisturbed.operations[step];
    let operation = operations.partition_point(|after| *after < version);
    (step, (operation < operations.len()).then_some(operation))
}

/// All plans for a scenario.
pub(crate) fn plans(scenario: &Value, undisturbed: &Undisturbed) -> Vec<Plan> {
    let mut plans = Vec::new();
    // Before the first step all scenarios are alike.
    let first = if scenario["name"] == "basic" {
        0
    } else {
        undisturbed.at_start
    };
    for (number, (sent, step)) in undisturbed.sent.iter().enumerate().skip(first) {
        killed(&mut plans, number, sent, *step);
    }
    for i in 0..undisturbed.events.len() {
        if is_one_of_many(scenario, &undisturbed.events[i]) {
            continue;
        }
        late(&mut plans, scenario["steps"].as_array().unwrap(), undisturbed, i);
        stale(&mut plans, undisturbed, i);
        plans.push(hidden(undisturbed, i));
    }
    plans
}

/// One scenario has a thousand pods that differ in their names and addresses: one in two hundred of them will do.
fn is_one_of_many(scenario: &Value, event: &Event) -> bool {
    let number = event.name.trim_start_matches(|c: char| !c.is_ascii_digit());
    scenario["name"] == "truncate"
        && event.kind == "pods"
        && number.parse::<u32>().is_ok_and(|n| !n.is_multiple_of(200))
}

fn killed(plans: &mut Vec<Plan>, number: usize, sent: &Sent, step: usize) {
    let mut cuts = vec![("before", Cut::Before(number))];
    // For the server, a process that dies with the answer to a read has died before it asked.
    if sent.verb != http::Method::GET {
        cuts.push(("after", Cut::After(number)));
    }
    for (when, cut) in cuts {
        for seconds in [0, 5] {
            plans.push(Plan {
                what: format!(
                    "{when} request {number}, {} {}, in step {step}; started again {seconds} s later",
                    sent.verb, sent.path
                ),
                rules: Rules {
                    cut: Some(cut),
                    ..Rules::default()
                },
                last: Some(sent.clone()),
                pause: Duration::from_secs(seconds),
                ..plan(Sort::Killed, step)
            });
        }
    }
}

fn late(plans: &mut Vec<Plan>, steps: &[Value], undisturbed: &Undisturbed, i: usize) {
    let event = &undisturbed.events[i];
    let (step, _) = moment(undisturbed, event.version);
    let held = Rules {
        held: BTreeMap::from([(event.kind, event.version)]),
        ..Rules::default()
    };
    plans.push(Plan {
        what: format!("{event} in step {step} is shown at its end"),
        rules: held.clone(),
        actions: BTreeMap::from([(Point::End(step), Action::Release)]),
        ..plan(Sort::Late, step)
    });
    // Operations on the slices of a Service need some.
    let needed = event.kind == "services"
        && steps.get(step + 1).is_some_and(|step| {
            let operations = step["do"].as_array().unwrap();
            operations.iter().any(|op| !op["patch_slices"].is_null())
        });
    if step + 1 < steps.len() && !needed {
        plans.push(Plan {
            what: format!("{event} in step {step} is shown at the end of step {}", step + 1),
            rules: held,
            actions: BTreeMap::from([(Point::End(step + 1), Action::Release)]),
            compared_from: step + 1,
            ..plan(Sort::Late, step)
        });
    }
    plans.push(Plan {
        what: format!("{event} in step {step}"),
        rules: Rules {
            cut: Some(Cut::Event(event.kind, event.version)),
            ..Rules::default()
        },
        then_late: Some(event.kind),
        actions: BTreeMap::from([(Point::End(step), Action::Release)]),
        ..plan(Sort::LateAfterRestart, step)
    });
}

fn stale(plans: &mut Vec<Plan>, undisturbed: &Undisturbed, i: usize) {
    let event = &undisturbed.events[i];
    let (step, _) = moment(undisturbed, event.version);
    let last = undisturbed.ends.len() - 1;
    let before = event.version - 1;
    let one = BTreeMap::from([(event.kind, before)]);
    let all: BTreeMap<_, _> = KINDS.into_iter().map(|kind| (kind, before)).collect();
    for (which, view) in [(event.kind, one), ("everything", all)] {
        for at in [step, last] {
            plans.push(Plan {
                what: format!("of {which}, before {event} in step {step}, at the end of step {at}"),
                actions: BTreeMap::from([(Point::End(at), Action::Restart(view.clone()))]),
                ..plan(Sort::Stale, at)
            });
            if step == last {
                break;
            }
        }
    }
}

fn hidden(undisturbed: &Undisturbed, i: usize) -> Plan {
    let event = &undisturbed.events[i];
    let (step, _) = moment(undisturbed, event.version);
    let later = undisturbed.events[i + 1..].iter();
    let next = later
        .filter(|e| e.kind == event.kind && e.name == event.name)
        .map(|next| moment(undisturbed, next.version))
        .next();
    let ours = event.kind == "endpoints" || event.kind == "endpointslices";
    // The controller's own writes come at another moment in a run that is disturbed.
    let until = match next {
        Some((at, Some(operation))) if !ours => Point::Operation(at, operation),
        Some((at, _)) => Point::End(at),
        None => Point::End(step),
    };
    let (compared_from, until_words) = match until {
        Point::Operation(at, operation) => (at, format!("operation {operation} of step {at}")),
        Point::End(at) => (at, format!("the end of step {at}")),
    };
    Plan {
        what: format!("{event} in step {step}, until {until_words}"),
        rules: Rules {
            held: BTreeMap::from([(event.kind, event.version)]),
            ..Rules::default()
        },
        actions: BTreeMap::from([(until, Action::Hide)]),
        compared_from,
        ..plan(Sort::Hidden, step)
    }
}

/// A plan that does nothing.
fn plan(sort: Sort, from: usize) -> Plan {
    Plan {
        sort,
        what: String::new(),
        rules: Rules::default(),
        last: None,
        pause: Duration::ZERO,
        then_late: None,
        actions: BTreeMap::new(),
        from,
        compared_from: from,
    }
}
