//! The credential plugin in the words of errors about it.

use crate::core::excerpt::Excerpt;
use parking_lot::Mutex;
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};

/// The length in bytes to which a command is cut.
const LONGEST_COMMAND: usize = 256;
/// How many of the last lines of standard error are shown.
const LINES: usize = 5;

/// The command of the kubeconfig that was loaded last. Some errors come from kube without the configuration that they are
/// about, and a process uses one kubeconfig.
static COMMAND: Mutex<Option<String>> = Mutex::new(None);
static SHOWS_STDERR: AtomicBool = AtomicBool::new(false);
/// Remembers the plugin's command. Its arguments and its environment may hold credentials, and are not kept; nor is what
/// follows the first space, since some users write arguments there.
pub(super) fn remember(command: &str) {
    let program = command.split_whitespace().next().unwrap_or_default();
    *COMMAND.lock() = Some(Excerpt::new(program, LONGEST_COMMAND).to_string());
}

/// Has errors show the last lines that a failed plugin has written to its standard error.
pub(crate) fn show_stderr() {
    SHOWS_STDERR.store(true, Ordering::Relaxed);
}

/// Returns the plugin with its command, as the subject of a sentence.
pub(super) fn subject() -> String {
    match &*COMMAND.lock() {
        Some(command) => format!("the credential plugin {command}"),
        None => "the credential plugin".to_owned(),
    }
}

/// Describes a plugin that has failed.
pub(super) fn failed(output: &Output) -> String {
    let subject = subject();
    let status = output.status;
    if !SHOWS_STDERR.load(Ordering::Relaxed) {
        return format!(
            "{subject} failed ({status}); its output is not shown, since it may hold secrets: run it by hand to see why, or \
             add --show-credential-plugin-stderr"
        );
    }
    match last_lines(&output.stderr) {
        None => format!("{subject} failed ({status}), and wrote nothing to its standard error"),
        Some(lines) => format!("{subject} failed ({status}): {lines}"),
    }
}

/// Returns the last lines that are not empty, on one line.
fn last_lines(stderr: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(stderr);
    let mut lines: Vec<&str> = text.lines().rev().map(str::trim).collect();
    lines.retain(|line| !line.is_empty());
    lines.truncate(LINES);
    lines.reverse();
    (!lines.is_empty()).then(|| Excerpt::sentence(&lines.join(" / ")).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_shown_on_one() {
        assert_eq!(last_lines(b" \n\n"), None);
        assert_eq!(last_lines(b"one\n\n  two \n").as_deref(), Some("one / two"));
        let many = (0..20)
            .map(|n| format!("line {n}"))
            .collect::<Vec<_>>()
            .join("\n");
        let shown = last_lines(many.as_bytes()).unwrap();
        assert_eq!(shown, "line 15 / line 16 / line 17 / line 18 / line 19");
    }
}
