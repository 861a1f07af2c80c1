//! Selectors of pods: the pairs of a Service's `spec.selector`, or a whole label selector as kubectl takes it.

mod parse;
mod requirement;

pub use parse::SelectorError;
pub(crate) use requirement::integer;
pub use requirement::{Requirement, Test};

use super::labels::Labels;
use super::work::Work;
use std::fmt;

/// What the labels of a pod must meet to be selected. Never empty: an empty selector selects nothing in a Service, and
/// everything elsewhere, so a Service with one has no `Selector`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Selector {
    /// The pairs that the labels must all have.
    pairs: Labels,
    /// What else they must meet, sorted. Nearly all selectors have nothing else.
    requirements: Box<[Requirement]>,
}

impl Selector {
    /// Creates the selector of a Service's `spec.selector`. `None` for an empty map.
    pub fn new(pairs: Labels) -> Option<Self> {
        (!pairs.is_empty()).then(|| Self {
            pairs,
            requirements: Box::default(),
        })
    }

    /// Parses a label selector in the grammar of kubectl and of apimachinery's `labels.Parse` (1.36). `None` if it is
    /// empty and would select everything.
    pub fn parse(text: &str) -> Result<Option<Self>, SelectorError> {
        let parsed = parse::requirements(text)?;
        let mut pairs = Vec::<(Box<str>, Box<str>)>::new();
        let mut requirements = Vec::new();
        for requirement in parsed {
            match requirement.into_pair() {
                Ok(pair) => pairs.push(pair),
                Err(requirement) => requirements.push(requirement),
            }
        }
        pairs.sort();
        pairs.dedup();
        // A key that must have two values selects nothing; the second stays a requirement.
        let mut rest = std::mem::take(&mut pairs).into_iter().peekable();
        while let Some((key, value)) = rest.next() {
            while let Some((_, other)) = rest.next_if(|(next, _)| *next == key) {
                requirements.push(Requirement::new(key.clone(), Test::In([other].into())));
            }
            pairs.push((key, value));
        }
        requirements.sort();
        requirements.dedup();
        let selector = Self {
            pairs: pairs.into_iter().collect(),
            requirements: requirements.into(),
        };
        Ok((!selector.pairs.is_empty() || !selector.requirements.is_empty()).then_some(selector))
    }

    /// Returns the number of bytes of its pairs.
    pub fn text_size(&self) -> usize {
        self.pairs.as_str().len()
    }

    /// Returns the pairs, sorted by key.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter()
    }

    /// Returns what labels must meet besides having the pairs.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Returns whether it selects labels. Each call is counted.
    pub fn matches(&self, labels: &Labels, work: &mut Work) -> bool {
        work.selector_evaluations += 1;
        let mut rest = labels.iter();
        let has_pairs = self.pairs.iter().all(|(key, value)| {
            // Both are sorted, so one pass over the labels is enough for all pairs.
            rest.by_ref()
                .find(|(k, _)| *k >= key)
                .is_some_and(|found| found == (key, value))
        });
        has_pairs && self.requirements.iter().all(|it| it.accepts(labels.get(&it.key)))
    }
}

impl fmt::Display for Selector {
    /// Prints it so that it can be parsed again, which serves people and the API's `labelSelector`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (key, value) in self.pairs() {
            write!(f, "{separator}{key}={value}")?;
            separator = ",";
        }
        for requirement in &self.requirements {
            write!(f, "{separator}{requirement}")?;
            separator = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
