//! The part of a request that rules look at: its client, and what it asks for.

use super::Verb;
use crate::accept::{Media, Offer, negotiate, of_refusals};
use crate::kinds::Kind;
use crate::protobuf;
use crate::query::Query;
use crate::route::{Target, target};
use crate::store::Store;
use http::request::Parts;
use http::{Method, header};
use serde_json::Value;
use std::sync::Arc;

/// The client that sends the requests of a service.
#[derive(Clone, Debug, Default)]
pub(crate) enum Caller {
    /// The client that the User-Agent header names.
    #[default]
    Header,
    Named(Arc<str>),
    /// No fault reaches this one.
    Spared,
}

/// A request for objects, as rules see it.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) client: String,
    pub(crate) verb: Verb,
    pub(crate) kind: Kind,
    pub(crate) namespace: String,
    /// The object's name; for a create, the name in the body, or the prefix of the one to be generated.
    pub(crate) name: String,
    pub(crate) query: Query,
    /// In what the answer is written, and in what a refusal is.
    pub(crate) media: Media,
    pub(crate) refusals: Media,
}

impl Ask {
    /// None for what is not for objects (discovery, health) and for callers that are spared.
    pub(crate) fn new(parts: &Parts, body: &[u8], caller: &Caller, store: &Store) -> Option<Self> {
        let client = match caller {
            Caller::Spared => return None,
            Caller::Named(name) => name.to_string(),
            Caller::Header => {
                let agent = parts.headers.get(header::USER_AGENT);
                agent.and_then(|a| a.to_str().ok()).unwrap_or("").to_owned()
            }
        };
        let Target::Object(mut target) = target(parts.uri.path(), &store.read()) else {
            return None;
        };
        let query = Query::parse(parts.uri.query());
        let verb = match (&parts.method, target.name.is_empty()) {
            (&Method::GET, true) if query.flag("watch") => Verb::Watch,
            (&Method::GET, true) => Verb::List,
            (&Method::GET, false) => Verb::Get,
            (&Method::POST, _) => Verb::Create,
            (&Method::PUT, _) => Verb::Update,
            (&Method::PATCH, _) => Verb::Patch,
            (&Method::DELETE, false) => Verb::Delete,
            (&Method::DELETE, true) => Verb::DeleteCollection,
            _ => return None,
        };
        if verb == Verb::Create {
            target.name = name_in(body);
        }
        let offer = Offer::of(target.kind, &store.config.protobuf);
        Some(Self {
            media: negotiate(&parts.headers, offer).map_or(Media::Json, |accepted| accepted.media),
            refusals: of_refusals(&parts.headers, offer),
            client,
            verb,
            kind: target.kind,
            namespace: target.namespace,
            name: target.name,
            query,
        })
    }

    /// A later page of a list.
    pub(crate) fn is_continued(&self) -> bool {
        self.verb == Verb::List && !self.query.text("continue").is_empty()
    }

    /// A watch that begins with the present objects (a streaming list).
    pub(crate) fn is_streaming_list(&self) -> bool {
        self.verb == Verb::Watch && self.query.flag("sendInitialEvents")
    }
}

fn name_in(body: &[u8]) -> String {
    // Every object begins with its metadata, of which no more is read here.
    let value: Value = match protobuf::read(body, "PartialObjectMetadata") {
        Ok(value) => value,
        Err(_) => serde_json::from_slice(body).unwrap_or_default(),
    };
    let text = |key: &str| value["metadata"][key].as_str().filter(|t| !t.is_empty());
    text("name")
        .or_else(|| text("generateName"))
        .unwrap_or("")
        .to_owned()
}
