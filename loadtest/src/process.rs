//! Programs that are run as processes of their own: each is started with a log, watched, and ended by its number.

use anyhow::Context;
use rustix::param::clock_ticks_per_second;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::process::{Child, Command};

const STOP_LIMIT: Duration = Duration::from_secs(20);
/// How much of a process's log a failure shows.
const LOG_LINES: usize = 20;

/// A running process. Killed when dropped, unless it was stopped.
pub(crate) struct Process {
    /// The name of the process in failures, such as `the controller`.
    name: String,
    child: Child,
    pid: Pid,
    log: Log,
}

/// A process's output, in a file.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    keep: bool,
}

/// Resources that a process used so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    pub(crate) memory: u64,
    pub(crate) peak_memory: u64,
}

// === impl Process ===

impl Process {
    /// Starts a program. Its standard output and its standard error go to the log, behind what is there already.
    pub(crate) fn start(name: &str, command: std::process::Command, log: Log) -> anyhow::Result<Self> {
        let file = File::options().create(true).append(true).open(&log.path);
        let file = file.with_context(|| format!("opening {}", log.path.display()))?;
        let child = Command::from(command)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        Ok(Self {
            name: name.to_owned(),
            child,
            pid: pid.expect("a child that was not waited for has a PID"),
            log,
        })
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Runs `work`, which fails as soon as the process is gone.
    pub(crate) async fn during<T>(
        &mut self,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        tokio::select! {
            biased;
            error = self.ended_by_itself() => Err(error),
            outcome = work => outcome,
        }
    }

    /// Resources that the process used so far, where the system tells.
    pub(crate) fn usage(&self) -> Option<Usage> {
        Usage::of(self.pid())
    }

    /// Waits until the process ends, and says that this is a failure.
    pub(crate) async fn ended_by_itself(&mut self) -> anyhow::Error {
        match self.child.wait().await {
            Ok(status) => self.failure(&format!("{} ended by itself: {status}", self.name)),
            Err(error) => error.into(),
        }
    }

    /// Whether the process has not ended yet.
    pub(crate) fn is_running(&mut self) -> anyhow::Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Sends a signal, and does not wait for what comes of it.
    pub(crate) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        kill_process(self.pid, signal).with_context(|| format!("sending a signal to {}", self.name))
    }

    /// Ends the process by a signal, as a supervisor or the kernel would, and waits until it is gone.
    pub(crate) async fn end(self, signal: Signal) -> anyhow::Result<()> {
        self.signal(signal)?;
        self.gone(signal == Signal::TERM).await
    }

    /// Waits until the process is gone that was sent a signal. `in_order`: it has to have ended well.
    pub(crate) async fn gone(mut self, in_order: bool) -> anyhow::Result<()> {
        match tokio::time::timeout(STOP_LIMIT, self.child.wait()).await {
            Ok(status) => {
                let status: ExitStatus = status?;
                if in_order && !status.success() {
                    return Err(self.failure(&format!("{} did not end well: {status}", self.name)));
                }
                Ok(())
            }
            Err(_) => Err(self.failure(&format!("{} did not end within {STOP_LIMIT:?}", self.name))),
        }
    }

    /// Asks the process to end, and sees that it does so in order.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.end(Signal::TERM).await
    }

    /// Asks the process to end, kills it if it takes longer than `patience`, and waits until it is gone. For programs of which
    /// it does not matter how they end.
    pub(crate) async fn end_or_kill(mut self, patience: Duration) -> anyhow::Result<()> {
        if !self.is_running()? {
            return Ok(());
        }
        self.signal(Signal::TERM)?;
        if tokio::time::timeout(patience, self.child.wait()).await.is_err() {
            self.child
                .kill()
                .await
                .with_context(|| format!("killing {}", self.name))?;
        }
        Ok(())
    }

    /// An error that shows the end of the process's log, and says where the rest of it is.
    pub(crate) fn failure(&mut self, what: &str) -> anyhow::Error {
        self.log.keep = true;
        let path = self.log.path.display();
        match self.log.tail() {
            Ok(tail) if tail.is_empty() => anyhow::anyhow!("{what}\nits log is empty"),
            Ok(tail) => anyhow::anyhow!("{what}\nits log, {path}, ends so:\n{tail}"),
            Err(error) => anyhow::anyhow!("{what}\nits log, {path}, cannot be read: {error}"),
        }
    }
}

// === impl Usage ===

impl Usage {
    /// The processor time of the threads that the process has now, to the nanosecond, where the system tells. The time
    /// of threads that have ended is not in it.
    pub(crate) fn precise_cpu(pid: i32) -> Option<Duration> {
        let mut total = 0;
        for thread in std::fs::read_dir(format!("/proc/{pid}/task")).ok()? {
            // A thread may end at any moment.
            let text = std::fs::read_to_string(thread.ok()?.path().join("schedstat"));
            total += text.ok().and_then(|text| run_time(&text)).unwrap_or_default();
        }
        Some(Duration::from_nanos(total))
    }

    /// Resources that the process of that number used so far, where the system tells.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let (memory, peak_memory) = (kibibytes(&status, "VmRSS:")?, kibibytes(&status, "VmHWM:")?);
        Some(Self {
            cpu: cpu_time(&stat, clock_ticks_per_second())?,
            memory,
            peak_memory,
        })
    }
}

/// The nanoseconds that a thread has run, from the text of its `schedstat`.
fn run_time(schedstat: &str) -> Option<u64> {
    schedstat.split_whitespace().next()?.parse().ok()
}

/// Processor time from the text of `/proc/<pid>/stat`: fields 14 and 15, counted after the command's name,
/// which may hold anything.
fn cpu_time(stat: &str, ticks_per_second: u64) -> Option<Duration> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let ticks = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
    Some(Duration::from_secs(1) * ticks as u32 / ticks_per_second as u32)
}

/// A size in bytes from the text of `/proc/<pid>/status`.
fn kibibytes(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

// === impl Log ===

impl Log {
    /// A new file that goes with the process, unless there is reason to read it.
    pub(crate) fn temporary(path: PathBuf) -> anyhow::Result<Self> {
        File::create(&path).with_context(|| format!("creating {}", path.display()))?;
        Ok(Self { path, keep: false })
    }

    /// A file that stays. Several processes may write to it one after the other.
    pub(crate) fn kept(path: PathBuf) -> Self {
        Self { path, keep: true }
    }

    fn tail(&self) -> io::Result<String> {
        let text = std::fs::read_to_string(&self.path)?;
        let lines: Vec<&str> = text.lines().collect();
        Ok(lines[lines.len().saturating_sub(LOG_LINES)..].join("\n"))
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if !self.keep {
            // A file that cannot be removed does no harm.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_found_behind_an_awkward_name() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 5 0 1 1 1";
        assert_eq!(cpu_time(stat, 100), Some(Duration::from_secs(3)));
        assert_eq!(cpu_time("42 (a) S 1", 100), None);
    }

    #[test]
    fn the_time_that_this_thread_has_run_grows() {
        assert_eq!(run_time("12345 67 8\n"), Some(12_345));
        let pid = std::process::id().cast_signed();
        let before = Usage::precise_cpu(pid).unwrap();
        // The kernel adds up what a thread has run from time to time.
        while Usage::precise_cpu(pid).unwrap() <= before {
            std::hint::black_box((0..100_000u64).fold(1, |a: u64, b| a.wrapping_mul(b | 1)));
        }
    }

    #[test]
    fn memory_is_read_in_bytes() {
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(kibibytes(status, "VmRSS:"), Some(1024 * 1024));
        assert_eq!(kibibytes(status, "VmHWM:"), Some(2048 * 1024));
        assert_eq!(kibibytes(status, "VmSwap:"), None);
    }
}
