//! The real program, by the way of the loadtest binary, which holds the same `main`.

use rustix::process::{Pid, Signal, kill_process};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Far longer than anything takes on a machine that is busy with other things.
pub(crate) const LIMIT: Duration = Duration::from_secs(90);
pub(crate) const LOOK: Duration = Duration::from_millis(10);

/// A running endpointd, killed when it is dropped.
pub(crate) struct Program(Child);

impl Program {
    /// Starts it on the server at `url`, with more flags.
    pub(crate) fn start(url: &str, flags: &[String]) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_loadtest"))
            .args(["endpointd", "run", "--admin-port=0", "--server", url])
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }

    #[allow(dead_code, reason = "not every test sends signals")]
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.0.id().cast_signed());
        kill_process(pid.unwrap(), signal).unwrap();
    }

    #[allow(dead_code, reason = "not every test asks")]
    pub(crate) fn runs(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    /// Waits until it has ended by itself.
    #[allow(dead_code, reason = "some tests only kill it")]
    pub(crate) async fn end(&mut self) -> ExitStatus {
        let mut status = None;
        until("the process ends", async || {
            status = self.0.try_wait().unwrap();
            status.is_some()
        })
        .await;
        status.unwrap()
    }
}

impl Drop for Program {
    /// SIGKILL.
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Waits until something is so, for as long as that may take on a busy machine.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !is_so().await {
        let waited = Instant::now().saturating_duration_since(start);
        assert!(waited < LIMIT, "{what}: not within {LIMIT:?}");
        sleep(LOOK).await;
    }
}
