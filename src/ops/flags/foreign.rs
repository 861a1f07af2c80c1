//! Flags of kube-controller-manager that have no meaning here. They are removed from the command line before it is
//! parsed, so that a copied command line starts; flags that neither program knows stay and are refused.

use crate::core::golang::parse_bool;
use std::ffi::OsString;

/// The form of a flag's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Takes {
    /// A value, behind `=` or as the next argument.
    Value,
    /// A bool behind `=`, or nothing.
    Bool,
}
use Takes::{Bool, Value};

/// A group of flags, so that a feature that comes takes its flags out in one piece.
type Group = &'static [(&'static str, Takes)];

/// kube-controller-manager 1.36's flags that have no meaning here.
const GROUPS: &[Group] = &[LEADER_MIGRATION, SERVING, ACCESS, PROCESS, CONTROLLERS];

#[rustfmt::skip]
const LEADER_MIGRATION: Group = &[("enable-leader-migration", Bool), ("leader-migration-config", Value)];

#[rustfmt::skip]
const SERVING: Group = &[
    ("cert-dir", Value), ("contention-profiling", Bool), ("disable-http2-serving", Bool),
    ("http2-max-streams-per-connection", Value), ("permit-address-sharing", Bool), ("permit-port-sharing", Bool),
    ("profiling", Bool), ("tls-cipher-suites", Value),
    ("tls-curve-preferences", Value), ("tls-min-version", Value),     ("tls-sni-cert-key", Value),
];

/// Authentication and authorization of the admin port.
#[rustfmt::skip]
const ACCESS: Group = &[
    ("authentication-kubeconfig", Value), ("authentication-skip-lookup", Bool),
    ("authentication-token-webhook-cache-ttl", Value), ("authentication-tolerate-lookup-failure", Bool),
    ("authorization-always-allow-paths", Value), ("authorization-kubeconfig", Value),
    ("authorization-webhook-cache-authorized-ttl", Value), ("authorization-webhook-cache-unauthorized-ttl", Value),
    ("client-ca-file", Value), ("requestheader-allowed-names", Value), ("requestheader-client-ca-file", Value),
    ("requestheader-extra-headers-prefix", Value), ("requestheader-group-headers", Value),
    ("requestheader-uid-headers", Value), ("requestheader-username-headers", Value),
];

/// The process as a whole: versions, feature gates, logs, metrics, its client.
#[rustfmt::skip]
const PROCESS: Group = &[
    ("allow-metric-labels", Value), ("allow-metric-labels-manifest", Value), ("controller-shutdown-timeout", Value),
    ("controller-start-interval", Value), ("disabled-metrics", Value), ("emulated-version", Value),
    ("feature-gates", Value), ("log-flush-frequency", Value),
    ("log-json-info-buffer-size", Value), ("log-json-split-stream", Bool), ("log-text-info-buffer-size", Value),
    ("log-text-split-stream", Bool), ("min-compatibility-version", Value), ("min-resync-period", Value),
    ("show-hidden-metrics-for-version", Value), ("use-service-account-credentials", Bool), ("v", Value),
    ("vmodule", Value),
];

/// Single controllers, of which the first three are ours: requests in flight are limited here, not workers.
#[rustfmt::skip]
const CONTROLLERS: Group = &[
    ("concurrent-endpoint-syncs", Value), ("concurrent-service-endpoint-syncs", Value),
    ("allocate-node-cidrs", Bool), ("attach-detach-reconcile-sync-period", Value), ("cidr-allocator-type", Value),
    ("cloud-config", Value), ("cloud-provider", Value), ("cluster-cidr", Value), ("cluster-name", Value),
    ("cluster-signing-cert-file", Value), ("cluster-signing-duration", Value), ("cluster-signing-key-file", Value),
    ("cluster-signing-kube-apiserver-client-cert-file", Value),
    ("cluster-signing-kube-apiserver-client-key-file", Value),
    ("cluster-signing-kubelet-client-cert-file", Value), ("cluster-signing-kubelet-client-key-file", Value),
    ("cluster-signing-kubelet-serving-cert-file", Value), ("cluster-signing-kubelet-serving-key-file", Value),
    ("cluster-signing-legacy-unknown-cert-file", Value), ("cluster-signing-legacy-unknown-key-file", Value),
    ("concurrent-cron-job-syncs", Value), ("concurrent-daemonset-syncs", Value),
    ("concurrent-deployment-syncs", Value), ("concurrent-device-taint-eviction-syncs", Value),
    ("concurrent-ephemeralvolume-syncs", Value), ("concurrent-gc-syncs", Value),
    ("concurrent-horizontal-pod-autoscaler-syncs", Value), ("concurrent-job-syncs", Value),
    ("concurrent-namespace-syncs", Value), ("concurrent-rc-syncs", Value), ("concurrent-replicaset-syncs", Value),
    ("concurrent-resource-claim-syncs", Value), ("concurrent-resource-quota-syncs", Value),
    ("concurrent-resourceclaim-syncs", Value), ("concurrent-service-syncs", Value),
    ("concurrent-serviceaccount-token-syncs", Value), ("concurrent-statefulset-syncs", Value),
    ("concurrent-ttl-after-finished-syncs", Value), ("concurrent-validating-admission-policy-status-syncs", Value),
    ("configure-cloud-routes", Bool), ("disable-attach-detach-reconcile-sync", Bool),
    ("disable-force-detach-on-timeout", Bool), ("enable-dynamic-provisioning", Bool),
    ("enable-garbage-collector", Bool), ("enable-hostpath-provisioner", Bool),
    ("external-cloud-volume-plugin", Value), ("flex-volume-plugin-dir", Value),
    ("horizontal-pod-autoscaler-cpu-initialization-period", Value),
    ("horizontal-pod-autoscaler-downscale-stabilization", Value),
    ("horizontal-pod-autoscaler-initial-readiness-delay", Value),
    ("horizontal-pod-autoscaler-sync-period", Value), ("horizontal-pod-autoscaler-tolerance", Value),
    ("large-cluster-size-threshold", Value), ("legacy-service-account-token-clean-up-period", Value),
    ("mirroring-concurrent-service-endpoint-syncs", Value),
    ("namespace-sync-period", Value), ("node-cidr-mask-size", Value), ("node-cidr-mask-size-ipv4", Value),
    ("node-cidr-mask-size-ipv6", Value), ("node-eviction-rate", Value), ("node-monitor-grace-period", Value),
    ("node-monitor-period", Value), ("node-startup-grace-period", Value),
    ("pv-recycler-increment-timeout-nfs", Value), ("pv-recycler-minimum-timeout-hostpath", Value),
    ("pv-recycler-minimum-timeout-nfs", Value), ("pv-recycler-pod-template-filepath-hostpath", Value),
    ("pv-recycler-pod-template-filepath-nfs", Value), ("pv-recycler-timeout-increment-hostpath", Value),
    ("pvclaimbinder-sync-period", Value), ("resource-quota-sync-period", Value), ("root-ca-file", Value),
    ("route-reconciliation-period", Value), ("secondary-node-eviction-rate", Value),
    ("service-account-private-key-file", Value), ("service-cluster-ip-range", Value),
    ("terminated-pod-gc-threshold", Value), ("unhealthy-zone-threshold", Value),
];

/// A command line in two parts.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Split {
    /// The arguments that remain to be parsed.
    pub(super) own: Vec<OsString>,
    /// The flags that were taken off, each once, as they are written in upstream's help.
    pub(super) ignored: Vec<String>,
}

/// Splits the arguments of a command. `takes_argument` returns whether a long flag of ours without `=` has the next
/// argument as its value; such a value is never taken for a flag.
///
/// As upstream, underscores in names count as hyphens, a flag with a value takes whatever argument comes next, and
/// a bool never takes the next argument.
///
/// # Errors
///
/// When a flag that is removed lacks its value, or its value is not a bool where one is expected.
pub(super) fn split(
    args: impl IntoIterator<Item = OsString>,
    takes_argument: impl Fn(&str) -> bool,
) -> Result<Split, String> {
    let mut args = args.into_iter();
    let (mut own, mut ignored) = (Vec::new(), Vec::new());
    while let Some(arg) = args.next() {
        if arg == "--" {
            own.push(arg);
            own.extend(args.by_ref());
            break;
        }
        let Some((name, value)) = arg.to_str().and_then(flag) else {
            own.push(arg);
            continue;
        };
        let shown = if name == "v" {
            "-v".to_owned()
        } else {
            format!("--{name}")
        };
        let Some(takes) = find(&name) else {
            let next = value.is_none() && takes_argument(&name);
            // Underscores in the name are replaced by hyphens.
            own.push(
                value
                    .map_or(shown.clone(), |value| format!("{shown}={value}"))
                    .into(),
            );
            own.extend(args.by_ref().take(usize::from(next)));
            continue;
        };
        match (takes, value) {
            (Value, None) if args.next().is_none() => {
                return Err(format!("a value is required for '{shown}'"));
            }
            (Bool, Some(value)) if parse_bool(value).is_none() => {
                return Err(format!(
                    "invalid value '{value}' for '{shown}': expected true or false"
                ));
            }
            _ => {}
        }
        if !ignored.contains(&shown) {
            ignored.push(shown);
        }
    }
    Ok(Split { own, ignored })
}

fn find(name: &str) -> Option<Takes> {
    let mut all = GROUPS.iter().flat_map(|group| group.iter());
    all.find(|(known, _)| *known == name).map(|(_, takes)| *takes)
}

/// Returns the name and the value of a long flag, or of `-v`, the one short flag that only upstream has.
fn flag(arg: &str) -> Option<(String, Option<&str>)> {
    if let Some(level) = arg.strip_prefix("-v") {
        let level = level.strip_prefix('=').unwrap_or(level);
        let number = level.is_empty() || level.parse::<i32>().is_ok();
        return number.then(|| ("v".to_owned(), Some(level).filter(|level| !level.is_empty())));
    }
    let long = arg.strip_prefix("--")?;
    let (name, value) = match long.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (long, None),
    };
    Some((name.replace('_', "-"), value))
}

/// Returns whether a flag is in the list of those that have no meaning here.
#[cfg(test)]
pub(super) fn is_ignored(name: &str) -> bool {
    find(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(args: &[&str]) -> Result<(Vec<String>, Vec<String>), String> {
        let takes_argument = |name: &str| matches!(name, "kubeconfig" | "kube-api-qps" | "controllers");
        let split = split(args.iter().map(OsString::from), takes_argument)?;
        let own = split.own.iter().map(|arg| arg.to_str().unwrap().to_owned());
        Ok((own.collect(), split.ignored))
    }

    fn strings(args: &[&str]) -> Vec<String> {
        args.iter().map(|&arg| arg.to_owned()).collect()
    }

    #[test]
    fn values_and_bools_are_told_apart() {
        for (args, own, ignored) in [
            (&[][..], &[][..], &[][..]),
            (
                &["--profiling", "--kubeconfig", "a"],
                &["--kubeconfig", "a"],
                &["--profiling"],
            ),
            (&["--profiling=F"], &[], &["--profiling"]),
            (&["--profiling", "false"], &["false"], &["--profiling"]),
            (
                &["--cluster-cidr", "10.0.0.0/8", "x"],
                &["x"],
                &["--cluster-cidr"],
            ),
            (&["--cluster-cidr=10.0.0.0/8", "x"], &["x"], &["--cluster-cidr"]),
            (&["--cluster-name="], &[], &["--cluster-name"]),
            (&["--cluster-name", "--nonsense"], &[], &["--cluster-name"]),
            (&["--concurrent_rc_syncs=7"], &[], &["--concurrent-rc-syncs"]),
            (&["-v", "2"], &[], &["-v"]),
            (&["-v=2", "--v=3", "--v", "4", "-v5"], &[], &["-v"]),
            (
                &["--tls-sni-cert-key=a", "--tls-sni-cert-key=b"],
                &[],
                &["--tls-sni-cert-key"],
            ),
            (&["--vmodule", "a=1"], &[], &["--vmodule"]),
        ] {
            assert_eq!(run(args), Ok((strings(own), strings(ignored))), "{args:?}");
        }
    }

    #[test]
    fn what_is_ours_or_nobodys_is_left() {
        for (args, own) in [
            (&["--nonsense=1", "-x", "y"][..], &["--nonsense=1", "-x", "y"][..]),
            (&["--kube_api_qps", "-1"], &["--kube-api-qps", "-1"]),
            (&["--kube_api_qps=a_b"], &["--kube-api-qps=a_b"]),
            (
                &["--controllers", "--profiling", "--profiling=0"],
                &["--controllers", "--profiling"],
            ),
            (&["--kubeconfig"], &["--kubeconfig"]),
            (&["--", "--profiling"], &["--", "--profiling"]),
            (&["-profiling", "-vmodule=a=1"], &["-profiling", "-vmodule=a=1"]),
        ] {
            assert_eq!(run(args).unwrap().0, strings(own), "{args:?}");
        }
    }

    #[test]
    fn what_upstream_refuses_is_refused() {
        for (args, says) in [
            (&["--cluster-cidr"][..], "--cluster-cidr"),
            (&["-v"], "-v"),
            (&["--profiling=maybe"], "'maybe' for '--profiling'"),
            (&["--profiling="], "--profiling"),
        ] {
            let error = run(args).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn arguments_that_are_no_text_are_left_alone() {
        use std::os::unix::ffi::OsStringExt as _;
        let odd = OsString::from_vec(vec![b'-', b'-', 0xff]);
        let split = split([odd.clone()], |_| false).unwrap();
        assert_eq!(split.own, [odd]);
    }

    #[test]
    fn no_flag_is_listed_twice() {
        let mut names: Vec<_> = GROUPS.iter().flat_map(|group| group.iter()).collect();
        let all = names.len();
        names.sort_unstable_by_key(|(name, _)| *name);
        names.dedup_by_key(|(name, _)| *name);
        assert_eq!(names.len(), all);
        assert!(all > 120, "{all}");
    }
}
