//! The real binary, with a token.

use crate::http_client;
use crate::process::Process;
use memory_apiserver::Handle;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A kubeconfig file, which goes with its test.
pub(crate) struct Kubeconfig(PathBuf);

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Kubeconfig {
    pub(crate) fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

/// Writes the kubeconfig of a user who has this token.
pub(crate) fn kubeconfig(handle: &Handle, token: &str) -> Kubeconfig {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let file = format!("endpointd-rbac-{}-{number}.kubeconfig", std::process::id());
    let path = std::env::temp_dir().join(file);
    let text = handle.kubeconfig();
    let with_token = text.replace("user: {}", &format!("user: {{token: {token}}}"));
    assert_ne!(text, with_token);
    std::fs::write(&path, with_token).unwrap();
    Kubeconfig(path)
}

/// A running endpointd with a kubeconfig of its own.
pub(crate) struct WithToken {
    process: Process,
    _kubeconfig: Kubeconfig,
}

impl Deref for WithToken {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

impl DerefMut for WithToken {
    fn deref_mut(&mut self) -> &mut Process {
        &mut self.process
    }
}

impl WithToken {
    pub(crate) fn start(handle: &Handle, token: &str, flags: &[&str]) -> Self {
        let kubeconfig = kubeconfig(handle, token);
        let args = ["run", "--kubeconfig", kubeconfig.path()];
        Self {
            process: Process::start(&[&args, flags].concat()),
            _kubeconfig: kubeconfig,
        }
    }
}

/// An address whose port was free a moment ago.
pub(crate) fn free_address() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// Scrapes `/metrics`. The text is empty while no server answers.
pub(crate) async fn metrics(address: SocketAddr) -> String {
    let answer = http_client::get(address, "/metrics").await;
    let answer = answer.ok().filter(|answer| answer.code == 200);
    answer.map(|answer| answer.body).unwrap_or_default()
}
