//! The resources that processes use while a run is measured.

use crate::process::Usage;
use crate::report::model::{Process, ProcessSample};
use std::time::Duration;

/// One process, which may be ended and started again.
pub(super) struct MeasuredProcess {
    name: String,
    pid: i32,
    /// CPU time used before the measured part; none if the process was started since.
    base: Duration,
    /// CPU time that earlier processes of this name used in the measured part.
    ended: Duration,
    cold: Duration,
    last: Option<Usage>,
    /// The most memory that it ever had; none until it could be read.
    peak: Option<u64>,
    /// CPU time of the measured part at the last sample.
    sampled: Duration,
    over_time: Vec<ProcessSample>,
}

// === impl MeasuredProcess ===

impl MeasuredProcess {
    pub(super) fn new(name: String, pid: i32) -> Self {
        Self {
            name,
            pid,
            base: Duration::ZERO,
            ended: Duration::ZERO,
            cold: Duration::ZERO,
            last: None,
            peak: None,
            sampled: Duration::ZERO,
            over_time: Vec::new(),
        }
    }

    /// The measured part begins. `is_cold`: the process was started for this run, so that what it used is what
    /// converging took.
    pub(super) fn begin(&mut self, is_cold: bool) {
        self.look();
        self.base = self.last.map(|usage| usage.cpu).unwrap_or_default();
        if is_cold {
            self.cold = self.base;
        }
    }

    /// Reads what it uses; the last reading stays when it is gone.
    fn look(&mut self) {
        if let Some(usage) = Usage::of(self.pid) {
            self.peak = self.peak.max(Some(usage.peak_memory));
            self.last = Some(usage);
        }
    }

    /// The process is about to be ended.
    pub(super) fn ends(&mut self) {
        self.look();
        self.ended = self.used();
        self.base = Duration::ZERO;
        self.last = None;
    }

    /// The process was started again.
    pub(super) fn starts(&mut self, pid: i32) {
        self.pid = pid;
    }

    /// An interval ends.
    pub(super) fn sample(&mut self, at: f64, interval: Duration) {
        self.look();
        let used = self.used();
        let cpu = used.saturating_sub(self.sampled).as_secs_f64() / interval.as_secs_f64().max(1e-3);
        self.sampled = used;
        self.over_time.push(ProcessSample {
            at,
            cpu,
            rss_bytes: self.last.map(|usage| usage.memory).unwrap_or_default(),
        });
    }

    /// CPU time in the measured part.
    fn used(&self) -> Duration {
        let used = self.last.map(|usage| usage.cpu.saturating_sub(self.base));
        self.ended + used.unwrap_or_default()
    }

    /// The figures at the end.
    pub(super) fn report(&mut self, changes: u64) -> Process {
        self.look();
        let cpu_seconds = self.used().as_secs_f64();
        Process {
            name: self.name.clone(),
            pid: self.pid.cast_unsigned(),
            unread: self.peak.is_none(),
            cpu_seconds,
            cpu_micros_per_change: cpu_seconds * 1e6 / changes.max(1) as f64,
            cold_cpu_seconds: self.cold.as_secs_f64(),
            rss_bytes: self.last.map(|usage| usage.memory).unwrap_or_default(),
            peak_rss_bytes: self.peak.unwrap_or_default(),
            over_time: self.over_time.clone(),
        }
    }
}

/// The name of a process's command: from its command line, since the kernel cuts the other name that it has at 15
/// characters. None if there is no such process.
pub(super) fn name_of(pid: i32) -> Option<String> {
    let short = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    let short = short.trim();
    let command = command_line(pid).into_iter().next().unwrap_or_default();
    let name = command.rsplit('/').next().unwrap_or_default();
    // A process may write there what it likes; a name that goes on where the kernel cut it is the whole one.
    let is_whole = !short.is_empty() && name.starts_with(short);
    Some(if is_whole { name } else { short }.to_owned())
}

/// The flags on a process's command line; none if it has no command line to read.
pub(super) fn flags_of(pid: i32) -> Option<Vec<String>> {
    let line = command_line(pid);
    let (_, flags) = line.split_first()?;
    Some(without_secrets(flags))
}

/// Hides the values of flags for secrets, so that a report discloses no password.
fn without_secrets(words: &[String]) -> Vec<String> {
    const SECRET: [&str; 3] = ["token", "password", "secret"];
    let is_secret = |name: &str| name.starts_with('-') && SECRET.iter().any(|word| name.contains(word));
    let mut is_value = false;
    let mut shown = Vec::new();
    for word in words {
        let is_of_secret = is_value && !word.starts_with('-');
        is_value = false;
        shown.push(match word.split_once('=') {
            _ if is_of_secret => "***".to_owned(),
            Some((name, _)) if is_secret(name) => format!("{name}=***"),
            Some(_) => word.clone(),
            None => {
                is_value = is_secret(word);
                word.clone()
            }
        });
    }
    shown
}

/// The words of a process's command line.
fn command_line(pid: i32) -> Vec<String> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = line.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    words
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_used_before_it_was_started_again_is_counted_too() {
        let own = std::process::id().cast_signed();
        let mut measured = MeasuredProcess::new("test".to_owned(), own);
        measured.ended = Duration::from_secs(5);
        measured.begin(false);
        assert!(measured.used() >= Duration::from_secs(5) && measured.used() < Duration::from_secs(6));
        measured.ends();
        measured.starts(own);
        let report = measured.report(1_000_000);
        assert!(
            !report.unread
                && report.cpu_seconds >= 5.0
                && report.rss_bytes > 0
                && report.peak_rss_bytes >= report.rss_bytes
        );
        assert!((report.cpu_micros_per_change - report.cpu_seconds).abs() < 1e-9);
    }

    #[test]
    fn what_could_never_be_read_is_not_known() {
        let mut measured = MeasuredProcess::new("gone".to_owned(), i32::MAX);
        measured.begin(false);
        let report = measured.report(1);
        assert!(report.unread, "{report:?}");
        assert_eq!(report.used(|process| process.peak_rss_bytes), None);
    }

    #[test]
    fn a_long_name_is_whole() {
        let short = std::env::temp_dir().join(format!("loadtest-name-{}", std::process::id()));
        std::fs::create_dir_all(&short).unwrap();
        let program = short.join("a-name-of-more-than-fifteen-letters");
        std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
        let mut child = std::process::Command::new(&program).arg("60").spawn().unwrap();
        let pid = child.id().cast_signed();
        // Until the child runs the program, it is a copy of this process.
        let flags = Some(vec!["60".to_owned()]);
        for _ in 0..3_000 {
            if flags_of(pid) == flags {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let found = (name_of(pid), flags_of(pid));
        child.kill().unwrap();
        child.wait().unwrap();
        std::fs::remove_dir_all(short).unwrap();
        assert_eq!(
            found,
            (Some("a-name-of-more-than-fifteen-letters".to_owned()), flags)
        );
        assert_eq!(name_of(i32::MAX), None);
    }

    #[test]
    fn secrets_stay_out_of_reports() {
        let shown = |words: &str| {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            without_secrets(&words).join(" ")
        };
        assert_eq!(shown("--some-token=abc"), "--some-token=***");
        assert_eq!(shown("--token-auth-file=/x"), "--token-auth-file=***");
        assert_eq!(shown("run --some-token abc def"), "run --some-token *** def");
        assert_eq!(
            shown("--some-token --kube-api-qps=5"),
            "--some-token --kube-api-qps=5"
        );
    }
}
