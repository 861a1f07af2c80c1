//! Which controller publishes the pods of a Service, and which pods these are.

use super::{CUSTOM_MANAGED_BY, MANAGED_BY, MIRRORED_BY, ServiceFacts};
use crate::core::outputs::Outputs;
use crate::core::selector::{Selector, SelectorError};

/// The value of the annotation [`ANNOTATION_SELECTOR`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AnnotatedSelector {
    /// A selector.
    Valid(Selector),
    /// An empty selector, which would select all pods of the namespace.
    Everything,
    /// Not a selector.
    Invalid(SelectorError),
}

impl AnnotatedSelector {
    /// Returns why no pods are added, if the selector is not used.
    pub fn problem(&self) -> Option<String> {
        match self {
            Self::Valid(_) => None,
            Self::Everything => Some("it is empty, and would select every pod of the namespace".to_owned()),
            Self::Invalid(error) => Some(error.to_string()),
        }
    }
}

impl From<&str> for AnnotatedSelector {
    fn from(text: &str) -> Self {
        match Selector::parse(text) {
            Ok(Some(selector)) => Self::Valid(selector),
            Ok(None) => Self::Everything,
            Err(error) => Self::Invalid(error),
        }
    }
}

/// The controller that publishes a slice, as its label says.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Manager {
    /// Upstream's, or this one in its place.
    #[default]
    Builtin,
    /// This one, for Services whose selector is an annotation.
    Custom,
    /// One that mirrors Endpoints, upstream's or this one.
    Mirroring,
}

impl Manager {
    /// Returns the controller that a label names, if it is one of these.
    pub fn parse(label: &str) -> Option<Self> {
        [Self::Builtin, Self::Custom, Self::Mirroring]
            .into_iter()
            .find(|manager| manager.as_str() == label)
    }

    /// Returns the value of [`LABEL_MANAGED_BY`].
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Builtin => MANAGED_BY,
            Self::Custom => CUSTOM_MANAGED_BY,
            Self::Mirroring => MIRRORED_BY,
        }
    }
}

impl ServiceFacts {
    /// Decides what is published for the Service, given what this process publishes: for one without a selector whose
    /// annotation has one, what that selects. `default/kubernetes` is never taken over: its endpoints are the API
    /// servers, and whoever could annotate it would receive their traffic.
    #[must_use]
    pub fn resolve(mut self, namespace: &str, outputs: Outputs) -> Self {
        if let Some(annotated) = &self.annotated
            && outputs.custom
            && self.selectorless
            && !self.is_api(namespace)
        {
            self.custom = true;
            if let AnnotatedSelector::Valid(selector) = &**annotated {
                self.selector = Some(selector.clone());
            }
        } else if outputs
            == (Outputs {
                custom: true,
                ..Outputs::NONE
            })
        {
            // Nothing here depends on its pods.
            self.selector = None;
        }
        self
    }

    /// Returns whether it is the Service of the API servers.
    pub fn is_api(&self, namespace: &str) -> bool {
        namespace == "default" && &*self.name == "kubernetes"
    }

    /// Returns whether endpoints are published for it here.
    pub fn is_managed(&self) -> bool {
        self.selector.is_some() || self.custom
    }

    /// Returns whether its selector cannot be used, so that no pods are added to those that are published.
    pub fn is_frozen(&self) -> bool {
        self.custom && self.selector.is_none()
    }

    /// Returns the controller that its slices name.
    pub fn manager(&self) -> Manager {
        if self.custom {
            Manager::Custom
        } else {
            Manager::Builtin
        }
    }
}
