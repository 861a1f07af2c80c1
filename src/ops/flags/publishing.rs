//! The flags that decide what is published. `run`, `audit` and `explain` have them.

use super::{Controllers, Switch, controllers};
use crate::core::namespace::Settings;
use crate::core::outputs::Outputs;

/// The flags that decide what is mirrored.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct MirroringArgs {
    /// Maximum number of addresses that are mirrored of each subset of Endpoints
    ///
    /// Ready addresses come first. Only Endpoints of Services without a selector are mirrored.
    #[arg(
        long = "mirroring-max-endpoints-per-subset",
        value_name = "N",
        default_value_t = 1000,
        value_parser = clap::value_parser!(u16).range(1..=1000)
    )]
    pub max_per_subset: u16,
}

/// The flags that decide what is published.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PublishingArgs {
    /// Controllers to replace: `*` for all, NAME for one, -NAME to leave one out; the first item that names a controller
    /// decides
    ///
    /// endpointd replaces endpoints-controller, endpointslice-controller and endpointslice-mirroring-controller. Each of
    /// them must be off in kube-controller-manager. custom-selector-controller, which * does not include, serves Services
    /// with the annotation endpointd.io/selector. The list may also name other controllers of kube-controller-manager,
    /// which endpointd does not run.
    #[arg(
        long,
        value_name = "LIST",
        default_value = "*",
        value_parser = Controllers::parse,
        allow_hyphen_values = true
    )]
    pub controllers: Vec<Controllers>,

    /// Maximum number of endpoints in a slice
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub max_endpoints_per_slice: u16,

    /// The flags that decide what is mirrored.
    #[command(flatten)]
    pub mirroring: MirroringArgs,

    /// Let the Service annotation `service.alpha.kubernetes.io/tolerate-unready-endpoints` override
    /// publishNotReadyAddresses for Endpoints, as in Kubernetes releases long before 1.36
    #[arg(long, value_name = "BOOL", default_value = "false")]
    pub legacy_tolerate_unready_annotation: Switch,
}

impl PublishingArgs {
    /// Returns which outputs are enabled. [`super::parse`] has checked that at least one is.
    pub(crate) fn outputs(&self) -> Outputs {
        controllers::outputs(&self.controllers)
    }

    /// Returns the names of the controllers that run, separated by commas.
    pub(crate) fn controllers_here(&self) -> String {
        let names: Vec<_> = self.outputs().controllers().collect();
        names.join(",")
    }

    /// Returns the controllers of kube-controller-manager that are asked for by name and are not run here.
    pub(crate) fn controllers_elsewhere(&self) -> Vec<&'static str> {
        controllers::elsewhere(&self.controllers)
    }

    /// Returns the settings of the core. All randomness derives from `seed`.
    pub(crate) fn settings(&self, seed: u64) -> Settings {
        Settings {
            max_endpoints: usize::from(self.max_endpoints_per_slice),
            max_mirrored: usize::from(self.mirroring.max_per_subset),
            outputs: self.outputs(),
            legacy_tolerate_unready: self.legacy_tolerate_unready_annotation.0,
            clear_managed_fields: false,
            seed,
        }
    }
}
