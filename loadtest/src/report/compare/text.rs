//! The comparison for a terminal: at most 80 columns, the reference and two others at a time.

use std::fmt::Write as _;

use super::{
    super::{
        format::{clean, cut},
        table::{Paint, WIDTH, wrap},
    },
    Run,
    figures::{Better, Figure, Group, Judgement},
};

const NAME: usize = 22;
const REFERENCE: usize = 11;
const VALUE: usize = 11;
const RATIO: usize = 8;
/// How many runs stand beside the reference.
const BESIDE: usize = 2;

/// The tables, and what makes them doubtful.
pub(super) fn text(runs: &[Run], groups: &[Group], warnings: &[String], colour: bool) -> String {
    let paint = Paint(colour);
    let mut text = String::new();
    for run in runs {
        let name = cut(&clean(&run.name), WIDTH - 4);
        let _ = writeln!(text, "{}   {name}", paint.strong(&run.letter.to_string()));
    }
    let others: Vec<usize> = (1..runs.len()).collect();
    for shown in others.chunks(BESIDE) {
        let mut head = format!("{:NAME$}  {:>REFERENCE$}", "", runs[0].letter);
        for &run in shown {
            let _ = write!(
                head,
                "{:>VALUE$}{:>RATIO$}   ",
                runs[run].letter,
                format!("to {}", runs[0].letter)
            );
        }
        let _ = writeln!(text, "\n{}", paint.quiet(head.trim_end()));
        for group in groups {
            let _ = writeln!(text, "{}", paint.strong(&cut(&clean(&group.title), WIDTH)));
            for figure in &group.figures {
                let _ = writeln!(text, "{}", row(figure, shown, paint).trim_end());
            }
        }
    }
    let note = "↓ lower is better; + better, - worse, = within 5 %. One run each says little.";
    let _ = writeln!(text, "\n{}", paint.quiet(note));
    for warning in warnings {
        let lines = wrap(&clean(&format!("warning: {warning}")), WIDTH - 2);
        for (number, line) in lines.iter().enumerate() {
            let indent = if number == 0 { "" } else { "  " };
            let _ = writeln!(text, "{indent}{}", paint.doubtful(line));
        }
    }
    text
}

fn row(figure: &Figure, shown: &[usize], paint: Paint) -> String {
    let arrow = if figure.better == Better::Lower {
        '↓'
    } else {
        ' '
    };
    let name = cut(&figure.name, NAME - 2);
    let mut row = format!(
        "  {name:<width$} {arrow}{:>REFERENCE$}",
        figure.text(0),
        width = NAME - 2
    );
    for &run in shown {
        let standing = figure.standing(run);
        let _ = write!(row, "{:>VALUE$}", figure.text(run));
        let (ratio, padded) = (standing.text(), |mark: char, ratio: &str| {
            format!("{ratio:>RATIO$} {mark} ")
        });
        row.push_str(&match standing.judgement {
            Judgement::Better => paint.good(&padded('+', &ratio)),
            Judgement::Worse => paint.bad(&padded('-', &ratio)),
            Judgement::Same => paint.quiet(&padded('=', &ratio)),
            Judgement::None => padded(' ', &ratio),
        });
    }
    row
}
