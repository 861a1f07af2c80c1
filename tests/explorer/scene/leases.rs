//! The Lease that a Service follows: who holds it, what controllers hear of it, and that no leader is taken out for nothing.
//!
//! A controller may hear of it from two watches at once, that of the namespace and that of all namespaces which takes its place:
//!
//! ```text
//!  asked for ──► listed ──► its list is heard of ──► the other watch ends
//!                  └─ from here on, the controller hears of each change from both, in any order ─┘
//! ```

use super::{Happening, Stage, pod};
use endpointd::core::facts::Manager;
use endpointd::core::followed_leases::lease::{
    LeaseAnswer, LeaseChange, LeaseEvent, LeaseFacts, LeaseList, LeaseRequest,
};
use endpointd::core::inbox::Change;
use std::collections::VecDeque;
use std::time::Duration;

/// The time that passes after the list was asked for.
const MOMENT: Duration = Duration::from_millis(1);

/// The watch of the Leases of all namespaces, as far as one controller follows it.
#[derive(Clone, Default, Debug)]
pub(super) struct Everywhere {
    /// When the list was asked for.
    asked: Option<Duration>,
    /// The next step of the take-over.
    next: Option<Takeover>,
    /// The list, and what was shown since, on their way to the controller.
    news: VecDeque<LeaseChange>,
}

/// A step of the take-over from the namespace's own watch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Takeover {
    /// The server lists all Leases.
    List,
    /// The controller hears of the Lease, first of the list.
    Hear,
    /// The namespace's own watch ends. What it has shown and the controller has not heard of is lost.
    End,
}

impl Everywhere {
    pub(super) fn steps(&self) -> impl Iterator<Item = Takeover> {
        let hears = (!self.news.is_empty()).then_some(Takeover::Hear);
        self.next
            .filter(|next| *next != Takeover::Hear)
            .into_iter()
            .chain(hears)
    }

    /// Returns whether it shows what happens to Leases.
    fn watches(&self) -> bool {
        self.asked.is_some() && self.next != Some(Takeover::List)
    }

    /// Returns whether it has taken the place of the namespace's own watch.
    fn is_alone(&self) -> bool {
        self.asked.is_some() && self.next.is_none()
    }
}

impl Stage<'_> {
    /// The watch of all namespaces asks for a list.
    pub(super) fn ask_everywhere(&mut self) {
        for controller in &mut self.controllers {
            controller.everywhere.asked = Some(self.now);
            controller.everywhere.next = Some(Takeover::List);
        }
    }

    /// A controller hears of the Lease, now.
    pub(super) fn hear_of_lease(&mut self, at: usize, change: Option<LeaseChange>) {
        let controller = &mut self.controllers[at];
        let passed = controller.everywhere.asked.map_or(Duration::ZERO, |_| MOMENT);
        let change = change.map(|change| LeaseChange {
            at: self.now + passed,
            ..change
        });
        controller.process.deliver(change.map(Change::Leases));
    }

    /// The watch of all namespaces goes on.
    pub(super) fn take_over(&mut self, at: usize, step: Takeover) {
        let there: Vec<_> = self.server.0.leases.there.values().cloned().collect();
        let controller = &mut self.controllers[at];
        let everywhere = &mut controller.everywhere;
        match step {
            Takeover::List => {
                let version = there.iter().map(|lease| lease.version).max().unwrap_or_default();
                if let (Some(asked), Some(generation)) = (everywhere.asked, controller.follows) {
                    everywhere.news.push_back(LeaseChange {
                        generation,
                        at: self.now,
                        event: LeaseEvent::Listed(LeaseList::new(asked, version, there)),
                    });
                }
                everywhere.next = Some(Takeover::Hear);
            }
            Takeover::Hear => {
                if everywhere.next == Some(Takeover::Hear) {
                    everywhere.next = Some(Takeover::End);
                }
                let change = everywhere.news.pop_front();
                self.hear_of_lease(at, change);
            }
            Takeover::End => {
                everywhere.next = None;
                controller.leases.clear();
            }
        }
    }

    /// Carries out what a controller asks about Leases.
    pub(super) fn follow(&mut self, at: usize) {
        let controller = &mut self.controllers[at];
        for request in controller.process.shard.change().state.take_lease_requests() {
            let there = &self.server.0.leases.there;
            let (generation, events) = match request {
                LeaseRequest::Follow(generation) => {
                    controller.follows = Some(generation);
                    let all: Vec<_> = there.values().cloned().collect();
                    let version = all.iter().map(|lease| lease.version).max().unwrap_or_default();
                    let list = LeaseList::new(self.now, version, all);
                    (generation, vec![LeaseEvent::Begun, LeaseEvent::Listed(list)])
                }
                LeaseRequest::Read(generation, read) => {
                    let found = there.get(&read.name).cloned();
                    let answer = found.map_or(LeaseAnswer::Missing, LeaseAnswer::Found);
                    (generation, vec![LeaseEvent::Read(read, answer)])
                }
                // Reads begin at once.
                LeaseRequest::Cancel(_) => continue,
                LeaseRequest::Leave => {
                    controller.follows = None;
                    controller.leases.clear();
                    continue;
                }
            };
            for event in events {
                controller.leases.push_back(LeaseChange {
                    generation,
                    at: self.now,
                    event,
                });
            }
        }
    }

    /// The Lease has this pod as its holder, from now on or still, and is seen to change.
    pub(super) fn lead(&mut self, number: u8) {
        let server = &mut self.server.change().0;
        server.lead(0, Some(&pod(number).facts().name));
        let facts: Vec<LeaseFacts> = server.leases.there.values().cloned().collect();
        for controller in &mut self.controllers {
            let Some(generation) = controller.follows else {
                continue;
            };
            let seen = facts.iter().map(|facts| LeaseChange {
                generation,
                at: self.now,
                event: LeaseEvent::Seen(facts.clone()),
            });
            if controller.everywhere.watches() {
                controller.everywhere.news.extend(seen.clone());
            }
            if !controller.everywhere.is_alone() {
                controller.leases.extend(seen);
            }
        }
    }

    /// Returns the pod that holds the Lease, by what has happened.
    pub(super) fn leader(&self) -> u8 {
        let happened = self.scene.script[..self.happened].iter().rev();
        let mut holders = happened.filter_map(|happening| match happening {
            Happening::Leads(number) => Some(*number),
            _ => None,
        });
        holders.next().unwrap_or(0)
    }

    /// Returns whether the pod that holds the Lease is published, and is the only one.
    pub(super) fn is_leader_published(&self) -> bool {
        let leader = pod(self.leader()).facts().v4.map(|address| address.to_string());
        self.addresses(Manager::Custom).into_iter().eq(leader)
    }

    /// Returns whether the controllers hear of the Lease from two watches, and the pod that holds it has not held it before.
    fn is_new_beside_two_watches(&self) -> bool {
        let happened = &self.scene.script[..self.happened];
        let leader = self.leader();
        let times = happened
            .iter()
            .filter(|happening| **happening == Happening::Leads(leader));
        happened.contains(&Happening::Everywhere) && leader != 0 && times.count() == 1
    }

    /// A leader stays published until its Lease or another controller's endpoints say otherwise.
    pub(super) fn check_leader(&self) -> Result<(), String> {
        if self.leads && self.is_new_beside_two_watches() && !self.is_leader_published() {
            return Err("the leader is taken out, because a watch shows what was before".to_owned());
        }
        let changed = self.scene.script[..self.happened]
            .iter()
            .any(|happening| match happening {
                Happening::Others(pods) | Happening::OthersFailing(pods) => !pods.is_empty(),
                Happening::OthersGone | Happening::Renews | Happening::Everywhere => false,
                _ => true,
            });
        let published = self.addresses(Manager::Custom);
        if changed || !published.is_empty() {
            return Ok(());
        }
        Err("the leader is taken out, and nothing says that it does not lead".to_owned())
    }
}
