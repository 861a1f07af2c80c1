//! Limits the writes whose events have not come back on our own watch: their echoes.
//!
//! An API server answers a write before it has sent the event to its watchers. The time from an answer to its echo
//! shows how far the server is behind with events. Each watcher has room for some events, and the server ends the watch of
//! a client whose room is full. So a write holds a place from its grant to its echo, there are no more places than the
//! smallest room of a watcher has, and there are fewer while echoes are late.
//!
//! ```text
//!   grant ──► in flight ──► answered at a version ──► the watch has shown that version, or a later one
//!                  │
//!                  ├──► deleted ──► the watch has shown it, or the version at which it is gone, or a write that was
//!                  │                sent after the answer, or a bound
//!                  ├──► unknown ──► the watch has shown a write that was sent after that, or a bound
//!                  └──► nothing was written
//! ```
//!
//! The events of a watch come in the order of their versions, so one event or bookmark proves that all writes up to its
//! version were shown, whichever client made them. That also covers an event that comes before the answer, and a write
//! that changed nothing, which makes no event and is answered with a version that was shown before. Neither tells how
//! late the server is: the first only that it is not behind, the second nothing at all.
//!
//! Deletes are answered without a version before Kubernetes 1.38. From then on the version proves that the deletion was
//! shown, but not how late: it may be that of a later look, at which nothing was written that a watch would show. A
//! request that is not answered in time gives its place up, and while they are awaited, neither it nor a write without a version
//! tells how late the server is: the failures of some objects are no sign of its load.
//!
//! Ordinary and mirrored slices are watched by two requests, which may be served by two API servers. So each watch counts for
//! itself: its events free the places of its own output, and measure nothing else. Only if the other watch has shown
//! nothing for long do they free the places of the other output as well, since they prove that the events are there. That
//! does not measure how late they are.
//!
//! Our own watch may be late by itself, on a server that keeps up with all others: see [`lateness`]. If it is not open,
//! or shows nothing at all for long while echoes are awaited, echoes tell nothing: no write needs a place until it
//! shows something again, and [`super::budget`] alone limits what is sent. Before that, it is not known whether our own
//! watch is broken or the server stands still, so a few writes go beyond the places, as many as any watcher has room for.

mod awaiting_answer;
mod lateness;
mod places;
mod stalls;
mod stream;

use self::awaiting_answer::{AwaitingAnswer, Unanswered};
use self::lateness::UPSTREAM_WORKERS;
use self::places::Places;
use self::stalls::Stalls;
use self::stream::{GrantedWrite, Place, Stream, Unversioned};
use super::Load;
use super::promptness::Promptness;
use crate::core::hash::{Hashed, HashedMap};
use crate::core::namespace::Outcome;
use crate::core::object::{ObjectKey, Output};
use crate::core::priority::Priority;
use std::collections::BTreeMap;
use std::time::Duration;

/// An echo that takes longer than this is late: half of the places are taken away.
pub const LATE: Duration = Duration::from_millis(250);
/// Only an echo that is quicker than this adds to the places.
pub(super) const QUICK: Duration = Duration::from_millis(100);
/// How long a place is kept for a delete whose event does not come.
const BOUND: Duration = Duration::from_secs(2);
/// How long a place is kept for a write that may or may not have been carried out. Most were not, and the failures of
/// some objects must not hold up all others.
const BOUND_OF_UNKNOWN: Duration = LATE;
/// How long a request without an answer keeps its place. It takes one again when it is answered. The window of requests
/// in flight may be several times as large, so a namespace whose webhook hangs holds up others for several times as long.
/// With all places, a server that answers slowly gets 32 removals a second at least, and 16 additions, since half of the places
/// are kept for removals. On a busy one answers are late because it is busy: with 50 or 100 ms, watches were ended in a
/// simulation with 50 to 300 watchers, also where that was allowed only while answers did not get later with more requests, or
/// where more went beyond the places while echoes were quick.
const BOUND_OF_FLIGHT: Duration = LATE;
/// Our own watches of a resource may have a fault of their own if they show nothing for this long while an echo is awaited. The
/// time is longer where such gaps are usual: see [`Stream::quiet_after`].
const QUIET: Duration = Duration::from_secs(2);
/// A watch that shows nothing for this long, while echoes are awaited for as long, tells nothing.
const SILENT: Duration = Duration::from_secs(15);
/// How long a place is kept for a write whose event does not come, though others do. It may come yet: events come in order.
const LOST: Duration = Duration::from_secs(60);
/// The number of writes without an answer or an echo at which none goes beyond the places while a watch is quiet. If the server
/// stands still, the events of all of them come at once when it goes on, and a watcher has room for 20.
const MOST_WHILE_QUIET: usize = 16;
/// Number of deletions seen before their answer that are remembered.
const GONE_KEPT: usize = 1024;

/// The effect of a request on the objects that others watch, as far as it is known.
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

impl WriteEffect {
    /// Returns the effect of a request with this outcome. An answer that is an error wrote nothing, however little it says
    /// of the object; and a request that was not sent, or whose answer does not matter any more, counts as none.
    pub fn of(outcome: &Outcome, load: Load) -> Self {
        match outcome {
            _ if load == Load::Unknown => Self::Nothing,
            Outcome::Written(remote) => Self::Written(remote.version),
            Outcome::Deleted(version) => Self::Deleted(*version),
            // An answer that says it was carried out, and cannot be read, is as good as none.
            Outcome::Unknown if matches!(load, Load::Unanswered | Load::Answered) => Self::Unknown,
            Outcome::Unknown
            | Outcome::Fetched { .. }
            | Outcome::NotFound
            | Outcome::Conflict
            | Outcome::Exists
            | Outcome::Foreign { .. }
            | Outcome::Terminating
            | Outcome::Rejected
            | Outcome::TooLarge { .. }
            | Outcome::Throttled => Self::Nothing,
        }
    }
}

/// A resource, whose events the API server hands to watchers one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resource {
    /// discovery.k8s.io/v1 `EndpointSlice`, mirrored ones included.
    Slices,
    /// v1 Endpoints.
    Endpoints,
}

impl Resource {
    /// Both resources.
    pub const ALL: [Self; 2] = [Self::Slices, Self::Endpoints];

    /// Returns the name of the resource in metrics, as it stands in paths.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Slices => "endpointslices",
            Self::Endpoints => "endpoints",
        }
    }
}

impl From<Output> for Resource {
    fn from(output: Output) -> Self {
        match output {
            Output::Slice | Output::Mirrored => Self::Slices,
            Output::Endpoints => Self::Endpoints,
        }
    }
}

/// The places of all resources. Owned by the publisher, which passes in the time.
#[derive(Clone, Default, Debug)]
pub(super) struct Echoes {
    places: [Places; 2],
    /// By output.
    streams: [Stream; 3],
    /// The writes that are granted and not answered.
    granted: HashedMap<ObjectKey, GrantedWrite>,
    /// The number of these writes, by resource.
    awaiting_answer: [AwaitingAnswer; 2],
    /// The writes in flight that hold a place, in the order of their grants, with the times of the grants.
    holding: BTreeMap<u64, (Duration, Hashed<ObjectKey>)>,
    /// The number of these, by resource.
    unanswered: [Unanswered; 2],
    /// Counts grants and answers.
    order: u64,
    /// The times in which this process did nothing, though it had to.
    stalls: Stalls,
    /// The echoes since they were last taken, with the times that they took. For those that were given up as late, it is the time
    /// for which they were awaited.
    heard: Vec<(Output, Duration)>,
}

/// The rate at which writes may go although no place is free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Beyond {
    /// The rate of kube-controller-manager: our own watch is late by itself.
    Late,
    /// A write now and then: our own watch is quiet, and nothing else shows that the server hands events on.
    Quiet,
}

/// How the place of a write became free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Freed {
    /// Its echo came after its answer, which tells how late the server is.
    Echoed,
    /// Its echo came before its answer, which tells only that the server is not behind.
    Early,
    /// No echo of it came, or none that tells anything.
    Otherwise,
}

impl Echoes {
    /// Sets the largest number of places; `None` if there are no other watchers.
    pub(super) fn set_most_places(&mut self, most: Option<u16>) {
        for places in &mut self.places {
            places.set_most_places(most);
        }
    }

    /// Returns whether a removal may be granted, and whether anything else may.
    pub(super) fn allow(&self, resource: Resource) -> (bool, bool) {
        let places = &self.places[resource as usize];
        let free = places.held < places.limit();
        (free, free && places.others < places.limit_of_others())
    }

    /// Returns the number of places, and how many are held.
    pub(super) fn places(&self, resource: Resource) -> (usize, usize) {
        let places = &self.places[resource as usize];
        (places.limit(), places.held)
    }

    /// Returns the number of places, and how many are held by writes without an answer, by how promptly those of their namespaces
    /// were answered before: all of them, and those for writes that remove no endpoint.
    pub(super) fn unanswered(&self, resource: Resource) -> [(usize, [usize; Promptness::ALL.len()]); 2] {
        let (places, unanswered) = (
            &self.places[resource as usize],
            &self.unanswered[resource as usize],
        );
        [
            (places.limit(), unanswered.all),
            (places.limit_of_others(), unanswered.others),
        ]
    }

    /// Returns the streams of a resource.
    fn streams_of(&self, resource: Resource) -> impl Iterator<Item = &Stream> {
        let outputs = Output::ALL.into_iter();
        let outputs = outputs.filter(move |output| Resource::from(*output) == resource);
        outputs.map(|output| &self.streams[output as usize])
    }

    /// Returns the rate at which writes without a place may go, if the answers and echoes that are awaited allow one now: while our
    /// own watches are merely late, or quiet. Otherwise returns when they will, if nothing is answered or shown before.
    pub(super) fn beyond(&self, resource: Resource, now: Duration) -> Result<Beyond, Option<Duration>> {
        let awaiting_answer = self.awaiting_answer[resource as usize].count();
        if awaiting_answer >= UPSTREAM_WORKERS {
            return Err(None);
        }
        let stalls = &self.stalls;
        let streams = || self.streams_of(resource);
        let telling = || streams().filter(move |stream| !stream.is_quiet(now, stalls));
        let most = telling().map(|stream| stream.lateness.most()).max();
        let unseen = telling().map(Stream::unseen).sum::<usize>();
        let has_room = |stream: &Stream| stream.unseen() < stream.lateness.most();
        if !(most.is_none_or(|most| unseen < most) && telling().all(has_room)) {
            let quiet_in = telling().filter_map(|stream| stream.quiet_in(now, stalls));
            return Err(quiet_in.min().map(|wait| now + wait));
        }
        let of_quiet = streams().map(Stream::unseen).sum::<usize>() - unseen;
        if of_quiet == 0 {
            Ok(Beyond::Late)
        } else if of_quiet + awaiting_answer >= MOST_WHILE_QUIET {
            Err(None)
        } else if telling().any(|stream| stream.counts() && stalls.without(stream.moved, now) < QUIET) {
            Ok(Beyond::Late)
        } else {
            Ok(Beyond::Quiet)
        }
    }

    /// Returns whether echoes have shown that one of our own watches of a resource is late by itself.
    pub(super) fn is_late_by_itself(&self, resource: Resource) -> bool {
        self.streams_of(resource)
            .any(|stream| stream.lateness.is_by_itself())
    }

    /// Returns when the write of a resource that has waited longest for its echo was answered.
    fn oldest(&self, resource: Resource) -> Option<Duration> {
        self.streams_of(resource).filter_map(Stream::oldest).min()
    }

    /// Returns the time that an echo of a resource usually takes now. If the resource has two watches, that of the later one counts.
    pub(super) fn usual(&self, resource: Resource, now: Duration) -> Duration {
        let usual = self
            .streams_of(resource)
            .map(|stream| stream.lateness.usual_at(now));
        usual.max().unwrap_or_default()
    }

    /// Returns how late echoes are now: the usual time, or the time for which a late one has been awaited, if that is longer.
    pub(super) fn late(&self, resource: Resource, now: Duration) -> Duration {
        let awaited = self.oldest(resource).map(|oldest| self.took(oldest, now));
        let awaited = awaited.filter(|awaited| *awaited > LATE);
        self.usual(resource, now).max(awaited.unwrap_or_default())
    }

    /// Returns whether our own watches tell how late the echoes of all writes of a resource are. A watch that was never open
    /// belongs to an output that is not written.
    pub(super) fn counts(&self, resource: Resource) -> bool {
        let served = self.streams_of(resource).filter(|stream| stream.served);
        let mut served = served.peekable();
        served.peek().is_some() && served.all(Stream::counts)
    }

    /// Returns whether the watch of any output of a resource tells how late its echoes are.
    pub(super) fn any_counts(&self, resource: Resource) -> bool {
        self.streams_of(resource).any(Stream::counts)
    }

    /// Returns whether our own watch of an output tells how late its echoes are.
    pub(super) fn counts_of(&self, output: Output) -> bool {
        self.streams[output as usize].counts()
    }

    /// Takes a place for a write that is granted.
    pub(super) fn granted(
        &mut self,
        key: &Hashed<ObjectKey>,
        priority: Priority,
        promptness: Promptness,
        now: Duration,
    ) {
        let output = key.object.output;
        if !self.streams[output as usize].counts() {
            return;
        }
        self.order += 1;
        let write = GrantedWrite {
            removes: priority == Priority::Remove,
            promptness,
            number: self.order,
            shown: self.streams[output as usize].shown,
        };
        let places = &mut self.places[Resource::from(output) as usize];
        places.take(write.removes);
        if places.is_full() {
            places.filled = self.order;
        }
        if self.granted.insert(key.clone(), write).is_none() {
            self.awaiting_answer[Resource::from(output) as usize].granted();
        }
        self.holding.insert(self.order, (now, key.clone()));
        self.unanswered[Resource::from(output) as usize].granted(&write);
    }

    /// Records the answer to a write, or that nothing is sent after all.
    pub(super) fn answered(&mut self, key: &Hashed<ObjectKey>, effect: WriteEffect, now: Duration) {
        let Some(write) = self.granted.remove(key) else {
            return;
        };
        self.order += 1;
        let output = key.object.output;
        let resource = Resource::from(output) as usize;
        self.awaiting_answer[resource].ended(write.number);
        if self.holding.remove(&write.number).is_none() {
            self.places[resource].take(write.removes);
        } else {
            self.unanswered[resource].ended(&write);
            if matches!(effect, WriteEffect::Written(_) | WriteEffect::Deleted(_)) {
                self.awaiting_answer[resource].was_quick(write.number);
            }
        }
        let stream = &mut self.streams[output as usize];
        let gone = stream.gone.remove(key);
        let place = Place {
            write,
            answered: now,
            unseen: stream.unseen() + 1,
        };
        match effect {
            WriteEffect::Written(version) if version > stream.shown => {
                stream.written.insert((version, self.order), place);
            }
            WriteEffect::Written(version) if version > write.shown => {
                self.end(output, place, now, Freed::Early);
            }
            // It changed nothing, or nothing was written.
            WriteEffect::Written(_) | WriteEffect::Nothing => self.end(output, place, now, Freed::Otherwise),
            WriteEffect::Deleted(_) | WriteEffect::Unknown if gone => {
                self.end(output, place, now, Freed::Early);
            }
            // The echo came first, and shows that it did by its version alone.
            WriteEffect::Deleted(Some(version)) if version <= stream.shown => {
                self.end(output, place, now, Freed::Otherwise);
            }
            WriteEffect::Deleted(_) | WriteEffect::Unknown => {
                let (bound, gone_at) = match effect {
                    WriteEffect::Deleted(version) => (BOUND, version),
                    _ => (BOUND_OF_UNKNOWN, None),
                };
                let waiting = Unversioned {
                    key: key.clone(),
                    place,
                    gone_at,
                    until: now + bound,
                };
                stream.unversioned.insert(self.order, waiting);
            }
        }
    }

    /// Frees a place.
    fn end(&mut self, output: Output, place: Place, at: Duration, freed: Freed) {
        let took = self.took(place.answered, at);
        let places = &mut self.places[Resource::from(output) as usize];
        places.free(place.write.removes);
        match freed {
            Freed::Echoed => {
                places.echoed(place, took, at);
                let lateness = &mut self.streams[output as usize].lateness;
                lateness.came(place.answered, place.unseen, took, at);
                self.heard.push((output, took));
            }
            Freed::Early => places.proved(place.write.number),
            Freed::Otherwise => {}
        }
    }

    /// Returns the time from an answer to its echo, without the time in which this process did nothing.
    fn took(&self, answered: Duration, at: Duration) -> Duration {
        self.stalls.without(answered, at)
    }

    /// Records that our own watch of an output was opened, and shows what comes after this version; or that it has
    /// ended.
    pub(super) fn opened(&mut self, output: Output, from: Option<u64>, now: Duration) {
        self.give_up(output, now);
        let stream = &mut self.streams[output as usize];
        (stream.open, stream.silent, stream.quiet) = (from.is_some(), false, false);
        stream.moved = now;
        stream.served |= stream.open;
        // Versions may have gone backwards.
        stream.shown = from.unwrap_or_default();
    }

    /// Frees all places of an output, whose echoes do not come. Those that are late already are reported as if they had come now.
    fn give_up(&mut self, output: Output, now: Duration) {
        let written = self.streams[output as usize].written.values();
        let waited = written.map(|place| self.stalls.without(place.answered, now));
        let late = waited
            .filter(|waited| *waited > LATE)
            .map(|waited| (output, waited));
        self.heard.extend(late);
        self.forget(output);
    }

    /// Frees all places of an output.
    fn forget(&mut self, output: Output) {
        let places = &mut self.places[Resource::from(output) as usize];
        for place in self.streams[output as usize].clear() {
            places.free(place.write.removes);
        }
        let holding = &mut self.holding;
        let unanswered = &mut self.unanswered[Resource::from(output) as usize];
        let awaiting_answer = &mut self.awaiting_answer[Resource::from(output) as usize];
        self.granted.retain(|key, write| {
            if key.object.output != output {
                return true;
            }
            awaiting_answer.ended(write.number);
            if holding.remove(&write.number).is_some() {
                places.free(write.removes);
                unanswered.ended(write);
            }
            false
        });
    }

    /// Records that our own watch of an output has shown everything up to a version. `at` is when that arrived.
    pub(super) fn shown(&mut self, output: Output, version: u64, at: Duration) {
        let stream = &mut self.streams[output as usize];
        stream.moves(at, &self.stalls);
        stream.shown = stream.shown.max(version);
        stream.given_up = stream.given_up.split_off(&version.saturating_add(1));
        let sent = self.free_shown(output, version, at);
        // Writes that were answered before one was sent that has been shown come before it.
        self.release(output, at, |order, this| {
            order < sent || this.gone_at.is_some_and(|gone_at| gone_at <= version)
        });
        for other in Output::ALL {
            if other != output && Resource::from(other) == Resource::from(output) {
                self.free_quiet(other, version, at);
            }
        }
    }

    /// Frees the places of the writes of an output up to a version, and returns when the last of them was sent.
    fn free_shown(&mut self, output: Output, version: u64, at: Duration) -> u64 {
        let mut sent = 0;
        while let Some(first) = self.streams[output as usize].written.first_entry()
            && first.key().0 <= version
        {
            let place = first.remove();
            sent = sent.max(place.write.number);
            self.end(output, place, at, Freed::Echoed);
        }
        sent
    }

    /// Frees the places of an output whose own watch has shown nothing for long, as far as their writes have waited for as long and
    /// another watch of the resource has shown their versions.
    fn free_quiet(&mut self, output: Output, version: u64, at: Duration) {
        let (moved, quiet_after) = {
            let stream = &self.streams[output as usize];
            (stream.moved, stream.quiet_after())
        };
        while let Some(first) = self.streams[output as usize].written.first_entry()
            && first.key().0 <= version
            && self.stalls.without(first.get().answered.max(moved), at) >= quiet_after
        {
            let place = first.remove();
            self.streams[output as usize].quiet = true;
            self.end(output, place, at, Freed::Otherwise);
        }
    }

    /// Frees the places of the writes without a version for which `is_over` returns true, given the order of their answers.
    fn release(&mut self, output: Output, at: Duration, is_over: impl Fn(u64, &Unversioned) -> bool) {
        let unversioned = &mut self.streams[output as usize].unversioned;
        let over = unversioned.iter().filter(|(order, this)| is_over(**order, this));
        let over: Vec<u64> = over.map(|(order, _)| *order).collect();
        for order in over {
            if let Some(this) = self.streams[output as usize].unversioned.remove(&order) {
                self.end(output, this.place, at, Freed::Otherwise);
            }
        }
    }

    /// Records that our own watch has shown that an object was deleted.
    pub(super) fn deleted(&mut self, key: &Hashed<ObjectKey>, at: Duration) {
        let output = key.object.output;
        let stream = &mut self.streams[output as usize];
        let mut unversioned = stream.unversioned.iter();
        if let Some((&order, _)) = unversioned.find(|(_, this)| this.key == *key)
            && let Some(this) = stream.unversioned.remove(&order)
        {
            self.end(output, this.place, at, Freed::Echoed);
        } else if self.granted.contains_key(key) && stream.gone.len() < GONE_KEPT {
            stream.gone.insert(key.clone());
        }
    }

    /// Records that this process did nothing between these times, though it had to: what arrived then was seen later.
    pub(super) fn stalled(&mut self, from: Duration, to: Duration) {
        let oldest = Resource::ALL
            .into_iter()
            .filter_map(|resource| self.oldest(resource));
        self.stalls.add(from, to, oldest.min());
    }

    /// Lets the time pass: takes places away when an awaited echo is late, and frees places that have been held too long.
    pub(super) fn pass(&mut self, now: Duration) {
        while let Some(first) = self.holding.first_entry()
            && first.get().0 + BOUND_OF_FLIGHT <= now
        {
            let (_, key) = first.remove();
            if let Some(write) = self.granted.get(&key) {
                let resource = Resource::from(key.object.output) as usize;
                self.places[resource].free(write.removes);
                self.unanswered[resource].ended(write);
                self.awaiting_answer[resource].grew_old(write.number, key.tenant());
            }
        }
        for output in Output::ALL {
            self.pass_stream(output, now);
        }
    }

    fn pass_stream(&mut self, output: Output, now: Duration) {
        if !self.streams[output as usize].awaits() {
            return;
        }
        self.release(output, now, |_, this| this.until <= now);
        let Some(oldest) = self.streams[output as usize].oldest() else {
            return;
        };
        let waits = self.took(oldest, now);
        let places = &mut self.places[Resource::from(output) as usize];
        if waits > LATE && oldest >= places.shrunk {
            places.shrink(now);
        }
        let stream = &mut self.streams[output as usize];
        stream.lateness.outstanding(oldest, waits, now);
        stream.quiet = stream.is_quiet(now, &self.stalls);
        if waits <= SILENT {
            return;
        }
        if self.took(self.streams[output as usize].moved, now) > SILENT {
            self.streams[output as usize].silent = true;
            self.give_up(output, now);
        } else if waits > LOST
            && let Some(((version, _), place)) = self.streams[output as usize].written.pop_first()
        {
            self.streams[output as usize].given_up.insert(version);
            self.heard.push((output, waits));
            self.end(output, place, now, Freed::Otherwise);
        }
    }

    /// Returns when [`Self::pass`] changes something, if no event comes.
    pub(super) fn wake(&self, now: Duration) -> Option<Duration> {
        // A moment later, since `pass` compares with more than the bound.
        let first = self.first_bound(now);
        first.map(|at| at.max(now) + Duration::from_nanos(1))
    }

    /// Returns when the first of the times is up that [`Self::pass`] looks at.
    fn first_bound(&self, now: Duration) -> Option<Duration> {
        let in_flight = self.holding.values().next();
        let mut first = in_flight.map(|(since, _)| *since + BOUND_OF_FLIGHT);
        let mut note = |at: Duration| first = Some(first.map_or(at, |known| known.min(at)));
        for stream in self.streams.iter().filter(|stream| stream.awaits()) {
            if let Some(oldest) = stream.oldest() {
                if oldest + LATE >= now {
                    note(oldest + LATE);
                }
                let end = (oldest.max(stream.moved) + SILENT).min(oldest + LOST);
                // Later, if this process did nothing for a while.
                note(if end < now { now + LATE } else { end });
            }
            for this in stream.unversioned.values() {
                note(this.until);
            }
        }
        first
    }

    /// Returns when the writer has to look at the latest while anything is awaited, even if nothing changes then: from a timer that
    /// fires late, it learns that this process paused.
    pub(super) fn due(&self, now: Duration) -> Option<Duration> {
        if self.holding.is_empty() && !self.streams.iter().any(Stream::awaits) {
            return None;
        }
        Some(self.wake(now).unwrap_or(Duration::MAX).min(now + LATE))
    }

    /// Takes the echoes since the last call: the output, and the time from the answer. They include those that were given up as late,
    /// with the time for which they were awaited.
    pub(super) fn take_heard(&mut self) -> std::vec::Drain<'_, (Output, Duration)> {
        self.heard.drain(..)
    }

    /// Frees all places.
    pub(super) fn clear(&mut self) {
        for output in Output::ALL {
            self.forget(output);
        }
    }
}

#[cfg(test)]
mod tests;
