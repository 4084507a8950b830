//! Tests of paths between two network namespaces that carry shorter frames than one end's device, or longer frames than
//! Ethernet's usual length.

use crate::ends::{End, echo};
use crate::namespaces::{between_namespaces, ip};
use core::time::Duration;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;
use via::error::ConnectError;
use via::{NetAddress, Vi};
use via_eth::{Config, EthNic, Place, counters};

const WATCHDOG: Duration = Duration::from_secs(60);
/// Bytes of messages that nearly fill the longest frame.
const LEN: usize = 60_000;

fn open(place: &str) -> Result<EthNic, String> {
    let place: Place = place.parse().expect("a place");
    let mut config = Config::new(place);
    // Never gives up, so that a slow peer does not fail the test.
    config.timing.tries = None;
    config.timing.longest = Duration::from_millis(100);
    config.open().map_err(|why| why.to_string())
}

/// Exchanges messages until `is_enough` returns true for the number of frames of one message.
fn converse(nic: &EthNic, server: &NetAddress, is_enough: impl Fn(u64) -> bool) {
    let end = End::new(nic, LEN);
    end.receive();
    let own = nic.address(b"client");
    while end.vi.connect_request(&own, server, None) == Err(ConnectError::NoMatch) {}
    let watchdog = Instant::now() + WATCHDOG;
    for number in 0u32.. {
        let bytes: Vec<u8> =
            (0..LEN as u32).map(|at| (at.wrapping_mul(31) ^ number) as u8).collect();
        let before = counters(nic).port.sent;
        end.send(&bytes);
        let back = end.received().expect("it comes back");
        assert!(back == bytes, "message {number} has other bytes");
        let frames = counters(nic).port.sent - before;
        if is_enough(frames) {
            break;
        }
        end.receive();
        assert!(Instant::now() < watchdog, "message {number} took {frames} frames");
        // Leaves time for lost probes.
        std::thread::sleep(Duration::from_millis(5));
    }
    end.vi.disconnect();
}

/// Runs `converse` between two NICs at `places`, whose devices have the MTUs `mtus`.
fn over(test: &str, mtus: [u32; 2], places: [&str; 2], is_enough: impl Fn(u64) -> bool + Send) {
    let (tell, told): (Sender<Result<NetAddress, String>>, Receiver<_>) = channel();
    let (go, may_open) = channel::<()>();
    let peer = move || {
        // An error means that the other end has no NIC.
        let Ok(()) = may_open.recv() else { return };
        let set = ip(&format!("link set other mtu {}", mtus[1]));
        match set.and_then(|()| open(places[1])) {
            Ok(nic) => {
                tell.send(Ok(nic.address(b"server"))).expect("the other thread listens");
                echo(&nic, LEN);
            }
            Err(why) => tell.send(Err(why)).expect("the other thread listens"),
        }
    };
    let own = move || {
        ip(&format!("link set one mtu {}", mtus[0]))?;
        let nic = open(places[0])?;
        go.send(()).map_err(|_| "the other thread has gone")?;
        let server = told.recv().expect("the other thread says so")?;
        converse(&nic, &server, is_enough);
        Ok::<_, String>(())
    };
    if let Err(why) = between_namespaces(own, peer).and_then(|done| done) {
        println!("SKIPPED: {test}: {why}");
    }
}

const UDP: [&str; 2] = ["udp:10.0.0.1:17471", "udp:10.0.0.2:17472"];
const ETH: [&str; 2] = ["eth:one", "eth:other"];

/// The other end's device silently drops frames that are too long.
#[test]
fn path_narrower_than_the_device_loses_nothing() {
    let test = "path_narrower_than_the_device_loses_nothing";
    for places in [UDP, ETH] {
        for mtus in [[9000, 1400], [1400, 9000], [65_535, 1500]] {
            // Frames have the length that every path carries, or another common length.
            over(test, mtus, places, |frames| {
                (LEN as u64 / 1500..LEN as u64 / 1100).contains(&frames)
            });
        }
    }
}

/// Both ends must use the wider path: the counted frames include answers to the other end's frames.
#[test]
fn path_wider_than_usual_is_used() {
    let test = "path_wider_than_usual_is_used";
    for places in [UDP, ETH] {
        over(test, [9000, 9000], places, |frames| frames <= 16);
        over(test, [65_535, 65_535], places, |frames| frames <= 4);
    }
}
