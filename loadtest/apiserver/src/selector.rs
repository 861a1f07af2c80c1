//! Label and field selectors.

mod fields;
mod labels;

pub(crate) use self::fields::FieldSelector;
pub(crate) use self::labels::LabelSelector;

use crate::kinds::Kind;
use crate::object::Object;
use crate::status::Answer;

/// The objects that a list or watch selects.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    namespace: String,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selection {
    pub(crate) fn new(kind: Kind, namespace: &str, labels: &str, fields: &str) -> Answer<Self> {
        Ok(Self {
            namespace: namespace.to_owned(),
            labels: LabelSelector::parse(labels)?,
            fields: FieldSelector::parse(kind, fields)?,
        })
    }

    /// Whether labels and fields are left open.
    pub(crate) fn is_open(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, object: &Object) -> bool {
        (self.namespace.is_empty() || self.namespace == object.namespace())
            && self.labels.matches(&object.labels)
            && self.fields.matches(object)
    }
}
