//! Decides which controller publishes the pods of a Service, and which pods these are.

use super::{
    ANNOTATION_NOT_SERVED, ANNOTATION_PREFIX, ANNOTATION_SELECTOR, CUSTOM_MANAGED_BY, MANAGED_BY,
    MIRRORED_BY, ServiceFacts,
};
use crate::core::excerpt::Excerpt;
use crate::core::outputs::Outputs;
use crate::core::selector::{Selector, SelectorError};

/// The value of the annotation `ANNOTATION_SELECTOR`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AnnotatedSelector {
    /// A text that [`ServiceFacts::resolve`] parses if it counts.
    Unparsed(Box<str>),
    /// A text that does not count and is not kept.
    Ignored,
    /// A selector, which is that of the Service.
    InUse,
    /// An empty selector, which would select all pods of the namespace.
    Everything,
    /// Not a selector.
    Invalid(SelectorError),
}

impl AnnotatedSelector {
    /// Returns why no pods are added, if the selector is not used.
    pub fn problem(&self) -> Option<String> {
        match self {
            Self::Unparsed(_) | Self::Ignored | Self::InUse => None,
            Self::Everything => Some("it is empty, and would select every pod of the namespace".to_owned()),
            Self::Invalid(error) => Some(error.to_string()),
        }
    }

    /// Returns the size of the text that has yet to be parsed, in bytes.
    pub(super) fn text_size(&self) -> usize {
        match self {
            Self::Unparsed(text) => text.len(),
            Self::Ignored | Self::InUse | Self::Everything | Self::Invalid(_) => 0,
        }
    }

    /// Parses the text, unless that has been done. Returns the selector.
    fn parse(&mut self) -> Option<Selector> {
        let Self::Unparsed(text) = self else {
            return None;
        };
        let (parsed, selector) = match Selector::parse(text) {
            Ok(Some(selector)) => (Self::InUse, Some(selector)),
            Ok(None) => (Self::Everything, None),
            Err(error) => (Self::Invalid(error), None),
        };
        *self = parsed;
        selector
    }
}

impl From<&str> for AnnotatedSelector {
    fn from(text: &str) -> Self {
        Self::Unparsed(text.into())
    }
}

/// Annotations of a Service that begin as those of this project do, and mean nothing: typing errors, mostly.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownAnnotations {
    /// The first of their keys, in order, cut and safe to print.
    shown: Box<[Box<str>]>,
    total: usize,
    /// True if [`ANNOTATION_NOT_SERVED`] is among them. It is not counted.
    leader: bool,
}

impl UnknownAnnotations {
    /// The number of keys that are kept.
    const SHOWN: usize = 3;

    /// Picks those among the keys of a Service's annotations that begin with [`ANNOTATION_PREFIX`]. `None` if each of them
    /// is known.
    pub fn among<K: AsRef<str> + Ord>(keys: impl Iterator<Item = K>) -> Option<Box<Self>> {
        let is_unknown = |key: &str| key != ANNOTATION_SELECTOR && key.starts_with(ANNOTATION_PREFIX);
        let mut unknown: Vec<K> = keys.filter(|key| is_unknown(key.as_ref())).collect();
        let count = unknown.len();
        unknown.retain(|key| key.as_ref() != ANNOTATION_NOT_SERVED);
        let leader = unknown.len() < count;
        unknown.sort_unstable();
        let shown = unknown.iter().take(Self::SHOWN);
        let shown: Box<_> = shown
            .map(|key| Excerpt::value(key.as_ref()).to_string().into())
            .collect();
        let total = unknown.len();
        (count > 0).then(|| Box::new(Self { shown, total, leader }))
    }

    /// Returns that they mean nothing, in words.
    pub fn problem(&self) -> String {
        let leader = format!(
            "the annotation {ANNOTATION_NOT_SERVED} is not served any more, and nothing is done about it: let the pod \
             that leads label itself, and select that label with {ANNOTATION_SELECTOR}"
        );
        if self.total == 0 {
            return leader;
        }
        let more = match self.total - self.shown.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let (annotation, is, them) = if self.total == 1 {
            ("the annotation", "is", "it")
        } else {
            ("the annotations", "are", "them")
        };
        let unknown = format!(
            "{annotation} {}{more} {is} not known, and nothing is done about {them}; the known one is \
             {ANNOTATION_SELECTOR}",
            self.shown.join(", ")
        );
        if self.leader {
            format!("{unknown}; {leader}")
        } else {
            unknown
        }
    }
}

/// The controller that publishes a slice, as its label says.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Manager {
    /// Upstream's, or this one in its place.
    #[default]
    Builtin,
    /// This one, for Services whose annotations say what is published.
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

    /// Returns the value of `LABEL_MANAGED_BY`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Builtin => MANAGED_BY,
            Self::Custom => CUSTOM_MANAGED_BY,
            Self::Mirroring => MIRRORED_BY,
        }
    }
}

impl ServiceFacts {
    /// Returns whether the object says in which families the Service has slices, by `spec.ipFamilies` or its cluster IP.
    pub fn says_families(&self) -> bool {
        self.families != [false; 2]
    }

    /// Takes over the families of an earlier version of the same Service, if this one does not say any. API servers fill them
    /// in for a headless Service that was stored before there was dual-stack when it is listed or read, and not in events of
    /// a watch.
    pub fn keep_families(&mut self, known: &Self) {
        if !self.says_families() {
            self.families = known.families;
            self.endpoints_family = known.endpoints_family;
        }
    }

    /// Decides what is published for the Service, given what this process publishes: for one without a selector whose
    /// annotation says so, the pods that it selects. `default/kubernetes` is never taken over: its endpoints are the API
    /// servers, and any client that may annotate it could receive their traffic.
    #[must_use]
    pub fn resolve(mut self, namespace: &str, outputs: Outputs) -> Self {
        if !self.says_families() {
            // As kube-controller-manager 1.36 does.
            self.families = [true; 2];
        }
        if outputs.custom && self.selectorless && self.annotated.is_some() && !self.is_api(namespace) {
            self.custom = true;
            if let Some(selector) = self.annotated.as_deref_mut().and_then(AnnotatedSelector::parse) {
                self.selector = Some(selector);
            }
        } else {
            // Its text may be 256 KiB.
            if let Some(annotated) = self.annotated.as_deref_mut() {
                *annotated = AnnotatedSelector::Ignored;
            }
            let custom_alone = Outputs {
                custom: true,
                ..Outputs::NONE
            };
            if outputs == custom_alone {
                // No output of this process depends on its pods.
                self.selector = None;
            }
        }
        self
    }

    /// Returns whether it is the Service of the API servers.
    pub fn is_api(&self, namespace: &str) -> bool {
        namespace == "default" && &*self.name == "kubernetes"
    }

    /// Returns why annotations of the Service do not count, whichever process looks at it; `None` if they do where they are
    /// asked for.
    pub fn why_not_custom(&self, namespace: &str) -> Option<&'static str> {
        if self.external {
            Some("the Service is of type ExternalName")
        } else if self.is_api(namespace) {
            Some("the endpoints of this Service are the API servers")
        } else if !self.selectorless {
            Some("the Service has a selector")
        } else {
            None
        }
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
