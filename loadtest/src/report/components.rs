//! The parts of a page: a page is one file, which loads nothing and whose policy allows nothing but itself.

use super::format;
use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, Render, html};

const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/readout.js");

/// A whole page.
pub(super) fn whole(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy());
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                // Or else browsers ask the server for one.
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) }
            }
            body {
                (body)
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

/// Returns the page's policy: nothing may be loaded, and of style and script only those of this file run. Text of a
/// report that found its way into the page as markup could do nothing.
fn policy() -> String {
    let hash = |text: &str| STANDARD.encode(digest::digest(&digest::SHA256, text.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; img-src data:; base-uri 'none'; \
         form-action 'none'",
        hash(STYLE),
        hash(SCRIPT)
    )
}

/// One figure, large.
pub(super) struct Tile {
    pub(super) label: String,
    pub(super) figure: String,
    pub(super) more: String,
    /// The judgement of the figure, if it is wrong or above a limit.
    pub(super) mood: Option<Mood>,
}

/// Figures in a row.
pub(super) fn tiles(tiles: &[Tile]) -> Markup {
    html! {
        ul.tiles {
            @for tile in tiles {
                li.bad[tile.mood == Some(Mood::Bad)].doubtful[tile.mood == Some(Mood::Doubtful)] {
                    span.label { (tile.label) }
                    strong { (tile.figure) }
                    span.more {
                        // Lines break between these, not between a figure and its unit.
                        @for (number, part) in tile.more.split(", ").enumerate() {
                            @if number > 0 { ", " }
                            span.part { (part) }
                        }
                    }
                }
            }
        }
    }
}

/// How good something is, told by a shape and a word as well as by a colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mood {
    Good,
    Doubtful,
    Bad,
}

/// A short judgement.
pub(super) fn badge(mood: Mood, text: &str) -> Markup {
    let (class, shape) = match mood {
        Mood::Good => ("badge good", "M3.5 8.5l3 3 6-7"),
        Mood::Doubtful => ("badge doubtful", "M8 3.5v5.5M8 12.3v.2"),
        Mood::Bad => ("badge bad", "M4 4l8 8M12 4l-8 8"),
    };
    html! {
        span class=(class) {
            svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true" { path d=(shape) {} }
            (text)
        }
    }
}

/// Lines, of which a few are shown at once.
pub(super) fn lines(lines: &[String]) -> Markup {
    const SHOWN: usize = 8;
    let (shown, more) = lines.split_at(lines.len().min(SHOWN));
    html! {
        ul.lines { @for line in shown { li { (line) } } }
        @if !more.is_empty() {
            details {
                summary { (format::number(more.len() as u64)) " more" }
                ul.lines { @for line in more { li { (line) } } }
            }
        }
    }
}

/// A table that can be scrolled across where it does not fit. The class is one of figures, or of more.
pub(super) fn table<H: Render>(caption: &str, class: &str, head: &[H], rows: &[Markup]) -> Markup {
    html! {
        div.scroll tabindex="0" { table class=(class) {
            caption.unseen { (caption) }
            thead { tr { @for head in head { th scope="col" { (head) } } } }
            tbody { @for row in rows { (row) } }
        } }
    }
}

/// A row of a table with this head, whose first column is the row's name. On a narrow screen there are no columns, and each
/// cell has its head before it.
pub(super) fn row(name: impl Render, head: &[&str], cells: impl IntoIterator<Item = impl Render>) -> Markup {
    html! { tr {
        th scope="row" { (name) }
        @for (head, cell) in head.iter().skip(1).zip(cells) { td data-head=(head) { (cell) } }
    } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn style_and_script_cannot_end_their_elements() {
        for text in [STYLE, SCRIPT] {
            assert!(!text.contains("</") && !text.contains("<!--"));
        }
        // Or the hashes in the policy would not be those of what is there.
        let page = whole("t", &html! {});
        assert!(page.contains(&format!("<style>{STYLE}</style>")));
        assert!(page.contains(&format!("<script>{SCRIPT}</script>")));
        assert!(!STYLE.contains('\r') && !SCRIPT.contains('\r'));
    }

    #[test]
    fn a_title_stays_text() {
        let page = whole("</title><script>alert(1)</script>", &html! { "&" });
        assert!(page.contains("<title>&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;</title>"));
        assert_eq!(page.matches("<script").count(), 1);
    }

    #[test]
    fn many_lines_are_folded() {
        let all: Vec<String> = (0..30).map(|n| format!("<{n}>")).collect();
        let text = lines(&all).into_string();
        assert_eq!(text.matches("<li>").count(), 30);
        assert!(text.contains("22 more") && text.contains("&lt;29&gt;"));
        assert!(!lines(&all[..5]).into_string().contains("more"));
    }
}
