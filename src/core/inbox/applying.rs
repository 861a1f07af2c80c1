//! Application of a shard's waiting events, in steps.

use super::{ListEvent, PodEvent};
use crate::core::compact::slab::IntoEntries;
use crate::core::facts::{PodFacts, ServiceFacts};
use crate::core::inputs::Matching;
use crate::core::namespace::{Kind, NamespaceState, OutputEvent};
use crate::core::nodes::{NodeDirectory, NodeView, ZoneView};
use crate::core::object::Output;
use crate::core::time::Time;
use crate::core::work::{EVENT, TurnBudget};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;
use std::vec::IntoIter;

/// The waiting events of a kind: by name, in the order in which they came.
type WaitingEvents<N, E> = IntoEntries<(N, E)>;
/// A Service and the epoch of the last list that showed it; `None` when it is gone.
type ServiceEvent = Option<(ServiceFacts, u8)>;

/// A shard's waiting events while they are applied, in several turns: there may be a hundred thousand, and other
/// namespaces must not wait for all of them. Until all are applied, the state must not be used otherwise, because the
/// cluster never had it.
///
/// The order ensures that nothing is planned too early: first the kinds that are forgotten, then listed objects, then
/// the objects that the lists left out, then the lists that have begun since.
#[derive(Debug)]
pub struct Applying {
    /// By [`Kind::index`].
    pub(super) forgotten: [bool; Kind::ALL.len()],
    pub(super) nodes: WaitingEvents<Arc<str>, Arc<NodeView>>,
    pub(super) pods: WaitingEvents<Box<str>, PodEvent>,
    /// The next pod, while its labels are being compared with selectors.
    pub(super) matching: Option<Box<Waiter>>,
    pub(super) services: WaitingEvents<Arc<str>, ServiceEvent>,
    /// By [`Output`].
    pub(super) outputs: [WaitingEvents<Box<str>, OutputEvent>; Output::ALL.len()],
    pub(super) zones: Option<ZoneView>,
    /// True if [`NamespaceState::begin_watching_zones`] has been called.
    pub(super) zones_watched: bool,
    pub(super) lists: VecDeque<(Kind, ListEvent)>,
    /// Names that the first of the lists leaves out and that have not been removed yet, and where to look for more.
    pub(super) unlisted: Option<(IntoIter<Box<str>>, Option<usize>)>,
}

/// A pod that waits for its labels to be compared.
#[derive(Debug)]
pub(super) struct Waiter {
    matching: Matching,
    facts: PodFacts,
    earlier: SmallVec<[Time; 2]>,
    epoch: u8,
}

impl Applying {
    /// Continues, as far as the budget goes. Returns true when all is applied.
    pub fn step(
        &mut self,
        state: &mut NamespaceState,
        nodes: &mut dyn NodeDirectory,
        budget: &mut TurnBudget,
    ) -> bool {
        // The passes that one event causes come before the next event.
        while state.step_passes(budget) {
            if budget.is_spent() {
                return false;
            }
            let before = state.work().total();
            let units = self.next(state, nodes);
            if units == 0 {
                return true;
            }
            budget.spend(units + state.work().total() - before);
        }
        false
    }

    /// Applies the next event. Returns its cost beyond what the state counts, or 0 if there is none.
    fn next(&mut self, state: &mut NamespaceState, nodes: &mut dyn NodeDirectory) -> u64 {
        if let Some(waiting) = &mut self.matching {
            if state.step_labels(&mut waiting.matching)
                && let Some(Waiter {
                    matching,
                    facts,
                    earlier,
                    epoch,
                }) = self.matching.take().map(|waiter| *waiter)
            {
                state.count_read(facts.units());
                state.apply_pod(facts, &earlier, epoch, nodes);
                state.finish_labels(&matching);
            }
            return 1;
        }
        if let Some(kind) = Kind::ALL.into_iter().find(|kind| self.forgotten[kind.index()]) {
            self.forgotten[kind.index()] = false;
            return 1 + state.begin_forgetting(kind);
        } else if let Some((_, view)) = self.nodes.next() {
            state.begin_node(view);
        } else if let Some((name, PodEvent { latest, earlier })) = self.pods.next() {
            match latest {
                Some((facts, epoch)) => {
                    state.count_read(facts.units());
                    match state.begin_labels(&facts) {
                        None => state.apply_pod(facts, &earlier, epoch, nodes),
                        Some(matching) => {
                            self.matching = Some(Box::new(Waiter {
                                matching,
                                facts,
                                earlier,
                                epoch,
                            }));
                        }
                    }
                }
                None => state.remove_pod(&name, nodes),
            }
            return EVENT;
        } else if let Some((name, latest)) = self.services.next() {
            match latest {
                Some((facts, epoch)) => {
                    state.count_read(facts.units());
                    state.begin_service(facts, epoch);
                }
                None => state.begin_removal(&name),
            }
            return EVENT;
        } else if let Some((_, event)) = self.outputs.iter_mut().find_map(Iterator::next) {
            state.apply_output(event);
            return EVENT;
        } else if !std::mem::replace(&mut self.zones_watched, true) {
            state.begin_watching_zones(nodes);
            if let Some(view) = self.zones.take() {
                state.begin_zones(view);
            }
        } else {
            return self.next_list(state, nodes);
        }
        1
    }

    /// Applies the end or the beginning of a list, or removes one object that a list left out.
    fn next_list(&mut self, state: &mut NamespaceState, nodes: &mut dyn NodeDirectory) -> u64 {
        let Some(&(kind, list)) = self.lists.front() else {
            return 0;
        };
        match list {
            ListEvent::None => {}
            ListEvent::Begun => state.begin_list(kind),
            ListEvent::Ended { epoch, version } => {
                let begin = || (Vec::new().into_iter(), Some(0));
                let (unlisted, rest) = self.unlisted.get_or_insert_with(begin);
                if let Some(name) = unlisted.next() {
                    state.begin_unlisted(kind, &name, nodes);
                    return 1;
                }
                if let Some(from) = *rest {
                    let (names, next) = state.some_unlisted(kind, epoch, from);
                    (*unlisted, *rest) = (names.into_iter(), next);
                    // Some dozens are looked at.
                    return 8;
                }
                self.unlisted = None;
                state.finish_list(kind, epoch, version);
            }
        }
        self.lists.pop_front();
        1
    }
}
