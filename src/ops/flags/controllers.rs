//! `--controllers`, as kube-controller-manager has it.

use crate::core::excerpt::Excerpt;
use crate::core::outputs::{
    CUSTOM_CONTROLLER, ENDPOINTS_CONTROLLER, MIRRORING_CONTROLLER, Outputs, SLICES_CONTROLLER,
};
use crate::inspect::explain::meant;

/// The version of kube-controller-manager whose names are known.
const UPSTREAM: &str = "1.36";

/// The names that kube-controller-manager 1.36 knows, each with its older name if it has one, and our own.
#[rustfmt::skip]
const KNOWN: &[(&str, Option<&str>)] = &[
    ("bootstrap-signer-controller", Some("bootstrapsigner")),
    ("certificatesigningrequest-approving-controller", Some("csrapproving")),
    ("certificatesigningrequest-cleaner-controller", Some("csrcleaner")),
    ("certificatesigningrequest-signing-controller", Some("csrsigning")),
    ("cloud-node-lifecycle-controller", Some("cloud-node-lifecycle")),
    ("clusterrole-aggregation-controller", Some("clusterrole-aggregation")),
    ("cronjob-controller", Some("cronjob")),
    (CUSTOM_CONTROLLER, None),
    ("daemonset-controller", Some("daemonset")),
    ("deployment-controller", Some("deployment")),
    ("device-taint-eviction-controller", None),
    ("disruption-controller", Some("disruption")),
    (ENDPOINTS_CONTROLLER, Some("endpoint")),
    (SLICES_CONTROLLER, Some("endpointslice")),
    (MIRRORING_CONTROLLER, Some("endpointslicemirroring")),
    ("ephemeral-volume-controller", Some("ephemeral-volume")),
    ("garbage-collector-controller", Some("garbagecollector")),
    ("horizontal-pod-autoscaler-controller", Some("horizontalpodautoscaling")),
    ("job-controller", Some("job")),
    ("kube-apiserver-serving-clustertrustbundle-publisher-controller", None),
    ("legacy-serviceaccount-token-cleaner-controller", Some("legacy-service-account-token-cleaner")),
    ("namespace-controller", Some("namespace")),
    ("node-ipam-controller", Some("nodeipam")),
    ("node-lifecycle-controller", Some("nodelifecycle")),
    ("node-route-controller", Some("route")),
    ("persistentvolume-attach-detach-controller", Some("attachdetach")),
    ("persistentvolume-binder-controller", Some("persistentvolume-binder")),
    ("persistentvolume-expander-controller", Some("persistentvolume-expander")),
    ("persistentvolume-protection-controller", Some("pv-protection")),
    ("persistentvolumeclaim-protection-controller", Some("pvc-protection")),
    ("pod-garbage-collector-controller", Some("podgc")),
    ("podcertificaterequest-cleaner-controller", None),
    ("podgroup-protection-controller", None),
    ("replicaset-controller", Some("replicaset")),
    ("replicationcontroller-controller", Some("replicationcontroller")),
    ("resourceclaim-controller", Some("resource-claim-controller")),
    ("resourcepoolstatusrequest-controller", None),
    ("resourcequota-controller", Some("resourcequota")),
    ("root-ca-certificate-publisher-controller", Some("root-ca-cert-publisher")),
    ("selinux-warning-controller", None),
    ("service-cidr-controller", None),
    ("service-lb-controller", Some("service")),
    ("serviceaccount-controller", Some("serviceaccount")),
    ("serviceaccount-token-controller", Some("serviceaccount-token")),
    ("statefulset-controller", Some("statefulset")),
    ("storage-version-migrator-controller", None),
    ("storageversion-garbage-collector-controller", Some("storage-version-gc")),
    ("taint-eviction-controller", None),
    ("token-cleaner-controller", Some("tokencleaner")),
    ("ttl-after-finished-controller", Some("ttl-after-finished")),
    ("ttl-controller", Some("ttl")),
    ("validatingadmissionpolicy-status-controller", None),
    ("volumeattributesclass-protection-controller", None),
];

/// One item of the list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Item {
    /// All that are not named.
    Star,
    /// This one, by its present name, on or off.
    Named(&'static str, bool),
}

/// One value of the flag: items with commas between.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Controllers(Vec<Item>);

impl Controllers {
    /// Parses one value. Rejects a name that upstream does not know, with upstream's message.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        // An empty value has no items, rather than one empty item.
        if text.is_empty() {
            return Ok(Self(Vec::new()));
        }
        text.split(',').map(item).collect::<Result<_, _>>().map(Self)
    }
}

fn item(text: &str) -> Result<Item, String> {
    if text == "*" {
        return Ok(Item::Star);
    }
    let (name, on) = match text.strip_prefix('-') {
        Some(name) => (name, false),
        None => (text, true),
    };
    match KNOWN
        .iter()
        .find(|(canonical, alias)| *canonical == name || *alias == Some(name))
    {
        Some(&(canonical, _)) => Ok(Item::Named(canonical, on)),
        None => Err(unknown(name)),
    }
}

fn unknown(name: &str) -> String {
    let names = KNOWN.iter().flat_map(|(name, alias)| [Some(*name), *alias]);
    let meant = match meant(name, names.flatten()) {
        Some(meant) => format!("; is {meant} meant?"),
        None => String::new(),
    };
    format!(
        "\"{}\" is not in the list of known controllers: {ENDPOINTS_CONTROLLER}, {SLICES_CONTROLLER}, {MIRRORING_CONTROLLER}, {CUSTOM_CONTROLLER}, and those of \
         kube-controller-manager {UPSTREAM}{meant}",
        Excerpt::value(name)
    )
}

/// Returns which outputs are enabled by the flag's values, in their order. The first item that names a controller
/// decides; if none does, the controller is enabled if there is a `*` and it is one of upstream's.
pub(super) fn outputs(values: &[Controllers]) -> Outputs {
    Outputs {
        endpoints: enabled(values, ENDPOINTS_CONTROLLER, true),
        slices: enabled(values, SLICES_CONTROLLER, true),
        mirrored: enabled(values, MIRRORING_CONTROLLER, true),
        custom: enabled(values, CUSTOM_CONTROLLER, false),
    }
}

/// Returns whether a controller is enabled; `by_default` if a `*` includes it.
fn enabled(values: &[Controllers], controller: &str, by_default: bool) -> bool {
    let mut items = values.iter().flat_map(|value| &value.0);
    let named = items.clone().find_map(|item| match item {
        Item::Named(name, on) if *name == controller => Some(*on),
        _ => None,
    });
    named.unwrap_or_else(|| by_default && items.any(|item| *item == Item::Star))
}

/// Returns the controllers that are asked for by name and are not run here, each once.
pub(super) fn elsewhere(values: &[Controllers]) -> Vec<&'static str> {
    let mut out = Vec::new();
    for item in values.iter().flat_map(|value| &value.0) {
        if let Item::Named(name, true) = *item
            && !matches!(
                name,
                ENDPOINTS_CONTROLLER | SLICES_CONTROLLER | MIRRORING_CONTROLLER | CUSTOM_CONTROLLER
            )
            && !out.contains(&name)
        {
            out.push(name);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &[&str]) -> Result<Vec<Controllers>, String> {
        values.iter().map(|value| Controllers::parse(value)).collect()
    }

    #[test]
    fn the_first_that_names_a_controller_decides() {
        for (values, endpoints, slices, mirrored) in [
            (&["*"][..], true, true, true),
            (&["endpoints-controller"], true, false, false),
            (&["endpoint"], true, false, false),
            (&["endpointslice"], false, true, false),
            (&["endpointslice-controller,endpoint"], true, true, false),
            (&["endpointslicemirroring"], false, false, true),
            (
                &["endpointslice-mirroring-controller,endpoint"],
                true,
                false,
                true,
            ),
            (&["*,-endpoint"], false, true, true),
            (&["-endpoints-controller,*"], false, true, true),
            (&["*", "-endpointslice-controller"], true, false, true),
            (&["*,-endpointslicemirroring"], true, true, false),
            (&["-endpoint,endpoint,*"], false, true, true),
            (&["endpoint,-endpoint"], true, false, false),
            (&["endpoint", "-endpoints-controller"], true, false, false),
            (&["-deployment,*"], true, true, true),
            (&["*,-endpoint,-endpointslice"], false, false, true),
            (
                &["*,-endpoint,-endpointslice,-endpointslicemirroring"],
                false,
                false,
                false,
            ),
            (&["deployment"], false, false, false),
            (&["-deployment"], false, false, false),
            (&[""], false, false, false),
            (&["", "*"], true, true, true),
            (&[], false, false, false),
        ] {
            let outputs = outputs(&read(values).unwrap());
            assert_eq!(
                (outputs.endpoints, outputs.slices, outputs.mirrored),
                (endpoints, slices, mirrored),
                "{values:?}"
            );
            assert_eq!(outputs.is_none(), !endpoints && !slices && !mirrored);
            assert!(!outputs.custom, "{values:?}");
        }
        for (values, custom) in [
            (&["custom-selector-controller"][..], true),
            (&["*,custom-selector-controller"], true),
            (&["*", "-custom-selector-controller"], false),
        ] {
            assert_eq!(outputs(&read(values).unwrap()).custom, custom, "{values:?}");
        }
    }

    #[test]
    fn unknown_names_are_refused() {
        for (text, name) in [
            ("-endpoint-controller", "\"endpoint-controller\""),
            ("*,endpoints", "\"endpoints\""),
            ("*,", "\"\""),
            ("-", "\"\""),
            ("-*", "\"*\""),
            ("--endpoint", "\"-endpoint\""),
            (" endpoint", "\" endpoint\""),
            ("Endpoint", "\"Endpoint\""),
        ] {
            let error = Controllers::parse(text).unwrap_err();
            let start = format!("{name} is not in the list of known controllers: endpoints-controller, ");
            assert!(error.starts_with(&start), "{error}");
        }
        let error = Controllers::parse("endpointslices").unwrap_err();
        assert!(error.ends_with("; is endpointslice meant?"), "{error}");
        let error = Controllers::parse("nonsense").unwrap_err();
        assert!(
            error.ends_with("custom-selector-controller, and those of kube-controller-manager 1.36"),
            "{error}"
        );
    }

    #[test]
    fn only_what_is_asked_for_by_name_is_missed() {
        let values = read(&["*,deployment,-job,endpoint", "ttl,deployment-controller"]).unwrap();
        assert_eq!(elsewhere(&values), ["deployment-controller", "ttl-controller"]);
    }

    #[test]
    fn no_name_stands_for_two() {
        let mut names: Vec<&str> = KNOWN
            .iter()
            .flat_map(|(name, alias)| [Some(*name), *alias])
            .flatten()
            .collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
