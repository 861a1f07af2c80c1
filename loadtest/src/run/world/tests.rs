use super::*;
use crate::run::phase::{Profile, Tuning};
use crate::run::plan::Source;
use crate::run::sizes::SizeFlags;
use std::collections::BTreeSet;

fn world(profile: Profile, pods: usize) -> World {
    let sizes = SizeFlags {
        pods: Some(pods),
        ..SizeFlags::default()
    };
    let plan = Plan::new(&Source::Profile(profile), &sizes, &Tuning::default(), Some(3)).unwrap();
    World::new(&plan, "r")
}

#[test]
fn pods_are_dealt_out_without_a_rest() {
    for profile in [Profile::Steady, Profile::Demo] {
        let world = world(profile, 503);
        assert_eq!(world.pod_count(), 503, "{profile}");
        assert_eq!(world.idle.len(), 503, "{profile}");
        let members: usize = world.groups.iter().map(|group| group.members.len()).sum();
        assert_eq!(members, 503, "{profile}");
    }
}

#[test]
fn the_services_of_a_pod_are_those_that_select_it() {
    for profile in [Profile::Demo, Profile::Steady] {
        let world = world(profile, 503);
        assert!(world.pods().any(|pod| !world.places(pod).is_empty()), "{profile}");
        for pod in world.pods() {
            let found: BTreeSet<usize> = world.places(pod).iter().map(|place| place.set.0).collect();
            let services = world.services.iter().enumerate();
            let namespace = world.groups[pod.group].namespace;
            let selects = |service: &Service| {
                service.namespace == namespace
                    && world.selects(service, pod)
                    && shares_a_family(service, &world.groups[pod.group])
            };
            let expected: BTreeSet<usize> = services
                .filter(|(_, service)| selects(service))
                .map(|(index, _)| index)
                .collect();
            assert_eq!(found, expected, "{profile}");
        }
    }
}

fn shares_a_family(service: &Service, group: &Group) -> bool {
    let families = service.kind.families();
    families
        .iter()
        .any(|family| group.kind.families().contains(family))
}

#[test]
fn a_pod_is_in_one_hand_at_most() {
    let mut world = world(Profile::Steady, 100);
    let taken: Vec<PodNumber> = std::iter::from_fn(|| world.take_any()).collect();
    assert_eq!(taken.len(), 100);
    assert!(!world.take(taken[0]));
    world.put_back(taken[5]);
    world.put_back(taken[7]);
    assert!(world.take(taken[5]) && world.take(taken[7]) && world.take_any().is_none());
    world.set_state(taken[5], State::Gone);
    assert_eq!(world.pod_count(), 99);
    world.put_back(taken[5]);
    assert!(world.take_any().is_none(), "what is gone does not come back");
}
