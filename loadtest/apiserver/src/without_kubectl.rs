//! The names of `kubectl.rs` in a server without the feature `kubectl`, which has no tables, no documents of the `OpenAPI`
//! and no strategic merge patches.

use crate::kinds::Kind;
use crate::object::Object;
use crate::status::{Answer, Refusal};
use bytes::BytesMut;
use jiff::Timestamp;
use serde_json::Value;

pub(crate) const STRATEGIC: Option<&str> = None;

/// No table is ever made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {}

pub(crate) fn openapi(_path: &str, _kinds: &[Kind]) -> Option<Value> {
    None
}

pub(crate) fn merge_strategically(_kind: Kind, _into: &mut Value, _patch: Value) -> Answer<()> {
    Err(Refusal::unsupported_media(""))
}

// === impl Style ===

impl Style {
    pub(crate) const ASKED: Option<Self> = None;

    pub(crate) fn with_options(self, _include: &str, _now: Timestamp) -> Answer<Self> {
        match self {}
    }

    pub(crate) fn single_at(
        self,
        _now: Timestamp,
        _out: &mut BytesMut,
        _object: &Object,
        _with_columns: bool,
    ) {
        match self {}
    }

    pub(crate) fn bookmark(self, _rv: u64, _object: &str) -> String {
        match self {}
    }

    pub(crate) fn open(self, _out: &mut BytesMut, _kind: Kind, _metadata: &str, _with_columns: bool) {
        match self {}
    }

    pub(crate) fn single(self, _out: &mut BytesMut, _object: &Object, _with_columns: bool) {
        match self {}
    }

    pub(crate) fn row(self, _out: &mut BytesMut, _object: &Object) {
        match self {}
    }
}
