//! Entries by number, in pieces of bounded size: a table that grows never copies more than one piece.

use std::fmt;
use std::ops::{Index, IndexMut};
use std::vec::IntoIter;

/// Entries of the first piece, which grows by an eighth of itself: to find one there takes the fewest instructions.
const FIRST: usize = 8 * PIECE;
/// Entries of every other piece.
const PIECE: usize = 1024;
/// The end of the list of free numbers.
const NONE: u32 = u32::MAX;

/// Values by number, none of which is ever removed.
#[derive(Clone)]
pub(crate) struct Pieces<T> {
    /// The values with the lowest numbers.
    first: Vec<T>,
    /// All others, which stay where they are.
    more: Vec<Piece<T>>,
    /// The number after the highest one.
    end: u32,
}

/// The values of a piece. Their number is part of the type, so that a lookup does not have to compare with it.
type Piece<T> = Box<[T; PIECE]>;

impl<T> Default for Pieces<T> {
    fn default() -> Self {
        Self {
            first: Vec::new(),
            more: Vec::new(),
            end: 0,
        }
    }
}

impl<T> Pieces<T> {
    /// Returns the value with a number, if it was reached.
    #[inline]
    pub(crate) fn get(&self, number: usize) -> Option<&T> {
        if let Some(value) = self.first.get(number) {
            return Some(value);
        }
        // A number below `FIRST` that is not there becomes one beyond all pieces.
        let beyond = number.wrapping_sub(FIRST);
        Some(&self.more.get(beyond / PIECE)?[beyond % PIECE])
    }

    #[inline]
    fn get_mut(&mut self, number: usize) -> Option<&mut T> {
        if number < self.first.len() {
            return self.first.get_mut(number);
        }
        let beyond = number.wrapping_sub(FIRST);
        Some(&mut self.more.get_mut(beyond / PIECE)?[beyond % PIECE])
    }

    /// Adds a value with the next number. The rest of a new piece is filled with vacant ones.
    fn push(&mut self, value: T, vacant: impl FnMut() -> T) {
        let number = self.end as usize;
        self.end += 1;
        if number < FIRST {
            let len = self.first.len();
            if len == self.first.capacity() {
                // Doubling would cost the most memory of all.
                self.first.reserve_exact((len / 8 + 1).min(FIRST - len));
            }
            self.first.push(value);
            return;
        }
        if (number - FIRST).is_multiple_of(PIECE) {
            let mut piece = Vec::with_capacity(PIECE);
            piece.resize_with(PIECE, vacant);
            let Ok(piece) = piece.into_boxed_slice().try_into() else {
                unreachable!("it has as many values as a piece");
            };
            self.more.push(piece);
        }
        *self.get_mut(number).expect("the last piece has room") = value;
    }

    /// Returns the values that were reached, in the order of their numbers.
    fn iter(&self) -> impl Iterator<Item = &T> {
        let more = self.more.iter().flat_map(|piece| piece.iter());
        self.first.iter().chain(more).take(self.end as usize)
    }

    /// Adds vacant values until there is one with this number.
    pub(crate) fn reach(&mut self, number: usize, mut vacant: impl FnMut() -> T) {
        while self.end as usize <= number {
            self.push(vacant(), &mut vacant);
        }
    }
}

impl<T> Index<usize> for Pieces<T> {
    type Output = T;

    #[inline]
    fn index(&self, number: usize) -> &T {
        self.get(number).expect("the value is there")
    }
}

impl<T> IndexMut<usize> for Pieces<T> {
    #[inline]
    fn index_mut(&mut self, number: usize) -> &mut T {
        self.get_mut(number).expect("the value is there")
    }
}

impl<T: fmt::Debug> fmt::Debug for Pieces<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Entries by number. The number of one that is removed is the next to be used again. A piece that was emptied is kept.
#[derive(Clone)]
pub(crate) struct Slab<T> {
    entries: Pieces<Entry<T>>,
    /// The free number that is used next, or [`NONE`].
    free: u32,
    len: u32,
}

/// The entries of a slab by value, in the order of their numbers. A type of its own instead of adapters, since a shard moves
/// several of them for each event.
#[derive(Debug)]
pub(crate) struct IntoEntries<T> {
    /// What is left of the piece that was reached.
    piece: IntoIter<Entry<T>>,
    more: IntoIter<Piece<Entry<T>>>,
}

impl<T> Iterator for IntoEntries<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        loop {
            match self.piece.next() {
                Some(Entry::Used(value)) => return Some(value),
                Some(Entry::Free(_)) => {}
                None => {
                    let piece: Box<[_]> = self.more.next()?;
                    self.piece = piece.into_vec().into_iter();
                }
            }
        }
    }
}

/// The place of a number.
#[derive(Clone, Debug)]
pub(crate) enum Entry<T> {
    /// The next free number.
    Free(u32),
    Used(T),
}

impl<T> Entry<T> {
    fn used(&self) -> Option<&T> {
        match self {
            Self::Used(value) => Some(value),
            Self::Free(_) => None,
        }
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            entries: Pieces::default(),
            free: NONE,
            len: 0,
        }
    }
}

impl<T> Slab<T> {
    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns whether there is no entry.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns a number that is above those of all entries.
    pub(crate) fn end(&self) -> usize {
        self.entries.end as usize
    }

    /// Returns the number that the next entry gets.
    pub(crate) fn next_number(&self) -> usize {
        if self.free == NONE {
            self.end()
        } else {
            self.free as usize
        }
    }

    /// Returns an entry, if it is there.
    #[inline]
    pub(crate) fn get(&self, number: usize) -> Option<&T> {
        self.entries.get(number)?.used()
    }

    /// Returns an entry to be changed, if it is there.
    #[inline]
    pub(crate) fn get_mut(&mut self, number: usize) -> Option<&mut T> {
        match self.entries.get_mut(number)? {
            Entry::Used(value) => Some(value),
            Entry::Free(_) => None,
        }
    }

    /// Adds an entry, and returns its number.
    pub(crate) fn insert(&mut self, value: T) -> usize {
        self.len += 1;
        let number = self.next_number();
        if self.free == NONE {
            self.entries.push(Entry::Used(value), || Entry::Free(NONE));
            return number;
        }
        let entry = self.entries.get_mut(number).expect("a free number has a place");
        if let Entry::Free(next) = std::mem::replace(entry, Entry::Used(value)) {
            self.free = next;
        }
        number
    }

    /// Removes an entry, if it is there.
    pub(crate) fn try_remove(&mut self, number: usize) -> Option<T> {
        let free = self.free;
        let entry = self.entries.get_mut(number)?;
        match std::mem::replace(entry, Entry::Free(free)) {
            Entry::Used(value) => {
                self.free = u32::try_from(number).expect("no table holds 2^32 entries");
                self.len -= 1;
                Some(value)
            }
            freed @ Entry::Free(_) => {
                *entry = freed;
                None
            }
        }
    }

    /// Removes an entry that is there.
    pub(crate) fn remove(&mut self, number: usize) -> T {
        self.try_remove(number).expect("the entry is there")
    }

    /// Returns all entries by value, in the order of their numbers. The memory of a piece is given back when its last entry was
    /// taken.
    pub(crate) fn into_entries(self) -> IntoEntries<T> {
        IntoEntries {
            piece: self.entries.first.into_iter(),
            more: self.entries.more.into_iter(),
        }
    }

    /// Returns all entries with their numbers, in the order of these.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.entries
            .iter()
            .enumerate()
            .filter_map(|(number, entry)| Some((number, entry.used()?)))
    }
}

impl<T> Index<usize> for Slab<T> {
    type Output = T;

    #[inline]
    fn index(&self, number: usize) -> &T {
        self.get(number).expect("the entry is there")
    }
}

impl<T> IndexMut<usize> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, number: usize) -> &mut T {
        self.get_mut(number).expect("the entry is there")
    }
}

/// Shows the entries by number, and not which number is used next: `tests/explorer` tells states apart by this text, and has
/// several times as many if they differ in the order in which numbers became free.
impl<T: fmt::Debug> fmt::Debug for Slab<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{FIRST, PIECE, Slab};
    use std::collections::BTreeMap;

    #[test]
    fn entries_stay_where_they_are_while_a_table_grows() {
        let mut slab: Slab<usize> = (0..=FIRST).fold(Slab::default(), |mut slab, number| {
            assert_eq!((slab.next_number(), slab.end()), (number, number));
            assert_eq!(slab.insert(number), number);
            slab
        });
        let places = |slab: &Slab<usize>| [1, FIRST].map(|number| std::ptr::from_ref(&slab[number]));
        let before = places(&slab);
        for number in FIRST + 1..FIRST + 5 * PIECE {
            slab.insert(number);
        }
        assert_eq!(places(&slab), before);
        assert_eq!(slab.len(), FIRST + 5 * PIECE);
        assert!(slab.iter().all(|(number, entry)| number == *entry));
        assert_eq!(slab.get(FIRST + 5 * PIECE), None);
    }

    #[test]
    fn numbers_are_used_again_and_what_is_there_is_found() {
        let mut random = fastrand::Rng::with_seed(5);
        let (mut slab, mut model) = (Slab::default(), BTreeMap::new());
        for step in 0..60_000 {
            let number = random.usize(..FIRST + 3 * PIECE);
            if random.u8(..3) == 0 {
                assert_eq!(slab.try_remove(number), model.remove(&number));
                continue;
            }
            let next = slab.next_number();
            assert_eq!(model.insert(next, step), None, "a free number is not in use");
            assert_eq!(slab.insert(step), next);
            if let Some(entry) = slab.get_mut(number) {
                *entry += 1;
                *model.get_mut(&number).unwrap() += 1;
            }
        }
        assert_eq!(slab.len(), model.len());
        assert!(
            slab.iter()
                .eq(model.iter().map(|(number, entry)| (*number, entry)))
        );
        assert!(model.keys().next_back().is_some_and(|last| *last < slab.end()));
        for number in model.into_keys() {
            slab.remove(number);
        }
        assert!(slab.is_empty());
    }
}
