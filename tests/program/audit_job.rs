//! `endpointd audit` as the `CronJob` of `deploy/kustomize/components/audit` runs it: with its arguments, and with the rights of its
//! account, which may only read.

use crate::cluster::Api;
use crate::command::{Ended, endpointd};
use crate::objects;
use crate::rbac::grants::{self, Grants};
use crate::rbac::process::{WithToken, kubeconfig};
use memory_apiserver::{Config, Handle, start};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Far longer than anything takes on a machine that is busy with other things.
const LIMIT: Duration = Duration::from_secs(60);

/// The arguments in the manifest. Its `--settle` is for clusters.
fn args() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/kustomize/components/audit/cronjob.yaml");
    let manifest: Value = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let pod = &manifest["spec"]["jobTemplate"]["spec"]["template"]["spec"];
    let args = pod["containers"][0]["args"].as_array().unwrap().iter();
    let mut args: Vec<String> = args.map(|arg| arg.as_str().unwrap().to_owned()).collect();
    assert_eq!(args[0], "audit");
    assert!(args.iter().any(|arg| arg.starts_with("--settle=")), "{args:?}");
    args.push("--settle=100ms".to_owned());
    args
}

/// A cluster with a Service and two pods.
async fn cluster(grants: &[&Grants]) -> (Handle, Api) {
    let access = grants::access(grants);
    let config = Config::default().gc(false).request_log(10_000).access(access);
    let handle = start(config).await.unwrap();
    let service = handle.server().service_without_faults().with_token(grants::ADMIN);
    let api = Api(kube::Client::new(service, "default"));
    api.create(&objects::node("n", None, None), "").await.unwrap();
    for number in 1..=2 {
        let pod = objects::pod(&format!("p{number}"), &format!("10.1.0.{number}"), "n");
        api.create(&pod, "default").await.unwrap();
    }
    api.create(&objects::service(), "default").await.unwrap();
    (handle, api)
}

async fn audit(handle: &Handle, grants: &Grants) -> Ended {
    let kubeconfig = kubeconfig(handle, grants.token());
    let mut args = args();
    args.extend(["--kubeconfig".to_owned(), kubeconfig.path().to_owned()]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    endpointd(&args).await
}

fn last_line(ended: &Ended) -> &str {
    ended.stdout.trim_end().lines().last().unwrap_or_default()
}

#[tokio::test]
async fn its_exit_code_and_its_last_line_tell_what_is_out_of_sync_and_it_only_reads() {
    let (controller, audits) = (Grants::of_base(), Grants::of_audits());
    for grants::Grant { verb, resource, .. } in audits.all() {
        assert!(["get", "list", "watch"].contains(&&*verb), "{verb} {resource}");
    }
    let (handle, api) = cluster(&[&controller, &audits]).await;
    let ended = audit(&handle, &audits).await;
    assert_eq!(ended.code, Some(1), "nothing is published yet: {ended:?}");
    assert!(last_line(&ended).ends_with("1 out of sync"), "{ended:?}");

    let mut process = WithToken::start(&handle, controller.token(), &[]);
    let begin = Instant::now();
    loop {
        if audit(&handle, &audits).await.code == Some(0) {
            break;
        }
        let waited = Instant::now().saturating_duration_since(begin);
        assert!(waited < LIMIT, "nothing is published\n{}", process.log());
        sleep(Duration::from_millis(20)).await;
    }
    process.terminate().await;

    let before = handle.server().requests().len();
    let ended = audit(&handle, &audits).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(last_line(&ended).ends_with(" 0 out of sync"), "{ended:?}");
    let requests = handle.server().requests().split_off(before);
    assert!(requests.len() >= 4, "{requests:?}");
    for request in &requests {
        assert_eq!(
            (request.method.as_str(), request.status),
            ("GET", 200),
            "{request:?}"
        );
    }

    // Another client takes an endpoint out, and no controller puts it back.
    let slices = api.slices_of("default", "s").await.unwrap();
    let name = slices[0]["metadata"]["name"].as_str().unwrap();
    let emptied = json!({"endpoints": []});
    api.patch("EndpointSlice", "default", name, None, &emptied)
        .await
        .unwrap();
    let ended = audit(&handle, &audits).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stdout.contains("default/s"), "{ended:?}");
    assert!(last_line(&ended).ends_with("1 out of sync"), "{ended:?}");
}

#[tokio::test]
async fn without_its_binding_it_could_not_be_made_and_says_why_in_its_last_line() {
    let (controller, audits) = (Grants::of_base(), Grants::of_audits().without_bindings());
    let (handle, _api) = cluster(&[&controller, &audits]).await;
    let ended = audit(&handle, &audits).await;
    let why = ended.refused();
    assert!(why.contains("forbidden"), "{why}");
}
