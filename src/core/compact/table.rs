//! Objects by number and by name: each is stored once, with its name in it.

use super::index::NumberIndex;
use super::slab::Slab;
use crate::core::hash::hash_of_text;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// A number that refers to an entry of a table. Reused once the entry is gone.
pub(crate) trait EntryId: Copy + Ord + From<usize> + Into<usize> + fmt::Debug {}

impl<I: Copy + Ord + From<usize> + Into<usize> + fmt::Debug> EntryId for I {}

/// An object that has its name in itself.
pub(crate) trait Named {
    /// Returns the name. Only [`Table::rename`] may change it.
    fn name(&self) -> &str;
}

/// Objects of one kind, numbered in the order of arrival, with an index by name that holds numbers and no names.
#[derive(Clone, Debug)]
pub(crate) struct Table<I, T> {
    entries: Slab<T>,
    by_name: NumberIndex,
    id: PhantomData<I>,
}

impl<I, T> Default for Table<I, T> {
    fn default() -> Self {
        Self {
            entries: Slab::default(),
            by_name: NumberIndex::default(),
            id: PhantomData,
        }
    }
}

impl<I: EntryId, T> Table<I, T> {
    /// Returns an entry, if it is there.
    pub(crate) fn get(&self, id: I) -> Option<&T> {
        self.entries.get(id.into())
    }

    /// Returns an entry to be changed, if it is there.
    pub(crate) fn get_mut(&mut self, id: I) -> Option<&mut T> {
        self.entries.get_mut(id.into())
    }

    /// Returns all entries with their numbers, in the order of these.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (I, &T)> {
        self.entries.iter().map(|(id, entry)| (I::from(id), entry))
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there is no entry.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns a number that is above those of all entries.
    pub(crate) fn end(&self) -> usize {
        self.entries.end()
    }

    /// Drops the entries with `count` numbers, from one on, of a table that is given up. Entries are no longer found by
    /// their names. Returns whether more are left.
    pub(crate) fn shed(&mut self, from: usize, count: usize) -> bool {
        self.by_name = NumberIndex::default();
        for id in from..from + count {
            self.entries.try_remove(id);
        }
        !self.entries.is_empty()
    }

    /// Returns the number that the next entry gets.
    pub(crate) fn next_id(&self) -> I {
        I::from(self.entries.next_number())
    }
}

impl<I: EntryId, T: Named> Table<I, T> {
    /// Returns the number of the entry of a name.
    pub(crate) fn find(&self, name: &str) -> Option<I> {
        let is_named = |id: u32| self.entries[id as usize].name() == name;
        let found = self.by_name.find(hash_of_text(name), is_named);
        found.map(|id| I::from(id as usize))
    }

    /// Adds an entry whose name is not in the table.
    pub(crate) fn insert(&mut self, entry: T) -> I {
        let id = self.entries.insert(entry);
        self.index(id);
        I::from(id)
    }

    /// Removes an entry that is there.
    pub(crate) fn remove(&mut self, id: I) -> T {
        self.hide(id);
        self.entries.remove(id.into())
    }

    /// Makes an entry unknown by its name, which another may take. It stays until it is removed.
    pub(crate) fn hide(&mut self, id: I) {
        let index: usize = id.into();
        let hash = hash_of_text(self.entries[index].name());
        self.by_name.remove(hash, number(index));
    }

    /// Changes an entry and its name, to one that is not in the table.
    pub(crate) fn rename(&mut self, id: I, change: impl FnOnce(&mut T)) {
        self.hide(id);
        change(&mut self.entries[id.into()]);
        self.index(id.into());
    }

    fn index(&mut self, id: usize) {
        let hash = hash_of_text(self.entries[id].name());
        self.by_name.insert(hash, number(id));
    }
}

fn number(id: usize) -> u32 {
    u32::try_from(id).expect("no table of one namespace holds 2^32 entries")
}

impl<I: EntryId, T> Index<I> for Table<I, T> {
    type Output = T;

    fn index(&self, id: I) -> &T {
        &self.entries[id.into()]
    }
}

impl<I: EntryId, T> IndexMut<I> for Table<I, T> {
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.entries[id.into()]
    }
}

#[cfg(test)]
mod tests {
    use super::{Named, Table};

    impl Named for String {
        fn name(&self) -> &str {
            self
        }
    }

    #[test]
    fn entries_are_found_by_their_latest_names_and_numbers_are_used_again() {
        let mut table: Table<usize, String> = Table::default();
        let a = table.insert("a".to_owned());
        let b = table.insert("b".to_owned());
        assert_eq!((table.find("a"), table.find("b")), (Some(a), Some(b)));

        table.rename(a, |entry| entry.push('a'));
        assert_eq!((table.find("a"), table.find("aa")), (None, Some(a)));

        table.hide(b);
        assert_eq!((table.find("b"), &*table[b]), (None, "b"));
        let other = table.insert("b".to_owned());
        assert_eq!(table.remove(b), "b");
        assert_eq!(
            table.find("b"),
            Some(other),
            "the name belongs to another entry now"
        );

        table.remove(a);
        assert_eq!((table.find("aa"), table.get(a)), (None, None));
        assert_eq!(table.len(), 1);
        let next = table.next_id();
        assert_eq!(table.insert("c".to_owned()), next);
    }
}
