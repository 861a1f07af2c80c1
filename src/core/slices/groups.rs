//! The port groups of one Service and family: pods that share one list of ports share slices.

use crate::core::compact::index::NumberIndex;
use crate::core::compact::slab::Slab;
use crate::core::compact::small::SmallSet;
use crate::core::hash::hash_of;
use crate::core::ids::{GroupId, SliceId};
use crate::core::ports::SlicePorts;

/// The port groups of one Service and family, by index and by ports.
#[derive(Clone, Debug, Default)]
pub struct Groups(Known);

#[derive(Clone, Debug, Default)]
enum Known {
    #[default]
    None,
    /// One with the first index, which takes no memory of its own.
    First(Group),
    /// More than one, or one with another index.
    Many(Box<ManyGroups>),
}

#[derive(Clone, Debug, Default)]
struct ManyGroups {
    groups: Slab<Group>,
    by_ports: NumberIndex,
}

/// The pods that share one list of ports, and their slices.
#[derive(Clone, Debug)]
pub struct Group {
    /// The ports, sorted.
    pub ports: SlicePorts,
    /// The number of endpoints placed.
    pub endpoints: u32,
    /// Its managed slices, ordered by how full they are.
    pub by_fill: SmallSet<(u32, SliceId)>,
}

impl ManyGroups {
    fn insert(&mut self, group: Group) -> GroupId {
        let hash = hash_of(&group.ports);
        let id = GroupId::from(self.groups.insert(group));
        self.by_ports.insert(hash, id.0);
        id
    }

    fn find(&self, ports: &SlicePorts) -> Option<GroupId> {
        let found = self
            .by_ports
            .find(hash_of(ports), |id| self.groups[id as usize].ports == *ports);
        found.map(GroupId)
    }

    fn remove(&mut self, id: GroupId) -> Group {
        let group = self.groups.remove(id.index());
        let known = self.by_ports.remove(hash_of(&group.ports), id.0);
        assert!(known, "a group is in the table of its ports");
        group
    }
}

impl Groups {
    const FIRST: GroupId = GroupId(0);

    /// Returns the group with these ports, creating it if there is none.
    pub fn obtain(&mut self, ports: &SlicePorts) -> GroupId {
        if let Some(id) = self.find(ports) {
            return id;
        }
        let group = Group {
            ports: ports.clone(),
            endpoints: 0,
            by_fill: SmallSet::default(),
        };
        let mut many = match std::mem::take(&mut self.0) {
            Known::None => {
                self.0 = Known::First(group);
                return Self::FIRST;
            }
            Known::First(first) => {
                let mut many = Box::<ManyGroups>::default();
                let id = many.insert(first);
                debug_assert_eq!(id, Self::FIRST, "slices refer to it by that");
                many
            }
            Known::Many(many) => many,
        };
        let id = many.insert(group);
        self.0 = Known::Many(many);
        id
    }

    /// Returns the group with these ports, if there is one.
    pub fn find(&self, ports: &SlicePorts) -> Option<GroupId> {
        match &self.0 {
            Known::None => None,
            Known::First(group) => (group.ports == *ports).then_some(Self::FIRST),
            Known::Many(many) => many.find(ports),
        }
    }

    fn of(&self, id: GroupId) -> Option<&Group> {
        match &self.0 {
            Known::None => None,
            Known::First(group) => (id == Self::FIRST).then_some(group),
            Known::Many(many) => many.groups.get(id.index()),
        }
    }

    fn of_mut(&mut self, id: GroupId) -> &mut Group {
        let group = match &mut self.0 {
            Known::None => None,
            Known::First(group) => (id == Self::FIRST).then_some(group),
            Known::Many(many) => many.groups.get_mut(id.index()),
        };
        group.expect("a group is there while slices are in it")
    }

    /// Returns a group that is in use.
    pub fn get(&self, id: GroupId) -> &Group {
        self.of(id).expect("a group is there while slices are in it")
    }

    /// Returns all groups.
    pub fn iter(&self) -> impl Iterator<Item = &Group> {
        let (first, many) = match &self.0 {
            Known::None => (None, None),
            Known::First(group) => (Some(group), None),
            Known::Many(many) => (None, Some(many.groups.iter().map(|(_, group)| group))),
        };
        first.into_iter().chain(many.into_iter().flatten())
    }

    /// Adds a slice to a group.
    pub fn join(&mut self, id: GroupId, slice: SliceId, fill: usize) {
        let group = self.of_mut(id);
        group.endpoints += fill as u32;
        group.by_fill.insert((fill as u32, slice));
    }

    /// Removes a slice from its group, and frees the group if it is idle.
    pub fn leave(&mut self, id: GroupId, slice: SliceId, fill: usize) {
        let group = self.of_mut(id);
        group.endpoints -= fill as u32;
        group.by_fill.remove(&(fill as u32, slice));
        self.free_if_idle(id);
    }

    /// Records that a slice of a group now holds a different number of endpoints.
    pub fn refill(&mut self, id: GroupId, slice: SliceId, before: usize, after: usize) {
        let group = self.of_mut(id);
        group.endpoints = group.endpoints + after as u32 - before as u32;
        group.by_fill.remove(&(before as u32, slice));
        group.by_fill.insert((after as u32, slice));
    }

    /// Frees a group if it has no slices.
    pub fn free_if_idle(&mut self, id: GroupId) {
        if !self.of(id).is_some_and(|group| group.by_fill.is_empty()) {
            return;
        }
        let Known::Many(many) = &mut self.0 else {
            self.0 = Known::None;
            return;
        };
        many.remove(id);
        if many.groups.is_empty() {
            self.0 = Known::None;
        } else if many.groups.len() == 1
            && let Some(first) = many.groups.try_remove(Self::FIRST.index())
        {
            self.0 = Known::First(first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::ports::{Protocol, SlicePort};

    fn ports(number: u16) -> SlicePorts {
        let port = SlicePort {
            name: None,
            protocol: Protocol::Tcp,
            number: Some(number),
            app_protocol: None,
        };
        [port].into_iter().collect()
    }

    #[test]
    fn a_group_keeps_its_number_whatever_others_come_and_go() {
        let mut groups = Groups::default();
        let join = |groups: &mut Groups, number: u16| {
            let id = groups.obtain(&ports(number));
            groups.join(id, SliceId(number.into()), 1);
            id
        };
        let leave = |groups: &mut Groups, id, number: u16| groups.leave(id, SliceId(number.into()), 1);
        let first = join(&mut groups, 1);
        assert!(
            matches!(groups.0, Known::First(_)),
            "one takes no memory of its own"
        );
        let second = join(&mut groups, 2);
        assert_ne!(first, second);
        let ids = |groups: &Groups| [1, 2, 3].map(|number| groups.find(&ports(number)));
        assert_eq!(ids(&groups), [Some(first), Some(second), None]);
        leave(&mut groups, second, 2);
        assert!(matches!(groups.0, Known::First(_)));
        assert_eq!(ids(&groups), [Some(first), None, None]);
        assert_eq!(groups.get(first).endpoints, 1);

        let second = join(&mut groups, 2);
        leave(&mut groups, first, 1);
        assert_eq!(ids(&groups), [None, Some(second), None]);
        let third = join(&mut groups, 3);
        assert_eq!(ids(&groups), [None, Some(second), Some(third)]);
        assert_eq!(groups.iter().count(), 2);
        leave(&mut groups, second, 2);
        leave(&mut groups, third, 3);
        assert!(matches!(groups.0, Known::None));
        assert_eq!(ids(&groups), [None; 3]);
    }
}
