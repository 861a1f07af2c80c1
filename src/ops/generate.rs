//! Generates files from the definition of the command line: completions for shells, and man pages.

use super::flags;
use clap_complete::Shell;
use std::io;
use std::path::Path;

/// Prints the completions for a shell, for a program of this name.
pub(crate) fn completion(shell: Shell, name: &str) -> io::Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut flags::command(), name, &mut text);
    io::Write::write_all(&mut io::stdout(), &text)
}

/// Writes a man page for each command into a directory, which is created if it is missing.
pub(crate) fn man(directory: &Path) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    clap_mangen::generate_to(flags::command(), directory)
}
