//! The real kubectl, where it is installed.

use memory_apiserver::{Config, Handle};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use tokio::time::Instant;

/// A server, and what kubectl needs to find it.
struct Cluster {
    handle: Handle,
    home: PathBuf,
}

const POD: &str = "
apiVersion: v1
kind: Pod
metadata:
  name: web-0
  labels: {app: web}
spec:
  nodeName: n1
  containers:
  - name: c
    image: example.com/web:1
    ports:
    - containerPort: 8080
";

const SERVICE: &str = "
apiVersion: v1
kind: Service
metadata:
  name: web
spec:
  selector: {app: web}
  ports:
  - {name: http, port: 80, targetPort: 8080}
  - {name: admin, port: 81, targetPort: 8081}
";

const SLICE: &str = "
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: web-1
  labels: {kubernetes.io/service-name: web}
addressType: IPv4
ports:
- {name: http, port: 8080, protocol: TCP}
endpoints:
- addresses: [10.1.0.1]
- addresses: [10.1.0.2]
- addresses: [10.1.0.3]
- addresses: [10.1.0.4]
";

impl Cluster {
    /// None, and a line about it, where there is no kubectl.
    async fn start(name: &str) -> Option<Self> {
        let found = Command::new("kubectl").args(["version", "--client"]).output();
        if !found.is_ok_and(|output| output.status.success()) {
            println!("skipped: kubectl is not installed");
            return None;
        }
        let home =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("kubectl-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&home).unwrap();
        let config = Config::default().managed_fields(true);
        let handle = memory_apiserver::start(config).await.unwrap();
        std::fs::write(home.join("config"), handle.kubeconfig()).unwrap();
        Some(Self { handle, home })
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new("kubectl");
        command
            .arg(format!("--kubeconfig={}", self.home.join("config").display()))
            .arg(format!("--cache-dir={}", self.home.join("cache").display()))
            .args(arguments.split_whitespace())
            .env("HOME", &self.home)
            .env_remove("KUBECONFIG");
        command
    }

    async fn run(&self, arguments: &str, input: &str) -> Output {
        let mut command = self.command(&format!("--request-timeout=20s {arguments}"));
        let file = self.home.join("input.yaml");
        std::fs::write(&file, input).unwrap();
        let input = std::fs::File::open(&file).unwrap();
        let output = tokio::task::spawn_blocking(move || command.stdin(input).output());
        tokio::time::timeout(Duration::from_secs(60), output)
            .await
            .unwrap_or_else(|_| panic!("kubectl {arguments} hangs"))
            .unwrap()
            .unwrap()
    }

    /// Returns the output of a command, which must succeed.
    async fn ok(&self, arguments: &str, input: &str) -> String {
        let output = self.run(arguments, input).await;
        let (said, wrong) = (
            String::from_utf8_lossy(&output.stdout).into_owned(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        );
        assert!(output.status.success(), "kubectl {arguments}: {said}{wrong}");
        assert!(!wrong.contains("warning: error"), "kubectl {arguments}: {wrong}");
        said
    }

    /// Returns the output of a command, which must fail.
    async fn fails(&self, arguments: &str, input: &str) -> String {
        let output = self.run(arguments, input).await;
        assert!(!output.status.success(), "kubectl {arguments} succeeds");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    async fn stop(self) {
        self.handle.shutdown().await;
        std::fs::remove_dir_all(&self.home).unwrap();
    }
}

/// The words of a line that begins with `first`.
fn line<'a>(said: &'a str, first: &str) -> Vec<&'a str> {
    let found = said
        .lines()
        .find(|line| line.split_whitespace().next() == Some(first));
    let found = found.unwrap_or_else(|| panic!("no line of {first} in:\n{said}"));
    found.split_whitespace().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_people_look_at() {
    let Some(cluster) = Cluster::start("look").await else {
        return;
    };
    let all = format!("{POD}---{SERVICE}---{SLICE}");
    let said = cluster.ok("create -f -", &all).await;
    assert!(
        said.contains("pod/web-0 created") && said.contains("endpointslice.discovery.k8s.io/web-1 created"),
        "{said}"
    );
    let said = cluster.ok("get pods", "").await;
    assert_eq!(
        line(&said, "NAME"),
        ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    );
    assert_eq!(line(&said, "web-0")[..4], ["web-0", "0/1", "Pending", "0"]);
    let said = cluster.ok("get pods -A -o wide --show-labels", "").await;
    assert_eq!(line(&said, "default")[1..4], ["web-0", "0/1", "Pending"]);
    assert!(said.contains("n1") && said.contains("app=web"));
    let said = cluster.ok("get svc,endpointslices", "").await;
    assert_eq!(line(&said, "service/web")[4], "80/TCP,81/TCP");
    assert!(said.contains("10.1.0.1,10.1.0.2,10.1.0.3 + 1 more..."), "{said}");
    let said = cluster.ok("get ns --no-headers", "").await;
    assert_eq!(line(&said, "kube-system")[1], "Active");
    for arguments in [
        "get all",
        "get events -A",
        "get leases -A",
        "get nodes -o wide",
        "get endpoints -o wide",
        "get pods -o yaml",
        "get pods --sort-by=.metadata.name",
        "get pods -l app=web -o name",
        "get svc web -o jsonpath={.spec.clusterIP}",
        "cluster-info",
        "version",
        "api-versions",
    ] {
        cluster.ok(arguments, "").await;
    }
    let said = cluster.ok("api-resources --no-headers", "").await;
    assert_eq!(
        line(&said, "endpointslices"),
        ["endpointslices", "discovery.k8s.io/v1", "true", "EndpointSlice"]
    );
    let said = cluster.ok("describe pod web-0", "").await;
    assert!(
        said.contains("example.com/web:1") && line(&said, "Node:")[1].starts_with("n1"),
        "{said}"
    );
    let said = cluster.ok("describe svc web", "").await;
    assert_eq!(line(&said, "Selector:"), ["Selector:", "app=web"]);
    cluster.ok("describe endpointslices,ns", "").await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_people_change() {
    let Some(cluster) = Cluster::start("change").await else {
        return;
    };
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: other}\n";
    let said = cluster.ok("create -f -", namespace).await;
    assert!(said.contains("namespace/other created"), "{said}");
    let said = cluster.ok("apply -f -", SERVICE).await;
    assert!(said.contains("service/web created"), "{said}");
    assert!(
        cluster
            .ok("apply -f -", SERVICE)
            .await
            .contains("service/web unchanged")
    );
    let less = SERVICE.replace("  - {name: admin, port: 81, targetPort: 8081}\n", "");
    assert!(cluster.ok("diff -f -", SERVICE).await.is_empty());
    assert!(
        cluster
            .ok("apply -f -", &less)
            .await
            .contains("service/web configured")
    );
    let ports = "get svc web -o jsonpath={.spec.ports[*].name}";
    assert_eq!(cluster.ok(ports, "").await, "http");
    let wrong = SERVICE.replace("selector:", "selektor:");
    let said = cluster.fails("apply -f -", &wrong).await;
    assert!(said.contains("unknown field \"spec.selektor\""), "{said}");

    cluster.ok("apply -f -", POD).await;
    cluster.ok("label pod web-0 tier=front", "").await;
    cluster.ok("annotate pod web-0 note=x", "").await;
    cluster.ok("label pod web-0 tier-", "").await;
    cluster
        .ok(
            "patch pod web-0 -p {\"metadata\":{\"labels\":{\"by\":\"patch\"}}}",
            "",
        )
        .await;
    cluster
        .ok(
            "patch pod web-0 --type=json -p [{\"op\":\"remove\",\"path\":\"/metadata/labels/by\"}]",
            "",
        )
        .await;
    cluster
        .ok(
            "patch pod web-0 --subresource=status --type=merge -p {\"status\":{\"phase\":\"Running\"}}",
            "",
        )
        .await;
    cluster.ok("set image pod/web-0 c=example.com/web:2", "").await;
    let labels = cluster
        .ok(
            "get pod web-0 -o jsonpath={.metadata.labels}{.spec.containers[0].image}{.status.phase}",
            "",
        )
        .await;
    assert_eq!(labels, "{\"app\":\"web\"}example.com/web:2Running");
    let mut edit = cluster.command("edit service web");
    edit.env("KUBE_EDITOR", "sed -i s/8080/8888/")
        .stdin(Stdio::null());
    let edited = tokio::task::spawn_blocking(move || edit.output())
        .await
        .unwrap()
        .unwrap();
    assert!(
        edited.status.success(),
        "{}",
        String::from_utf8_lossy(&edited.stderr)
    );
    assert_eq!(
        cluster
            .ok("get svc web -o jsonpath={.spec.ports[0].targetPort}", "")
            .await,
        "8888"
    );
    cluster.ok("replace -f -", SERVICE).await;

    cluster.ok("create -n other -f -", POD).await;
    cluster.ok("delete pod web-0 --grace-period=0 --force", "").await;
    let said = cluster.ok("delete svc --all", "").await;
    assert!(said.contains("service \"web\" deleted"), "{said}");
    cluster.ok("delete endpoints,endpointslices --all -A", "").await;
    // No kubelet ends the pod in it, so the test deletes it.
    cluster
        .ok("delete pods --all -n other --grace-period=0 --force", "")
        .await;
    cluster.ok("delete namespace other --timeout=20s", "").await;
    let said = cluster.fails("get pod web-0", "").await;
    assert!(
        said.contains("Error from server (NotFound): pods \"web-0\" not found"),
        "{said}"
    );
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn apply_on_the_servers_side() {
    let Some(cluster) = Cluster::start("apply").await else {
        return;
    };
    let version = "get svc web -o jsonpath={.metadata.resourceVersion}";
    let said = cluster.ok("apply --server-side -f -", SERVICE).await;
    assert!(said.contains("service/web serverside-applied"), "{said}");
    let before = cluster.ok(version, "").await;
    cluster.ok("apply --server-side -f -", SERVICE).await;
    assert_eq!(
        cluster.ok(version, "").await,
        before,
        "the same again is no write"
    );
    let other = SERVICE.replace("8081", "9091");
    cluster
        .ok("apply --server-side --field-manager=someone -f -", &other)
        .await;
    let targets = "get svc web -o jsonpath={.spec.ports[*].targetPort}";
    assert_eq!(cluster.ok(targets, "").await, "8080 9091");
    // From the client's side to the server's, with a change.
    cluster.ok("apply -f -", POD).await;
    cluster
        .ok("apply --server-side -f -", &POD.replace("web:1", "web:2"))
        .await;
    let said = cluster
        .ok("get pod web-0 -o yaml --show-managed-fields", "")
        .await;
    assert!(
        said.contains("example.com/web:2") && said.contains("operation: Apply"),
        "{said}"
    );
    cluster.ok("apply --server-side -f -", SLICE).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watching() {
    let Some(cluster) = Cluster::start("watch").await else {
        return;
    };
    cluster.ok("create -f -", POD).await;
    let mut child = cluster
        .command("get pods -w")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = child.stdout.take().unwrap();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let reader = tokio::task::spawn_blocking(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                return;
            }
        }
    });
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut lines: Vec<String> = Vec::new();
    for (wanted, arguments) in [
        (
            "Pending",
            "patch pod web-0 --subresource=status --type=merge -p {\"status\":{\"phase\":\"Running\"}}",
        ),
        ("Running", "delete pod web-0 --wait=false"),
        ("Terminating", "version"),
    ] {
        while !lines.last().is_some_and(|line| line.contains(wanted)) {
            lines.push(
                tokio::time::timeout_at(deadline, told.recv())
                    .await
                    .unwrap()
                    .unwrap(),
            );
        }
        cluster.ok(arguments, "").await;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    reader.await.unwrap();
    assert_eq!(line(&lines.join("\n"), "NAME").len(), 5);
    assert_eq!(lines.iter().filter(|line| line.starts_with("NAME")).count(), 1);
    cluster.stop().await;
}
