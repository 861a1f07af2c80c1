//! The pairs of a full set, compared with selectors.

use crate::core::compact::label_pairs::LabelPairs;
use crate::core::selector::Selector;
use crate::core::work::Work;

/// Bytes of a requirement that count as one more pair compared.
const TEXT: usize = 256;

/// The pairs of a full set, which are sorted by key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held<'a> {
    pairs: &'a [u32],
    known: &'a LabelPairs,
}

impl<'a> Held<'a> {
    pub(super) fn new(pairs: &'a [u32], known: &'a LabelPairs) -> Self {
        Self { pairs, known }
    }

    /// Returns whether they are what a selector selects. Each call is counted.
    pub(super) fn accepts(self, selector: &Selector, work: &mut Work) -> bool {
        work.selector_evaluations += 1;
        let mut from = 0;
        let has_pairs = selector.pairs().all(|(key, value)| {
            // There is nothing to be found after the last pair.
            let has_pair = from < self.pairs.len() && self.value_from(&mut from, key, work) == Some(value);
            // Keys of pairs are distinct, so the next one comes after the pair that was found.
            from += 1;
            has_pair
        });
        let mut from = 0;
        has_pairs
            && selector.requirements().all(|requirement| {
                work.pairs_compared += (requirement.text_size() / TEXT) as u64;
                requirement.accepts(self.value_from(&mut from, requirement.key, work))
            })
    }

    /// Returns the value of a key, and moves `from` to where it stands or would stand. The key must not come before
    /// those that were looked for from there. A key far ahead is found in few comparisons, and the next one in one.
    fn value_from(self, from: &mut usize, key: &str, work: &mut Work) -> Option<&'a str> {
        let is_before = |pair: &u32, work: &mut Work| {
            work.pairs_compared += 1;
            self.known.get(*pair).0 < key
        };
        let (mut low, mut width) = (*from, 1);
        let high = loop {
            let at = low + width - 1;
            match self.pairs.get(at) {
                Some(pair) if is_before(pair, work) => (low, width) = (at + 1, 2 * width),
                found => break found.map_or(self.pairs.len(), |_| at),
            }
        };
        *from = low + self.pairs[low..high].partition_point(|pair| is_before(pair, work));
        let (found, value) = self.known.get(*self.pairs.get(*from)?);
        (found == key).then_some(value)
    }
}
