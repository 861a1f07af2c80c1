//! The part of the model that is the server: it stores slices, has their watch show them, and can be restored from a
//! backup.

use super::protobuf::with_version;
use super::{Model, Outcome, WatchEvent, codec, is_ours};
use endpointd::cluster::codec::Namespaced;
use endpointd::core::body::Request;
use endpointd::core::facts::SliceFacts;
use endpointd::core::ids::Uid;
use endpointd::core::namespace::Content;
use endpointd::core::object::{Editor, Remote};
use endpointd::core::time::Time;

impl Model {
    pub(super) fn carry_out_slice(&mut self, name: &str, request: &Request) -> Outcome {
        let parse = |body: &[u8]| codec::object::<Namespaced<SliceFacts>>(body);
        match request {
            Request::Fetch => match self.store.get(name) {
                None => Outcome::NotFound,
                Some(slice) if !is_ours(slice) => Outcome::Foreign {
                    editor: Editor::Unknown,
                },
                Some(slice) => Outcome::fetched(Content::Slice(Box::new(slice.clone()))),
            },
            Request::Probe => panic!("slices are not probed for"),
            Request::Delete(preconditions) => match self.store.get(name) {
                None => Outcome::NotFound,
                Some(slice) if preconditions.uid.as_ref() != Some(&slice.meta.uid) => Outcome::Conflict,
                Some(slice) if preconditions.resource_version != Some(slice.meta.version.to_string()) => {
                    Outcome::Conflict
                }
                Some(_) => {
                    self.writes += 1;
                    self.delete_slice(name);
                    Outcome::Deleted(None)
                }
            },
            Request::Create(body) => {
                let mut slice = parse(&with_version(body)).unwrap().facts;
                assert_eq!(*slice.meta.name, *name);
                if self.store.contains_key(name) {
                    return Outcome::Exists;
                }
                self.version += 1;
                slice.meta.uid = self.next_uid();
                slice.created = Some(Time::from_seconds(self.version.cast_signed()));
                self.writes += 1;
                self.put_slice(slice)
            }
            Request::Update(body) => {
                let mut slice = parse(body).unwrap().facts;
                let Some(old) = self.store.get(name) else {
                    return Outcome::NotFound;
                };
                if slice.meta.version != old.meta.version || slice.meta.uid != old.meta.uid {
                    return Outcome::Conflict;
                }
                slice.created = old.created;
                self.writes += 1;
                self.put_slice(slice)
            }
        }
    }

    /// Stores a slice under a new version, and has the watch show it.
    pub(crate) fn put_slice(&mut self, mut slice: SliceFacts) -> Outcome {
        if self.store.get(&slice.meta.name) != Some(&slice) {
            self.version += 1;
            slice.meta.version = self.version;
            self.watch.push_back(if is_ours(&slice) {
                WatchEvent::Seen(slice.meta.clone())
            } else {
                WatchEvent::Gone(slice.meta.name.clone(), self.version)
            });
        }
        let remote = Remote {
            uid: slice.meta.uid.clone(),
            version: slice.meta.version,
        };
        self.store.insert(slice.meta.name.clone(), slice);
        Outcome::Written(remote)
    }

    /// Creates another slice with the content of one.
    pub(crate) fn copy_slice(&mut self, name: &str) {
        let mut copy = self.store[name].clone();
        self.version += 1;
        copy.meta.name = format!("copy-{}", self.version).into();
        copy.meta.uid = self.next_uid();
        copy.created = Some(Time::from_seconds(self.version.cast_signed()));
        self.put_slice(copy);
    }

    pub(crate) fn delete_slice(&mut self, name: &str) {
        if self.store.remove(name).is_some() {
            self.version += 1;
            self.watch.push_back(WatchEvent::Gone(name.into(), self.version));
        }
    }

    /// Never given out before, also where versions go back.
    pub(super) fn next_uid(&mut self) -> Uid {
        self.uids += 1;
        Uid::from(format!("object-{}", self.uids).as_str())
    }

    /// Backs up what the server holds now.
    pub(crate) fn back_up(&mut self) {
        self.backup = Some((
            self.store.clone(),
            self.endpoints.clone(),
            self.mirrored.clone(),
            self.version,
        ));
    }

    /// The server goes back to what it held when it was last backed up, and its versions with it. Watches end.
    pub(crate) fn restore(&mut self) {
        if let Some((store, endpoints, mirrored, version)) = self.backup.clone() {
            (self.store, self.endpoints) = (store, endpoints);
            (self.mirrored, self.version) = (mirrored, version);
            self.watch.clear();
            self.restored = true;
        }
    }
}
