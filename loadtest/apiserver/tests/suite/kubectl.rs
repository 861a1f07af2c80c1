//! The real kubectl, where it is installed.

use memory_apiserver::{Config, Handle};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// A server, and what kubectl needs to find it.
struct Cluster {
    handle: Handle,
    home: PathBuf,
}

const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: web-0, labels: {app: web}}
spec:
  nodeName: n1
  containers: [{name: c, image: 'example.com/web:1', ports: [{containerPort: 8080}]}]
";
const SERVICE: &str = "
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports:
  - {name: http, port: 80, targetPort: 8080}
  - {name: admin, port: 81, targetPort: 8081}
";
const SLICE: &str = "
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints: [{addresses: [10.1.0.1]}, {addresses: [10.1.0.2]}, {addresses: [10.1.0.3]}, {addresses: [10.1.0.4]}]
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
            .env("KUBE_EDITOR", "sed -i s/8080/8888/")
            .env_remove("KUBECONFIG");
        command
    }

    /// The output of a command, or what it says is wrong.
    async fn run(&self, arguments: &str, input: &str) -> Result<String, String> {
        let mut command = self.command(&format!("--request-timeout=20s {arguments}"));
        let file = self.home.join("input.yaml");
        std::fs::write(&file, input).unwrap();
        let input = std::fs::File::open(&file).unwrap();
        let output = tokio::task::spawn_blocking(move || command.stdin(input).output());
        let output = tokio::time::timeout(Duration::from_secs(60), output).await;
        let output = output.unwrap_or_else(|_| panic!("kubectl {arguments} hangs"));
        let output = output.unwrap().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let wrong = text(&output.stderr);
        assert!(!wrong.contains("warning: error"), "kubectl {arguments}: {wrong}");
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(wrong)
        }
    }

    /// Runs commands, each of which prints what is beside it.
    async fn run_all(&self, commands: &[(&str, &str, &str)]) {
        for (arguments, input, want) in commands {
            let said = self.run(arguments, input).await;
            let said = said.unwrap_or_else(|wrong| panic!("kubectl {arguments}: {wrong}"));
            // Columns are as wide as their longest cell.
            let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(said.contains(want), "kubectl {arguments}: {said}");
        }
    }

    async fn stop(self) {
        self.handle.shutdown().await;
        std::fs::remove_dir_all(&self.home).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_people_look_at() {
    let Some(cluster) = Cluster::start("look").await else {
        return;
    };
    let all = format!("{POD}---{SERVICE}---{SLICE}");
    let commands = [
        (
            "create -f -",
            &*all,
            "pod/web-0 created service/web created endpointslice.discovery.k8s.io/web-1 created",
        ),
        (
            "get pods",
            "",
            "NAME READY STATUS RESTARTS AGE web-0 0/1 Pending 0",
        ),
        (
            "get pods -A -o wide --show-labels",
            "",
            "<none> n1 <none> <none> app=web",
        ),
        ("get svc,endpointslices", "", "80/TCP,81/TCP"),
        (
            "get endpointslices",
            "",
            "8080 10.1.0.1,10.1.0.2,10.1.0.3 + 1 more...",
        ),
        ("get ns --no-headers", "", "kube-system Active"),
        ("get all", "", "service/web"),
        ("get events,leases,nodes,endpoints -A", "", ""),
        ("get pods -l app=web -o name", "", "pod/web-0"),
        ("get svc web -o jsonpath={.spec.ports[0].port}", "", "80"),
        ("version", "", "Server Version: v1.36"),
        (
            "api-resources --no-headers",
            "",
            "endpointslices discovery.k8s.io/v1 true EndpointSlice",
        ),
        ("describe pod web-0", "", "example.com/web:1"),
        ("describe svc web", "", "Selector: app=web"),
    ];
    cluster.run_all(&commands).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_people_change() {
    let Some(cluster) = Cluster::start("change").await else {
        return;
    };
    let less = SERVICE.replace("  - {name: admin, port: 81, targetPort: 8081}\n", "");
    let other = SERVICE.replace("8081", "9091");
    let label = r#"patch pod web-0 -p {"metadata":{"labels":{"by":"patch"}}}"#;
    let unlabel = r#"patch pod web-0 --type=json -p [{"op":"remove","path":"/metadata/labels/by"}]"#;
    let running = r#"patch pod web-0 --subresource=status --type=merge -p {"status":{"phase":"Running"}}"#;
    let pod = "get pod web-0 -o jsonpath={.metadata.labels}{.spec.containers[0].image}{.status.phase}";
    let commands = [
        ("create namespace other", "", "namespace/other created"),
        ("apply -f -", SERVICE, "service/web created"),
        ("apply -f -", SERVICE, "service/web unchanged"),
        ("apply -f -", &less, "service/web configured"),
        ("get svc web -o jsonpath={.spec.ports[*].name}", "", "http"),
        ("apply -f -", POD, "pod/web-0 created"),
        ("label pod web-0 tier=front", "", "labeled"),
        ("annotate pod web-0 note=x", "", "annotated"),
        ("label pod web-0 tier-", "", "unlabeled"),
        (label, "", "patched"),
        (unlabel, "", "patched"),
        (running, "", "patched"),
        ("set image pod/web-0 c=example.com/web:2", "", "image updated"),
        (pod, "", "{\"app\":\"web\"}example.com/web:2Running"),
        ("edit service web", "", "service/web edited"),
        ("get svc web -o jsonpath={.spec.ports[0].targetPort}", "", "8888"),
        (
            "get svc web -o yaml --show-managed-fields",
            "",
            "manager: kubectl-edit",
        ),
        ("replace -f -", SERVICE, "service/web replaced"),
        (
            "apply --server-side --force-conflicts -f -",
            &other,
            "service/web serverside-applied",
        ),
        (
            "get svc web -o jsonpath={.spec.ports[*].targetPort}",
            "",
            "8080 9091",
        ),
        ("create -n other -f -", POD, "pod/web-0 created"),
        ("delete pod web-0 --grace-period=0 --force", "", "deleted"),
        ("delete svc --all", "", "service \"web\" deleted"),
        // No kubelet ends the pod in the namespace.
        (
            "delete pods --all -n other --grace-period=0 --force",
            "",
            "deleted",
        ),
        (
            "delete namespace other --timeout=20s",
            "",
            "namespace \"other\" deleted",
        ),
    ];
    cluster.run_all(&commands).await;
    let wrong = SERVICE.replace("selector:", "selektor:");
    let said = cluster.run("apply -f -", &wrong).await.unwrap_err();
    assert!(said.contains("unknown field \"spec.selektor\""), "{said}");
    let said = cluster.run("get pod web-0", "").await.unwrap_err();
    assert!(
        said.contains("Error from server (NotFound): pods \"web-0\" not found"),
        "{said}"
    );
    cluster.stop().await;
}
