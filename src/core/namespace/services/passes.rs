//! Passes that visit each pod of a Service, of a node or of the namespace, or each slice of a Service, in steps: there may be
//! a hundred thousand, and other namespaces must not wait for all of them.
//!
//! Events are applied one after the other, and the passes of one are finished before the next begins, so the result is
//! the same however the work is cut into steps. Nothing is planned in between.

use super::addresses::{Collecting, ServiceEndpoints};
use super::unknown_nodes::NodeLook;
use super::{ReadyTimes, Services};
use crate::core::address::Family;
use crate::core::facts::ServiceFacts;
use crate::core::ids::{NodeId, PodId, ServiceId, SliceId};
use crate::core::inputs::{Matching, PodChange};
use crate::core::namespace::Placement;
use crate::core::namespace::rounds::{Round, STRIDE};
use std::collections::VecDeque;

/// The units of work after which a step ends early, where single pods are expensive, such as those with thousands of ports.
const PIECE: u64 = 2000;

/// A part of the work that an event causes.
#[derive(Clone, Debug)]
pub(in crate::core::namespace) enum Pass {
    /// Compares a Service's selector with labels, before the pass that follows.
    Match(Box<Matching>, Box<Pass>),
    /// Begins to take pods into a Service, as [`Self::Start`].
    Begin(ServiceId, Option<Box<ReadyTimes>>),
    /// Takes pods into a Service; the Ready times are from when it was last managed.
    Start(ServiceId, VecDeque<PodId>, Option<Box<ReadyTimes>>),
    /// Gives a Service the slices that name it, those after this one.
    Attribute(ServiceId, Option<SliceId>),
    /// Makes pods forget a Service.
    Stop(ServiceId, VecDeque<PodId>),
    /// Leaves the slices of a Service alone from now on.
    Unmanage(ServiceId),
    /// Makes pods forget a Service that followed them, since slices are forgotten.
    Unfollow(ServiceId, VecDeque<PodId>),
    /// Drops a Service that is no longer known.
    Remove(ServiceId),
    /// Changes a Service that is managed no longer, or in another way.
    Replace(ServiceId, Box<ServiceFacts>),
    /// Adds a new Service, as of the list of an epoch.
    Insert(Box<ServiceFacts>, u8),
    /// Notifies users of what is wrong with a Service's annotations.
    Notice(ServiceId),
    /// Applies a change of a managed Service.
    Edit(Box<Edit>),
    /// Collects the members of a Service's Endpoints object.
    Collect(Box<Collecting>),
    /// Visits the pods on a node that has appeared or has another zone, from this index on.
    Node(NodeId, usize, PodChange),
    /// Has the hints of the Services that depend on the zones looked at, from this Service on.
    Rehint(ServiceId),
    /// Looks for pods on nodes that do not exist.
    UnknownNodes(Box<NodeLook>),
    /// Removes these pods' positions in slices that have been forgotten.
    Displace(VecDeque<PodId>),
    /// Withdraws slices of a Service whose annotation no longer counts, from those before this one.
    Withdraw(ServiceId, SliceId),
}

/// Work that an event has left to be done.
#[derive(Clone, Debug)]
pub(in crate::core::namespace) enum Queued {
    /// Visits pods, and needs nothing but the placement.
    Pass(Pass),
    /// Visits all Services, or all objects of a kind.
    Round(Round),
}

impl From<Pass> for Queued {
    fn from(pass: Pass) -> Self {
        Self::Pass(pass)
    }
}

impl From<Round> for Queued {
    fn from(round: Round) -> Self {
        Self::Round(round)
    }
}

/// A change of a managed Service, applied in stages.
#[derive(Clone, Debug)]
pub(in crate::core::namespace) struct Edit {
    id: ServiceId,
    old: ServiceFacts,
    /// The members that its Endpoints object had.
    endpoints: Option<Box<ServiceEndpoints>>,
    /// The pods that it had, and from the second stage on those that it still has.
    members: Vec<PodId>,
    /// The pods that it selects now, and those of them, sorted, that it had.
    selected: Vec<PodId>,
    stayed: Vec<PodId>,
    stage: Stage,
    /// Number of pods visited in this stage.
    at: usize,
    /// The last slice visited in this stage.
    slice: Option<SliceId>,
    /// Number of members, from the first on, that stay.
    kept: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Remove the members that it no longer selects.
    Leave,
    /// Add or drop a family.
    Family(Family),
    /// Delete the slices of a family that it has lost.
    Drop(Family),
    /// Add the pods that it has begun to select.
    Join,
    /// Visit each member, since what is published of it may have changed.
    Revisit,
    /// Give each slice its other labels.
    Relabel,
}

impl Edit {
    pub(in crate::core::namespace) fn new(
        id: ServiceId,
        old: ServiceFacts,
        members: Vec<PodId>,
        endpoints: Option<Box<ServiceEndpoints>>,
    ) -> Self {
        Self {
            id,
            old,
            endpoints,
            members,
            selected: Vec::new(),
            stayed: Vec::new(),
            stage: Stage::Leave,
            at: 0,
            slice: None,
            kept: 0,
        }
    }
}

/// The work that is left outside of the placement, once the pods of a pass have been visited.
#[derive(Clone, Debug)]
pub(in crate::core::namespace) enum Finished {
    /// A Service has taken in its pods.
    Start(ServiceId),
    /// The pods of a Service have forgotten it.
    Stop(ServiceId),
    /// The slices of a Service are left alone.
    Unmanage(ServiceId),
    /// Only the name of a Service is left.
    Remove(ServiceId),
    /// A Service is managed no longer, or in another way.
    Replace(ServiceId, Box<ServiceFacts>),
    /// A Service is new, as of the list of an epoch.
    Insert(Box<ServiceFacts>, u8),
    /// The pods have forgotten their places, since the slices are forgotten.
    Displace,
}

/// The result of a step.
#[derive(Debug)]
pub(in crate::core::namespace) struct Stepped {
    /// The rest of the pass.
    pub(in crate::core::namespace) rest: Option<Pass>,
    /// The number of pods visited.
    pub(in crate::core::namespace) looked_at: usize,
    /// The work to be done next.
    pub(in crate::core::namespace) finished: Option<Finished>,
}

impl From<(Option<Pass>, usize)> for Stepped {
    fn from((rest, looked_at): (Option<Pass>, usize)) -> Self {
        Self {
            rest,
            looked_at,
            finished: None,
        }
    }
}

impl From<(Finished, usize)> for Stepped {
    fn from((finished, looked_at): (Finished, usize)) -> Self {
        Self {
            rest: None,
            looked_at,
            finished: Some(finished),
        }
    }
}

impl Services {
    /// Queues a pass or a round behind all others.
    pub(in crate::core::namespace) fn queue(&mut self, queued: impl Into<Queued>) {
        self.passes.push_back(queued.into());
    }

    /// Queues what is left of a pass or a round before all others.
    pub(in crate::core::namespace) fn queue_first(&mut self, queued: impl Into<Queued>) {
        self.passes.push_front(queued.into());
    }

    /// Takes the next pass or round.
    pub(in crate::core::namespace) fn next_pass(&mut self) -> Option<Queued> {
        self.passes.pop_front()
    }

    /// Returns whether passes are left.
    pub(in crate::core::namespace) fn has_passes(&self) -> bool {
        !self.passes.is_empty()
    }
}

impl Placement<'_> {
    /// Looks for nodes that did not exist at several looks in a row, of which users are told by the passes. The time between
    /// two looks is up to the caller.
    pub(in crate::core::namespace) fn look_at_unknown_nodes(&mut self) {
        if let Some(look) = self.begin_unknown_nodes() {
            self.services.queue(Pass::UnknownNodes(look));
        }
    }

    /// Continues a pass.
    pub(in crate::core::namespace) fn step(&mut self, pass: Pass) -> Stepped {
        let stepped = match pass {
            Pass::Match(matching, then) => (Some(self.step_match(matching, then)), 1),
            Pass::Begin(id, times) => {
                let pods = self.pods_of(id).into();
                (Some(Pass::Start(id, pods, times)), 1)
            }
            Pass::Start(id, mut pods, mut times) => {
                let take_in = |state: &mut Self, pod| state.take_in(id, pod, times.as_deref_mut());
                let looked_at = self.step_pods(&mut pods, take_in);
                if pods.is_empty() {
                    return (Finished::Start(id), looked_at).into();
                }
                (Some(Pass::Start(id, pods, times)), looked_at)
            }
            Pass::Attribute(id, after) => {
                let (last, looked_at) = self.attribute_more(id, after);
                (last.map(|last| Pass::Attribute(id, Some(last))), looked_at)
            }
            Pass::Stop(id, mut pods) => {
                // Only the pods forget their endpoints: the slices keep them.
                let looked_at = self.step_pods(&mut pods, |state, pod| {
                    state.keep_ready_time(id, pod);
                    state.forget_member(pod, id);
                });
                if pods.is_empty() {
                    return (Finished::Stop(id), looked_at).into();
                }
                (Some(Pass::Stop(id, pods)), looked_at)
            }
            Pass::Unmanage(id) => {
                let (more, looked_at) = self.unmanage_more(id);
                if !more {
                    return (Finished::Unmanage(id), looked_at).into();
                }
                (Some(Pass::Unmanage(id)), looked_at)
            }
            Pass::Unfollow(id, mut pods) => {
                let looked_at = self.step_pods(&mut pods, |state, pod| state.forget_member(pod, id));
                ((!pods.is_empty()).then_some(Pass::Unfollow(id, pods)), looked_at)
            }
            Pass::Node(node, at, change) => self.step_node(node, at, change),
            Pass::Rehint(from) => self.step_rehint(from),
            Pass::UnknownNodes(look) => (self.step_unknown_nodes(look).map(Pass::UnknownNodes), 1),
            Pass::Displace(mut pods) => {
                let looked_at = self.step_pods(&mut pods, Self::displace);
                if pods.is_empty() {
                    return (Finished::Displace, looked_at).into();
                }
                (Some(Pass::Displace(pods)), looked_at)
            }
            Pass::Edit(mut edit) => {
                let (rest, looked_at) = self.step_edit(&mut edit);
                (rest.then_some(Pass::Edit(edit)), looked_at)
            }
            Pass::Collect(collecting) => (self.step_collecting(collecting), 1),
            Pass::Remove(id) => return (Finished::Remove(id), 1).into(),
            Pass::Replace(id, facts) => return (Finished::Replace(id, facts), 1).into(),
            Pass::Insert(facts, epoch) => return (Finished::Insert(facts, epoch), 1).into(),
            Pass::Notice(id) => {
                self.notify_annotations(id);
                (None, 1)
            }
            Pass::Withdraw(id, before) => {
                let (last, looked_at) = self.withdraw_more(id, before);
                (last.map(|last| Pass::Withdraw(id, last)), looked_at)
            }
        };
        stepped.into()
    }

    /// Continues to compare a selector with labels. Returns the pass that comes next.
    fn step_match(&mut self, mut matching: Box<Matching>, then: Box<Pass>) -> Pass {
        let end = self.ctx.work.total() + PIECE;
        while self.ctx.work.total() < end {
            if self.inputs.step_matching(&mut matching, &mut self.ctx.work) {
                return *then;
            }
        }
        Pass::Match(matching, then)
    }

    /// Continues to collect the members of an Endpoints object. Returns what is left.
    fn step_collecting(&mut self, mut collecting: Box<Collecting>) -> Option<Pass> {
        let end = self.ctx.work.total() + PIECE;
        for _ in 0..STRIDE {
            if self.ctx.work.total() >= end {
                break;
            }
            if !self.collect_next(&mut collecting) {
                self.finish_collecting(*collecting);
                return None;
            }
        }
        Some(Pass::Collect(collecting))
    }

    /// Calls `each` for the next pods, until a step is done. Returns the number of pods visited.
    fn step_pods(&mut self, pods: &mut VecDeque<PodId>, mut each: impl FnMut(&mut Self, PodId)) -> usize {
        let (before, end) = (pods.len(), self.ctx.work.total() + PIECE);
        while before - pods.len() < STRIDE && self.ctx.work.total() < end {
            let Some(pod) = pods.pop_front() else { break };
            each(self, pod);
        }
        before - pods.len()
    }

    /// Continues to visit the pods on a node. Returns what is left, and the number of pods visited.
    fn step_node(&mut self, node: NodeId, from: usize, change: PodChange) -> (Option<Pass>, usize) {
        let (mut at, end) = (from, self.ctx.work.total() + PIECE);
        while at - from < STRIDE && self.ctx.work.total() < end {
            let Some(pod) = self.inputs.pod_on(node, at) else {
                return (None, at - from);
            };
            self.revisit(pod, change);
            at += 1;
        }
        (Some(Pass::Node(node, at, change)), at - from)
    }

    /// Continues to have the hints looked at of the Services that depend on the zones. Returns what is left, and the number of
    /// Services visited.
    fn step_rehint(&mut self, from: ServiceId) -> (Option<Pass>, usize) {
        let hinted = self.services.auto_hints.from(from);
        let mut some: Vec<_> = hinted.take(STRIDE + 1).copied().collect();
        let next = some.get(STRIDE).copied();
        some.truncate(STRIDE);
        for id in &some {
            self.rehint_all(*id);
        }
        (next.map(Pass::Rehint), some.len())
    }

    /// Continues the change of a Service. Returns whether there is more, and the number of pods visited.
    fn step_edit(&mut self, edit: &mut Edit) -> (bool, usize) {
        let (id, stage) = (edit.id, edit.stage);
        let new = &self.services.table[id].facts;
        let reselected = edit.old.selector != new.selector;
        let regrouped = edit.old.ports != new.ports || edit.old.no_cluster_ip != new.no_cluster_ip;
        if let Stage::Drop(_) | Stage::Relabel = stage {
            let (last, looked_at) = self.edit_slices(id, stage, edit.slice);
            edit.slice = last;
            return (last.is_some() || self.next_stage(edit, reselected), looked_at);
        }
        let pods = match stage {
            Stage::Leave if reselected => edit.members.len(),
            // Which pods are members in a family depends on these.
            Stage::Family(family)
                if edit.old.has(family) != new.has(family)
                    || edit.old.endpoints_family != new.endpoints_family
                    || edit.old.is_frozen() != new.is_frozen() =>
            {
                edit.members.len()
            }
            Stage::Join => edit.selected.len(),
            // While no pod was added, members may have lost their places, and not got any in a new family.
            Stage::Revisit
                if regrouped
                    || edit.old.publish_not_ready != new.publish_not_ready
                    || (edit.old.is_frozen() && !new.is_frozen()) =>
            {
                edit.members.len()
            }
            _ => 0,
        };
        let change = PodChange {
            ports: regrouped,
            ..PodChange::default()
        };
        if edit.at == 0
            && let Stage::Family(family) = stage
            && !edit.old.has(family)
            && new.has(family)
            && self.ctx.writes_slices(new)
        {
            self.services.table[id].families[family.index()] = Some(Box::default());
        }
        let mut end = pods.min(edit.at + STRIDE);
        let spent = self.ctx.work.total() + PIECE;
        for at in edit.at..end {
            if self.ctx.work.total() >= spent {
                end = at;
                break;
            }
            self.edit_pod(edit, at, change);
        }
        let looked_at = end - edit.at;
        edit.at = end;
        (end < pods || self.next_stage(edit, reselected), looked_at)
    }

    /// Visits some slices in a stage of a change, those after this one. Returns the last one that was visited, if there may be
    /// more, and the number of those visited.
    fn edit_slices(
        &mut self,
        id: ServiceId,
        stage: Stage,
        after: Option<SliceId>,
    ) -> (Option<SliceId>, usize) {
        let of_service = self.services.table[id].slices.after(after);
        let some: Vec<_> = of_service.take(STRIDE).collect();
        for slice in &some {
            self.ctx.work.slices_touched += 1;
            match stage {
                Stage::Drop(family) => self.delete_if_of_family(*slice, family),
                _ => self.relabel(*slice),
            }
        }
        (some.get(STRIDE - 1).copied(), some.len())
    }

    /// Visits a pod in a stage of a change. `change` is what has changed for each of the Service's pods.
    fn edit_pod(&mut self, edit: &mut Edit, at: usize, change: PodChange) {
        let id = edit.id;
        match edit.stage {
            Stage::Leave => {
                let pod = edit.members[at];
                if self.keeps_reselected(pod, id) {
                    edit.members[edit.kept] = pod;
                    edit.kept += 1;
                } else {
                    self.remove_member(pod, id);
                }
            }
            Stage::Family(family) => {
                let pod = edit.members[at];
                if self.services.table[id].facts.has(family) {
                    self.rejoin_family(pod, id, family);
                } else {
                    self.forget_family(pod, id, family);
                }
            }
            Stage::Join if edit.stayed.binary_search(&edit.selected[at]).is_ok() => {}
            Stage::Join => self.join_new(edit.selected[at], id),
            Stage::Revisit => {
                let pod = edit.members[at];
                for at in self.services.memberships[pod].of(id) {
                    self.visit(pod, at, change);
                }
            }
            Stage::Drop(_) | Stage::Relabel => {}
        }
    }

    /// Begins the next stage of a change. Returns false if that was the last one. `reselected` says that the selector has
    /// changed.
    fn next_stage(&mut self, edit: &mut Edit, reselected: bool) -> bool {
        let (id, stage) = (edit.id, edit.stage);
        (edit.at, edit.slice) = (0, None);
        edit.stage = match stage {
            Stage::Leave => {
                if reselected {
                    edit.members.truncate(edit.kept);
                }
                Stage::Family(Family::V4)
            }
            Stage::Family(family) if edit.old.has(family) && !self.services.table[id].facts.has(family) => {
                self.services.table[id].families[family.index()] = None;
                Stage::Drop(family)
            }
            Stage::Family(family) | Stage::Drop(family) => {
                if family == Family::V4 {
                    Stage::Family(Family::V6)
                } else {
                    if reselected {
                        edit.selected = self.pods_of(id);
                        edit.stayed.clone_from(&edit.members);
                        edit.stayed.sort_unstable();
                    }
                    Stage::Join
                }
            }
            Stage::Join => Stage::Revisit,
            Stage::Revisit if self.begin_relabelling(id, &edit.old) => Stage::Relabel,
            Stage::Revisit | Stage::Relabel => {
                self.finish_edit(id, &edit.old, edit.endpoints.take());
                return false;
            }
        };
        true
    }
}
