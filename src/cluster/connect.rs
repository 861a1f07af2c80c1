//! Creates clients for the API server. Below are the ways to one: the kubeconfig, its credential plugin and its proxy, and the
//! transport of requests for single objects. Their errors never hold a secret (`client_error`).

pub(crate) mod client_error;
pub(crate) mod kubeconfig;
pub(crate) mod plugin;
pub(crate) mod plugin_errors;
mod proxy;
pub mod transport;

use self::client_error::ClientError;
use self::kubeconfig::{ConfigFile, KubeconfigError, Loaded, check_url};
use self::plugin::Timeouts;
use self::transport::Transport;
use super::silence::{Silent, within};
use http::{HeaderValue, Uri, header};
use kube::{Client, Config};
use percent_encoding::percent_decode_str;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use std::{fmt, thread};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// The address of the API server. A URL may hold a password, and is printed without it.
#[derive(Clone, PartialEq, Eq)]
pub enum Target {
    /// From a kubeconfig file.
    Kubeconfig(ConfigFile),
    /// From a kubeconfig file, but at another URL.
    KubeconfigAt(ConfigFile, String),
    /// At a URL, with no other credentials than those in the URL.
    Server(String),
    /// From the environment of the pod that we run in.
    InCluster,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kubeconfig(file) => write!(f, "{file}"),
            Self::KubeconfigAt(file, url) => write!(f, "{} with {file}", shown(url)),
            Self::Server(url) => f.write_str(&shown(url)),
            Self::InCluster => f.write_str("the cluster of this pod"),
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Another user, whose rights count for requests in place of those of the credentials.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Impersonated {
    /// The user's name.
    pub user: String,
    /// The groups that it is a member of, besides those that the API server adds.
    pub groups: Vec<String>,
}

/// Reasons why no client can be created. Prints as one line, without any contents of a kubeconfig, a URL or a
/// credential.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig cannot be used.
    #[error("{0}")]
    Kubeconfig(#[from] KubeconfigError),
    /// The URL cannot be used.
    #[error("--server {0}")]
    Server(&'static str),
    /// This process is not in a pod, or its service account is not mounted.
    #[error("no --kubeconfig or --server is given, and this is not a pod of a cluster: {0}{1}")]
    InCluster(ClientError, &'static str),
    /// The client cannot be created, because certificates cannot be read for example.
    #[error("cannot create a client: {0}")]
    Client(#[from] ClientError),
}

/// Clients for three purposes. Those of kube have a queue inside, and watches must not wait for Events.
#[derive(Clone)]
pub struct Clients {
    /// For lists and watches.
    pub watches: Client,
    /// For single objects.
    pub objects: Transport,
    /// For Events.
    pub events: Client,
    /// Set if they authenticate with the token of this pod's service account.
    pub in_pod: bool,
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clients").finish_non_exhaustive()
    }
}

impl Clients {
    /// Creates them. Nothing is sent yet.
    pub async fn connect(target: &Target) -> Result<Self, ConnectError> {
        let source = source(target, WHILE_RUNNING).await?;
        if let Source::Kubeconfig(loaded) = &source {
            // The transport has connections of its own.
            loaded.without_proxy()?;
        }
        if source.config().accept_invalid_certs {
            tracing::warn!(
                "the API server's certificate is not verified, because the kubeconfig has insecure-skip-tls-verify: \
                 anybody on the way there can read the credentials, and answer in its place"
            );
        }
        let limit = Some(PLUGIN_DEADLINE);
        Ok(Self {
            watches: source.client(limit).await?,
            objects: source.transport(limit).await?,
            events: source.client(limit).await?,
            in_pod: *target == Target::InCluster,
        })
    }
}

/// Creates one more client, for requests that must not wait for any of the others.
pub async fn connect(target: &Target) -> Result<Client, ConnectError> {
    source(target, WHILE_RUNNING)
        .await?
        .client(Some(PLUGIN_DEADLINE))
        .await
}

/// The same, as another user if one is given. Returns the server's URL too. `limit` is how long a credential plugin may take;
/// without one, it may take any time.
pub async fn connect_and_tell(
    target: &Target,
    impersonated: Option<&Impersonated>,
    limit: Option<Duration>,
) -> Result<(Client, String), ConnectError> {
    let timeouts = Timeouts {
        run: limit,
        // The request's own deadline is the limit, too.
        request: limit.map(|limit| limit.mul_f64(0.75)),
    };
    let mut source = source(target, timeouts).await?;
    if let Some(impersonated) = impersonated {
        source.impersonate(impersonated);
    }
    let url = source.config().cluster_url.to_string();
    let client = source.client(limit).await?;
    Ok((client, url.trim_end_matches('/').to_owned()))
}

/// How long a run of a credential plugin may take where the controller runs.
pub const PLUGIN_DEADLINE: Duration = Duration::from_secs(30);
/// The shortest deadline of a request is 5 s: that of the lease, by default.
const WHILE_RUNNING: Timeouts = Timeouts {
    run: Some(PLUGIN_DEADLINE),
    request: Some(Duration::from_secs(4)),
};

/// The configuration that clients are created from.
#[derive(Clone)]
enum Source {
    Kubeconfig(Box<Loaded>),
    Other(Box<Config>),
}

impl Source {
    fn config(&self) -> &Config {
        match self {
            Self::Kubeconfig(loaded) => &loaded.config,
            Self::Other(config) => config,
        }
    }

    /// Has requests made as another user, and as no other that a kubeconfig names.
    fn impersonate(&mut self, Impersonated { user, groups }: &Impersonated) {
        let config = match self {
            Self::Kubeconfig(loaded) => &mut loaded.config,
            Self::Other(config) => config,
        };
        let auth = &mut config.auth_info;
        auth.impersonate = Some(user.clone());
        auth.impersonate_groups = Some(groups.clone());
        (auth.impersonate_uid, auth.impersonate_user_extra) = (None, None);
    }

    /// Creates a client of kube's.
    async fn client(&self, limit: Option<Duration>) -> Result<Client, ConnectError> {
        let transport = self.transport(limit).await?;
        Ok(transport.client(&self.config().default_namespace))
    }

    /// Creates a transport. This may run the command of an `auth-provider` and wait for it: on a thread of its own, since it
    /// may never end.
    async fn transport(&self, limit: Option<Duration>) -> Result<Transport, ConnectError> {
        let (done, made) = oneshot::channel();
        let (source, runtime) = (self.clone(), Handle::current());
        thread::spawn(move || {
            let _runtime = runtime.enter();
            // The caller may have given up.
            let _ = done.send(source.make());
        });
        match within(limit, made).await {
            Ok(Ok(made)) => made,
            Ok(Err(_)) => Err(ClientError::new("the client cannot be made").into()),
            Err(Silent(limit)) => {
                let (subject, seconds) = (plugin_errors::subject(), limit.as_secs_f64());
                Err(ClientError::new(format!("{subject} has not ended after {seconds} s")).into())
            }
        }
    }

    fn make(&self) -> Result<Transport, ConnectError> {
        let config = self.config();
        // A token that cannot be a header value, from such a command, makes the library panic. The panic message does not contain the token.
        let made = catch_unwind(AssertUnwindSafe(|| Transport::new(config)))
            .map_err(|_| ClientError::new("the credentials hold a character that cannot be sent"))?;
        match self {
            Self::Kubeconfig(loaded) => {
                let transport = made.map_err(|error| loaded.blame(error))?;
                Ok(match &loaded.plugin {
                    Some(plugin) => transport.authorized(plugin.clone()),
                    None => transport,
                })
            }
            Self::Other(_) => Ok(made.map_err(ClientError::from)?),
        }
    }
}

async fn source(target: &Target, timeouts: Timeouts) -> Result<Source, ConnectError> {
    Ok(match target {
        Target::Kubeconfig(file) => {
            let mut loaded = kubeconfig::load(file, None).await?;
            adapt(&mut loaded.config);
            loaded.run_plugin(timeouts).await?;
            Source::Kubeconfig(Box::new(loaded))
        }
        Target::KubeconfigAt(file, url) => {
            let url = check_url(url).map_err(ConnectError::Server)?;
            let mut loaded = kubeconfig::load(file, Some(url)).await?;
            adapt(&mut loaded.config);
            loaded.run_plugin(timeouts).await?;
            Source::Kubeconfig(Box::new(loaded))
        }
        Target::Server(url) => {
            let mut config = Config::new(check_url(url).map_err(ConnectError::Server)?);
            adapt(&mut config);
            Source::Other(Box::new(config))
        }
        Target::InCluster => {
            let mut config =
                Config::incluster().map_err(|error| ConnectError::InCluster(error.into(), hint()))?;
            adapt(&mut config);
            Source::Other(Box::new(config))
        }
    })
}

/// Says what to type where kubectl would find a kubeconfig. Only the commands that read look for one: the controller
/// writes, and must not do so in whatever cluster a shell happens to point at.
fn hint() -> &'static str {
    if ConfigFile::is_at_hand() {
        "; kubectl's kubeconfig ($KUBECONFIG or ~/.kube/config) is not used unless it is named, since run writes: \
         add --kubeconfig FILE or --context NAME"
    } else if ConfigFile::is_missing() {
        "; $KUBECONFIG names no file that exists"
    } else {
        ""
    }
}

/// The name of this program in requests, in the form of Kubernetes' own clients. The API server takes the part before
/// the slash as the name in `managedFields`; audit logs have all of it.
const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!(
    env!("CARGO_PKG_NAME"),
    "/",
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("ENDPOINTD_COMMIT"),
    ")"
));

pub(super) fn adapt(config: &mut Config) {
    // Every request has its own deadline here, and is retried by the code that can interpret its outcome.
    config.default_retry = false;
    config.read_timeout = None;
    config.write_timeout = None;
    config.connect_timeout = Some(Duration::from_secs(10));
    config.headers.push((header::USER_AGENT, USER_AGENT));
    take_credentials(config);
}

/// Moves a user's name and password out of the URL, where logs and errors of libraries would show them. As in Go's
/// client, they are sent if there are no other credentials.
fn take_credentials(config: &mut Config) {
    let Some((credentials, host)) = config
        .cluster_url
        .authority()
        .and_then(|authority| authority.as_str().rsplit_once('@'))
    else {
        return;
    };
    let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
    let plain = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let (user, password) = (plain(user), plain(password));
    let mut parts = config.cluster_url.clone().into_parts();
    parts.authority = Some(
        host.parse()
            .expect("what follows the user in an authority is one"),
    );
    config.cluster_url = Uri::from_parts(parts).expect("a URL stays one without its user");
    let auth = &mut config.auth_info;
    let none = auth.username.is_none()
        && auth.token.is_none()
        && auth.token_file.is_none()
        && auth.exec.is_none()
        && auth.auth_provider.is_none();
    if none {
        auth.username = Some(user);
        auth.password = Some(password.into());
    }
}

/// Returns a URL's scheme, host and port. The rest may hold secrets.
fn shown(url: &str) -> String {
    let Ok(uri) = check_url(url) else {
        return "a URL that cannot be used".to_owned();
    };
    let port = uri.port().map_or(String::new(), |port| format!(":{port}"));
    let path = if matches!(uri.path(), "" | "/") {
        ""
    } else {
        "/..."
    };
    format!(
        "{}://{}{port}{path}",
        uri.scheme_str().unwrap_or_default(),
        uri.host().unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_its_password() {
        let url = "https://user:canary@host:6443/canary";
        for target in [
            Target::Server(url.to_owned()),
            Target::KubeconfigAt(ConfigFile::default(), url.to_owned()),
            Target::Server("https://user:canary@host/?token=canary".to_owned()),
            Target::Server("canary@@".to_owned()),
        ] {
            assert!(!format!("{target:?}").contains("canary"), "{target:?}");
        }
        assert_eq!(shown(url), "https://host:6443/...");
        let file = ConfigFile {
            path: Some("/a".into()),
            context: Some("b".to_owned()),
        };
        assert_eq!(
            Target::KubeconfigAt(file, url.to_owned()).to_string(),
            "https://host:6443/... with kubeconfig /a, context b"
        );
        let usual = Target::Kubeconfig(ConfigFile::default());
        assert_eq!(usual.to_string(), "kubectl's kubeconfig");
        assert_eq!(Target::InCluster.to_string(), "the cluster of this pod");
    }

    #[test]
    fn a_password_in_a_url_is_sent_in_a_header_instead() {
        let mut config = Config::new("https://us%40er:pass@host:6443/path".parse().unwrap());
        take_credentials(&mut config);
        assert_eq!(config.cluster_url, "https://host:6443/path");
        assert_eq!(config.auth_info.username.as_deref(), Some("us@er"));
        assert!(config.auth_info.password.is_some());
        let mut config = Config::new("https://user:pass@[::1]:6443".parse().unwrap());
        config.auth_info.token_file = Some("/token".to_owned());
        take_credentials(&mut config);
        assert_eq!(config.cluster_url, "https://[::1]:6443/");
        assert_eq!(
            config.auth_info.username, None,
            "who has a token has no use for a password"
        );
    }
}
