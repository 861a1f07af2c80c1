//! Rounds over all Services of a namespace, or all of its objects, in steps: there may be a hundred thousand, and other
//! namespaces must not wait for all of them. They are needed when outputs are forgotten, and when a list is complete.
//!
//! They are queued with the passes over pods, so nothing else is applied or planned before one has come to its end. The
//! driver of the namespace carries them out, since they reach every owner.

use super::Kind;
use super::lifecycle::{Objects, Published};
use std::fmt;

/// Number of pods, slices or other entries of a table that are looked at before the work is measured.
pub(super) const STRIDE: usize = 64;

/// The operation on each Service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Visit {
    /// Its slices are forgotten.
    ForgetSlices,
    /// If it publishes others than the pods that it selects, these are forgotten.
    ForgetFollowed,
    /// It is evaluated anew, since none of its endpoints is placed any more.
    Reevaluate,
    /// Its Endpoints object gets a new entry, in place of the one that was forgotten.
    RenewEndpoints,
}

/// A round that has not come to its end.
#[derive(Clone, Debug)]
pub(super) enum Round {
    /// Visits all Services, from this number on.
    Services(Visit, usize),
    /// Drops objects that were forgotten, from this number on.
    Drop(Box<dyn Forgotten>, usize),
    /// Handles the objects that a list did not show, from this number on.
    Sweep(Sweep, usize),
}

impl Round {
    /// Drops objects of a kind.
    pub(super) fn drop<T: Published>(objects: Objects<T>) -> Self {
        Self::Drop(Box::new(objects), 0)
    }
}

/// A list that is complete: what it did not show is gone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sweep {
    pub(super) kind: Kind,
    pub(super) epoch: u8,
    pub(super) version: u64,
}

/// The objects of a kind that were forgotten, and are yet to be dropped.
pub(super) trait Forgotten: fmt::Debug + Send {
    /// Drops those of `count` numbers, from one on. Returns whether more are left.
    fn drop_some(&mut self, from: usize, count: usize) -> bool;
    /// Returns a copy.
    fn copy(&self) -> Box<dyn Forgotten>;
}

impl<T: Published> Forgotten for Objects<T> {
    fn drop_some(&mut self, from: usize, count: usize) -> bool {
        self.shed(from, count)
    }

    fn copy(&self) -> Box<dyn Forgotten> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn Forgotten> {
    fn clone(&self) -> Self {
        (**self).copy()
    }
}
