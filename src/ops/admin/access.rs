//! Asks the API server who may read metrics: to which user a token belongs (`TokenReview`), and whether that user
//! may (`SubjectAccessReview`). Both answers are cached for a while, as in kube-controller-manager.

use crate::cluster::connect::client_error::ClientError;
use crate::cluster::encodings::JSON;
use crate::cluster::http::{self, Head};
use crate::core::hash::KeyedMap;
use ::http::header::AUTHORIZATION;
use ::http::{HeaderMap, Method};
use futures::future::{BoxFuture, FutureExt as _, Shared};
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// The time for which any answer is cached. It is the default of upstream's `--authentication-token-webhook-cache-ttl`,
/// `--authorization-webhook-cache-authorized-ttl` and `-unauthorized-ttl`.
const BELIEVED: Duration = Duration::from_secs(10);
/// The timeout of both requests together.
const DEADLINE: Duration = Duration::from_secs(8);
/// The size of the cache. While it is full, for example of guessed tokens, no further token is reviewed.
const REMEMBERED: usize = 256;
/// The longest token that is accepted, in bytes.
const LONGEST_TOKEN: usize = 16 * 1024;

/// The decision about a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Decision {
    /// The user may read the page.
    Allowed,
    /// There is no token, or it is not valid.
    Unauthenticated,
    /// This user may not read the page.
    Forbidden(Arc<str>),
    /// The decision could not be determined, for this reason.
    Unknown(Arc<str>),
}

type Review = Shared<BoxFuture<'static, Decision>>;

/// Decides who may read metrics, and caches the decisions.
pub(super) struct Access {
    client: Client,
    /// Reviews by token and method. A review in flight is shared.
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

    /// Decides whether the sender of these headers may use this method on this path. The path is always the same, so it
    /// is not part of the cache key.
    pub(super) async fn decide(&self, headers: &HeaderMap, method: &Method, path: &'static str) -> Decision {
        let Some(token) = bearer(headers) else {
            return Decision::Unauthenticated;
        };
        let key = (token.to_owned(), method.clone());
        let now = Instant::now();
        let review = {
            let mut reviews = self.reviews.lock();
            reviews.retain(|_, (since, _)| now.saturating_duration_since(*since) < BELIEVED);
            match reviews.get(&key) {
                Some((_, review)) => review.clone(),
                None if reviews.len() >= REMEMBERED => return Decision::Unknown("too many tokens".into()),
                None => {
                    let (client, token, method) = (self.client.clone(), key.0.clone(), method.clone());
                    let review = async move {
                        timeout(DEADLINE, review(&client, &token, &method, path))
                            .await
                            .unwrap_or_else(|_| Decision::Unknown("no answer in time".into()))
                    };
                    let review = review.boxed().shared();
                    reviews.insert(key.clone(), (now, review.clone()));
                    review
                }
            }
        };
        let decision = review.clone().await;
        if let Decision::Unknown(_) = decision {
            // Failures are not cached, so the next request asks again.
            let mut reviews = self.reviews.lock();
            if reviews.get(&key).is_some_and(|(_, known)| known.ptr_eq(&review)) {
                reviews.remove(&key);
            }
        }
        decision
    }
}

/// Returns the bearer token of a request.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    let fits = !token.is_empty() && token.len() <= LONGEST_TOKEN;
    (scheme.eq_ignore_ascii_case("bearer") && fits).then_some(token)
}

async fn review(client: &Client, token: &str, method: &Method, path: &str) -> Decision {
    match try_review(client, token, method, path).await {
        Ok(decision) => decision,
        Err(error) => Decision::Unknown(error.to_string().into()),
    }
}

async fn try_review(
    client: &Client,
    token: &str,
    method: &Method,
    path: &str,
) -> Result<Decision, ClientError> {
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token},
    });
    let answer = post(client, http::TOKEN_REVIEWS, &review).await?;
    let status = &answer["status"];
    if status["authenticated"] != true {
        return Ok(Decision::Unauthenticated);
    }
    let user = &status["user"];
    let name = user["username"].as_str().unwrap_or_default();
    if name.is_empty() {
        return Ok(Decision::Unauthenticated);
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
    let answer = post(client, http::ACCESS_REVIEWS, &review).await?;
    let status = &answer["status"];
    if status["allowed"] == true && status["denied"] != true {
        Ok(Decision::Allowed)
    } else {
        Ok(Decision::Forbidden(name.into()))
    }
}

async fn post(client: &Client, uri: &str, review: &Value) -> Result<Value, ClientError> {
    let body = review.to_string().into_bytes();
    let request = http::write(Method::POST, uri, &JSON, &JSON, body)?;
    let (Head { code, .. }, body) = http::send(client, request).await?;
    if !code.is_success() {
        return Err(ClientError::new(format!("{uri}: the API server answers {code}")));
    }
    let body = body.collect_bytes().await?;
    serde_json::from_slice(&body).map_err(|error| kube::Error::SerdeError(error).into())
}
