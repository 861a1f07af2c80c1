//! How many addresses of each subset are published when there are too many.
//!
//! Ready addresses come first. If they alone are too many, no others are published and each subset gets a part
//! of the limit in proportion to its ready addresses; else all of them are, and the rest of the limit is shared
//! in proportion to the addresses that are not ready. Parts are rounded up, so that the subsets which come last
//! may get less than theirs, or nothing. In which order subsets come is not laid down: upstream's follows from
//! hashes of their content.

/// The numbers of addresses in a subset.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Counts {
    pub(super) ready: usize,
    pub(super) not_ready: usize,
}

/// What is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cut {
    Nothing,
    /// The ready addresses; the others are all left out.
    Ready,
    /// The addresses that are not ready.
    NotReady,
}

/// How a limit falls on subsets.
#[derive(Debug)]
pub(super) struct Truncation {
    pub(super) cut: Cut,
    /// What may be published of the side that is cut.
    budget: usize,
    /// For each subset: its part of the budget, rounded up.
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
            // The same operations as upstream: another order would round otherwise.
            Cut::Ready => ((counts.ready as f64 / total as f64) * budget as f64).ceil() as usize,
            Cut::NotReady => ((counts.not_ready as f64 / total as f64) * budget as f64).ceil() as usize,
        };
        Self {
            cut,
            budget,
            parts: counts.iter().map(part).collect(),
        }
    }

    /// What each subset publishes of the side that is cut. The smaller come first: then none of them is
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

    /// Whether some order of the subsets leads to these shares: the budget is used up, and at most one subset
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
