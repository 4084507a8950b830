//! `sovia top`: shows programs and pairs of programs in a terminal, and updates them.

mod draw;
mod model;

use std::fs::File;
use std::io::{IsTerminal, stdin, stdout};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::Context;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};

use crate::watch::filter::look_quietly;
use crate::watch::stat::interval;
use crate::watch::users::Users;
use draw::View;
use model::Model;

/// Watch programs and pairs of programs under Sovia, ordered by traffic
///
/// The upper table shows programs. The lower table shows pairs of programs: the program that connects, and the program
/// that accepts.
///
/// SAVED is the number of system calls that VIs saved per second: calls that TCP would have made and the VIs did not.
///
/// TURN is the time from one answer to the next on a connection. For each connection, the command takes the mean of
/// this time between two samples. TURN is the median of these means over all answers. If a client sends one request at
/// a time on each connection, TURN is the time for a request, its answer and the client's work.
///
/// Keys: q quits, h explains keys and columns, o changes the order, space pauses the display. The arrows choose the
/// pair whose graphs are below the tables.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Seconds between two samples
    #[arg(long, short, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,
}

pub(crate) fn top(args: &Args) -> anyhow::Result<()> {
    anyhow::ensure!(
        stdout().is_terminal(),
        "cannot draw: sovia top needs a terminal; use `sovia stat` for lines, `sovia ps --json` for scripts"
    );
    let keyboard = Keyboard::open()?;
    let mut model = Model::begin(&look_quietly()?);
    let mut terminal = ratatui::try_init()?;
    let done = show(&mut terminal, &mut model, args.interval, &keyboard);
    ratatui::restore();
    done
}

/// Sources of keys, and of signals that end the program like a key, because the terminal must be restored. SIGHUP ends
/// the program at once: the terminal has gone.
struct Keyboard {
    terminal: OwnedFd,
    signals: SignalFd,
}

/// Result of a wait.
enum Woken {
    /// Perhaps a key or a new size of the terminal; or the time is over.
    Look,
    /// The program must end, or has lost its terminal.
    End,
}

impl Keyboard {
    fn open() -> anyhow::Result<Self> {
        let mut signals = SigSet::empty();
        signals.add(Signal::SIGTERM);
        signals.thread_block()?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let signals = SignalFd::with_flags(&signals, flags)?;
        // crossterm reads keys from the same file.
        let terminal = if stdin().is_terminal() {
            stdin().as_fd().try_clone_to_owned()?
        } else {
            File::open("/dev/tty")
                .context("cannot open /dev/tty, from which sovia top takes keys")?
                .into()
        };
        Ok(Self { terminal, signals })
    }

    /// Waits until an event comes, or for `most`. Does not use crossterm after the terminal has gone, because crossterm
    /// would read its end again and again.
    fn wait(&self, most: Duration) -> anyhow::Result<Woken> {
        let mut ready = [
            PollFd::new(self.terminal.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut ready, PollTimeout::try_from(most)?) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno).context("cannot wait for keys"),
        }
        let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
        let is_gone = ready[0].revents().is_some_and(|found| found.intersects(gone));
        let is_told = ready[1].any().unwrap_or(false);
        Ok(if is_gone || is_told { Woken::End } else { Woken::Look })
    }
}

fn show(
    terminal: &mut DefaultTerminal,
    model: &mut Model,
    interval: Duration,
    keyboard: &Keyboard,
) -> anyhow::Result<()> {
    /// Longest wait before the terminal's size is checked again.
    const SLICE: Duration = Duration::from_millis(200);
    let users = Users::default();
    let mut view = View::default();
    // The first update comes soon.
    let mut next = Instant::now() + interval.min(SLICE);
    loop {
        if Instant::now() >= next {
            if !view.is_paused {
                model.next(&look_quietly()?);
            }
            next = Instant::now() + interval;
        }
        terminal.draw(|frame| draw::draw(frame, model, &users, view))?;
        let wait = next.saturating_duration_since(Instant::now()).min(SLICE);
        if let Woken::End = keyboard.wait(wait)? {
            return Ok(());
        }
        if !event::poll(Duration::ZERO)? {
            continue;
        }
        let Event::Key(key) = event::read()? else { continue };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        if std::mem::take(&mut view.shows_help) {
            continue;
        }
        match key.code {
            KeyCode::Char('h' | '?') => view.shows_help = true,
            KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Ok(()),
            KeyCode::Char('o') => model.reorder(),
            KeyCode::Char(' ' | 'p') => view.is_paused = !view.is_paused,
            KeyCode::Up | KeyCode::Char('k') => model.step(-1),
            KeyCode::Down | KeyCode::Char('j') => model.step(1),
            _ => {}
        }
    }
}
