//! A state that begins anew on what the server holds.

use super::{Model, is_ours};
use endpointd::core::namespace::{Kind, OutputEvent, PendingLists};
use endpointd::core::outputs::Outputs;

impl Model {
    /// A state that begins now, with the lists in the order that `seed` gives, each slice's endpoints shuffled.
    pub(crate) fn restarted(&self, seed: u64) -> Model {
        self.start_over(Some(fastrand::Rng::with_seed(seed)))
    }

    /// One that lists what slices are made of first, and slices by name, as those do that take over.
    pub(crate) fn restarted_in_order(&self) -> Model {
        self.start_over(None)
    }

    fn start_over(&self, mut random: Option<fastrand::Rng>) -> Model {
        let mut fresh = Model::with_holds(self.limit, PendingLists::all(Outputs::ALL));
        (fresh.store, fresh.version, fresh.uids) = (self.store.clone(), self.version, self.uids);
        (fresh.endpoints, fresh.mirrored) = (self.endpoints.clone(), self.mirrored.clone());
        fresh.custom.clone_from(&self.custom);
        fresh.orphans.clone_from(&self.orphans);
        let mut kinds = Kind::ALL;
        shuffle(&mut random, &mut kinds);
        for kind in kinds {
            assert_eq!(
                fresh.plan(),
                [],
                "something is planned before the {} are listed",
                kind.as_str()
            );
            self.list(&mut fresh, kind, &mut random);
            fresh
                .state
                .end_list(kind, fresh.epoch, self.version, &mut fresh.nodes);
        }
        fresh
    }

    fn list(&self, fresh: &mut Model, kind: Kind, random: &mut Option<fastrand::Rng>) {
        match kind {
            Kind::Node => {
                for (name, facts) in &self.zones {
                    fresh.node_facts(name, facts.clone());
                }
            }
            Kind::Pod => {
                let mut pods: Vec<_> = self.pods.values().cloned().collect();
                shuffle(random, &mut pods);
                for pod in pods {
                    fresh.pod(pod);
                }
            }
            Kind::Service => {
                let mut services: Vec<_> = self.services.values().cloned().collect();
                shuffle(random, &mut services);
                for service in services {
                    fresh.service(service);
                }
            }
            Kind::Slice => {
                let mut slices: Vec<_> = self.store.values().filter(|s| is_ours(s)).cloned().collect();
                shuffle(random, &mut slices);
                for mut slice in slices {
                    shuffle(random, &mut slice.endpoints);
                    fresh.state.apply_output(OutputEvent::slice(slice, 0));
                }
            }
            Kind::Endpoints => {
                for mut endpoints in self.endpoints.values().cloned() {
                    shuffle(random, &mut endpoints.subsets);
                    for subset in &mut endpoints.subsets {
                        shuffle(random, &mut subset.ports);
                        shuffle(random, &mut subset.ready);
                        shuffle(random, &mut subset.not_ready);
                    }
                    fresh.state.apply_output(OutputEvent::endpoints(endpoints, 0));
                }
            }
            Kind::Mirrored => {
                let slices = self.mirrored.values().filter(|slice| slice.is_mirrored());
                let mut slices: Vec<_> = slices.cloned().collect();
                shuffle(random, &mut slices);
                for mut slice in slices {
                    shuffle(random, &mut slice.endpoints);
                    fresh.state.apply_output(OutputEvent::mirrored(slice, 0));
                }
            }
        }
    }
}

fn shuffle<T>(random: &mut Option<fastrand::Rng>, values: &mut [T]) {
    if let Some(random) = random {
        random.shuffle(values);
    }
}
