//! Completes words of a command line for kubectl, which asks a file beside the plugin for it: with the words that follow
//! `kubectl endpoints`, of which the last is to be completed. The answer is in the form of Cobra, the library that kubectl
//! completes its own words with: a line for each word, and in the last line what the shell may add to them.

use clap::builder::PossibleValue;
use clap::{Arg, Command};
use std::ffi::OsString;
use std::io::{self, Write as _};

/// The name of the file that kubectl asks.
pub(crate) const FILE: &str = "kubectl_complete-endpoints";

/// The shell may add names of files.
const FILES: u32 = 0;
/// The shell adds nothing.
const NOTHING: u32 = 4;

/// Prints the completions of the last of some words.
pub(crate) fn print(command: Command, words: &[OsString]) -> io::Result<()> {
    let words: Vec<String> = words
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let text = completions(command, &words);
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn completions(mut command: Command, words: &[String]) -> String {
    command.build();
    let (last, before) = match words.split_last() {
        Some((last, before)) => (last.as_str(), before),
        None => ("", &[][..]),
    };
    let (mut here, mut flag) = (&command, None);
    for word in before {
        if flag.take().is_some() {
            continue;
        }
        if word.starts_with('-') {
            flag = find_flag(here, word).filter(|flag| !word.contains('=') && takes_next(flag));
        } else if let Some(found) = here.find_subcommand(word) {
            here = found;
        }
    }
    let mut found = Vec::new();
    let mut adds = NOTHING;
    if let Some(flag) = flag {
        adds = values(flag, "", &mut found);
    } else if let Some((name, _)) = last.split_once('=').filter(|(name, _)| name.starts_with("--")) {
        if let Some(flag) = find_flag(here, name) {
            adds = values(flag, &format!("{name}="), &mut found);
        }
    } else if last.starts_with('-') {
        for flag in here.get_arguments().filter(|flag| !flag.is_hide_set()) {
            let about = first_line(flag.get_help());
            found.extend(flag.get_long().map(|name| (format!("--{name}"), about.clone())));
        }
    } else if here.has_subcommands() {
        let shown = here.get_subcommands().filter(|command| !command.is_hide_set());
        found.extend(shown.map(|command| (command.get_name().to_owned(), first_line(command.get_about()))));
    } else if let Some(argument) = here.get_positionals().next() {
        values(argument, "", &mut found);
    }
    let mut text = String::new();
    for (word, about) in found.iter().filter(|(word, _)| word.starts_with(last)) {
        text.push_str(word);
        if !about.is_empty() {
            text.push('\t');
            text.push_str(about);
        }
        text.push('\n');
    }
    text.push(':');
    text.push_str(&adds.to_string());
    text.push('\n');
    text
}

fn find_flag<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let name = word.split('=').next().unwrap_or_default();
    command.get_arguments().find(|flag| {
        let long = flag.get_long_and_visible_aliases().unwrap_or_default();
        match name.strip_prefix("--") {
            Some(name) => long.contains(&name),
            None => flag.get_short().is_some_and(|short| name == format!("-{short}")),
        }
    })
}

/// Returns whether the next word is the value of a flag that comes without `=`.
fn takes_next(flag: &Arg) -> bool {
    flag.get_action().takes_values() && !flag.is_require_equals_set()
}

/// Adds the values that an argument may have, each behind a prefix. Returns what the shell may add.
fn values(argument: &Arg, prefix: &str, found: &mut Vec<(String, String)>) -> u32 {
    let values: Vec<PossibleValue> = argument.get_possible_values();
    let shown = values.iter().filter(|value| !value.is_hide_set());
    found.extend(shown.map(|value| {
        let about = first_line(value.get_help());
        (format!("{prefix}{}", value.get_name()), about)
    }));
    let names = argument.get_value_names().unwrap_or_default();
    if names.iter().any(|name| *name == "FILE") {
        FILES
    } else {
        NOTHING
    }
}

fn first_line(about: Option<&clap::builder::StyledStr>) -> String {
    let about = about.map(ToString::to_string).unwrap_or_default();
    about.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(words: &[&str]) -> String {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        completions(crate::ops::flags::command(), &words)
    }

    fn names(text: &str) -> Vec<&str> {
        text.lines()
            .map(|line| line.split('\t').next().unwrap_or_default())
            .collect()
    }

    #[test]
    fn commands_are_completed_and_hidden_ones_are_not() {
        let all = complete(&[""]);
        let all = names(&all);
        assert!(
            ["audit", "explain", "top", ":4"]
                .iter()
                .all(|name| all.contains(name)),
            "{all:?}"
        );
        assert!(!all.contains(&"man"), "{all:?}");
        assert_eq!(names(&complete(&["au"])), ["audit", ":4"]);
        assert_eq!(names(&complete(&[])), all);
    }

    #[test]
    fn flags_and_their_values_are_completed() {
        assert_eq!(names(&complete(&["audit", "--prob"])), ["--problems", ":4"]);
        assert_eq!(
            names(&complete(&["audit", "-o", ""])),
            ["table", "json", "yaml", ":4"]
        );
        assert_eq!(
            names(&complete(&["audit", "--output=j"])),
            ["--output=json", ":4"]
        );
        assert_eq!(names(&complete(&["explain", "--kubeconfig", ""])), [":0"]);
        assert_eq!(
            names(&complete(&["audit", "--namespace", "explain", "--prob"])),
            ["--problems", ":4"],
            "the value of a flag is no command"
        );
        assert!(names(&complete(&["completion", ""])).contains(&"fish"));
        assert_eq!(names(&complete(&["explain", ""])), [":4"]);
    }
}
