//! The progress of what runs: a bar on a terminal, a line now and then elsewhere.

use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;
use std::io::IsTerminal;
use std::time::Duration;
use tokio::time::Instant;

const LINE_EVERY: Duration = Duration::from_secs(3);
const REFRESH: Duration = Duration::from_millis(200);
const TICK: Duration = Duration::from_millis(100);

/// Shows one stage of a run. On standard error, so that the result can be piped on.
pub(crate) struct Stage {
    label: &'static str,
    start: Instant,
    show: Show,
}

enum Show {
    Bar(ProgressBar),
    Lines { total: u64, last: Mutex<Instant> },
}

// === impl Stage ===

impl Stage {
    /// Begins a stage of so many steps; nought if the number is unknown.
    pub(crate) fn begin(label: &'static str, total: u64) -> Self {
        let start = Instant::now();
        let show = if std::io::stderr().is_terminal() {
            let template = if total == 0 {
                "{spinner} {prefix:11} {msg}"
            } else {
                "{spinner} {prefix:11} [{bar:20}] {msg}"
            };
            let style = ProgressStyle::with_template(template)
                .expect("the template is valid")
                .progress_chars("=> ");
            let bar = ProgressBar::new(total).with_style(style).with_prefix(label);
            bar.enable_steady_tick(TICK);
            Show::Bar(bar)
        } else {
            Show::Lines {
                total,
                last: Mutex::new(start),
            }
        };
        Self { label, start, show }
    }

    pub(crate) fn set(&self, done: u64, message: impl FnOnce() -> String) {
        match &self.show {
            Show::Bar(bar) => {
                bar.set_position(done);
                bar.set_message(message());
            }
            Show::Lines { total, last } => {
                let mut last = last.lock();
                let now = Instant::now();
                if now.saturating_duration_since(*last) >= LINE_EVERY {
                    *last = now;
                    let share = (done * 100)
                        .checked_div(*total)
                        .map(|percent| format!(" {}%", percent.min(100)));
                    eprintln!("{:11}{} {}", self.label, share.unwrap_or_default(), message());
                }
            }
        }
    }

    /// Ends the stage with a line that stays. Dropped without it, the stage leaves nothing behind.
    pub(crate) fn end(self, outcome: &str) {
        if let Show::Bar(bar) = &self.show {
            bar.finish_and_clear();
        }
        eprintln!("{:11} {outcome}", self.label);
    }

    pub(crate) fn elapsed(&self) -> Duration {
        Instant::now().saturating_duration_since(self.start)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Show::Bar(bar) = &self.show {
            bar.finish_and_clear();
        }
    }
}

/// Shows something now and then until the work is done.
pub(crate) async fn every_so_often<T>(show: impl Fn(), work: impl Future<Output = T>) -> T {
    let mut ticks = tokio::time::interval(REFRESH);
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            outcome = &mut work => return outcome,
            _ = ticks.tick() => show(),
        }
    }
}
