//! A network namespace whose filters are watched, with the programs that respect them.
//!
//! Each has a thread of its own. So a namespace with many filters, or with filters that change all the time, does not
//! delay other namespaces.

use super::{Budget, Seat};
use super::{judge::Judgement, look};
use sovia_proto::filters::Flows;
use sovia_sys::netlink::{self, Events};
use sovia_sys::seqpacket::Packets;
use sovia_sys::{Errno, Fd, Result, bpf, call, clock, netns, poll};
use std::collections::BTreeMap;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SendError, Sender, channel};
use std::thread::JoinHandle;

/// Interval of checks for changes that no event reports, in nanoseconds.
const LOOK_NS: u64 = 1_000_000_000;

/// Tokens in the epoll instance: a new program, a change of filters, and the programs from `FIRST` on.
const DOOR: u64 = 0;
const CHANGE: u64 = 1;
const FIRST: u64 = 2;

/// A program that respects filters.
#[derive(Debug)]
pub(super) struct Program {
    packets: Packets,
    group: Group,
    /// True if BPF programs may see the group's packets, by the last check.
    has_programs: bool,
    /// Last report.
    reported: Option<Flows>,
    _seat: Seat,
}

/// Control group of a program.
#[derive(Debug)]
enum Group {
    /// None with BPF programs.
    None,
    /// Folder of the group.
    Known(std::fs::File),
    /// Not visible to the agent.
    Unknown,
}

/// Handle of a network namespace's thread, for the thread that accepts programs.
#[derive(Debug)]
pub(super) struct Place {
    come: Sender<Program>,
    door: Arc<Fd>,
    thread: JoinHandle<()>,
}

impl Place {
    /// Starts a thread that watches a network namespace until no program is left there.
    ///
    /// # Errors
    /// The process has no descriptor or no thread left.
    pub(super) fn start(namespace: Fd, first_looks: Arc<Budget>) -> Result<Place> {
        let door = Arc::new(Fd::make(|| call::eventfd(libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))?);
        let (come, inbox) = channel();
        let of_thread = Arc::clone(&door);
        let run = move || {
            // When the thread ends, it closes its programs' sockets. The programs keep their connections on TCP, and
            // connect again.
            let _ = Watch::begin(&namespace, of_thread, inbox)
                .and_then(|mut watch| watch.serve(&first_looks));
        };
        let thread = std::thread::Builder::new().name("filters".into()).spawn(run);
        let thread = thread.map_err(|_| Errno::EAGAIN)?;
        Ok(Place { come, door, thread })
    }

    /// Passes a program to the thread.
    ///
    /// # Errors
    /// Returns the program if the thread has ended.
    pub(super) fn admit(&self, program: Program) -> core::result::Result<(), Program> {
        self.come.send(program).map_err(|SendError(program)| program)?;
        let _ = call::write(self.door.raw(), &1u64.to_ne_bytes());
        Ok(())
    }

    /// Returns true once the thread has ended.
    pub(super) fn is_over(&self) -> bool {
        self.thread.is_finished()
    }
}

/// Joins the netlink groups that report changes of filters in the calling thread's network namespace.
pub(super) fn watch() -> Result<[Events; 2]> {
    let groups = netlink::LINKS | netlink::TRAFFIC_CONTROL;
    Ok([
        Events::join(libc::NETLINK_NETFILTER, netlink::NFTABLES)?,
        Events::join(libc::NETLINK_ROUTE, groups)?,
    ])
}

/// State of the thread.
#[derive(Debug)]
struct Watch {
    inode: u64,
    epoll: Fd,
    door: Arc<Fd>,
    inbox: Receiver<Program>,
    events: [Events; 2],
    programs: BTreeMap<u64, Program>,
    next: u64,
    /// Packets that may be stopped, by the last look.
    stopped: Flows,
    /// A filter whose changes are not reported, by the last look.
    unreported: Option<String>,
    /// Set when a filter may have changed since the last look.
    is_outdated: bool,
    /// Time of the last check for unreported changes.
    looked: u64,
    budget: Budget,
}

impl Watch {
    /// Enters the namespace, in which the thread stays.
    fn begin(namespace: &Fd, door: Arc<Fd>, inbox: Receiver<Program>) -> Result<Watch> {
        netns::enter(namespace)?;
        let (_, inode) = netns::id(namespace)?;
        let epoll = Fd::make(poll::epoll_create)?;
        let events = watch()?;
        let edges = (libc::EPOLLIN | libc::EPOLLET) as u32;
        let descriptors =
            [(door.raw(), DOOR), (events[0].raw(), CHANGE), (events[1].raw(), CHANGE)];
        for (fd, token) in descriptors {
            poll::epoll_ctl(epoll.raw(), libc::EPOLL_CTL_ADD, fd, edges, token)?;
        }
        let (programs, unreported, budget) = Default::default();
        Ok(Watch {
            inode,
            epoll,
            door,
            inbox,
            events,
            programs,
            next: FIRST,
            stopped: Flows::all(),
            unreported,
            is_outdated: true,
            looked: clock::now_ns(),
            budget,
        })
    }

    fn serve(&mut self, first_looks: &Budget) -> Result<()> {
        let begun = clock::now_ns();
        let judgement = self.look();
        first_looks.spend(begun);
        self.say(&judgement);
        loop {
            self.take_in();
            self.report();
            if !self.wait()? {
                return Ok(());
            }
            if self.is_outdated {
                self.look_if_due();
            }
        }
    }

    /// Waits for changes and programs. Returns false if there was no program for a while.
    fn wait(&mut self) -> Result<bool> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 32];
        let due = self.is_outdated.then(|| self.budget.allows_from());
        let until = due.into_iter().chain([self.looked + LOOK_NS]).min();
        let pause = until.map(|at| at.saturating_sub(clock::now_ns()));
        let n = match poll::epoll_wait(self.epoll.raw(), &mut events, pause, None) {
            Ok(n) => n,
            Err(Errno::EINTR) => 0,
            Err(error) => return Err(error),
        };
        for event in &events[..n] {
            match event.u64 {
                DOOR => {
                    let _ = call::read(self.door.raw(), &mut [0; 8]);
                }
                CHANGE => {
                    let [rules, links] = &self.events;
                    self.is_outdated |= rules.take() | links.take();
                }
                program => self.hear(program),
            }
        }
        let now = clock::now_ns();
        if now.saturating_sub(self.looked) < LOOK_NS {
            return Ok(true);
        }
        self.looked = now;
        self.is_outdated |= look::unreported() != self.unreported;
        for program in self.programs.values_mut() {
            program.has_programs = program.group.has_programs();
        }
        self.take_in();
        Ok(!self.programs.is_empty())
    }

    /// Takes new programs from the inbox.
    fn take_in(&mut self) {
        while let Ok(program) = self.inbox.try_recv() {
            let (epoll, events) = (self.epoll.raw(), libc::EPOLLIN as u32);
            let fd = program.packets.raw();
            if poll::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, events, self.next).is_ok() {
                self.programs.insert(self.next, program);
                self.next += 1;
            }
        }
    }

    /// Drops a program that has sent a message or disconnected. A correct program sends nothing.
    fn hear(&mut self, token: u64) {
        let Some(program) = self.programs.get(&token) else { return };
        if !matches!(program.packets.receive(&mut [0; 1]), Err(Errno::EAGAIN)) {
            self.programs.remove(&token);
        }
    }

    fn report(&mut self) {
        let stopped = &self.stopped;
        self.programs.retain(|_, program| program.report(stopped).is_ok());
    }

    fn look_if_due(&mut self) {
        if self.budget.allows_from() > clock::now_ns() {
            // Nothing is known until the next look.
            self.stopped = Flows::all();
            return;
        }
        let before = core::mem::take(&mut self.stopped);
        let judgement = self.look();
        if self.stopped != before {
            self.say(&judgement);
        }
    }

    fn look(&mut self) -> Judgement {
        let begun = clock::now_ns();
        let [rules, links] = &self.events;
        // Discard the events so far, before the look. Changes from here on need another look.
        let _ = rules.take() | links.take();
        self.unreported = look::unreported();
        let judgement = look::look_beside(self.unreported.clone());
        self.stopped = judgement.stopped.clone();
        self.is_outdated = false;
        self.budget.spend(begun);
        judgement
    }

    /// Writes to the log which filters may stop packets.
    fn say(&self, judgement: &Judgement) {
        let inode = self.inode;
        let mut log = std::io::stdout().lock();
        if judgement.by.is_empty() {
            let _ = writeln!(log, "network namespace {inode}: all local TCP connections pass");
        }
        for by in &judgement.by {
            let _ = writeln!(
                log,
                "network namespace {inode}: local TCP connections may be stopped by {by}"
            );
        }
    }
}

impl Program {
    pub(super) fn new(packets: Packets, pid: i32, seat: Seat) -> Program {
        let group = Group::of(pid);
        let has_programs = group.has_programs();
        Program { packets, group, has_programs, reported: None, _seat: seat }
    }

    /// Reports the filters to the program, if the report would differ from the last one.
    ///
    /// # Errors
    /// The program does not take the report.
    fn report(&mut self, stopped: &Flows) -> Result<()> {
        let all = self.has_programs.then(Flows::all);
        let stopped = all.as_ref().unwrap_or(stopped);
        if self.reported.as_ref() != Some(stopped) {
            self.packets.send(&stopped.encode(), &[])?;
            self.reported = Some(stopped.clone());
        }
        Ok(())
    }
}

impl Group {
    /// Returns the group of a process in the unified hierarchy. Only groups of this hierarchy have BPF programs.
    fn of(pid: i32) -> Group {
        let Ok(text) = std::fs::read_to_string(format!("/proc/{pid}/cgroup")) else {
            return Group::Unknown;
        };
        let Some(path) = text.lines().find_map(|line| line.strip_prefix("0::")) else {
            return Group::None;
        };
        // The group is outside the hierarchy that the agent sees.
        if path.split('/').any(|name| name == "..") {
            return Group::Unknown;
        }
        let folders = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
        let found = folders.into_iter().find_map(|root| {
            std::fs::metadata(format!("{root}/cgroup.controllers")).ok()?;
            std::fs::File::open(format!("{root}{path}")).ok()
        });
        found.map_or(Group::Unknown, Group::Known)
    }

    /// Returns true if the kernel may run BPF programs on packets of the group.
    fn has_programs(&self) -> bool {
        match self {
            Group::None => false,
            Group::Unknown => true,
            Group::Known(folder) => bpf::programs_of_group(folder.as_raw_fd())
                .map_or_else(|error| error != Errno::EINVAL, |n| n > 0),
        }
    }
}
