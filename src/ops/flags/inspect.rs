//! The flags of the read-only commands.

use super::{ConnectionArgs, Period, PublishingArgs};
use crate::cluster::connect::kubeconfig::ConfigFile;
use crate::cluster::connect::{Impersonated, Target};
use crate::core::golang;
use crate::core::selector::{Selector, SelectorError};
use clap::ValueEnum;
use std::time::Duration;

impl ConnectionArgs {
    /// Returns the API server for a tool that users call. Without flags it is the one that kubectl would use, and the
    /// in-cluster one only if kubectl would find none.
    pub(crate) fn target_of_tool(&self) -> Target {
        match self.target() {
            Target::InCluster if ConfigFile::is_at_hand() => Target::Kubeconfig(ConfigFile::default()),
            target => target,
        }
    }
}

/// The flags that both read-only commands have.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ToolArgs {
    /// How to reach the API server.
    #[command(flatten)]
    pub connection: ConnectionArgs,

    /// Read with the rights of this user, such as system:serviceaccount:NAMESPACE:NAME, which takes the right to
    /// impersonate it
    #[arg(long = "as", value_name = "USER")]
    pub user: Option<String>,

    /// Read as a member of this group as well; may be repeated
    #[arg(long = "as-group", value_name = "GROUP", requires = "user")]
    pub groups: Vec<String>,

    /// How long the API server may be silent before a command gives up; 0 means no limit
    ///
    /// The time begins anew with each request, and with each part of a long answer. API servers end a request after 60
    /// seconds themselves, so a longer wait is rarely worthwhile. After 5 seconds, a line on standard error says what is
    /// waited for. As for kubectl, a number without a unit is in seconds.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_timeout)]
    pub request_timeout: Duration,

    /// When to use colours; auto uses them on a terminal, unless `NO_COLOR` is set
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Colour::Auto)]
    pub color: Colour,

    /// How long to wait before what is out of sync is looked at again; only what remains is reported, since a controller
    /// at work takes a moment
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    pub settle: Period,

    /// The objects to publish, as for `run`.
    #[command(flatten)]
    pub publishing: PublishingArgs,
}

impl ToolArgs {
    /// Returns the user whose rights are used, if one is given.
    pub(crate) fn impersonated(&self) -> Option<Impersonated> {
        let user = self.user.clone().filter(|user| !user.is_empty())?;
        let groups = self.groups.clone();
        Some(Impersonated { user, groups })
    }

    /// Returns how long the API server may be silent, if there is a limit.
    pub(crate) fn limit(&self) -> Option<Duration> {
        Some(self.request_timeout).filter(|limit| !limit.is_zero())
    }
}

/// A label selector, in the grammar of kubectl; none selects everything.
#[derive(Clone, Debug)]
pub(crate) struct LabelSelector(pub Option<Selector>);

fn parse_selector(text: &str) -> Result<LabelSelector, SelectorError> {
    Selector::parse(text).map(LabelSelector)
}

/// The treatment of objects of Services that are gone, in an audit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum LeftOver {
    /// It lists them.
    Report,
    /// It lists them, and fails.
    Fail,
}

/// The flags of `endpointd audit`. Flags that decide what is published have the same names as for `run`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AuditArgs {
    /// What both read-only commands have.
    #[command(flatten)]
    pub tool: ToolArgs,

    /// Check this namespace only
    #[arg(long, short = 'n', value_name = "NAME")]
    pub namespace: Option<String>,

    /// Check all namespaces, which is the default, even if --namespace is given
    #[arg(long, short = 'A')]
    pub all_namespaces: bool,

    /// Check the Services with these labels only, given as for kubectl; objects of Services that are gone are left out
    #[arg(long, short = 'l', value_name = "SELECTOR", value_parser = parse_selector)]
    pub selector: Option<LabelSelector>,

    /// Report problems of Services that are in sync as well
    ///
    /// Such as a selector that matches no pod, no ready endpoint, a named port that no container has, pods on nodes that do
    /// not exist, truncated Endpoints, and hints that cannot be given. Each has a stable name in every format. Problems make
    /// the exit code 1, as differences do.
    #[arg(long)]
    pub problems: bool,

    /// Whether Endpoints that are left over from Services that are gone make the exit code 1
    ///
    /// A controller that runs leaves such objects alone, and anyone who may create Endpoints can make some, so they are only
    /// reported by default. Where nothing but the controller writes Endpoints, one that is left over is one that it failed to
    /// delete.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = LeftOver::Report)]
    pub left_over: LeftOver,

    /// Format of the findings
    #[arg(long, short = 'o', value_name = "FORMAT", value_parser = ["table", "json"], default_value = "table")]
    pub output: String,
}

/// The flags of `endpointd explain`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// The Service to explain: NAMESPACE/SERVICE, or as kubectl has it SERVICE, service/SERVICE, or the two words service
    /// SERVICE; svc stands for service
    #[arg(
        value_name = "[NAMESPACE/]SERVICE",
        value_parser = parse_service,
        num_args = 1..=2,
        required_unless_present = "selector"
    )]
    pub service: Vec<ServiceName>,

    /// Explain each Service of the namespace that has these labels, given as for kubectl
    #[arg(long, short = 'l', value_name = "SELECTOR", value_parser = parse_selector, conflicts_with = "service")]
    pub selector: Option<LabelSelector>,

    /// Namespace of the Service, if it is not part of its name; by default that of the context
    #[arg(long, short = 'n', value_name = "NAME")]
    pub namespace: Option<String>,

    /// What both read-only commands have.
    #[command(flatten)]
    pub tool: ToolArgs,

    /// Format of the explanation
    #[arg(long, short = 'o', value_name = "FORMAT", value_parser = ["text", "json"], default_value = "text")]
    pub output: String,

    /// True if `--controllers` was not given.
    #[arg(skip)]
    pub as_served: bool,

    /// Show every pod, even when many are published as they should be
    #[arg(long)]
    pub all: bool,
}

impl ExplainArgs {
    /// Returns the Service that is to be explained, if it is given by its name.
    ///
    /// # Errors
    ///
    /// When there are two words of which the first is not kubectl's name of the type.
    pub(crate) fn named(&self) -> Result<Option<&ServiceName>, &'static str> {
        match &self.service[..] {
            [] => Ok(None),
            [service] => Ok(Some(service)),
            [kind, service]
                if kind.namespace.is_none()
                    && service.namespace.is_none()
                    && SERVICE_TYPES.contains(&&*kind.name) =>
            {
                Ok(Some(service))
            }
            [kind, ..] if OTHER_TYPES.contains(&&*kind.name) => Err(ONLY_SERVICES),
            _ => Err("one Service can be explained at a time, or several by --selector"),
        }
    }
}

/// When to use colours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Colour {
    /// On a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

fn parse_timeout(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse::<u32>() {
        return Ok(Duration::from_secs(seconds.into()));
    }
    golang::parse_duration(text).map_err(|error| error.to_string())
}

/// The name of a Service as it was given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ServiceName {
    namespace: Option<String>,
    name: String,
}

impl ServiceName {
    /// Returns the namespace, if one is given here or by the flag, and the name.
    ///
    /// # Errors
    ///
    /// When the two namespaces differ.
    pub(crate) fn in_namespace<'a>(
        &'a self,
        flag: Option<&'a str>,
    ) -> Result<(Option<&'a str>, &'a str), String> {
        let flag = flag.filter(|namespace| !namespace.is_empty());
        match (self.namespace.as_deref(), flag) {
            (Some(own), Some(flag)) if own != flag => Err(format!(
                "the Service is named in namespace {own}, but --namespace is {flag}"
            )),
            (own, flag) => Ok((own.or(flag), &self.name)),
        }
    }
}

/// kubectl's names of the type.
const SERVICE_TYPES: [&str; 3] = ["service", "services", "svc"];
const ONLY_SERVICES: &str =
    "only Services can be explained: expected NAMESPACE/SERVICE, SERVICE, or service/SERVICE";

/// kubectl's names of other types that a Service is easily confused with.
const OTHER_TYPES: [&str; 14] = [
    "deploy",
    "deployment",
    "deployments",
    "endpoints",
    "endpointslice",
    "endpointslices",
    "ep",
    "no",
    "node",
    "nodes",
    "po",
    "pod",
    "pods",
    "statefulset",
];

/// Parses a Service's name. A namespace that is called like one of kubectl's types has to be given by flag.
fn parse_service(text: &str) -> Result<ServiceName, &'static str> {
    let (namespace, name) = match text.split_once('/') {
        Some((own, name)) if SERVICE_TYPES.contains(&own) => (None, name),
        Some((other, _)) if OTHER_TYPES.contains(&other) => return Err(ONLY_SERVICES),
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, text),
    };
    if namespace == Some("") || name.is_empty() || name.contains('/') {
        return Err("expected NAMESPACE/SERVICE, SERVICE, or service/SERVICE");
    }
    Ok(ServiceName {
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_named_as_kubectl_names_it_or_with_its_namespace() {
        for (text, flag, found) in [
            ("shop/web", None, Ok((Some("shop"), "web"))),
            ("web", None, Ok((None, "web"))),
            ("web", Some("shop"), Ok((Some("shop"), "web"))),
            ("svc/web", Some("shop"), Ok((Some("shop"), "web"))),
            ("service/web", None, Ok((None, "web"))),
            ("services/web", Some(""), Ok((None, "web"))),
            ("shop/web", Some("shop"), Ok((Some("shop"), "web"))),
            (
                "shop/web",
                Some("other"),
                Err("the Service is named in namespace shop, but --namespace is other".to_owned()),
            ),
        ] {
            assert_eq!(parse_service(text).unwrap().in_namespace(flag), found, "{text}");
        }
        for bad in [
            "pod/web",
            "deploy/web",
            "",
            "/",
            "a/",
            "/a",
            "a/b/c",
            "svc/",
            "svc/a/b",
        ] {
            parse_service(bad).unwrap_err();
        }
    }

    #[test]
    fn a_timeout_is_one_of_kubectl() {
        for (text, seconds) in [("0", 0), ("7", 7), ("1m", 60), ("0s", 0)] {
            assert_eq!(parse_timeout(text), Ok(Duration::from_secs(seconds)));
        }
        for bad in ["-1", "-1s", "soon", ""] {
            parse_timeout(bad).unwrap_err();
        }
    }
}
