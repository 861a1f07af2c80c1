//! `endpointd top`: watches a running controller.
//!
//! ```text
//!  /metrics of the controller ── each interval ──┐
//!  its Lease ─────────────────── each interval ──┼──► model ──► view ──► screen, or text with --once
//!  metadata of EndpointSlices ── watched ────────┘                ▲
//!  keys ──────────────────────── sort, filter, scroll ───────────┘
//! ```
//!
//! The controller exposes nothing for each Service, so that the number of its series stays bounded; changes of Services
//! are counted here, from the slices themselves.

mod exposition;
mod hot;
mod model;
mod rates;
mod screen;
mod view;

use self::exposition::Exposition;
use self::hot::Sort;
use self::model::Model;
use self::screen::Choice;
use self::view::View;
use super::flags::{Colour, TopArgs};
use super::inspect::{naming, print};
use super::logging::one_line;
use crate::clock;
use crate::cluster::connect::{PLUGIN_DEADLINE, connect_and_tell};
use crate::cluster::election::Location;
use crate::cluster::read::Reader;
use crate::cluster::scrape::Scraper;
use crate::cluster::watch::slice_changes::{SliceNews, follow};
use crate::core::lease::Record;
use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// The exit code if the metrics could not be read, or a flag cannot be used.
const UNREAD: u8 = 2;
/// The number of observations that may wait to be counted. Beyond it the watch of slices is read more slowly.
const WAITING: usize = 1024;
/// How long a request for metrics or the Lease may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How often the screen is drawn again if nothing but time has passed, and how often the keyboard's thread checks
/// whether the program ends.
const REDRAW: Duration = Duration::from_millis(250);
/// The number of Services that `--once` prints.
const PRINTED: usize = 20;

/// Something that was observed.
enum News {
    Metrics(Result<Exposition, String>),
    Lease(Result<Option<Record>, String>),
    Slices(SliceNews),
}

/// Runs `endpointd top`.
pub(crate) async fn run(args: TopArgs) -> ExitCode {
    let scraper = match Scraper::new(&args.page(), TIMEOUT) {
        Ok(scraper) => scraper,
        Err(error) => {
            eprintln!("error: {}", one_line(&error));
            return ExitCode::from(UNREAD);
        }
    };
    let terminal = io::stdout().is_terminal() && io::stdin().is_terminal();
    if !(args.once || terminal) {
        eprintln!("error: this is not a terminal; --once prints the view as text");
        return ExitCode::from(UNREAD);
    }
    let Location { namespace, name } = args.lease.location();
    let lease = format!("{namespace}/{name}");
    let model = Model::new(args.metrics_url.clone(), lease);
    let (tell, news) = mpsc::channel(WAITING);
    let mut tasks = JoinSet::new();
    tasks.spawn(scrape(scraper, args.interval, tell.clone()));
    tasks.spawn(read_cluster(args.clone(), tell));
    if args.once {
        return once(model, news).await;
    }
    match live(model, news).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: the terminal cannot be used: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Reads the metrics at each interval, until the receiver is dropped.
async fn scrape(scraper: Scraper, every: Duration, tell: mpsc::Sender<News>) {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let outcome = match scraper.read().await {
            Ok(page) => Exposition::parse(&page).map_err(|error| error.to_string()),
            Err(error) => Err(one_line(&error)),
        };
        if tell.send(News::Metrics(outcome)).await.is_err() {
            return;
        }
    }
}

/// Reads the Lease at each interval and follows the slices, until the receiver is dropped.
async fn read_cluster(args: TopArgs, tell: mpsc::Sender<News>) {
    let (client, server) =
        match connect_and_tell(&args.connection.target_of_tool(), None, Some(PLUGIN_DEADLINE)).await {
            Ok(connected) => connected,
            Err(error) => {
                let why = one_line(&error);
                let _ = tell.send(News::Lease(Err(why.clone()))).await;
                let _ = tell.send(News::Slices(SliceNews::Broken(why))).await;
                return;
            }
        };
    let (shown, mut slices) = mpsc::channel(WAITING);
    let mut tasks = JoinSet::new();
    tasks.spawn(follow(client.clone(), shown));
    let reader = Reader::new(client).waiting(Some(TIMEOUT));
    let (lease, leases, url) = (args.lease.location(), tell.clone(), server.clone());
    tasks.spawn(async move {
        let mut ticks = interval(args.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let read = reader.lease(&lease.namespace, &lease.name).await;
            let outcome = read.map_err(|error| naming(&one_line(&error), &url));
            if leases.send(News::Lease(outcome)).await.is_err() {
                return;
            }
        }
    });
    while let Some(mut news) = slices.recv().await {
        if let SliceNews::Broken(why) = &mut news {
            *why = naming(why, &server);
        }
        if tell.send(News::Slices(news)).await.is_err() {
            return;
        }
    }
}

fn learn(model: &mut Model, news: News, now: Duration) {
    match news {
        News::Metrics(outcome) => model.scraped(outcome, now),
        News::Lease(outcome) => model.lease_read(outcome, now),
        News::Slices(news) => model.slices(news, now),
    }
}

/// Prints the view after two scrapes.
async fn once(mut model: Model, mut news: mpsc::Receiver<News>) -> ExitCode {
    let start = Instant::now();
    let mut scrapes = 0;
    while scrapes < 2 {
        let Some(news) = news.recv().await else { break };
        scrapes += u32::from(matches!(news, News::Metrics(_)));
        learn(&mut model, news, clock::since(start));
    }
    let now = clock::since(start);
    model.hot.advance(now);
    let text = View::of(&model, Sort::default(), "", now).to_text(PRINTED);
    if let Err(error) = print(&text, Colour::Never) {
        eprintln!("error: {error}");
        return ExitCode::from(UNREAD);
    }
    if model.failure.is_some() {
        return ExitCode::from(UNREAD);
    }
    ExitCode::SUCCESS
}

/// Gives the terminal back when it is dropped, on errors too. After a panic, the library's hook does it.
struct Screen(ratatui::DefaultTerminal);

impl Screen {
    fn open() -> io::Result<Self> {
        // If only the first half succeeds, the terminal is raw without a screen.
        ratatui::try_init().map(Self).inspect_err(|_| give_back())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Gives the terminal back. A terminal that is gone needs nothing; to complain about it on stderr would be a panic.
fn give_back() {
    let _ = ratatui::try_restore();
}

/// Shows the view until a key or a signal ends it.
async fn live(mut model: Model, mut news: mpsc::Receiver<News>) -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut screen = Screen::open()?;
    let mut keyboard = Keyboard::start();
    let (start, mut choice) = (Instant::now(), Choice::default());
    let mut ticks = interval(REDRAW);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            _ = hangup.recv() => return Ok(()),
            pressed = keyboard.pressed.recv() => match pressed {
                Some(Ok(Some(key))) if choice.press(key) => return Ok(()),
                // Another key, or a new size of the terminal.
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                None => return Ok(()),
            },
            _ = ticks.tick() => {}
            // A storm of changes is counted here, and drawn at the next tick.
            Some(news) = news.recv() => {
                learn(&mut model, news, clock::since(start));
                continue;
            }
        }
        let now = clock::since(start);
        model.hot.advance(now);
        let view = View::of(&model, choice.sort, &choice.filter, now);
        screen.0.draw(|frame| screen::draw(frame, &view, &mut choice))?;
    }
}

/// The keyboard, which can only be waited for by a thread.
struct Keyboard {
    /// Keys, `None` for other events, or the error that ends the thread.
    pressed: mpsc::Receiver<io::Result<Option<KeyEvent>>>,
    ends: Arc<AtomicBool>,
}

impl Keyboard {
    fn start() -> Self {
        let (tell, pressed) = mpsc::channel(16);
        let ends = Arc::new(AtomicBool::new(false));
        let stop = ends.clone();
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let event = match event::poll(REDRAW) {
                    Ok(false) => continue,
                    Ok(true) => event::read(),
                    Err(error) => Err(error),
                };
                let failed = event.is_err();
                let key = event.map(|event| match event {
                    Event::Key(key) if key.kind != KeyEventKind::Release => Some(key),
                    _ => None,
                });
                if tell.blocking_send(key).is_err() || failed {
                    return;
                }
            }
        });
        Self { pressed, ends }
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}
