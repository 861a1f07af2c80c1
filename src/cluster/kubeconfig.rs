//! Kubeconfigs. An error about one names the file, the position and the fault, in our own words, and prints no contents
//! of the file: the parser's own errors quote the lines around a fault, which is where the credentials are, and the
//! file may be any file of the system that was named by mistake.

use super::client_error::{self, ClientError};
use super::plugin::{Patience, Plugin};
use super::plugin_errors;
use super::proxy;
use crate::core::excerpt::Excerpt;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Uri};
use kube::Config;
use kube::config::{ExecConfig, ExecInteractiveMode, KubeConfigOptions, Kubeconfig};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_saphyr::{Error as YamlError, Location, Spanned};
use std::fmt;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum length of a file's path on systems that we run on.
const LONGEST_PATH: usize = 4096;

/// An error about a kubeconfig. Prints as one line, without any contents of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KubeconfigError {
    /// The file; `None` if there is no file to look at.
    pub file: Option<PathBuf>,
    /// The line and the column in it, from 1.
    pub position: Option<(u64, u64)>,
    /// The fault.
    pub fault: String,
}

impl fmt::Display for KubeconfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("kubeconfig")?;
        if let Some(file) = &self.file {
            write!(f, " {}", Excerpt::new(&file.to_string_lossy(), LONGEST_PATH))?;
        }
        if let Some((line, column)) = self.position {
            write!(f, ", line {line}, column {column}")?;
        }
        write!(f, ": {}", self.fault)
    }
}

impl std::error::Error for KubeconfigError {}

/// A loaded kubeconfig, and the positions of its parts.
#[derive(Clone, Debug)]
pub(super) struct Loaded {
    /// The configuration for a client.
    pub(super) config: Config,
    /// The plugin whose tokens requests carry.
    pub(super) plugin: Option<Arc<Plugin>>,
    positions: Chosen,
}

impl Loaded {
    /// Refuses a proxy, for callers that connect by themselves.
    pub(super) fn without_proxy(&self) -> Result<(), KubeconfigError> {
        if self.config.proxy_url.is_none() {
            return Ok(());
        }
        let position = self.positions.proxy;
        let fault = if position.is_some() {
            "the controller connects directly, but proxy-url names a proxy: take it out, or run the controller in the cluster"
        } else {
            "the controller connects directly, but HTTPS_PROXY names a proxy: unset it, or add the API server's host to NO_PROXY"
        };
        Err(self.positions.error(position, fault.to_owned()))
    }

    /// Gets the first credential of the plugin, if one is configured and used, and has requests carry its token from then on.
    pub(super) async fn run_plugin(&mut self, patience: Patience) -> Result<(), KubeconfigError> {
        let auth = &mut self.config.auth_info;
        // kube runs none that is not in its configuration.
        let Some(exec) = auth.exec.take() else {
            return Ok(());
        };
        let others = auth.auth_provider.is_some()
            || (auth.username.is_some() && auth.password.is_some())
            || auth.token.is_some()
            || auth.token_file.is_some();
        if others {
            return Ok(());
        }
        let plugin = Plugin::of(&exec, patience);
        let credential = plugin.first().await.map_err(|error| {
            let position = self.positions.exec.or(self.positions.user);
            self.positions.error(position, error.to_string())
        })?;
        if let Some((certificate, mut key)) = credential.identity {
            let auth = &mut self.config.auth_info;
            // The certificate is put behind the key.
            key.push('\n');
            auth.client_certificate_data = Some(STANDARD.encode(certificate));
            auth.client_key_data = Some(STANDARD.encode(key).into());
        }
        self.plugin = credential.header.is_some().then_some(plugin);
        Ok(())
    }

    /// Adds the position of the credentials to an error that they caused.
    pub(super) fn blame(&self, error: kube::Error) -> KubeconfigError {
        let positions = &self.positions;
        let first = |fields: &[Option<FilePosition>]| fields.iter().flatten().next().copied();
        let position = match &error {
            kube::Error::Auth(_) => first(&[
                positions.auth_provider,
                positions.token_file,
                positions.exec,
                positions.user,
            ]),
            kube::Error::ProxyProtocolDisabled { .. } | kube::Error::ProxyProtocolUnsupported { .. } => {
                positions.proxy
            }
            kube::Error::InferKubeconfig(error) => positions.of(error),
            kube::Error::RustlsTls(error) => {
                use kube::client::RustlsTlsError as E;
                match error {
                    E::AddRootCertificate(_) => positions.authority,
                    E::MissingCertificate => positions.certificate,
                    E::InvalidServerName(_) => positions.server_name,
                    _ => first(&[positions.key, positions.certificate, positions.exec]),
                }
            }
            _ => None,
        };
        positions.error(position, ClientError::from(error).to_string())
    }
}

/// A kubeconfig file, and the context to use from it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ConfigFile {
    /// The file; without one, the files that kubectl would use: those that `$KUBECONFIG` names, as far as they exist, or
    /// `~/.kube/config` if none does.
    pub path: Option<PathBuf>,
    /// The context; without one, the current one.
    pub context: Option<String>,
}

impl<P: Into<PathBuf>> From<P> for ConfigFile {
    /// Selects the file's current context.
    fn from(path: P) -> Self {
        Self {
            path: Some(path.into()),
            context: None,
        }
    }
}

impl fmt::Display for ConfigFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(
                f,
                "kubeconfig {}",
                Excerpt::new(&path.to_string_lossy(), LONGEST_PATH)
            )?,
            None => f.write_str("kubectl's kubeconfig")?,
        }
        match &self.context {
            Some(context) => write!(f, ", context {}", Excerpt::value(context)),
            None => Ok(()),
        }
    }
}

impl ConfigFile {
    /// Returns whether there is a kubeconfig where kubectl looks for one.
    pub fn is_at_hand() -> bool {
        match named() {
            Some(named) => !named.is_empty(),
            None => std::env::home_dir().is_some_and(|home| home.join(".kube/config").exists()),
        }
    }

    /// Returns whether `$KUBECONFIG` names files of which none exists.
    pub(super) fn is_missing() -> bool {
        named().is_some_and(|named| named.is_empty())
    }
}

/// Parses a server's URL. The error is worded to follow the name of the field that holds it.
pub(super) fn check_url(url: &str) -> Result<Uri, &'static str> {
    let uri: Uri = url.parse().map_err(|_| "is not a URL")?;
    match uri.scheme_str() {
        Some("http" | "https") => {}
        _ => return Err("must begin with http:// or https://"),
    }
    if uri.host().is_none_or(str::is_empty) {
        return Err("has no host");
    }
    if uri.query().is_some() {
        return Err("must not have a query");
    }
    Ok(uri)
}

/// Loads the chosen kubeconfig, for its cluster's server or for that at another URL.
pub(super) async fn load(chosen: &ConfigFile, at: Option<Uri>) -> Result<Loaded, KubeconfigError> {
    let files = files(chosen)?;
    let mut merged = Kubeconfig::default();
    let mut documents = Vec::new();
    for (index, file) in files.iter().enumerate() {
        let wrong = |(position, fault)| KubeconfigError {
            file: Some(file.clone()),
            position,
            fault,
        };
        let text = text_of(file).map_err(|fault| wrong((None, fault)))?;
        let mut parsed = Kubeconfig::from_yaml(&text).map_err(|error| wrong(unparsed(&error)))?;
        resolve(&mut parsed, file);
        merged = merged
            .merge(parsed)
            .map_err(|error| wrong((None, client_error::kubeconfig(&error))))?;
        let found = serde_saphyr::from_multiple::<Document>(&text).map_err(|error| wrong(yaml(&error)))?;
        documents.extend(found.into_iter().map(|document| (index, document)));
    }
    let mut positions = Chosen::find(files, &documents, chosen.context.as_deref());
    if let Some((position, fault)) = positions.fault.take() {
        return Err(positions.error(position, fault));
    }
    let named_proxy = proxy::of_kubeconfig(&merged, chosen.context.as_deref());
    if named_proxy.is_none() {
        // An empty one names none, and is not to be blamed for the environment's.
        positions.proxy = None;
    }
    let options = KubeConfigOptions {
        context: chosen.context.clone(),
        ..KubeConfigOptions::default()
    };
    match Config::from_custom_kubeconfig(merged, &options).await {
        Ok(mut config) => {
            if let Some(url) = at {
                config.cluster_url = url;
            }
            config.proxy_url = match named_proxy {
                Some(proxy) => match proxy.parse() {
                    Ok(url) => Some(url),
                    Err(_) => {
                        return Err(positions.error(positions.proxy, "proxy-url is not a URL".to_owned()));
                    }
                },
                None => proxy::of_environment(&config.cluster_url, |name| std::env::var(name).ok())
                    .map_err(|fault| positions.error(None, fault.to_owned()))?,
            };
            if let Some(exec) = &mut config.auth_info.exec {
                prepare_plugin(exec).map_err(|fault| positions.error(positions.exec, fault))?;
            }
            Ok(Loaded {
                config,
                plugin: None,
                positions,
            })
        }
        Err(error) => {
            let fault = match (&error, &chosen.context) {
                // The name came from the command line, not from the file, so it may be printed.
                (kube::config::KubeconfigError::LoadContext(_), Some(name)) => {
                    format!("there is no context {}", Excerpt::value(name))
                }
                _ => client_error::kubeconfig(&error),
            };
            Err(positions.error(positions.of(&error), fault))
        }
    }
}

/// Has errors name the credential plugin's command, and keeps it from a terminal that is not there.
fn prepare_plugin(exec: &mut ExecConfig) -> Result<(), String> {
    if let Some(command) = exec.command.as_deref() {
        plugin_errors::remember(command);
    }
    if !std::io::stdin().is_terminal() {
        if exec.interactive_mode == Some(ExecInteractiveMode::Always) {
            return Err("the credential plugin needs a terminal, and there is none".to_owned());
        }
        // Otherwise its standard error would go to ours, and so to the log collector.
        exec.interactive_mode = Some(ExecInteractiveMode::Never);
    }
    Ok(())
}

/// Returns the files to read, in order of precedence.
fn files(chosen: &ConfigFile) -> Result<Vec<PathBuf>, KubeconfigError> {
    if let Some(path) = &chosen.path {
        return Ok(vec![path.clone()]);
    }
    match named() {
        // Another cluster's file must not take the place of one that is missing.
        Some(named) if named.is_empty() => {
            return Err(KubeconfigError {
                file: None,
                position: None,
                fault: "$KUBECONFIG names no file that exists".to_owned(),
            });
        }
        Some(named) => return Ok(named),
        None => {}
    }
    match std::env::home_dir() {
        Some(home) => Ok(vec![home.join(".kube").join("config")]),
        None => Err(KubeconfigError {
            file: None,
            position: None,
            fault: "there is no home directory in which to look for .kube/config".to_owned(),
        }),
    }
}

/// Returns the files that `$KUBECONFIG` names, if it names any. Those that do not exist are left out, as client-go does.
fn named() -> Option<Vec<PathBuf>> {
    let names = std::env::var_os("KUBECONFIG")?;
    let mut named: Vec<_> = std::env::split_paths(&names)
        .filter(|path| !path.as_os_str().is_empty())
        .collect();
    if named.is_empty() {
        return None;
    }
    // One that may not be looked at may exist; reading it gives the reason.
    named.retain(|path| path.try_exists().unwrap_or(true));
    Some(named)
}

/// Returns a file's text. The file is read only once: it may be a pipe.
fn text_of(file: &Path) -> Result<String, String> {
    let bytes =
        std::fs::read(file).map_err(|error| format!("cannot be read: {}", client_error::file(&error)))?;
    let utf16 = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let (pairs, rest) = bytes.as_chunks::<2>();
        let units: Vec<u16> = pairs.iter().map(|pair| unit(*pair)).collect();
        String::from_utf16(&units)
            .ok()
            .filter(|_| rest.is_empty())
            .ok_or_else(|| "is not UTF-16, though it begins like that".to_owned())
    };
    match &*bytes {
        [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => {
            String::from_utf8(rest.to_vec()).map_err(|_| "is not UTF-8".to_owned())
        }
        _ => String::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned()),
    }
}

/// Resolves relative paths against the file's directory. A command without a slash is left to `$PATH`.
fn resolve(config: &mut Kubeconfig, file: &Path) {
    let Some(directory) = file.parent() else { return };
    let absolute = |path: &mut Option<String>| {
        if let Some(path) = path
            && Path::new(path).is_relative()
            && let Some(joined) = directory.join(&*path).to_str()
        {
            joined.clone_into(path);
        }
    };
    for cluster in config
        .clusters
        .iter_mut()
        .filter_map(|named| named.cluster.as_mut())
    {
        absolute(&mut cluster.certificate_authority);
    }
    for user in config
        .auth_infos
        .iter_mut()
        .filter_map(|named| named.auth_info.as_mut())
    {
        absolute(&mut user.client_certificate);
        absolute(&mut user.client_key);
        absolute(&mut user.token_file);
        if let Some(exec) = &mut user.exec
            && exec.command.as_ref().is_some_and(|command| command.contains('/'))
        {
            absolute(&mut exec.command);
        }
    }
}

type Fault = (Option<(u64, u64)>, String);

fn unparsed(error: &kube::config::KubeconfigError) -> Fault {
    match error {
        kube::config::KubeconfigError::Parse(error) => yaml(error),
        error => (None, client_error::kubeconfig(error)),
    }
}

/// Describes why a text cannot be parsed as a kubeconfig. Only the parser's own words, or the names of our own types,
/// are repeated, never the text that it found.
fn yaml(error: &YamlError) -> Fault {
    let position = error.location().and_then(position);
    let error = error.without_snippet();
    let fault = match error {
        YamlError::AliasError { error, .. } => return (position, yaml(error).1),
        YamlError::Unexpected { expected, .. } => format!("{expected} is expected"),
        YamlError::SerdeInvalidType { expected, .. }
        | YamlError::SerdeInvalidValue { expected, .. }
        | YamlError::SerdeInvalidLength { expected, .. } => format!("{expected} is expected"),
        YamlError::InvalidScalar { ty, .. } => format!("a value of type {ty} is expected"),
        YamlError::SerdeMissingField { field, .. } => format!("the field {field} is missing"),
        YamlError::SerdeUnknownVariant { expected, .. } => {
            format!("one of {} is expected", expected.join(", "))
        }
        YamlError::DuplicateMappingKey { .. } => "a key stands here for the second time".to_owned(),
        YamlError::UnknownAnchor { .. } => "an alias has no anchor".to_owned(),
        YamlError::NullIntoString { .. } => "a string is expected".to_owned(),
        YamlError::InvalidBinaryBase64 { .. } => "what is tagged as binary is not base64".to_owned(),
        YamlError::Budget { .. }
        | YamlError::AliasReplayLimitExceeded { .. }
        | YamlError::AliasExpansionLimitExceeded { .. }
        | YamlError::AliasReplayStackDepthExceeded { .. } => {
            "it is too large, or nested too deeply".to_owned()
        }
        YamlError::Eof { .. } => "it ends too early".to_owned(),
        _ => "it is not well-formed YAML".to_owned(),
    };
    (position, fault)
}

fn position(location: Location) -> Option<(u64, u64)> {
    (location.line() > 0).then(|| (location.line(), location.column()))
}

/// A document of a kubeconfig, cut to the parts that errors can refer to.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "kebab-case")]
struct Document {
    current_context: Option<Spanned<String>>,
    contexts: Option<Vec<NamedContext>>,
    clusters: Option<Vec<NamedCluster>>,
    users: Option<Vec<NamedUser>>,
}

#[derive(Deserialize)]
struct NamedContext {
    name: Spanned<String>,
    context: Option<Context>,
}

#[derive(Deserialize)]
struct Context {
    cluster: Spanned<String>,
    user: Option<Spanned<String>>,
}

#[derive(Deserialize)]
struct NamedCluster {
    name: Spanned<String>,
    cluster: Option<Cluster>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "kebab-case")]
struct Cluster {
    server: Option<Spanned<String>>,
    certificate_authority: Option<Spanned<IgnoredAny>>,
    certificate_authority_data: Option<Spanned<IgnoredAny>>,
    proxy_url: Option<Spanned<IgnoredAny>>,
    tls_server_name: Option<Spanned<IgnoredAny>>,
}

#[derive(Deserialize)]
struct NamedUser {
    name: Spanned<String>,
    user: Option<User>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "kebab-case")]
struct User {
    token: Option<Spanned<String>>,
    #[serde(rename = "tokenFile")]
    token_file: Option<Spanned<IgnoredAny>>,
    client_certificate: Option<Spanned<IgnoredAny>>,
    client_certificate_data: Option<Spanned<IgnoredAny>>,
    client_key: Option<Spanned<IgnoredAny>>,
    client_key_data: Option<Spanned<IgnoredAny>>,
    auth_provider: Option<Spanned<IgnoredAny>>,
    exec: Option<Spanned<IgnoredAny>>,
}

/// A position in one of the files.
#[derive(Clone, Copy, Debug)]
struct FilePosition {
    file: usize,
    line_and_column: Option<(u64, u64)>,
}

impl FilePosition {
    fn of<T>(file: usize, value: &Spanned<T>) -> Self {
        Self {
            file,
            line_and_column: position(value.referenced),
        }
    }
}

/// The positions of the parts of the chosen context.
#[derive(Clone, Debug, Default)]
struct Chosen {
    files: Vec<PathBuf>,
    context: Option<FilePosition>,
    cluster: Option<FilePosition>,
    server: Option<FilePosition>,
    authority: Option<FilePosition>,
    proxy: Option<FilePosition>,
    server_name: Option<FilePosition>,
    user: Option<FilePosition>,
    token_file: Option<FilePosition>,
    certificate: Option<FilePosition>,
    key: Option<FilePosition>,
    auth_provider: Option<FilePosition>,
    exec: Option<FilePosition>,
    /// A fault that kube would not find, or not survive.
    fault: Option<(Option<FilePosition>, String)>,
}

impl Chosen {
    /// Finds the positions. Of entries with the same name, the first counts.
    fn find(files: Vec<PathBuf>, documents: &[(usize, Document)], named: Option<&str>) -> Self {
        let mut chosen = Self {
            files,
            ..Self::default()
        };
        let current = documents.iter().find_map(|(file, document)| {
            let current = document.current_context.as_ref()?;
            Some((&*current.value, FilePosition::of(*file, current)))
        });
        let context_name = match (named, current) {
            (Some(name), _) => name,
            (None, Some((name, position))) => {
                chosen.context = Some(position);
                name
            }
            (None, None) => return chosen,
        };
        let context = documents.iter().find_map(|(file, document)| {
            let found = document
                .contexts
                .iter()
                .flatten()
                .find(|one| one.name.value == context_name)?;
            Some((*file, found.context.as_ref()?))
        });
        let Some((file, context)) = context else {
            return chosen;
        };
        chosen.cluster = Some(FilePosition::of(file, &context.cluster));
        let cluster = documents.iter().find_map(|(file, document)| {
            let mut clusters = document.clusters.iter().flatten();
            clusters
                .find(|one| one.name.value == context.cluster.value)
                .map(|one| (*file, one))
        });
        if let Some((file, named)) = cluster {
            chosen.cluster_found(file, named);
        }
        let user = context.user.as_ref().and_then(|user| {
            documents.iter().find_map(|(file, document)| {
                let mut users = document.users.iter().flatten();
                users
                    .find(|one| one.name.value == user.value)
                    .map(|one| (*file, one))
            })
        });
        if let Some((file, named)) = user {
            chosen.user_found(file, named);
        }
        chosen
    }

    fn cluster_found(&mut self, file: usize, named: &NamedCluster) {
        let position =
            |value: &Option<Spanned<IgnoredAny>>| value.as_ref().map(|value| FilePosition::of(file, value));
        let Some(cluster) = &named.cluster else { return };
        let server = cluster.server.as_ref();
        self.server = Some(server.map_or_else(
            || FilePosition::of(file, &named.name),
            |server| FilePosition::of(file, server),
        ));
        if let Some(server) = server
            && let Err(fault) = check_url(&server.value)
        {
            self.fault = Some((self.server, format!("server {fault}")));
        }
        self.authority =
            position(&cluster.certificate_authority_data).or(position(&cluster.certificate_authority));
        self.proxy = position(&cluster.proxy_url);
        self.server_name = position(&cluster.tls_server_name);
    }

    fn user_found(&mut self, file: usize, named: &NamedUser) {
        let position =
            |value: &Option<Spanned<IgnoredAny>>| value.as_ref().map(|value| FilePosition::of(file, value));
        self.user = Some(FilePosition::of(file, &named.name));
        let Some(user) = &named.user else { return };
        self.token_file = position(&user.token_file);
        self.certificate = position(&user.client_certificate_data).or(position(&user.client_certificate));
        self.key = position(&user.client_key_data).or(position(&user.client_key));
        self.auth_provider = position(&user.auth_provider);
        self.exec = position(&user.exec);
        if let Some(token) = &user.token
            && self.fault.is_none()
            && HeaderValue::try_from(token.value.as_str()).is_err()
        {
            let fault = "the token holds a character that cannot be sent, such as the end of a line";
            self.fault = Some((Some(FilePosition::of(file, token)), fault.to_owned()));
        }
    }

    /// Returns the position that one of kube's errors refers to.
    fn of(&self, error: &kube::config::KubeconfigError) -> Option<FilePosition> {
        use kube::config::KubeconfigError as E;
        match error {
            E::LoadContext(_) => self.context,
            E::LoadClusterOfContext(_) => self.cluster,
            E::MissingClusterUrl | E::ParseClusterUrl(_) => self.server,
            E::LoadCertificateAuthority(_) | E::ParseCertificates(_) => self.authority,
            E::ParseProxyUrl(_) => self.proxy,
            E::LoadClientCertificate(_) => self.certificate.or(self.key),
            E::LoadClientKey(_) => self.key.or(self.certificate),
            _ => None,
        }
    }

    fn error(&self, position: Option<FilePosition>, fault: String) -> KubeconfigError {
        let only = (self.files.len() == 1).then_some(0);
        KubeconfigError {
            file: position
                .map(|position| position.file)
                .or(only)
                .map(|file| self.files[file].clone()),
            position: position.and_then(|position| position.line_and_column),
            fault,
        }
    }
}
