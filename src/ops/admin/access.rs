//! Asks the API server who may read metrics: to which user a token belongs (`TokenReview`), and whether that user
//! may (`SubjectAccessReview`).
//!
//! Only tokens that were let in are remembered, so guesses take no room from them. Other tokens share a rate of reviews,
//! which bounds what guesses cost the API server; the review of a token that was let in before never waits for them.

use crate::clock;
use crate::cluster::connect::client_error::ClientError;
use crate::cluster::http::{self, Head};
use crate::core::bucket::TokenBucket;
use crate::core::hash::KeyedMap;
use ::http::header::AUTHORIZATION;
use ::http::{HeaderMap, Method};
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// The time for which a token is let in without another review. It is the default of upstream's
/// `--authentication-token-webhook-cache-ttl` and `--authorization-webhook-cache-authorized-ttl`.
const BELIEVED: Duration = Duration::from_secs(10);
/// The timeout of both requests together.
const DEADLINE: Duration = Duration::from_secs(8);
/// The number of tokens that are remembered. The one whose last review is the oldest makes room for another.
const REMEMBERED: usize = 64;
/// The longest token that is accepted, in bytes.
const LONGEST_TOKEN: usize = 16 * 1024;
/// The number of tokens that may be reviewed at once without having been let in before,
const BURST: u32 = 10;
/// and then per second. Until the deadline, these hold fewer connections than the admin server has.
const QPS: f64 = 1.0;

/// The decision about a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Decision {
    /// The user may read the page.
    Allowed,
    /// There is no token, or it is not valid.
    Unauthenticated,
    /// This user may not read the page.
    Forbidden(Arc<str>),
    /// The token was not let in before, and too many such tokens come to review this one.
    TooMany,
    /// The decision could not be determined, for this reason.
    Unknown(Arc<str>),
}

/// Decides who may read metrics.
pub(super) struct Access {
    client: Client,
    start: Instant,
    state: Mutex<State>,
}

struct State {
    /// The time, since the start, of the last review that let a token in for a method. A review that does not let it in
    /// any more takes it out.
    let_in: KeyedMap<(String, Method), Duration>,
    /// The rate at which other tokens are reviewed.
    others: TokenBucket,
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
            start: Instant::now(),
            state: Mutex::new(State {
                let_in: KeyedMap::default(),
                others: TokenBucket::new(QPS, BURST),
            }),
        }
    }

    /// Decides whether the sender of these headers may use this method on this path. The path is always the same, so it
    /// is not remembered.
    pub(super) async fn decide(&self, headers: &HeaderMap, method: &Method, path: &'static str) -> Decision {
        let Some(token) = bearer(headers) else {
            return Decision::Unauthenticated;
        };
        let key = (token.to_owned(), method.clone());
        let now = clock::since(self.start);
        {
            let mut state = self.state.lock();
            match state.let_in.get(&key).copied() {
                Some(then) if now < then + BELIEVED => return Decision::Allowed,
                None if state.others.take(now).is_err() => return Decision::TooMany,
                Some(_) | None => {}
            }
        }
        let decision = timeout(DEADLINE, review(&self.client, token, method, path))
            .await
            .unwrap_or_else(|_| Decision::Unknown("no answer in time".into()));
        self.state.lock().learn(key, &decision, now);
        decision
    }
}

impl State {
    /// Remembers a token that is let in, and forgets one that is refused.
    fn learn(&mut self, key: (String, Method), decision: &Decision, now: Duration) {
        match decision {
            Decision::Allowed => {
                self.let_in.insert(key, now);
                if self.let_in.len() > REMEMBERED
                    && let Some((oldest, _)) = self.let_in.iter().min_by_key(|(_, then)| **then)
                {
                    let oldest = oldest.clone();
                    self.let_in.remove(&oldest);
                }
            }
            Decision::Unauthenticated | Decision::Forbidden(_) => {
                self.let_in.remove(&key);
            }
            // It may be let in as soon as the API server answers again.
            Decision::TooMany | Decision::Unknown(_) => {}
        }
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
    let request = http::write(Method::POST, uri, &http::JSON, &http::JSON, body)?;
    let (Head { code, .. }, body) = http::send(client, request).await?;
    if !code.is_success() {
        return Err(ClientError::new(format!("{uri}: the API server answers {code}")));
    }
    let body = body.collect_bytes().await?;
    serde_json::from_slice(&body).map_err(|error| kube::Error::SerdeError(error).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use memory_apiserver::{ApiServer, Config};

    const RULES: &str = r"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: scraper}
rules:
- {nonResourceURLs: [/metrics], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: scraper}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: scraper}
subjects:
- {kind: ServiceAccount, name: prometheus, namespace: monitoring}
";

    /// Access by an API server that knows the tokens `scraper-0` and so on, which may read metrics.
    struct Watched {
        access: Access,
        server: ApiServer,
    }

    impl Watched {
        fn new() -> Self {
            let mut access = memory_apiserver::Access::from_yaml(RULES).unwrap();
            for n in 0..=REMEMBERED {
                access = access.service_account(&format!("scraper-{n}"), "monitoring", "prometheus");
            }
            let server = ApiServer::new(Config::default().access(access).request_log(10_000));
            Self {
                access: Access::new(Client::new(server.service_without_faults(), "default")),
                server,
            }
        }

        async fn decide(&self, token: &str) -> Decision {
            let value = format!("Bearer {token}").parse().unwrap();
            let headers = HeaderMap::from_iter([(AUTHORIZATION, value)]);
            self.access.decide(&headers, &Method::GET, "/metrics").await
        }

        fn reviews(&self) -> usize {
            let requests = self.server.requests();
            let reviews = requests
                .iter()
                .filter(|request| request.path.ends_with("tokenreviews"));
            reviews.count()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn guessed_tokens_neither_keep_a_scraper_out_nor_cost_more_reviews_than_their_rate() {
        let watched = Watched::new();
        assert_eq!(watched.decide("scraper-0").await, Decision::Allowed);
        for minute in 1..=3_usize {
            tokio::time::advance(Duration::from_secs(60)).await;
            let before = watched.reviews();
            let mut refused = 0;
            for guess in 0..2000 {
                match watched.decide(&format!("guess-{minute}-{guess}")).await {
                    Decision::Unauthenticated => refused += 1,
                    decision => assert_eq!(decision, Decision::TooMany),
                }
            }
            assert_eq!(refused, BURST as usize);
            // The last review of the scraper's token is too long ago: it has one of its own, and only one.
            for _ in 0..10 {
                assert_eq!(watched.decide("scraper-0").await, Decision::Allowed);
            }
            assert_eq!(watched.reviews() - before, refused + 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_token_that_was_reviewed_longest_ago_makes_room() {
        let watched = Watched::new();
        for n in 0..=REMEMBERED {
            tokio::time::advance(Duration::from_secs(1)).await;
            assert_eq!(watched.decide(&format!("scraper-{n}")).await, Decision::Allowed);
        }
        assert_eq!(watched.access.state.lock().let_in.len(), REMEMBERED);
        while watched.decide("guess").await == Decision::Unauthenticated {}
        assert_eq!(watched.decide("scraper-0").await, Decision::TooMany);
        assert_eq!(watched.decide("scraper-1").await, Decision::Allowed);
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_that_is_let_in_no_more_is_forgotten() {
        let watched = Watched::new();
        let key = ("late".to_owned(), Method::GET);
        watched.access.state.lock().let_in.insert(key, Duration::ZERO);
        assert_eq!(watched.decide("late").await, Decision::Allowed);
        tokio::time::advance(BELIEVED).await;
        assert_eq!(watched.decide("late").await, Decision::Unauthenticated);
        assert!(watched.access.state.lock().let_in.is_empty());
    }
}
