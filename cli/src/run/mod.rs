//! `sovia run`: a program with the library in it.
//!
//! Without `-v` this process becomes the program, so there is nothing between it and the process that
//! started it. With `-v` it waits for the program, passes signals on and then reports.

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
use sovia_proto::configuration::Configuration;
use sovia_proto::configuration::text::ParseError;

use self::collector::Collector;
use self::outset::Outset;
use self::start::Program;
use self::summary::Summary;
use self::voice::{Voice, Words, say};
use crate::rules::{self, Specs};
use crate::similar::suggestion;
use crate::{Board, library, program};

/// Exit status where `sovia run` itself failed, as `env` and `timeout` have it.
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
    /// of 4 packets. The window of sockets is at most 32 packets, and t is at most w. `chunk=16384` limits a packet to
    /// 16384 bytes. `combine=1024,delay=1ms` combines messages shorter than 1024 bytes, and delays them by at most 1 ms
    #[arg(long, value_name = "WORDS")]
    protocol: Option<String>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM", value_hint = clap::ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

/// Prints an error of the command line, or the help that was asked for. Returns the exit status.
pub fn report(error: &clap::Error) -> i32 {
    let _ = error.print();
    // 2, as of other commands, might be the program's own.
    if error.use_stderr() { EXIT_OURSELVES } else { 0 }
}

/// Runs the program; returns the exit status if this process is still itself afterwards.
pub fn run(args: Args) -> anyhow::Result<i32> {
    match prepare(&args) {
        Ok(ready) => ready.go(),
        Err(Refusal { status, error }) => {
            say(format_args!("sovia: {error:#}\n"));
            Ok(status)
        }
    }
}

/// Why nothing was started.
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
    /// The library, where it is in the environment.
    library: Option<PathBuf>,
    /// Whether the program takes it.
    is_covered: bool,
}

/// Looks at everything that can be wrong, and leaves the environment as the program shall have it.
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
            "sovia: {what}, so connections stay on TCP and are not counted; try: {advice}\n"
        ));
    }
    Ok(Ready { program, voice, board, library, is_covered })
}

/// The page of counters, which the program's environment names. `None` if there can be none, which is said.
fn board() -> Option<Board> {
    let made = Board::new();
    match &made {
        Ok(board) => set_env(names::STATS, board.path().as_ref()),
        Err(error) => say(format_args!(
            "sovia: cannot count accelerated connections, so the report of -v is missing: {error:#}\n"
        )),
    }
    made.ok()
}

impl Ready {
    fn go(self) -> anyhow::Result<i32> {
        let Some(board) = self.board else {
            inheritance::pass_on(self.is_covered.then(|| self.program.path()));
            return Ok(self.program.become_it());
        };
        // This process keeps what it has inherited, so the program is not alone with it.
        inheritance::pass_on(None);
        if self.voice >= Voice::Reasons {
            let (program, library) = (self.program.path(), self.library.as_deref());
            say(Outset { program, library, variable: |name| env::var_os(name) });
        }
        // Without one as much is counted as the processes count themselves.
        let mut collector = Collector::new(board.page()).ok();
        let end = supervise::supervise(|| self.program.become_it(), collector.as_mut())?;
        if let Some(collector) = collector {
            collector.settle(board.page());
        }
        say(Summary { page: board.page(), advises: self.voice >= Voice::Reasons });
        Ok(end.follow())
    }
}

/// The rules of the command line, or `None` where the environment's are to stay as they are.
fn rules(args: &Args) -> anyhow::Result<Option<Rules>> {
    let rules = args.specs.rules()?;
    if rules.is_empty() {
        // The library cannot report an error to the user, so wrong rules in the environment end here.
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

/// The protocol of the command line, or `None` where the environment's is to stay as it is.
fn protocol(args: &Args) -> anyhow::Result<Option<String>> {
    let (whence, text) = match &args.protocol {
        Some(text) => ("--protocol", text.clone()),
        None => match env::var(names::PROTOCOL) {
            Ok(text) => (names::PROTOCOL, text),
            Err(env::VarError::NotPresent) => return Ok(None),
            Err(error) => return Err(error).context(names::PROTOCOL),
        },
    };
    Configuration::of_socket(&text).map_err(|error| {
        let suggestion = match &error {
            ParseError::Word(word) => suggestion(word, Configuration::words()),
            _ => String::new(),
        };
        anyhow::anyhow!("{whence}: {error}{suggestion}")
    })?;
    Ok(args.protocol.clone())
}

fn set_env(name: &str, value: &std::ffi::OsStr) {
    // SAFETY: `sovia run` never has a second thread that could read the environment meanwhile.
    unsafe { env::set_var(name, value) }
}
