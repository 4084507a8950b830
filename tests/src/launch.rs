//! Starts programs, over the kernel or over Sovia, and waits for their ends.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use crate::board::Board;
use crate::pairing::Stack;
use crate::workspace::{kernel_only, sovia};

/// A program to start.
#[derive(Clone, Debug)]
pub struct Launch {
    stack: Stack,
    before: Vec<OsString>,
    command: Vec<OsString>,
    environment: Vec<(String, String)>,
    folder: Option<PathBuf>,
    input: Option<PathBuf>,
    /// Option of `sovia run` for a summary at exit.
    summary: Option<&'static str>,
}

impl Launch {
    /// Makes a launch of a program with its arguments.
    pub fn new<S: Into<OsString>>(stack: Stack, command: impl IntoIterator<Item = S>) -> Self {
        let command = command.into_iter().map(Into::into).collect();
        let (before, environment) = (Vec::new(), Vec::new());
        Self { stack, before, command, environment, folder: None, input: None, summary: None }
    }

    /// Adds `sovia run -v`, for the summary at exit.
    #[must_use]
    pub fn verbose(mut self, verbose: bool) -> Self {
        self.summary = verbose.then_some("-v");
        self
    }

    /// Adds `sovia run -vv`, for a summary that also lists ignored messages.
    #[must_use]
    pub fn detailed(mut self) -> Self {
        self.summary = Some("-vv");
        self
    }

    /// Starts it by another program, `sovia run` included.
    #[must_use]
    pub fn by(mut self, words: &[&str]) -> Self {
        self.before = words.iter().map(OsString::from).collect();
        self
    }

    /// Sets a variable in its environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Starts it in a folder.
    #[must_use]
    pub fn current_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Uses a file as its standard input.
    #[must_use]
    pub fn input(mut self, file: impl Into<PathBuf>) -> Self {
        self.input = Some(file.into());
        self
    }

    /// Returns the words of the command.
    pub(crate) fn words(&self) -> Vec<OsString> {
        let mut words = self.before.clone();
        if self.stack == Stack::Sovia && !kernel_only() {
            words.extend([sovia().into(), "run".into()]);
            words.extend(self.summary.map(OsString::from));
            words.push("--".into());
        }
        words.extend(self.command.iter().cloned());
        words
    }

    /// Returns the command as a shell line.
    pub fn shell(&self) -> String {
        let words = self.words();
        words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    /// Starts it in a process group of its own, so that it can be ended with
    /// everything that it has started.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start(&self) -> Running {
        let words = self.words();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).process_group(0);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        let board = (self.stack == Stack::Native && self.summary.is_some()).then(Board::new);
        command.envs(board.iter().map(|board| ("SOVIA_STATS", board.path())));
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        let input = self.input.as_ref().map(|file| File::open(file).expect("the input file"));
        command
            .stdin(input.map_or_else(Stdio::null, Stdio::from))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{}: {e}", self.shell()));
        let stdout = Capture::of(child.stdout.take().expect("stdout is a pipe"));
        let stderr = Capture::of(child.stderr.take().expect("stderr is a pipe"));
        Running { child, stdout, stderr, board }
    }
}

/// A pipe that a thread reads to its end.
#[derive(Debug)]
struct Capture {
    text: Arc<Mutex<Vec<u8>>>,
    ended: Receiver<()>,
}

impl Capture {
    fn of(mut pipe: impl Read + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(Vec::new()));
        let (sender, ended) = channel::<()>();
        let shared = Arc::clone(&text);
        thread::spawn(move || {
            let mut piece = [0; 65536];
            while let Ok(count @ 1..) = pipe.read(&mut piece) {
                shared.lock().expect("no reader panics").extend_from_slice(&piece[..count]);
            }
            drop(sender);
        });
        Self { text, ended }
    }

    /// Set when the last process that could write has ended.
    fn wait(&self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        self.ended.recv_timeout(left) == Err(RecvTimeoutError::Disconnected)
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().expect("no reader panics")).into_owned()
    }
}

/// A running program.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: Capture,
    stderr: Capture,
    board: Option<Board>,
}

impl Running {
    /// Returns its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns true if it has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Returns what it has written to stdout so far.
    pub fn stdout_so_far(&self) -> String {
        self.stdout.text()
    }

    /// Returns what it has written to stderr so far.
    pub fn stderr_so_far(&self) -> String {
        self.stderr.text()
    }

    /// Sends a signal to the process itself.
    pub fn signal(&self, signal: i32) {
        // SAFETY: kill has no memory effects; the child has not been waited for,
        // so the id is still its own.
        unsafe { libc::kill(self.child.id().cast_signed(), signal) };
    }

    /// Waits until it and all processes with its output have ended.
    pub fn finish(mut self, limit: Duration) -> Outcome {
        let deadline = Instant::now() + limit;
        let ended = self.wait(deadline);
        let last = self.last(ended);
        self.outcome(last)
    }

    /// Returns the state of a program that has not ended in time.
    fn last(&self, ended: bool) -> Option<Last> {
        (!ended).then(|| Last {
            stdout: self.stdout.text(),
            stderr: self.stderr.text(),
            stuck: stuck_processes(self.child.id()),
        })
    }

    fn wait(&mut self, deadline: Instant) -> bool {
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() >= deadline {
                return false;
            }
            sleep(Duration::from_millis(2));
        }
        self.stdout.wait(deadline) && self.stderr.wait(deadline)
    }

    fn outcome(mut self, last: Option<Last>) -> Outcome {
        self.end_group();
        let status = self.child.wait().expect("a child can be waited for");
        if let Some(Last { stdout, stderr, stuck }) = last {
            return Outcome { stdout, stderr, status: None, stuck };
        }
        let (stdout, mut stderr) = (self.stdout.text(), self.stderr.text());
        stderr.extend(self.board.iter().map(Board::summary));
        Outcome { stdout, stderr, status: Some(status), stuck: Vec::new() }
    }

    fn end_group(&self) {
        // SAFETY: kill has no memory effects; the group was made for this child.
        unsafe { libc::kill(-self.child.id().cast_signed(), libc::SIGKILL) };
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.end_group();
            let _ = self.child.wait();
        }
    }
}

/// A program that has not ended in time, before it is killed.
#[derive(Debug)]
struct Last {
    stdout: String,
    stderr: String,
    stuck: Vec<String>,
}

/// How a program ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Output on stdout.
    pub stdout: String,
    /// Output on stderr.
    pub stderr: String,
    /// Its status; `None` if the watchdog had to end it.
    pub status: Option<ExitStatus>,
    /// Kernel functions in which its processes slept when the watchdog ended them.
    pub stuck: Vec<String>,
}

impl Outcome {
    /// Returns true if it ended by itself, with status 0.
    pub fn success(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// Checks that a script that drives a test has printed its last line, "ok". Prints again the tests that it has
    /// skipped.
    ///
    /// # Panics
    /// If it has not.
    #[track_caller]
    pub fn expect_ok(&self) {
        let is_right = self.success() && self.stdout.ends_with("ok\n");
        assert!(is_right, "{:?}\n{}\n{}\n{:#?}", self.status, self.stdout, self.stderr, self.stuck);
        let skipped = self.stdout.lines().filter(|line| line.starts_with("SKIPPED"));
        skipped.for_each(|line| println!("{line}"));
    }

    /// Returns the transcript: stdout, and the exit status as a shell prints it.
    pub fn transcript(&self) -> String {
        let end = match self.status {
            None => "did not end: killed by the watchdog".into(),
            Some(status) => {
                let code = status.code().or(status.signal().map(|signal| 128 + signal));
                format!("status {}", code.unwrap_or(-1))
            }
        };
        format!("{}{end}\n", self.stdout)
    }
}

/// Time that the other programs get after one of several has failed.
const GRACE: Duration = Duration::from_secs(60);

/// Waits for several programs under one watchdog. Once one has failed, the others get little more
/// time, because they may be waiting for it.
pub fn finish(mut programs: Vec<Running>, limit: Duration) -> Vec<Outcome> {
    let mut deadline = Instant::now() + limit;
    let mut failed = false;
    loop {
        let statuses: Vec<_> =
            programs.iter_mut().map(|program| program.child.try_wait()).collect();
        if statuses.iter().all(|status| !matches!(status, Ok(None))) || Instant::now() >= deadline {
            break;
        }
        let failure =
            |status: &_| matches!(status, Ok(Some(status)) if !ExitStatus::success(status));
        if !failed && statuses.iter().any(failure) {
            failed = true;
            deadline = deadline.min(Instant::now() + GRACE);
        }
        sleep(Duration::from_millis(2));
    }
    // Collect the results before any program is killed, because a program may be waiting for the
    // death of another.
    let ended: Vec<bool> = programs.iter_mut().map(|program| program.wait(deadline)).collect();
    let last = programs.iter().zip(ended).map(|(program, ended)| program.last(ended));
    let last: Vec<_> = last.collect();
    programs.into_iter().zip(last).map(|(program, last)| program.outcome(last)).collect()
}

/// Returns, for each process of a group, the kernel function in which it sleeps.
fn stuck_processes(group: u32) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let about = ids.filter_map(|id| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?;
        let its_group = fields.nth(1)?.parse::<u32>().ok()?;
        let read = |name: &str| std::fs::read_to_string(format!("/proc/{id}/{name}"));
        let command = read("cmdline").unwrap_or_default().replace('\0', " ");
        let call = read("syscall").unwrap_or_default();
        let call = call.split_whitespace().next().unwrap_or("?");
        let place = read("wchan").unwrap_or_default();
        (its_group == group)
            .then(|| format!("{id} state {state}, system call {call}, {place}: {command}"))
    });
    about.collect()
}
