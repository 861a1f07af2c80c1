//! The Services that select a pod, found without asking every Service of its namespace.

use super::Selection;
use std::collections::HashMap;

/// Services by what they select. A Service that selects by the track, too, is among those of its group or tier.
#[derive(Default)]
pub(super) struct Selected {
    of_group: HashMap<usize, Vec<usize>>,
    /// By namespace and tier.
    of_tier: HashMap<(usize, &'static str), Vec<usize>>,
}

// === impl Selected ===

impl Selected {
    /// A Service of the namespace selects so.
    pub(super) fn add(&mut self, service: usize, namespace: usize, selection: Selection) {
        if let Some(services) = self.services(namespace, selection) {
            services.push(service);
        }
    }

    /// The Services that may select pods of a group, which is in this namespace and of this tier.
    pub(super) fn by(
        &self,
        group: usize,
        namespace: usize,
        tier: &'static str,
    ) -> impl Iterator<Item = usize> {
        let of_group = self.of_group.get(&group).into_iter();
        let of_tier = self.of_tier.get(&(namespace, tier)).into_iter();
        of_group.chain(of_tier).flatten().copied()
    }

    fn services(&mut self, namespace: usize, selection: Selection) -> Option<&mut Vec<usize>> {
        match selection {
            Selection::None | Selection::Nobody => None,
            Selection::Group(group) => Some(self.of_group.entry(group).or_default()),
            Selection::Tier(tier) => Some(self.of_tier.entry((namespace, tier)).or_default()),
        }
    }
}
