//! The flags of the commands that only look.

use super::{ConnectionArgs, Controllers, controllers, parse_bool};
use crate::cluster::connect::{ConfigFile, Target};
use crate::core::golang;
use crate::core::namespace::Settings;
use crate::core::outputs::Outputs;
use clap::ValueEnum;
use std::time::Duration;

impl ConnectionArgs {
    /// What the flags say to a tool that people call: with none, as kubectl would have it, and only where it
    /// would find nothing as the pod that this runs in is told.
    pub fn target_of_tool(&self) -> Target {
        match self.target() {
            Target::InCluster if ConfigFile::is_at_hand() => Target::Kubeconfig(ConfigFile::default()),
            target => target,
        }
    }
}

/// The flags of `endpointd audit`. What says how objects should be has the names that it has for `run`.
#[derive(Clone, Debug, clap::Args)]
pub struct AuditArgs {
    /// How to reach the API server.
    #[command(flatten)]
    pub connection: ConnectionArgs,

    /// Look at this namespace only
    #[arg(long, short = 'n', value_name = "NAME")]
    pub namespace: Option<String>,

    /// How the findings are printed
    #[arg(long, short = 'o', value_name = "FORMAT", value_parser = ["table", "json"], default_value = "table")]
    pub output: String,

    /// What is out of sync is looked at again after this time, and reported if it still is: a controller at work
    /// takes a moment
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "2s",
        value_parser = golang::parse_duration,
        allow_hyphen_values = true
    )]
    pub settle: Duration,

    /// The controllers whose objects are looked at, as for `run`
    #[arg(
        long,
        value_name = "LIST",
        default_value = "*",
        value_parser = Controllers::parse,
        allow_hyphen_values = true
    )]
    pub controllers: Vec<Controllers>,

    /// Endpoints that a slice holds at most, as for `run`
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub max_endpoints_per_slice: u16,

    /// As for `run`
    #[arg(
        long = "legacy-tolerate-unready-annotation",
        value_name = "BOOL",
        default_value = "false",
        default_missing_value = "true",
        num_args = 0..=1,
        require_equals = true,
        action = clap::ArgAction::Set,
        value_parser = parse_bool
    )]
    pub legacy_tolerate_unready: bool,
}

impl AuditArgs {
    /// Which outputs are looked at. [`super::parse`] has seen to it that one is.
    pub fn outputs(&self) -> Outputs {
        controllers::outputs(&self.controllers)
    }

    /// What the core needs to know.
    pub fn settings(&self) -> Settings {
        Settings {
            max_endpoints: usize::from(self.max_endpoints_per_slice),
            outputs: self.outputs(),
            legacy_tolerate_unready: self.legacy_tolerate_unready,
            seed: 0,
        }
    }
}

/// The flags of `endpointd explain`.
#[derive(Clone, Debug, clap::Args)]
pub struct ExplainArgs {
    /// The Service
    #[arg(value_name = "NAMESPACE/SERVICE", value_parser = parse_service)]
    pub service: (String, String),

    /// How to reach the API server.
    #[command(flatten)]
    pub connection: ConnectionArgs,

    /// How it is printed
    #[arg(long, short = 'o', value_name = "FORMAT", value_parser = ["text", "json"], default_value = "text")]
    pub output: String,

    /// Show all pods, also where many are as they should be
    #[arg(long)]
    pub all: bool,

    /// Whether to use colours; by itself, on a terminal and unless `NO_COLOR` is set
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Colour::Auto)]
    pub color: Colour,
}

/// When to use colours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Colour {
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
        _ => Err("NAMESPACE/SERVICE is expected"),
    }
}
