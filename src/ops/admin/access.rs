//! Who may read metrics, by asking the API server: who is behind a token (`TokenReview`), and whether they may
//! (`SubjectAccessReview`). Both answers are kept for a while, as kube-controller-manager keeps them.

use crate::cluster::client_error::ClientError;
use crate::core::hash::KeyedMap;
use futures::future::{BoxFuture, FutureExt as _, Shared};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, Method, Request};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// For how long an answer is believed, whatever it is: upstream's `--authentication-token-webhook-cache-ttl`,
/// `--authorization-webhook-cache-authorized-ttl` and `-unauthorized-ttl` have that default.
const BELIEVED: Duration = Duration::from_secs(10);
/// How long both answers together may take.
const DEADLINE: Duration = Duration::from_secs(8);
/// How many tokens are remembered. Beyond that those who guess are not kept apart from each other any more.
const REMEMBERED: usize = 256;
/// Tokens are not longer than this.
const LONGEST_TOKEN: usize = 16 * 1024;

/// What is decided of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// Whoever asks may.
    Allowed,
    /// Nobody is behind the token, or there is none.
    Unauthenticated,
    /// This user may not.
    Forbidden(Arc<str>),
    /// It is not known.
    Unknown(Arc<str>),
}

type Review = Shared<BoxFuture<'static, Verdict>>;

/// Decides who may read what.
pub(super) struct Access {
    client: Client,
    /// By token and method. A review that is under way is shared.
    reviews: Mutex<KeyedMap<(String, Method), (Instant, Review)>>,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").finish_non_exhaustive()
    }
}

impl Access {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            reviews: Mutex::default(),
        }
    }

    /// Whether whoever sends these headers may use this method on this path, which is always the same.
    pub(super) async fn decide(&self, headers: &HeaderMap, method: &Method, path: &'static str) -> Verdict {
        let Some(token) = bearer(headers) else {
            return Verdict::Unauthenticated;
        };
        let key = (token.to_owned(), method.clone());
        let now = Instant::now();
        let review = {
            let mut reviews = self.reviews.lock();
            reviews.retain(|_, (since, _)| now.saturating_duration_since(*since) < BELIEVED);
            match reviews.get(&key) {
                Some((_, review)) => review.clone(),
                None if reviews.len() >= REMEMBERED => return Verdict::Unknown("too many tokens".into()),
                None => {
                    let (client, token, method) = (self.client.clone(), key.0.clone(), method.clone());
                    let review = async move {
                        timeout(DEADLINE, review(&client, &token, &method, path))
                            .await
                            .unwrap_or_else(|_| Verdict::Unknown("no answer in time".into()))
                    };
                    let review = review.boxed().shared();
                    reviews.insert(key.clone(), (now, review.clone()));
                    review
                }
            }
        };
        let verdict = review.clone().await;
        if let Verdict::Unknown(_) = verdict {
            // Not believed: who comes next asks again.
            let mut reviews = self.reviews.lock();
            if reviews.get(&key).is_some_and(|(_, known)| known.ptr_eq(&review)) {
                reviews.remove(&key);
            }
        }
        verdict
    }
}

/// The token of a request.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    let fits = !token.is_empty() && token.len() <= LONGEST_TOKEN;
    (scheme.eq_ignore_ascii_case("bearer") && fits).then_some(token)
}

async fn review(client: &Client, token: &str, method: &Method, path: &str) -> Verdict {
    match try_review(client, token, method, path).await {
        Ok(verdict) => verdict,
        Err(error) => Verdict::Unknown(error.to_string().into()),
    }
}

async fn try_review(
    client: &Client,
    token: &str,
    method: &Method,
    path: &str,
) -> Result<Verdict, ClientError> {
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token},
    });
    let uri = "/apis/authentication.k8s.io/v1/tokenreviews";
    let answer = post(client, uri, &review).await?;
    let status = &answer["status"];
    if status["authenticated"] != true {
        return Ok(Verdict::Unauthenticated);
    }
    let user = &status["user"];
    let name = user["username"].as_str().unwrap_or_default();
    if name.is_empty() {
        return Ok(Verdict::Unauthenticated);
    }
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": name,
            "uid": user["uid"],
            "groups": user["groups"],
            "extra": user["extra"],
            "nonResourceAttributes": {"path": path, "verb": method.as_str().to_ascii_lowercase()},
        },
    });
    let uri = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let answer = post(client, uri, &review).await?;
    let status = &answer["status"];
    if status["allowed"] == true && status["denied"] != true {
        Ok(Verdict::Allowed)
    } else {
        Ok(Verdict::Forbidden(name.into()))
    }
}

async fn post(client: &Client, uri: &str, review: &Value) -> Result<Value, ClientError> {
    let request = Request::post(uri)
        .header(CONTENT_TYPE, "application/json")
        .body(Body::from(review.to_string().into_bytes()))?;
    let response = client.send(request).await?;
    let code = response.status();
    let body = response.into_body().collect_bytes().await?;
    if !code.is_success() {
        return Err(ClientError::new(format!("{uri}: the API server answers {code}")));
    }
    serde_json::from_slice(&body).map_err(|error| kube::Error::SerdeError(error).into())
}
