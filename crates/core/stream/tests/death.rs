//! kill -9 immediately after a call has returned: the bytes of the call arrive, in every configuration.

use crate::common::configurations;
use crate::common::pattern::{bytes, read};
use sovia_stream::{Configuration, Reset, Stack, Stream, TransferError};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use via_shm::ShmNic;

const LONG: Duration = Duration::from_secs(30);

/// Actions of the process that is killed.
const WRITES: &str = "writes";
const STREAMS: &str = "streams";
const FILLS: &str = "fills";
const CLOSES: &str = "closes";

fn start(deed: &str, nic: &str, configuration: &Configuration) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["death::victim", "--exact", "--nocapture", "--test-threads=1"])
        .envs([("SOVIA_DEED", deed), ("SOVIA_NIC", nic)])
        .env("SOVIA_CONFIGURATION", configuration.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// The process that is killed. Does nothing without its environment variables. The process prints the number of written
/// bytes, and kills itself.
#[test]
fn victim() {
    let Ok(deed) = std::env::var("SOVIA_DEED") else { return };
    let var = |name| std::env::var(name).unwrap();
    let nic = ShmNic::open(&var("SOVIA_NIC")).unwrap();
    let address = nic.address(b"death");
    let configuration: Configuration = var("SOVIA_CONFIGURATION").parse().unwrap();
    let stack = Stack::new(nic).unwrap();
    let stream = stack.connect(&address, &configuration, Some(LONG)).unwrap();
    let all = match deed.as_str() {
        WRITES => write(&stream, if configuration.flow.window == 1 { 1 } else { 20 }),
        STREAMS => write(&stream, 500),
        _ => fill(&stream),
    };
    println!("wrote {all}");
    std::io::stdout().flush().unwrap();
    if deed == CLOSES {
        stream.close();
    } else {
        core::mem::forget(stream);
    }
    // SAFETY: the signal ends this process at once, so no code runs afterwards.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}

fn write(stream: &Stream<ShmNic>, messages: usize) -> usize {
    (0..messages).fold(0, |at, n| {
        let len = [300, 17, 1500, 3000, 1, 40_000][n % 6];
        let len = if messages == 1 { 300 } else { len };
        assert_eq!(stream.write(&bytes(1, at, len)), Ok(len));
        at + len
    })
}

/// Writes until the stream accepts no more bytes.
fn fill(stream: &Stream<ShmNic>) -> usize {
    let mut at = 0;
    while at < 3_000_000
        && let Ok(written) = stream.try_write(&bytes(1, at, 700))
    {
        at += written;
    }
    at
}

fn killed(deed: &str, name: &str, configuration: &Configuration) {
    println!("{name}: {deed}");
    let nic = format!("death-{deed}-{name}-{}", std::process::id());
    let nic = ShmNic::open(&nic[..nic.len().min(60)]).unwrap();
    let opened = via::Nic::attributes(&nic).name.clone();
    let address = nic.address(b"death");
    let stack = Stack::new(nic).unwrap();
    let listener = stack.listen(&address, configuration).unwrap();
    let mut child = start(deed, &opened, configuration);
    let (stream, _) = listener.accept_within(LONG).unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut count = || loop {
        let line = lines.next().unwrap().unwrap();
        if let Some((_, count)) = line.split_once("wrote ") {
            break count.parse().unwrap();
        }
    };
    // Read meanwhile from an end that cannot write before its peer reads.
    let narrow = deed == WRITES && (2..32).contains(&configuration.flow.window);
    let reads = deed == STREAMS || narrow || configuration.handshake.asks();
    let all: usize = if reads {
        std::thread::scope(|s| {
            let reader = s.spawn(|| {
                let mut all = Vec::new();
                let mut out = vec![0; 5000];
                while let Ok(got @ 1..) = stream.read_within(&mut out, LONG) {
                    all.extend_from_slice(&out[..got]);
                }
                all
            });
            let count = count();
            let all = reader.join().unwrap();
            assert_eq!(all.len(), count);
            assert!(all == bytes(1, 0, count));
            count
        })
    } else {
        let all = count();
        child.wait().unwrap();
        read(&stream, 1, 0, all);
        all
    };
    let end = stream.read_within(&mut [0], LONG);
    if deed == CLOSES {
        assert_eq!(end, Ok(0), "after {all} bytes");
    } else {
        assert_eq!(end, Err(TransferError::Reset(Reset::PeerDied)), "after {all} bytes");
    }
    child.wait().unwrap();
}

fn each(deed: &str, which: impl Fn(&Configuration) -> bool) {
    for (name, configuration) in configurations() {
        if which(&configuration) {
            killed(deed, &name, &configuration);
        }
    }
}

#[test]
fn right_after_a_write() {
    each(WRITES, |_| true);
}

#[test]
fn in_the_middle_of_a_conversation() {
    each(STREAMS, |_| true);
}

fn two_way(configuration: &Configuration) -> bool {
    !configuration.handshake.asks()
}

#[test]
fn with_the_window_full() {
    each(FILLS, two_way);
}

/// The stream ends as if its writer had stayed alive.
#[test]
fn right_after_the_close() {
    each(CLOSES, two_way);
}
