//! Label maps in one allocation.

use std::fmt;

/// A map of labels (or of a selector's pairs), sorted by key, in one string: `key NUL value NUL ...`.
///
/// Equal maps are equal strings, so they are compared and hashed as bytes. No label contains NUL, because the API
/// server rejects it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Labels(Box<str>);

impl Labels {
    /// Creates a map from pairs in any order; the last one wins if a key occurs twice.
    pub fn new<K: AsRef<str>, V: AsRef<str>>(pairs: &mut [(K, V)]) -> Self {
        // The sort is stable, so that the last of equal keys stays last.
        if !pairs.windows(2).all(|w| w[0].0.as_ref() < w[1].0.as_ref()) {
            pairs.sort_by(|a, b| a.0.as_ref().cmp(b.0.as_ref()));
        }
        let size = pairs
            .iter()
            .map(|(k, v)| k.as_ref().len() + v.as_ref().len() + 2)
            .sum();
        let mut text = String::with_capacity(size);
        for (i, (key, value)) in pairs.iter().enumerate() {
            if pairs
                .get(i + 1)
                .is_some_and(|next| next.0.as_ref() == key.as_ref())
            {
                continue;
            }
            push(&mut text, key.as_ref(), value.as_ref());
        }
        Self(text.into_boxed_str())
    }

    /// Returns whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the pairs, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        pairs_of(&self.0)
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(k, _)| *k == key).map(|(_, v)| v)
    }

    /// Returns a map of the pairs whose keys pass.
    #[must_use]
    pub fn project(&self, keep: impl Fn(&str) -> bool) -> Self {
        let mut text = String::new();
        for (key, value) in self.iter().filter(|(key, _)| keep(key)) {
            push(&mut text, key, value);
        }
        Self(text.into_boxed_str())
    }

    /// Returns the pairs as they are stored: `key NUL value NUL ...`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the pairs as they are stored.
    pub(crate) fn into_text(self) -> Box<str> {
        self.0
    }
}

/// Returns the pairs of a text `key NUL value NUL ...`, in its order.
pub(crate) fn pairs_of(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut parts = text.split_terminator('\0');
    std::iter::from_fn(move || Some((parts.next()?, parts.next()?)))
}

fn push(text: &mut String, key: &str, value: &str) {
    text.push_str(key);
    text.push('\0');
    text.push_str(value);
    text.push('\0');
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self::new(&mut pairs.into_iter().collect::<Vec<_>>())
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::Labels;

    #[test]
    fn order_does_not_matter_and_the_last_of_a_key_wins() {
        let a: Labels = [("b", "2"), ("a", "1")].into_iter().collect();
        let b: Labels = [("a", "0"), ("a", "1"), ("b", "2")].into_iter().collect();
        assert_eq!(a, b);
        assert_eq!(a.iter().collect::<Vec<_>>(), [("a", "1"), ("b", "2")]);
    }

    #[test]
    fn empty_values_are_values() {
        let labels: Labels = [("a", ""), ("b", "x")].into_iter().collect();
        assert_eq!(labels.get("a"), Some(""));
        assert_eq!(labels.get("c"), None);
        assert_eq!(
            labels.project(|k| k == "b").iter().collect::<Vec<_>>(),
            [("b", "x")]
        );
        assert!(labels.project(|_| false).is_empty());
        assert!(Labels::default().is_empty());
    }
}
