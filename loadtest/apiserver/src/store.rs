//! The state behind the server: objects by kind, the history watches replay, and the one version counter.
//!
//! One lock guards everything and is held for a few microseconds: requests are read, merged, checked and serialised
//! outside of it, and a commit only compares, numbers and files the result.

mod allocate;
mod owners;
mod ring;
mod wake;

pub(crate) use self::allocate::{Allocator, Held, NODE_PORTS, is_usable, next_address};
pub(crate) use self::owners::Presence;
pub(crate) use self::ring::{Change, Event, Ring};
pub(crate) use self::wake::Woken;

use self::wake::Wake;
use crate::clock::Clock;
use crate::config::Config;
use crate::journal::JournalEntry;
use crate::kinds::{Kind, Role};
use crate::object::{Draft, Object, format_uid};
use crate::status::{Answer, Refusal};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use tokio::sync::Notify;

/// The objects of a kind, their history, and the watches that wait for more of it.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) objects: BTreeMap<Arc<str>, Arc<Object>>,
    pub(crate) ring: Ring,
    wake: Wake,
}

/// All that one lock guards.
#[derive(Debug)]
pub(crate) struct State {
    /// The version of the last change, of any kind.
    pub(crate) rv: u64,
    kinds: Vec<Kind>,
    tables: BTreeMap<Kind, Table>,
    namespaces: Kind,
    pub(crate) rng: fastrand::Rng,
    pub(crate) allocator: Allocator,
    clock: Clock,
    /// All changes, if they are wanted.
    pub(crate) journal: Option<Vec<JournalEntry>>,
    /// The objects by their UIDs, for owner references.
    live: BTreeMap<u128, (Kind, Arc<str>)>,
    dependents: BTreeMap<u128, BTreeSet<(Kind, Arc<str>)>>,
    /// Owners whose dependents are to be looked at.
    pub(crate) gone: BTreeSet<u128>,
    /// Objects to be looked at by the collector themselves.
    pub(crate) suspects: BTreeSet<(Kind, Arc<str>)>,
    /// Dependents of absent owners are collected.
    collects: bool,
    /// Deleted namespaces are emptied.
    empties: bool,
}

/// The store: the state, and what requests and the collector need beside it.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    state: RwLock<State>,
    pub(crate) collector: Arc<Notify>,
}

impl Store {
    /// A store for these kinds, of which one is that of namespaces.
    pub(crate) fn new(config: Config, kinds: Vec<Kind>) -> Self {
        let rng = config
            .seed
            .map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        let namespaces = kinds.iter().copied().find(|kind| kind.role == Role::Namespace);
        let history = config.history.max(1);
        let clock = Clock::new(config.start_time);
        let state = State {
            rv: 1,
            namespaces: namespaces.expect("the table of kinds has namespaces"),
            tables: kinds.iter().map(|kind| (*kind, Table::new(history))).collect(),
            kinds,
            rng,
            allocator: Allocator::default(),
            clock,
            journal: config.journal.then(Vec::new),
            live: BTreeMap::new(),
            dependents: BTreeMap::new(),
            gone: BTreeSet::new(),
            suspects: BTreeSet::new(),
            collects: config.gc,
            empties: config.empties_namespaces(),
        };
        Self {
            clock,
            config,
            state: RwLock::new(state),
            collector: Arc::new(Notify::new()),
        }
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read()
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write()
    }

    pub(crate) fn get(&self, kind: Kind, key: &str) -> Option<Arc<Object>> {
        self.read().table(kind).objects.get(key).cloned()
    }

    /// Files a new object; the name must be free.
    pub(crate) fn insert(&self, draft: Draft) -> Answer<Arc<Object>> {
        let kind = draft.kind();
        let mut state = self.write();
        if let Some(there) = state.table(kind).objects.get(draft.key()) {
            return Err(Refusal::exists(kind, there.name()));
        }
        // A namespace that was there when the request came may be gone by now.
        let namespace = draft.namespace();
        if !namespace.is_empty() && state.namespace(namespace).is_none() {
            return Err(Refusal::not_found(state.namespaces, namespace));
        }
        let object = state.put(draft, None);
        self.wake(kind, state);
        Ok(object)
    }

    /// Replaces exactly `old`; none when the stored object is another by now.
    pub(crate) fn replace(&self, old: &Arc<Object>, draft: Draft) -> Option<Arc<Object>> {
        let mut state = self.write();
        if !state.holds(old) {
            return None;
        }
        let object = state.put(draft, Some(Arc::clone(old)));
        self.wake(old.kind, state);
        Some(object)
    }

    /// Removes exactly `old`; none when the stored object is another by now. The result is at its deletion's version.
    pub(crate) fn remove(&self, old: &Arc<Object>) -> Option<Arc<Object>> {
        let mut state = self.write();
        if !state.holds(old) {
            return None;
        }
        let object = state.take(old);
        self.wake(old.kind, state);
        Some(object)
    }

    fn wake(&self, kind: Kind, state: RwLockWriteGuard<'_, State>) {
        let table = state.table(kind);
        // Not ordered against another commit's wake: a watcher reads the ring itself and only needs to be woken.
        let rounds = table.wake.rounds().clone();
        let dirty = !state.gone.is_empty() || !state.suspects.is_empty();
        drop(state);
        rounds.wake();
        if dirty {
            self.collector.notify_one();
        }
    }

    /// Wakes all watchers, though nothing has changed.
    pub(crate) fn wake_all(&self) {
        self.read().tables.values().for_each(Table::wake);
    }

    /// A fresh uid.
    pub(crate) fn uid(&self) -> String {
        let random = self.write().rng.u128(..);
        let version = random & !(0xf << 76) | 4 << 76;
        format_uid(version & !(0b11 << 62) | 0b10 << 62)
    }

    /// The five characters of a generated name.
    pub(crate) fn suffix(&self) -> String {
        const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut state = self.write();
        (0..5)
            .map(|_| char::from(ALPHABET[state.rng.usize(..ALPHABET.len())]))
            .collect()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // The collector finds the store gone and ends.
        self.collector.notify_one();
    }
}

impl Table {
    fn new(history: usize) -> Self {
        Self {
            objects: BTreeMap::new(),
            ring: Ring::new(history),
            wake: Wake::default(),
        }
    }

    /// Told when there is more history.
    pub(crate) fn subscribe(&self) -> Woken {
        self.wake.subscribe()
    }

    fn wake(&self) {
        self.wake.rounds().wake();
    }
}

impl State {
    /// Returns the kinds that are served.
    pub(crate) fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// The kind that a path names.
    pub(crate) fn find(&self, group: &str, version: &str, resource: &str) -> Option<Kind> {
        let is_it =
            |kind: &&Kind| kind.resource == resource && kind.group() == group && kind.version() == version;
        self.kinds.iter().find(is_it).copied()
    }

    /// The kind of which an object says it is.
    pub(crate) fn find_kind(&self, api_version: &str, kind: &str) -> Option<Kind> {
        let is_it = |found: &&Kind| found.kind == kind && found.api_version == api_version;
        self.kinds.iter().find(is_it).copied()
    }

    pub(crate) fn namespaces(&self) -> Kind {
        self.namespaces
    }

    pub(crate) fn namespace(&self, name: &str) -> Option<&Arc<Object>> {
        self.table(self.namespaces).objects.get(name)
    }

    pub(crate) fn table(&self, kind: Kind) -> &Table {
        self.tables
            .get(&kind)
            .expect("each kind that is served has a table")
    }

    fn table_mut(&mut self, kind: Kind) -> &mut Table {
        self.tables
            .get_mut(&kind)
            .expect("each kind that is served has a table")
    }

    /// All objects of kinds that have a namespace or have none, in storage order.
    pub(crate) fn all(&self, namespaced: bool, namespace: &str) -> Vec<Arc<Object>> {
        let kinds = self.tables.keys().filter(|kind| kind.namespaced == namespaced);
        kinds.flat_map(|kind| self.range(*kind, namespace)).collect()
    }

    /// Whether exactly this object is the stored one.
    pub(crate) fn holds(&self, object: &Arc<Object>) -> bool {
        self.table(object.kind)
            .objects
            .get(&object.key)
            .is_some_and(|o| Arc::ptr_eq(o, object))
    }

    /// Objects of a kind, all or of a namespace, in storage order.
    pub(crate) fn range(&self, kind: Kind, namespace: &str) -> Vec<Arc<Object>> {
        self.range_after(kind, namespace, None).cloned().collect()
    }

    /// Objects of a kind, all or of a namespace, in storage order: those that come after a key.
    pub(crate) fn range_after(
        &self,
        kind: Kind,
        namespace: &str,
        after: Option<&str>,
    ) -> impl Iterator<Item = &Arc<Object>> {
        let root = if namespace.is_empty() {
            String::new()
        } else {
            format!("{namespace}/")
        };
        let from = match after {
            Some(after) => Bound::Excluded(after),
            None => Bound::Included(root.as_str()),
        };
        let objects = self.table(kind).objects.range::<str, _>((from, Bound::Unbounded));
        objects
            .take_while(move |(key, _)| key.starts_with(&root))
            .map(|(_, object)| object)
    }

    /// Forgets the history, as a compaction does: older versions are too old from now on.
    pub(crate) fn compact(&mut self) {
        let rv = self.rv;
        for table in self.tables.values_mut() {
            table.ring.compact(rv);
        }
    }

    fn put(&mut self, draft: Draft, old: Option<Arc<Object>>) -> Arc<Object> {
        self.rv += 1;
        let object = draft.seal(self.rv);
        if let Some(old) = &old {
            self.unlink(old);
        }
        self.link(&object);
        self.note(&object, false);
        let table = self.table_mut(object.kind);
        table.objects.insert(Arc::clone(&object.key), Arc::clone(&object));
        let change = if old.is_some() {
            Change::Modified
        } else {
            Change::Added
        };
        table.ring.push(Event::new(change, Arc::clone(&object), old));
        object
    }

    fn note(&mut self, object: &Arc<Object>, deleted: bool) {
        let at = self.clock.offset();
        if let Some(journal) = &mut self.journal {
            journal.push(JournalEntry::new(at, deleted, object));
        }
    }

    fn take(&mut self, old: &Arc<Object>) -> Arc<Object> {
        self.rv += 1;
        let object = old.at_version(self.rv);
        self.unlink(old);
        self.bury(old);
        self.allocator.release(old);
        self.note(&object, true);
        let table = self.table_mut(old.kind);
        table.objects.remove(&old.key);
        let previous = Some(Arc::clone(old));
        table
            .ring
            .push(Event::new(Change::Deleted, Arc::clone(&object), previous));
        object
    }
}
