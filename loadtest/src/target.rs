//! The cluster that a run works on, or is cleaned out of.

use crate::api::{self, Http};
use crate::controller::Server;
use crate::http2;
use anyhow::{Context, anyhow, bail, ensure};
use http::Uri;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use memory_apiserver::{ApiServer, Handle};
use serde_json::{Value, json};
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// The rights that a run needs in a cluster that it did not make.
const NEEDED: [(&str, &str, &str, &[&str]); 7] = [
    ("", "namespaces", "", &["create", "delete", "list"]),
    ("", "nodes", "", &["create", "delete", "list"]),
    ("", "pods", "", &["create", "delete", "deletecollection", "list"]),
    ("", "pods", "status", &["patch"]),
    (
        "",
        "services",
        "",
        &["create", "patch", "delete", "deletecollection", "list"],
    ),
    ("", "endpoints", "", &["list", "watch", "deletecollection"]),
    (
        "discovery.k8s.io",
        "endpointslices",
        "",
        &["list", "watch", "deletecollection"],
    ),
];

/// A cluster.
pub(crate) enum Target {
    Embedded(Embedded),
    Cluster { config: Box<Config>, path: PathBuf },
}

/// An API server in memory, on threads of its own, so that it does not wait for the generator.
pub(crate) struct Embedded {
    handle: Option<Handle>,
    url: String,
    runtime: Option<tokio::runtime::Runtime>,
}

/// Makes clients of a cluster.
#[derive(Clone)]
pub(crate) enum Connector {
    Url(String),
    Config(Box<Config>),
}

// === impl Connector ===

impl Connector {
    /// A client with connections of its own, which hides no failure behind retries.
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        match self {
            Self::Url(url) => api::client(url),
            Self::Config(config) => Client::try_from(Config::clone(config)).map_err(|error| match error {
                // kube's words hold the proxy's URL, and with it a password.
                kube::Error::ProxyProtocolDisabled { .. } | kube::Error::ProxyProtocolUnsupported { .. } => {
                    anyhow!("the proxy, which proxy-url in the kubeconfig or HTTPS_PROXY sets, must be http:// or https://")
                }
                error => error.into(),
            }),
        }
    }

    /// A client over HTTP/2, with a connection of its own.
    pub(crate) fn http2_client(&self) -> anyhow::Result<Client> {
        match self {
            Self::Url(url) => http2::client(&Config::new(url.parse()?)),
            Self::Config(config) => http2::client(config),
        }
    }
}

// === impl Target ===

impl Target {
    /// Starts the server in memory.
    pub(crate) async fn embedded(config: memory_apiserver::Config) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .thread_name("apiserver")
            .enable_all()
            .build()?;
        let started = runtime.spawn(memory_apiserver::start(config)).await?;
        let handle = started.context("listening on loopback")?;
        Ok(Self::Embedded(Embedded {
            url: handle.url(),
            handle: Some(handle),
            runtime: Some(runtime),
        }))
    }

    /// The cluster of a file's current context.
    pub(crate) async fn cluster(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let kubeconfig = Kubeconfig::read_from(path).with_context(|| format!("reading {shown}"))?;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .with_context(|| format!("reading {shown}"))?;
        config.default_retry = false;
        Ok(Self::Cluster {
            config: Box::new(config),
            path: path.to_owned(),
        })
    }

    /// Makes clients of it.
    pub(crate) fn connector(&self) -> Connector {
        match self {
            Self::Embedded(embedded) => Connector::Url(embedded.url.clone()),
            Self::Cluster { config, .. } => Connector::Config(config.clone()),
        }
    }

    /// A client with connections of its own, which hides no failure behind retries.
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        self.connector().client()
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Self::Embedded(embedded) => embedded.url.clone(),
            Self::Cluster { config, .. } => config.cluster_url.to_string(),
        }
    }

    /// How a controller that is started reaches it.
    pub(crate) fn reached_by(&self) -> Server {
        match self {
            Self::Embedded(embedded) => Server::Url(embedded.url.clone()),
            Self::Cluster { path, .. } => Server::Kubeconfig(path.clone()),
        }
    }

    pub(crate) fn is_embedded(&self) -> bool {
        matches!(self, Self::Embedded(_))
    }

    /// The server itself, if it is in memory.
    pub(crate) fn server(&self) -> Option<&ApiServer> {
        match self {
            Self::Embedded(embedded) => embedded.handle.as_ref().map(Handle::server),
            Self::Cluster { .. } => None,
        }
    }

    /// Asks the user at the terminal before anything is written to a server that is not on loopback.
    pub(crate) fn confirm(&self, what: &str, yes: bool) -> anyhow::Result<()> {
        let Self::Cluster { config, .. } = self else {
            return Ok(());
        };
        if yes || is_loopback(&config.cluster_url) {
            return Ok(());
        }
        let url = &config.cluster_url;
        ensure!(
            io::stdin().is_terminal(),
            "{url} is not on loopback, and there is no terminal to ask on whether to write to it: give --yes"
        );
        eprint!("{what} on {url}? [y/N] ");
        io::stderr().flush()?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        ensure!(
            matches!(answer.trim(), "y" | "Y" | "yes"),
            "nothing was written to {url}"
        );
        Ok(())
    }

    /// The version that the server reports.
    pub(crate) async fn version(&self, client: &Client) -> anyhow::Result<String> {
        let info = client.apiserver_version().await;
        let info = info.with_context(|| format!("asking {} for its version", self.url()))?;
        Ok(info.git_version)
    }

    /// Sees that everything is allowed that a run does, where the server can be asked.
    pub(crate) async fn check_access(&self, http: &Http) -> anyhow::Result<()> {
        if self.is_embedded() {
            return Ok(());
        }
        let mut refused = Vec::new();
        for (group, resource, subresource, verbs) in NEEDED {
            for verb in verbs {
                let review = json!({
                    "apiVersion": "authorization.k8s.io/v1",
                    "kind": "SelfSubjectAccessReview",
                    "spec": { "resourceAttributes": {
                        "group": group, "resource": resource, "subresource": subresource, "verb": verb,
                    } },
                });
                let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
                match http.ask(path, &review).await {
                    Ok(answer) if answer["status"]["allowed"] == Value::Bool(true) => {}
                    Ok(_) => {
                        let slash = if subresource.is_empty() { "" } else { "/" };
                        refused.push(format!("{verb} {resource}{slash}{subresource}"));
                    }
                    // Servers without authorisation need not know this kind.
                    Err(error) if api::code(&error) == Some(404) => return Ok(()),
                    Err(error) => return Err(error.context("asking what is allowed")),
                }
            }
        }
        if !refused.is_empty() {
            bail!("this kubeconfig is not allowed to {}", refused.join(", "));
        }
        Ok(())
    }
}

fn is_loopback(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

// === impl Embedded ===

impl Drop for Embedded {
    fn drop(&mut self) {
        drop(self.handle.take());
        if let Some(runtime) = self.runtime.take() {
            // Its tasks do nothing that is worth waiting for.
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_loopback() {
        for url in [
            "http://127.0.0.1:8001",
            "https://localhost:6443/",
            "https://[::1]:6443",
        ] {
            assert!(is_loopback(&url.parse().unwrap()), "{url}");
        }
        for url in [
            "https://10.0.0.1:6443",
            "https://localhost.example.com",
            "https://127.0.0.1.nip.io",
        ] {
            assert!(!is_loopback(&url.parse().unwrap()), "{url}");
        }
    }
}
