//! Requests for admission, and the slices in them as an API server shows them to a policy.

use serde_json::{Value, json};

pub(super) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
pub(super) const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// A request for admission. Its operation follows from the objects: a create has no old one, a delete no new one.
#[derive(Clone, Debug)]
pub struct Request {
    /// The user's name, which may be empty: not every authenticator gives one.
    pub user: &'static str,
    /// The slice as it would become.
    pub object: Value,
    /// The slice as it is.
    pub old_object: Value,
}

/// A user creates a slice.
pub fn create(user: &'static str, object: Value) -> Request {
    update(user, Value::Null, object)
}

/// A user updates a slice.
pub fn update(user: &'static str, old_object: Value, object: Value) -> Request {
    Request {
        user,
        object,
        old_object,
    }
}

/// A user deletes a slice.
pub fn delete(user: &'static str, old_object: Value) -> Request {
    update(user, old_object, Value::Null)
}

impl Request {
    /// Returns the request as policies see it, as `request`.
    pub fn attributes(&self) -> Value {
        let (operation, slice) = match (&self.object, &self.old_object) {
            (Value::Null, old) => ("DELETE", old),
            (new, Value::Null) => ("CREATE", new),
            (new, _) => ("UPDATE", new),
        };
        let mut attributes = json!({
            "operation": operation,
            "namespace": slice["metadata"]["namespace"],
            "name": slice["metadata"]["name"],
            "userInfo": {"groups": ["system:authenticated"]},
        });
        if !self.user.is_empty() {
            attributes["userInfo"]["username"] = self.user.into();
        }
        attributes
    }

    /// The request in all forms that a policy may see it in.
    pub fn forms(&self) -> Vec<Self> {
        let olds = forms(&self.old_object);
        let pairs = forms(&self.object).into_iter().flat_map(|new| {
            let request = move |old| update(self.user, old, new.clone());
            olds.clone().into_iter().map(request)
        });
        pairs.collect()
    }
}

/// A list without items may be empty, null or absent.
fn forms(slice: &Value) -> Vec<Value> {
    let mut forms = vec![slice.clone()];
    for field in ["/endpoints", "/ports"] {
        if slice.pointer(field) == Some(&json!([])) {
            let nulls: Vec<_> = forms.iter().map(|form| set(form, field, Value::Null)).collect();
            let absent: Vec<_> = forms.iter().map(|form| unset(form, field)).collect();
            forms.extend(nulls.into_iter().chain(absent));
        }
    }
    forms
}

/// A slice of the Service shop/web with two endpoints.
pub fn slice(manager: &str) -> Value {
    let pod = |number: u8| {
        json!({
            "addresses": [format!("10.0.0.{number}")],
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "targetRef": {"kind": "Pod", "namespace": "shop", "name": format!("web-{number}"), "uid": "u"},
            "nodeName": "n", "zone": "a",
        })
    };
    json!({
        "metadata": {
            "name": "web-abcde", "namespace": "shop", "resourceVersion": "7",
            "labels": {MANAGED_BY: manager, SERVICE_NAME: "web"},
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Service", "name": "web", "uid": "s",
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "addressType": "IPv4",
        "endpoints": [pod(1), pod(2)],
        "ports": [{"name": "http", "protocol": "TCP", "port": 8080}],
    })
}

/// The slice with another value at a JSON pointer.
pub(super) fn set(slice: &Value, pointer: &str, value: impl Into<Value>) -> Value {
    let mut slice = slice.clone();
    let (parent, field) = pointer.rsplit_once('/').expect("a pointer has a slash");
    slice.pointer_mut(parent).expect("the slice has this field")[field] = value.into();
    slice
}

/// The slice without what is at a JSON pointer.
pub(super) fn unset(slice: &Value, pointer: &str) -> Value {
    let mut slice = slice.clone();
    let (parent, field) = pointer.rsplit_once('/').expect("a pointer has a slash");
    let parent = slice
        .pointer_mut(parent)
        .and_then(Value::as_object_mut)
        .expect("the slice has this field");
    parent.remove(field).expect("the slice has this field");
    slice
}

pub(super) fn label(slice: &Value, key: &str, value: &str) -> Value {
    let mut slice = slice.clone();
    slice["metadata"]["labels"][key] = value.into();
    slice
}

/// The slice without a label. The API server leaves out a map of labels that is empty.
pub(super) fn unlabel(slice: &Value, key: &str) -> Value {
    let mut slice = slice.clone();
    let labels = slice["metadata"]["labels"]
        .as_object_mut()
        .expect("the slice has labels");
    labels.remove(key).expect("the slice has this label");
    if labels.is_empty() {
        return unset(&slice, "/metadata/labels");
    }
    slice
}

/// A placeholder: no endpoints and no ports.
pub fn empty(slice: &Value) -> Value {
    set(&set(slice, "/endpoints", json!([])), "/ports", json!([]))
}

/// The slice of another Service, in all places that say so.
pub fn of(slice: &Value, namespace: &str, service: &str) -> Value {
    let mut slice = label(slice, SERVICE_NAME, service);
    slice["metadata"]["namespace"] = namespace.into();
    slice["metadata"]["ownerReferences"][0]["name"] = service.into();
    for endpoint in slice["endpoints"].as_array_mut().into_iter().flatten() {
        endpoint["targetRef"]["namespace"] = namespace.into();
    }
    slice
}

/// A slice with as many endpoints as it may have, and another value in the last one.
pub(super) fn large(manager: &str, field: &str, value: impl Into<Value>) -> Value {
    let mut slice = slice(manager);
    let mut endpoints = vec![slice["endpoints"][0].clone(); 1000];
    endpoints[999][field] = value.into();
    slice["endpoints"] = endpoints.into();
    slice
}
