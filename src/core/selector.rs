//! A Service's selector.

use super::labels::Labels;
use super::work::Work;

/// The pairs that a pod's labels must all have. Never empty, because a Service without a selector has no `Selector`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Selector(Labels);

impl Selector {
    /// Creates a selector. `None` for an empty map, which selects nothing (not everything) in a Service.
    pub fn new(pairs: Labels) -> Option<Self> {
        (!pairs.is_empty()).then_some(Self(pairs))
    }

    /// Returns the pairs, sorted by key.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter()
    }

    /// Returns whether labels have all the pairs. Each call is counted.
    pub fn matches(&self, labels: &Labels, work: &mut Work) -> bool {
        work.selector_evaluations += 1;
        let mut labels = labels.iter();
        self.0.iter().all(|(key, value)| {
            // Both are sorted, so one pass over the labels is enough for all pairs.
            labels
                .by_ref()
                .find(|(k, _)| *k >= key)
                .is_some_and(|found| found == (key, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Labels, Selector, Work};

    #[test]
    fn all_pairs_must_be_there() {
        let labels: Labels = [("a", "1"), ("b", "2"), ("d", "4")].into_iter().collect();
        let mut work = Work::default();
        let mut matches = |pairs: &[(&str, &str)]| {
            Selector::new(pairs.iter().copied().collect())
                .unwrap()
                .matches(&labels, &mut work)
        };
        assert!(matches(&[("a", "1")]));
        assert!(matches(&[("a", "1"), ("d", "4")]));
        assert!(matches(&[("a", "1"), ("b", "2"), ("d", "4")]));
        assert!(!matches(&[("a", "2")]));
        assert!(!matches(&[("a", "1"), ("c", "3")]));
        assert!(!matches(&[("c", "3"), ("d", "4")]));
        assert!(!matches(&[("e", "5")]));
        assert_eq!(work.selector_evaluations, 7);
        assert_eq!(Selector::new(Labels::default()), None);
    }
}
