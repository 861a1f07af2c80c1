//! Comparison of subsets by meaning: for each port, which addresses have it.

use super::{Address, Port, Subset};
use std::collections::BTreeMap;

/// What subsets say: for each port (`None` for addresses without ports) its addresses, sorted by handle, and
/// whether they are ready.
pub(super) type Meaning<'a, P, A> = BTreeMap<Option<&'a P>, Vec<(A, bool)>>;

/// Whether two lists of subsets say the same, whatever their order and however they are packed.
pub fn is_same<P: Port, A: Address>(a: &[Subset<P, A>], b: &[Subset<P, A>]) -> bool {
    a == b || meaning(a) == meaning(b)
}

/// Unpacks subsets. An address that is both ready and not ready under a port counts as not ready.
pub(super) fn meaning<P: Port, A: Address>(subsets: &[Subset<P, A>]) -> Meaning<'_, P, A> {
    let mut meaning: Meaning<'_, P, A> = BTreeMap::new();
    for subset in subsets
        .iter()
        .filter(|s| !s.ready.is_empty() || !s.not_ready.is_empty())
    {
        let ports = subset.ports.iter().map(Some);
        for port in ports.chain(subset.ports.is_empty().then_some(None)) {
            let addresses = meaning.entry(port).or_default();
            addresses.extend(subset.ready.iter().map(|a| (*a, true)));
            addresses.extend(subset.not_ready.iter().map(|a| (*a, false)));
        }
    }
    for addresses in meaning.values_mut() {
        addresses.sort_unstable();
        addresses.dedup_by_key(|(address, _)| *address);
    }
    // Upstream drops a subset without ports when a port has the same addresses.
    if let Some(portless) = meaning.remove(&None)
        && !meaning.values().any(|addresses| *addresses == portless)
    {
        meaning.insert(None, portless);
    }
    meaning
}
