//! Text of a kubeconfig, a credential plugin or a server is never printed where it may be a secret: the real binary, at
//! every log level, with canaries in all places.

use crate::command::{Ended, endpointd, endpointd_with};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Stands for a secret. It is lower case and has no sign in it, so that it is good for a name, a token and base64.
const CANARY: &str = "c4n4ry";

/// All levels there are, and as much as can be asked of the libraries.
const LEVELS: [&str; 4] = [
    "error",
    "info",
    "trace",
    "trace,kube=trace,kube_client=trace,hyper=trace,hyper_util=trace,rustls=trace,tower=trace,tower_http=trace",
];

/// A directory of this test's own, which goes with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("endpointd-secrets-{}-{count}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn script(&self, name: &str, lines: &str) -> String {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.file(name, format!("#!/bin/sh\n{lines}\n"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The canary in all forms in which a library might print it: as it is, as bytes, and each in base64.
fn forms() -> [String; 3] {
    let bytes = format!("{:?}", CANARY.as_bytes());
    [
        CANARY.to_owned(),
        bytes.trim_matches(['[', ']']).to_owned(),
        // "c4n4ry" is eight letters of base64 wherever it begins at a multiple of three.
        "YzRuNHJ5".to_owned(),
    ]
}

fn assert_silent(printed: &str, about: &str) {
    for form in forms() {
        assert!(!printed.contains(&form), "{about}: {form} is printed: {printed}");
    }
}

/// A kubeconfig, line by line, in which the lines of the cluster from 5 on, and those of the user behind them, are given.
fn kubeconfig(cluster: &[&str], user: &[&str]) -> String {
    let mut lines = vec![
        "apiVersion: v1",
        "kind: Config",
        "clusters:",
        "- name: c",
        "  cluster:",
    ];
    lines.extend(cluster);
    lines.extend([
        "contexts:",
        "- name: x",
        "  context:",
        "    cluster: c",
        "    user: u",
        "current-context: x",
        "users:",
        "- name: u",
        "  user:",
    ]);
    lines.extend(user);
    lines.join("\n") + "\n"
}

const SERVER: &str = "    server: http://127.0.0.1:1";

/// The line of the first of the user's lines, with one line of a cluster.
const USER: usize = 16;

/// A broken kubeconfig: what it is called, its text, the place that the error must name, and a word of it.
type Case = (&'static str, Vec<u8>, Place, &'static str);

/// What an error names beside the file.
#[derive(Debug)]
enum Place {
    Nowhere,
    Line(usize),
    Entry(&'static str),
}

use Place::{Entry, Line, Nowhere};

const CLUSTER: Place = Entry("clusters[0] \"c\"");
const CREDENTIALS: Place = Entry("users[0] \"u\"");

fn with_user(lines: &[&str]) -> Vec<u8> {
    kubeconfig(&[SERVER], lines).into_bytes()
}

#[allow(clippy::too_many_lines, reason = "a table")]
fn cases(scratch: &Scratch) -> Vec<Case> {
    let token = "    token: c4n4ry";
    let fails = scratch.script(
        "fails",
        "echo c4n4ry; echo c4n4ry >&2; echo \"$KUBERNETES_EXEC_INFO\" >&2; exit 3",
    );
    let babbles = scratch.script("babbles", "echo 'a: [c4n4ry'");
    let empty = scratch.script(
        "empty",
        "echo '{\"kind\": \"ExecCredential\", \"c4n4ry\": \"c4n4ry\"}'",
    );
    let split = scratch.script("split", r#"printf '{"status": {"token": "c4n4ry\\nc4n4ry"}}'"#);
    let bad_key = scratch.script(
        "bad-key",
        r#"printf '{"status": {"clientCertificateData": "-----BEGIN c4n4ry", "clientKeyData": "-----BEGIN c4n4ry"}}'"#,
    );
    let exec = |path: &str| {
        with_user(&[
            "    exec:",
            "      apiVersion: client.authentication.k8s.io/v1",
            &format!("      command: {path}"),
            "      args: [c4n4ry]",
            "      env: [{name: A, value: c4n4ry}]",
        ])
    };
    // The beginning of "-----BEGIN c4n4ry".
    let half_pem = "LS0tLS1CRUdJTiBjNG40cnk=";
    let key_data = |data: &str| {
        with_user(&[
            &format!("    client-certificate-data: {data}"),
            &format!("    client-key-data: {data}"),
        ])
    };
    let mut utf16 = vec![0xff, 0xfe];
    utf16.extend(CANARY.encode_utf16().flat_map(u16::to_le_bytes));
    utf16.push(7);
    vec![
        ("a tab", with_user(&[token, "\tpassword: c4n4ry"]), Line(USER), "YAML"),
        ("an open bracket", with_user(&["    token: [c4n4ry"]), Line(USER), "expected"),
        ("a list for a token", with_user(&["    token: [c4n4ry]"]), Line(USER), "expected"),
        ("a second token", with_user(&[token, token]), Line(USER + 1), "second time"),
        ("text for users", b"users: c4n4ry\n".to_vec(), Line(1), "expected"),
        ("a user without a name", b"users:\n- c4n4ry: c4n4ry\n".to_vec(), Line(2), "name"),
        ("a missing anchor", with_user(&["    token: *c4n4ry"]), Line(USER), ""),
        ("a strange tag", with_user(&["    exec: !c4n4ry [c4n4ry]"]), Line(USER), ""),
        ("an unclosed quote", with_user(&["    token: \"c4n4ry"]), Line(USER + 1), "YAML"),
        ("a colon too many", with_user(&["    token: c4n4ry: c4n4ry"]), Line(USER), ""),
        ("a list of accounts", b"root:c4n4ry:0:0:root:/root:/bin/sh\nbin:c4n4ry:1\n".to_vec(), Line(1), "expected"),
        ("text", CANARY.as_bytes().to_vec(), Line(1), "expected"),
        ("no UTF-8", b"token: c4n4ry \xff".to_vec(), Nowhere, "not UTF-8"),
        ("half of UTF-16", utf16, Nowhere, "not UTF-16"),
        ("nothing", Vec::new(), Nowhere, "current-context"),
        (
            "a context that is not there",
            b"contexts: []\ncurrent-context: c4n4ry\n".to_vec(),
            Entry("current-context"),
            "no context",
        ),
        (
            "a cluster that is not there",
            b"current-context: x\ncontexts:\n- name: x\n  context:\n    cluster: c4n4ry\n".to_vec(),
            Entry("contexts[0] \"x\""),
            "no cluster",
        ),
        (
            "a server that is no URL",
            kubeconfig(&["    server: https://user:c4n4ry@ho st/"], &[token]).into_bytes(),
            CLUSTER,
            "not a URL",
        ),
        (
            "a server without a scheme",
            kubeconfig(&["    server: user:c4n4ry@host"], &[token]).into_bytes(),
            CLUSTER,
            "must begin with",
        ),
        (
            "a server with a query",
            kubeconfig(&["    server: https://host/?token=c4n4ry"], &[token]).into_bytes(),
            CLUSTER,
            "query",
        ),
        (
            "an authority that is not base64",
            kubeconfig(&[SERVER, "    certificate-authority-data: c4n4ry!"], &[token]).into_bytes(),
            CLUSTER,
            "not base64",
        ),
        (
            "an authority that is no certificate",
            kubeconfig(
                &[
                    SERVER,
                    "    certificate-authority-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCll6UnVOSEo1Ci0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K",
                ],
                &[token],
            )
            .into_bytes(),
            CLUSTER,
            "certificate-authority",
        ),
        (
            "an authority that is not there",
            kubeconfig(&[SERVER, "    certificate-authority: c4n4ry"], &[token]).into_bytes(),
            CLUSTER,
            "No such file",
        ),
        (
            "a proxy",
            kubeconfig(&[SERVER, "    proxy-url: socks5://user:c4n4ry@proxy:3128"], &[token]).into_bytes(),
            CLUSTER,
            "proxy-url",
        ),
        ("a key that is not base64", key_data("c4n4ry!"), CREDENTIALS, "not base64"),
        ("a key that is no PEM", key_data(half_pem), CREDENTIALS, "not PEM"),
        (
            "a key alone",
            with_user(&["    client-key-data: YzRuNHJ5"]),
            CREDENTIALS,
            "must be given together",
        ),
        (
            "a key where its path should be",
            with_user(&["    client-certificate: c4n4ry", "    client-key: c4n4ry"]),
            CREDENTIALS,
            "No such file",
        ),
        (
            "a token of two lines",
            with_user(&["    token: \"c4n4ry\\nc4n4ry\""]),
            CREDENTIALS,
            "cannot be sent",
        ),
        (
            "a token's file that is not there",
            with_user(&["    tokenFile: c4n4ry"]),
            CREDENTIALS,
            "No such file",
        ),
        ("a plugin that is not there", exec("./not-there"), CREDENTIALS, "/not-there cannot be run"),
        ("a plugin that fails", exec(&fails), CREDENTIALS, "/fails failed (exit status: 3)"),
        ("a plugin that babbles", exec(&babbles), CREDENTIALS, "not an ExecCredential"),
        ("a plugin with nothing to say", exec(&empty), CREDENTIALS, "no status"),
        ("a plugin's key that is no PEM", exec(&bad_key), CREDENTIALS, "not PEM"),
        (
            "a plugin that needs a terminal",
            with_user(&["    exec:", "      command: c4n4ry", "      interactiveMode: Always"]),
            CREDENTIALS,
            "terminal",
        ),
        (
            "a provider that is not known",
            with_user(&["    auth-provider:", "      name: c4n4ry"]),
            CREDENTIALS,
            "credentials",
        ),
        (
            "a provider's command that fails",
            with_user(&[
                "    auth-provider:",
                "      name: gcp",
                "      config:",
                &format!("        cmd-path: {fails}"),
                "        cmd-args: c4n4ry",
            ]),
            CREDENTIALS,
            "exit status: 3",
        ),
        ("a plugin's token of two lines", exec(&split), CREDENTIALS, "cannot be sent"),
    ]
}

fn is_one_line(ended: &Ended, about: &str) {
    assert_silent(&ended.stdout, about);
    assert_silent(&ended.stderr, about);
    assert_eq!(ended.code, Some(2), "{about}: {ended:?}");
    assert_eq!(ended.stdout, "", "{about}: {ended:?}");
}

#[tokio::test]
async fn a_broken_kubeconfig_is_named_by_file_place_and_fault_and_no_secret_of_it_is_printed() {
    let scratch = Scratch::new();
    let mut wrong = Vec::new();
    for (about, text, place, word) in cases(&scratch) {
        let path = scratch.file("kubeconfig", text);
        let mut commands: Vec<Vec<String>> = vec![
            vec!["audit".to_owned()],
            vec!["explain".to_owned(), "default/s".to_owned()],
        ];
        for level in LEVELS {
            for format in ["text", "json"] {
                commands.push(vec![
                    "run".to_owned(),
                    "--admin-port=0".to_owned(),
                    format!("--log-level={level}"),
                    format!("--log-format={format}"),
                ]);
            }
        }
        for mut command in commands {
            command.extend(["--kubeconfig".to_owned(), path.clone()]);
            let args: Vec<_> = command.iter().map(String::as_str).collect();
            let about = format!("{about}, {args:?}");
            let ended = endpointd(&args).await;
            is_one_line(&ended, &about);
            let error = ended.stderr.lines().last().unwrap_or_default();
            assert_eq!(ended.stderr.trim_end().lines().count(), 1, "{about}: {ended:?}");
            assert!(
                error.starts_with("error: kubeconfig ") && error.contains(&path),
                "{about}: {error}"
            );
            let (_, rest) = error.split_once(&path).unwrap();
            let named = match place {
                Nowhere => rest.starts_with(": "),
                Line(line) => rest.starts_with(&format!(", line {line}, column ")),
                Entry(entry) => rest.starts_with(&format!(", {entry}: ")),
            };
            if !error.contains(word) || !named {
                wrong.push(format!("{about}: not {place:?} and {word}: {error}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_kubeconfig_that_the_environment_names_may_be_missing() {
    let scratch = Scratch::new();
    let there = scratch.file("there", with_user(&["    token: c4n4ry"]));
    let missing = format!("{there}-not");
    // Both answer that nothing listens there: the file that exists was read.
    let alone = endpointd_with(&[("KUBECONFIG", &there)], &["audit"]).await;
    let list = format!("{missing}:{there}:{missing}");
    let listed = endpointd_with(&[("KUBECONFIG", &list)], &["audit"]).await;
    assert_eq!((listed.code, &listed.stderr), (alone.code, &alone.stderr));
    assert!(!listed.stderr.contains(&missing), "{listed:?}");
    // Without any, it is as if the variable were not set.
    let none = endpointd_with(&[("KUBECONFIG", &missing)], &["audit"]).await;
    is_one_line(&none, "a list of missing files");
    assert!(none.stderr.contains("this is not a pod of a cluster"), "{none:?}");
    assert!(
        none.stderr.contains("$KUBECONFIG names no file that exists"),
        "{none:?}"
    );
    // A file that the command line names has to be there.
    let told = endpointd(&["audit", "--kubeconfig", &missing]).await;
    is_one_line(&told, "--kubeconfig");
    assert!(
        told.stderr
            .starts_with(&format!("error: kubeconfig {missing}: cannot be read: ")),
        "{told:?}"
    );
}

#[tokio::test]
async fn the_broken_one_of_several_kubeconfigs_is_named() {
    let scratch = Scratch::new();
    let whole = scratch.file("whole", with_user(&["    token: c4n4ry"]));
    let broken = scratch.file("broken", "users:\n- name: v\n  user:\n    token: [c4n4ry\n");
    let ended = endpointd_with(&[("KUBECONFIG", &format!("{whole}:{broken}"))], &["audit"]).await;
    is_one_line(&ended, "KUBECONFIG");
    assert!(
        ended
            .stderr
            .starts_with(&format!("error: kubeconfig {broken}, line ")),
        "{ended:?}"
    );
}

#[tokio::test]
async fn nothing_of_a_url_or_of_a_servers_key_is_printed() {
    let scratch = Scratch::new();
    let certificate = scratch.file(
        "crt",
        "-----BEGIN CERTIFICATE-----\nYzRuNHJ5!\n-----END CERTIFICATE-----\n",
    );
    let cut = scratch.file("cut", "\n-----BEGIN c4n4ry\n");
    let cases: Vec<(Vec<String>, &str)> = vec![
        (
            vec!["--server=https://user:c4n4ry@ho st".to_owned()],
            "--server is not a URL",
        ),
        (
            vec!["--server=user:c4n4ry@host".to_owned()],
            "--server must begin with",
        ),
        (
            vec!["--server=https://host/?token=c4n4ry".to_owned()],
            "--server must not have a query",
        ),
        (
            vec![
                "--server=http://127.0.0.1:1".to_owned(),
                format!("--tls-cert-file={certificate}"),
                format!("--tls-private-key-file={cut}"),
            ],
            "line 2: this line is not base64",
        ),
        (
            vec![
                "--server=http://127.0.0.1:1".to_owned(),
                format!("--tls-cert-file={cut}"),
                format!("--tls-private-key-file={cut}"),
            ],
            "line 2: this line does not end",
        ),
    ];
    for (flags, word) in cases {
        for level in LEVELS {
            let mut args = vec![
                "run".to_owned(),
                format!("--log-level={level}"),
                "--bind-address=127.0.0.1".to_owned(),
            ];
            let port = TcpListener::bind("127.0.0.1:0")
                .unwrap()
                .local_addr()
                .unwrap()
                .port();
            args.push(format!("--admin-port={port}"));
            args.extend(flags.clone());
            let args: Vec<_> = args.iter().map(String::as_str).collect();
            let ended = endpointd(&args).await;
            is_one_line(&ended, &format!("{args:?}"));
            assert_eq!(ended.stderr.trim_end().lines().count(), 1, "{ended:?}");
            assert!(ended.stderr.contains(word), "{ended:?}");
        }
    }
}

/// A proxy that answers in the server's place and quotes the request, with its credentials, in header and body.
fn mirror(code: &'static str, content: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let mut request = Vec::new();
            let mut chunk = [0; 4096];
            while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                match stream.read(&mut chunk) {
                    Ok(read @ 1..) => request.extend_from_slice(&chunk[..read]),
                    _ => break,
                }
            }
            let quoted = String::from_utf8_lossy(&request).replace(['\r', '\n', '"'], " ");
            let body = content.replace("REQUEST", &format!("{quoted} c4n4ry"));
            let _ = write!(
                stream,
                "HTTP/1.1 {code}\r\nX-Request: {quoted}\r\nSet-Cookie: c4n4ry\r\nContent-Type: text/html\r\n\
                 Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    address.to_string()
}

/// For as long as it may take on a busy machine until something is printed.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs the controller until it has printed some words and a moment longer, but no longer than `limit`. Returns what it
/// printed.
async fn run_until(words: &str, limit: Duration, args: &[&str]) -> String {
    let scratch = Scratch::new();
    let path = scratch.file("printed", "");
    let print = || Stdio::from(File::options().append(true).open(&path).unwrap());
    let mut child = Command::new(env!("CARGO_BIN_EXE_endpointd"))
        .args(["run", "--admin-port=0"])
        .args(args)
        .stdin(Stdio::null())
        .stdout(print())
        .stderr(print())
        .spawn()
        .unwrap();
    let printed = || std::fs::read_to_string(&path).unwrap();
    let end = Instant::now() + limit;
    while Instant::now() < end && !printed().contains(words) {
        sleep(Duration::from_millis(50)).await;
    }
    sleep(Duration::from_millis(200)).await;
    child.kill().unwrap();
    child.wait().unwrap();
    printed()
}

#[tokio::test]
async fn nothing_is_printed_of_credentials_that_a_proxy_quotes() {
    let scratch = Scratch::new();
    let bodies = [
        ("403 Forbidden", "<html>REQUEST</html>"),
        ("502 Bad Gateway", "REQUEST"),
        (
            "401 Unauthorized",
            "{\"message\": \"REQUEST\", \"reason\": \"REQUEST\"}",
        ),
        (
            "200 OK",
            "{\"items\": [{\"metadata\": \"REQUEST\"}], \"kind\": \"REQUEST\"}",
        ),
        ("200 OK", "<html>REQUEST</html>"),
    ];
    for (code, body) in bodies {
        let host = mirror(code, body);
        let server = format!("    server: http://{host}");
        let path = scratch.file("kubeconfig", kubeconfig(&[&server], &["    token: c4n4ry"]));
        let with_password = format!("http://c4n4ry:c4n4ry@{host}");
        for level in &LEVELS[2..] {
            let level = format!("--log-level={level}");
            for target in [["--kubeconfig", &*path], ["--server", &*with_password]] {
                for elects in ["--leader-elect=true", "--leader-elect=false"] {
                    let args = [&*level, target[0], target[1], elects];
                    let printed = run_until("WARN", PATIENCE, &args).await;
                    assert_silent(&printed, &format!("{code}, {args:?}"));
                    assert!(printed.contains("WARN"), "{printed}");
                }
            }
        }
        for target in [["--kubeconfig", &*path], ["--server", &*with_password]] {
            let ended = endpointd(&["audit", target[0], target[1], "--settle=0s"]).await;
            is_one_line(&ended, &format!("audit, {code}"));
            let ended = endpointd(&["explain", "default/s", target[0], target[1]]).await;
            is_one_line(&ended, &format!("explain, {code}"));
        }
    }
}

#[tokio::test]
async fn nothing_is_printed_of_a_plugin_that_fails_later() {
    let scratch = Scratch::new();
    let state = scratch.0.join("state");
    // The plugin runs once for all clients, and again after five seconds, since its token expires at once.
    let plugin = scratch.script(
        "plugin",
        &format!(
            "echo run >> {state}\nif [ $(wc -l < {state}) -gt 1 ]; then echo c4n4ry; echo c4n4ry >&2; exit 5; fi\n\
             echo '{{\"kind\": \"ExecCredential\", \"status\": {{\"token\": \"c4n4ry\", \
             \"expirationTimestamp\": \"2020-01-01T00:00:00Z\"}}}}'",
            state = state.display()
        ),
    );
    let handle = memory_apiserver::start(memory_apiserver::Config::default())
        .await
        .unwrap();
    let server = format!("    server: {}", handle.url());
    let command = format!("      command: {plugin}");
    let text = kubeconfig(&[&server], &["    exec:", &command, "      args: [c4n4ry]"]);
    let path = scratch.file("kubeconfig", text);
    for level in LEVELS {
        let _ = std::fs::remove_file(&state);
        let level = format!("--log-level={level}");
        let words = &*format!("the credential plugin {plugin} failed (exit status: 5)");
        // The line is a warning: at the level of errors it is not printed, and there is nothing to wait for.
        let is_logged = !level.contains("error");
        let limit = if is_logged {
            PATIENCE
        } else {
            Duration::from_secs(8)
        };
        let printed = run_until(words, limit, &[&level, "--kubeconfig", &path]).await;
        assert_silent(&printed, &level);
        assert_eq!(printed.contains(words), is_logged, "{printed}");
    }
    let runs = std::fs::read_to_string(&state).unwrap();
    assert!(runs.lines().count() > 1, "it has failed, too");
}
