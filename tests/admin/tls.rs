//! TLS with certificates that are renewed, and metrics for users to whom the API server allows them.

use super::http_client::{Answer, exchange};
use endpointd::ops::admin::{Admin, HealthHandle, Tls, TlsFiles};
use kube::Client;
use memory_apiserver::{Access, ApiServer, Config};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::sleep;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

const FIRST: [&str; 2] = [include_str!("../tls/first.crt"), include_str!("../tls/first.key")];
const SECOND: [&str; 2] = [
    include_str!("../tls/second.crt"),
    include_str!("../tls/second.key"),
];

const RULES: &str = r"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: scraper}
rules:
- {nonResourceURLs: [/metrics], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: scraper}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: scraper}
subjects:
- {kind: ServiceAccount, name: prometheus, namespace: monitoring}
";

/// An admin server by HTTPS, and the files of its certificate.
struct Secure {
    address: SocketAddr,
    server: ApiServer,
    files: TlsFiles,
}

impl Secure {
    async fn start(name: &str) -> Self {
        let access = Access::from_yaml(RULES)
            .unwrap()
            .service_account("scraper", "monitoring", "prometheus")
            .service_account("other", "default", "other");
        let server = ApiServer::new(Config::default().access(access).request_log(1000));
        let path = |what: &str| {
            let file = format!("endpointd-admin-{name}-{}.{what}", std::process::id());
            std::env::temp_dir().join(file)
        };
        let files = TlsFiles {
            certificate: path("crt"),
            key: path("key"),
        };
        let mut secure = Self {
            address: "127.0.0.1:0".parse().unwrap(),
            server,
            files,
        };
        secure.write(FIRST);
        // No rule of access reaches this client: what it may do is a matter of the manifests.
        let client = Client::new(secure.server.service_without_faults(), "default");
        let admin = Admin::bind(secure.address)
            .await
            .unwrap()
            .with_tls(Tls::load(secure.files.clone()).unwrap(), client);
        secure.address = admin.address().unwrap();
        tokio::spawn(admin.serve(HealthHandle::default()));
        secure
    }

    fn write(&self, [certificate, key]: [&str; 2]) {
        std::fs::write(&self.files.certificate, certificate).unwrap();
        std::fs::write(&self.files.key, key).unwrap();
    }

    /// Asks for something, if the server has this certificate.
    async fn ask(&self, [certificate, _]: [&str; 2], target: &str, token: &str) -> std::io::Result<Answer> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap())
            .unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TcpStream::connect(self.address).await?;
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        let authorization = match token {
            "" => String::new(),
            token => format!("Authorization: {token}\r\n"),
        };
        exchange(stream, &format!("GET {target} HTTP/1.1\r\n{authorization}")).await
    }

    async fn code(&self, target: &str, token: &str) -> u16 {
        self.ask(FIRST, target, token).await.unwrap().code
    }

    /// How many reviews there have been, of tokens and of rights.
    fn reviews(&self) -> [usize; 2] {
        let requests = self.server.requests();
        ["tokenreviews", "subjectaccessreviews"].map(|kind| {
            requests
                .iter()
                .filter(|request| request.path.ends_with(kind))
                .count()
        })
    }
}

impl Drop for Secure {
    fn drop(&mut self) {
        for path in [&self.files.certificate, &self.files.key] {
            let _: Result<(), _> = std::fs::remove_file::<&PathBuf>(path);
        }
    }
}

#[tokio::test]
async fn metrics_are_for_those_who_may() {
    let secure = Secure::start("access").await;
    for path in ["/livez", "/healthz", "/readyz?exclude=start"] {
        assert_eq!(
            secure.code(path, "").await,
            200,
            "health is for everybody: {path}"
        );
    }
    assert_eq!(secure.code("/metrics", "").await, 401);
    assert_eq!(secure.code("/metrics", "Basic scraper").await, 401);
    assert_eq!(secure.code("/metrics", "Bearer  ").await, 401);
    assert_eq!(secure.reviews(), [0, 0], "there was nothing to ask");
    assert_eq!(secure.code("/metrics", "Bearer nobody").await, 401);
    assert_eq!(secure.reviews(), [1, 0]);
    let answer = secure.ask(FIRST, "/metrics", "Bearer other").await.unwrap();
    assert_eq!(answer.code, 403);
    assert!(
        answer.body.contains("system:serviceaccount:default:other"),
        "{answer:?}"
    );
    assert!(!answer.body.contains("# TYPE"));
    assert_eq!(secure.reviews(), [2, 1]);
    let answer = secure.ask(FIRST, "/metrics", "bearer scraper").await.unwrap();
    assert_eq!(answer.code, 200);
    assert!(answer.body.contains("# TYPE"), "{answer:?}");
    assert_eq!(secure.reviews(), [3, 2]);
    // It is remembered, and the others are not.
    let scrapes = (0..10).map(|_| secure.code("/metrics", "Bearer scraper"));
    assert_eq!(futures::future::join_all(scrapes).await, [200; 10]);
    assert_eq!(secure.reviews(), [3, 2], "nobody was asked again");
    assert_eq!(secure.code("/metrics", "Bearer other").await, 403);
    assert_eq!(secure.code("/metrics", "Bearer nobody").await, 401);
    assert_eq!(secure.reviews(), [5, 3]);
}

#[tokio::test]
async fn guessed_tokens_are_put_off_and_a_scraper_is_not() {
    let secure = Secure::start("guesses").await;
    assert_eq!(secure.code("/metrics", "Bearer scraper").await, 200);
    let guesses: Vec<_> = (0..40).map(|guess| format!("Bearer guess-{guess}")).collect();
    let mut codes = Vec::new();
    for guess in &guesses {
        let answer = secure.ask(FIRST, "/metrics", guess).await.unwrap();
        assert_eq!(answer.code == 429, answer.header("retry-after").is_some());
        codes.push(answer.code);
    }
    assert_eq!(codes[0], 401);
    assert!(codes.contains(&429), "{codes:?}");
    assert_eq!(secure.code("/metrics", "Bearer scraper").await, 200);
}

#[tokio::test]
async fn without_the_api_server_metrics_are_closed() {
    let files = TlsFiles {
        certificate: concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls/first.crt").into(),
        key: concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls/first.key").into(),
    };
    // No server listens there.
    let client = Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
    let admin = Admin::bind("127.0.0.1:0".parse().unwrap())
        .await
        .unwrap()
        .with_tls(Tls::load(files.clone()).unwrap(), client);
    let secure = std::mem::ManuallyDrop::new(Secure {
        address: admin.address().unwrap(),
        server: ApiServer::new(Config::default()),
        files,
    });
    tokio::spawn(admin.serve(HealthHandle::default()));
    for _ in 0..2 {
        let answer = secure.ask(FIRST, "/metrics", "Bearer scraper").await.unwrap();
        assert_eq!((answer.code, &*answer.body), (500, "Internal Server Error\n"));
        assert_eq!(secure.code("/livez", "").await, 200);
    }
    // Nor is anything said to a client that does not speak TLS.
    let plain = super::get(secure.address, "/livez").await;
    assert!(plain.is_err(), "{plain:?}");
}

#[tokio::test]
async fn a_certificate_that_is_renewed_is_used_and_one_that_is_broken_is_not() {
    let secure = Secure::start("renewal").await;
    assert_eq!(secure.code("/livez", "").await, 200);
    secure.ask(SECOND, "/livez", "").await.unwrap_err();
    // Half of it, as when one looks between two writes.
    secure.write([SECOND[0], FIRST[1]]);
    sleep(Duration::from_millis(1100)).await;
    assert_eq!(secure.code("/livez", "").await, 200);
    secure.write(SECOND);
    sleep(Duration::from_millis(1100)).await;
    assert_eq!(secure.ask(SECOND, "/livez", "").await.unwrap().code, 200);
    secure.ask(FIRST, "/livez", "").await.unwrap_err();
    secure.write(["", ""]);
    sleep(Duration::from_millis(1100)).await;
    assert_eq!(secure.ask(SECOND, "/livez", "").await.unwrap().code, 200);
}
