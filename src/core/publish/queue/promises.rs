//! The parts of the writes that no namespace and no class can lose.
//!
//! Urgency alone would let slices hold up all Endpoints, a namespace that removes without end hold up what others add,
//! and a backlog of old removals hold up every addition. So each [`Promise`] is for some of the objects. While any of
//! these wait, it gains its part of every write, and it is due once it has gained a whole one. All parts together are
//! less than a write, and of the promises that are due the one that has gained the most is kept first, so none is ever
//! late by more than a few writes. All other writes go by urgency.
//!
//! A write that goes by urgency may keep a promise as well, but makes no debt. A promise gains nothing while none of
//! its objects wait, so no more is due after such a time than before.

use super::classes::{CLASSES, Classes, ENDPOINTS_REST};

/// A whole write.
const WHOLE: u16 = 64;
/// The part of namespaces, by their turns: a half.
const OF_TURNS: u16 = WHOLE / 2;
/// The parts of Endpoints, which are half of all objects: a quarter, or a sixteenth if neither an addition nor a removal is among
/// them.
const OF_ENDPOINTS: u16 = WHOLE / 4;
const OF_ENDPOINTS_REST: u16 = WHOLE / 16;
/// The part of each class.
const OF_CLASS: [u16; CLASSES] = [
    WHOLE / 16,
    WHOLE / 32,
    WHOLE / 16,
    WHOLE / 32,
    WHOLE / 64,
    WHOLE / 64,
];

/// The factor by which Endpoints take longer while slices wait as well.
pub(super) const ENDPOINTS_BESIDE_SLICES: u16 = WHOLE / OF_ENDPOINTS;

/// The purpose of a part of the writes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Promise {
    /// The namespace whose turn it is.
    Turn,
    /// Endpoints of any class.
    Endpoints,
    /// One class.
    Class(usize),
}

/// A write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    /// The class.
    pub class: usize,
    /// True if the class's next namespace goes. Others keep no promise to the class: the namespaces that wait for their
    /// turns there would not have them.
    pub in_order: bool,
    /// True if the namespace that goes is the one whose turn it is among all.
    pub in_turn: bool,
}

/// The objects that may go, by class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    /// The classes that may go, whether or not they have any.
    pub allowed: Classes,
    /// The classes that have any.
    pub classes: Classes,
    /// The classes whose oldest object has waited long enough that new removals do not go before it.
    pub aged: Classes,
}

impl Waiting {
    /// Returns the part of a write that a promise gains with each write.
    fn part(self, promise: Promise) -> u16 {
        let endpoints = self.classes.and(Classes::ENDPOINTS);
        match promise {
            Promise::Turn => OF_TURNS,
            Promise::Endpoints if endpoints == Classes::NONE => 0,
            Promise::Endpoints if endpoints == Classes::NONE.with(ENDPOINTS_REST) => OF_ENDPOINTS_REST,
            Promise::Endpoints => OF_ENDPOINTS,
            Promise::Class(class) if self.aged.has(class) => OF_CLASS[class],
            Promise::Class(_) => 0,
        }
    }
}

/// The gains of the promises, in parts of [`WHOLE`].
#[derive(Clone, Debug)]
pub(super) struct Promises {
    /// By the classes that may go. If it were one number, and the limits let additions go at every other write, all of
    /// the turns could fall on the writes between.
    turns: [u16; Classes::SETS],
    endpoints: u16,
    classes: [u16; CLASSES],
}

impl Default for Promises {
    fn default() -> Self {
        Self {
            turns: [0; Classes::SETS],
            endpoints: 0,
            classes: [0; CLASSES],
        }
    }
}

impl Promises {
    fn all() -> impl Iterator<Item = Promise> {
        let classes = (0..CLASSES).map(Promise::Class);
        [Promise::Turn, Promise::Endpoints].into_iter().chain(classes)
    }

    fn gained(&mut self, promise: Promise, allowed: Classes) -> &mut u16 {
        match promise {
            Promise::Turn => &mut self.turns[allowed.number()],
            Promise::Endpoints => &mut self.endpoints,
            Promise::Class(class) => &mut self.classes[class],
        }
    }

    /// Adds to each promise its part of the next write, while these objects wait. Returns the promise that the write has to keep,
    /// if any.
    pub(super) fn gain(&mut self, waiting: Waiting) -> Option<Promise> {
        let mut due = None;
        for promise in Self::all() {
            let part = waiting.part(promise);
            let gained = self.gained(promise, waiting.allowed);
            *gained += part;
            if part > 0 && *gained >= WHOLE {
                due = due.max(Some((*gained, promise)));
            }
        }
        due.map(|(_, promise)| promise)
    }

    /// Records a write, while these classes may go.
    pub(super) fn keep(&mut self, write: Write, allowed: Classes) {
        let kept = [
            (write.in_turn, Promise::Turn),
            (
                write.in_order && Classes::ENDPOINTS.has(write.class),
                Promise::Endpoints,
            ),
            (write.in_order, Promise::Class(write.class)),
        ];
        for (_, promise) in kept.into_iter().filter(|(kept, _)| *kept) {
            let gained = self.gained(promise, allowed);
            *gained = gained.saturating_sub(WHOLE);
        }
    }
}
