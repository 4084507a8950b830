//! The peer is killed at random moments. This end notices at once, and each posted descriptor completes or is flushed
//! once. No resources are left behind, and the next peer is served.
#![cfg(not(loom))]

mod deeds;
mod ledger;

use crate::common::{left_behind, start};
use deeds::{ALL, LEN, OWN, RECEIVES, ROOM, Scene};
use ledger::Counted;
use std::env;
use std::process::Child;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use via::error::ErrorCode;
use via::{Attach, CompletionQueue, Nic, Reliability, Vi, ViAttributes, ViState};
use via_conformance::{Context, End, SOON, Target};
use via_shm::{ShmCq, ShmNic};

/// Time in which this end must notice the death (100 ms), plus time for a busy machine. The median of the rounds must
/// be below this time.
const AT_ONCE: Duration = Duration::from_millis(100 + 400);
const VI: u64 = 77;

fn attributes() -> ViAttributes {
    ViAttributes {
        reliability: Reliability::RELIABLE_DELIVERY,
        max_transfer_size: 4 << 20,
        ptag: None,
        enable_rdma_write: true,
        enable_rdma_read: true,
    }
}

fn counted<'n>(nic: &'n ShmNic, cq: Option<&ShmCq>) -> Counted<'n> {
    let cx = Context { nic, server: nic.address(b"faults") };
    let attach = Attach { send: None, recv: cq, context: VI };
    let here = Counted::new(End::attached(&cx, OWN + 2 * LEN, attributes(), attach));
    for i in 0..RECEIVES {
        here.post_recv(here.end.descriptor(i, &[here.end.data(i * ROOM, ROOM)], None));
    }
    here
}

/// Exchanges the addresses of both processes' memory, before the exchange under test begins.
fn target(here: &Counted<'_>, cq: Option<&ShmCq>) -> Option<Target> {
    let words: Vec<u8> = here.end.target().words().iter().flat_map(|w| w.to_le_bytes()).collect();
    here.end.write(OWN, &words);
    here.post_send(here.end.descriptor(99, &[here.end.data(OWN, 16)], None));
    here.sends.taken(&here.end.vi.send_wait(SOON).unwrap()).ok()?;
    let done = here.end.vi.recv_wait(SOON).unwrap();
    here.receives.taken(&done).ok()?;
    if let Some(cq) = cq {
        cq.wait(SOON).unwrap();
    }
    let words = here.end.bytes(0, 16);
    let word = |i: usize| u64::from_le_bytes(words[8 * i..][..8].try_into().unwrap());
    here.post_recv(done.descriptor);
    Some(Target::heard(&[word(0), word(1)]))
}

/// Runs the process at the other end. Returns at once if its environment variables are not set.
#[test]
fn other_end() {
    let (Ok(deed), Ok(name)) = (env::var("VIA_DEED"), env::var("VIA_NIC")) else { return };
    let nic = ShmNic::open(&name).unwrap();
    let cq = deeds::needs_cq(&deed).then(|| nic.create_cq(100, 0).unwrap());
    let deed = ALL.into_iter().find(|(name, _)| *name == deed).unwrap().1;
    let here = counted(&nic, cq.as_ref());
    let cx = Context { nic: &nic, server: nic.address(b"faults") };
    here.end.accept(&cx);
    let Some(there) = target(&here, cq.as_ref()) else { return };
    let _ = deed(&Scene { here: &here, there, cq: cq.as_ref() });
}

fn kill_after(child: &mut Child, time: Duration) -> Instant {
    thread::sleep(time);
    let now = Instant::now();
    child.kill().unwrap();
    now
}

/// Kills the other process during an exchange. Returns the time until the error handler is called.
fn round(nic: &ShmNic, name: &str, deed: deeds::Deed, after: Duration) -> Duration {
    let mut child =
        start("faults::other_end", &[("VIA_DEED", name), ("VIA_NIC", &nic.attributes().name)]);
    let (sender, reports) = mpsc::channel();
    nic.set_error_handler(Some(Arc::new(move |error| {
        let _ = sender.send((error.vi, error.code, Instant::now()));
    })));
    let cq = deeds::needs_cq(name).then(|| nic.create_cq(100, 0).unwrap());
    let here = counted(nic, cq.as_ref());
    here.end.request(&Context { nic, server: nic.address(b"faults") }).unwrap();
    let there = target(&here, cq.as_ref()).unwrap();
    let killed = thread::scope(|s| {
        let killer = s.spawn(|| kill_after(&mut child, after));
        let _ = deed(&Scene { here: &here, there, cq: cq.as_ref() });
        killer.join().unwrap()
    });
    let (vi, code, at) =
        reports.recv_timeout(SOON.unwrap()).expect("the error handler is not told");
    assert_eq!((vi, code), (Some(VI), ErrorCode::ConnLost), "{name}");
    assert_eq!(here.end.vi.state(), ViState::Error, "{name}");
    here.settle();
    assert!(here.sends.is_empty() && here.receives.is_empty(), "{name}: something is never done");
    assert!(reports.try_recv().is_err(), "{name}: told twice");
    child.wait().unwrap();
    at.saturating_duration_since(killed)
}

fn every_deed(rounds: u64) {
    let nic = ShmNic::open(&format!("faults-{}", std::process::id())).unwrap();
    round(&nic, ALL[0].0, ALL[0].1, Duration::from_millis(1));
    let before = left_behind();
    for (name, deed) in ALL {
        let after = |i| Duration::from_micros(200 + i * 1711 % 9973);
        let mut took: Vec<_> = (0..rounds).map(|i| round(&nic, name, deed, after(i))).collect();
        took.sort();
        assert!(took[took.len() / 2] < AT_ONCE, "{name}: told after {took:?}");
    }
    before.is_all_there_is();
}

#[test]
fn killed_at_any_moment() {
    every_deed(3);
}

/// Runs the same test without direct access. Needs a process of its own, because the variable is read only once.
#[test]
fn killed_at_any_moment_without_direct_access() {
    let child =
        start("faults::without_direct_access", &[("VIA_ALONE", "3"), ("SOVIA_DIRECT", "off")]);
    crate::common::finish(child).unwrap();
}

#[test]
fn without_direct_access() {
    let Ok(rounds) = env::var("VIA_ALONE") else { return };
    every_deed(rounds.parse().unwrap());
}

#[test]
#[ignore = "soak: a minute of murder"]
fn killed_at_any_moment_for_long() {
    every_deed(120);
    let child =
        start("faults::without_direct_access", &[("VIA_ALONE", "60"), ("SOVIA_DIRECT", "off")]);
    crate::common::finish(child).unwrap();
}
