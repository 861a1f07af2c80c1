//! Puts an error about the command line on one line. The parser prints paragraphs, with the usage and tips.

/// Returns one line with everything useful from an error's text: the fault, the arguments or values that it lists, and a
/// similar name. `help` is the command that tells more.
pub fn without_usage(text: &str, help: &str) -> String {
    let mut line = String::new();
    for part in text.lines().map(str::trim) {
        if part.starts_with("Usage:") || part.starts_with("For more information") {
            break;
        }
        // How to pass a value that looks like a flag: no flag here takes one that is meant so.
        if part.is_empty() || part.starts_with("tip: to pass") {
            continue;
        }
        match part.strip_prefix("tip: ") {
            Some(_) => line.push_str("; "),
            None if line.is_empty() => {}
            // A list of arguments, or of values in brackets.
            None if line.ends_with(':') || part.starts_with('[') => line.push(' '),
            None => line.push_str(", "),
        }
        line.push_str(part.strip_prefix("tip: ").unwrap_or(part));
    }
    // The words of Rust's parser of numbers.
    let line = line.replace("invalid digit found in string", "expected a whole number");
    format!("{line} (see '{help}')")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_become_a_line() {
        for (text, line) in [
            (
                "error: the following required arguments were not provided:\n  <A>\n  --b <B>\n\nUsage: x <A>\n",
                "error: the following required arguments were not provided: <A>, --b <B>",
            ),
            (
                "error: invalid value 'x' for '--y'\n  [possible values: a, b]\n\n  tip: a similar value exists: 'a'\n\nFor more information, try '--help'.\n",
                "error: invalid value 'x' for '--y' [possible values: a, b]; a similar value exists: 'a'",
            ),
            (
                "error: unexpected argument '--x' found\n\n  tip: to pass '--x' as a value, use '-- --x'\n\nUsage: x\n",
                "error: unexpected argument '--x' found",
            ),
        ] {
            assert_eq!(
                without_usage(text, "x --help"),
                format!("{line} (see 'x --help')")
            );
        }
    }
}
