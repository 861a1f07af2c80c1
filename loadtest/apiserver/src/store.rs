//! The state behind the server: objects by kind, the history watches replay, and the one version counter.
//!
//! One lock guards everything and is held for a few microseconds: requests are read, merged, checked and serialised
//! outside of it, and a commit only compares, numbers and files the result.

mod allocate;
mod ring;

pub(crate) use self::allocate::{Allocator, Held, NODE_PORTS, next_address, range_of};
pub(crate) use self::ring::{Change, Event, Ring};

use crate::clock::Clock;
use crate::config::Config;
use crate::kinds::Kind;
use crate::object::{Draft, Object, format_uid};
use crate::status::{Answer, Refusal};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use tokio::sync::{Notify, watch};

/// The objects of a kind and their history.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) objects: BTreeMap<Arc<str>, Arc<Object>>,
    pub(crate) ring: Ring,
}

/// All that one lock guards.
#[derive(Debug)]
pub(crate) struct State {
    /// The version of the last change, of any kind.
    pub(crate) rv: u64,
    tables: Vec<Table>,
    pub(crate) rng: fastrand::Rng,
    pub(crate) allocator: Allocator,
    /// Who lives, for owner references.
    live: BTreeMap<(Kind, u128), Arc<str>>,
    dependents: BTreeMap<u128, BTreeSet<(Kind, Arc<str>)>>,
    /// Owners whose dependents are to be looked at.
    pub(crate) gone: BTreeSet<u128>,
    /// Objects to be looked at by the collector themselves.
    pub(crate) suspects: BTreeSet<(Kind, Arc<str>)>,
    collect: bool,
}

/// The store: the state, who waits for it, and what requests need beside it.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    state: RwLock<State>,
    wakes: Vec<watch::Sender<u64>>,
    pub(crate) collector: Arc<Notify>,
}

impl Store {
    pub(crate) fn new(config: Config) -> Self {
        let rng = config
            .seed
            .map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        let table = |_| Table {
            objects: BTreeMap::new(),
            ring: Ring::new(config.history.max(1)),
        };
        let state = State {
            rv: 1,
            tables: Kind::ALL.into_iter().map(table).collect(),
            rng,
            allocator: Allocator::default(),
            live: BTreeMap::new(),
            dependents: BTreeMap::new(),
            gone: BTreeSet::new(),
            suspects: BTreeSet::new(),
            collect: config.gc,
        };
        Self {
            clock: Clock::new(config.start_time),
            config,
            state: RwLock::new(state),
            wakes: Kind::ALL.iter().map(|_| watch::Sender::new(0)).collect(),
            collector: Arc::new(Notify::new()),
        }
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read()
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write()
    }

    pub(crate) fn subscribe(&self, kind: Kind) -> watch::Receiver<u64> {
        self.wakes[kind as usize].subscribe()
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
        if !namespace.is_empty() && !state.table(Kind::Namespace).objects.contains_key(namespace) {
            return Err(Refusal::not_found(Kind::Namespace, namespace));
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
        let next = state.table(kind).ring.next();
        let dirty = !state.gone.is_empty() || !state.suspects.is_empty();
        drop(state);
        // Not ordered against another commit's wake: a watcher reads the ring itself and only needs to be woken.
        self.wakes[kind as usize].send_replace(next);
        if dirty {
            self.collector.notify_one();
        }
    }

    /// Wakes all watchers, though nothing has changed.
    pub(crate) fn wake_all(&self) {
        for wake in &self.wakes {
            wake.send_modify(|_| {});
        }
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

impl State {
    pub(crate) fn table(&self, kind: Kind) -> &Table {
        &self.tables[kind as usize]
    }

    /// Whether exactly this object is the stored one.
    pub(crate) fn holds(&self, object: &Arc<Object>) -> bool {
        self.table(object.kind)
            .objects
            .get(&object.key)
            .is_some_and(|o| Arc::ptr_eq(o, object))
    }

    pub(crate) fn is_live(&self, kind: Kind, uid: u128) -> bool {
        self.live.contains_key(&(kind, uid))
    }

    /// Those that name `uid` as an owner.
    pub(crate) fn dependents(&self, uid: u128) -> Vec<(Kind, Arc<str>)> {
        self.dependents
            .get(&uid)
            .map(|d| d.iter().cloned().collect())
            .unwrap_or_default()
    }

    /// Objects of a kind, all or of a namespace, in storage order.
    pub(crate) fn range(&self, kind: Kind, namespace: &str) -> Vec<Arc<Object>> {
        let objects = &self.table(kind).objects;
        if namespace.is_empty() {
            return objects.values().cloned().collect();
        }
        let (from, to) = (format!("{namespace}/"), format!("{namespace}0"));
        objects
            .range::<str, _>((Bound::Included(from.as_str()), Bound::Excluded(to.as_str())))
            .map(|(_, o)| Arc::clone(o))
            .collect()
    }

    /// Forgets the history, as a compaction does: older versions are too old from now on.
    pub(crate) fn compact(&mut self) {
        let rv = self.rv;
        for table in &mut self.tables {
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
        let table = &mut self.tables[object.kind as usize];
        table.objects.insert(Arc::clone(&object.key), Arc::clone(&object));
        let change = if old.is_some() {
            Change::Modified
        } else {
            Change::Added
        };
        table.ring.push(Event {
            change,
            object: Arc::clone(&object),
            previous: old,
        });
        object
    }

    fn take(&mut self, old: &Arc<Object>) -> Arc<Object> {
        self.rv += 1;
        let object = old.at_version(self.rv);
        self.unlink(old);
        self.live.remove(&(old.kind, old.uid));
        if self.collect {
            if self.dependents.contains_key(&old.uid) {
                self.gone.insert(old.uid);
            }
            self.suspect_namespace(old);
            self.suspect_owners(old);
        }
        self.allocator.release(old);
        let table = &mut self.tables[old.kind as usize];
        table.objects.remove(&old.key);
        let previous = Some(Arc::clone(old));
        table.ring.push(Event {
            change: Change::Deleted,
            object: Arc::clone(&object),
            previous,
        });
        object
    }

    fn link(&mut self, object: &Arc<Object>) {
        self.live
            .insert((object.kind, object.uid), Arc::clone(&object.key));
        for owner in &object.owners {
            let Some(uid) = owner.uid else { continue };
            let id = (object.kind, Arc::clone(&object.key));
            self.dependents.entry(uid).or_default().insert(id.clone());
            // Born without its owner.
            if self.collect && owner.kind.is_some_and(|k| !self.is_live(k, uid)) {
                self.suspects.insert(id);
            }
        }
        if self.collect && object.deleting {
            self.suspects.insert((object.kind, Arc::clone(&object.key)));
        }
    }

    fn unlink(&mut self, object: &Arc<Object>) {
        for owner in &object.owners {
            let Some(uid) = owner.uid else { continue };
            if let Some(dependents) = self.dependents.get_mut(&uid) {
                dependents.remove(&(object.kind, Arc::clone(&object.key)));
                if dependents.is_empty() {
                    self.dependents.remove(&uid);
                }
            }
        }
    }

    /// A namespace on its way out may be empty now.
    fn suspect_namespace(&mut self, object: &Object) {
        let objects = &self.tables[Kind::Namespace as usize].objects;
        if let Some(namespace) = objects.get(object.namespace()).filter(|n| n.deleting) {
            self.suspects
                .insert((Kind::Namespace, Arc::clone(&namespace.key)));
        }
    }

    /// An owner that waits for its dependents may have lost its last one.
    fn suspect_owners(&mut self, object: &Object) {
        for owner in &object.owners {
            let (Some(kind), Some(uid)) = (owner.kind, owner.uid) else {
                continue;
            };
            let Some(key) = self.live.get(&(kind, uid)) else {
                continue;
            };
            if self.tables[kind as usize]
                .objects
                .get(key)
                .is_some_and(|o| o.deleting)
            {
                self.suspects.insert((kind, Arc::clone(key)));
            }
        }
    }
}
