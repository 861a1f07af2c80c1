//! A small API client on JSON values. It carries out scenarios and reads what settled; loadtest sends its requests with it.

use bytes::Bytes;
use http::{Method, Request, header};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// A kind of object that is read or changed here, by the plural that paths have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names are those of the API")]
pub enum Resource {
    Namespaces,
    Nodes,
    Pods,
    Services,
    Slices,
    Endpoints,
    Events,
    Leases,
    ResourceQuotas,
}

/// The client.
#[derive(Clone)]
pub struct Api(pub Client);

/// The reason why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server refused the request.
    #[error("{request}: the API server answered {code}: {message}")]
    Refused {
        /// The verb and the path.
        request: String,
        /// The HTTP status.
        code: u16,
        /// The message of the Status object, or the whole body if that is none.
        message: String,
    },
    /// There was no answer.
    #[error("{request}: {source}")]
    NoAnswer {
        /// The verb and the path.
        request: String,
        /// The error of kube.
        source: kube::Error,
    },
    /// The scenario asks for something that does not exist.
    #[error("{0}")]
    Scenario(String),
}

impl Resource {
    /// The path of an object, or of its collection if there is no name. The namespace is empty for an object that has
    /// none, and for the collection of all namespaces.
    pub fn path(self, namespace: &str, name: &str) -> String {
        let (base, plural) = match self {
            Self::Namespaces => ("/api/v1", "namespaces"),
            Self::Nodes => ("/api/v1", "nodes"),
            Self::Pods => ("/api/v1", "pods"),
            Self::Services => ("/api/v1", "services"),
            Self::Slices => ("/apis/discovery.k8s.io/v1", "endpointslices"),
            Self::Endpoints => ("/api/v1", "endpoints"),
            Self::Events => ("/api/v1", "events"),
            Self::Leases => ("/apis/coordination.k8s.io/v1", "leases"),
            Self::ResourceQuotas => ("/api/v1", "resourcequotas"),
        };
        let scope = match namespace {
            "" => String::new(),
            namespace => format!("/namespaces/{namespace}"),
        };
        let object = match name {
            "" => String::new(),
            name => format!("/{name}"),
        };
        format!("{base}{scope}/{plural}{object}")
    }
}

impl Error {
    /// The HTTP status, if there was an answer.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api").finish_non_exhaustive()
    }
}

impl Api {
    /// Sends a request, with a body of this content type, and returns the body of the answer if it is not a refusal.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<Bytes, Error> {
        let shown = format!("{method} {path}");
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::ACCEPT, JSON);
        let bytes = body.map_or_else(Vec::new, |(_, value)| value.to_string().into_bytes());
        if let Some((content_type, _)) = body {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        let request = request.body(Body::from(bytes));
        let request = request.map_err(|error| Error::Scenario(format!("{shown}: {error}")))?;
        let no_answer = |source| Error::NoAnswer {
            request: shown.clone(),
            source,
        };
        let response = self.0.send(request).await.map_err(no_answer)?;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect_bytes().await.map_err(no_answer)?;
        if code < 300 {
            return Ok(bytes);
        }
        let value: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        let message = value["message"].as_str().map(str::to_owned);
        Err(Error::Refused {
            message: message.unwrap_or_else(|| String::from_utf8_lossy(&bytes).into_owned()),
            request: shown,
            code,
        })
    }

    /// Sends a request like [`Api::send`], and reads the answer, which is null if it is not JSON.
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<Value, Error> {
        let answer = self.send(method, path, body).await?;
        Ok(serde_json::from_slice(&answer).unwrap_or(Value::Null))
    }

    /// Has the server apply an object at a path, as `kubectl apply --server-side --force-conflicts` does in the name of this
    /// field manager, or only say what would come of it.
    pub async fn apply(
        &self,
        path: &str,
        manager: &str,
        object: &Value,
        dry_run: bool,
    ) -> Result<Value, Error> {
        let dry_run = if dry_run { "&dryRun=All" } else { "" };
        let path = format!("{path}?fieldManager={manager}&force=true&fieldValidation=Strict{dry_run}");
        self.call(Method::PATCH, &path, Some((APPLY, object))).await
    }

    /// The path of a kind's collection or of one of its objects. The namespace is left out where a kind has none.
    pub fn path(kind: &str, namespace: &str, name: Option<&str>) -> Result<String, Error> {
        let resource = match kind {
            "Namespace" => Resource::Namespaces,
            "Node" => Resource::Nodes,
            "Pod" => Resource::Pods,
            "Service" => Resource::Services,
            "Endpoints" => Resource::Endpoints,
            "Event" => Resource::Events,
            "EndpointSlice" => Resource::Slices,
            "Lease" => Resource::Leases,
            "ResourceQuota" => Resource::ResourceQuotas,
            _ => {
                return Err(Error::Scenario(format!(
                    "scenarios have no objects of kind {kind:?}"
                )));
            }
        };
        let namespace = match resource {
            Resource::Namespaces | Resource::Nodes => "",
            _ => namespace,
        };
        if name == Some("") {
            // The path would be that of all objects.
            return Err(Error::Scenario(format!("an object of kind {kind} has no name")));
        }
        Ok(resource.path(namespace, name.unwrap_or_default()))
    }

    /// Reads an object; none if it does not exist.
    pub async fn get(&self, kind: &str, namespace: &str, name: &str) -> Result<Option<Value>, Error> {
        let path = Self::path(kind, namespace, Some(name))?;
        match self.call(Method::GET, &path, None).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.code() == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Lists all objects of a kind in a namespace.
    pub async fn list(&self, kind: &str, namespace: &str) -> Result<Vec<Value>, Error> {
        self.items(&Self::path(kind, namespace, None)?).await
    }

    /// Lists the objects of the collection at a path.
    pub async fn items(&self, path: &str) -> Result<Vec<Value>, Error> {
        let mut list = self.call(Method::GET, path, None).await?;
        match list["items"].take() {
            Value::Array(items) => Ok(items),
            _ => Ok(Vec::new()),
        }
    }

    /// Lists the slices of a Service, of any controller.
    pub async fn slices_of(&self, namespace: &str, service: &str) -> Result<Vec<Value>, Error> {
        let mut slices = self.list("EndpointSlice", namespace).await?;
        slices.retain(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == service);
        Ok(slices)
    }

    /// Creates an object, and sets its status as a kubelet would. The status is patched, since other controllers of a
    /// cluster may have written the object in between.
    pub async fn create(&self, object: &Value, namespace: &str) -> Result<Value, Error> {
        let kind = text(&object["kind"]);
        let path = Self::path(kind, namespace, None)?;
        let mut created = self.call(Method::POST, &path, Some((JSON, object))).await?;
        if matches!(kind, "Pod" | "Node") && !object["status"].is_null() {
            let status = json!({ "status": object["status"] });
            let path = format!("{path}/{}/status", text(&created["metadata"]["name"]));
            created = self
                .call(Method::PATCH, &path, Some((MERGE_PATCH, &status)))
                .await?;
        }
        Ok(created)
    }

    /// Applies a JSON merge patch to an object, or to a subresource of it.
    pub async fn patch(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        subresource: Option<&str>,
        patch: &Value,
    ) -> Result<Value, Error> {
        let mut path = Self::path(kind, namespace, Some(name))?;
        if let Some(subresource) = subresource {
            path = format!("{path}/{subresource}");
        }
        self.call(Method::PATCH, &path, Some((MERGE_PATCH, patch))).await
    }

    /// Deletes an object, with a grace period in seconds where one is given.
    pub async fn delete(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        grace: Option<u64>,
    ) -> Result<Value, Error> {
        let path = Self::path(kind, namespace, Some(name))?;
        let options = grace.map_or_else(|| json!({}), |grace| json!({"gracePeriodSeconds": grace}));
        self.call(Method::DELETE, &path, Some((JSON, &options))).await
    }

    /// Deletes exactly this object, which was read before: one that has taken its name since is refused with 409.
    pub async fn delete_this(
        &self,
        kind: &str,
        namespace: &str,
        object: &Value,
        grace: Option<u64>,
    ) -> Result<Value, Error> {
        let meta = &object["metadata"];
        let path = Self::path(kind, namespace, Some(text(&meta["name"])))?;
        let mut options = json!({"preconditions": {"uid": meta["uid"]}});
        if let Some(grace) = grace {
            options["gracePeriodSeconds"] = grace.into();
        }
        self.call(Method::DELETE, &path, Some((JSON, &options))).await
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
