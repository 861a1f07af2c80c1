//! The needs of a connection to the API server: credentials from a plugin, certificates, and files that may be open.

use crate::cluster::Api;
use crate::command::{endpointd, endpointd_with};
use crate::objects;
use crate::process::Process;
use endpointd::cluster::connect::{Clients, Target, connect};
use http::Request;
use kube::client::Body;
use memory_apiserver::{Access, Config, start};
use rustix::net::getpeername;
use rustix::net::sockopt::{socket_keepalive, tcp_keepcnt, tcp_keepidle, tcp_keepintvl, tcp_user_timeout};
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// No server listens there.
const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);

/// A directory that goes with its test.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("endpointd-connecting-{}-{count}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, content: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn plugin(&self, lines: &str) -> String {
        let path = self.file("get-token", &format!("#!/bin/sh\n{lines}\n"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn kubeconfig(&self, cluster: &Value, user: &Value) -> String {
        let text = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": cluster}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
            "users": [{"name": "u", "user": user}],
        });
        self.file("kubeconfig", &text.to_string())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn exec(command: &str) -> Value {
    json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": command, "args": ["s3cret"]}})
}

#[tokio::test]
async fn a_plugin_that_hangs_is_waited_for_as_long_as_the_request_timeout_and_named() {
    let scratch = Scratch::new();
    let server = json!({"server": "http://127.0.0.1:1"});
    let at_once = scratch.plugin("exec sleep 60");
    let path = scratch.kubeconfig(&server, &exec(&at_once));
    let start = Instant::now();
    for command in [&["audit"][..], &["explain", "default/s"]] {
        let args = [command, &["--kubeconfig", &path, "--request-timeout=1s"]].concat();
        let ended = endpointd(&args).await;
        let why = ended.refused();
        assert!(
            why.ends_with(&format!(
                "the credential plugin {at_once} has not ended after 1 s"
            )),
            "{why}"
        );
    }
    let took = Instant::now().saturating_duration_since(start);
    assert!(took < Duration::from_secs(25), "{took:?}");
}

/// The processes with these ids, one on each line of a file, that still run.
fn running(file: &Path) -> Vec<u32> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let ids = text.lines().filter_map(|line| line.trim().parse().ok());
    let runs = |id: &u32| {
        // Where nothing waits for orphans, one that was killed stays as a zombie.
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z")
    };
    ids.filter(runs).collect()
}

/// Its first token has expired already, and every later run hangs in a child of its own.
#[tokio::test]
async fn a_plugin_that_hangs_later_is_named_runs_once_at_a_time_and_does_not_outlive_the_controller() {
    let scratch = Scratch::new();
    let token = r#"{"kind": "ExecCredential", "status": {"token": "t", "expirationTimestamp": "2020-01-01T00:00:00Z"}}"#;
    let (done, ids) = (scratch.0.join("done"), scratch.0.join("ids"));
    let plugin = scratch.plugin(&format!(
        "if [ -e {done} ]; then echo $$ >> {ids}; sleep 300 & echo $! >> {ids}; wait; fi\ntouch {done}\necho '{token}'",
        done = done.display(),
        ids = ids.display(),
    ));
    let path = scratch.kubeconfig(&json!({"server": "http://127.0.0.1:1"}), &exec(&plugin));
    let mut process = Process::start(&["run", "--kubeconfig", &path]);
    let mut most = 0;
    for _ in 0..150 {
        sleep(Duration::from_millis(100)).await;
        most = most.max(running(&ids).len());
    }
    assert_eq!(most, 2, "a script and its child");
    let log = process.terminate().await;
    for _ in 0..50 {
        if running(&ids).is_empty() {
            break;
        }
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(running(&ids), [0; 0], "they outlive the controller");
    let named = format!("the credential plugin {plugin} has not ended after");
    assert!(log.contains(&named), "{log}");
    assert!(!log.contains("s3cret"), "{log}");
}

#[tokio::test]
async fn a_plugin_that_fails_is_named_and_what_it_says_is_shown_on_demand() {
    let scratch = Scratch::new();
    let plugin = scratch.plugin("echo no account is chosen >&2; exit 255");
    let path = scratch.kubeconfig(&json!({"server": "http://127.0.0.1:1"}), &exec(&plugin));
    let ended = endpointd(&["audit", "--kubeconfig", &path]).await;
    let why = ended.refused();
    let failed = format!("the credential plugin {plugin} failed (exit status: 255)");
    assert!(why.contains(&failed), "{why}");
    assert!(
        !why.contains("account") && !why.contains("s3cret"),
        "its output may hold secrets: {why}"
    );
    let ended = endpointd(&["audit", "--kubeconfig", &path, "--show-credential-plugin-stderr"]).await;
    let why = ended.refused();
    assert!(why.ends_with(&format!("{failed}: no account is chosen")), "{why}");
    assert!(!why.contains("s3cret"), "{why}");
}

/// As kubectl does, which takes an empty current-context for none.
#[tokio::test]
async fn an_empty_current_context_hid_that_of_the_next_kubeconfig() {
    let scratch = Scratch::new();
    let first = scratch.file("first", "apiVersion: v1\nkind: Config\ncurrent-context: \"\"\n");
    let second = scratch.kubeconfig(&json!({"server": "http://127.0.0.1:1"}), &json!({}));
    let both = format!("{first}:{second}");
    let ended = endpointd_with(&[("KUBECONFIG", &both)], &["audit", "--request-timeout=1s"]).await;
    let why = ended.refused();
    assert!(why.contains("127.0.0.1:1"), "{why}");
    let alone = endpointd(&["audit", "--kubeconfig", &first]).await;
    let why = alone.refused();
    assert!(why.ends_with("current-context is not set"), "{why}");
}

/// Waits until something is so.
async fn wait_until<F: Future<Output = bool>>(process: &Process, what: &str, is_so: impl Fn() -> F) {
    let start = Instant::now();
    while !is_so().await {
        let waited = Instant::now().saturating_duration_since(start);
        assert!(waited < Duration::from_secs(60), "{what}\n{}", process.log());
        sleep(Duration::from_millis(50)).await;
    }
}

/// The server accepts another token than the plugin's first one, and later another once more. Neither expires.
#[tokio::test]
async fn a_plugin_whose_token_the_server_refuses_is_run_again_for_all_requests() {
    let only = |token: &str| {
        let access = Access::from_objects(Vec::new()).unwrap();
        access.user(token, "controller", ["system:masters"])
    };
    let handle = start(Config::default().access(only("c4n4ry-2"))).await.unwrap();
    let api = Api(kube::Client::new(
        handle.server().service_without_faults(),
        "default",
    ));
    let scratch = Scratch::new();
    let token = |number: u8| scratch.file("token", &format!("c4n4ry-{number}"));
    let (token_file, runs) = (token(1), scratch.0.join("runs"));
    let plugin = scratch.plugin(&format!(
        r#"echo run >> {}; echo "{{\"kind\": \"ExecCredential\", \"status\": {{\"token\": \"$(cat {token_file})\"}}}}""#,
        runs.display()
    ));
    let path = scratch.kubeconfig(&json!({"server": handle.url()}), &exec(&plugin));
    let mut process = Process::start(&["run", "--kubeconfig", &path]);
    let refused = |process: &Process| process.log().matches("does not accept the credentials").count();
    wait_until(&process, "the token is refused", async || refused(&process) > 0).await;
    token(2);
    let published = |name: &'static str| {
        let api = &api;
        move || async move { !api.slices_of("default", name).await.unwrap().is_empty() }
    };
    let mut service = objects::service();
    api.create(&objects::pod("p", "10.1.0.1", "n"), "default")
        .await
        .unwrap();
    api.create(&service, "default").await.unwrap();
    wait_until(&process, "s is published", published("s")).await;
    // Watches go on, so that only the Lease and writes are refused from now on.
    token(3);
    handle.server().set_access(Some(only("c4n4ry-3")));
    service["metadata"]["name"] = json!("later");
    api.create(&service, "default").await.unwrap();
    wait_until(&process, "later is published", published("later")).await;
    let log = process.terminate().await;
    assert!(!log.contains("c4n4ry"), "{log}");
    let runs = std::fs::read_to_string(&runs).unwrap().lines().count();
    assert!((3..=6).contains(&runs), "{runs} runs\n{log}");
}

/// The sockets of this process that are connected to an address.
#[allow(unsafe_code)] // The sockets belong to a library, which does not hand them out.
fn sockets_to(address: SocketAddr) -> Vec<OwnedFd> {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let numbers = open.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let copies = numbers.filter_map(|number: RawFd| {
        // SAFETY: a number that has been closed meanwhile cannot be copied, and another socket has another peer.
        unsafe { BorrowedFd::borrow_raw(number) }
            .try_clone_to_owned()
            .ok()
    });
    let is_there = |socket: &OwnedFd| {
        let peer = getpeername(socket).ok().flatten();
        peer.is_some_and(|peer| SocketAddr::try_from(peer) == Ok(address))
    };
    copies.filter(is_there).collect()
}

#[tokio::test]
async fn a_server_that_vanishes_is_noticed_on_every_connection_within_20_seconds() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let target = Target::Server(format!("http://{address}"));
    let clients = Clients::connect(&target).await.unwrap();
    let objects = clients.objects.client("default");
    let lease = connect(&target).await.unwrap();
    let mut accepted = Vec::new();
    for client in [clients.watches, clients.events, objects, lease] {
        tokio::spawn(async move { client.send(Request::get("/").body(Body::empty()).unwrap()).await });
        accepted.push(listener.accept().await.unwrap());
    }
    let sockets = sockets_to(address);
    assert_eq!(sockets.len(), 4);
    for socket in sockets {
        assert!(socket_keepalive(&socket).unwrap());
        let [first, next] = [tcp_keepidle(&socket), tcp_keepintvl(&socket)].map(Result::unwrap);
        assert_eq!((first.as_secs(), next.as_secs()), (15, 5));
        assert_eq!(tcp_keepcnt(&socket).unwrap(), 3);
        assert_eq!(tcp_user_timeout(&socket).unwrap(), 20_000);
    }
}

/// The path of a certificate or a key.
fn tls(file: &str) -> String {
    format!("{}/tests/tls/{file}", env!("CARGO_MANIFEST_DIR"))
}

/// Has a server speak TLS with the certificate of this name. Returns its URL.
async fn with_the_certificate(name: &str, server: SocketAddr) -> String {
    let certificate = CertificateDer::from_pem_file(tls(&format!("{name}.crt"))).unwrap();
    let key = PrivateKeyDer::from_pem_file(tls(&format!("{name}.key"))).unwrap();
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
            let accepted = acceptor.accept(connection);
            tokio::spawn(async move {
                let (mut outer, mut inner) = (accepted.await?, TcpStream::connect(server).await?);
                copy_bidirectional(&mut outer, &mut inner).await
            });
        }
    });
    url
}

#[tokio::test]
async fn an_authority_s_certificate_at_a_server_is_refused_in_words() {
    let scratch = Scratch::new();
    let url = with_the_certificate("authority", NOWHERE).await;
    let cluster = json!({"server": url, "certificate-authority": tls("authority.crt")});
    let path = scratch.kubeconfig(&cluster, &json!({}));
    let ended = endpointd(&["audit", "--kubeconfig", &path]).await;
    assert_eq!(
        ended.refused(),
        format!(
            "cannot list nodes: the server's certificate is that of an authority (CaUsedAsEndEntity), which is not \
             accepted from a server: give it a certificate that the authority has signed, with CA:FALSE; the API server is {url}"
        )
    );
}

/// The authority has a P-384 key and signs with SHA-512; the server has a P-521 key.
#[tokio::test]
async fn large_keys_and_hashes_are_accepted_and_a_server_is_not_its_own_authority() {
    let scratch = Scratch::new();
    let handle = start(Config::default()).await.unwrap();
    let server = handle.url().trim_start_matches("http://").parse().unwrap();
    let url = with_the_certificate("p521", server).await;
    let audit = async |authority: &str| {
        let cluster = json!({"server": url, "certificate-authority": tls(authority)});
        let path = scratch.kubeconfig(&cluster, &json!({}));
        endpointd(&["audit", "--kubeconfig", &path]).await
    };
    let ended = audit("p384.crt").await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let ended = audit("p521.crt").await;
    let why = "must hold the certificate of that authority, and not that of the server";
    assert!(ended.refused().contains(why), "{ended:?}");
}

#[tokio::test]
async fn a_certificate_that_is_not_verified_is_told_once_and_not_for_each_connection() {
    let scratch = Scratch::new();
    let url = with_the_certificate("authority", NOWHERE).await;
    let cluster = json!({"server": url, "insecure-skip-tls-verify": true});
    let path = scratch.kubeconfig(&cluster, &json!({}));
    let mut process = Process::start(&["run", "--kubeconfig", &path]);
    // Long enough for several connections, each of which fails after its handshake.
    sleep(Duration::from_secs(3)).await;
    let log = process.terminate().await;
    assert_eq!(log.matches("bypassed").count(), 0, "{log}");
    assert_eq!(log.matches("insecure-skip-tls-verify").count(), 1, "{log}");
}

#[tokio::test]
async fn the_limit_of_open_files_is_raised_to_the_hard_one() {
    let script = format!(
        "ulimit -Sn 256; exec {} run --admin-port=0 --server=http://127.0.0.1:1",
        env!("CARGO_BIN_EXE_endpointd")
    );
    let child = Command::new("sh")
        .args(["-c", &script])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.unwrap();
    let file = format!("/proc/{}/limits", child.id());
    let mut limits = String::new();
    for _ in 0..200 {
        limits = std::fs::read_to_string(&file).unwrap();
        let line = limits.lines().find(|line| line.starts_with("Max open files"));
        let words: Vec<&str> = line.unwrap().split_whitespace().collect();
        if words[3] != "256" && words[3] == words[4] {
            child.kill().unwrap();
            child.wait().unwrap();
            return;
        }
        sleep(Duration::from_millis(50)).await;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("{limits}");
}
