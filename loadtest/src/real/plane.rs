//! A throw-away control plane: etcd and kube-apiserver on loopback, with certificates and tokens of their own.
//!
//! ```text
//!  Folder (programs) ──► Plane: etcd ◄── kube-apiserver ◄── kubeconfigs (Identity)
//! ```
//!
//! Both processes end with the plane, by their numbers, and its files go with it; logs stay. If this program is killed
//! outright, the system ends them ([`outliving_nothing`]).

use super::folder::{Folder, Program};
use super::identity::{Account, Identity};
use super::workplace::{TemporaryFolder, copy_folder, free_ports};
use crate::api::Http;
use crate::process::{Log, Process};
use crate::target::Target;
use crate::wait::until;
use anyhow::Context;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How often a start is tried: another program may take a port that was free.
const TRIES: u32 = 3;
/// How long kube-apiserver may take until it is ready, with all roles that Kubernetes brings.
const READY_LIMIT: Duration = Duration::from_secs(90);
/// How long programs may take to end. kube-apiserver waits a minute for watches to end by themselves.
const PATIENCE: Duration = Duration::from_secs(5);

/// A control plane without controllers.
pub(super) struct Plane {
    name: String,
    folder: Folder,
    ports: Ports,
    identity: Identity,
    /// The options of kube-apiserver beside those that every plane has.
    options: Vec<OsString>,
    logs: PathBuf,
    api_server: Option<Process>,
    etcd: Option<Process>,
    // Behind the processes: dropped when they are gone.
    files: TemporaryFolder,
}

#[derive(Clone, Copy)]
struct Ports {
    etcd: u16,
    peers: u16,
    api_server: u16,
}

/// A copy of a plane's store, which goes with the plane.
pub(super) struct Snapshot(PathBuf);

/// A command that runs a program and ends with this process, however that ends.
pub(super) fn outliving_nothing(program: &Path) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("with-parent").arg(program);
    Ok(command)
}

// === impl Plane ===

impl Plane {
    /// Starts one and waits until it is ready. Logs go to the folder `logs`, which is made.
    pub(super) async fn start(
        folder: &Folder,
        name: &str,
        logs: &Path,
        options: &[&str],
    ) -> anyhow::Result<Self> {
        std::fs::create_dir_all(logs).with_context(|| format!("creating {}", logs.display()))?;
        let mut last = None;
        for _ in 0..TRIES {
            let mut plane = Self::prepare(folder, name, logs, options)?;
            let started = async {
                plane.start_etcd()?;
                plane.start_api_server().await
            };
            let Err(error) = started.await else {
                return Ok(plane);
            };
            // Its folder is removed with it, so whatever writes there has to have ended.
            if let Err(error) = plane.stop().await {
                eprintln!("warning: {error:#}");
            }
            if !format!("{error:#}").contains("address already in use") {
                return Err(error);
            }
            last = Some(error);
        }
        Err(last.expect("a start was tried"))
    }

    fn prepare(folder: &Folder, name: &str, logs: &Path, options: &[&str]) -> anyhow::Result<Self> {
        let files = TemporaryFolder::create(name)?;
        let [etcd, peers, api_server] = free_ports()?;
        Ok(Self {
            name: name.to_owned(),
            folder: folder.clone(),
            ports: Ports {
                etcd,
                peers,
                api_server,
            },
            identity: Identity::create(files.path())?,
            options: options.iter().map(OsString::from).collect(),
            logs: logs.to_owned(),
            api_server: None,
            etcd: None,
            files,
        })
    }

    fn log(&self, program: &str) -> Log {
        Log::kept(self.logs.join(format!("{}-{program}.log", self.name)))
    }

    fn start_program(&self, program: Program, flags: Vec<OsString>) -> anyhow::Result<Process> {
        let mut command = outliving_nothing(&self.folder.get(program)?)?;
        command.args(flags);
        Process::start(&program.to_string(), command, self.log(&program.to_string()))
    }

    pub(super) fn start_etcd(&mut self) -> anyhow::Result<()> {
        let clients = format!("http://127.0.0.1:{}", self.ports.etcd);
        let peers = format!("http://127.0.0.1:{}", self.ports.peers);
        let flags = [
            "--name=real".to_owned(),
            format!("--data-dir={}", self.store().display()),
            format!("--listen-client-urls={clients}"),
            format!("--advertise-client-urls={clients}"),
            format!("--listen-peer-urls={peers}"),
            format!("--initial-advertise-peer-urls={peers}"),
            format!("--initial-cluster=real={peers}"),
            // The data is thrown away with the control plane, so etcd need not wait for the disk.
            "--unsafe-no-fsync".to_owned(),
            // A load writes gigabytes between two compactions.
            "--quota-backend-bytes=8589934592".to_owned(),
            "--log-level=warn".to_owned(),
        ];
        let process = self.start_program(Program::Etcd, flags.map(OsString::from).to_vec())?;
        self.etcd = Some(process);
        Ok(())
    }

    /// Starts kube-apiserver, and waits until it is ready.
    pub(super) async fn start_api_server(&mut self) -> anyhow::Result<()> {
        let (etcd, port) = (self.ports.etcd, self.ports.api_server);
        let file = |flag: &str, path: PathBuf| format!("--{flag}={}", path.display());
        let mut flags: Vec<OsString> = [
            format!("--etcd-servers=http://127.0.0.1:{etcd}"),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            // Endpoints of loopback would be refused.
            "--endpoint-reconciler-type=none".to_owned(),
            file("tls-cert-file", self.identity.certificate()),
            file("tls-private-key-file", self.identity.key()),
            file("token-auth-file", self.identity.token_file()),
            "--authorization-mode=RBAC".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            file("service-account-key-file", self.identity.account_public_key()),
            file("service-account-signing-key-file", self.identity.account_key()),
            "--service-cluster-ip-range=10.0.0.0/16,fd00:10::/112".to_owned(),
            // Pods here belong to namespaces without accounts: no controller makes any.
            "--disable-admission-plugins=ServiceAccount".to_owned(),
        ]
        .map(OsString::from)
        .to_vec();
        flags.extend(self.options.iter().cloned());
        let process = self.start_program(Program::ApiServer, flags)?;
        let http = self.http().await?;
        let ready = async || http.text("/readyz").await.map(drop);
        let ready = until("kube-apiserver is ready", READY_LIMIT, ready);
        self.api_server.insert(process).during(ready).await
    }

    /// Ends kube-apiserver.
    pub(super) async fn stop_api_server(&mut self) -> anyhow::Result<()> {
        end(self.api_server.take()).await
    }

    /// Ends kube-apiserver and etcd.
    pub(super) async fn stop(&mut self) -> anyhow::Result<()> {
        let stopped = self.stop_api_server().await;
        stopped.and(end(self.etcd.take()).await)
    }

    /// Ends both, copies the store, and starts both again.
    pub(super) async fn snapshot(&mut self) -> anyhow::Result<Snapshot> {
        let copy = self.files.path().join("snapshot");
        self.stop().await?;
        copy_folder(&self.store(), &copy)?;
        self.start_etcd()?;
        self.start_api_server().await?;
        Ok(Snapshot(copy))
    }

    /// Ends both, puts a snapshot into the place of the store, and starts both again.
    pub(super) async fn restore(&mut self, snapshot: &Snapshot) -> anyhow::Result<()> {
        self.stop().await?;
        let store = self.store();
        std::fs::remove_dir_all(&store).with_context(|| format!("removing {}", store.display()))?;
        copy_folder(&snapshot.0, &store)?;
        self.start_etcd()?;
        self.start_api_server().await
    }

    fn store(&self) -> PathBuf {
        self.files.path().join("store")
    }

    /// A kubeconfig by which an account reaches the plane.
    pub(super) fn kubeconfig(&self, account: Account) -> anyhow::Result<PathBuf> {
        self.identity.kubeconfig(account, self.ports.api_server)
    }

    /// A kubeconfig by which the holder of a token reaches the plane, perhaps through another port.
    pub(super) fn kubeconfig_with_token(
        &self,
        name: &str,
        token: &str,
        port: Option<u16>,
    ) -> anyhow::Result<PathBuf> {
        let port = port.unwrap_or(self.ports.api_server);
        self.identity.kubeconfig_with_token(name, token, port)
    }

    /// The administrator's requests.
    pub(super) async fn http(&self) -> anyhow::Result<Http> {
        let path = self.kubeconfig(Account::Admin)?;
        Ok(Http::new(Target::cluster(&path).await?.client()?))
    }

    /// Where kube-apiserver listens.
    pub(super) fn port(&self) -> u16 {
        self.ports.api_server
    }

    pub(super) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The numbers of the processes: kube-apiserver's and etcd's, if they run.
    pub(super) fn pids(&self) -> Vec<i32> {
        let processes = [&self.api_server, &self.etcd];
        processes.into_iter().flatten().map(Process::pid).collect()
    }
}

async fn end(process: Option<Process>) -> anyhow::Result<()> {
    match process {
        Some(process) => process.end_or_kill(PATIENCE).await,
        None => Ok(()),
    }
}
