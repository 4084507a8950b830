//! The two ends: clients that connect again and again, and a server with a thread for each client.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use hdrhistogram::Histogram;
use nix::sys::resource::{UsageWho, getrusage};

use super::{Errand, Figures, Point, Role, Usage};
use crate::measure::bench::process::WATCHDOG_SECONDS;
use crate::output::put_line;

/// Largest number of connections in a measurement. Each leaves its port in TIME_WAIT for at least a second, and there
/// are 28,000 ports.
const CONNECTIONS_MAX: u64 = 12_000;

/// First byte of a message. GO: continue. STOP: the server's thread ends. LAST: the server answers and then closes the
/// connection. PEER: like GO, from an idle process.
const GO: u8 = 1;
const STOP: u8 = 0;
const LAST: u8 = 2;
const PEER: u8 = 3;

/// Number of messages after which an idle process's connection is idle. After fewer messages, the connection may still be
/// on TCP.
const PEER_MESSAGES: usize = 40;

/// Runs one process of a measurement.
pub(in crate::measure::bench) fn endpoint(errand: &str) -> anyhow::Result<()> {
    let Errand { point, role } =
        serde_json::from_str(errand).context("cannot read the task of this benchmark process")?;
    // SAFETY: alarm has no preconditions. The default action of its signal ends this process.
    unsafe { libc::alarm(point.seconds.ceil() as u32 + WATCHDOG_SECONDS) };
    let mut before = Usage { cpu_us: 0.0, switches: 0 };
    match role {
        Role::Server => before = serve(point)?,
        Role::Client(port) => put_line!("{}", serde_json::to_string(&clients(point, port)?)?)?,
        Role::Peer(port) => return idle(point, port),
    }
    let now = used()?;
    let usage =
        Usage { cpu_us: now.cpu_us - before.cpu_us, switches: now.switches - before.switches };
    put_line!("{}", serde_json::to_string(&usage)?)?;
    Ok(())
}

/// Returns the resources that this process has used so far.
fn used() -> anyhow::Result<Usage> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let micros = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 * 1e6 + time.tv_usec() as f64;
    let switches = usage.voluntary_context_switches() + usage.involuntary_context_switches();
    let cpu_us = micros(usage.user_time()) + micros(usage.system_time());
    Ok(Usage { cpu_us, switches: switches as u64 })
}

/// Holds an idle connection until the process is killed.
fn idle(point: Point, port: u16) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    let message = vec![PEER; point.size as usize];
    let mut answer = vec![PEER; point.answer as usize];
    for _ in 0..PEER_MESSAGES {
        stream.write_all(&message)?;
        stream.read_exact(&mut answer)?;
    }
    put_line!("idle")?;
    let _ = stream.read(&mut answer)?;
    Ok(())
}

fn clients(point: Point, port: u16) -> anyhow::Result<Figures> {
    let made = AtomicU64::new(0);
    let begin = Barrier::new(point.clients as usize + 1);
    let (each, start) = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..point.clients)
            .map(|_| scope.spawn(|| client(point, port, &begin, &made)))
            .collect();
        begin.wait();
        let start = Instant::now();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| anyhow::anyhow!("a client panicked"))?)
            .collect::<anyhow::Result<Vec<_>>>()
            .map(|each| (each, start))
    })?;
    let seconds = start.elapsed().as_secs_f64();
    for _ in 0..point.clients {
        let mut message = vec![GO; point.size as usize];
        message[0] = STOP;
        TcpStream::connect((Ipv4Addr::LOCALHOST, port))?.write_all(&message)?;
    }
    let mut all = Histogram::<u64>::new(3)?;
    for one in each {
        all.add(one)?;
    }
    let us = |ns: u64| ns as f64 / 1e3;
    Ok(Figures {
        connections: made.into_inner(),
        seconds,
        p50_us: us(all.value_at_quantile(0.5)),
        p99_us: us(all.value_at_quantile(0.99)),
        max_us: us(all.max()),
    })
}

/// Makes connections until the time is over. Returns the times of the messages.
fn client(
    point: Point,
    port: u16,
    begin: &Barrier,
    made: &AtomicU64,
) -> anyhow::Result<Histogram<u64>> {
    let time = Duration::from_secs_f64(point.seconds);
    let mut times = Histogram::<u64>::new(3)?;
    let mut message = vec![GO; point.size as usize];
    let mut answer = vec![GO; point.answer as usize];
    let mut connection = |messages: u32, times: &mut Histogram<u64>| {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        if point.nodelay.at_client() {
            stream.set_nodelay(true)?;
        }
        for left in (0..messages).rev() {
            let ends = point.server_closes && left == 0;
            message[0] = if ends { LAST } else { GO };
            let begin = Instant::now();
            stream.write_all(&message)?;
            stream.read_exact(&mut answer)?;
            if ends {
                ensure!(stream.read(&mut [0])? == 0, "received more bytes than the answer has");
            }
            times.record(begin.elapsed().as_nanos() as u64)?;
        }
        anyhow::Ok(())
    };
    let warm = if point.warm == 0 { Ok(()) } else { connection(point.warm, &mut times) };
    times.reset();
    begin.wait();
    warm?;
    let start = Instant::now();
    loop {
        connection(point.messages, &mut times)?;
        let made = made.fetch_add(1, Ordering::Relaxed) + 1;
        if start.elapsed() >= time || made >= CONNECTIONS_MAX {
            return Ok(times);
        }
    }
}

/// Serves all connections. Returns what this process had used before a client's first message.
fn serve(point: Point) -> anyhow::Result<Usage> {
    let before = OnceLock::new();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    put_line!("{}", listener.local_addr()?.port())?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..point.clients + point.peers)
            .map(|_| scope.spawn(|| answer(point, &listener, &before)))
            .collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?
        })
    })?;
    before.into_inner().context("no client sent a message")
}

/// Serves one connection after the other, until a message says STOP, or an idle process ends.
fn answer(point: Point, listener: &TcpListener, before: &OnceLock<Usage>) -> anyhow::Result<()> {
    let mut message = vec![GO; point.size as usize];
    let bytes = vec![GO; point.answer as usize];
    loop {
        let (mut stream, _) = listener.accept()?;
        if point.nodelay.at_server() {
            stream.set_nodelay(true)?;
        }
        loop {
            match stream.read_exact(&mut message) {
                Ok(()) if message[0] == STOP => return Ok(()),
                Ok(()) => {
                    if message[0] != PEER && before.get().is_none() {
                        let _ = before.set(used()?);
                    }
                    stream.write_all(&bytes)?;
                }
                // An idle process has ended, so this thread is not needed any more.
                Err(_) if message[0] == PEER => return Ok(()),
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
                Err(error) => return Err(error.into()),
            }
            if message[0] == LAST {
                break;
            }
        }
    }
}
