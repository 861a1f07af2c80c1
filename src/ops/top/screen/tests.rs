use super::*;
use crate::ops::top::view::tests::model;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::time::Duration;

/// Draws the model of the view's tests, and returns the lines.
fn drawn(width: u16, height: u16, choice: &mut Choice) -> Vec<String> {
    let view = View::of(&model(), choice.sort, &choice.filter, Duration::from_secs(10));
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, &view, choice)).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y| {
        let cells = (0..width).map(|x| buffer[(x, y)].symbol());
        cells.collect::<String>().trim_end().to_owned()
    };
    (0..height).map(row).collect()
}

/// The words without which the screen misleads.
const WORDS: [&str; 22] = [
    "endpointd at http://127.0.0.1:10270",
    "the leader",
    "48 MiB",
    "endpointd-7c9d5b8f6d-x2x7q",
    "holds kube-system/endpointd",
    "unchanged for 0s",
    "remove 12.0",
    "add 50.0",
    "failed 0.0",
    "12034 waiting",
    "rest 75 s",
    "12 of 64 requests in flight",
    "throttled 60 % of the time",
    "1203 Services out of sync",
    "the oldest for 32 s",
    "endpointslice: p50 5.0 ms p99 9.9 ms",
    "endpoints: p50 55 ms p99 99 ms",
    "endpointslices 0 s",
    "sorted by changes",
    "CHANGES  DELETES  LAST  SERVICE",
    "     41        1    1s  shop/checkout",
    "q quit  s sort (c changes, d deletes, l last, n name)  / filter  ↑↓ scroll",
];

#[test]
fn nothing_of_importance_is_cut_at_usual_sizes() {
    for (width, height) in [(80, 24), (140, 40)] {
        let lines = drawn(width, height, &mut Choice::default());
        let screen = lines.join("\n");
        for word in WORDS {
            assert!(
                screen.contains(word),
                "{word:?} is cut at {width}x{height}:\n{screen}"
            );
        }
        assert!(!screen.contains('…'), "{screen}");
        assert!(
            screen.contains("shop/cart"),
            "the last Service has room:\n{screen}"
        );
    }
}

#[test]
fn a_long_error_is_broken_between_words() {
    let error = "client error (Connect): tcp connect error: Connection refused (os error 111), and no more";
    let rows = broken(error, 40);
    assert!(rows.iter().all(|row| row.chars().count() <= 40), "{rows:?}");
    assert_eq!(rows.join(" "), error);
    assert_eq!(broken("longest-word no", 8), ["longest…", "no"]);
}

#[test]
fn a_wide_screen_has_two_columns_of_facts() {
    let narrow = drawn(80, 24, &mut Choice::default());
    let wide = drawn(140, 40, &mut Choice::default());
    let heading = |lines: &[String]| lines.iter().position(|line| line.starts_with("Services by"));
    assert!(heading(&wide) < heading(&narrow), "{wide:#?}");
}

#[test]
fn tiny_screens_do_no_harm() {
    for (width, height) in [(1, 1), (10, 3), (200, 2), (12, 60)] {
        drawn(width, height, &mut Choice::default());
    }
}

fn press(choice: &mut Choice, keys: &str) -> bool {
    let pressed = keys.chars().map(|c| match c {
        '\n' => KeyCode::Enter,
        '\x1b' => KeyCode::Esc,
        '\x08' => KeyCode::Backspace,
        '>' => KeyCode::PageDown,
        c => KeyCode::Char(c),
    });
    let pressed: Vec<_> = pressed.map(KeyEvent::from).collect();
    pressed.into_iter().any(|key| choice.press(key))
}

#[test]
fn keys_sort_and_filter() {
    let mut choice = Choice::default();
    assert!(!press(&mut choice, "n"));
    let lines = drawn(80, 24, &mut choice).join("\n");
    assert!(lines.find("shop/cart") < lines.find("shop/checkout"), "{lines}");
    // Letters that are keys elsewhere belong to the filter while it is edited.
    assert!(!press(&mut choice, "/weq\x08b"));
    let lines = drawn(80, 24, &mut choice).join("\n");
    assert!(lines.contains("filter: web_"), "{lines}");
    assert!(
        lines.contains("shop/web") && !lines.contains("shop/cart"),
        "{lines}"
    );
    assert!(!press(&mut choice, "\n/x\x1b"));
    assert_eq!(choice.filter, "web", "Esc restores the filter that was");
}

#[test]
fn three_keys_end_it_and_the_end_of_the_table_ends_scrolling() {
    for end in ["q", "\x1b", "/abc\x1b\x1b"] {
        assert!(press(&mut Choice::default(), end), "{end:?}");
    }
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert!(Choice::default().press(interrupt));
    let mut editing = Choice::default();
    assert!(!press(&mut editing, "/q") && editing.press(interrupt));
    let mut choice = Choice::default();
    press(&mut choice, ">>>");
    let lines = drawn(80, 24, &mut choice).join("\n");
    assert!(lines.contains("shop/checkout"), "{lines}");
    assert_eq!(choice.scroll, 0, "three Services fit");
}
