//! Objects that stay in their deletion: a finalizer holds them, or they go in the foreground.

use super::tamper::name_of;
use super::{FollowUp, History};
use crate::chaos::api::{Ask, Resource};
use serde_json::{Value, json};

/// The finalizer of a program that has something to do before an object goes.
pub(super) const FINALIZER: &str = "chaos.example.com/hold";

impl History {
    /// The options of a deletion: now and then another policy than the default.
    pub(super) fn propagation(&mut self) -> Value {
        match self.rng.u32(..6) {
            0 => json!({ "propagationPolicy": "Foreground" }),
            1 => json!({ "propagationPolicy": "Orphan" }),
            _ => json!({}),
        }
    }

    /// A pod that is told to end, and that a finalizer keeps after it has ended, as pods of Jobs are kept until they are
    /// counted.
    pub(super) async fn hold_pod(&mut self) {
        let Some(at) = self.pick(|pod| !pod.deleting) else {
            return;
        };
        let pod = &mut self.world.pods[at];
        pod.deleting = true;
        let (namespace, name) = (pod.namespace.clone(), pod.name.clone());
        self.hold(["hold pod", "delete held pod"], Resource::Pods, namespace, name)
            .await;
    }

    /// An object that the controller has written, deleted and kept for a while.
    pub(super) async fn hold_output(&mut self, kind: Resource) {
        let what = if kind == Resource::Slices {
            ["hold slice", "delete held slice"]
        } else {
            ["hold endpoints", "delete held endpoints"]
        };
        if let Some((namespace, object)) = self.pick_output(kind).await {
            self.hold(what, kind, namespace, name_of(&object)).await;
        }
    }

    async fn hold(&mut self, what: [&'static str; 2], kind: Resource, namespace: String, name: String) {
        let patch = json!({ "metadata": { "finalizers": [FINALIZER] } });
        self.write(what[0], Ask::patch(kind, &namespace, &name, patch))
            .await;
        let options = self.propagation();
        self.write(what[1], Ask::delete(kind, &namespace, &name, options))
            .await;
        self.follow_up(
            8_000,
            FollowUp::LetGo {
                kind,
                namespace,
                name,
            },
        );
    }

    /// Takes the finalizers off an object that was held.
    pub(super) async fn let_go(&mut self, kind: Resource, namespace: &str, name: &str) {
        let patch = json!({ "metadata": { "finalizers": null } });
        self.write("let a held object go", Ask::patch(kind, namespace, name, patch))
            .await;
    }
}
