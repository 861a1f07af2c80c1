//! The flags on command lines, however they are written.

use super::model::Report;
use std::collections::BTreeMap;

/// The flags that the controller ran with, by name; none where they are not known. The value may follow after an equals
/// sign or as a word of its own. If a flag is given more than once, the last one counts, as the controller has it.
pub(super) fn of(report: &Report) -> Option<BTreeMap<&str, Option<&str>>> {
    let mut words = report.flags.as_ref()?.iter().map(String::as_str).peekable();
    let mut flags = BTreeMap::new();
    while let Some(word) = words.next() {
        if !word.starts_with('-') {
            // The name of a command, for example.
            continue;
        }
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, words.next_if(|next| !next.starts_with('-'))),
        };
        flags.insert(name, value);
    }
    Some(flags)
}
