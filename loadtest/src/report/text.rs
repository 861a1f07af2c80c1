//! The figures of runs for a terminal, at most 80 columns wide.

use super::figures::{self, Better, DURATIONS, Figure, Group, Judgement, Mood, WRITES};
use super::format::{self, bytes, clean, cut, number, rate, seconds, short};
use super::model::{Reachable, Report};
use super::runs::Run;
use anstyle::{AnsiColor, Style};
use std::fmt::Write as _;

/// The width of a usual terminal, in columns.
pub(super) const WIDTH: usize = 80;
/// The width of the first column.
const NAME: usize = 16;
/// More problems than these are in the report only.
const SHOWN: usize = 10;
/// The width of the columns of a comparison.
const FIGURE: usize = 22;
const VALUE: usize = 11;
const RATIO: usize = 8;
/// How many runs stand beside the reference.
const BESIDE: usize = 2;

/// Colours, or none of them.
#[derive(Clone, Copy)]
struct Paint(bool);

// === impl Paint ===

impl Paint {
    fn good(self, text: &str) -> String {
        self.paint(AnsiColor::Green.on_default(), text)
    }

    fn doubtful(self, text: &str) -> String {
        self.paint(AnsiColor::Yellow.on_default(), text)
    }

    fn bad(self, text: &str) -> String {
        self.paint(AnsiColor::Red.on_default().bold(), text)
    }

    fn strong(self, text: &str) -> String {
        self.paint(Style::new().bold(), text)
    }

    fn quiet(self, text: &str) -> String {
        self.paint(Style::new().dimmed(), text)
    }

    fn paint(self, style: Style, text: &str) -> String {
        if self.0 {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }
}

/// The table; colour is for terminals.
pub(super) fn table(report: &Report, colour: bool) -> String {
    let mut table = Table {
        text: String::new(),
        paint: Paint(colour),
    };
    table.head(report);
    table.latencies(report);
    table.reachable(report);
    table.work(report);
    table.watchers(report);
    table.claims(report);
    table.processes(report);
    table.rest(report);
    table.rounds(report);
    table.budgets(report);
    table.verdict(report);
    table.text
}

struct Table {
    text: String,
    paint: Paint,
}

// === impl Table ===

impl Table {
    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn head(&mut self, report: &Report) {
        let run = Run::alone(report);
        let title = self.paint.strong(&cut(&clean(&run.name), WIDTH));
        self.line(&title);
        let facts = self.paint.quiet(&cut(&run.facts(), WIDTH));
        self.line(&facts);
    }

    /// A heading for columns below it, after an empty line.
    fn columns(&mut self, first: &str, columns: &[&str], width: usize) {
        let mut line = format!("{first:<NAME$}");
        for column in columns {
            let _ = write!(line, "{column:>width$}");
        }
        let line = self.paint.quiet(&line);
        self.line("");
        self.line(&line);
    }

    /// A row of cells below columns.
    fn row(&mut self, name: &str, cells: &[String], width: usize) {
        let mut line = format!("{:<NAME$}", cut(&clean(name), NAME));
        for cell in cells {
            let _ = write!(line, "{cell:>width$}");
        }
        self.line(&line);
    }

    fn latencies(&mut self, report: &Report) {
        let mut columns = DURATIONS.map(|(name, ..)| name).to_vec();
        columns.push("count");
        self.columns("latency", &columns, 10);
        for (name, latency) in figures::latencies(report) {
            let mut cells = figures::durations(latency).to_vec();
            cells.push(short(latency.count));
            self.row(name, &cells, 10);
            if latency.overtaken > 0 {
                let overtaken = format!(
                    "  not counted: {} overtaken by later changes",
                    number(latency.overtaken)
                );
                let overtaken = self.paint.quiet(&overtaken);
                self.line(&overtaken);
            }
            if latency.never_seen > 0 {
                let unseen = format!("  never seen: {}", number(latency.never_seen));
                let unseen = self.paint.bad(&unseen);
                self.line(&unseen);
            }
        }
    }

    fn reachable(&mut self, report: &Report) {
        let Some(reachable) = report.fewest_reachable else {
            return;
        };
        let Reachable { before, fewest } = reachable;
        self.line("");
        self.line(&format!(
            "{:<NAME$}{fewest} of {before} endpoints of a Service at the worst moment",
            "Reachable"
        ));
    }

    fn work(&mut self, report: &Report) {
        let (changes, writes) = (&report.changes, &report.writes);
        self.columns("writes", &WRITES, 12);
        for (name, counts) in [("Slices", &writes.slices), ("Endpoints", &writes.endpoints)] {
            self.row(name, &figures::of_writes(counts, short), 12);
        }
        self.line("");
        let mut line = format!(
            "{:<NAME$}{}, {}",
            "Changes",
            number(changes.made),
            rate(changes.made as f64 / report.seconds)
        );
        if changes.failed > 0 {
            let failed = self.paint.bad(&format!("{} failed", number(changes.failed)));
            let _ = write!(line, ", {failed}");
        }
        self.line(&line);
        let each = format!(
            "{} writes, {}",
            format::figure(writes.per_change),
            bytes(writes.bytes_per_change)
        );
        self.line(&format!("{:<NAME$}{each}", "Per change"));
    }

    fn watchers(&mut self, report: &Report) {
        let Some(watchers) = &report.watchers else { return };
        self.line("");
        for (name, figure) in figures::watchers::lines(watchers) {
            self.line(&format!("{name:<NAME$}{figure}"));
        }
    }

    fn claims(&mut self, report: &Report) {
        let lines = figures::claims::lines(report);
        if !lines.is_empty() {
            self.line("");
        }
        for (name, figure) in lines {
            self.line(&format!("{name:<NAME$}{figure}"));
        }
    }

    fn processes(&mut self, report: &Report) {
        if report.processes.is_empty() {
            return;
        }
        self.columns(
            "process",
            &["CPU/change", "CPU", "CPU cold", "memory", "peak"],
            12,
        );
        for process in &report.processes {
            self.row(&process.name, &figures::of_process(process), 12);
        }
    }

    fn rest(&mut self, report: &Report) {
        if report.converge_seconds.is_some() || !report.restarts.is_empty() {
            self.line("");
        }
        if let Some(converged) = report.converge_seconds {
            let converged = if converged > 0.0 {
                format!("{} from cold", seconds(converged))
            } else {
                "no time: all was as it should be at the start".to_owned()
            };
            self.line(&format!("{:<NAME$}{converged}", "Converged in"));
        }
        for restart in &report.restarts {
            let signal = clean(&restart.signal);
            let without = seconds(restart.without_writer_seconds);
            let at = seconds(restart.at);
            self.line(&format!(
                "{:<NAME$}at {at} by {}: no writer for {without}",
                "Restarted",
                cut(&signal, 16)
            ));
        }
    }

    /// Medians and ranges of a run that was repeated.
    fn rounds(&mut self, report: &Report) {
        if report.rounds.is_empty() {
            return;
        }
        let run = Run::alone(report);
        let count = format::plural(report.rounds.len() as u64, "round");
        self.columns(&count, &["", "median", "least", "most"], 12);
        for group in figures::groups(std::slice::from_ref(&run)) {
            let heading = self.paint.quiet(&cut(&clean(&group.title), WIDTH));
            self.line(&heading);
            for figure in &group.figures {
                if let Some([least, most]) = figure.range(0) {
                    let name = cut(&figure.name, NAME + 10);
                    let median = figure.text(0);
                    self.line(&format!(
                        "  {name:<width$}{median:>12}{least:>12}{most:>12}",
                        width = NAME + 10
                    ));
                }
            }
        }
    }

    fn budgets(&mut self, report: &Report) {
        if !report.budgets.is_empty() {
            self.columns("budget", &["measured", "at most", ""], 12);
        }
        for budget in &report.budgets {
            let (name, measured) = (
                cut(&clean(&budget.figure), NAME),
                cut(&clean(&budget.measured), 12),
            );
            let limit = cut(&clean(&budget.limit), 12);
            let judgement = if budget.met {
                self.paint.good("kept")
            } else {
                self.paint.doubtful("MISSED")
            };
            self.line(&format!("{name:<NAME$}{measured:>12}{limit:>12}  {judgement}"));
        }
    }

    fn verdict(&mut self, report: &Report) {
        let verdict = &report.verdict;
        self.line("");
        let words = figures::verdict(report)
            .into_iter()
            .map(|(mood, word)| match mood {
                Mood::Good => self.paint.good(&word),
                Mood::Doubtful => self.paint.doubtful(&word),
                Mood::Bad => self.paint.bad(&word),
            });
        let line = words.collect::<Vec<_>>().join(", ");
        self.line(&line);
        if figures::is_throttled(report) {
            self.wrapped(&figures::advice(report), Paint::doubtful);
        }
        let problems = verdict.problems.len();
        for problem in verdict.problems.iter().take(SHOWN) {
            self.wrapped(problem, Paint::bad);
        }
        if problems > SHOWN {
            self.line(&format!("  and {} more", number((problems - SHOWN) as u64)));
        }
        for warning in &verdict.warnings {
            self.wrapped(&format!("warning: {warning}"), Paint::doubtful);
        }
    }

    fn wrapped(&mut self, text: &str, paint: impl Fn(Paint, &str) -> String) {
        for (number, line) in wrap(&clean(text), WIDTH - 4).into_iter().enumerate() {
            let indent = if number == 0 { "  " } else { "    " };
            let line = paint(self.paint, &line);
            self.line(&format!("{indent}{line}"));
        }
    }
}

/// The tables of several runs, and what makes them doubtful.
pub(super) fn comparison(runs: &[Run<'_>], groups: &[Group], warnings: &[String], colour: bool) -> String {
    let paint = Paint(colour);
    let mut text = String::new();
    for run in runs {
        let name = cut(&clean(&run.name), WIDTH - 4);
        let _ = writeln!(text, "{}   {name}", paint.strong(&run.letter.to_string()));
    }
    let others: Vec<usize> = (1..runs.len()).collect();
    for shown in others.chunks(BESIDE) {
        let mut head = format!("{:FIGURE$}  {:>VALUE$}", "", runs[0].letter);
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
    let note =
        "↓ lower is better; + better, - worse, = within 5 %, ~ no more than runs of the same differ by.";
    let _ = writeln!(text);
    for line in wrap(&format!("{note} {}", figures::noise_of(runs)), WIDTH) {
        let _ = writeln!(text, "{}", paint.quiet(&line));
    }
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
    let name = cut(&figure.name, FIGURE - 2);
    let mut row = format!(
        "  {name:<width$} {arrow}{:>VALUE$}",
        figure.text(0),
        width = FIGURE - 2
    );
    for &run in shown {
        let standing = figure.standing(run);
        let _ = write!(row, "{:>VALUE$}", figure.text(run));
        let ratio = standing.ratio.map(format::ratio).unwrap_or_default();
        let padded = |mark: char, ratio: &str| format!("{ratio:>RATIO$} {mark} ");
        row.push_str(&match standing.judgement {
            Judgement::Better => paint.good(&padded('+', &ratio)),
            Judgement::Worse => paint.bad(&padded('-', &ratio)),
            Judgement::Same => paint.quiet(&padded('=', &ratio)),
            Judgement::Noise => paint.quiet(&padded('~', &ratio)),
            Judgement::Throttled => paint.quiet(&padded('?', &ratio)),
            Judgement::None => padded(' ', &ratio),
        });
    }
    row
}

/// Lines of so many characters; a word that is longer is broken.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_whitespace() {
        let letters: Vec<char> = word.chars().collect();
        if used > 0 && used + 1 + letters.len() > width {
            lines.push(String::new());
            used = 0;
        }
        for (number, part) in letters.chunks(width).enumerate() {
            if number > 0 {
                lines.push(String::new());
                used = 0;
            }
            let line = lines.last_mut().expect("there is always a line");
            if used > 0 {
                line.push(' ');
                used += 1;
            }
            line.extend(part);
            used += part.len();
        }
    }
    lines
}
