//! Makes text written by others fit for a log line or an Event message: short, and on one line.

use std::fmt::{self, Write as _};

/// The number of bytes printed of a value that a tenant chose (an annotation, a label).
pub(crate) const VALUE: usize = 64;
/// The number of bytes printed of a sentence, such as the message of a Status or of an error.
pub(crate) const SENTENCE: usize = 1024;

/// Prints at most a number of bytes of a text, followed by its length if that is not all. Control characters, and
/// characters that change the direction or the lines of displayed text, are escaped, because the author of the text
/// could otherwise forge log lines, or hide some on a terminal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Excerpt<'t> {
    text: &'t str,
    limit: usize,
}

impl<'t> Excerpt<'t> {
    /// Creates an excerpt of a text; `limit` is in bytes of the text before escaping.
    pub(crate) fn new(text: &'t str, limit: usize) -> Self {
        Self { text, limit }
    }

    /// Creates an excerpt of a value that a tenant chose.
    pub(crate) fn value(text: &'t str) -> Self {
        Self::new(text, VALUE)
    }

    /// Creates an excerpt of a sentence.
    pub(crate) fn sentence(text: &'t str) -> Self {
        Self::new(text, SENTENCE)
    }
}

impl fmt::Display for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = cut(self.text, self.limit);
        for c in shown.chars() {
            if is_unprintable(c) {
                write!(f, "{}", c.escape_default())?;
            } else {
                f.write_char(c)?;
            }
        }
        if shown.len() < self.text.len() {
            write!(f, "... ({} bytes)", self.text.len())?;
        }
        Ok(())
    }
}

/// Returns the beginning of a text: at most `limit` bytes, and whole characters.
pub(crate) fn cut(text: &str, limit: usize) -> &str {
    let mut end = limit.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Prints the beginning of what a tenant chose, as [`Excerpt::value`] does, without printing the rest of it: a selector
/// may have 256 KiB.
pub(crate) fn beginning(of: &impl fmt::Display) -> String {
    struct Beginning(String);
    impl fmt::Write for Beginning {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let taken = cut(text, VALUE - self.0.len());
            self.0.push_str(taken);
            if taken.len() < text.len() {
                Err(fmt::Error)
            } else {
                Ok(())
            }
        }
    }
    let mut beginning = Beginning(String::new());
    let more = if write!(beginning, "{of}").is_ok() {
        ""
    } else {
        "..."
    };
    format!("{}{more}", Excerpt::value(&beginning.0))
}

fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stays_on_one_line_and_within_its_limit() {
        assert_eq!(Excerpt::value("yes").to_string(), "yes");
        assert_eq!(
            Excerpt::value("a\nERROR forged\r\t\u{1b}[2J\u{202e}\u{85}").to_string(),
            r"a\nERROR forged\r\t\u{1b}[2J\u{202e}\u{85}"
        );
        let long = Excerpt::value(&"x".repeat(256 * 1024)).to_string();
        assert_eq!(long, format!("{}... (262144 bytes)", "x".repeat(VALUE)));
    }

    #[test]
    fn no_more_is_printed_of_a_value_than_its_beginning() {
        struct Endless;
        impl fmt::Display for Endless {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                loop {
                    f.write_str("a\n")?;
                }
            }
        }
        assert_eq!(beginning(&"app=web"), "app=web");
        let shown = beginning(&Endless);
        assert!(
            shown.starts_with(r"a\na\n") && shown.ends_with("...") && shown.len() < 3 * VALUE,
            "{shown}"
        );
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(Excerpt::new("\u{e9}\u{e9}", 3).to_string(), "\u{e9}... (4 bytes)");
        assert_eq!(Excerpt::new("\u{e9}\u{e9}", 4).to_string(), "\u{e9}\u{e9}");
        assert_eq!(cut("\u{1f980}", 3), "");
    }
}
