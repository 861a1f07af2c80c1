//! Evaluation of a mirror: each group of its Endpoints gets a slice, and slices that no group needs are deleted.
//!
//! A mirror may have tens of thousands of slices. So an evaluation looks only at those that have changed, unless the
//! Endpoints or the Service have, and is carried out in steps.

use super::{MirrorAction, MirrorSync, MirrorTotals, MirroredSlice, Mirroring};
use crate::core::compact::small::SmallSet;
use crate::core::ids::MirroredSliceId;
use crate::core::mirror::{LeftOut, MirroredObject};
use crate::core::priority::Priority;
use crate::core::work::TurnBudget;
use std::collections::VecDeque;
use std::sync::Arc;
use std::vec::IntoIter;

/// The slice of each group, by the group's index.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupSlices {
    slices: Vec<Option<MirroredSliceId>>,
    /// The number of groups that have one.
    used: usize,
}

impl GroupSlices {
    fn empty(groups: usize) -> Self {
        Self {
            slices: vec![None; groups],
            used: 0,
        }
    }

    fn set(&mut self, at: usize, slice: Option<MirroredSliceId>) {
        let before = std::mem::replace(&mut self.slices[at], slice);
        self.used = self.used + usize::from(slice.is_some()) - usize::from(before.is_some());
    }
}

/// The evaluation of one mirror.
#[derive(Clone, Debug)]
pub(in crate::core::namespace) struct Assignment {
    name: Arc<str>,
    action: MirrorAction,
    /// True if all slices and groups are looked at.
    whole: bool,
    /// Slices whose group is yet to be found.
    slices: IntoIter<MirroredSliceId>,
    /// The groups of the slices that were looked at.
    found: Vec<usize>,
    /// Slices that turned out not to be the best for any group.
    unplaced: Vec<MirroredSliceId>,
    /// Set when all slices have been looked at.
    matched: Option<Matched>,
    /// True if slices that exist are to be updated.
    updates: bool,
    priority: Priority,
    contested: bool,
}

/// The work that remains once all slices have been looked at.
#[derive(Clone, Debug)]
struct Matched {
    /// Groups whose slice may have to be written, or that have none.
    groups: IntoIter<usize>,
    /// Slices that another group can have, by family.
    spare: [VecDeque<MirroredSliceId>; 2],
    /// Slices that no group needs.
    left: VecDeque<MirroredSliceId>,
}

impl Matched {
    fn next_unneeded(&mut self) -> Option<MirroredSliceId> {
        let [v4, v6] = &mut self.spare;
        let spare = v4.pop_front().or_else(|| v6.pop_front());
        spare.or_else(|| self.left.pop_front())
    }
}

impl Mirroring<'_> {
    /// Begins to evaluate a mirror, and charges for that.
    pub(in crate::core::namespace) fn begin_counted(
        &mut self,
        name: &Arc<str>,
        budget: &mut TurnBudget,
    ) -> Option<Box<Assignment>> {
        let before = self.ctx.work.total();
        let assignment = self.begin_assignment(name);
        budget.spend(1 + self.ctx.work.total() - before);
        assignment.map(Box::new)
    }

    /// Begins to bring the mirrored slices of a Service up to date. `None` if there is nothing to be done now.
    fn begin_assignment(&mut self, name: &Arc<str>) -> Option<Assignment> {
        if self.is_adopting_mirrored(name) {
            // Evaluated as soon as the content of all of its slices is known.
            return None;
        }
        let action = self.action(name);
        let mirror = self.mirrors.by_name.get(name)?;
        let groups = mirror
            .content
            .as_deref()
            .map_or(0, |content| content.groups.len());
        let fits = action != MirrorAction::Mirror || mirror.group_slices.slices.len() == groups;
        let whole = mirror.whole || mirror.action != Some(action) || !fits;
        let slices = if whole { &mirror.slices } else { &mirror.touched };
        let slices: Vec<_> = slices.iter().collect();
        self.ctx.work.endpoints_laid_out += (slices.len() + if whole { groups } else { 0 }) as u64 / 16;
        if whole {
            self.take_action(name, action, &slices);
        }
        let mirror = self.mirrors.by_name.get_mut(name)?;
        if matches!(action, MirrorAction::Unread | MirrorAction::Stay) {
            // The changes are looked at when the Endpoints have been read, or the Service's slices created.
            return None;
        }
        mirror.whole = false;
        mirror.touched = SmallSet::default();
        let mut priority = Priority::Rest;
        if let Some(content) = mirror
            .content
            .as_deref()
            .filter(|_| action == MirrorAction::Mirror)
        {
            let moves = std::mem::take(&mut mirror.moves);
            self.mirrors.syncs.push(MirrorSync {
                added: moves.added,
                updated: moves.updated,
                removed: moves.removed,
                skipped: content.left_out.total(),
            });
            // A write that takes a ready endpoint away goes first.
            priority = if moves.removed + moves.updated > 0 {
                Priority::Remove
            } else {
                Priority::Add
            };
            if whole {
                mirror.group_slices = GroupSlices::empty(content.groups.len());
            }
        }
        Some(Assignment {
            name: name.clone(),
            action,
            whole,
            slices: slices.into_iter(),
            found: Vec::new(),
            unplaced: Vec::new(),
            matched: None,
            updates: false,
            priority,
            contested: mirror.foreign.any(),
        })
    }

    /// Continues an evaluation, as far as the budget goes. Returns true when it is complete.
    pub(in crate::core::namespace) fn step_assignment(
        &mut self,
        assignment: &mut Assignment,
        budget: &mut TurnBudget,
    ) -> bool {
        let Some(mirror) = self.mirrors.by_name.get_mut(&assignment.name) else {
            return true;
        };
        let content = mirror.content.take();
        let mut group_slices = std::mem::take(&mut mirror.group_slices);
        let done = match content
            .as_deref()
            .filter(|_| assignment.action == MirrorAction::Mirror)
        {
            Some(content) => self.assign_some(assignment, content, &mut group_slices, budget),
            None => self.withdraw_some(assignment, budget),
        };
        if let Some(mirror) = self.mirrors.by_name.get_mut(&assignment.name) {
            (mirror.content, mirror.group_slices) = (content, group_slices);
        }
        if done {
            self.finish_assignment(assignment);
        }
        done
    }

    /// Gives each group the slice that has its ports and family, or one that is no longer needed otherwise, or a new one.
    /// All others are deleted.
    fn assign_some(
        &mut self,
        assignment: &mut Assignment,
        content: &MirroredObject,
        group_slices: &mut GroupSlices,
        budget: &mut TurnBudget,
    ) -> bool {
        if assignment.matched.is_none() {
            while let Some(id) = assignment.slices.next() {
                self.find_place(assignment, id, content, group_slices);
                budget.spend(1);
                if budget.is_spent() {
                    return false;
                }
            }
            let groups = if assignment.whole { content.groups.len() } else { 0 };
            let units = (groups / 16 + assignment.unplaced.len()) as u64;
            self.ctx.work.endpoints_laid_out += units;
            budget.spend(units);
            let matched = self.finish_matching(assignment, content);
            assignment.matched = Some(matched);
        }
        let Some(mut matched) = assignment.matched.take() else {
            return true;
        };
        let done = loop {
            if budget.is_spent() {
                break false;
            }
            if let Some(at) = matched.groups.next() {
                self.fill_place(assignment, &mut matched, at, content, group_slices);
            } else if let Some(id) = matched.next_unneeded() {
                // The slice that takes the place of this one is written before this one goes, and may wait for a batch.
                let at_once = assignment.whole && !assignment.updates;
                self.withdraw(id, at_once, assignment.contested);
            } else {
                break true;
            }
            self.ctx.work.slices_touched += 1;
            budget.spend(1);
        };
        assignment.matched = Some(matched);
        done
    }

    /// Finds the group of a slice. Where several slices show the same, one that needs no write stays, and otherwise the
    /// first by name: then two controllers do not delete each other's.
    fn find_place(
        &mut self,
        assignment: &mut Assignment,
        id: MirroredSliceId,
        content: &MirroredObject,
        group_slices: &mut GroupSlices,
    ) {
        self.ctx.work.slices_touched += 1;
        let slice = &mut self.mirrors.objects[id];
        let before = slice.place.take().filter(|_| !assignment.whole);
        let family = slice.family.filter(|_| slice.is_usable());
        let at = family.and_then(|family| content.position(family, &slice.ports));
        if let Some(before) = before {
            assignment.found.push(before);
            group_slices.set(before, None);
        }
        if !slice.is_usable() {
            return;
        }
        let Some(at) = at else {
            return assignment.unplaced.push(id);
        };
        assignment.found.push(at);
        let rank = |slice: &MirroredSlice| {
            let same = slice.shows(content, &content.groups[at]);
            (slice.object.remote.is_none(), !same, slice.name.clone())
        };
        if let Some(other) = group_slices.slices[at] {
            if rank(&self.mirrors.objects[other]) < rank(&self.mirrors.objects[id]) {
                return assignment.unplaced.push(id);
            }
            self.mirrors.objects[other].place = None;
            assignment.unplaced.push(other);
        }
        self.mirrors.objects[id].place = Some(at);
        group_slices.set(at, Some(id));
    }

    fn finish_matching(&self, assignment: &mut Assignment, content: &MirroredObject) -> Matched {
        let mut groups = if assignment.whole {
            (0..content.groups.len()).collect()
        } else {
            std::mem::take(&mut assignment.found)
        };
        groups.sort_unstable();
        groups.dedup();
        let mut unplaced = std::mem::take(&mut assignment.unplaced);
        unplaced.sort_by_cached_key(|&id| self.mirrors.objects[id].name.clone());
        let mut matched = Matched {
            groups: groups.into_iter(),
            spare: Default::default(),
            left: VecDeque::new(),
        };
        for id in unplaced {
            let slice = &self.mirrors.objects[id];
            match slice.family.filter(|_| slice.object.remote.is_some()) {
                Some(family) => matched.spare[family.index()].push_back(id),
                None => matched.left.push_back(id),
            }
        }
        matched
    }

    /// Makes the slice of a group show it. If the group has none, it gets one.
    fn fill_place(
        &mut self,
        assignment: &mut Assignment,
        matched: &mut Matched,
        at: usize,
        content: &MirroredObject,
        group_slices: &mut GroupSlices,
    ) {
        let group = &content.groups[at];
        let known = group_slices.slices[at].or_else(|| matched.spare[group.family.index()].pop_front());
        // Slices of Endpoints that are being deleted would go with them.
        let id = known.or_else(|| (!content.deleting).then(|| self.create_mirrored(&assignment.name)));
        let Some(id) = id else { return };
        self.mirrors.objects[id].place = Some(at);
        group_slices.set(at, Some(id));
        self.publish_mirrored(id, content, group, assignment.priority, assignment.contested);
        let object = &self.mirrors.objects[id].object;
        assignment.updates |= object.remote.is_some() && object.rewrite;
    }

    fn withdraw_some(&mut self, assignment: &mut Assignment, budget: &mut TurnBudget) -> bool {
        while !budget.is_spent() {
            let Some(id) = assignment.slices.next() else {
                return true;
            };
            self.withdraw(id, true, assignment.contested);
            self.ctx.work.slices_touched += 1;
            budget.spend(1);
        }
        false
    }

    fn finish_assignment(&mut self, assignment: &Assignment) {
        let name = &assignment.name;
        let Some(mirror) = self.mirrors.by_name.get_mut(name) else {
            return;
        };
        if assignment.action != MirrorAction::Mirror {
            mirror.forget_content();
            mirror.told = LeftOut::default();
            mirror.group_slices = GroupSlices::default();
        }
        let content = mirror.content.as_deref();
        let now = MirrorTotals {
            endpoints: match content {
                Some(content) if assignment.whole => content.endpoints(),
                Some(_) => mirror.counted.endpoints,
                None => 0,
            },
            slices: mirror.group_slices.used,
            desired_slices: content.map_or(0, |content| content.groups.len()),
        };
        let before = std::mem::replace(&mut mirror.counted, now);
        let gone = mirror.content.is_none() && mirror.slices.is_empty();
        self.mirrors.totals.replace(before, now);
        if gone {
            self.mirrors.by_name.remove(name);
        }
    }
}
