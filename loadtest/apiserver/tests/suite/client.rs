//! A client that sees statuses, headers and bodies as they are.

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt, Full};
use memory_apiserver::{ApiServer, ApiService, Config, ResponseBody};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io;
use tower::ServiceExt;

/// The answer to a request; its body as bytes, and as JSON if it is that.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) media: String,
    pub(crate) retry_after: String,
    pub(crate) raw: Bytes,
    pub(crate) body: Value,
}

/// A server of a test's own.
pub(crate) struct Api {
    pub(crate) server: ApiServer,
    pub(crate) service: ApiService,
}

/// The events of a watch.
pub(crate) struct Watch {
    body: ResponseBody,
    rest: Vec<u8>,
    events: VecDeque<Value>,
}

pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const PODS: &str = "/api/v1/namespaces/ns/pods";
pub(crate) const SERVICES: &str = "/api/v1/namespaces/ns/services";
pub(crate) const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/ns/endpointslices";
pub(crate) const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/ns/leases";

impl Api {
    /// A server with the namespace `ns`.
    pub(crate) async fn new(config: Config) -> Self {
        let server = ApiServer::new(config);
        let api = Self {
            service: server.service(),
            server,
        };
        api.create("/api/v1/namespaces", json!({"metadata": {"name": "ns"}}))
            .await;
        api
    }

    /// The same, without collector and with a fixed seed.
    pub(crate) async fn plain() -> Self {
        Self::new(Config::default().gc(false).seed(1)).await
    }

    /// The same server as a client sees it that no fault reaches.
    pub(crate) fn spared(&self) -> Self {
        self.through(self.server.service_without_faults())
    }

    pub(crate) fn through(&self, service: ApiService) -> Self {
        Self {
            server: self.server.clone(),
            service,
        }
    }

    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Response<ResponseBody> {
        self.try_send(request).await.unwrap()
    }

    pub(crate) async fn try_send(&self, request: Request<Full<Bytes>>) -> io::Result<Response<ResponseBody>> {
        self.service.clone().oneshot(request).await
    }

    /// A request whose connection may be lost.
    async fn try_raw(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Answer> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::copy_from_slice(body))).unwrap();
        let (head, body) = self.try_send(request).await?.into_parts();
        let raw = body.collect().await?.to_bytes();
        let text = |name| {
            let value: Option<&header::HeaderValue> = head.headers.get(name);
            value.map_or("", |value| value.to_str().unwrap()).to_owned()
        };
        Ok(Answer {
            status: head.status.as_u16(),
            media: text(header::CONTENT_TYPE),
            retry_after: text(header::RETRY_AFTER),
            body: serde_json::from_slice(&raw).unwrap_or_default(),
            raw,
        })
    }

    pub(crate) async fn raw(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        self.try_raw(method, path, headers, body).await.unwrap()
    }

    /// The answer to a request in JSON, or the error if the connection is lost.
    pub(crate) async fn attempt(&self, method: &str, path: &str, body: Value) -> io::Result<Answer> {
        let media = if method == "PATCH" {
            MERGE
        } else {
            "application/json"
        };
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        self.try_raw(method, path, &[("content-type", media)], body.as_bytes())
            .await
    }

    pub(crate) async fn call(&self, method: &str, path: &str, body: Value) -> Answer {
        self.attempt(method, path, body).await.unwrap()
    }

    /// The body of an answer that has this status.
    async fn ok(&self, status: u16, method: &str, path: &str, body: Value) -> Value {
        let answer = self.call(method, path, body).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
        answer.body
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.ok(200, "GET", path, Value::Null).await
    }

    pub(crate) async fn create(&self, path: &str, body: Value) -> Value {
        self.ok(201, "POST", path, body).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Value {
        self.ok(200, "PUT", path, body).await
    }

    pub(crate) async fn patch(&self, path: &str, body: Value) -> Value {
        self.ok(200, "PATCH", path, body).await
    }

    pub(crate) async fn delete(&self, path: &str, options: Value) -> Value {
        self.ok(200, "DELETE", path, options).await
    }

    /// Deletes an object at once.
    pub(crate) async fn remove(&self, path: &str) {
        self.delete(path, json!({"gracePeriodSeconds": 0})).await;
    }

    /// Gives an object labels.
    pub(crate) async fn label(&self, path: &str, labels: Value) -> Value {
        self.patch(path, json!({"metadata": {"labels": labels}})).await
    }

    pub(crate) async fn is_gone(&self, path: &str) -> bool {
        self.call("GET", path, Value::Null).await.status == 404
    }

    /// The refusal of a request, which must have left everything as it was.
    pub(crate) async fn refused(&self, method: &str, path: &str, body: Value) -> Value {
        let before = self.everything().await;
        let answer = self.call(method, path, body).await;
        assert!(answer.status >= 400, "{method} {path}: {}", answer.body);
        assert_eq!(answer.body["code"], answer.status);
        assert_eq!(self.everything().await, before);
        answer.body
    }

    /// Checks that a request is refused with this status, and leaves everything as it was.
    pub(crate) async fn refuses(&self, code: u16, method: &str, path: &str, body: Value) {
        let said = self.refused(method, path, body).await;
        assert_eq!(said["code"], code, "{method} {path}: {said}");
    }

    /// All that is stored, and the version.
    pub(crate) async fn everything(&self) -> Vec<Value> {
        let mut all = Vec::new();
        for path in [
            "/api/v1/namespaces",
            "/api/v1/nodes",
            "/api/v1/pods",
            "/api/v1/services",
            "/api/v1/endpoints",
            "/api/v1/events",
            "/apis/coordination.k8s.io/v1/leases",
            "/apis/discovery.k8s.io/v1/endpointslices",
        ] {
            all.push(self.get(path).await);
        }
        all
    }

    pub(crate) async fn watch(&self, path: &str) -> Watch {
        self.watch_as(path, "application/json").await
    }

    pub(crate) async fn watch_as(&self, path: &str, accept: &str) -> Watch {
        let request = Request::get(path)
            .header("accept", accept)
            .body(Full::default())
            .unwrap();
        let response = self.send(request).await;
        assert_eq!(response.status().as_u16(), 200);
        assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json");
        Watch::of(response.into_body())
    }
}

impl Watch {
    pub(crate) fn of(body: ResponseBody) -> Self {
        Self {
            body,
            rest: Vec::new(),
            events: VecDeque::new(),
        }
    }

    /// The next piece as it comes.
    pub(crate) async fn piece(&mut self) -> Option<io::Result<Bytes>> {
        let frame = self.body.frame().await?;
        Some(frame.map(|f| f.into_data().unwrap()))
    }

    /// All pieces up to the end or the loss of the connection.
    pub(crate) async fn pieces(&mut self) -> (Vec<u8>, Option<io::ErrorKind>) {
        let mut all = Vec::new();
        while let Some(piece) = self.piece().await {
            match piece {
                Ok(piece) => all.extend_from_slice(&piece),
                Err(error) => return (all, Some(error.kind())),
            }
        }
        (all, None)
    }

    /// The next event; none when the watch has ended.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            let frame = self.body.frame().await?;
            self.rest.extend_from_slice(&frame.unwrap().into_data().unwrap());
            while let Some(end) = self.rest.iter().position(|c| *c == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                self.events.push_back(serde_json::from_slice(&line).unwrap());
            }
        }
    }

    /// The next event as `TYPE name`.
    pub(crate) async fn told(&mut self) -> String {
        let event = self.next().await.expect("the watch goes on");
        let name = event["object"]["metadata"]["name"].as_str().unwrap_or("-");
        format!("{} {name}", event["type"].as_str().unwrap())
    }

    /// All events up to the end of the watch.
    pub(crate) async fn rest(mut self) -> Vec<Value> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }
}

pub(crate) fn pod(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"nodeName": "node-1", "containers": [{"name": "c", "image": "example.com/c:1"}]},
    })
}

pub(crate) fn slice(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.1.0.1"]}],
        "ports": [{"port": 80}],
    })
}

pub(crate) fn service(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}})
}

pub(crate) fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap()
}

pub(crate) fn names(list: &Value) -> Vec<&str> {
    list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|o| o["metadata"]["name"].as_str().unwrap())
        .collect()
}
