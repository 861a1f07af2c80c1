//! The part of an object's state that is empty for most objects that are as they should be.

use super::{ForeignChanges, ObjectState};
use crate::core::facts::Extras;
use crate::core::time::{Time, earliest};
use std::num::NonZeroU64;

/// The part of an object's state that few objects have, or that they have while something is to be written.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Rare {
    /// Metadata that others added to the object, if any.
    pub(super) extras: Option<Box<Extras>>,
    /// The highest resourceVersion as of which the object is known to be gone, or another controller's.
    pub(super) gone: u64,
    /// The earliest trigger time of the changes not yet written.
    pub(super) trigger: Option<Time>,
    /// The trigger time carried by the write in flight.
    pub(super) flight_trigger: Option<Time>,
    /// The number of changes to the desired content since the last write was built.
    pub(super) changes: u32,
    /// True if the write in flight carries such a change.
    pub(super) carried: bool,
    /// The fingerprint of the content of the write in flight, for kinds that use one to recognise that content.
    pub(super) sent: Option<NonZeroU64>,
    /// True if the server has rejected the object for its size since it last accepted a write.
    pub(super) oversized: bool,
    /// How often other clients have changed it.
    pub(super) foreign: ForeignChanges,
}

impl ObjectState {
    pub(super) fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// Gives back the memory of the rare part, if there is nothing in it any more.
    pub(super) fn tidy(&mut self) {
        self.rare.take_if(|rare| **rare == Rare::default());
    }

    /// Returns the metadata that others added to the object, if any.
    pub fn extras(&self) -> Option<&Extras> {
        self.rare.as_ref()?.extras.as_deref()
    }

    /// Sets the metadata that others added to the object.
    pub fn set_extras(&mut self, extras: Option<Extras>) {
        if extras.is_some() || self.rare.is_some() {
            self.rare().extras = extras.map(Box::new);
            self.tidy();
        }
    }

    /// Returns the earliest trigger time of the changes not yet written.
    pub fn trigger(&self) -> Option<Time> {
        self.rare.as_ref()?.trigger
    }

    /// Notes the trigger time of changes. `replaces` says that they are to be written with this time, or none, although
    /// earlier ones are not yet written.
    pub fn note_trigger(&mut self, time: Option<Time>, replaces: bool) {
        let before = self.trigger().filter(|_| !replaces);
        let trigger = earliest(before, time);
        if trigger.is_some() || self.rare.is_some() {
            self.rare().trigger = trigger;
        }
    }

    /// Notes the fingerprint of what is about to be sent.
    pub fn note_sent(&mut self, fingerprint: NonZeroU64) {
        self.rare().sent = Some(fingerprint);
    }

    /// Returns the fingerprint of what was sent last, and forgets it.
    pub fn take_sent(&mut self) -> Option<NonZeroU64> {
        let sent = self.rare.as_mut()?.sent.take();
        self.tidy();
        sent
    }

    /// Forgets the trigger times of changes, whether they are to be written or in flight.
    pub fn forget_triggers(&mut self) {
        if let Some(rare) = &mut self.rare {
            (rare.trigger, rare.flight_trigger) = (None, None);
            self.tidy();
        }
    }

    /// Records that the server has the desired content, so that there is nothing to be written.
    pub fn found_in_sync(&mut self) {
        if let Some(rare) = &mut self.rare {
            (rare.trigger, rare.changes) = (None, 0);
            self.tidy();
        }
    }

    /// Returns the number of changes to the desired content since the last write was built.
    pub fn changes(&self) -> u32 {
        self.rare.as_ref().map_or(0, |rare| rare.changes)
    }

    /// Returns how often other clients have changed the object.
    pub fn foreign_changes(&self) -> ForeignChanges {
        self.rare
            .as_ref()
            .map_or_else(ForeignChanges::default, |rare| rare.foreign)
    }

    /// Sets how often other clients have changed the object.
    pub fn set_foreign_changes(&mut self, changes: ForeignChanges) {
        if self.foreign_changes() != changes {
            self.rare().foreign = changes;
            self.tidy();
        }
    }

    /// Notes that the object was gone, or another controller's, as of a resourceVersion.
    pub fn note_gone(&mut self, version: u64) {
        let rare = self.rare();
        rare.gone = rare.gone.max(version);
    }

    /// Notes that the server has rejected the object for its size. Returns whether it has done so since it last accepted a
    /// write.
    pub fn note_oversized(&mut self) -> bool {
        std::mem::replace(&mut self.rare().oversized, true)
    }
}
