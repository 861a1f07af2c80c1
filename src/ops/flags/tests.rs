use super::*;
use crate::core::outputs::Outputs;

fn invoke(args: &[&str]) -> Result<Invocation, String> {
    let args = ["endpointd", "run"].iter().chain(args).map(OsString::from);
    super::parse(args).map_err(|error| error.to_string())
}

fn parse(args: &[&str]) -> Result<RunArgs, String> {
    let Command::Run(args) = invoke(args)?.cli.command else {
        panic!("only `run` is parsed here");
    };
    Ok(*args)
}

#[test]
fn limits_are_checked() {
    assert_eq!(parse(&[]).unwrap().publishing.max_endpoints_per_slice, 100);
    assert_eq!(
        parse(&["--max-endpoints-per-slice=1000"])
            .unwrap()
            .publishing
            .max_endpoints_per_slice,
        1000
    );
    for bad in [
        "--max-endpoints-per-slice=0",
        "--max-endpoints-per-slice=1001",
        "--kube-api-burst=0",
        "--kube-api-qps=nan",
        "--kube-api-qps=inf",
        "--nonsense",
    ] {
        parse(&[bad]).unwrap_err();
    }
    assert!(parse(&["--kube-api-qps=-1"]).unwrap().kube_api_qps < 0.0);
    parse(&["--kube-api-qps", "-1"]).unwrap();
    parse(&["--log-level=no=such=thing"]).unwrap_err();
}

#[test]
fn a_log_level_is_a_level_or_a_filter() {
    for good in [
        "info",
        "WARN",
        "off",
        "info,endpointd::cluster=debug",
        "warn,endpointd::cluster",
        "endpointd=trace",
    ] {
        assert_eq!(parse(&["--log-level", good]).unwrap().log_level, good);
    }
    for bad in ["inof", "", "info,debgu", "endpointd=inof", "a=b=c", "info,"] {
        let error = parse(&["--log-level", bad]).unwrap_err();
        assert!(
            error.contains("expected error, warn, info, debug, trace or off"),
            "{error}"
        );
    }
}

#[test]
fn the_target_is_what_the_flags_say() {
    let target = |args| parse(args).unwrap().connection.target();
    let (url, path) = ("http://127.0.0.1:1".to_owned(), PathBuf::from("a"));
    assert_eq!(target(&[]), Target::InCluster);
    assert_eq!(target(&["--master=", "--kubeconfig="]), Target::InCluster);
    assert_eq!(
        target(&["--kubeconfig", "a"]),
        Target::Kubeconfig(path.clone().into())
    );
    assert_eq!(
        target(&["--server=http://127.0.0.1:1"]),
        Target::Server(url.clone())
    );
    assert_eq!(
        target(&["--master", "http://127.0.0.1:1"]),
        Target::Server(url.clone())
    );
    assert_eq!(
        target(&["--master=http://127.0.0.1:1", "--kubeconfig=a"]),
        Target::KubeconfigAt(path.clone().into(), url)
    );
    let context = Some("c".to_owned());
    let named = |path| {
        Target::Kubeconfig(ConfigFile {
            path,
            context: context.clone(),
        })
    };
    assert_eq!(target(&["--kubeconfig=a", "--context=c"]), named(Some(path)));
    assert_eq!(target(&["--context=c"]), named(None));
}

#[test]
fn the_last_of_a_repeated_flag_counts_but_lists_grow() {
    let args = parse(&[
        "--kube-api-burst=1",
        "--kube-api-burst",
        "2",
        "--controllers=-endpoint",
        "--controllers=*",
    ]);
    let args = args.unwrap();
    assert_eq!(args.kube_api_burst, 2);
    assert_eq!(
        (
            args.publishing.outputs().endpoints,
            args.publishing.outputs().slices
        ),
        (false, true)
    );
}

#[test]
fn controllers_choose_the_outputs() {
    assert_eq!(parse(&[]).unwrap().publishing.outputs(), Outputs::ALL);
    let args = parse(&["--controllers", "-endpointslice,*,deployment"]).unwrap();
    assert_eq!(
        (
            args.publishing.outputs().endpoints,
            args.publishing.outputs().slices
        ),
        (true, false)
    );
    assert_eq!(args.publishing.controllers_elsewhere(), ["deployment-controller"]);
    for (args, says) in [
        (
            &["--controllers=-endpoint-controller,*"][..],
            "\"endpoint-controller\" is not in the list of known controllers",
        ),
        (&["--controllers=deployment"], "turns off all"),
        (&["--controllers="], "turns off all"),
        (
            &[
                "--controllers=*",
                "--controllers=-endpoint,-endpointslice,-endpointslicemirroring",
            ],
            "turns off all",
        ),
    ] {
        let error = parse(args).unwrap_err();
        assert!(error.lines().next().unwrap().contains(says), "{error}");
    }
}

#[test]
fn batch_periods_are_durations_of_go() {
    let args = parse(&[]).unwrap();
    assert_eq!(
        [
            args.endpoint_updates_batch_period,
            args.endpointslice_updates_batch_period,
            args.mirroring_endpointslice_updates_batch_period
        ],
        [Period(Duration::ZERO); 3]
    );
    let args = parse(&[
        "--endpoint-updates-batch-period=500ms",
        "--endpointslice-updates-batch-period",
        "1m0s",
        "--mirroring-endpointslice-updates-batch-period=2s",
    ]);
    let args = args.unwrap();
    assert_eq!(args.endpoint_updates_batch_period.0, Duration::from_millis(500));
    assert_eq!(args.endpointslice_updates_batch_period.0, Duration::from_secs(60));
    assert_eq!(
        args.mirroring_endpointslice_updates_batch_period.0,
        Duration::from_secs(2)
    );
    for bad in ["-1s", "1", "1d", ""] {
        for args in [
            &[&*format!("--endpoint-updates-batch-period={bad}")][..],
            &["--endpointslice-updates-batch-period", bad],
        ] {
            parse(args).unwrap_err();
        }
    }
}

#[test]
fn bools_are_those_of_go_and_take_no_argument() {
    let flag = "--legacy-tolerate-unready-annotation";
    assert!(
        !parse(&[])
            .unwrap()
            .publishing
            .legacy_tolerate_unready_annotation
            .0
    );
    for (value, on) in [
        ("", true),
        ("=true", true),
        ("=T", true),
        ("=1", true),
        ("=0", false),
        ("=False", false),
    ] {
        let args = parse(&[&format!("{flag}{value}"), "--kube-api-burst=7"]).unwrap();
        assert_eq!(
            args.publishing.legacy_tolerate_unready_annotation,
            Switch(on),
            "{value}"
        );
        assert_eq!(args.kube_api_burst, 7);
    }
    assert!(
        !parse(&[flag, &format!("{flag}=f")])
            .unwrap()
            .publishing
            .legacy_tolerate_unready_annotation
            .0
    );
    parse(&[flag, "false"]).unwrap_err();
    parse(&["--legacy-tolerate-unready-annotation=yes"]).unwrap_err();
    parse(&["--legacy-tolerate-unready-annotation="]).unwrap_err();
}

#[test]
fn what_is_taken_over_from_kube_controller_manager_is_read() {
    let args = parse(&[
        "--bind-address=127.0.0.1",
        "--controllers=*,bootstrapsigner,tokencleaner",
        "--kubeconfig=/etc/kubernetes/controller-manager.conf",
        "--leader-elect=true",
        "--kube-api-qps=40",
        "--kube-api-content-type=application/json",
        "--max-endpoints-per-slice",
        "200",
        "--logging-format=json",
    ]);
    let args = args.unwrap();
    assert_eq!(
        args.connection.target(),
        Target::Kubeconfig("/etc/kubernetes/controller-manager.conf".into())
    );
    assert_eq!(args.publishing.outputs(), Outputs::ALL);
    assert_eq!(
        args.publishing.controllers_elsewhere(),
        ["bootstrap-signer-controller", "token-cleaner-controller"]
    );
    assert!((args.kube_api_qps - 40.0).abs() < f64::EPSILON);
    assert_eq!(args.publishing.max_endpoints_per_slice, 200);
    assert_eq!(args.log_format, LogFormat::Json);
    assert_eq!(args.admin.address(), Some("127.0.0.1:10270".parse().unwrap()));
}

#[test]
fn unknown_flags_are_named_all_at_once() {
    for (args, unknown) in [
        (
            &[
                "--allocate-node-cidrs=true",
                "--kube-api-burst=none",
                "--concurrent-service-endpoint-syncs",
                "10",
                "--leader_elect=true",
                "--allocate-node-cidrs",
                "-v",
                "2",
                "--controllers",
                "-endpoint",
                "--profiling",
                "--",
                "--other",
            ][..],
            "--allocate-node-cidrs, --concurrent-service-endpoint-syncs, --leader_elect, -v, --profiling",
        ),
        (&["--nonsense", "--help", "-h"], "--nonsense"),
    ] {
        let line =
            format!("error: unknown flags: {unknown}; endpointd run --help lists those that there are\n");
        assert_eq!(parse(args).unwrap_err(), line, "{args:?}");
    }
}

#[test]
fn election_is_on_with_upstreams_times_and_a_name_of_its_own() {
    let election = |args: &[&str]| parse(args).map(|args| args.election);
    let candidacy = election(&[]).unwrap().candidacy().unwrap();
    assert_eq!(
        (&*candidacy.location.namespace, &*candidacy.location.name),
        ("kube-system", "endpointd")
    );
    let timing = |lease, renew, retry| {
        let seconds = Duration::from_secs;
        crate::core::leadership::election::Timing::new(seconds(lease), seconds(renew), seconds(retry))
            .unwrap()
    };
    assert_eq!(candidacy.timing, timing(15, 10, 2));
    let args = [
        "--leader-elect",
        "--leader-elect-lease-duration=1m",
        "--leader-elect-renew-deadline",
        "40s",
        "--leader-elect-retry-period=5s",
        "--leader-elect-resource-lock=leases",
        "--leader-elect-resource-name=a",
        "--leader-elect-resource-namespace=b",
    ];
    let candidacy = election(&args).unwrap().candidacy().unwrap();
    assert_eq!(candidacy.timing, timing(60, 40, 5));
    assert_eq!(
        (&*candidacy.location.namespace, &*candidacy.location.name),
        ("b", "a")
    );
    // Times that are not used need not go together.
    let off = election(&["--leader-elect=false", "--leader-elect-renew-deadline=1h"]).unwrap();
    assert!(off.candidacy().is_none());
    for (bad, says) in [
        (
            "--leader-elect-lease-duration=10s",
            "lease duration must be greater",
        ),
        (
            "--leader-elect-renew-deadline=2400ms",
            "renew deadline must be greater",
        ),
        ("--leader-elect-retry-period=0s", "retry period must be greater"),
        ("--leader-elect-retry-period=-1s", "negative"),
        ("--leader-elect-resource-lock=configmaps", "leases"),
        ("--leader-elect-resource-name=", "not a name"),
        (
            "--leader-elect-resource-name=kube-controller-manager",
            "this is the Lease of kube-controller-manager",
        ),
        ("--leader-elect-resource-namespace=A", "not a name"),
        ("--leader-elect=maybe", "maybe"),
    ] {
        let error = election(&[bad]).unwrap_err();
        assert!(error.contains(says), "{bad}: {error}");
    }
}

#[test]
fn the_admin_server_listens_where_upstreams_flags_say() {
    let address = |args: &[&str]| parse(args).map(|args| args.admin.address());
    assert_eq!(address(&[]), Ok(Some("127.0.0.1:10270".parse().unwrap())));
    assert_eq!(
        address(&["--bind-address=::", "--secure-port", "1"]),
        Ok(Some("[::]:1".parse().unwrap()))
    );
    assert_eq!(address(&["--admin-port=1", "--secure-port=0"]), Ok(None));
    address(&["--admin-port=65536"]).unwrap_err();
    address(&["--bind-address=localhost"]).unwrap_err();
}

#[test]
fn help_and_the_version_are_no_errors() {
    let kind = |args: &[&str]| super::parse(args.iter().map(OsString::from)).map_err(|error| error.kind());
    for (args, expected) in [
        (&["endpointd", "run", "--help"][..], ErrorKind::DisplayHelp),
        (&["endpointd", "run", "-h"], ErrorKind::DisplayHelp),
        (&["endpointd", "--version"], ErrorKind::DisplayVersion),
        (&["endpointd", "audit", "--profiling"], ErrorKind::UnknownArgument),
    ] {
        assert_eq!(kind(args).err(), Some(expected), "{args:?}");
    }
    assert!(kind(&["endpointd"]).is_err());
    assert!(kind(&[]).is_err());
}

#[test]
fn a_dry_run_is_asked_for_like_a_boolean_of_upstream() {
    let dry_run = |args: &[&str]| parse(args).unwrap().dry_run;
    assert!(!dry_run(&[]).dry_run.0);
    assert!(dry_run(&["--dry-run"]).dry_run.0);
    assert!(!dry_run(&["--dry-run", "--dry-run=false"]).dry_run.0);
    assert_eq!(dry_run(&[]).dry_run_patience, Period(Duration::from_secs(5)));
    assert_eq!(
        dry_run(&["--dry-run-patience", "1m"]).dry_run_patience.0,
        Duration::from_secs(60)
    );
    parse(&["--dry-run=maybe"]).unwrap_err();
    parse(&["--dry-run-patience=-1s"]).unwrap_err();
}
