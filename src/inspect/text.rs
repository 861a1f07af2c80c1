//! Helpers to lay out text.
//!
//! Tenants choose texts that are printed here, such as the name of a `targetRef`, and the API server takes any characters in
//! some of them. So what reaches a terminal is made of [`Piece`]s, which escape such texts.

use crate::core::excerpt::Excerpt;
use anstyle::{AnsiColor, Style};
use std::fmt::{self, Write as _};

/// The style of titles.
pub(super) const BOLD: Style = Style::new().bold();
/// The style of secondary text.
pub(super) const DIM: Style = Style::new().dimmed();
/// The style of results that are as they should be.
pub(super) const GOOD: Style = AnsiColor::Green.on_default();
/// The style of warnings.
pub(super) const WARN: Style = AnsiColor::Yellow.on_default();
/// The style of errors.
pub(super) const BAD: Style = AnsiColor::Red.on_default().bold();

/// A text that is fit for a terminal: on one line, and without control characters but those of its own styles.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Piece(String);

impl Piece {
    /// Returns this piece with a text behind it.
    pub(super) fn then(mut self, text: impl Into<Self>) -> Self {
        self.0.push_str(&text.into().0);
        self
    }

    /// Returns whether it has no text.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: AsRef<str>> From<T> for Piece {
    fn from(text: T) -> Self {
        Self(Excerpt::new(text.as_ref(), usize::MAX).to_string())
    }
}

impl fmt::Display for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns a text in a style. An empty one stays empty.
pub(super) fn painted(style: Style, text: impl Into<Piece>) -> Piece {
    let text = text.into();
    if text.is_empty() {
        return text;
    }
    Piece(format!("{style}{text}{style:#}"))
}

/// Lines of text for users.
#[derive(Debug, Default)]
pub(super) struct Page(String);

impl Page {
    /// Adds a line that is indented by so many columns.
    pub(super) fn line(&mut self, indent: usize, text: impl Into<Piece>) {
        let _ = writeln!(self.0, "{:indent$}{}", "", text.into());
    }

    /// Adds an empty line.
    pub(super) fn gap(&mut self) {
        self.0.push('\n');
    }

    /// Adds the lines of a table, indented by so many columns.
    pub(super) fn table(&mut self, indent: usize, table: &Table) {
        for line in table.lines() {
            self.line(indent, line);
        }
    }

    /// Returns the text.
    pub(super) fn finish(self) -> String {
        self.0
    }
}

/// Rows whose cells are aligned in columns. The last cell of a row does not widen its column.
#[derive(Debug, Default)]
pub(super) struct Table(Vec<Vec<Piece>>);

impl Table {
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = impl Into<Piece>>) {
        self.0.push(cells.into_iter().map(Into::into).collect());
    }

    /// Returns a line for each row.
    pub(super) fn lines(&self) -> Vec<Piece> {
        let columns = self.0.iter().map(Vec::len).max().unwrap_or_default();
        let width = |column: usize| {
            let cells = self.0.iter().filter(|row| row.len() > column + 1);
            cells.map(|row| shown(&row[column].0)).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let line = |row: &Vec<Piece>| {
            let mut line = String::new();
            for (Piece(cell), width) in row.iter().zip(&widths) {
                line.push_str(cell);
                line.extend(std::iter::repeat_n(' ', width.saturating_sub(shown(cell)) + 2));
            }
            line.truncate(line.trim_end().len());
            Piece(line)
        };
        self.0.iter().map(line).collect()
    }
}

/// Returns the width of a text without its colours. Names in a cluster are ASCII, so each character is one column.
fn shown(text: &str) -> usize {
    let mut count = 0;
    let mut escape = false;
    for c in text.chars() {
        match c {
            '\x1b' => escape = true,
            'm' if escape => escape = false,
            _ if escape => {}
            _ => count += 1,
        }
    }
    count
}

/// The least width that is left to the last column of a table before it goes below the others.
const LEAST: usize = 24;
/// The deepest indentation that is kept for it.
const DEEPEST: usize = 8;

/// Breaks lines that are longer than `width` columns between words, so that a terminal does not break them within. A line
/// goes on below its last column, which is what two blanks or more stand before; if that leaves too little room, the whole
/// column goes below, indented. Words that are too long by themselves, such as names, stay whole.
pub(crate) fn fit(text: &str, width: usize) -> String {
    let mut out = String::new();
    for line in text.lines() {
        if shown(line) <= width {
            let _ = writeln!(out, "{line}");
            continue;
        }
        let start = line.len() - line.trim_start_matches(' ').len();
        let column = line[start..].rfind("  ").map(|at| start + at + 2);
        let (head, rest) = line.split_at(column.unwrap_or(start));
        // Blanks that stand for empty cells are no indentation.
        let is_blank = start > DEEPEST;
        let outer = if is_blank { 0 } else { start };
        let mut indent = shown(head);
        let mut used = indent;
        if (column.is_some() || is_blank) && indent + LEAST > width {
            indent = outer + 4;
            used = indent;
            let head = head.trim_end_matches(' ');
            if !head.is_empty() {
                let _ = writeln!(out, "{head}");
            }
            let _ = write!(out, "{:indent$}", "");
        } else {
            out.push_str(head);
            if column.is_none() && !is_blank {
                indent = start + 2;
            }
        }
        let mut is_first = true;
        for word in rest.split(' ') {
            let long = shown(word);
            if !is_first && used + 1 + long > width {
                let _ = write!(out, "\n{:indent$}", "");
                used = indent;
            } else if !is_first {
                out.push(' ');
                used += 1;
            }
            out.push_str(word);
            used += long;
            is_first = false;
        }
        out.push('\n');
    }
    out
}

/// Formats a count as `1 pod` or `2 pods`.
pub(super) fn plural(count: usize, noun: &str) -> String {
    if count == 1 {
        format!("1 {noun}")
    } else {
        format!("{count} {noun}s")
    }
}

/// Formats a list for a sentence, cut after `most` items.
pub(super) fn listed(items: &[&str], most: usize) -> String {
    let more = items.len().saturating_sub(most);
    let mut text = items[..items.len() - more].join(", ");
    if more > 0 {
        let _ = write!(text, " and {more} more");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stand_under_one_another_whatever_their_colour() {
        let mut table = Table::default();
        table.row(["a", "bcd", "e"]);
        table.row([painted(BAD, "fgh"), "".into(), "i, which is long".into()]);
        let mut page = Page::default();
        page.table(1, &table);
        let red = painted(BAD, "fgh");
        assert_eq!(
            page.finish(),
            format!(" a    bcd  e\n {red}       i, which is long\n")
        );
    }

    #[test]
    fn what_others_wrote_forges_no_line_and_moves_no_cursor() {
        const FORGED: &str = "web\n3 in sync\x1b[2J\u{202e}";
        const SHOWN: &str = r"web\n3 in sync\u{1b}[2J\u{202e}";
        let mut page = Page::default();
        let mut table = Table::default();
        table.row([FORGED.to_owned(), FORGED.to_owned()]);
        page.table(0, &table);
        page.line(2, FORGED);
        page.line(0, painted(BOLD, FORGED).then(FORGED));
        let bold = painted(BOLD, SHOWN);
        assert_eq!(
            page.finish(),
            format!("{SHOWN}  {SHOWN}\n  {SHOWN}\n{bold}{SHOWN}\n")
        );
    }

    #[test]
    fn long_lines_are_broken_between_words_below_their_last_column() {
        assert_eq!(fit("a b\n  short\n", 20), "a b\n  short\n");
        assert_eq!(
            fit(
                "SERVICE  WHY\nshop/web  the selector matches no pod at all here\n",
                36
            ),
            "SERVICE  WHY\nshop/web  the selector matches no\n          pod at all here\n"
        );
        // With too little room, the column goes below.
        assert_eq!(
            fit("shop/a-very-long-name  one two three four\n", 30),
            "shop/a-very-long-name\n    one two three four\n"
        );
        // A note has no columns, and what cannot be broken stays whole.
        assert_eq!(
            fit("  fd00::1234:5678:9abc:def0:1111 and more\n", 20),
            "  fd00::1234:5678:9abc:def0:1111\n    and more\n"
        );
        // Colours have no width.
        let red = "\x1b[31mfour five\x1b[0m six\n";
        assert_eq!(fit(red, 13), red);
        for width in 1..60 {
            let text = "shop/a-name  2 pods nearly match: app=wbe where the selector has app=web (p1)\n";
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(words(&fit(text, width)), words(text), "{width}");
        }
    }

    #[test]
    fn lists_are_cut() {
        assert_eq!(listed(&["a", "b", "c"], 3), "a, b, c");
        assert_eq!(listed(&["a", "b", "c"], 1), "a and 2 more");
        assert_eq!(plural(1, "pod"), "1 pod");
        assert_eq!(plural(0, "pod"), "0 pods");
    }

    #[test]
    fn rows_with_empty_cells_go_on_where_full_ones_do() {
        let reason = "the address should be another one, and is not";
        let full = format!("shop/web  endpointslice web-s49j6  update  {reason}\n");
        let blank = format!("{:43}{reason}\n", "");
        let starts = |text: &str, width| {
            let fitted = fit(text, width);
            let start = |line: &str| line.len() - line.trim_start().len();
            let lines = fitted.lines().filter(|line| !line.starts_with("shop/web"));
            lines.map(start).collect::<Vec<_>>()
        };
        for (width, column) in [(70, 43), (56, 4)] {
            for text in [&full, &blank] {
                let starts = starts(text, width);
                assert!(
                    !starts.is_empty() && starts.iter().all(|start| *start == column),
                    "{starts:?}"
                );
            }
        }
    }
}
