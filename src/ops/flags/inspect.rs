//! The flags of the read-only commands.

use super::{ConnectionArgs, MirroringArgs, PublishingArgs};
use crate::cluster::connect::Target;
use crate::cluster::kubeconfig::ConfigFile;
use crate::core::golang;
use clap::ValueEnum;
use std::time::Duration;

impl ConnectionArgs {
    /// Returns the API server for a tool that people call. Without flags it is the one that kubectl would use, and the
    /// in-cluster one only if kubectl would find none.
    pub(crate) fn target_of_tool(&self) -> Target {
        match self.target() {
            Target::InCluster if ConfigFile::is_at_hand() => Target::Kubeconfig(ConfigFile::default()),
            target => target,
        }
    }
}

/// The flags of `endpointd audit`. Flags that decide what is published have the same names as for `run`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AuditArgs {
    /// How to reach the API server.
    #[command(flatten)]
    pub connection: ConnectionArgs,

    /// Check this namespace only
    #[arg(long, short = 'n', value_name = "NAME")]
    pub namespace: Option<String>,

    /// Format of the findings
    #[arg(long, short = 'o', value_name = "FORMAT", value_parser = ["table", "json"], default_value = "table")]
    pub output: String,

    /// How long to wait before differences are checked again; only those that remain are reported, since a controller
    /// at work takes a moment
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "2s",
        value_parser = golang::parse_duration,
        allow_hyphen_values = true
    )]
    pub settle: Duration,

    /// The objects to publish, as for `run`.
    #[command(flatten)]
    pub publishing: PublishingArgs,
}

/// The flags of `endpointd explain`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// The Service to explain
    #[arg(value_name = "NAMESPACE/SERVICE", value_parser = parse_service)]
    pub service: (String, String),

    /// How to reach the API server.
    #[command(flatten)]
    pub connection: ConnectionArgs,

    /// Format of the explanation
    #[arg(long, short = 'o', value_name = "FORMAT", value_parser = ["text", "json"], default_value = "text")]
    pub output: String,

    /// What is mirrored, as for `run`.
    #[command(flatten)]
    pub mirroring: MirroringArgs,

    /// Show every pod, even when many are published as they should be
    #[arg(long)]
    pub all: bool,

    /// When to use colours; auto uses them on a terminal, unless `NO_COLOR` is set
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Colour::Auto)]
    pub color: Colour,
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

fn parse_service(text: &str) -> Result<(String, String), &'static str> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        _ => Err("expected NAMESPACE/SERVICE"),
    }
}
