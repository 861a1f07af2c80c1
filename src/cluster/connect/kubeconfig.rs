//! Kubeconfigs. An error about one names the file, the place and the fault, in our own words. Of the contents of the file it
//! prints nothing but the name of an entry of a kubeconfig that could be parsed: the parser's own errors quote the lines
//! around a fault, which is where the credentials are, and the file may be any file of the system that was named by mistake.

use super::client_error::{self, ClientError};
use super::plugin::{Plugin, Timeouts};
use super::{plugin_errors, proxy};
use crate::core::excerpt::Excerpt;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Uri};
use kube::Config;
use kube::config::{Cluster, ExecConfig, ExecInteractiveMode, KubeConfigOptions, Kubeconfig};
use serde_saphyr::Error as YamlError;
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
    /// The place in it: `line 3, column 5` if it cannot be parsed, else the entry at fault, such as `users[2] "name"`.
    pub place: Option<String>,
    /// The fault.
    pub fault: String,
}

impl fmt::Display for KubeconfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("kubeconfig")?;
        if let Some(file) = &self.file {
            write!(f, " {}", Excerpt::new(&file.to_string_lossy(), LONGEST_PATH))?;
        }
        if let Some(place) = &self.place {
            write!(f, ", {place}")?;
        }
        write!(f, ": {}", self.fault)
    }
}

impl std::error::Error for KubeconfigError {}

/// A loaded kubeconfig, and the entries that it was taken from.
#[derive(Clone, Debug)]
pub(super) struct Loaded {
    /// The configuration for a client.
    pub(super) config: Config,
    /// The plugin whose tokens requests carry.
    pub(super) plugin: Option<Arc<Plugin>>,
    /// Set if the kubeconfig itself names the proxy.
    names_proxy: bool,
    entries: Entries,
}

impl Loaded {
    /// Refuses a proxy, for callers that connect by themselves.
    pub(super) fn without_proxy(&self) -> Result<(), KubeconfigError> {
        if self.config.proxy_url.is_none() {
            return Ok(());
        }
        let fault = if self.names_proxy {
            "the controller connects directly, but proxy-url names a proxy: take it out, or run the controller in the cluster"
        } else {
            "the controller connects directly, but HTTPS_PROXY names a proxy: unset it, or add the API server's host to NO_PROXY"
        };
        Err(self.entries.error(self.proxy(), fault.to_owned()))
    }

    /// Returns the entry that names the proxy.
    fn proxy(&self) -> Option<&Entry> {
        self.entries.cluster.as_ref().filter(|_| self.names_proxy)
    }

    /// Gets the first credential of the plugin, if one is configured and used, and has requests carry its token from then on.
    pub(super) async fn run_plugin(&mut self, timeouts: Timeouts) -> Result<(), KubeconfigError> {
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
        let plugin = Plugin::of(&exec, timeouts);
        let credential = plugin.first().await.map_err(|error| {
            let entries = &self.entries;
            entries.error(entries.user.as_ref(), error.to_string())
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

    /// Adds the entry at fault to an error that it caused.
    pub(super) fn blame(&self, error: kube::Error) -> KubeconfigError {
        use kube::client::RustlsTlsError as E;
        let entries = &self.entries;
        let entry = match &error {
            kube::Error::RustlsTls(E::AddRootCertificate(_) | E::InvalidServerName(_)) => {
                entries.cluster.as_ref()
            }
            kube::Error::Auth(_) | kube::Error::RustlsTls(_) => entries.user.as_ref(),
            kube::Error::ProxyProtocolDisabled { .. } | kube::Error::ProxyProtocolUnsupported { .. } => {
                self.proxy()
            }
            kube::Error::InferKubeconfig(error) => entries.of(error),
            _ => None,
        };
        entries.error(entry, ClientError::from(error).to_string())
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
pub(in crate::cluster) fn check_url(url: &str) -> Result<Uri, &'static str> {
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
    let mut read = Vec::new();
    for file in files {
        let wrong = |(place, fault)| KubeconfigError {
            file: Some(file.clone()),
            place,
            fault,
        };
        let text = text_of(&file).map_err(|fault| wrong((None, fault)))?;
        let mut parsed = Kubeconfig::from_yaml(&text).map_err(|error| wrong(unparsed(&error)))?;
        resolve(&mut parsed, &file);
        // An empty one names none, so that of a later file counts.
        parsed.current_context.take_if(|context| context.is_empty());
        merged = merged
            .merge(parsed.clone())
            .map_err(|error| wrong((None, client_error::kubeconfig(&error))))?;
        read.push((file, parsed));
    }
    let entries = Entries::find(&read, chosen.context.as_deref())?;
    let cluster = cluster(&merged, chosen.context.as_deref());
    let named_proxy = cluster.and_then(|cluster| cluster.proxy_url.clone());
    // An empty one names none, and is not to be blamed for the environment's.
    let named_proxy = named_proxy.filter(|url| !url.is_empty());
    let authority = cluster
        .filter(|cluster| cluster.certificate_authority_data.is_none())
        .and_then(|cluster| cluster.certificate_authority.clone());
    let names_proxy = named_proxy.is_some();
    let options = KubeConfigOptions {
        context: chosen.context.clone(),
        ..KubeConfigOptions::default()
    };
    match Config::from_custom_kubeconfig(merged, &options).await {
        Ok(mut config) => {
            if let Some(url) = at {
                config.cluster_url = url;
            }
            // kube reads this file again every minute.
            config.root_cert_file = authority.map(PathBuf::from);
            config.proxy_url = match named_proxy {
                Some(proxy) => Some(proxy.parse().map_err(|_| {
                    let fault = "proxy-url is not a URL".to_owned();
                    entries.error(entries.cluster.as_ref(), fault)
                })?),
                None => proxy::of_environment(&config.cluster_url, |name| std::env::var(name).ok())
                    .map_err(|fault| entries.error(None, fault.to_owned()))?,
            };
            if let Some(exec) = &mut config.auth_info.exec {
                prepare_plugin(exec).map_err(|fault| entries.error(entries.user.as_ref(), fault))?;
            }
            Ok(Loaded {
                config,
                plugin: None,
                names_proxy,
                entries,
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
            let entry = match error {
                // The URL is the environment's.
                kube::config::KubeconfigError::ParseProxyUrl(_) if !names_proxy => None,
                _ => entries.of(&error),
            };
            Err(entries.error(entry, fault))
        }
    }
}

/// Returns the cluster of the context.
fn cluster<'k>(kubeconfig: &'k Kubeconfig, context: Option<&str>) -> Option<&'k Cluster> {
    let context = context.or(kubeconfig.current_context.as_deref())?;
    let context = kubeconfig.contexts.iter().find(|named| named.name == context)?;
    let cluster = &context.context.as_ref()?.cluster;
    let cluster = kubeconfig.clusters.iter().find(|named| named.name == *cluster)?;
    cluster.cluster.as_ref()
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
                place: None,
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
            place: None,
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

type Fault = (Option<String>, String);

fn unparsed(error: &kube::config::KubeconfigError) -> Fault {
    match error {
        kube::config::KubeconfigError::Parse(error) => yaml(error),
        error => (None, client_error::kubeconfig(error)),
    }
}

/// Describes why a text cannot be parsed as a kubeconfig. Only the parser's own words, or the names of our own types,
/// are repeated, never the text that it found.
fn yaml(error: &YamlError) -> Fault {
    let location = error.location().filter(|location| location.line() > 0);
    let place = location.map(|at| format!("line {}, column {}", at.line(), at.column()));
    let error = error.without_snippet();
    let fault = match error {
        YamlError::AliasError { error, .. } => return (place, yaml(error).1),
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
    (place, fault)
}

/// An entry of a file.
#[derive(Clone, Debug)]
struct Entry {
    file: PathBuf,
    /// Its place in the file, as in `users[2] "name"`.
    place: String,
}

/// The entries that belong to the chosen context.
#[derive(Clone, Debug, Default)]
struct Entries {
    /// The file, if there is only one.
    file: Option<PathBuf>,
    context: Option<Entry>,
    cluster: Option<Entry>,
    user: Option<Entry>,
}

impl Entries {
    /// Finds the entries. Fails for a fault of one that kube would not find, or not survive.
    fn find<'f>(read: &'f [(PathBuf, Kubeconfig)], named: Option<&str>) -> Result<Self, KubeconfigError> {
        let mut entries = Self::default();
        if let [(file, _)] = read {
            entries.file = Some(file.clone());
        }
        let context = if let Some(named) = named {
            named
        } else {
            let mut files = read.iter();
            let current = files.find_map(|(file, config)| Some((file, config.current_context.as_deref()?)));
            let Some((file, context)) = current else {
                return Ok(entries);
            };
            // Until it is found.
            entries.context = Some(Entry {
                file: file.clone(),
                place: "current-context".to_owned(),
            });
            context
        };
        let contexts = |config: &'f Kubeconfig| (&*config.contexts, "contexts");
        let Some((entry, context)) = first(read, contexts, |one| &one.name, context) else {
            return Ok(entries);
        };
        entries.context = Some(entry);
        let Some(context) = &context.context else {
            return Ok(entries);
        };
        let clusters = |config: &'f Kubeconfig| (&*config.clusters, "clusters");
        if let Some((entry, named)) = first(read, clusters, |one| &one.name, &context.cluster) {
            let server = named
                .cluster
                .as_ref()
                .and_then(|cluster| cluster.server.as_deref());
            if let Some(Err(fault)) = server.map(check_url) {
                return Err(entries.error(Some(&entry), format!("server {fault}")));
            }
            entries.cluster = Some(entry);
        }
        let users = |config: &'f Kubeconfig| (&*config.auth_infos, "users");
        let user = context.user.as_deref();
        if let Some((entry, named)) = user.and_then(|user| first(read, users, |one| &one.name, user)) {
            // It is a secret, which only serialization shows.
            let user = serde_json::to_value(&named.auth_info).unwrap_or_default();
            let token = user["token"].as_str().map(HeaderValue::try_from);
            if let Some(Err(_)) = token {
                let fault = "the token holds a character that cannot be sent, such as the end of a line";
                return Err(entries.error(Some(&entry), fault.to_owned()));
            }
            entries.user = Some(entry);
        }
        Ok(entries)
    }

    /// Returns the entry that one of kube's errors refers to.
    fn of(&self, error: &kube::config::KubeconfigError) -> Option<&Entry> {
        use kube::config::KubeconfigError as E;
        match error {
            E::LoadContext(_) | E::LoadClusterOfContext(_) => self.context.as_ref(),
            E::MissingClusterUrl
            | E::ParseClusterUrl(_)
            | E::LoadCertificateAuthority(_)
            | E::ParseCertificates(_)
            | E::ParseProxyUrl(_) => self.cluster.as_ref(),
            E::LoadClientCertificate(_) | E::LoadClientKey(_) => self.user.as_ref(),
            _ => None,
        }
    }

    fn error(&self, entry: Option<&Entry>, fault: String) -> KubeconfigError {
        KubeconfigError {
            file: entry.map(|entry| &entry.file).or(self.file.as_ref()).cloned(),
            place: entry.map(|entry| entry.place.clone()),
            fault,
        }
    }
}

/// Finds an entry in the files. Of those with the same name, the first counts.
fn first<'f, T>(
    read: &'f [(PathBuf, Kubeconfig)],
    section: impl Fn(&'f Kubeconfig) -> (&'f [T], &'static str),
    name_of: impl Fn(&T) -> &str,
    name: &str,
) -> Option<(Entry, &'f T)> {
    read.iter().find_map(|(file, config)| {
        let (list, section) = section(config);
        let at = list.iter().position(|one| name_of(one) == name)?;
        let entry = Entry {
            file: file.clone(),
            place: format!("{section}[{at}] \"{}\"", Excerpt::value(name)),
        };
        Some((entry, &list[at]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[tokio::test]
    async fn a_file_of_authorities_is_read_again_and_one_that_is_not_used_is_not() {
        let tls = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls/authority.crt");
        let path = std::env::temp_dir().join(format!("endpointd-kubeconfig-{}", std::process::id()));
        let data = STANDARD.encode(std::fs::read(tls).unwrap());
        for (data, read) in [(None, Some(tls)), (Some(data), None)] {
            let cluster = json!({
                "server": "https://localhost",
                "certificate-authority": tls,
                "certificate-authority-data": data,
            });
            let text = json!({
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
                "clusters": [{"name": "k", "cluster": cluster}],
                "users": [{"name": "u", "user": {}}],
            });
            std::fs::write(&path, text.to_string()).unwrap();
            let loaded = load(&ConfigFile::from(&path), None).await;
            std::fs::remove_file(&path).unwrap();
            assert_eq!(
                loaded.unwrap().config.root_cert_file.as_deref(),
                read.map(Path::new)
            );
        }
    }
}
