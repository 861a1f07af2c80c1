//! The command line: errors, kubectl's habits, and what is generated from it.

use crate::command::{access, endpointd, endpointd_with, serve};
use crate::objects::{node, pod, service};
use crate::process::Process;
use memory_apiserver::Config;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

#[tokio::test]
async fn errors_say_what_would_be_right() {
    for (args, line) in [
        (
            &["run", "--cluster-cidr", "10.0.0.0/8", "--profiling", "-v=2"][..],
            "unknown flags: --cluster-cidr, --profiling, -v; endpointd run --help lists those that there are",
        ),
        (
            &["run", "--controllers=nonsense"],
            "invalid value 'nonsense' for '--controllers <LIST>': \"nonsense\" is not in the list of known controllers: \
             endpoints-controller, endpointslice-controller, endpointslice-mirroring-controller, \
             custom-selector-controller, and those of kube-controller-manager 1.36",
        ),
        (
            &["run", "--log-level=inof"],
            "invalid value 'inof' for '--log-level <LEVEL>': expected error, warn, info, debug, trace or off, or a filter \
             such as info,endpointd::cluster=debug",
        ),
        (
            &["run", "--leader-elect=maybe"],
            "invalid value 'maybe' for '--leader-elect[=<BOOL>]': expected true or false",
        ),
        (
            &["audit", "--settle=2"],
            "invalid value '2' for '--settle <DURATION>': not a duration as Go writes it, such as 500ms or 1m30s",
        ),
        (
            &["explain", "a/b/c"],
            "invalid value 'a/b/c' for '[[NAMESPACE/]SERVICE]...': expected NAMESPACE/SERVICE, SERVICE, or service/SERVICE",
        ),
        (
            &["explain", "pod", "web"],
            "only Services can be explained: expected NAMESPACE/SERVICE, SERVICE, or service/SERVICE",
        ),
        (
            &["explain", "shop/web", "shop/api"],
            "one Service can be explained at a time, or several by --selector",
        ),
        (
            &["explain", "-n", "other", "shop/web"],
            "the Service is named in namespace shop, but --namespace is other",
        ),
    ] {
        assert_eq!(endpointd(args).await.refused(), line, "{args:?}");
    }
}

#[tokio::test]
async fn a_kubeconfig_of_kubectl_is_not_taken_for_the_controller() {
    // Any file that exists will do.
    let kubectls = [("KUBECONFIG", "/proc/self/status")];
    let ended = endpointd_with(&kubectls, &["run", "--admin-port=0"]).await;
    let line = ended.refused();
    assert!(line.contains("add --kubeconfig FILE or --context NAME"), "{line}");
    let ended = endpointd(&["run", "--admin-port=0"]).await;
    assert!(!ended.refused().contains("--context"), "{ended:?}");
}

#[tokio::test]
async fn a_service_is_found_by_kubectls_names() {
    let (handle, api) = serve().await;
    api.create(&node("n1", None, None), "").await.unwrap();
    api.create(&pod("p1", "10.1.0.1", "n1"), "default").await.unwrap();
    api.create(&service(), "default").await.unwrap();
    let url = handle.url();
    let explain = async |args: &[&str]| {
        let args: Vec<&str> = ["explain", "--server", &url, "-o=json"]
            .iter()
            .chain(args)
            .copied()
            .collect();
        let ended = endpointd(&args).await;
        assert_eq!(ended.code, Some(1), "nothing is published yet: {ended:?}");
        let text: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
        text
    };
    let found = explain(&["default/s"]).await;
    for args in [
        &["s"][..],
        &["-n", "default", "s"],
        &["svc/s"],
        &["service/s"],
        &["services/s"],
        &["service", "s"],
        &["svc", "-n", "default", "s"],
    ] {
        let other = explain(args).await;
        assert_eq!(
            (&other["namespace"], &other["service"]),
            (&found["namespace"], &found["service"]),
            "{args:?}"
        );
    }
}

#[tokio::test]
async fn the_version_names_the_commit() {
    let version = endpointd(&["version"]).await;
    assert_eq!(version.code, Some(0));
    assert_eq!(version.stdout, endpointd(&["--version"]).await.stdout);
    let start = format!("endpointd {} (commit ", env!("CARGO_PKG_VERSION"));
    assert!(version.stdout.starts_with(&start), "{version:?}");
    // In a checkout, the commit is known; in an archive that lies in another repository, it is not.
    let git = Command::new("git")
        .args(["rev-parse", "--show-toplevel", "HEAD"])
        .output();
    let git = git.map(|output| String::from_utf8(output.stdout).unwrap_or_default());
    let here = std::fs::canonicalize(env!("CARGO_MANIFEST_DIR")).ok();
    if let Some((top, commit)) = git.unwrap_or_default().split_once('\n')
        && std::fs::canonicalize(top).ok() == here
        && commit.trim().len() == 40
    {
        assert!(!version.stdout.contains("unknown"), "{version:?}");
    }
}

#[tokio::test]
async fn help_completions_and_man_pages_are_made() {
    let help = endpointd(&["help", "explain"]).await;
    assert_eq!(help.code, Some(0));
    assert!(help.stdout.contains("Usage: endpointd explain"), "{help:?}");
    for (shell, part) in [
        ("bash", "complete -F _endpointd"),
        ("zsh", "#compdef endpointd"),
        ("fish", "complete -c endpointd"),
    ] {
        let script = endpointd(&["completion", shell]).await;
        assert_eq!(script.code, Some(0));
        assert!(
            script.stdout.contains(part) && script.stdout.contains("request-timeout"),
            "{shell}"
        );
        let alias = endpointd(&["completions", shell]).await;
        assert_eq!((alias.code, alias.stdout), (Some(0), script.stdout));
    }
    let directory = std::env::temp_dir().join(format!("endpointd-test-{}.man", std::process::id()));
    assert_eq!(
        endpointd(&["man", directory.to_str().unwrap()]).await.code,
        Some(0)
    );
    let page = std::fs::read_to_string(directory.join("endpointd-explain.1")).unwrap();
    assert!(page.contains(".TH endpointd-explain 1"), "{page}");
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn as_a_plugin_of_kubectl_it_speaks_of_kubectl() {
    use std::os::unix::process::CommandExt as _;
    let run = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_endpointd"))
            .arg0("/home/me/.krew/bin/kubectl-endpoints")
            .args(args)
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, text) = run(&["explain", "--help"]);
    assert_eq!(code, Some(0));
    assert!(text.contains("Usage: kubectl endpoints explain"), "{text}");
    let (code, text) = run(&["explain"]);
    assert_eq!(code, Some(2));
    assert!(text.contains("Usage: kubectl endpoints explain"), "{text}");
}

#[tokio::test]
async fn a_server_that_is_silent_is_waited_for_with_a_word_and_not_for_ever() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let start = Instant::now();
    let ended = endpointd(&["audit", "--server", &url, "--request-timeout=6s"]).await;
    assert!(
        Instant::now().saturating_duration_since(start) < Duration::from_secs(30),
        "{ended:?}"
    );
    assert_eq!(ended.code, Some(2));
    assert_eq!(
        ended.stderr,
        format!(
            "waiting for the API server to answer: list nodes; it gives up after 6 s of silence (--request-timeout)\n\
             error: cannot list nodes: no answer for 6 s; the API server is {url}\n"
        )
    );
}

#[tokio::test]
async fn a_server_that_falls_silent_in_the_middle_of_an_answer_is_told_of_too() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        let mut open = Vec::new();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await.unwrap();
            let begun = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{\"items\": [";
            stream.write_all(begun.as_bytes()).await.unwrap();
            open.push(stream);
        }
    });
    let ended = endpointd(&["audit", "--server", &url, "--request-timeout=6s"]).await;
    serving.abort();
    assert_eq!(ended.code, Some(2));
    assert_eq!(
        ended.stderr,
        format!(
            "waiting for the API server to answer: list nodes; it gives up after 6 s of silence (--request-timeout)\n\
             error: cannot list nodes: no answer for 6 s; the API server is {url}\n"
        )
    );
}

/// Waits until the log holds this text.
async fn logged(process: &Process, text: &str) {
    let start = Instant::now();
    while !process.log().contains(text) {
        assert!(
            Instant::now().saturating_duration_since(start) < Duration::from_secs(30),
            "{}",
            process.log()
        );
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn the_controller_says_once_why_it_cannot_connect_and_when_it_can() {
    let address = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let mut process = Process::start(&["run", "--server", &format!("http://{address}")]);
    logged(&process, "Connection refused").await;
    // Long enough for several tries of each list.
    sleep(Duration::from_secs(3)).await;
    let _server = crate::cluster::serve(Config::default().port(address.port())).await;
    logged(&process, "the API server answers again").await;
    let log = process.terminate().await;
    let warnings: Vec<&str> = log.lines().filter(|line| line.contains(" WARN ")).collect();
    assert_eq!(warnings.len(), 1, "{log}");
    assert!(
        warnings[0].contains("requests to the API server fail; they are retried error=\"tcp connect error"),
        "{log}"
    );
    assert_eq!(log.matches("after_seconds=").count(), 1, "{log}");
}

#[tokio::test]
async fn a_server_without_tls_and_names_without_addresses_are_called_so() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let _ = connection.read(&mut [0; 1024]).await;
            let _ = connection.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    let says = "the server does not speak TLS";
    let ended = endpointd(&["audit", "--server", &url]).await;
    assert!(ended.refused().contains(says), "{ended:?}");
    let process = Process::start(&["run", "--server", &url]);
    logged(&process, says).await;
    let ended = endpointd(&["audit", "--server", "http://no-such-host.invalid"]).await;
    assert!(ended.refused().contains("failed to lookup address"), "{ended:?}");
}

/// A kubeconfig with this cluster, and a user without credentials.
fn kubeconfig_of(cluster: &Value) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
        "users": [{"name": "u", "user": {}}],
    })
    .to_string()
}

/// A server that speaks TLS, with a certificate that no authority has signed.
async fn with_a_certificate_of_its_own() -> String {
    let certificate = CertificateDer::from_pem_slice(include_bytes!("../tls/first.crt")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("../tls/first.key")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            tokio::spawn(acceptor.accept(connection));
        }
    });
    url
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_is_named_once_and_the_log_has_no_debug_output() {
    let url = with_a_certificate_of_its_own().await;
    let why = "the server's certificate is signed by an authority that is not trusted here (UnknownIssuer): \
               certificate-authority in the kubeconfig must hold the certificate of that authority, and not that of the server";
    let ended = endpointd(&["audit", "--server", &url]).await;
    assert_eq!(
        ended.refused(),
        format!("cannot list nodes: {why}; the API server is {url}")
    );
    let kubeconfig = std::env::temp_dir().join(format!("endpointd-test-{}.untrusted", std::process::id()));
    std::fs::write(&kubeconfig, kubeconfig_of(&json!({"server": url}))).unwrap();
    let path = kubeconfig.to_str().unwrap();
    let mut process = Process::start(&["run", "--kubeconfig", path]);
    logged(&process, why).await;
    // Long enough for several tries of each list.
    sleep(Duration::from_secs(2)).await;
    let log = process.terminate().await;
    std::fs::remove_file(&kubeconfig).unwrap();
    assert_eq!(log.matches("UnknownIssuer").count(), 1, "{log}");
    assert!(log.contains(&format!("target=\"kubeconfig {path}\"")), "{log}");
    // Rust's debug output of structs, options and actors.
    for debug in ["{", "Some(", "None", "id="] {
        assert!(!log.contains(debug), "{debug}: {log}");
    }
}

/// A proxy that refuses each request. Returns its address, and the requests.
async fn refusing_proxy() -> (String, Arc<Mutex<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let asked = Arc::new(Mutex::new(String::new()));
    let log = asked.clone();
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let length = connection.read(&mut request).await.unwrap_or(0);
            log.lock().push_str(&String::from_utf8_lossy(&request[..length]));
            let _ = connection.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n").await;
        }
    });
    (address, asked)
}

#[tokio::test]
async fn tools_go_through_a_proxy_as_kubectl_does_and_the_controller_says_that_it_does_not() {
    let (address, asked) = refusing_proxy().await;
    let proxy = format!("http://user:c4n4ry@{address}");
    let kubeconfig = std::env::temp_dir().join(format!("endpointd-test-{}.proxied", std::process::id()));
    let write = |server: &str| {
        std::fs::write(&kubeconfig, kubeconfig_of(&json!({"server": server}))).unwrap();
    };
    let path = kubeconfig.to_str().unwrap();
    let behind = [("HTTPS_PROXY", &*proxy)];

    write("https://192.0.2.1:6443");
    let ended = endpointd_with(&behind, &["audit", "--kubeconfig", path]).await;
    assert!(ended.refused().starts_with("cannot list nodes: "), "{ended:?}");
    let request = asked.lock().clone();
    assert!(request.starts_with("CONNECT 192.0.2.1:6443 "), "{request}");
    assert!(!format!("{ended:?}").contains("c4n4ry"), "{ended:?}");

    let ended = endpointd_with(&behind, &["run", "--admin-port=0", "--kubeconfig", path]).await;
    let line = ended.refused();
    assert!(
        line.contains("connects directly, but HTTPS_PROXY") && line.contains("NO_PROXY"),
        "{line}"
    );
    // The server that counts is that of --server, and the proxy itself may be in NO_PROXY.
    asked.lock().clear();
    let args = [
        "audit",
        "--kubeconfig",
        path,
        "--server",
        "https://192.0.2.2:6443",
    ];
    let listed = [behind[0], ("NO_PROXY", "192.0.2.1,127.0.0.1")];
    let ended = endpointd_with(&listed, &args).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    let request = asked.lock().clone();
    assert!(request.starts_with("CONNECT 192.0.2.2:6443 "), "{request}");

    // This machine, and what NO_PROXY names, is not behind the proxy.
    asked.lock().clear();
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    write(&format!("https://{closed}"));
    let ended = endpointd_with(&behind, &["audit", "--kubeconfig", path]).await;
    assert!(ended.refused().contains("Connection refused"), "{ended:?}");
    write(&format!("https://endpointd.localhost:{}", closed.port()));
    let spared = [behind[0], ("NO_PROXY", "10.0.0.0/8,.localhost")];
    let ended = endpointd_with(&spared, &["audit", "--kubeconfig", path]).await;
    assert!(ended.refused().starts_with("cannot list nodes: "), "{ended:?}");
    assert_eq!(*asked.lock(), "");
    let unread = [behind[0], ("NO_PROXY", "10.0.0.0/8,,")];
    let ended = endpointd_with(&unread, &["audit", "--kubeconfig", path]).await;
    assert!(ended.refused().contains("NO_PROXY has an entry"), "{ended:?}");

    // A proxy in the kubeconfig counts for this machine, too, and each program says what it makes of it.
    let socks = json!({"server": format!("https://{closed}"), "proxy-url": "socks5://proxy:1080"});
    std::fs::write(&kubeconfig, kubeconfig_of(&socks)).unwrap();
    let ended = endpointd(&["audit", "--kubeconfig", path]).await;
    assert!(
        ended.refused().contains("must be http:// or https://"),
        "{ended:?}"
    );
    let ended = endpointd(&["run", "--admin-port=0", "--kubeconfig", path]).await;
    assert!(
        ended
            .refused()
            .contains("connects directly, but proxy-url names a proxy"),
        "{ended:?}"
    );
    std::fs::remove_file(kubeconfig).unwrap();
}

#[tokio::test]
async fn the_controller_names_each_missing_permission_once() {
    let (handle, _api) = crate::cluster::serve(Config::default().access(access("nodes"))).await;
    let kubeconfig = std::env::temp_dir().join(format!("endpointd-test-{}.barred", std::process::id()));
    std::fs::write(
        &kubeconfig,
        handle.kubeconfig().replace("user: {}", "user: {token: token}"),
    )
    .unwrap();
    let mut process = Process::start(&["run", "--kubeconfig", kubeconfig.to_str().unwrap()]);
    let missing = |resource: &str, verb: &str| format!(r#"cannot {verb} resource \"{resource}\""#);
    // A list of pods is streamed as a watch first.
    let missed = [("pods", "watch"), ("pods", "list"), ("services", "list")];
    for (resource, verb) in missed {
        logged(&process, &missing(resource, verb)).await;
    }
    sleep(Duration::from_secs(3)).await;
    let log = process.terminate().await;
    for (resource, verb) in missed {
        assert_eq!(log.matches(&missing(resource, verb)).count(), 1, "{log}");
    }
    std::fs::remove_file(kubeconfig).unwrap();
}
