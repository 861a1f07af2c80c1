//! Two texts side by side: the lines that differ, with a few around them.

/// How many equal lines are shown before and after a change.
const CONTEXT: usize = 3;
/// Above so many pairs of lines, all that lies between the first and the last difference is shown as changed.
const MOST_PAIRS: usize = 16_000_000;

/// A line of both texts, or of one of them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Line<'a> {
    Both(&'a str),
    Old(&'a str),
    New(&'a str),
}

/// The lines in which two texts differ, marked with `-` and `+`, with their surroundings.
pub(crate) fn unified(old: &str, new: &str) -> Vec<String> {
    let lines = compared(&old.lines().collect::<Vec<_>>(), &new.lines().collect::<Vec<_>>());
    let changed: Vec<usize> = (0..lines.len())
        .filter(|&i| !matches!(lines[i], Line::Both(_)))
        .collect();
    let mut out = Vec::new();
    let mut shown = 0;
    for at in changed {
        let from = at.saturating_sub(CONTEXT).max(shown);
        if from > shown {
            out.push("...".to_owned());
        }
        let to = (at + 1 + CONTEXT).min(lines.len());
        for line in &lines[from..to.max(from)] {
            out.push(match line {
                Line::Both(text) => format!("  {text}"),
                Line::Old(text) => format!("- {text}"),
                Line::New(text) => format!("+ {text}"),
            });
        }
        shown = to.max(shown);
    }
    out
}

/// The shortest way from one text to the other: a longest common subsequence between what both begin and end with.
fn compared<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let before = old.iter().zip(new).take_while(|(o, n)| o == n).count();
    let (head, old, new) = (&old[..before], &old[before..], &new[before..]);
    let after = old
        .iter()
        .rev()
        .zip(new.iter().rev())
        .take_while(|(o, n)| o == n)
        .count();
    let (old, tail) = old.split_at(old.len() - after);
    let new = &new[..new.len() - after];
    let mut lines: Vec<Line<'a>> = head.iter().map(|text| Line::Both(text)).collect();
    lines.extend(middle(old, new));
    lines.extend(tail.iter().map(|text| Line::Both(text)));
    lines
}

fn middle<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    if old.len() * new.len() > MOST_PAIRS {
        let old = old.iter().map(|text| Line::Old(text));
        return old.chain(new.iter().map(|text| Line::New(text))).collect();
    }
    // The lengths of the longest common subsequences of what follows, for each pair of positions.
    let width = new.len() + 1;
    let mut lengths = vec![0u32; (old.len() + 1) * width];
    for o in (0..old.len()).rev() {
        for n in (0..new.len()).rev() {
            lengths[o * width + n] = if old[o] == new[n] {
                lengths[(o + 1) * width + n + 1] + 1
            } else {
                lengths[(o + 1) * width + n].max(lengths[o * width + n + 1])
            };
        }
    }
    let (mut o, mut n, mut lines) = (0, 0, Vec::new());
    while o < old.len() || n < new.len() {
        if o < old.len() && n < new.len() && old[o] == new[n] {
            lines.push(Line::Both(old[o]));
            (o, n) = (o + 1, n + 1);
        } else if n == new.len()
            || (o < old.len() && lengths[(o + 1) * width + n] >= lengths[o * width + n + 1])
        {
            lines.push(Line::Old(old[o]));
            o += 1;
        } else {
            lines.push(Line::New(new[n]));
            n += 1;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::unified;

    #[test]
    fn equal_texts_have_no_differences() {
        assert_eq!(unified("a\nb", "a\nb"), [""; 0]);
        assert_eq!(unified("", ""), [""; 0]);
    }

    #[test]
    fn changes_are_shown_with_their_surroundings() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12";
        let new = "1\n2\n3\n4\nfive\n6\n7\n8\n9\n10\n11\n12\n13";
        let shown = [
            "...", "  2", "  3", "  4", "- 5", "+ five", "  6", "  7", "  8", "...", "  10", "  11", "  12",
            "+ 13",
        ];
        assert_eq!(unified(old, new), shown);
        assert_eq!(unified("a\nb\nc", "b\nc\nd"), ["- a", "  b", "  c", "+ d"]);
    }
}
