//! `sovia run`: runs a program with the library.
//!
//! Without `-v` this process becomes the program, so no process stands between the program and its parent. With `-v`
//! this process waits for the program, forwards signals and then prints a summary.

mod collector;
mod inheritance;
mod outset;
mod start;
mod summary;
mod supervise;
mod variables;
mod voice;

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Context;
use sovia_control::Rules;
use sovia_control::env as names;

use self::collector::Collector;
use self::outset::Outset;
use self::start::Program;
use self::summary::Summary;
pub use self::variables::ignored_by_library;
use self::voice::{Voice, Words, say};
use crate::error_text::without_numbers;
use crate::rules::{self, Specs};
use crate::{Board, library, program};

/// Exit status if `sovia run` itself failed, as with `env` and `timeout`.
const EXIT_OURSELVES: i32 = 125;
/// Run a program with its local TCP connections on Virtual Interfaces.
///
/// The program keeps its input and output, its signals and its exit status. Connections that cannot be accelerated stay
/// on TCP and work as before.
///
/// A SPEC is a list of conditions, joined by commas. A connection matches the SPEC if all conditions hold.
///
/// `port=6379` or `port=6000-6100` is the port of either end. `addr=127.0.0.1` or `addr=10.0.0.0/8` is the peer's
/// address. `program=redis-server` is the file name of this end's program. `end=connector` holds if this end connected,
/// and `end=acceptor` holds if this end accepted.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    words: Words,
    #[command(flatten)]
    specs: Specs,
    /// Set the configuration of SOVIA's protocol, as in the papers: a name such as SOVIA_COMBINE, or words joined by
    /// commas. `single`, `handler` or `notify` chooses the thread that handles messages. `auto`, `copy`, `reg` or
    /// `hybrid=2048` chooses how bytes are sent. `w=8,t=4` sets a window of 8 packets and an acknowledgement threshold
    /// of 4 packets. t is at most w, and w is at most 32. If t is 2, w is at most 30. If t is 1, w is at most 22.
    /// `chunk=16384` limits a packet to 16384 bytes. `combine=1024,delay=1ms` combines messages shorter than 1024 bytes,
    /// and delays them by at most 1 ms
    #[arg(long, value_name = "WORDS")]
    protocol: Option<String>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM", value_hint = clap::ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

/// Prints a command-line error, or the requested help. Returns the exit status.
pub fn report(error: &clap::Error) -> i32 {
    let _ = error.print();
    // The status 2 of other commands might also be the program's own.
    if error.use_stderr() { EXIT_OURSELVES } else { 0 }
}

/// Runs the program. Returns the exit status if this process has not become the program.
pub fn run(args: Args) -> anyhow::Result<i32> {
    match prepare(&args) {
        Ok(ready) => ready.go(),
        Err(Refusal { status, error }) => {
            say(without_numbers(&format!("sovia: {error:#}\n")));
            Ok(status)
        }
    }
}

/// Reason why no program was started.
struct Refusal {
    status: i32,
    error: anyhow::Error,
}

impl<E: Into<anyhow::Error>> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self { status: EXIT_OURSELVES, error: error.into() }
    }
}

struct Ready {
    program: Program,
    voice: Voice,
    board: Option<Board>,
    /// The library, if LD_PRELOAD names it.
    library: Option<PathBuf>,
    /// True if the program loads the library.
    is_covered: bool,
}

/// Checks for all possible faults, and sets up the program's environment.
fn prepare(args: &Args) -> Result<Ready, Refusal> {
    let voice = args.words.voice();
    let rules = rules(args)?;
    let protocol = protocol(args)?;
    variables::check(|name| env::var_os(name))?;
    if voice >= Voice::Obstacles {
        for line in variables::misspelt(env::vars_os().map(|(name, _)| name)) {
            say(format_args!("sovia: {line}\n"));
        }
    }
    let path = program::find(&args.command[0])
        .map_err(|error| Refusal { status: error.exit_status(), error: error.into() })?;
    let findings = program::inspect(&path);
    let program = Program::new(path, &args.command, &findings)?;

    if let Some(obstacle) = &findings.obstacle
        && voice >= Voice::Obstacles
    {
        say(format_args!("sovia: {}\n", obstacle.line(program.path())));
    }
    let mut is_covered = findings.obstacle.is_none();
    let mut library = None;
    if findings.obstacle.as_ref().is_none_or(|obstacle| obstacle.tolerates_library()) {
        let found = library::find()?;
        let linker = findings.linker.as_deref();
        if let Some(why) = linker.and_then(|linker| program::refusal(linker, &found)) {
            is_covered = false;
            if voice >= Voice::Obstacles {
                let (path, library) = (program.path().display(), found.display());
                say(format_args!(
                    "sovia: cannot load {library} into {path}: {why}; the program runs on plain TCP\n"
                ));
            }
        } else {
            set_env("LD_PRELOAD", &library::preload_value(&found, env::var_os("LD_PRELOAD"))?);
            library = Some(found);
        }
    }
    if let Some(rules) = rules {
        set_env(names::RULES, rules.to_string().as_ref());
    }
    if let Some(text) = protocol {
        set_env(names::PROTOCOL, text.as_ref());
    }
    let board = if voice >= Voice::Results { board() } else { None };
    if voice >= Voice::Results
        && let Some(fault) = program::proc::fault()
    {
        let (what, advice) = (fault.describe(), fault.advice());
        say(format_args!(
            "sovia: {what}, so connections stay on TCP, and no report counts them; try: {advice}\n"
        ));
    }
    Ok(Ready { program, voice, board, library, is_covered })
}

/// Makes the page of counters, and names it in the program's environment. Prints an error and returns `None` if that
/// fails.
fn board() -> Option<Board> {
    let made = Board::new();
    match &made {
        Ok(board) => set_env(names::STATS, board.path().as_ref()),
        Err(error) => say(without_numbers(&format!(
            "sovia: cannot count accelerated connections, so the report of -v is missing: {error:#}\n"
        ))),
    }
    made.ok()
}

impl Ready {
    fn go(self) -> anyhow::Result<i32> {
        let Some(board) = self.board else {
            if !self.is_covered {
                inheritance::give_up();
            }
            return Ok(self.program.become_it());
        };
        // This process keeps its inherited descriptors, so the program is not their only owner.
        inheritance::give_up();
        if self.voice >= Voice::Reasons {
            let (program, library) = (self.program.path(), self.library.as_deref());
            say(Outset { program, library, variable: |name| env::var_os(name) });
        }
        // Without a collector, only counts by the processes themselves appear.
        let mut collector = Collector::new(board.page()).ok();
        let end = supervise::supervise(|| self.program.become_it(), collector.as_mut())?;
        if let Some(collector) = collector {
            collector.settle(board.page());
        }
        say(Summary { page: board.page(), is_detailed: self.voice >= Voice::Reasons });
        Ok(end.follow())
    }
}

/// Returns the rules of the command line, or `None` if the rules in the environment apply unchanged.
fn rules(args: &Args) -> anyhow::Result<Option<Rules>> {
    let rules = args.specs.rules()?;
    if rules.is_empty() {
        // The library cannot report an error to the user, so invalid rules in the environment are refused here.
        if let Some(text) = env::var_os(names::RULES) {
            let text = text.to_string_lossy();
            let by_number = rules::by_number(&text).context(names::RULES)?;
            let parsed = Rules::parse(by_number.as_deref().unwrap_or(&text));
            let parsed = parsed.map_err(|error| rules::explained(names::RULES, &error))?;
            return Ok(by_number.map(|_| parsed));
        }
        return Ok(None);
    }
    Ok(Some(rules))
}

/// Returns the protocol of the command line, or `None` if the protocol in the environment applies unchanged.
fn protocol(args: &Args) -> anyhow::Result<Option<String>> {
    let (whence, text) = match &args.protocol {
        Some(text) => ("--protocol", text.clone()),
        None => match env::var(names::PROTOCOL) {
            Ok(text) => (names::PROTOCOL, text),
            Err(env::VarError::NotPresent) => return Ok(None),
            Err(error) => return Err(error).context(names::PROTOCOL),
        },
    };
    variables::check_protocol(whence, &text)?;
    Ok(args.protocol.clone())
}

fn set_env(name: &str, value: &std::ffi::OsStr) {
    // SAFETY: `sovia run` has only one thread, so no other thread reads the environment meanwhile.
    unsafe { env::set_var(name, value) }
}
