//! Looks for an `EndpointSelector` (KEP-6116): an object that upstream's endpointslice controller makes slices for where
//! its feature gate is on, and endpointd does not. The API is alpha at most, so nothing is taken for granted: which
//! versions there are is looked up each time, and a cluster without it is asked for two small documents.

use super::{Answer, Cause, ReadError, ReadResource, Reader};
use crate::cluster::codec::{DecodeError, ListReader, SelectorMeta};
use crate::cluster::http;
use crate::cluster::pages::{PAGE, Progress};
use crate::cluster::silence::within;
use http_body_util::BodyExt as _;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use std::fmt;

/// The plural of the resource.
const PLURAL: &str = "endpointselectors";

/// An `EndpointSelector`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SelectorName {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl fmt::Display for SelectorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The versions of a group.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Group {
    versions: Vec<GroupVersion>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GroupVersion {
    version: String,
}

/// The resources of a version.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Resources {
    resources: Vec<Name>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Name {
    name: String,
}

impl Reader {
    /// Finds an `EndpointSelector` that needs slices of its own, in a namespace or in all of them. Those that stand for a
    /// Service need none: they only repeat its selector, for others to refer to. Without the API there is none.
    pub async fn endpoint_selector(
        &self,
        namespace: Option<&str>,
    ) -> Result<Option<SelectorName>, ReadError> {
        let Some(version) = self.selector_version().await.map_err(|cause| ReadError {
            verb: "list",
            what: ReadResource::Discovery.as_str().to_owned(),
            cause,
        })?
        else {
            return Ok(None);
        };
        let place = match namespace {
            Some(namespace) => format!(" in namespace {namespace}"),
            None => " in all namespaces".to_owned(),
        };
        let what = format!("{}{place}", ReadResource::EndpointSelector.as_str());
        let path = http::discovery(&version, namespace, PLURAL);
        let found = self.find_selector(&path, &format!("list {what}")).await;
        found.map_err(|cause| ReadError {
            verb: "list",
            what,
            cause,
        })
    }

    /// Returns the version of the group that has the resource, if any has. The server names the preferred one first.
    async fn selector_version(&self) -> Result<Option<String>, Cause> {
        let group: Group = self.document(http::DISCOVERY_GROUP).await?;
        for GroupVersion { version } in group.versions {
            let path = format!("{}/{version}", http::DISCOVERY_GROUP);
            let served: Resources = self.document(&path).await?;
            if served.resources.iter().any(|resource| resource.name == PLURAL) {
                return Ok(Some(version));
            }
        }
        Ok(None)
    }

    async fn document<T: for<'de> Deserialize<'de>>(&self, path: &str) -> Result<T, Cause> {
        let body = self
            .answer(ReadResource::Discovery, path, "list API resources")
            .await?;
        let body = within(self.silence, body.collect()).await??.to_bytes();
        Ok(serde_json::from_slice(&body).map_err(DecodeError::from)?)
    }

    /// Reads pages until one shows what is looked for. The first has room for one object, which is all that most
    /// clusters need.
    async fn find_selector(&self, path: &str, what: &str) -> Result<Option<SelectorName>, Cause> {
        let mut uri = format!("{path}?limit=1");
        let mut progress = Progress::default();
        loop {
            let mut body: Answer = self.answer(ReadResource::EndpointSelector, &uri, what).await?;
            let mut objects = 0;
            let mut reader = ListReader::<SelectorMeta>::default();
            while let Some(frame) = within(self.silence, body.frame()).await? {
                if let Ok(data) = frame?.into_data() {
                    reader.feed(&data);
                }
                // One that cannot be decoded is left out: the next look may find another.
                let (items, errors) = reader.take();
                objects += items.len() + errors.len();
                if let Some(found) = items.into_iter().find(|item| !item.stands_for_service) {
                    let SelectorMeta { namespace, name, .. } = found;
                    return Ok(Some(SelectorName { namespace, name }));
                }
            }
            let next = reader.finish()?.next;
            if next.is_empty() {
                return Ok(None);
            }
            progress.page(objects, &next)?;
            uri = format!(
                "{path}?limit={PAGE}&continue={}",
                utf8_percent_encode(&next, NON_ALPHANUMERIC)
            );
        }
    }
}
