//! Endpoints that the API server deletes with their Service, or others by themselves.

use crate::lifecycle::{published, watch_all};
use crate::model::{Model, ServiceSpec};
use endpointd::core::body::Request;
use std::sync::Arc;

/// A Service with two pods, published, and its name.
fn service() -> (Model, Arc<str>) {
    let model = published(2, 3);
    let name = model.endpoints.keys().next().unwrap().clone();
    (model, name)
}

/// Plans, and grants all requests that are due.
fn send_all(model: &mut Model) -> Vec<Request> {
    model.plan();
    let pending = model.pending.len();
    (0..pending).filter_map(|_| model.grant(0)).collect()
}

fn is_delete(request: &Request) -> bool {
    matches!(request, Request::Delete(_))
}

fn is_create(request: &Request) -> bool {
    matches!(request, Request::Create(_))
}

/// kube-apiserver deletes Endpoints right after their Service, so a request of ours would be one too many.
#[test]
fn endpoints_of_a_service_that_is_gone_are_left_to_the_api_server_for_a_while() {
    for by_the_server in [true, false] {
        let (mut model, name) = service();
        model.service_gone(&name);
        assert_eq!(send_all(&mut model), [], "the API server has time");
        if by_the_server {
            model.delete_endpoints(&name);
            watch_all(&mut model);
        }
        model.let_wait_end();
        let sent = send_all(&mut model);
        assert_eq!(sent.len(), usize::from(!by_the_server), "{sent:?}");
        assert!(sent.iter().all(is_delete), "{sent:?}");
    }
}

/// The watch of Endpoints can show that they are gone before the watch of Services shows that their Service is.
#[test]
fn endpoints_that_are_gone_are_made_again_unless_their_service_is_gone_too() {
    for gone in [true, false] {
        let (mut model, name) = service();
        model.delete_endpoints(&name);
        watch_all(&mut model);
        assert_eq!(send_all(&mut model), [], "the Service may be gone too");
        if gone {
            model.service_gone(&name);
        }
        model.let_wait_end();
        let sent = send_all(&mut model);
        assert_eq!(sent.len(), usize::from(!gone), "{sent:?}");
        assert!(sent.iter().all(is_create), "{sent:?}");
    }
}

/// A Service that is made again takes over Endpoints that were left to the API server, which then deletes them.
#[test]
fn a_service_that_is_made_again_has_endpoints_whenever_the_api_server_deletes_the_earlier_ones() {
    for deleted_first in [true, false] {
        let (mut model, name) = service();
        model.service_gone(&name);
        if deleted_first {
            model.delete_endpoints(&name);
        }
        model.service(ServiceSpec::plain().facts());
        if !deleted_first {
            model.plan();
            model.delete_endpoints(&name);
        }
        model.converge();
        assert!(model.endpoints.contains_key(&name));
        assert_eq!(model.published(), model.expected());
    }
}
