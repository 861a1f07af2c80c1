//! The controller's log on this thread, for tests whose runtime has no other.

use parking_lot::Mutex;
use std::fmt::Write as _;
use std::sync::Arc;
use tracing::field::{Field, Visit};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

/// The lines at level INFO and above since it was made. Dropping it ends the recording.
pub(crate) struct Log {
    lines: Arc<Mutex<Vec<String>>>,
    _guard: DefaultGuard,
}

impl Log {
    /// Records from now on.
    pub(crate) fn record() -> Self {
        let lines = Arc::default();
        let recorder = Recorder(Arc::clone(&lines));
        Self {
            lines,
            _guard: tracing::subscriber::set_default(tracing_subscriber::registry().with(recorder)),
        }
    }

    /// The lines since the last time, each as `LEVEL message field=value ...`.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock())
    }
}

struct Recorder(Arc<Mutex<Vec<String>>>);

impl<S: Subscriber> Layer<S> for Recorder {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let ours = metadata.target().starts_with("endpointd");
        if ours && *metadata.level() <= Level::INFO {
            let mut line = Line::default();
            event.record(&mut line);
            let line = format!("{} {}{}", metadata.level(), line.message, line.fields);
            self.0.lock().push(line);
        }
    }
}

#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        } else {
            let _ = write!(self.fields, " {}={value:?}", field.name());
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let _ = write!(self.fields, " {}={value}", field.name());
    }
}
