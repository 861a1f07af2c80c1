//! The first rule: a write needs a place, or one of the 20 writes a second that kube-controller-manager allows itself.
//!
//! An API server answers a write before it has sent the event to its watchers. Our own watch shows the event too: the echo of the
//! write. The time from the answer to the echo tells how far the server is behind with events, and a watcher has room for a few
//! of them only, or the server ends its watch. So a write holds a place from its grant to its echo. Late echoes halve the
//! places, quick ones bring them back.
//!
//! ```text
//!   grant ──► answered at a version ──► our watch has shown that version, or a later one
//!        ├──► deleted ──► our watch has shown that, or a second has passed
//!        ├──► nothing was written
//!        └──► not answered for a second, or later than others
//! ```
//!
//! Events come in the order of their versions, so one event or bookmark proves that all writes up to its version were shown.
//!
//! Where echoes tell nothing, because our own watch is late, closed or broken, places do not come back, and writes go at
//! kube-controller-manager's rate. No reason has to be found.

use super::resource::Resource;
use super::tuning::{LATE, TUNING};
use crate::core::bucket::TokenBucket;
use crate::core::hash::{Hashed, HashedMap};
use crate::core::object::{ObjectKey, Output};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The effect of a request on the object that others watch, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteEffect {
    /// The object has this version now.
    Written(u64),
    /// The object was deleted, or its deletion begun, at this version if the server said one.
    Deleted(Option<u64>),
    /// It is not known whether anything was written.
    Unknown,
    /// The object was not written.
    Nothing,
}

/// How the echoes of writes come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EchoPace {
    /// The last one was quick, and all places have come back since one was late.
    Quick,
    /// All places have come back since one was late.
    Usual,
    /// One was late, or none comes.
    Late,
}

/// The places of both resources. Owned by the publisher, which passes in the time.
#[derive(Clone, Debug)]
pub(super) struct Echoes {
    /// By resource.
    places: [Places; 2],
    /// By output: our own watches.
    streams: [Stream; 3],
    /// The writes that hold a place, by the order of their grants.
    held: BTreeMap<u64, Held>,
    /// When they give it back at the latest.
    ends: BTreeSet<(Duration, u64)>,
    /// The writes that are granted and not answered.
    out: HashedMap<ObjectKey, Out>,
    /// Deletions that were answered without a version and are not shown.
    deleted: HashedMap<ObjectKey, u64>,
    number: u64,
    /// This process did nothing before this time, so echoes that were due earlier are not late.
    stalled: Duration,
    /// The echoes since they were last taken, with the times that they took.
    heard: Vec<(Output, Duration)>,
    /// The last echo was quick.
    quick: bool,
}

#[derive(Clone, Debug)]
struct Places {
    size: f64,
    most: f64,
    held: usize,
    /// When places were last taken away. Writes that were answered before were sent while there were more.
    shrunk: Duration,
    bucket: TokenBucket,
}

/// Our own watch of one output.
#[derive(Clone, Default, Debug)]
struct Stream {
    open: bool,
    /// True once it was open: a watch that never was belongs to an output that is not written.
    served: bool,
    shown: u64,
    /// The writes that it has to show, by version.
    unshown: BTreeSet<(u64, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    output: Output,
    ends: Duration,
    /// When it was answered, and with which version.
    answered: Option<(Duration, u64)>,
}

impl Held {
    fn without_echo(output: Output, now: Duration) -> Self {
        Self {
            output,
            ends: now + TUNING.place_kept,
            answered: None,
        }
    }
}

/// A write that is granted and not answered.
#[derive(Clone, Copy, Debug)]
struct Out {
    number: u64,
    /// True if its deletion was shown before the answer.
    gone: bool,
}

impl Echoes {
    /// Creates places for so many writes without an echo.
    pub(super) fn new(most: u16) -> Self {
        let places = Places {
            size: f64::from(most),
            most: f64::from(most),
            held: 0,
            shrunk: Duration::ZERO,
            // With a larger burst, more writes than there are places could be out at once.
            bucket: TokenBucket::new(TUNING.upstream_rate, u32::from(most)),
        };
        Self {
            places: [places.clone(), places],
            streams: Default::default(),
            held: BTreeMap::new(),
            ends: BTreeSet::new(),
            out: HashedMap::default(),
            deleted: HashedMap::default(),
            number: 0,
            stalled: Duration::ZERO,
            heard: Vec::new(),
            quick: true,
        }
    }

    /// Returns the number of places of a resource, none while our own watches tell nothing, and how many are held.
    pub(super) fn places(&self, resource: Resource) -> (usize, usize) {
        let places = &self.places[resource as usize];
        let size = if self.is_blind(resource) {
            0
        } else {
            places.size as usize
        };
        (size, places.held)
    }

    /// Returns whether our own watches of a resource show less than all of its events.
    fn is_blind(&self, resource: Resource) -> bool {
        let outputs = Output::ALL.into_iter();
        let streams = outputs.filter(|output| Resource::from(*output) == resource);
        let mut served = streams
            .map(|output| &self.streams[output as usize])
            .filter(|it| it.served)
            .peekable();
        served.peek().is_none() || !served.all(|stream| stream.open)
    }

    /// Returns how echoes of slices come.
    pub(super) fn pace(&self) -> EchoPace {
        let places = &self.places[Resource::Slices as usize];
        if self.is_blind(Resource::Slices) || places.size < places.most {
            EchoPace::Late
        } else if self.quick {
            EchoPace::Quick
        } else {
            EchoPace::Usual
        }
    }

    /// Returns whether a write may go as far as this rule goes, or when it may if nothing is shown before.
    pub(super) fn allow(
        &mut self,
        resource: Resource,
        watchers_known: bool,
        now: Duration,
    ) -> Result<(), Duration> {
        let (size, held) = self.places(resource);
        if watchers_known && held < size {
            return Ok(());
        }
        self.places[resource as usize]
            .bucket
            .look(now)
            .map_err(|wait| now + wait)
    }

    /// Takes one of the 20 writes a second. A write that has a place goes though there is none.
    pub(super) fn pay(&mut self, resource: Resource, now: Duration) {
        let _ = self.places[resource as usize].bucket.take(now);
    }

    /// Records that a write was granted.
    pub(super) fn granted(&mut self, key: &Hashed<ObjectKey>, now: Duration) {
        if self.out.is_empty() && self.held.is_empty() {
            // So that states in which nothing is out are the same for a search through all of them.
            self.number = 0;
            self.deleted.clear();
        }
        self.number += 1;
        let out = Out {
            number: self.number,
            gone: false,
        };
        self.out.insert(key.clone(), out);
        self.hold(self.number, Held::without_echo(key.object.output, now));
    }

    /// Records that the write of an object hangs, as others do not. It gives its place back until it is answered.
    pub(super) fn hangs(&mut self, key: &Hashed<ObjectKey>) {
        if let Some(number) = self.out.get(key).map(|out| out.number) {
            self.free(number);
        }
    }

    /// Records the effect of a request.
    pub(super) fn answered(&mut self, key: &Hashed<ObjectKey>, effect: WriteEffect, now: Duration) {
        let Some(Out { number, gone }) = self.out.remove(key) else {
            return;
        };
        self.free(number);
        let output = key.object.output;
        let stream = &mut self.streams[output as usize];
        if gone || !stream.open {
            return;
        }
        let without_echo = Held::without_echo(output, now);
        let held = match effect {
            WriteEffect::Written(version) | WriteEffect::Deleted(Some(version)) => {
                if version <= stream.shown {
                    return;
                }
                stream.unshown.insert((version, number));
                Held {
                    ends: now + TUNING.echo_lost,
                    answered: Some((now, version)),
                    ..without_echo
                }
            }
            WriteEffect::Deleted(None) | WriteEffect::Unknown => without_echo,
            WriteEffect::Nothing => return,
        };
        self.hold(number, held);
        if effect == WriteEffect::Deleted(None) {
            self.deleted.retain(|_, number| self.held.contains_key(number));
            self.deleted.insert(key.clone(), number);
        }
    }

    fn hold(&mut self, number: u64, held: Held) {
        self.places[Resource::from(held.output) as usize].held += 1;
        self.ends.insert((held.ends, number));
        self.held.insert(number, held);
    }

    /// Frees a place.
    fn free(&mut self, number: u64) -> Option<Held> {
        let held = self.held.remove(&number)?;
        self.ends.remove(&(held.ends, number));
        if let Some((_, version)) = held.answered {
            self.streams[held.output as usize]
                .unshown
                .remove(&(version, number));
        }
        self.places[Resource::from(held.output) as usize].held -= 1;
        Some(held)
    }

    /// Records that our own watch of an output was opened and shows what comes after this version, or that it has ended.
    pub(super) fn opened(&mut self, output: Output, from: Option<u64>) {
        let stream = &mut self.streams[output as usize];
        stream.open = from.is_some();
        stream.served |= stream.open;
        stream.shown = from.unwrap_or(stream.shown);
        // What it shows first may have waited for it, and tells nothing of the server.
        for (_, number) in std::mem::take(&mut stream.unshown) {
            self.free(number);
        }
    }

    /// Records that our own watch of an output has shown everything up to a version, in bytes that arrived then.
    pub(super) fn shown(&mut self, output: Output, version: u64, at: Duration) {
        let stream = &mut self.streams[output as usize];
        stream.shown = stream.shown.max(version);
        while let Some(&(of, number)) = self.streams[output as usize].unshown.first()
            && of <= version
        {
            if let Some(Held {
                answered: Some((answered, _)),
                ..
            }) = self.free(number)
            {
                self.echoed(output, answered, at);
            }
        }
    }

    /// Records that our own watch has shown the deletion of an object.
    pub(super) fn deleted(&mut self, key: &Hashed<ObjectKey>) {
        if let Some(out) = self.out.get_mut(key) {
            out.gone = true;
        }
        if let Some(number) = self.deleted.remove(key) {
            self.free(number);
        }
    }

    /// Records that this process did nothing until this time, though it had to.
    pub(super) fn stalled(&mut self, to: Duration) {
        self.stalled = to;
    }

    /// Lets the time pass.
    pub(super) fn pass(&mut self, now: Duration) {
        while let Some(&(ends, number)) = self.ends.first()
            && ends <= now
        {
            // An echo that never comes is as late as it was awaited.
            if let Some(held) = self.free(number)
                && let Some((answered, _)) = held.answered
            {
                self.heard.push((held.output, ends.saturating_sub(answered)));
            }
        }
        for output in Output::ALL {
            if let Some(answered) = self.oldest(output)
                && now.saturating_sub(answered.max(self.stalled)) > LATE
            {
                self.shrink(output, answered, now);
            }
        }
    }

    /// Returns when the write of an output was answered that has waited longest for its echo.
    fn oldest(&self, output: Output) -> Option<Duration> {
        let (_, number) = self.streams[output as usize].unshown.first()?;
        self.held.get(number)?.answered.map(|(answered, _)| answered)
    }

    /// Returns when to let the time pass at the latest: a place becomes free, or an echo late.
    pub(super) fn next(&self, now: Duration) -> Option<Duration> {
        let oldest = Output::ALL.into_iter().filter_map(|output| self.oldest(output));
        let late = oldest.map(|answered| answered.max(self.stalled) + LATE + Duration::from_nanos(1));
        let ends = self.ends.first().map(|(ends, _)| *ends);
        late.filter(|late| *late > now).chain(ends).min()
    }

    /// Takes the echoes since the last call, with the times that they took.
    pub(super) fn take_heard(&mut self) -> std::vec::Drain<'_, (Output, Duration)> {
        self.heard.drain(..)
    }

    /// Forgets all writes, since this process writes no more.
    pub(super) fn clear(&mut self) {
        self.out.clear();
        self.deleted.clear();
        self.held.clear();
        self.ends.clear();
        for stream in &mut self.streams {
            stream.unshown.clear();
        }
        for places in &mut self.places {
            places.held = 0;
        }
    }

    fn echoed(&mut self, output: Output, answered: Duration, at: Duration) {
        let took = at.saturating_sub(answered);
        self.heard.push((output, took));
        let late = at.saturating_sub(answered.max(self.stalled));
        self.quick = late <= TUNING.quick;
        if late > LATE {
            self.shrink(output, answered, at);
        } else if self.quick {
            let places = &mut self.places[Resource::from(output) as usize];
            places.size = (places.size + 1.0 / places.size).min(places.most);
        }
    }

    fn shrink(&mut self, output: Output, answered: Duration, now: Duration) {
        let places = &mut self.places[Resource::from(output) as usize];
        if answered >= places.shrunk && places.size > TUNING.places_least {
            places.size = (places.size / 2.0).max(TUNING.places_least);
            places.shrunk = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::object::ObjectName;

    const fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn key(number: u64) -> Hashed<ObjectKey> {
        ObjectKey::hashed("ns", ObjectName::slice(format!("s{number}").as_str().into()))
    }

    fn watched() -> Echoes {
        let mut echoes = Echoes::new(8);
        echoes.opened(Output::Slice, Some(0));
        echoes
    }

    /// Grants and answers writes from this version on until one is not allowed.
    fn fill(echoes: &mut Echoes, from: u64, now: Duration) -> u64 {
        let mut version = from;
        while echoes.allow(Resource::Slices, true, now).is_ok() {
            echoes.pay(Resource::Slices, now);
            echoes.granted(&key(version), now);
            echoes.answered(&key(version), WriteEffect::Written(version), now);
            version += 1;
        }
        version - from
    }

    #[test]
    fn eight_writes_are_without_an_echo_and_one_echo_frees_all_before_it() {
        let mut echoes = watched();
        assert_eq!(fill(&mut echoes, 1, at(0)), 8);
        assert_eq!(echoes.places(Resource::Slices), (8, 8));
        echoes.shown(Output::Slice, 5, at(10));
        assert_eq!(echoes.places(Resource::Slices), (8, 3));
        assert_eq!(echoes.take_heard().count(), 5);
    }

    #[test]
    fn without_echoes_twenty_writes_a_second_go() {
        for opened in [true, false] {
            let mut echoes = if opened { watched() } else { Echoes::new(8) };
            let mut written = 0;
            for tick in 0..1_000 {
                let now = at(10 * tick);
                echoes.pass(now);
                written += fill(&mut echoes, written + 1, now);
            }
            assert!((200..=225).contains(&written), "{written} in ten seconds");
        }
    }

    #[test]
    fn late_echoes_halve_the_places_and_quick_ones_bring_them_back() {
        let mut echoes = watched();
        let mut version = 1;
        for round in 0..4 {
            let now = at(1_000 * round);
            version += fill(&mut echoes, version, now);
            echoes.shown(Output::Slice, version - 1, now + at(300));
            echoes.take_heard();
        }
        assert_eq!(echoes.places(Resource::Slices), (2, 0));
        assert_eq!(echoes.pace(), EchoPace::Late);
        for tick in 0..60 {
            let now = at(5_000 + 100 * tick);
            echoes.granted(&key(version), now);
            echoes.answered(&key(version), WriteEffect::Written(version), now);
            echoes.shown(Output::Slice, version, now + at(5));
            version += 1;
        }
        assert_eq!(echoes.places(Resource::Slices), (8, 0));
        assert_eq!(echoes.pace(), EchoPace::Quick);
    }

    #[test]
    fn an_echo_that_is_awaited_for_long_is_late_but_not_for_our_own_pauses() {
        for (stalled, places) in [(false, 4), (true, 8)] {
            let mut echoes = watched();
            echoes.granted(&key(1), at(0));
            echoes.answered(&key(1), WriteEffect::Written(1), at(1));
            if stalled {
                echoes.stalled(at(400));
            }
            echoes.pass(at(500));
            assert_eq!(echoes.places(Resource::Slices), (places, 1));
        }
    }

    #[test]
    fn no_place_is_lost_whatever_the_answer() {
        let mut echoes = watched();
        echoes.shown(Output::Slice, 7, at(0));
        for (number, effect) in [
            WriteEffect::Written(3),
            WriteEffect::Written(9),
            WriteEffect::Deleted(None),
            WriteEffect::Deleted(Some(11)),
            WriteEffect::Unknown,
            WriteEffect::Nothing,
        ]
        .into_iter()
        .enumerate()
        {
            let key = key(number as u64);
            echoes.granted(&key, at(0));
            echoes.answered(&key, effect, at(1));
        }
        echoes.granted(&key(99), at(0));
        assert_eq!(
            echoes.places(Resource::Slices).1,
            5,
            "9, 11, a delete, one unknown and one out"
        );
        echoes.deleted(&key(2));
        assert_eq!(echoes.places(Resource::Slices).1, 4);
        echoes.pass(at(1_001));
        assert_eq!(echoes.places(Resource::Slices).1, 2, "9 and 11");
        echoes.pass(at(10_001));
        assert_eq!(echoes.places(Resource::Slices).1, 0, "their echoes are lost");
        echoes.answered(&key(99), WriteEffect::Written(20), at(10_002));
        assert_eq!(echoes.places(Resource::Slices).1, 1, "its event comes after all");
        echoes.opened(Output::Slice, None);
        assert_eq!(echoes.places(Resource::Slices), (0, 0));
    }
}
