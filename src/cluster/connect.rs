//! Clients for the API server.

use crate::ops::metrics::RequestLayer;
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the API server is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// As a kubeconfig file says.
    Kubeconfig(ConfigFile),
    /// As a kubeconfig file says, but at another URL.
    KubeconfigAt(ConfigFile, String),
    /// At a URL, without credentials.
    Server(String),
    /// As the pod that we run in says.
    InCluster,
}

/// A kubeconfig file, and what is used of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ConfigFile {
    /// The file; without one, as kubectl finds it: those that `$KUBECONFIG` names, or `~/.kube/config`.
    pub path: Option<PathBuf>,
    /// The context; without one, the current one.
    pub context: Option<String>,
}

impl<P: Into<PathBuf>> From<P> for ConfigFile {
    /// The file's current context.
    fn from(path: P) -> Self {
        Self {
            path: Some(path.into()),
            context: None,
        }
    }
}

impl ConfigFile {
    /// Whether there is a kubeconfig where kubectl looks for one.
    pub fn is_at_hand() -> bool {
        let named = std::env::var_os("KUBECONFIG").is_some_and(|names| !names.is_empty());
        named || std::env::home_dir().is_some_and(|home| home.join(".kube/config").exists())
    }
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig cannot be used.
    #[error("kubeconfig {path}: {error}")]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: Box<kube::config::KubeconfigError>,
    },
    /// The URL cannot be used.
    #[error("--server {url}: {error}")]
    Server {
        /// The URL.
        url: String,
        /// What is wrong.
        error: String,
    },
    /// This is no pod, or its service account is not mounted.
    #[error("no --kubeconfig or --server is given, and this is not a pod of a cluster: {0}")]
    InCluster(#[from] kube::config::InClusterError),
    /// The client cannot be made, of certificates that cannot be read for example.
    #[error("cannot make a client: {0}")]
    Client(Box<kube::Error>),
}

/// Three clients: each has one queue of its own inside; watches must not wait for writes, nor writes for Events.
#[derive(Clone)]
pub struct Clients {
    /// For lists and watches.
    pub watches: Client,
    /// For single objects.
    pub objects: Client,
    /// For Events.
    pub events: Client,
}

impl std::fmt::Debug for Clients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clients").finish_non_exhaustive()
    }
}

impl Clients {
    /// Makes them. Nothing is sent yet.
    pub async fn connect(target: &Target) -> Result<Self, ConnectError> {
        let config = config(target).await?;
        Ok(Self {
            watches: client(&config)?,
            objects: client(&config)?,
            events: client(&config)?,
        })
    }
}

/// One more client, for what must not wait for any of the others.
pub async fn connect(target: &Target) -> Result<Client, ConnectError> {
    client(&config(target).await?)
}

fn client(config: &Config) -> Result<Client, ConnectError> {
    let host = config
        .cluster_url
        .authority()
        .map_or("", |authority| authority.as_str());
    let builder =
        ClientBuilder::try_from(config.clone()).map_err(|error| ConnectError::Client(Box::new(error)))?;
    Ok(builder.with_layer(&RequestLayer::new(host)).build())
}

async fn config(target: &Target) -> Result<Config, ConnectError> {
    let mut config = match target {
        Target::Kubeconfig(path) => kubeconfig(path).await?,
        Target::KubeconfigAt(path, url) => {
            let mut config = kubeconfig(path).await?;
            config.cluster_url = server(url)?;
            config
        }
        Target::Server(url) => Config::new(server(url)?),
        Target::InCluster => Config::incluster()?,
    };
    // Every request has a deadline of its own here, and is retried by those who know what it means.
    config.default_retry = false;
    config.read_timeout = None;
    config.write_timeout = None;
    config.connect_timeout = Some(Duration::from_secs(10));
    Ok(config)
}

async fn kubeconfig(chosen: &ConfigFile) -> Result<Config, ConnectError> {
    let path = chosen.path.as_deref();
    let wrap = |error| ConnectError::Kubeconfig {
        path: path.unwrap_or(Path::new("from the environment")).to_owned(),
        error: Box::new(error),
    };
    let file = path.map_or_else(Kubeconfig::read, Kubeconfig::read_from);
    let options = KubeConfigOptions {
        context: chosen.context.clone(),
        ..KubeConfigOptions::default()
    };
    Config::from_custom_kubeconfig(file.map_err(wrap)?, &options)
        .await
        .map_err(wrap)
}

fn server(url: &str) -> Result<http::Uri, ConnectError> {
    let wrong = |error: String| ConnectError::Server {
        url: url.to_owned(),
        error,
    };
    let uri: http::Uri = url
        .parse()
        .map_err(|error: http::uri::InvalidUri| wrong(error.to_string()))?;
    match uri.scheme_str() {
        Some("http" | "https") => Ok(uri),
        _ => Err(wrong("must begin with http:// or https://".to_owned())),
    }
}
