//! A small API client on JSON values: enough to carry out a scenario and to read what settled.

use http::{Method, Request, header};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";

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
    /// Sends a request, with a body of this content type.
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<Value, Error> {
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
        let value: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        if code < 300 {
            return Ok(value);
        }
        let message = value["message"].as_str().map(str::to_owned);
        Err(Error::Refused {
            message: message.unwrap_or_else(|| String::from_utf8_lossy(&bytes).into_owned()),
            request: shown,
            code,
        })
    }

    /// The path of a kind's collection or of one of its objects. The namespace is left out where a kind has none.
    pub fn path(kind: &str, namespace: &str, name: Option<&str>) -> Result<String, Error> {
        let (base, plural, namespaced) = match kind {
            "Namespace" => ("/api/v1", "namespaces", false),
            "Node" => ("/api/v1", "nodes", false),
            "Pod" => ("/api/v1", "pods", true),
            "Service" => ("/api/v1", "services", true),
            "Endpoints" => ("/api/v1", "endpoints", true),
            "Event" => ("/api/v1", "events", true),
            "EndpointSlice" => ("/apis/discovery.k8s.io/v1", "endpointslices", true),
            "Lease" => ("/apis/coordination.k8s.io/v1", "leases", true),
            _ => {
                return Err(Error::Scenario(format!(
                    "scenarios have no objects of kind {kind:?}"
                )));
            }
        };
        let namespace = if namespaced {
            format!("/namespaces/{namespace}")
        } else {
            String::new()
        };
        let name = name.map(|name| format!("/{name}")).unwrap_or_default();
        Ok(format!("{base}{namespace}/{plural}{name}"))
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
        let path = Self::path(kind, namespace, None)?;
        let mut list = self.call(Method::GET, &path, None).await?;
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
