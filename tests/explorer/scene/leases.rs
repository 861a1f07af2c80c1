//! The Lease that a Service follows: who holds it, what controllers hear of it, and that no leader is taken out for nothing.

use super::{Happening, Stage, pod};
use endpointd::core::facts::Manager;
use endpointd::core::followed_leases::lease::{
    LeaseAnswer, LeaseChange, LeaseEvent, LeaseFacts, LeaseList, LeaseRequest,
};

impl Stage<'_> {
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
                LeaseRequest::Read(generation, name) => {
                    let found = there.get(&name).cloned();
                    let answer = found.map_or(LeaseAnswer::Missing, LeaseAnswer::Found);
                    (generation, vec![LeaseEvent::Read(name, answer)])
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
            if let Some(generation) = controller.follows {
                controller.leases.extend(facts.iter().map(|facts| LeaseChange {
                    generation,
                    at: self.now,
                    event: LeaseEvent::Seen(facts.clone()),
                }));
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

    /// A leader stays published until its Lease or another controller's endpoints say otherwise.
    pub(super) fn check_leader(&self) -> Result<(), String> {
        let changed = self.scene.script[..self.happened]
            .iter()
            .any(|happening| match happening {
                Happening::Others(pods) | Happening::OthersFailing(pods) => !pods.is_empty(),
                Happening::OthersGone | Happening::Renews => false,
                _ => true,
            });
        let published = self.addresses(Manager::Custom);
        if changed || !published.is_empty() {
            return Ok(());
        }
        Err("the leader is taken out, and nothing says that it does not lead".to_owned())
    }
}
