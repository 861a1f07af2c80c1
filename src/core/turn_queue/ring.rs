//! Members that take turns.

use crate::core::hash::IdMap;
use std::collections::BTreeSet;
use std::time::Duration;

/// The order of an object among those of its Service: since when it waits, and a number that no other object has.
pub(in crate::core) type Age = (Duration, u64);

/// Members by their turns. In each round every member has one turn, the one with the oldest object first. Members that
/// join wait for the next round, and so does one that has had its turn: between two turns of a member each of the
/// others has at most two, however often they come and go.
#[derive(Clone, Debug)]
pub(super) struct Ring<T> {
    members: IdMap<u64, Member<T>>,
    order: BTreeSet<(Turn, u64)>,
    /// The present round. No member's round is later than the next one; a member that may have no turn keeps an earlier one.
    round: u64,
}

/// A round, and an age that decides within it.
type Turn = (u64, Age);

#[derive(Clone, Debug)]
struct Member<T> {
    turn: Turn,
    value: T,
}

impl<T> Default for Ring<T> {
    fn default() -> Self {
        Self {
            members: IdMap::default(),
            order: BTreeSet::new(),
            round: 0,
        }
    }
}

impl<T> Ring<T> {
    /// Returns a member.
    pub(super) fn get(&self, id: u64) -> Option<&T> {
        self.members.get(&id).map(|member| &member.value)
    }

    /// Returns a member, to be changed.
    pub(super) fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        self.members.get_mut(&id).map(|member| &mut member.value)
    }

    /// Adds a member with an object of this age.
    pub(super) fn join(&mut self, id: u64, age: Age, value: T) {
        let turn = (self.round + 1, age);
        self.order.insert((turn, id));
        let before = self.members.insert(id, Member { turn, value });
        debug_assert!(before.is_none(), "a member joins once");
    }

    /// Removes a member, and returns it.
    pub(super) fn leave(&mut self, id: u64) -> Option<T> {
        let member = self.members.remove(&id)?;
        self.order.remove(&(member.turn, id));
        Some(member.value)
    }

    /// Changes the age of a member's object.
    pub(super) fn set_age(&mut self, id: u64, age: Age) {
        self.replace(id, |(round, _)| (round, age));
    }

    /// Begins the turn of the member whose turn it is. If it has had its turn of this round, the next round begins.
    pub(super) fn begin_turn(&mut self, id: u64) {
        if let Some(member) = self.members.get(&id) {
            self.round = self.round.max(member.turn.0);
        }
    }

    /// Ends the turn of a member, if it has not left with it. The next one is in the next round, even if this one was out of order.
    pub(super) fn end_turn(&mut self, id: u64) {
        let next = self.round + 1;
        self.replace(id, |(_, age)| (next, age));
    }

    fn replace(&mut self, id: u64, turn: impl FnOnce(Turn) -> Turn) {
        if let Some(member) = self.members.get_mut(&id) {
            let turn = turn(member.turn);
            if turn != member.turn {
                self.order.remove(&(member.turn, id));
                self.order.insert((turn, id));
                member.turn = turn;
            }
        }
    }

    /// Returns the member whose turn it is, among those that may have one.
    pub(super) fn first(&self, may: impl Fn(u64) -> bool) -> Option<u64> {
        let first = self.order.iter().find(|(_, id)| may(*id));
        first.map(|(_, id)| *id)
    }

    /// Returns the only member, if there is one alone.
    pub(super) fn only(&self) -> Option<(u64, &T)> {
        if self.members.len() != 1 {
            return None;
        }
        let (_, id) = self.order.first()?;
        Some((*id, self.get(*id)?))
    }

    /// Removes and returns the only member, whose turn it is.
    pub(super) fn take_only(&mut self) -> Option<T> {
        self.only()?;
        let (_, id) = self.order.pop_first()?;
        let member = self.members.remove(&id)?;
        self.round = self.round.max(member.turn.0);
        Some(member.value)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}
