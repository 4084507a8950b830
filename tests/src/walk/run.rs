//! Runs both ends of a walk, and writes down their results.

use super::script::{Script, Walker};
use crate::launch::Launch;
use crate::pairing::Stack;
use std::array;
use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// Stack and speed of a walk.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Carrier of the streams of both ends.
    pub stack: Stack,
    /// Time after each step in which events between processes can end.
    pub rest: Duration,
}

/// Time without an answer after which a process counts as hanging.
const WATCHDOG: Duration = Duration::from_secs(60);

/// Result of a walk.
#[derive(Debug)]
pub struct Seen {
    /// Output of the walkers, a line for each step.
    pub text: String,
    /// Set if a relay has a walker's connection before the walker closes it, or at the end. The walker then sees a
    /// Unix socket.
    pub relayed: bool,
}

/// Runs a walk, with `program` at both ends.
pub fn walk(program: &Path, script: &Script, pace: Pace) -> Seen {
    let mut party = Party::start(program, pace);
    let (mut text, mut relayed) = (String::new(), false);
    party.open(&script.warmup.to_string());
    for (number, step) in script.steps.iter().enumerate() {
        if step.ends_walker_or_connection() {
            relayed |= party.is_relayed(step.walker);
        }
        let seen = party.step(step.walker, &step.action, number);
        text.push_str(&format!("{step}: {seen}\n"));
        sleep(pace.rest);
    }
    // Each remaining walker receives the rest. Its length differs if a path was filled.
    let (receive, times) = if script.fills() { ("drain", 1) } else { ("await 300000", 3) };
    for walker in (0..Walker::COUNT).map(Walker) {
        for _ in 0..times {
            let seen = party.step(walker, receive, script.steps.len());
            text.push_str(&format!("{walker} at the end: {seen}\n"));
        }
    }
    relayed |= (0..Walker::COUNT).map(Walker).any(|walker| party.is_relayed(walker));
    Seen { text, relayed }
}

/// The processes of a walk.
struct Party {
    ends: [Child; 2],
    pipes: [Option<Pipes>; Walker::COUNT],
    pids: [i32; Walker::COUNT],
}

struct Pipes {
    commands: PipeWriter,
    answers: BufReader<PipeReader>,
}

impl Party {
    fn start(program: &Path, pace: Pace) -> Self {
        let mut pipes = [const { None }; Walker::COUNT];
        let boxes: [_; Walker::COUNT] = array::from_fn(|_| UnixDatagram::pair().expect("a box"));
        let of_boxes = boxes.each_ref().map(|(one, other)| [one.as_raw_fd(), other.as_raw_fd()]);
        let mut end = |walker: usize| {
            let (own, of_child) = (Channel::new(), Channel::new());
            let mut numbers = [own.numbers(), of_child.numbers()].concat();
            numbers.extend(of_boxes.as_flattened());
            let words = Launch::new(pace.stack, [program]).words();
            let mut command = Command::new(&words[0]);
            command
                .args(&words[1..])
                .args(["end", &Walker(walker).to_string()])
                .args(numbers.iter().map(ToString::to_string));
            command.stdin(Stdio::null()).stderr(Stdio::null()).process_group(0);
            // SAFETY: calls that take numbers, in a child that has no other thread.
            unsafe {
                command.pre_exec(move || {
                    numbers.iter().for_each(|&fd| {
                        libc::fcntl(fd, libc::F_SETFD, 0);
                    });
                    Ok(())
                });
            }
            let child = command.spawn().expect("the walker starts");
            pipes[walker] = Some(own.pipes);
            pipes[walker + 2] = Some(of_child.pipes);
            child
        };
        let ends = [end(0), end(1)];
        let mut pids = [0; Walker::COUNT];
        for (pid, end) in pids.iter_mut().zip(&ends) {
            *pid = end.id().cast_signed();
        }
        Self { ends, pipes, pids }
    }

    fn is_relayed(&mut self, walker: Walker) -> bool {
        self.step(walker, "family", 0) == libc::AF_UNIX.to_string()
    }

    fn say(&mut self, walker: Walker, line: &str) -> bool {
        let Some(pipes) = &mut self.pipes[walker.0] else { return false };
        writeln!(pipes.commands, "{line}").is_ok()
    }

    fn answer(&mut self, walker: Walker) -> String {
        let Some(pipes) = &mut self.pipes[walker.0] else { return "not there".into() };
        if !is_readable(pipes.answers.get_ref(), WATCHDOG) {
            self.end(walker);
            return "HANGS".into();
        }
        let mut line = String::new();
        match pipes.answers.read_line(&mut line) {
            Ok(1..) => line.trim_end().into(),
            _ => {
                self.pipes[walker.0] = None;
                "DIED".into()
            }
        }
    }

    fn ask(&mut self, walker: Walker, line: &str) -> String {
        if self.say(walker, line) { self.answer(walker) } else { "not there".into() }
    }

    /// Opens a connection from B to A, and warms it up by round trips.
    fn open(&mut self, rounds: &str) -> String {
        let port = self.ask(Walker(0), "listen");
        self.say(Walker(0), "accept");
        self.ask(Walker(1), &format!("connect {port}"));
        self.answer(Walker(0));
        self.say(Walker(0), &format!("answer {rounds}"));
        self.ask(Walker(1), &format!("ask {rounds}"));
        self.answer(Walker(0))
    }

    fn step(&mut self, walker: Walker, action: &str, number: usize) -> String {
        if walker.is_child() && self.pids[walker.0] == 0 {
            return "not there".into();
        }
        match action {
            "kill" => self.end(walker),
            _ if action.starts_with("open ") => self.open(&action["open ".len()..]),
            "exit" => {
                self.say(walker, "exit");
                self.wait(walker);
                "exits".into()
            }
            "fork" => {
                let answer = self.ask(walker, "fork");
                self.pids[walker.child().0] = answer.parse().unwrap_or(0);
                "forks".into()
            }
            _ => self.ask(walker, &format!("{action} {number}")),
        }
    }

    fn end(&mut self, walker: Walker) -> String {
        if self.pipes[walker.0].is_none() {
            return "not there".into();
        }
        // SAFETY: the process is this one's child, or that child's, and nothing has waited for it.
        unsafe { libc::kill(self.pids[walker.0], libc::SIGKILL) };
        self.wait(walker);
        "killed".into()
    }

    /// Waits for the end of a walker. A dead process answers no more, and holds no connection.
    fn wait(&mut self, walker: Walker) {
        if let Some(mut pipes) = self.pipes[walker.0].take() {
            if let Some(end) = self.ends.get_mut(walker.0) {
                let _ = end.wait();
            }
            let _ = is_readable(pipes.answers.get_ref(), WATCHDOG);
            let _ = pipes.answers.read_line(&mut String::new());
        }
    }
}

impl Drop for Party {
    fn drop(&mut self) {
        self.pipes = [const { None }; Walker::COUNT];
        for end in &mut self.ends {
            // SAFETY: the group is that of a child that this process started.
            unsafe { libc::kill(-end.id().cast_signed(), libc::SIGKILL) };
            let _ = end.wait();
        }
    }
}

/// Two pipes between this process and a walker.
struct Channel {
    /// Ends of the walker.
    commands: PipeReader,
    answers: PipeWriter,
    /// Ends of this process.
    pipes: Pipes,
}

impl Channel {
    fn new() -> Self {
        let (commands, to_walker) = io::pipe().expect("a pipe");
        let (from_walker, answers) = io::pipe().expect("a pipe");
        let pipes = Pipes { commands: to_walker, answers: BufReader::new(from_walker) };
        Self { commands, answers, pipes }
    }

    /// Returns the descriptors of the walker's ends.
    fn numbers(&self) -> [i32; 2] {
        [self.commands.as_raw_fd(), self.answers.as_raw_fd()]
    }
}

fn is_readable(file: &PipeReader, limit: Duration) -> bool {
    let mut one = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: `one` is one entry, and the call gets the count 1.
    unsafe { libc::poll(&mut one, 1, limit.as_millis() as i32) > 0 }
}
