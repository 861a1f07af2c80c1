//! The real binary, with a token, and what it says.

use memory_apiserver::Handle;
use parking_lot::Mutex;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// A child that does not outlive its test.
pub(crate) struct Process {
    child: Child,
    log: Arc<Mutex<String>>,
    kubeconfig: PathBuf,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.kubeconfig);
    }
}

impl Process {
    pub(crate) fn start(handle: &Handle, token: &str, flags: &[&str]) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let file = format!("endpointd-rbac-{}-{number}.kubeconfig", std::process::id());
        let kubeconfig = std::env::temp_dir().join(file);
        let text = handle.kubeconfig();
        let with_token = text.replace("user: {}", &format!("user: {{token: {token}}}"));
        assert_ne!(text, with_token);
        std::fs::write(&kubeconfig, with_token).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_endpointd"))
            // Of a flag that is given twice, the last counts.
            .args(["run", "--admin-port=0", "--kubeconfig"])
            .arg(&kubeconfig)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let log = Arc::<Mutex<String>>::default();
        let lines = log.clone();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let mut log = lines.lock();
                log.push_str(&line);
                log.push('\n');
            }
        });
        Self {
            child,
            log,
            kubeconfig,
        }
    }

    /// All that it has said so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().clone()
    }

    pub(crate) fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// SIGKILL.
    pub(crate) fn kill(self) {
        drop(self);
    }

    /// SIGTERM, and the end in order.
    pub(crate) async fn terminate(&mut self) {
        let kill = format!("kill -TERM {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        let begin = Instant::now();
        while self.runs() {
            let waited = Instant::now().saturating_duration_since(begin);
            assert!(
                waited < Duration::from_secs(30),
                "it does not end\n{}",
                self.log()
            );
            sleep(Duration::from_millis(10)).await;
        }
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}\n{}", self.log());
    }
}

/// An address whose port was free a moment ago.
pub(crate) fn free_address() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// What is served at `/metrics`, or nothing while nobody serves.
pub(crate) async fn metrics(address: SocketAddr) -> String {
    let url = format!("http://{address}").parse().unwrap();
    let client = kube::Client::try_from(kube::Config::new(url)).unwrap();
    let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
    client.request_text(request).await.unwrap_or_default()
}
