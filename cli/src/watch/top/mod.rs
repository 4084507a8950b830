//! `sovia top`: programs and pairs of programs in a terminal, again and again.

mod draw;
mod model;

use std::io::{IsTerminal, stdout};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};

use crate::filter::look_quietly;
use crate::stat::interval;
use crate::users::Users;
use model::Model;

/// Above are programs, below pairs of programs: the one that connects, and the one that accepts. SAVED are system calls that TCP
/// would have taken and the VIs did not. TURN is the time from one answer to the next, half of all answers: for a client that asks
/// one question at a time on each connection, what it waits for an answer and thinks.
///
/// Keys: q quits, o changes the order, the arrows choose the pair that is drawn below, space stops the picture.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Seconds between two looks
    #[arg(long, short, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,
}

pub(crate) fn top(args: &Args) -> anyhow::Result<()> {
    anyhow::ensure!(
        stdout().is_terminal(),
        "sovia top needs a terminal; `sovia stat` writes lines, `sovia ps --json` is for scripts"
    );
    // A signal to end is a key like another one: the terminal is put back.
    let mut signals = SigSet::empty();
    [Signal::SIGTERM, Signal::SIGHUP].into_iter().for_each(|signal| signals.add(signal));
    signals.thread_block()?;
    let signals = SignalFd::with_flags(&signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    let mut model = Model::begin(&look_quietly()?);
    let mut terminal = ratatui::try_init()?;
    let done = show(&mut terminal, &mut model, args.interval, &signals);
    ratatui::restore();
    done
}

fn show(
    terminal: &mut DefaultTerminal,
    model: &mut Model,
    interval: Duration,
    signals: &SignalFd,
) -> anyhow::Result<()> {
    /// A signal is seen after so long.
    const SLICE: Duration = Duration::from_millis(200);
    let users = Users::default();
    let mut is_paused = false;
    // Soon something is to be seen.
    let mut next = Instant::now() + interval.min(SLICE);
    loop {
        if Instant::now() >= next {
            if !is_paused {
                model.next(&look_quietly()?);
            }
            next = Instant::now() + interval;
        }
        terminal.draw(|frame| draw::draw(frame, model, &users, is_paused))?;
        let wait = next.saturating_duration_since(Instant::now()).min(SLICE);
        if signals.read_signal()?.is_some() {
            return Ok(());
        }
        if !event::poll(wait)? {
            continue;
        }
        let Event::Key(key) = event::read()? else { continue };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Ok(()),
            KeyCode::Char('o') => model.reorder(),
            KeyCode::Char(' ') | KeyCode::Char('p') => is_paused = !is_paused,
            KeyCode::Up | KeyCode::Char('k') => model.step(-1),
            KeyCode::Down | KeyCode::Char('j') => model.step(1),
            _ => {}
        }
    }
}
