//! Truncation: the number of addresses that each subset publishes when there are too many.
//!
//! Ready addresses come first. If they alone are too many, no others are published and each subset gets a part of the
//! limit in proportion to its ready addresses; otherwise all of them are published, and the rest of the limit is shared
//! in proportion to the addresses that are not ready. Parts are rounded up, so the last subsets may get less than
//! theirs, or nothing. The order of subsets is not specified: upstream's follows from hashes of their content.

/// The numbers of addresses in a subset.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Counts {
    pub(super) ready: usize,
    pub(super) not_ready: usize,
}

/// The addresses that are cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cut {
    Nothing,
    /// The ready addresses; all others are left out.
    Ready,
    /// The addresses that are not ready.
    NotReady,
}

/// The effect of a limit on subsets.
#[derive(Debug)]
pub(super) struct Truncation {
    pub(super) cut: Cut,
    /// The number of addresses that may be published of the kind that is cut.
    budget: usize,
    /// Each subset's part of the budget, rounded up.
    parts: Vec<usize>,
}

impl Truncation {
    pub(super) fn new(counts: &[Counts], limit: usize) -> Self {
        let ready: usize = counts.iter().map(|c| c.ready).sum();
        let not_ready: usize = counts.iter().map(|c| c.not_ready).sum();
        let (cut, budget, total) = if ready + not_ready <= limit {
            (Cut::Nothing, 0, 0)
        } else if ready > limit {
            (Cut::Ready, limit, ready)
        } else {
            (Cut::NotReady, limit - ready, not_ready)
        };
        let part = |counts: &Counts| match cut {
            Cut::Nothing => 0,
            // The same operations as upstream, since another order would round differently.
            Cut::Ready => ((counts.ready as f64 / total as f64) * budget as f64).ceil() as usize,
            Cut::NotReady => ((counts.not_ready as f64 / total as f64) * budget as f64).ceil() as usize,
        };
        Self {
            cut,
            budget,
            parts: counts.iter().map(part).collect(),
        }
    }

    /// Returns how many addresses of the cut kind each subset publishes. Smaller subsets come first, so that none is
    /// left with nothing because a larger one was rounded up, and the object shows as many ports as it can.
    pub(super) fn shares(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.parts.len()).collect();
        order.sort_by_key(|subset| self.parts[*subset]);
        let mut shares = vec![0; self.parts.len()];
        let mut left = self.budget;
        for subset in order {
            shares[subset] = self.parts[subset].min(left);
            left -= shares[subset];
        }
        shares
    }

    /// Returns whether some order of the subsets leads to these shares: the budget is used up, and at most one subset
    /// got neither its whole part nor nothing.
    pub(super) fn allows(&self, shares: &[usize]) -> bool {
        let in_between = shares
            .iter()
            .zip(&self.parts)
            .filter(|(share, part)| **share != 0 && share < part)
            .count();
        shares.iter().zip(&self.parts).all(|(share, part)| share <= part)
            && in_between <= 1
            && shares.iter().sum::<usize>() == self.budget
    }
}
