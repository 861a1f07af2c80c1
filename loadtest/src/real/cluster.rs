//! A cluster that parts work on: a control plane of their own, or the server that was given; and the controllers on it.

use super::folder::{Folder, Program};
use super::identity::Account;
use super::manifests::{ACCOUNT, Applier, LIMIT, NAMESPACE, account_token, rules, wait_for_namespace};
use super::plane::{Plane, outliving_nothing};
use super::workplace::free_ports;
use crate::api::{self, Http};
use crate::controller::{self, Server};
use crate::objects::object;
use crate::parse::series;
use crate::process::{Log, Process};
use crate::target::Target;
use crate::wait::until;
use anyhow::{Context, ensure};
use kube::Client;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tokio::time::timeout;

/// How long a controller may take until it is ready.
const READY_LIMIT: Duration = Duration::from_secs(60);
/// How long an audit may take.
const AUDIT_LIMIT: Duration = Duration::from_secs(120);
/// Controllers of Kubernetes that publish endpoints.
pub(super) const UPSTREAM: &str =
    "endpoints-controller,endpointslice-controller,endpointslice-mirroring-controller";

/// A cluster.
pub(super) struct Cluster {
    logs: PathBuf,
    name: String,
    /// The administrator's kubeconfig.
    admin: PathBuf,
    /// endpointd's.
    endpointd: PathBuf,
    plane: Option<Plane>,
}

/// A running endpointd.
pub(super) struct Endpointd {
    process: Process,
    admin_port: u16,
}

// === impl Cluster ===

impl Cluster {
    /// Starts a control plane, with endpointd's account and all rules of the manifests. kube-apiserver gets these options, too.
    pub(super) async fn start(
        folder: &Folder,
        name: &str,
        logs: &Path,
        options: &[&str],
    ) -> anyhow::Result<Self> {
        let mut cluster = Self::bare(folder, name, logs, options).await?;
        cluster.install(&rules()?).await?;
        Ok(cluster)
    }

    /// Starts a control plane on which endpointd has no account yet.
    pub(super) async fn bare(
        folder: &Folder,
        name: &str,
        logs: &Path,
        options: &[&str],
    ) -> anyhow::Result<Self> {
        let plane = Plane::start(folder, name, logs, options).await?;
        wait_for_namespace(&plane.http().await?).await?;
        let admin = plane.kubeconfig(Account::Admin)?;
        Ok(Self {
            logs: logs.to_owned(),
            name: name.to_owned(),
            endpointd: admin.clone(),
            admin,
            plane: Some(plane),
        })
    }

    /// Applies objects, endpointd's account among them, has endpointds that start from now on use it, and waits until it may
    /// read what it has to.
    pub(super) async fn install(&mut self, objects: &[Value]) -> anyhow::Result<()> {
        let http = self.http().await?;
        Applier::new(http.clone()).apply_all(objects).await?;
        let token = account_token(&http).await?;
        self.endpointd = self.plane()?.kubeconfig_with_token("endpointd", &token, None)?;
        let http = Http::new(client(&self.endpointd).await?);
        let slices = api::Resource::Slices.path("", "");
        until("endpointd's rights", LIMIT, async || {
            http.read(&slices).await.map(drop)
        })
        .await
    }

    /// The server at a URL, which needs no credentials.
    pub(super) fn given(url: &str, name: &str, logs: &Path) -> anyhow::Result<Self> {
        let path = logs.join("kubeconfig");
        let content = memory_apiserver::ApiServer::kubeconfig(url);
        std::fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
        Ok(Self {
            logs: logs.to_owned(),
            name: name.to_owned(),
            admin: path.clone(),
            endpointd: path,
            plane: None,
        })
    }

    /// The control plane, if it is one of ours.
    pub(super) fn plane(&mut self) -> anyhow::Result<&mut Plane> {
        self.plane
            .as_mut()
            .context("this needs a control plane of its own")
    }

    /// Has endpointds that start from now on reach the API server through another port.
    pub(super) async fn through(&mut self, port: u16) -> anyhow::Result<()> {
        let token = account_token(&self.http().await?).await?;
        self.endpointd = self
            .plane()?
            .kubeconfig_with_token("endpointd", &token, Some(port))?;
        Ok(())
    }

    /// The administrator's kubeconfig.
    pub(super) fn admin(&self) -> &Path {
        &self.admin
    }

    /// A client of the administrator's.
    pub(super) async fn client(&self) -> anyhow::Result<Client> {
        client(&self.admin).await
    }

    /// The administrator's requests.
    pub(super) async fn http(&self) -> anyhow::Result<Http> {
        Ok(Http::new(self.client().await?))
    }

    fn log(&self, program: &str) -> Log {
        Log::kept(self.log_path(program))
    }

    /// Where the log of a program is.
    pub(super) fn log_path(&self, program: &str) -> PathBuf {
        self.logs.join(format!("{}-{program}.log", self.name))
    }

    /// The holder of endpointd's Lease, which is empty if it was given up; none if there is no such Lease.
    pub(super) async fn lease_holder(&self) -> anyhow::Result<Option<String>> {
        let path = api::Resource::Leases.path(NAMESPACE, ACCOUNT);
        match self.http().await?.read(&path).await {
            Ok(lease) => {
                let holder = lease["spec"]["holderIdentity"].as_str();
                Ok(Some(holder.unwrap_or_default().to_owned()))
            }
            Err(error) if api::code(&error) == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Starts endpointd, and waits until it is ready. It has no leader election unless the flags say so.
    pub(super) async fn start_endpointd(
        &self,
        name: &str,
        max_endpoints_per_slice: usize,
        flags: &[&str],
    ) -> anyhow::Result<Endpointd> {
        let [admin_port] = free_ports()?;
        let mut all = vec![OsString::from(format!("--admin-port={admin_port}"))];
        all.extend(flags.iter().map(OsString::from));
        let server = Server::Kubeconfig(self.endpointd.clone());
        let command = controller::command(&server, max_endpoints_per_slice as u16, &all)?;
        let mut endpointd = Endpointd {
            process: Process::start(name, command, self.log(name))?,
            admin_port,
        };
        endpointd.ready().await?;
        Ok(endpointd)
    }

    /// Starts controllers of kube-controller-manager, each with the rights that Kubernetes gives to it.
    pub(super) fn start_upstream(&mut self, controllers: &str, flags: &[&str]) -> anyhow::Result<Process> {
        self.start_manager("kube-controller-manager", controllers, flags)
    }

    /// Starts the garbage collector, as a process of its own: whichever controller is measured, it deletes the slices of
    /// Services that are gone.
    pub(super) fn start_garbage_collector(&mut self, flags: &[&str]) -> anyhow::Result<Process> {
        self.start_manager("garbage-collector", "garbage-collector-controller", flags)
    }

    /// Starts a kube-controller-manager whose log has this name.
    fn start_manager(&mut self, name: &str, controllers: &str, flags: &[&str]) -> anyhow::Result<Process> {
        let log = self.log(name);
        let plane = self.plane()?;
        let kubeconfig = plane.kubeconfig(Account::ControllerManager)?;
        let mut command = outliving_nothing(&plane.folder().get(Program::ControllerManager)?)?;
        command
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--controllers={controllers}"))
            .args([
                "--leader-elect=false",
                "--secure-port=0",
                "--use-service-account-credentials=true",
            ])
            .args(flags);
        Process::start(name, command, log)
    }

    /// Waits until a controller publishes slices of a new Service, in a namespace of this name that is made for it.
    pub(super) async fn serving(&self, namespace: &str) -> anyhow::Result<()> {
        let http = self.http().await?;
        let made = object("Namespace", namespace, json!({}));
        http.create(&api::Resource::Namespaces.path("", ""), &made)
            .await?;
        let mut service = object("Service", "canary", json!({}));
        service["spec"] = json!({ "selector": { "app": "canary" }, "ports": [{ "port": 80 }] });
        http.create(&api::Resource::Services.path(namespace, ""), &service)
            .await?;
        let slices = api::Resource::Slices.path(namespace, "");
        until("a slice of a new Service", LIMIT, async || {
            ensure!(!http.list(&slices).await?.is_empty(), "there is none");
            Ok(())
        })
        .await
    }

    /// Runs `endpointd audit` as the administrator, and fails unless it finds everything in sync, and nothing left over from Services
    /// that are gone: nothing but the controller deletes their Endpoints here.
    pub(super) async fn audit(&self, flags: &[&str]) -> anyhow::Result<()> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["endpointd", "audit", "--kubeconfig"])
            .arg(&self.admin)
            .arg("--left-over=fail")
            .args(flags);
        let mut command = tokio::process::Command::from(command);
        let output = timeout(AUDIT_LIMIT, command.kill_on_drop(true).output());
        let output = output.await.context("endpointd audit takes too long")??;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        ensure!(
            output.status.success(),
            "endpointd audit: {}\n{}",
            output.status,
            text(&[output.stdout.as_slice(), &output.stderr].concat())
        );
        Ok(())
    }

    /// Ends the control plane.
    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        match &mut self.plane {
            Some(plane) => plane.stop().await,
            None => Ok(()),
        }
    }
}

/// A client that hides no failure behind retries.
async fn client(kubeconfig: &Path) -> anyhow::Result<Client> {
    Target::cluster(kubeconfig).await?.client()
}

// === impl Endpointd ===

impl Endpointd {
    /// Waits until it has read everything.
    async fn ready(&mut self) -> anyhow::Result<()> {
        let http = Http::new(api::client(&format!("http://127.0.0.1:{}", self.admin_port))?);
        let ready = async || http.text("/readyz").await.map(drop);
        self.process
            .during(until("endpointd is ready", READY_LIMIT, ready))
            .await
    }

    /// The value of a metric; none if the process does not answer, or has no such metric.
    pub(super) async fn metric(&self, name: &str) -> Option<f64> {
        let http = Http::new(api::client(&format!("http://127.0.0.1:{}", self.admin_port)).ok()?);
        let page = timeout(Duration::from_secs(1), http.text("/metrics"))
            .await
            .ok()?
            .ok()?;
        series(&page, name)
    }

    pub(super) fn metrics_url(&self) -> String {
        format!("http://127.0.0.1:{}/metrics", self.admin_port)
    }

    pub(super) fn pid(&self) -> i32 {
        self.process.pid()
    }

    pub(super) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        self.process.signal(signal)
    }

    /// Fails if it has ended.
    pub(super) fn assert_running(&mut self) -> anyhow::Result<()> {
        if self.process.is_running()? {
            return Ok(());
        }
        Err(self.process.failure("endpointd ended by itself"))
    }

    /// Runs `work`, which fails as soon as endpointd is gone.
    pub(super) async fn during<T>(
        &mut self,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        self.process.during(work).await
    }

    /// Waits until a process has gone that was sent a signal, and that ends in order, or not.
    pub(super) async fn gone(self, in_order: bool) -> anyhow::Result<()> {
        self.process.gone(in_order).await
    }

    /// Ends it in order.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        self.process.stop().await
    }
}
