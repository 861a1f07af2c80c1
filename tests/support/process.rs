//! The real binary, as a process that does not outlive its test.

use parking_lot::Mutex;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Longer than any end takes on a machine that is busy with other things.
const LIMIT: Duration = Duration::from_secs(30);

/// A running endpointd, which is killed when it is dropped.
pub(crate) struct Process {
    child: Child,
    log: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    /// Starts endpointd with these arguments. `run` gets a free admin port unless they name one.
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_program(env!("CARGO_BIN_EXE_endpointd"), args)
    }

    /// The same with the program in this file, which may be that of another version.
    pub(crate) fn start_program(program: &str, args: &[&str]) -> Self {
        let mut command = Command::new(program);
        if let ["run", flags @ ..] = args {
            // Many processes run at once, and they would share a default. Of two such flags the last counts.
            command.args(["run", "--admin-port=0"]).args(flags);
        } else {
            command.args(args);
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let log = Arc::<Mutex<String>>::default();
        let lines = log.clone();
        // Read all the time: a process whose pipe is full would block.
        let reader = std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let mut log = lines.lock();
                log.push_str(&line);
                log.push('\n');
            }
        });
        Self {
            child,
            log,
            reader: Some(reader),
        }
    }

    /// Everything that it has logged so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().clone()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Sends it a signal, such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        let sent = Command::new("sh").args(["-c", &kill]).status();
        assert!(sent.unwrap().success());
    }

    /// Waits until it has ended, and returns the exit code and the whole log.
    pub(crate) async fn end(&mut self) -> (Option<i32>, String) {
        let start = Instant::now();
        while self.is_running() {
            let waited = Instant::now().saturating_duration_since(start);
            assert!(waited < LIMIT, "the process does not end\n{}", self.log());
            sleep(Duration::from_millis(10)).await;
        }
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        (self.child.wait().unwrap().code(), self.log())
    }

    /// Asks it to end, and asserts that it ends in order. Returns the whole log.
    pub(crate) async fn terminate(&mut self) -> String {
        self.signal("TERM");
        let (code, log) = self.end().await;
        assert_eq!(code, Some(0), "{log}");
        log
    }
}
