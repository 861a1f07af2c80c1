//! The admission policy of `deploy/guard` on a real API server. The requests are those that tests evaluate it with
//! (`scenario::guard`): each is sent in its user's name, as a dry run. Then endpointd does its work under the policy.

use super::{Work, manifests};
use crate::api::{self, Http, Resource};
use crate::objects::object;
use crate::real::cluster::{Cluster, UPSTREAM};
use crate::real::manifests::{Applier, documents};
use crate::real::render::{flags, kustomize};
use crate::real::table::Outcome;
use crate::wait::until;
use anyhow::{Context, ensure};
use http::header::CONTENT_TYPE;
use http::{Method, Request, StatusCode};
use kube::Client;
use kube::client::Body;
use scenario::guard::{
    CUSTOM, Case, ENDPOINTD, EXCLUDED_NAMESPACE, MIRRORED, SLICES, all, create, large_slices, of, slice,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

/// API servers take up a policy after a second or so.
const ACTIVE_LIMIT: Duration = Duration::from_secs(30);
/// How many surprises are shown.
const SHOWN: usize = 5;
/// Names of variables that are adapted, in their order.
const VARIABLES: [&str; 2] = ["managers", "excludedNamespaces"];

/// The answer of an API server to a request.
#[derive(Debug)]
enum Answer {
    Allowed,
    /// Refused by the policy, with its messages.
    Refused(String),
    /// Refused before any policy is asked: the request is not valid.
    Invalid,
}

/// The slice that a request is about, as it is before.
#[derive(Debug)]
enum Stored {
    /// There is none: it is created.
    None,
    Slice(Value),
    /// No API server would store it.
    Impossible,
}

pub(super) async fn run(work: &Work) -> anyhow::Result<Outcome> {
    let tried = try_requests(work).await?;
    let worked = work_under_it(work).await.context("endpointd under the guard")?;
    Ok(match tried {
        Ok(words) => Outcome::passed(format!("{words}; {worked}")),
        Err(words) => Outcome::failed(words),
    })
}

/// The policy with its binding, for these managers and excluded namespaces.
fn policy(work: &Work, managers: &[&str], excluded: &[&str]) -> anyhow::Result<Vec<Value>> {
    let list = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
        json!(format!("[{}]", names.join(", ")))
    };
    let mut objects = Vec::new();
    for file in ["policy.yaml", "binding.yaml"] {
        let path = work.deploy.join("guard").join(file);
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        objects.extend(documents(&text)?);
    }
    let variables = &mut objects[0]["spec"]["variables"];
    for (at, (name, value)) in VARIABLES.iter().zip([list(managers), list(excluded)]).enumerate() {
        ensure!(
            variables[at]["name"] == *name,
            "variable {at} of the policy is not {name}"
        );
        variables[at]["expression"] = value;
    }
    Ok(objects)
}

/// Sends every request of the tests. A request that was not decided as it should be is an error.
async fn try_requests(work: &Work) -> anyhow::Result<Result<String, String>> {
    let cluster = Cluster::start(work.folder(), "guard", &work.out, &[]).await?;
    let (client, http) = (cluster.client().await?, cluster.http().await?);
    let mut applier = Applier::new(http.clone());
    // The guard decides, and not roles.
    applier.apply_all(&everybody_may_write_slices()).await?;
    let mut cases = all().0;
    cases.extend(large_slices().0);
    // Users without a name cannot be impersonated.
    cases.retain(|case| !case.request.user.is_empty());
    let mut namespaces = BTreeSet::new();
    for case in &cases {
        for slice in [&case.request.object, &case.request.old_object] {
            namespaces.extend(slice["metadata"]["namespace"].as_str().map(str::to_owned));
        }
    }
    for namespace in namespaces {
        applier
            .apply(&object("Namespace", &namespace, json!({})), false)
            .await?;
    }
    // Objects that are updated or deleted have to be there, and some of them could not be made under the guard.
    let mut stored = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        stored.push(
            store(&http, number, &case.request.old_object)
                .await
                .with_context(|| case.name.clone())?,
        );
    }
    let objects = policy(work, &[SLICES, MIRRORED, CUSTOM], &[EXCLUDED_NAMESPACE])?;
    applier.apply_all(&objects).await?;
    active(&client).await?;
    let (mut allowed, mut refused, mut invalid) = (0, 0, 0);
    let mut surprises = Vec::new();
    for (number, (case, stored)) in cases.iter().zip(&stored).enumerate() {
        let answer = ask(&client, number, case, stored).await?;
        match (&answer, case.expected) {
            (Answer::Allowed, None | Some([])) => allowed += 1,
            // The API server tells the first reason alone.
            (Answer::Refused(messages), Some([first, ..])) if messages.contains(first) => refused += 1,
            (Answer::Invalid, Some(words)) if !words.is_empty() => invalid += 1,
            _ => surprises.push(format!("{}: {answer:?}, expected {:?}", case.name, case.expected)),
        }
    }
    let checked = http
        .read("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/endpointd-guard")
        .await?;
    let warnings = &checked["status"]["typeChecking"]["expressionWarnings"];
    cluster.stop().await?;
    if let Some(warnings) = warnings.as_array().filter(|warnings| !warnings.is_empty()) {
        surprises.push(format!("the API server warns of types: {warnings:?}"));
    }
    let words = format!(
        "of {} requests, {allowed} are allowed and {refused} refused as they should be, {invalid} are refused as invalid",
        cases.len()
    );
    Ok(if surprises.is_empty() {
        Ok(words)
    } else {
        let shown = surprises
            .iter()
            .take(SHOWN)
            .cloned()
            .collect::<Vec<_>>()
            .join("\n");
        Err(format!(
            "{words}; {} are not decided as they should be\n{shown}",
            surprises.len()
        ))
    })
}

fn everybody_may_write_slices() -> [Value; 2] {
    let mut role = object("ClusterRole", "slices", json!({}));
    role["apiVersion"] = json!("rbac.authorization.k8s.io/v1");
    role["rules"] =
        json!([{ "apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["*"] }]);
    let mut binding = object("ClusterRoleBinding", "slices", json!({}));
    binding["apiVersion"] = role["apiVersion"].clone();
    binding["roleRef"] =
        json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "slices" });
    binding["subjects"] =
        json!([{ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated" }]);
    [role, binding]
}

/// A slice as it is sent: with a name of its own, and without what the server decides.
fn named(slice: &Value, number: usize) -> Value {
    let mut slice = slice.clone();
    slice["apiVersion"] = json!("discovery.k8s.io/v1");
    slice["kind"] = json!("EndpointSlice");
    slice["metadata"]["name"] = json!(format!("case-{number}"));
    if let Some(fields) = slice["metadata"].as_object_mut() {
        fields.remove("resourceVersion");
    }
    slice
}

fn path(slice: &Value, name: &str) -> String {
    Resource::Slices.path(slice["metadata"]["namespace"].as_str().unwrap_or_default(), name)
}

/// Creates the slice that a request is about, if it is about one that is there.
async fn store(http: &Http, number: usize, old: &Value) -> anyhow::Result<Stored> {
    if old.is_null() {
        return Ok(Stored::None);
    }
    match http.ask(&path(old, ""), &named(old, number)).await {
        Ok(stored) => Ok(Stored::Slice(stored)),
        Err(error) if api::code(&error) == Some(422) => Ok(Stored::Impossible),
        Err(error) => Err(error),
    }
}

/// Sends a request as its user, as a dry run.
async fn ask(client: &Client, number: usize, case: &Case, stored: &Stored) -> anyhow::Result<Answer> {
    let request = &case.request;
    let name = format!("case-{number}");
    let (method, path, body) = match (&request.object, stored) {
        (Value::Null, Stored::Slice(stored)) => (Method::DELETE, path(stored, &name), Value::Null),
        (new, Stored::None) => (Method::POST, path(new, ""), named(new, number)),
        (new, Stored::Slice(stored)) => {
            let mut new = named(new, number);
            new["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
            (Method::PUT, path(&new, &name), new)
        }
        (_, Stored::Impossible) => return Ok(Answer::Invalid),
    };
    let bytes = if body.is_null() {
        Vec::new()
    } else {
        body.to_string().into_bytes()
    };
    let request = Request::builder()
        .method(method)
        .uri(format!("{path}?dryRun=All"))
        .header(CONTENT_TYPE, "application/json")
        .header("Impersonate-User", request.user)
        .body(Body::from(bytes))?;
    let response = client.send(request).await?;
    let status = response.status();
    let text = response.into_body().collect_bytes().await?;
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok(match status {
        status if status.is_success() => Answer::Allowed,
        StatusCode::FORBIDDEN if text.contains("ValidatingAdmissionPolicy") => Answer::Refused(text),
        StatusCode::UNPROCESSABLE_ENTITY => Answer::Invalid,
        status => anyhow::bail!("{}: {status}: {text}", case.name),
    })
}

/// Waits until the policy is asked.
async fn active(client: &Client) -> anyhow::Result<()> {
    let case = Case {
        name: "a slice of a manager that is not switched on".to_owned(),
        request: create(ENDPOINTD, of(&slice("example.com"), "default", "web")),
        expected: None,
    };
    until("the API server asks the policy", ACTIVE_LIMIT, async || {
        let answer = ask(client, 0, &case, &Stored::None).await?;
        ensure!(
            matches!(answer, Answer::Refused(_)),
            "a request was answered {answer:?}"
        );
        Ok(())
    })
    .await
}

/// Runs the overlay `opt-in` under the guard, beside the controllers of Kubernetes.
async fn work_under_it(work: &Work) -> anyhow::Result<&'static str> {
    let mut objects = kustomize(work.folder(), &work.deploy.join("kustomize/overlays/opt-in"))?;
    let flags = flags(&objects)?;
    objects.extend(policy(work, &[CUSTOM], &[])?);
    let mut cluster = Cluster::bare(work.folder(), "guard-opt-in", &work.out, &[]).await?;
    cluster.install(&objects).await?;
    active(&cluster.client().await?).await?;
    let upstream = cluster.start_upstream(UPSTREAM, &[])?;
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let endpointd = cluster.start_endpointd("endpointd", 100, &flags).await?;
    let http = cluster.http().await?;
    manifests::annotated(&http).await?;
    cluster
        .audit(&["--controllers=custom-selector-controller"])
        .await?;
    endpointd.stop().await?;
    upstream.end_or_kill(Duration::from_secs(10)).await?;
    manifests::nothing_refused(&cluster)?;
    cluster.stop().await?;
    Ok("endpointd publishes annotated Services under it")
}
