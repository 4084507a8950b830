//! The two ends: a server that answers each message, and a client that has all connections.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::{Errand, Measured, Peer};
use crate::measure::bench::process::WATCHDOG_SECONDS;
use crate::output::put_line;

/// Size of a message in bytes.
const MESSAGE: usize = 64;
/// Number of round trips on a new connection, after which its ends have completed the rendezvous.
const WARM: u32 = 40;
/// Largest number of events that one call takes.
const EVENTS: usize = 64;
/// Number of the listener in the server's epoll set.
const LISTENER: u64 = u64::MAX;

/// Runs one process of a measurement.
pub(in crate::measure::bench) fn endpoint(errand: &str) -> anyhow::Result<()> {
    let errand: Errand =
        serde_json::from_str(errand).context("cannot read the task of this benchmark process")?;
    // SAFETY: alarm has no preconditions. The default action of its signal ends this process.
    unsafe { libc::alarm(errand.seconds.ceil() as u32 + WATCHDOG_SECONDS) };
    match errand.peer {
        Some(peer) => put_line!("{}", serde_json::to_string(&ask(&errand, peer)?)?)?,
        None => answer(errand.open)?,
    }
    Ok(())
}

fn set() -> anyhow::Result<Epoll> {
    Ok(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?)
}

/// Waits for events of an epoll set.
fn news<'a>(set: &Epoll, events: &'a mut [EpollEvent; EVENTS]) -> anyhow::Result<&'a [EpollEvent]> {
    loop {
        match set.wait(events, EpollTimeout::NONE) {
            Ok(count) => return Ok(&events[..count]),
            // The process was stopped, or a tracer attached.
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Answers every message until `open` connections have come and gone.
fn answer(open: u32) -> anyhow::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let at = Peer { port: listener.local_addr()?.port(), pid: std::process::id() };
    put_line!("{}", serde_json::to_string(&at)?)?;
    let set = set()?;
    set.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))?;
    let mut streams: Vec<Option<TcpStream>> = Vec::new();
    let mut ended = 0;
    let mut events = [EpollEvent::empty(); EVENTS];
    while ended < open {
        for event in news(&set, &mut events)? {
            if event.data() == LISTENER {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                set.add(&stream, EpollEvent::new(EpollFlags::EPOLLIN, streams.len() as u64))?;
                streams.push(Some(stream));
                continue;
            }
            let place = &mut streams[event.data() as usize];
            let Some(stream) = place else { continue };
            let mut message = [0; MESSAGE];
            match stream.read_exact(&mut message) {
                Ok(()) => stream.write_all(&message)?,
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    *place = None;
                    ended += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

/// The client's connections, in one epoll set.
struct Connections {
    set: Epoll,
    streams: Vec<TcpStream>,
}

impl Connections {
    /// Opens connections until there are `count`, and warms up each.
    fn open(&mut self, peer: Peer, count: u32) -> anyhow::Result<()> {
        while self.streams.len() < count as usize {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, peer.port))
                .with_context(|| format!("connection {}", self.streams.len()))?;
            stream.set_nodelay(true)?;
            let mut message = [1; MESSAGE];
            for _ in 0..WARM {
                stream.write_all(&message)?;
                stream.read_exact(&mut message)?;
            }
            let place = self.streams.len() as u64;
            self.set.add(&stream, EpollEvent::new(EpollFlags::EPOLLIN, place))?;
            self.streams.push(stream);
        }
        Ok(())
    }

    /// Keeps one message in flight on each of the first `busy` connections. Returns the round trips per second.
    fn keep_busy(&mut self, busy: u32, seconds: f64) -> anyhow::Result<f64> {
        let mut message = [2; MESSAGE];
        for stream in &mut self.streams[..busy as usize] {
            stream.write_all(&message)?;
        }
        let (start, time) = (Instant::now(), Duration::from_secs_f64(seconds));
        let (mut under_way, mut done) = (busy, 0_u64);
        let mut over = None;
        let mut events = [EpollEvent::empty(); EVENTS];
        while under_way > 0 {
            for event in news(&self.set, &mut events)? {
                let stream = &mut self.streams[event.data() as usize];
                stream.read_exact(&mut message)?;
                ensure!(message == [2; MESSAGE], "received a different message than was sent");
                if over.is_some() {
                    under_way -= 1;
                } else {
                    stream.write_all(&message)?;
                    done += 1;
                }
            }
            if over.is_none() && start.elapsed() >= time {
                over = Some(start.elapsed());
            }
        }
        Ok(done as f64 / over.unwrap_or(time).as_secs_f64())
    }
}

fn ask(errand: &Errand, peer: Peer) -> anyhow::Result<Measured> {
    let mut all = Connections { set: set()?, streams: Vec::new() };
    all.open(peer, errand.busy)?;
    let alone = all.keep_busy(errand.busy, errand.seconds)?;
    let before = memory_of_both(peer)?;
    all.open(peer, errand.open)?;
    let after = memory_of_both(peer)?;
    let among = all.keep_busy(errand.busy, errand.seconds)?;
    let kb_each = (after as f64 - before as f64) / f64::from(errand.open - errand.busy);
    Ok(Measured { kb_each, alone, among })
}

/// Returns the proportional set size of both processes, in KB.
fn memory_of_both(peer: Peer) -> anyhow::Result<u64> {
    Ok(memory(std::process::id())? + memory(peer.pid)?)
}

fn memory(pid: u32) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/smaps_rollup");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let size = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kb = size.and_then(|size| size.trim().strip_suffix("kB"));
    kb.and_then(|kb| kb.trim().parse().ok()).with_context(|| format!("{path} has no Pss in kB"))
}
