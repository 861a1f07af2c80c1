//! Evaluation of a Service: endpoints are placed, slices are created and deleted. The packing is that of upstream's
//! `EndpointSlice` controller (1.36), computed for what changed instead of for everything.

use crate::core::address::Family;
use crate::core::hash::{IdMap, KeyedMap, KeyedSet};
use crate::core::ids::{GroupId, PodId, ServiceId, SliceId};
use crate::core::inputs::Pod;
use crate::core::namespace::Placement;
use crate::core::object::Phase;
use crate::core::ports::SlicePorts;
use crate::core::priority::Priority;
use crate::core::slices::{Slice, Slot};
use crate::core::time::Time;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;

/// The working state of an evaluation in one family.
pub(super) struct Evaluation {
    pub(super) service: ServiceId,
    pub(super) family: Family,
    /// Changed slices: written in the end, if they still differ then.
    pub(super) changed: Vec<SliceId>,
    pool: Pool,
}

/// Slices without endpoints that are no longer needed: reused for new ones, or deleted.
#[derive(Default)]
struct Pool {
    /// Those that show no endpoint that others are to take over. In the end, those to be deleted.
    free: VecDeque<SliceId>,
    /// Those that show endpoints that all move to a group with these ports. Ports belong to the whole slice, so it can change to
    /// these alone without publishing an endpoint with wrong ones.
    moving: KeyedMap<SlicePorts, VecDeque<SliceId>>,
    /// The others, which cannot be reused.
    bound: Vec<SliceId>,
}

/// The trigger time of the changes that an evaluation has found, if it is known.
#[derive(Clone, Copy, Debug)]
pub(in crate::core::namespace) struct Trigger(pub(in crate::core::namespace) Option<Time>);

/// The pods of one group that have not been placed yet.
struct Arrivals {
    ports: SlicePorts,
    pods: Vec<PodId>,
}

/// The pods of one group that are left to be placed.
struct Unplaced {
    /// May include pods that have been placed meanwhile.
    pods: std::vec::IntoIter<PodId>,
    left: usize,
}

impl Placement<'_> {
    /// Returns whether a dirty Service can be evaluated now.
    pub(in crate::core::namespace) fn begin_evaluation(&mut self, id: ServiceId) -> bool {
        let Some(service) = self.services.table.get_mut(id) else {
            return false;
        };
        if !service.dirty {
            return false;
        }
        if service.awaiting > 0 {
            // Evaluated as soon as the last of its slices is known.
            self.services.dirty.push(id);
            return false;
        }
        true
    }

    /// Brings the slices of a dirty Service up to date. The work grows with what changed since the last time. Returns the
    /// trigger time of the changes, or `None` if nothing is published now.
    pub(in crate::core::namespace) fn evaluate(&mut self, id: ServiceId) -> Option<Trigger> {
        let service = &mut self.services.table[id];
        service.dirty = false;
        if !service.facts.is_managed() {
            return None;
        }
        self.ctx.work.evaluations += 1;
        let mut trigger = service.trigger.take();
        if !std::mem::replace(&mut service.known, true) {
            trigger = service.facts.created;
        }
        for family in Family::ALL {
            if self.services.table[id].families[family.index()].is_some() {
                self.evaluate_family(id, family, trigger);
            }
        }
        let facts = &self.services.table[id].facts;
        if facts.custom {
            self.notify_other_slices(id);
        }
        self.record_sync(id);
        Some(Trigger(trigger))
    }

    fn evaluate_family(&mut self, service: ServiceId, family: Family, trigger: Option<Time>) {
        let state = self.services.table[service].family(family);
        if state.is_settled() {
            return;
        }
        let touched = std::mem::take(&mut state.pending().touched);
        let mut evaluation = Evaluation {
            service,
            family,
            changed: touched,
            pool: Pool::default(),
        };
        evaluation
            .changed
            .retain(|&id| self.is_live_in(id, service, family) && self.slices[id].touched);
        self.ctx.work.slices_touched += evaluation.changed.len() as u64;

        let arrivals = self.sort_arrivals(service, family);
        self.fill_pool(&mut evaluation, &arrivals);
        let mut open = if arrivals.is_empty() {
            IdMap::default()
        } else {
            self.open_slices(&evaluation)
        };
        for Arrivals { ports, pods } in arrivals {
            self.pack(&mut evaluation, &ports, pods, &mut open);
        }
        self.keep_holders(&mut evaluation);
        self.keep_placeholder(&mut evaluation);
        self.assign_hints(&mut evaluation);
        for id in std::mem::take(&mut evaluation.pool.free) {
            self.slices[id].pooled = false;
            self.mark_deleting(id);
            evaluation.changed.push(id);
        }
        self.finish(evaluation, trigger);
    }

    /// Returns the pods to be placed, by port group, in the order in which they came.
    fn sort_arrivals(&mut self, service: ServiceId, family: Family) -> Vec<Arrivals> {
        let queued = std::mem::take(&mut self.services.table[service].family(family).pending().to_place);
        let mut arrivals: Vec<Arrivals> = Vec::new();
        if queued.is_empty() {
            return arrivals;
        }
        // Pods of one template share their ports, so each distinct port list is resolved once.
        let mut by_port_set: IdMap<u32, usize> = IdMap::default();
        let mut by_ports: KeyedMap<SlicePorts, usize> = KeyedMap::default();
        for pod in queued {
            let Some(port_set) = self.inputs.get(pod).map(Pod::port_set) else {
                continue;
            };
            if !self.services.memberships[pod].unqueue(service, family) {
                continue;
            }
            if !self.is_fit(pod, service, family) {
                continue;
            }
            let at = *by_port_set.entry(port_set).or_insert_with(|| {
                let ports = self.ports_of(pod, service);
                *by_ports.entry(ports).or_insert_with_key(|ports| {
                    arrivals.push(Arrivals {
                        ports: ports.clone(),
                        pods: Vec::new(),
                    });
                    arrivals.len() - 1
                })
            });
            arrivals[at].pods.push(pod);
        }
        arrivals
    }

    /// Collects the slices that have lost their last endpoint, or whose group has none and gets none. An empty slice
    /// of a group that has others is kept, as upstream keeps it.
    fn fill_pool(&mut self, evaluation: &mut Evaluation, arrivals: &[Arrivals]) {
        let mut empties = std::mem::take(
            &mut self.services.table[evaluation.service]
                .family(evaluation.family)
                .pending()
                .empties,
        );
        if empties.is_empty() {
            return;
        }
        self.ctx.work.slices_touched += empties.len() as u64;
        empties.sort_unstable_by(|a, b| self.reuse_key(*a).cmp(&self.reuse_key(*b)));
        empties.dedup();
        // A set, since there may be as many different port lists as pods.
        let awaited: KeyedSet<_> = arrivals.iter().map(|arrivals| &arrivals.ports).collect();
        for id in empties {
            if !self.is_live_in(id, evaluation.service, evaluation.family)
                || !self.slices[id].slots.is_empty()
            {
                continue;
            }
            let slice = &self.slices[id];
            let (touched, group) = (slice.touched, slice.group);
            let state = self.services.table[evaluation.service].family(evaluation.family);
            let (endpoints, ports) = (state.groups.get(group).endpoints, &state.groups.get(group).ports);
            let wanted = endpoints > 0 || awaited.contains(ports);
            if wanted && !touched {
                state.pending().empties.push(id);
            } else {
                self.slices[id].pooled = true;
                self.pool(&mut evaluation.pool, id);
            }
        }
    }

    /// Adds a slice without endpoints to the pool, by where the endpoints go that it shows.
    fn pool(&mut self, pool: &mut Pool, id: SliceId) {
        let slice = &self.slices[id];
        let (service, family) = (slice.service, slice.family);
        let remainders = slice.remainders().iter();
        let moving: SmallVec<[PodId; 4]> = remainders
            .map(|remainder| remainder.slot.pod)
            .filter(|&pod| self.moves_from(pod, id))
            .collect();
        let Some((&first, rest)) = moving.split_first() else {
            if self.may_show_more(id) {
                pool.bound.push(id);
            } else {
                pool.free.push_back(id);
            }
            return;
        };
        debug_assert!(self.services.memberships[first].find(service, family).is_some());
        let ports = self.ports_of(first, service);
        if rest.iter().all(|&pod| self.ports_of(pod, service) == ports) {
            pool.moving.entry(ports).or_default().push_back(id);
        } else {
            pool.bound.push(id);
        }
    }

    /// Returns whether a slice shows a member that is to be placed, or that is placed in one that does not show it yet.
    fn moves_from(&self, pod: PodId, id: SliceId) -> bool {
        let slice = &self.slices[id];
        let (service, family) = (slice.service, slice.family);
        let state = self.services.table[service].families[family.index()].as_ref();
        if state.and_then(|state| state.shown_in(pod)) != Some(id) {
            return false;
        }
        let members = &self.services.memberships[pod];
        let is_placed = members
            .find(service, family)
            .map(|at| !members[at].slice.is_none());
        match is_placed {
            Some(true) => self.place_of_held(id, pod).is_some(),
            Some(false) => self.is_fit(pod, service, family),
            None => false,
        }
    }

    /// Keeps the slices out of the pool that have to show endpoints until others do, and leaves those to be deleted in it.
    fn keep_holders(&mut self, evaluation: &mut Evaluation) {
        let Pool { free, moving, bound } = std::mem::take(&mut evaluation.pool);
        let mut left: Vec<_> = moving.into_values().flatten().chain(bound).collect();
        left.sort_unstable_by(|a, b| self.reuse_key(*a).cmp(&self.reuse_key(*b)));
        evaluation.pool.free = free;
        for id in left {
            if self.held(id).next().is_none() && !self.may_show_more(id) {
                evaluation.pool.free.push_back(id);
                continue;
            }
            self.slices[id].pooled = false;
            let state = self.services.table[evaluation.service].family(evaluation.family);
            state.pending().empties.push(id);
        }
    }

    /// Returns the order in which empty slices are used again: those that the API server has come first.
    fn reuse_key(&self, id: SliceId) -> Option<(bool, &Arc<str>)> {
        let slice = self.slices.get(id)?;
        Some((slice.object.remote.is_none(), &slice.name))
    }

    fn is_live_in(&self, id: SliceId, service: ServiceId, family: Family) -> bool {
        let slice = self.slices.get(id);
        slice.is_some_and(|s| s.object.phase == Phase::Managed && s.service == service && s.family == family)
    }

    /// Returns the changed slices with room left, by group.
    fn open_slices(&self, evaluation: &Evaluation) -> IdMap<GroupId, Vec<SliceId>> {
        let mut open: IdMap<GroupId, Vec<SliceId>> = IdMap::default();
        for id in &evaluation.changed {
            let slice = &self.slices[*id];
            if !slice.slots.is_empty() && self.room(*id) > 0 {
                open.entry(slice.group).or_default().push(*id);
            }
        }
        open
    }

    /// Places the pods of one group: changed slices are filled first, the fullest of them first; then, if one
    /// unchanged slice can take all that are left, the one that they fill best; otherwise new slices.
    fn pack(
        &mut self,
        evaluation: &mut Evaluation,
        ports: &SlicePorts,
        pods: Vec<PodId>,
        open: &mut IdMap<GroupId, Vec<SliceId>>,
    ) {
        let group = self.services.table[evaluation.service]
            .family(evaluation.family)
            .groups
            .find(ports);
        let mut pods = Unplaced {
            left: pods.len(),
            pods: pods.into_iter(),
        };
        let mut open = group.and_then(|group| open.remove(&group)).unwrap_or_default();
        open.sort_unstable_by_key(|id| {
            let slice = &self.slices[*id];
            (std::cmp::Reverse(slice.slots.len()), slice.name.clone())
        });
        for id in open {
            self.fill(id, &mut pods);
        }
        while pods.left > 0 {
            let unchanged = self.unchanged_slice(evaluation, ports, pods.left);
            let id = unchanged.unwrap_or_else(|| self.new_slice(evaluation, ports, &mut pods));
            self.fill(id, &mut pods);
            if !std::mem::replace(&mut self.slices[id].touched, true) {
                evaluation.changed.push(id);
            }
        }
    }

    fn fill(&mut self, id: SliceId, pods: &mut Unplaced) {
        let mut room = self.room(id);
        let (service, family) = (self.slices[id].service, self.slices[id].family);
        while room > 0 && pods.left > 0 {
            let Some(pod) = pods.pods.next() else { break };
            let members = &self.services.memberships[pod];
            let at = members.find(service, family);
            if at.is_some_and(|at| members[at].slice.is_none()) {
                self.add(id, pod);
                pods.left -= 1;
                room -= 1;
            }
        }
    }

    /// Places a pod in a slice that has room for it.
    fn add(&mut self, id: SliceId, pod: PodId) {
        self.place(id, Slot::absent(pod));
        let slice = &mut self.slices[id];
        slice.change(Priority::Add);
        self.services.table[slice.service].moves.added += 1;
    }

    /// Returns the slice of the group that `count` endpoints fill best without exceeding the limit.
    fn unchanged_slice(&self, evaluation: &Evaluation, ports: &SlicePorts, count: usize) -> Option<SliceId> {
        let room = self
            .ctx
            .settings
            .max_endpoints
            .checked_sub(count)
            .filter(|&room| room > 0)?;
        let state = self.services.table[evaluation.service].families[evaluation.family.index()].as_ref();
        let groups = &state?.groups;
        let fills = &groups.get(groups.find(ports)?).by_fill;
        let mut fitting = fills.down_from(..=(room as u32, SliceId::NONE)).map(|(_, id)| id);
        fitting.find(|&id| !self.slices[id].pooled && self.room(id) >= count)
    }

    /// Returns a slice for the group: one that shows endpoints which move to the group, with these; an empty one; or one that is
    /// yet to be created.
    fn new_slice(&mut self, evaluation: &mut Evaluation, ports: &SlicePorts, pods: &mut Unplaced) -> SliceId {
        while let Some(id) = evaluation
            .pool
            .moving
            .get_mut(ports)
            .and_then(VecDeque::pop_front)
        {
            let (service, family) = (evaluation.service, evaluation.family);
            let remainders = self.slices[id].remainders().iter().map(|r| r.slot.pod);
            let returning: Vec<_> = remainders
                .filter(|&pod| {
                    let members = &self.services.memberships[pod];
                    let at = members.find(service, family);
                    at.is_some_and(|at| members[at].slice.is_none()) && self.moves_from(pod, id)
                })
                .take(self.ctx.settings.max_endpoints.min(pods.left))
                .collect();
            if returning.is_empty() {
                // Others have taken all of them over.
                evaluation.pool.bound.push(id);
                continue;
            }
            self.regroup(id, ports);
            for pod in returning {
                self.add(id, pod);
                pods.left -= 1;
            }
            return id;
        }
        if let Some(id) = evaluation.pool.free.pop_front() {
            self.regroup(id, ports);
            return id;
        }
        let id = self.create_slice(evaluation.service, evaluation.family);
        self.join_group(id, ports);
        id
    }

    /// Takes a slice from the pool into the group with these ports.
    fn regroup(&mut self, id: SliceId, ports: &SlicePorts) {
        self.slices[id].pooled = false;
        self.leave_group(id);
        self.join_group(id, ports);
    }

    /// Creates a managed slice that the API server does not have yet, in no group.
    fn create_slice(&mut self, service: ServiceId, family: Family) -> SliceId {
        let service_name = self.services.table[service].facts.name.clone();
        let name = self.fresh_name(&service_name);
        let manager = self.services.table[service].facts.manager();
        let mut slice = Slice::new(name, service_name, manager, Phase::Managed, service);
        slice.family = family;
        slice.change(Priority::Add);
        let id = self.slices.insert(slice);
        let service = &mut self.services.table[service];
        service.slices.insert(id);
        service.family(family).managed += 1;
        id
    }

    /// Adds a managed slice to the group with these ports.
    pub(in crate::core::namespace) fn join_group(&mut self, id: SliceId, ports: &SlicePorts) {
        let slice = &mut self.slices[id];
        let groups = &mut self.services.table[slice.service].family(slice.family).groups;
        slice.group = groups.obtain(ports);
        groups.join(slice.group, id, slice.slots.len());
    }

    /// Removes a managed slice from its group. Its ports must be written anew in any case.
    fn leave_group(&mut self, id: SliceId) {
        let slice = &mut self.slices[id];
        let group = std::mem::replace(&mut slice.group, GroupId::NONE);
        slice.object.rewrite = true;
        slice.change(Priority::Add);
        let fill = slice.slots.len();
        self.services.table[slice.service]
            .family(slice.family)
            .groups
            .leave(group, id, fill);
    }

    /// Keeps one slice per family, with no ports and no endpoints, for a Service without endpoints.
    fn keep_placeholder(&mut self, evaluation: &mut Evaluation) {
        let no_ports = SlicePorts::default();
        let state = self.services.table[evaluation.service].family(evaluation.family);
        let free = &mut evaluation.pool.free;
        if state.managed as usize > free.len() {
            return;
        }
        let key = |id| {
            (
                self.slices[id].object.remote.is_none(),
                !self.group_ports(id).is_empty(),
            )
        };
        let at = (0..free.len()).min_by_key(|&at| key(free[at]));
        let id = if let Some(id) = at.and_then(|at| free.remove(at)) {
            if self.group_ports(id).is_empty() {
                self.slices[id].pooled = false;
            } else {
                self.regroup(id, &no_ports);
            }
            id
        } else {
            let id = self.create_slice(evaluation.service, evaluation.family);
            self.join_group(id, &no_ports);
            // No traffic depends on it.
            self.slices[id].object.priority = Priority::Rest;
            id
        };
        self.services.table[evaluation.service]
            .family(evaluation.family)
            .pending()
            .empties
            .push(id);
        evaluation.changed.push(id);
    }

    /// Marks a managed slice to be deleted.
    pub(in crate::core::namespace) fn mark_deleting(&mut self, id: SliceId) {
        self.forget_remainders(id);
        let slice = &mut self.slices[id];
        slice.object.phase = Phase::Deleting;
        slice.change(Priority::Add);
        let (service, fill) = (slice.service, slice.slots.len());
        let group = std::mem::replace(&mut slice.group, GroupId::NONE);
        slice.slots = SmallVec::new();
        slice.set_hints(Vec::new());
        (slice.dirty, slice.removed, slice.touched) = (0, 0, false);
        slice.object.needs_refetch &= slice.object.remote.is_none();
        slice.object.forget_triggers();
        // If the Service has lost the family, it is gone already.
        if let Some(state) = &mut self.services.table[service].families[slice.family.index()]
            && !group.is_none()
        {
            state.managed -= 1;
            state.groups.leave(group, id, fill);
        }
    }

    /// Queues the slices that an evaluation changed.
    fn finish(&mut self, evaluation: Evaluation, trigger: Option<Time>) {
        let Evaluation {
            service,
            family,
            mut changed,
            ..
        } = evaluation;
        changed.sort_by_cached_key(|&id| (self.slices[id].stage(), self.slices[id].name.clone()));
        changed.dedup();
        let unwritten = self.services.is_unwritten(service);
        for &id in &changed {
            let differs = match self.slices[id].object.phase {
                Phase::Managed => self.slice_differs(id),
                _ => self.slices[id].object.remote.is_some(),
            };
            let slice = &mut self.slices[id];
            slice.touched = false;
            self.services.table[service].moves.slices += u32::from(differs);
            if slice.object.phase == Phase::Managed && (differs || !slice.remainders().is_empty()) {
                // While the first write of a new Service waits, upstream would have written the earlier change, and then this
                // one with a time of its own. The write that holds both has the later time, as upstream's last one would.
                let replaces = unwritten && slice.object.remote.is_none() && !slice.slots.is_empty();
                slice.object.note_trigger(trigger, replaces);
            }
            if slice.object.phase == Phase::Deleting
                && slice.object.remote.is_none()
                && !slice.object.needs_refetch
                && slice.object.flight.is_none()
            {
                self.drop_slice(id);
            } else {
                self.slices.want(id);
            }
        }
        let state = self.services.table[service].family(family);
        state.evaluated();
        debug_assert!(state.managed > 0, "a family keeps a slice");
    }
}
