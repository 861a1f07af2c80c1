//! The real binary, run to its end.

use super::cluster::{self, Api};
use memory_apiserver::{Access, Config, Handle};
use serde_json::json;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// The outcome of a command.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// Asserts that the command failed, and said why in one line, which is returned. Only the parser of flags says more.
    pub(crate) fn refused(&self) -> &str {
        assert_eq!(self.code, Some(2), "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        let (why, usage) = self.stderr.split_once("\n\n").unwrap_or((&self.stderr, ""));
        let why = why.trim_end();
        if usage.is_empty() {
            assert_eq!(why.lines().count(), 1, "{self:?}");
        } else {
            assert!(usage.contains("'--help'"), "{self:?}");
        }
        why.strip_prefix("error: ").unwrap_or_else(|| panic!("{self:?}"))
    }
}

/// Runs it, away from any kubeconfig.
pub(crate) async fn endpointd(args: &[&str]) -> Ended {
    endpointd_at_home("/nonexistent", args).await
}

/// The same, as a user with this home directory.
pub(crate) async fn endpointd_at_home(home: &str, args: &[&str]) -> Ended {
    endpointd_with(&[("HOME", home)], args).await
}

/// The same, with these variables in its environment.
pub(crate) async fn endpointd_with(variables: &[(&str, &str)], args: &[&str]) -> Ended {
    let child = Command::new(env!("CARGO_BIN_EXE_endpointd"))
        .args(args)
        .env_remove("KUBECONFIG")
        .env_remove("HTTPS_PROXY")
        .env_remove("https_proxy")
        .env_remove("NO_PROXY")
        .env_remove("no_proxy")
        .env_remove("NO_COLOR")
        .env_remove("CLICOLOR_FORCE")
        .env("HOME", "/nonexistent")
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let kill = format!("kill -KILL {}", child.id());
    let waiting = tokio::task::spawn_blocking(move || child.wait_with_output());
    let Ok(ended) = timeout(Duration::from_secs(60), waiting).await else {
        let _ = Command::new("sh").args(["-c", &kill]).status();
        panic!("endpointd {args:?} does not end");
    };
    let ended = ended.unwrap().unwrap();
    Ended {
        code: ended.status.code(),
        stdout: String::from_utf8(ended.stdout).unwrap(),
        stderr: String::from_utf8(ended.stderr).unwrap(),
    }
}

/// A server on loopback, without garbage collection, and a client of it.
pub(crate) async fn serve() -> (Handle, Api) {
    cluster::serve(Config::default().gc(false).request_log(10_000)).await
}

/// Access for the user of the token `token`: to get and list these resources.
pub(crate) fn access(resources: &str) -> Access {
    Access::from_yaml(&format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {{name: r}}\nrules:\n\
         - {{apiGroups: ['', discovery.k8s.io, coordination.k8s.io], resources: [{resources}], verbs: [get, list]}}\n---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {{name: r}}\n\
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: r}}\n\
         subjects: [{{kind: ServiceAccount, name: looker, namespace: default}}]\n"
    ))
    .unwrap()
    .service_account("token", "default", "looker")
}

/// Writes a kubeconfig for a server, with the token `token`, to a file of this name in the folder for temporary files.
pub(crate) fn kubeconfig(name: &str, server: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("endpointd-{name}-{}.kubeconfig", std::process::id()));
    let text = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "token"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]});
    std::fs::write(&path, text.to_string()).unwrap();
    path
}

/// Waits until an audit finds everything in sync.
pub(crate) async fn until_in_sync(server: &str) {
    let audit = ["audit", "--server", server, "--settle=100ms"];
    let mut ended = endpointd(&audit).await;
    for _ in 0..50 {
        if ended.code == Some(0) {
            return;
        }
        sleep(Duration::from_millis(100)).await;
        ended = endpointd(&audit).await;
    }
    panic!("never in sync: {ended:?}");
}
