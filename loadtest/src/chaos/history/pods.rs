//! The changes of pods.

use super::History;
use crate::chaos::api::{Ask, Resource};
use crate::chaos::world::{Pod, World};
use serde_json::json;

/// A cluster never has more, so that histories stay quick.
const MOST: usize = 60;

impl History {
    pub(super) async fn create_pod(&mut self) {
        if self.world.pods.len() >= MOST {
            return;
        }
        let Some(namespace) = self.world.namespace(&mut self.rng) else {
            return;
        };
        let app = World::app(&mut self.rng);
        let pod = self.world.new_pod(&mut self.rng, namespace, app);
        self.make(pod).await;
    }

    async fn make(&mut self, pod: Pod) {
        let ask = Ask::create(Resource::Pods, &pod.namespace, pod.body());
        if self.write("create pod", ask).await.is_some() {
            let at = self.world.pods.len();
            self.world.pods.push(pod);
            self.report(at).await;
        }
    }

    /// The kubelet reports the pod's status.
    async fn report(&mut self, at: usize) {
        let pod = &self.world.pods[at];
        let patch = pod.status(self.now());
        let ask = Ask::patch_status(Resource::Pods, &pod.namespace, &pod.name, patch);
        self.write("report pod", ask).await;
    }

    pub(super) fn pick(&mut self, wanted: impl Fn(&Pod) -> bool) -> Option<usize> {
        let pods = self.world.pods.iter().enumerate();
        let wanted: Vec<usize> = pods.filter(|(_, pod)| wanted(pod)).map(|(at, _)| at).collect();
        self.rng.choice(wanted)
    }

    /// A pod becomes ready, or is no longer.
    pub(super) async fn flip(&mut self) {
        let Some(at) = self.pick(|pod| pod.phase == "Running") else {
            return;
        };
        if self.world.pods[at].address.is_none() {
            self.world.pods[at].address = Some(self.world.address(&mut self.rng));
        }
        let pod = &mut self.world.pods[at];
        pod.ready = !pod.ready;
        self.report(at).await;
    }

    /// A pod is told to end.
    pub(super) async fn delete_pod(&mut self) {
        let Some(at) = self.pick(|pod| !pod.deleting) else {
            return;
        };
        let pod = &self.world.pods[at];
        // One that runs nowhere is gone at once, as is one that has ended.
        let lingers = pod.node.is_some() && pod.phase == "Running";
        let (namespace, name) = (pod.namespace.clone(), pod.name.clone());
        let ask = Ask::delete(Resource::Pods, &namespace, &name, self.propagation());
        self.write("delete pod", ask).await;
        if lingers {
            self.world.pods[at].deleting = true;
        } else {
            self.world.pods.swap_remove(at);
        }
    }

    /// A pod that was told to end has ended.
    pub(super) async fn finish_pod(&mut self) {
        let Some(at) = self.pick(|pod| pod.deleting) else {
            return;
        };
        let pod = self.world.pods.swap_remove(at);
        self.remove(&pod).await;
    }

    async fn remove(&mut self, pod: &Pod) {
        let options = json!({ "gracePeriodSeconds": 0 });
        let ask = Ask::delete(Resource::Pods, &pod.namespace, &pod.name, options);
        self.write("end pod", ask).await;
    }

    /// A pod's labels change: it may leave some Services, and come to others.
    pub(super) async fn relabel(&mut self) {
        let Some(at) = self.pick(|_| true) else {
            return;
        };
        let app = World::app(&mut self.rng);
        let pod = &mut self.world.pods[at];
        if self.rng.bool() {
            pod.app = app;
        } else {
            pod.track = !pod.track;
        }
        let patch = json!({ "metadata": { "labels": pod.labels() } });
        let ask = Ask::patch(Resource::Pods, &pod.namespace, &pod.name, patch);
        self.write("relabel pod", ask).await;
    }

    /// A pod gets another address, or loses it.
    pub(super) async fn readdress(&mut self) {
        let Some(at) = self.pick(|pod| pod.phase == "Running") else {
            return;
        };
        let address = (self.rng.usize(..5) > 0).then(|| self.world.address(&mut self.rng));
        self.world.pods[at].address = address;
        self.report(at).await;
    }

    /// A pod ends by itself and stays there to be looked at.
    pub(super) async fn end_pod(&mut self) {
        let Some(at) = self.pick(|pod| pod.phase == "Running") else {
            return;
        };
        let pod = &mut self.world.pods[at];
        pod.phase = self.rng.choice(["Succeeded", "Failed"]).unwrap_or("Failed");
        pod.ready = false;
        self.report(at).await;
    }

    /// A pod is replaced by another of its name at once, as a `StatefulSet` does; often it runs elsewhere then.
    pub(super) async fn replace_pod(&mut self) {
        let Some(at) = self.pick(|_| true) else {
            return;
        };
        let old = self.world.pods.swap_remove(at);
        self.remove(&old).await;
        let new = self.world.new_pod(&mut self.rng, old.namespace.clone(), old.app);
        let pod = Pod {
            name: old.name,
            track: old.track,
            address: if self.rng.bool() { old.address } else { new.address },
            ..new
        };
        self.make(pod).await;
    }

    /// All pods of an app are replaced at one moment, by as many or fewer or more.
    pub(super) async fn rollout(&mut self) {
        let Some(namespace) = self.world.namespace(&mut self.rng) else {
            return;
        };
        let app = World::app(&mut self.rng);
        let of_app = |pod: &Pod| pod.namespace == namespace && pod.app == app;
        let old: Vec<Pod> = self.world.pods.iter().filter(|p| of_app(p)).cloned().collect();
        self.world.pods.retain(|pod| !of_app(pod));
        let count = (old.len() + self.rng.usize(..6)).saturating_sub(2);
        let down_first = self.rng.bool();
        if down_first {
            for pod in &old {
                self.remove(pod).await;
            }
        }
        for _ in 0..count.min(MOST) {
            let pod = self.world.new_pod(&mut self.rng, namespace.clone(), app);
            self.make(pod).await;
        }
        if !down_first {
            for pod in &old {
                self.remove(pod).await;
            }
        }
    }
}
