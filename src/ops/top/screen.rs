//! The view on a terminal, and the keys.

use super::hot::Sort;
use super::view::{Fact, LABEL, View, age};
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

/// From this width on, the facts stand in two columns.
const WIDE: u16 = 120;
/// The longest filter, in characters: a namespace's name, a slash and a Service's.
const FILTER: usize = 127;

/// The sort order, the filter and the scroll position that the keys have chosen.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Choice {
    pub(super) sort: Sort,
    pub(super) filter: String,
    /// The filter before it was edited, while it is edited.
    edited_from: Option<String>,
    /// The number of Services above the first that is shown.
    scroll: usize,
}

impl Choice {
    /// Takes a key. Returns true if the program is to end.
    pub(super) fn press(&mut self, key: KeyEvent) -> bool {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return key.code == KeyCode::Char('c');
        }
        if self.edited_from.is_some() {
            match key.code {
                KeyCode::Enter => self.edited_from = None,
                KeyCode::Esc => self.filter = self.edited_from.take().unwrap_or_default(),
                KeyCode::Backspace => drop(self.filter.pop()),
                KeyCode::Char(c) if self.filter.chars().count() < FILTER => self.filter.push(c),
                _ => {}
            }
            self.scroll = 0;
            return false;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('c') => self.sort = Sort::Changes,
            KeyCode::Char('d') => self.sort = Sort::Deletes,
            KeyCode::Char('l') => self.sort = Sort::Last,
            KeyCode::Char('n') => self.sort = Sort::Name,
            KeyCode::Char('/') => self.edited_from = Some(self.filter.clone()),
            KeyCode::Down | KeyCode::Char('j') => self.scroll += 1,
            KeyCode::Up | KeyCode::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::PageDown => self.scroll += 10,
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(10),
            KeyCode::Home => self.scroll = 0,
            _ => {}
        }
        false
    }
}

/// Draws the view. Adjusts the choice if it has scrolled beyond the end.
pub(super) fn draw(frame: &mut Frame<'_>, view: &View, choice: &mut Choice) {
    let area = frame.area();
    let facts = if area.width >= WIDE {
        // The left column has what is, the right one what follows from it.
        let (left, right) = view.facts.split_at(view.facts.len().div_ceil(2));
        let half = usize::from(area.width / 2) - 1;
        side_by_side(lines(left, half), lines(right, half), half + 2)
    } else {
        lines(&view.facts, usize::from(area.width))
    };
    let [title, top, heading, table, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(facts.len() as u16 + 1),
        Constraint::Length(2),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(area);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let title_line = Line::styled(format!("endpointd at {}", view.url), bold);
    frame.render_widget(Paragraph::new(title_line), title);
    frame.render_widget(Paragraph::new(facts), top);
    let columns = format!("{:>7}  {:>7}  {:>4}  SERVICE", "CHANGES", "DELETES", "LAST");
    let headings = vec![
        Line::styled(elided(&view.heading, usize::from(area.width)), bold),
        Line::styled(columns, Style::new().add_modifier(Modifier::REVERSED)),
    ];
    frame.render_widget(Paragraph::new(headings), heading);
    services(frame, table, view, choice);
    let keys = if choice.edited_from.is_some() {
        format!("filter: {}_   Enter keeps it, Esc drops it", choice.filter)
    } else {
        "q quit  s sort (c changes, d deletes, l last, n name)  / filter  ↑↓ scroll".to_owned()
    };
    let dim = Style::new().add_modifier(Modifier::DIM);
    frame.render_widget(Paragraph::new(Line::styled(keys, dim)), foot);
}

fn services(frame: &mut Frame<'_>, area: Rect, view: &View, choice: &mut Choice) {
    let rows = usize::from(area.height);
    choice.scroll = choice.scroll.min(view.services.len().saturating_sub(rows));
    let room = usize::from(area.width).saturating_sub(24);
    let shown = view.services.iter().skip(choice.scroll).take(rows);
    let mut lines: Vec<_> = shown
        .map(|service| {
            let name = elided(&format!("{}/{}", service.namespace, service.name), room);
            let last = age(service.last);
            Line::raw(format!(
                "{:>7}  {:>7}  {last:>4}  {name}",
                service.changes, service.deletes
            ))
        })
        .collect();
    if view.services.is_empty() {
        lines.push(Line::raw("none"));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// Breaks facts into lines of at most this width: between pieces, and between words of one that alone is too long.
fn lines(facts: &[Fact], width: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for fact in facts {
        let style = if fact.alarm {
            Style::new().fg(Color::Red).add_modifier(Modifier::BOLD)
        } else {
            Style::new()
        };
        let room = width.saturating_sub(LABEL);
        let mut rows = vec![String::new()];
        for piece in fact.pieces.iter().flat_map(|piece| broken(piece, room)) {
            let row = rows.last_mut().expect("there is a first row");
            if row.is_empty() {
                *row = piece;
            } else if row.chars().count() + 2 + piece.chars().count() <= room {
                row.push_str("  ");
                row.push_str(&piece);
            } else {
                rows.push(piece);
            }
        }
        for (at, row) in rows.into_iter().enumerate() {
            let label = if at == 0 { fact.label } else { "" };
            let label = Span::styled(format!("{label:<LABEL$}"), Style::new().fg(Color::Cyan));
            lines.push(Line::from(vec![label, Span::styled(row, style)]));
        }
    }
    lines
}

/// Breaks a piece that is wider than a line, such as an error, between words.
fn broken(piece: &str, width: usize) -> Vec<String> {
    if piece.chars().count() <= width {
        return vec![piece.to_owned()];
    }
    let mut rows: Vec<String> = Vec::new();
    for word in piece.split_whitespace().map(|word| elided(word, width)) {
        match rows.last_mut() {
            Some(row) if row.chars().count() + 1 + word.chars().count() <= width => {
                row.push(' ');
                row.push_str(&word);
            }
            _ => rows.push(word),
        }
    }
    rows
}

/// Puts lines next to each other, the right ones from a column on.
fn side_by_side(left: Vec<Line<'static>>, right: Vec<Line<'static>>, column: usize) -> Vec<Line<'static>> {
    let rows = left.len().max(right.len());
    let (mut left, mut right) = (left.into_iter(), right.into_iter());
    let both = (0..rows).map(|_| {
        let mut line = left.next().unwrap_or_default();
        line.push_span(" ".repeat(column.saturating_sub(line.width())));
        line.extend(right.next().unwrap_or_default());
        line
    });
    both.collect()
}

/// Cuts a text to a width, with an ellipsis where something is left out.
fn elided(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests;
