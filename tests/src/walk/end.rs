//! One end of a walk: reads steps from a pipe, takes them, and answers with what it has seen.

use std::ffi::CString;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::FromRawFd;
use std::process::exit;
use std::{env, io, mem, ptr};

/// Ends whatever goes on, at the cost of the process: the controller sees that its pipe is closed.
fn must(what: &str, result: i32) -> i32 {
    assert!(result >= 0, "{what}: {}", io::Error::last_os_error());
    result
}

struct End {
    stream: i32,
    epoll: Option<i32>,
    /// For the child that it may fork.
    for_child: Option<Pipes>,
}

/// Commands and answers.
type Pipes = (File, File);

/// Runs an end: `COMMANDS ANSWERS COMMANDS2 ANSWERS2`, descriptors of pipes, the last two for a forked child.
pub fn run(words: &[String]) {
    let pipe = |at: usize| {
        let fd = words[at].parse().expect("a descriptor");
        // SAFETY: the controller has made it for this process. A program that it becomes or starts has no part in it.
        unsafe {
            libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
            File::from_raw_fd(fd)
        }
    };
    // SAFETY: the handlers do nothing, and take nothing.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        let mut alarm: libc::sigaction = mem::zeroed();
        alarm.sa_sigaction = nothing as extern "C" fn(i32) as usize;
        libc::sigaction(libc::SIGALRM, &alarm, ptr::null_mut());
    }
    let (own, of_child) = ((pipe(0), pipe(1)), (pipe(2), pipe(3)));
    End { stream: -1, epoll: None, for_child: Some(of_child) }.obey(own);
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
                    return self.obey(of_child);
                }
                // Its end shows in its pipes.
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
        match words[0] {
            "listen" => self.listen(),
            "accept" => self.accept(),
            "connect" => self.connect(number(1)),
            "ask" => self.warm_up(number(1), true),
            "answer" => self.warm_up(number(1), false),
            "write" => write(self.stream, number(1), number(2)),
            "read" => receive(self.stream, number(1), libc::MSG_DONTWAIT),
            "peek" => receive(self.stream, number(1), libc::MSG_DONTWAIT | libc::MSG_PEEK),
            "await" => {
                let events = poll(self.stream, libc::POLLIN, 15);
                format!("{events} {}", receive(self.stream, number(1), libc::MSG_DONTWAIT))
            }
            "interrupted" => self.interrupted(number(1)),
            "poll" => poll(self.stream, libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP, 0),
            "watch" => self.watch(),
            "events" => self.events(),
            "error" => option(self.stream, libc::SO_ERROR, error_name),
            "family" => option(self.stream, libc::SO_DOMAIN, |family| family.to_string()),
            "unread" => unread(self.stream),
            // SAFETY: a call that takes numbers.
            "shutdown" => said(unsafe { libc::shutdown(self.stream, number(1) as i32) } as isize),
            "linger" => self.linger(),
            "close" => {
                // SAFETY: likewise.
                let result = unsafe { libc::close(mem::replace(&mut self.stream, -1)) };
                said(result as isize)
            }
            "dup" => self.dup(),
            "child" => self.child(&words[1..]),
            _ => panic!("{line}: no such step"),
        }
    }

    fn listen(&mut self) -> String {
        // SAFETY: the address is as long as the calls are told.
        unsafe {
            self.stream = must("socket", libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0));
            let mut to = loopback(0);
            let mut size = mem::size_of_val(&to) as libc::socklen_t;
            must("bind", libc::bind(self.stream, ptr::from_ref(&to).cast(), size));
            must("listen", libc::listen(self.stream, 1));
            must(
                "getsockname",
                libc::getsockname(self.stream, ptr::from_mut(&mut to).cast(), &mut size),
            );
            u16::from_be(to.sin_port).to_string()
        }
    }

    fn accept(&mut self) -> String {
        // SAFETY: the peer's address is not asked for.
        let stream = unsafe { libc::accept(self.stream, ptr::null_mut(), ptr::null_mut()) };
        // SAFETY: a call that takes a number.
        unsafe { libc::close(self.stream) };
        self.stream = must("accept", stream);
        no_delay(self.stream);
        "accepted".into()
    }

    fn connect(&mut self, port: usize) -> String {
        let to = loopback(port as u16);
        // SAFETY: the address is as long as the call is told.
        unsafe {
            self.stream = must("socket", libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0));
            let size = mem::size_of_val(&to) as libc::socklen_t;
            must("connect", libc::connect(self.stream, ptr::from_ref(&to).cast(), size));
        }
        no_delay(self.stream);
        "connected".into()
    }

    fn warm_up(&mut self, rounds: usize, asks: bool) -> String {
        let mut word = [0u8; 8];
        // SAFETY: the stream is this process's, and stays open.
        let mut stream = mem::ManuallyDrop::new(unsafe { File::from_raw_fd(self.stream) });
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

    fn interrupted(&self, microseconds: usize) -> String {
        // SAFETY: zeros are a timer that is not set.
        let mut timer: libc::itimerval = unsafe { mem::zeroed() };
        timer.it_value.tv_usec = microseconds as libc::suseconds_t;
        // Again and again: a signal may come before the call.
        timer.it_interval.tv_usec = 20_000;
        // SAFETY: the timer is one, and the old one is not asked for.
        unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, ptr::null_mut()) };
        let answer = receive(self.stream, 300_000, 0);
        // SAFETY: likewise; nothing is what stops it.
        unsafe { libc::setitimer(libc::ITIMER_REAL, &mem::zeroed(), ptr::null_mut()) };
        answer
    }

    fn watch(&mut self) -> String {
        // SAFETY: the event is one.
        unsafe {
            let epoll = must("epoll_create1", libc::epoll_create1(libc::EPOLL_CLOEXEC));
            let events = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP;
            let mut event = libc::epoll_event { events: events as u32, u64: 0 };
            must("epoll_ctl", libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, self.stream, &mut event));
            self.epoll = Some(epoll);
        }
        "watched".into()
    }

    fn events(&self) -> String {
        let Some(epoll) = self.epoll else { return "no set".into() };
        // SAFETY: there is room for as many events as the call is told.
        unsafe {
            let mut events: [libc::epoll_event; 4] = mem::zeroed();
            match libc::epoll_wait(epoll, events.as_mut_ptr(), 4, 0) {
                0 => "none".into(),
                1 => {
                    let mask = events[0].events;
                    names(mask as libc::c_short)
                }
                n => said(n as isize),
            }
        }
    }

    fn linger(&self) -> String {
        let value = libc::linger { l_onoff: 1, l_linger: 0 };
        // SAFETY: the value is as long as the call is told.
        said(unsafe {
            let size = mem::size_of_val(&value) as libc::socklen_t;
            libc::setsockopt(
                self.stream,
                libc::SOL_SOCKET,
                libc::SO_LINGER,
                ptr::from_ref(&value).cast(),
                size,
            )
        } as isize)
    }

    fn dup(&mut self) -> String {
        // SAFETY: calls that take numbers.
        let second = must("dup", unsafe { libc::dup(self.stream) });
        // SAFETY: likewise.
        unsafe { libc::close(mem::replace(&mut self.stream, second)) };
        "another number".into()
    }

    /// `WAY STACK WHAT SIZE STEP`: a child that becomes this program again and does one thing; what it says by its status.
    fn child(&self, words: &[&str]) -> String {
        let own = env::current_exe().expect("a path").into_os_string().into_string().expect("text");
        let stream = self.stream.to_string();
        let words_of_child = [own.as_str(), "child", &stream, words[2], words[3], words[4]];
        let arguments: Vec<CString> =
            words_of_child.iter().map(|word| CString::new(*word).expect("no zero in it")).collect();
        let mut argv: Vec<*const libc::c_char> =
            arguments.iter().map(|word| word.as_ptr()).collect();
        argv.push(ptr::null());
        let on_kernel = words[1] == "kernel";
        let environment: Vec<CString> = env::vars()
            .filter(|(name, _)| !on_kernel || name != "LD_PRELOAD")
            .map(|(name, value)| CString::new(format!("{name}={value}")).expect("no zero in it"))
            .collect();
        let mut envp: Vec<*const libc::c_char> =
            environment.iter().map(|word| word.as_ptr()).collect();
        envp.push(ptr::null());
        // SAFETY: the vectors end by a null pointer, and stay while the calls run. After vfork the child makes one call.
        let pid = unsafe {
            match words[0] {
                "exec" => {
                    let pid = libc::fork();
                    if pid == 0 {
                        libc::execve(argv[0], argv.as_ptr(), envp.as_ptr());
                        libc::_exit(99);
                    }
                    pid
                }
                "vfork" => {
                    #[expect(deprecated, reason = "programs use it")]
                    let pid = libc::vfork();
                    if pid == 0 {
                        libc::execve(argv[0], argv.as_ptr(), envp.as_ptr());
                        libc::_exit(99);
                    }
                    pid
                }
                "spawn" => {
                    let mut pid = 0;
                    let result = libc::posix_spawn(
                        &mut pid,
                        argv[0],
                        ptr::null(),
                        ptr::null(),
                        argv.as_ptr().cast(),
                        envp.as_ptr().cast(),
                    );
                    assert_eq!(result, 0, "posix_spawn");
                    pid
                }
                "system" => {
                    let preload = if on_kernel { "env -u LD_PRELOAD " } else { "" };
                    let line = CString::new(format!("exec {preload}{}", words_of_child.join(" ")));
                    return status(libc::system(line.expect("no zero in it").as_ptr()));
                }
                way => panic!("{way}: no way to another program"),
            }
        };
        let mut seen = 0;
        // SAFETY: the status is a number of this function's.
        while unsafe { libc::waitpid(must("child", pid), &mut seen, 0) } < 0 {}
        status(seen)
    }
}

/// The other program: `STREAM WHAT SIZE STEP`. It says what it has seen by its exit status.
pub fn run_child(words: &[String]) -> i32 {
    let number = |at: usize| words[at].parse::<usize>().expect("a number");
    let stream = number(0) as i32;
    // SAFETY: as in `run`.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    let seen = match words[1].as_str() {
        "nothing" => return 0,
        "write" => write(stream, number(2), number(3)),
        "read" => receive(stream, number(2), libc::MSG_DONTWAIT),
        "poll" => poll(stream, libc::POLLIN | libc::POLLRDHUP, 0),
        what => panic!("{what}: no such step"),
    };
    (checksum(seen.as_bytes()) % 251) as i32 + 1
}

fn status(status: i32) -> String {
    if libc::WIFEXITED(status) {
        format!("status {}", libc::WEXITSTATUS(status))
    } else {
        format!("signal {}", libc::WTERMSIG(status))
    }
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
    let one = 1i32;
    // SAFETY: the value is as long as the call is told.
    unsafe {
        libc::setsockopt(
            stream,
            libc::IPPROTO_TCP,
            libc::TCP_NODELAY,
            ptr::from_ref(&one).cast(),
            4,
        );
    }
}

/// A result, or the name of the error.
fn said(result: isize) -> String {
    if result >= 0 {
        result.to_string()
    } else {
        error_name(io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }
}

fn error_name(error: i32) -> String {
    match error {
        0 => "no error".into(),
        libc::EAGAIN => "EAGAIN".into(),
        libc::EBADF => "EBADF".into(),
        libc::ECONNRESET => "ECONNRESET".into(),
        libc::EINTR => "EINTR".into(),
        libc::ENOTCONN => "ENOTCONN".into(),
        libc::EPIPE => "EPIPE".into(),
        other => format!("error {other}"),
    }
}

fn write(stream: i32, size: usize, step: usize) -> String {
    let bytes: Vec<u8> =
        (0..size).map(|at| (step * 37 + at * (1 + (step & 3)) + (at >> 8)) as u8).collect();
    // SAFETY: the buffer is as long as the call is told.
    said(unsafe {
        libc::send(stream, bytes.as_ptr().cast(), size, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
    })
}

fn receive(stream: i32, size: usize, flags: i32) -> String {
    let mut bytes = vec![0u8; size];
    // SAFETY: the buffer is as long as the call is told.
    match unsafe { libc::recv(stream, bytes.as_mut_ptr().cast(), size, flags) } {
        n @ 1.. => format!("{n} bytes {:x}", checksum(&bytes[..n as usize])),
        n => said(n),
    }
}

fn poll(stream: i32, events: i16, milliseconds: i32) -> String {
    let mut one = libc::pollfd { fd: stream, events, revents: 0 };
    // SAFETY: there is one entry, as the call is told.
    unsafe { libc::poll(&mut one, 1, milliseconds) };
    names(one.revents)
}

fn names(events: libc::c_short) -> String {
    const NAMES: [(libc::c_short, &str); 7] = [
        (libc::POLLIN, "IN"),
        (libc::POLLPRI, "PRI"),
        (libc::POLLOUT, "OUT"),
        (libc::POLLERR, "ERR"),
        (libc::POLLHUP, "HUP"),
        (libc::POLLNVAL, "NVAL"),
        (libc::POLLRDHUP, "RDHUP"),
    ];
    let mut text = String::new();
    for (bit, name) in NAMES {
        if events & bit != 0 {
            let _ = write!(text, "{}{name}", if text.is_empty() { "" } else { "|" });
        }
    }
    if text.is_empty() { "none".into() } else { text }
}

fn option(stream: i32, name: i32, say: fn(i32) -> String) -> String {
    let mut value = 0i32;
    let mut size = 4;
    // SAFETY: the value is as long as the call is told.
    let result = unsafe {
        libc::getsockopt(
            stream,
            libc::SOL_SOCKET,
            name,
            ptr::from_mut(&mut value).cast(),
            &mut size,
        )
    };
    if result < 0 { said(-1) } else { say(value) }
}

fn unread(stream: i32) -> String {
    let mut bytes = 0i32;
    // SAFETY: the call writes one number.
    let result = unsafe { libc::ioctl(stream, libc::FIONREAD, &mut bytes) };
    said(if result < 0 { -1 } else { bytes as isize })
}

/// FNV-1a.
fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(2_166_136_261, |sum, &byte| (sum ^ u32::from(byte)).wrapping_mul(16_777_619))
}
