//! Two candidates and a Lease, on a server whose store may be replaced once, or that may lose an answer: never two
//! leaders, and never many requests without a pause. Its times are in the least ratio that lets a lease run out in
//! few steps.

use crate::search::System;
use endpointd::core::leadership::election::{Ask, Election, Reply, Timing};
use endpointd::core::lease::Record;
use endpointd::core::time::Time;
use std::iter;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
/// More requests than these without a pause are too many: each candidate may look, claim and look again.
const MOST_AT_ONCE: u32 = 6;

/// A fault of the store or of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// The store is empty again, and versions begin anew.
    Fresh,
    /// The store is set back to a copy in which the Lease was given up.
    Restored,
    /// A request is not carried out, and its sender gives it up.
    LostBefore,
    /// A request is carried out, and its sender gives it up.
    LostAfter,
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Time,
    Serve(usize),
    Answer(usize),
    Replace,
    Lose(usize),
}

#[derive(Clone, Debug)]
enum Flight {
    Sent(Ask),
    Answered(Reply),
}

/// A state of the whole.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    now: Duration,
    /// How often it may move on.
    ticks: u32,
    /// The version of the store, and the Lease with its own.
    version: u64,
    record: Option<(u64, Record)>,
    candidates: [Election; 2],
    flights: [Option<Flight>; 2],
    fault: Option<Fault>,
    /// Requests since time last moved on.
    sent: u32,
}

/// One leads, the other one knows. A history ends when time has moved on so often as `ticks` says; the other can lead
/// after the third.
pub(crate) fn cases(ticks: u32) -> Vec<(String, Lease)> {
    let faults = [Fault::Fresh, Fault::Restored, Fault::LostBefore, Fault::LostAfter];
    let cases = iter::once(None).chain(faults.map(Some)).map(|fault| {
        let timing = Timing::new(4 * SECOND, 3 * SECOND, 2 * SECOND).unwrap();
        let mut lease = Lease {
            now: Duration::ZERO,
            ticks: u32::MAX,
            version: 5000,
            record: None,
            candidates: ["a", "b"].map(|name| Election::new(name.to_owned(), timing)),
            flights: [None, None],
            fault: None,
            sent: 0,
        };
        for candidate in [0, 0, 1] {
            lease.ask(candidate);
            lease.take(Step::Serve(candidate)).unwrap();
            lease.flights[1 - candidate] = None;
            if let Some(Flight::Answered(reply)) = lease.flights[candidate].take() {
                lease.candidates[candidate].answered(reply, lease.now, 0.0);
            }
        }
        assert!(lease.candidates[0].proven().is_some());
        (lease.ticks, lease.fault, lease.sent) = (ticks, fault, 0);
        let name = match fault {
            None => format!("two candidates and a Lease, {ticks} times"),
            Some(fault) => format!("two candidates and a Lease, {ticks} times, {fault:?}"),
        };
        (name, lease)
    });
    cases.collect()
}

impl Lease {
    fn ask(&mut self, candidate: usize) {
        let wall = Time::from_seconds(i64::try_from(self.now.as_secs()).unwrap());
        if let Some(ask) = self.candidates[candidate].ask(self.now, wall) {
            self.sent += 1;
            self.flights[candidate] = Some(Flight::Sent(ask));
        }
    }

    fn serve(&mut self, ask: Ask) -> Reply {
        let (at, record) = match (ask, &self.record) {
            (Ask::Look | Ask::Replace(..), None) => return Reply::Missing,
            (Ask::Look, Some((version, record))) => return Reply::Record(*version, record.clone()),
            (Ask::Create(_), Some(_)) => return Reply::Conflict,
            (Ask::Replace(seen, _), Some((version, _))) if seen != *version => return Reply::Conflict,
            (Ask::Create(record) | Ask::Replace(_, record), _) => (self.version + 1, record),
        };
        self.version = at;
        self.record = Some((at, record.clone()));
        Reply::Record(at, record)
    }
}

impl System for Lease {
    type Step = Step;

    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for (candidate, flight) in self.flights.iter().enumerate() {
            steps.extend(flight.as_ref().map(|flight| match flight {
                Flight::Sent(_) => Step::Serve(candidate),
                Flight::Answered(_) => Step::Answer(candidate),
            }));
        }
        if self.ticks > 0 {
            steps.push(Step::Time);
        }
        match self.fault {
            None => {}
            Some(Fault::Fresh | Fault::Restored) => steps.push(Step::Replace),
            Some(Fault::LostBefore | Fault::LostAfter) => {
                let sent = |candidate: &usize| matches!(self.flights[*candidate], Some(Flight::Sent(_)));
                steps.extend([0, 1].into_iter().filter(sent).map(Step::Lose));
            }
        }
        steps
    }

    fn take(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Time => {
                let wakes = self.candidates.iter().map(Election::wake);
                self.now = wakes.min().unwrap_or_default().max(self.now);
                (self.ticks, self.sent) = (self.ticks - 1, 0);
            }
            Step::Serve(candidate) => {
                if let Some(Flight::Sent(ask)) = self.flights[candidate].take() {
                    self.flights[candidate] = Some(Flight::Answered(self.serve(ask)));
                }
                return Ok(());
            }
            Step::Answer(candidate) => {
                if let Some(Flight::Answered(reply)) = self.flights[candidate].take() {
                    self.candidates[candidate].answered(reply, self.now, 0.0);
                }
            }
            Step::Lose(candidate) => {
                if let Some(Flight::Sent(ask)) = self.flights[candidate].take() {
                    if self.fault.take() == Some(Fault::LostAfter) {
                        self.serve(ask);
                    }
                    self.flights[candidate] = Some(Flight::Answered(Reply::Failed));
                }
                return Ok(());
            }
            Step::Replace => {
                let restored = self.fault.take() == Some(Fault::Restored);
                let released = Record {
                    seconds: 1,
                    ..Record::default()
                };
                (self.version, self.record) = (7, restored.then_some((3, released)));
                return Ok(());
            }
        }
        for candidate in [0, 1] {
            self.ask(candidate);
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        if self.sent > MOST_AT_ONCE {
            return Err(format!("{} requests were sent without a pause", self.sent));
        }
        let leads = |candidate: &Election| candidate.proven().is_some_and(|until| until > self.now);
        if self.candidates.iter().all(leads) {
            return Err("two candidates lead".to_owned());
        }
        Ok(())
    }

    fn is_quiet(&self, _: &[Step]) -> bool {
        false
    }

    fn check_quiet(&self) -> Result<(), String> {
        Ok(())
    }
}
