//! Helpers to lay out text.

use std::fmt::{self, Write as _};

/// Rows whose cells are aligned in columns. The last cell of a row does not widen its column.
#[derive(Debug, Default)]
pub(super) struct Table(Vec<Vec<String>>);

impl Table {
    pub(super) fn row(&mut self, cells: impl Into<Vec<String>>) {
        self.0.push(cells.into());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.0.iter().map(Vec::len).max().unwrap_or_default();
        let width = |column: usize| {
            let cells = self.0.iter().filter(|row| row.len() > column + 1);
            cells.map(|row| shown(&row[column])).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.0 {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(cell);
                line.extend(std::iter::repeat_n(' ', width.saturating_sub(shown(cell)) + 2));
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
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
        table.row(["a", "bcd", "e"].map(str::to_owned));
        table.row(["\x1b[31mfgh\x1b[0m", "", "i, which is long"].map(str::to_owned));
        assert_eq!(
            table.to_string(),
            "a    bcd  e\n\x1b[31mfgh\x1b[0m       i, which is long\n"
        );
    }

    #[test]
    fn lists_are_cut() {
        assert_eq!(listed(&["a", "b", "c"], 3), "a, b, c");
        assert_eq!(listed(&["a", "b", "c"], 1), "a and 2 more");
        assert_eq!(plural(1, "pod"), "1 pod");
        assert_eq!(plural(0, "pod"), "0 pods");
    }
}
