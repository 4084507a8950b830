//! Runs one end of a walk: reads steps from a pipe, takes them, and answers with the results.

use super::calls::{self, error_name, must, poll, receive, said, set_option, unread};
use super::children::child;
use super::mail::Boxes;
use super::script::Walker;
use super::sets::Sets;
use super::sleepers::{Sleep, Sleepers};
use std::array;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::FromRawFd;
use std::process::exit;
use std::{mem, ptr};

struct End {
    /// Descriptors of its connections; the first one is in use.
    numbers: Vec<i32>,
    listener: i32,
    sets: Sets,
    sleepers: Sleepers,
    own: Walker,
    boxes: Boxes,
    /// Pipes of the child that it may fork.
    for_child: Option<Pipes>,
}

/// Commands and answers.
type Pipes = (File, File);

/// Runs an end: `WALKER COMMANDS ANSWERS COMMANDS2 ANSWERS2 BOX...`. The numbers are descriptors of pipes, the second
/// pair for a forked child, and the ends of all boxes.
pub fn run(words: &[String]) {
    let descriptor = |at: usize| {
        let fd = words[at].parse().expect("a descriptor");
        // SAFETY: a call that takes numbers. A program that this process becomes or starts has no part in it.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
        fd
    };
    // SAFETY: the controller has made it for this process.
    let pipe = |at: usize| unsafe { File::from_raw_fd(descriptor(at)) };
    // SAFETY: the handlers do nothing, and take nothing.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        let mut alarm: libc::sigaction = mem::zeroed();
        alarm.sa_sigaction = nothing as extern "C" fn(i32) as usize;
        libc::sigaction(libc::SIGALRM, &alarm, ptr::null_mut());
    }
    let (own, of_child) = ((pipe(1), pipe(2)), (pipe(3), pipe(4)));
    let mut end = End {
        numbers: Vec::new(),
        listener: -1,
        sets: Sets::default(),
        sleepers: Sleepers::default(),
        own: words[0].parse().expect("a walker"),
        boxes: Boxes(array::from_fn(|of| [0, 1].map(|end| descriptor(5 + 2 * of + end)))),
        for_child: Some(of_child),
    };
    end.obey(own);
}

extern "C" fn nothing(_: i32) {}

impl End {
    fn obey(&mut self, pipes: Pipes) {
        let (commands, mut answers) = pipes;
        let mut lines = BufReader::new(commands).lines();
        while let Some(line) = lines.next() {
            let line = line.expect("a command");
            if line == "exit" {
                exit(0);
            }
            if line == "fork" {
                let of_child = self.for_child.take().expect("an end forks once");
                // SAFETY: the process has one thread of its own.
                let pid = must("fork", unsafe { libc::fork() });
                if pid == 0 {
                    drop((lines, answers));
                    self.own = self.own.child();
                    return self.obey(of_child);
                }
                // The closed pipes report its end.
                drop(of_child);
                writeln!(answers, "{pid}").expect("the controller reads");
                continue;
            }
            let answer = self.take(&line);
            writeln!(answers, "{answer}").expect("the controller reads");
        }
    }

    fn take(&mut self, line: &str) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| -> usize {
            words
                .get(at)
                .and_then(|word| word.parse().ok())
                .unwrap_or_else(|| panic!("{line}: no number"))
        };
        let stream = self.numbers.first().copied().unwrap_or(-1);
        // A step's last word is its number in the walk.
        let last = words.len() - 1;
        match words[0] {
            "listen" => self.listen(),
            "accept" => self.accept(),
            "connect" => self.connect(number(1)),
            "ask" => warm_up(stream, number(1), true),
            "answer" => warm_up(stream, number(1), false),
            "write" => calls::write(stream, number(1), number(2)),
            "gather" => calls::gather(stream, number(1), number(2)),
            "splice-out" => calls::splice_out(stream, number(1), number(2)),
            "fill" => calls::fill(stream),
            "read" => receive(stream, number(1), libc::MSG_DONTWAIT),
            "scatter" => calls::scatter(stream, number(1)),
            "read-all" => receive(stream, number(1), libc::MSG_DONTWAIT | libc::MSG_WAITALL),
            "discard" => calls::discard(stream, number(1)),
            "splice-in" => calls::splice_in(stream, number(1)),
            "peek" => receive(stream, number(1), libc::MSG_DONTWAIT | libc::MSG_PEEK),
            "drain" => calls::drain(stream),
            "await" => {
                let events = poll(stream, libc::POLLIN, 15);
                format!("{events} {}", receive(stream, number(1), libc::MSG_DONTWAIT))
            }
            "interrupted" => interrupted(stream, number(1)),
            "poll" => poll(stream, libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP, 0),
            "add" | "modify" | "delete" => {
                self.sets.control(words[0], number(1), stream, &words[2..last])
            }
            "events" => self.sets.events(number(1), number(2)),
            "close-set" => self.sets.close(number(1)),
            "sleep" => self.sleep(stream, words[1], number(2)),
            "woken" => self.sleepers.look(),
            "error" => calls::option(stream, libc::SO_ERROR, error_name),
            "family" => calls::option(stream, libc::SO_DOMAIN, |family| family.to_string()),
            "least" => set_option(stream, libc::SOL_SOCKET, libc::SO_RCVLOWAT, &(number(1) as i32)),
            "unread" => unread(stream),
            // SAFETY: a call that takes numbers.
            "shutdown" => said(unsafe { libc::shutdown(stream, number(1) as i32) } as isize),
            "linger" => {
                let at_once = libc::linger { l_onoff: 1, l_linger: 0 };
                set_option(stream, libc::SOL_SOCKET, libc::SO_LINGER, &at_once)
            }
            "close" => {
                if !self.numbers.is_empty() {
                    self.numbers.remove(0);
                }
                // SAFETY: a call that takes a number.
                said(unsafe { libc::close(stream) } as isize)
            }
            "dup" => {
                // SAFETY: calls that take numbers.
                self.numbers[0] = must("dup", unsafe { libc::dup(stream) });
                // SAFETY: likewise.
                unsafe { libc::close(stream) };
                "another number".into()
            }
            "second" => {
                // SAFETY: a call that takes a number.
                self.numbers.push(must("dup", unsafe { libc::dup(stream) }));
                "one more number".into()
            }
            "other" => {
                self.numbers.rotate_left(1);
                "the other number".into()
            }
            "give" => match words[1].parse() {
                Ok(walker) => self.boxes.give(stream, walker),
                Err(error) => panic!("{error}"),
            },
            "take" => match self.boxes.take(self.own) {
                Some(taken) => {
                    self.numbers.insert(0, taken);
                    "taken".into()
                }
                None => "nothing".into(),
            },
            "child" => child(stream, &words[1..]),
            _ => panic!("{line}: no such step"),
        }
    }

    fn sleep(&mut self, stream: i32, what: &str, number: usize) -> String {
        let call = match what {
            "receive" => Sleep::Receive(number),
            "readable" => Sleep::Poll(libc::POLLIN | libc::POLLRDHUP),
            "writable" => Sleep::Poll(libc::POLLOUT),
            "ended" => Sleep::Poll(0),
            "events" => Sleep::Events(self.sets.instance(number)),
            "send" => Sleep::Send(number),
            _ => panic!("{what}: no call to sleep in"),
        };
        self.sleepers.start(what, stream, call)
    }

    fn listen(&mut self) -> String {
        // SAFETY: `size` is the length of the address `to`, in both calls.
        unsafe {
            let stream = must("socket", libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0));
            self.listener = stream;
            let mut to = loopback(0);
            let mut size = mem::size_of_val(&to) as libc::socklen_t;
            must("bind", libc::bind(stream, ptr::from_ref(&to).cast(), size));
            must("listen", libc::listen(stream, 1));
            must(
                "getsockname",
                libc::getsockname(stream, ptr::from_mut(&mut to).cast(), &mut size),
            );
            u16::from_be(to.sin_port).to_string()
        }
    }

    fn accept(&mut self) -> String {
        // SAFETY: the peer's address is not asked for.
        let stream = unsafe { libc::accept(self.listener, ptr::null_mut(), ptr::null_mut()) };
        // SAFETY: a call that takes a number.
        unsafe { libc::close(self.listener) };
        self.numbers.insert(0, must("accept", stream));
        no_delay(stream);
        "accepted".into()
    }

    fn connect(&mut self, port: usize) -> String {
        let to = loopback(port as u16);
        // SAFETY: `size` is the length of the address `to`.
        let stream = unsafe {
            let stream = must("socket", libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0));
            let size = mem::size_of_val(&to) as libc::socklen_t;
            must("connect", libc::connect(stream, ptr::from_ref(&to).cast(), size));
            stream
        };
        self.numbers.insert(0, stream);
        no_delay(stream);
        "connected".into()
    }
}

fn warm_up(stream: i32, rounds: usize, asks: bool) -> String {
    let mut word = [0u8; 8];
    // SAFETY: this process owns the stream, which stays open.
    let mut stream = mem::ManuallyDrop::new(unsafe { File::from_raw_fd(stream) });
    for _ in 0..rounds {
        if asks {
            stream.write_all(&word).expect("the peer is there");
        }
        stream.read_exact(&mut word).expect("the peer is there");
        if !asks {
            stream.write_all(&word).expect("the peer is there");
        }
    }
    "warm".into()
}

/// Makes a receive that a timer's signal interrupts.
fn interrupted(stream: i32, microseconds: usize) -> String {
    // SAFETY: zeros are a timer that is not set.
    let mut timer: libc::itimerval = unsafe { mem::zeroed() };
    timer.it_value.tv_usec = microseconds as libc::suseconds_t;
    // Repeat the signal, because it may come before the call.
    timer.it_interval.tv_usec = 20_000;
    // SAFETY: the timer is one, and the old one is not asked for.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, ptr::null_mut()) };
    let answer = receive(stream, 300_000, 0);
    // SAFETY: likewise; nothing is what stops it.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &mem::zeroed(), ptr::null_mut()) };
    answer
}

fn loopback(port: u16) -> libc::sockaddr_in {
    // SAFETY: zeros are an address.
    let mut to: libc::sockaddr_in = unsafe { mem::zeroed() };
    to.sin_family = libc::AF_INET as libc::sa_family_t;
    to.sin_addr.s_addr = libc::INADDR_LOOPBACK.to_be();
    to.sin_port = port.to_be();
    to
}

fn no_delay(stream: i32) {
    set_option(stream, libc::IPPROTO_TCP, libc::TCP_NODELAY, &1i32);
}
