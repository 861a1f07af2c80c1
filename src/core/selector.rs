//! Selectors of pods: the pairs of a Service's `spec.selector`, or a whole label selector as kubectl takes it.

mod parse;
mod requirement;

pub use parse::SelectorError;
pub use requirement::{Requirement, Test, Values};

use super::labels::{Labels, pairs_of};
use super::work::Work;
use requirement::{Parsed, ParsedTest};
use std::fmt;
use std::sync::Arc;

/// The conditions that the labels of a pod must meet to be selected. Never empty: an empty selector selects nothing in
/// a Service, and everything elsewhere, so a Service with one has no `Selector`.
///
/// It is one text, which copies share: a namespace may have tens of thousands of selectors of a hundred values each, and
/// they are compared with labels as they are.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Selector {
    /// The pairs that the labels must all have, as in [`Labels`]. Then what else they must meet, sorted, as
    /// [`Parsed::write`] writes it; nearly all selectors have nothing else.
    text: Arc<str>,
    /// The number of bytes of the pairs.
    pairs: u32,
}

impl Selector {
    /// Creates the selector of a Service's `spec.selector`. `None` for an empty map.
    pub fn new(pairs: Labels) -> Option<Self> {
        let length = pairs.as_str().len();
        (length > 0).then(|| Self::from_text(pairs.into_text().into(), length))
    }

    fn from_text(text: Arc<str>, pairs: usize) -> Self {
        Self {
            text,
            pairs: u32::try_from(pairs).expect("an object has less than 4 GB"),
        }
    }

    /// Parses a label selector in the grammar of kubectl and of apimachinery's `labels.Parse` (1.36). `None` if it is
    /// empty and would select everything.
    pub fn parse(text: &str) -> Result<Option<Self>, SelectorError> {
        let parsed = parse::requirements(text)?;
        let mut pairs: Vec<_> = parsed.iter().filter_map(Parsed::pair).collect();
        let mut requirements = parsed;
        requirements.retain(|requirement| requirement.pair().is_none());
        pairs.sort_unstable();
        pairs.dedup();
        // A key that must have two values selects nothing; the second stays a requirement.
        let mut last = None;
        pairs.retain(|&(key, value)| {
            let again = last.replace(key) == Some(key);
            if again {
                let test = ParsedTest::In(vec![value]);
                requirements.push(Parsed { key, test });
            }
            !again
        });
        requirements.sort_unstable();
        requirements.dedup();
        let pairs: Labels = pairs.into_iter().collect();
        let mut text = pairs.as_str().to_owned();
        for requirement in &requirements {
            requirement.write(&mut text);
        }
        Ok((!text.is_empty()).then(|| Self::from_text(text.as_str().into(), pairs.as_str().len())))
    }

    /// Returns the number of bytes of its text.
    pub fn text_size(&self) -> usize {
        self.text.len()
    }

    /// Returns the pairs, sorted by key.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        pairs_of(&self.text[..self.pairs as usize])
    }

    /// Returns what labels must meet besides having the pairs, sorted by key.
    pub fn requirements(&self) -> impl Iterator<Item = Requirement<'_>> {
        let requirements = pairs_of(&self.text[self.pairs as usize..]);
        requirements.map(|(key, rest)| Requirement::stored(key, rest))
    }

    /// Returns whether it selects labels. Each call is counted.
    pub fn matches(&self, labels: &Labels, work: &mut Work) -> bool {
        work.selector_evaluations += 1;
        let mut rest = labels.iter();
        let has_pairs = self.pairs().all(|(key, value)| {
            // Both are sorted, so one pass over the labels is enough for all pairs.
            rest.by_ref()
                .find(|(k, _)| *k >= key)
                .is_some_and(|found| found == (key, value))
        });
        has_pairs && self.requirements().all(|it| it.accepts(labels.get(it.key)))
    }
}

impl fmt::Display for Selector {
    /// Prints it so that it can be parsed again, for users and for the API's `labelSelector`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (key, value) in self.pairs() {
            write!(f, "{separator}{key}={value}")?;
            separator = ",";
        }
        for requirement in self.requirements() {
            write!(f, "{separator}{requirement}")?;
            separator = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
