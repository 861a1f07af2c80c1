//! A test's own hand on the objects: put them there, wait for one of them, print them all. No fault plan and no access
//! rule stands in the way.

use crate::kinds::Kind;
use crate::object::Object;
use crate::pass::ApiServer;
use crate::seed::{self, LoadError};
use crate::store::State;
use crate::yaml;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Why waiting for an object was in vain.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The server serves no such resource.
    #[error("the server serves no {0:?}")]
    NoSuchResource(String),
    /// The condition was not reached in time.
    #[error("{resource} {name} did not reach the condition within {within:?}; {last}")]
    Timeout {
        /// The resource that was asked for.
        resource: String,
        /// The object's name, with its namespace if it has one.
        name: String,
        /// How long was waited.
        within: Duration,
        /// The state that was seen last, as YAML, or that there was none.
        last: String,
    },
}

impl ApiServer {
    /// Stores the objects of a YAML text of one or more documents: what is not there is created, what is there is changed
    /// as by a merge patch, so that fields which the text leaves out stay. Lists stand for their items. A status is
    /// stored as it is given, and a namespace that is not there is made. Namespaces and `CustomResourceDefinition`s are
    /// stored first.
    ///
    /// Objects get new UIDs, whatever the text says. Where the text names one of its own objects by its UID, as owner
    /// references do, the new UID is stored. References to other objects stay as they are: the garbage collector deletes
    /// an object whose owners are neither in the text nor on the server, as in a cluster.
    ///
    /// # Errors
    ///
    /// When the text is not YAML, or an object is refused; those before it are stored.
    pub fn load(&self, yaml: &str) -> Result<(), LoadError> {
        let documents = yaml::documents(yaml).map_err(LoadError::Yaml)?;
        seed::load(self.store(), &documents)
    }

    /// Stores an object as it is given, with a new UID and the present time: what a request would have had defaulted,
    /// converted and checked has to be so already, as in a copy of an object that the server has shown. It takes a tenth
    /// of the time of a request, for clusters of very many objects.
    ///
    /// # Errors
    ///
    /// When the server does not serve the kind, or does more with it than to store it (Services get addresses, for
    /// instance), or when the namespace is not there, or the name is taken.
    pub fn restore(&self, object: Value) -> Result<(), LoadError> {
        seed::restore(self.store(), object)
    }

    /// Returns all objects, as a YAML text of one document for each, such as a failing test should print. Managed
    /// fields are left out.
    pub fn dump(&self) -> String {
        let state = self.store().read();
        let objects = [false, true].map(|namespaced| state.all(namespaced, ""));
        let mut values: Vec<Value> = objects
            .iter()
            .flatten()
            .map(|object| served(&state, object))
            .collect();
        drop(state);
        for value in &mut values {
            seed::strip(value, &["managedFields"]);
        }
        yaml::print(&values)
    }

    /// Waits until an object fulfils a condition, and gives it back in the state that does. `resource` is a plural name,
    /// with its group where it is not unique (`pods`, `widgets.example.com`), `name` is `namespace/name`, or the name
    /// alone for what has no namespace. The condition sees `Value::Null` as long as there is no such object, so that
    /// `Value::is_null` waits for its end. Time is tokio's: on a paused clock it passes when nothing else can happen.
    ///
    /// ```
    /// # async fn ready(server: memory_apiserver::ApiServer) -> Result<(), memory_apiserver::WaitError> {
    /// let within = std::time::Duration::from_secs(5);
    /// let map = server.wait_for("configmaps", "default/settings", within, |map| map["data"]["a"] == "b").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// When the resource is not served, and when the time is over.
    pub async fn wait_for(
        &self,
        resource: &str,
        name: &str,
        within: Duration,
        mut condition: impl FnMut(&Value) -> bool,
    ) -> Result<Value, WaitError> {
        let deadline = Instant::now() + within;
        let (kind, mut woken) = {
            let state = self.store().read();
            let kind =
                named(&state, resource).ok_or_else(|| WaitError::NoSuchResource(resource.to_owned()))?;
            (kind, state.table(kind).subscribe())
        };
        loop {
            woken.mark_unchanged();
            let object = self.store().get(kind, name);
            let value = object.map_or(Value::Null, |object| object.shown_as(kind).value());
            if condition(&value) {
                return Ok(value);
            }
            match tokio::time::timeout_at(deadline, woken.changed()).await {
                Ok(Ok(())) => {}
                // The kind is served no more, and its objects are gone.
                Ok(Err(_)) if condition(&Value::Null) => return Ok(Value::Null),
                Ok(Err(_)) => return Err(WaitError::NoSuchResource(resource.to_owned())),
                Err(_) => {
                    let last = match &value {
                        Value::Null => "there is no such object".to_owned(),
                        value => format!("its last state:\n{}", yaml::print([value])),
                    };
                    return Err(WaitError::Timeout {
                        resource: resource.to_owned(),
                        name: name.to_owned(),
                        within,
                        last,
                    });
                }
            }
        }
    }

    /// A client of this server, without a socket. Its default namespace is `default`.
    #[cfg(feature = "client")]
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.service(), "default")
    }
}

/// An object in the version in which it was written, or in another if that one is served no more.
fn served(state: &State, object: &Arc<Object>) -> Value {
    let versions = || state.kinds().iter().filter(|kind| **kind == object.kind);
    let same = versions().find(|kind| kind.api_version == object.kind.api_version);
    match same.or_else(|| versions().next()) {
        Some(kind) => object.shown_as(*kind).value(),
        None => object.value(),
    }
}

/// The kind that a plural name means, with its group or without.
fn named(state: &State, resource: &str) -> Option<Kind> {
    let is_it = |kind: &&Kind| kind.resource == resource || kind.qualified_resource() == resource;
    state.kinds().iter().find(is_it).copied()
}
