//! Tests of stations in two connected network namespaces, on devices and over UDP.

#[path = "../../via-eth/tests/namespaces/mod.rs"]
mod namespaces;

use crate::common::{Bytes, KEY};
use core::time::Duration;
use emp_eth::{Address, Config, Mode, Station, Status};
use namespaces::between_namespaces;
use sovia_port::impair::Faults;
use std::sync::mpsc::{Receiver, Sender, channel};

const LONG: Option<Duration> = Some(Duration::from_secs(120));

/// Opens a station in this namespace. Each station is the other's peer 0.
fn meet(
    place: &str,
    mode: Mode,
    faults: Option<Faults>,
    say: &Sender<Address>,
    hear: &Receiver<Address>,
) -> Station {
    let config = Config { mode, faults, ..Config::new(place.parse().unwrap(), KEY) };
    let station = Station::open(&config).unwrap();
    say.send(station.address()).unwrap();
    station.add_peer(&hear.recv().unwrap(), KEY).unwrap();
    station
}

fn ping_pong(name: &str, places: [&str; 2], mode: Mode, faults: Option<Faults>) {
    let ((to_peer, at_peer), (to_own, at_own)) = (channel(), channel());
    let (over, wait) = channel::<()>();
    let lens = [0, 4, 1400, 1500, 5000, 100_000, 2_000_000];
    let [own, other] = places;
    let result = between_namespaces(
        move || {
            let station = meet(own, mode, faults, &to_peer, &at_own);
            for len in lens {
                let (message, room) = (Bytes::pattern(len), Bytes::zeroed(len));
                let receive = room.receive(&station, Some(0), Some(2));
                let send = message.send(&station, 0, 1);
                assert_eq!(station.wait(receive, LONG).unwrap().unwrap().status, Status::Done);
                assert_eq!(station.wait(send, LONG).unwrap().unwrap().status, Status::Done);
                assert_eq!(room.bytes(), message.bytes());
            }
            // The last acknowledgement has arrived, so the peer may close.
            drop(over);
        },
        move || {
            let station = meet(other, mode, faults, &to_own, &at_peer);
            for len in lens {
                let room = Bytes::zeroed(len);
                let receive = room.receive(&station, Some(0), Some(1));
                assert_eq!(station.wait(receive, LONG).unwrap().unwrap().status, Status::Done);
                let send = room.send(&station, 0, 2);
                assert_eq!(station.wait(send, LONG).unwrap().unwrap().status, Status::Done);
            }
            let _ = wait.recv();
        },
    );
    if let Err(why) = result {
        println!("SKIPPED: {name}: {why}");
    }
}

const UDP: [&str; 2] = ["udp:10.0.0.1:7000", "udp:10.0.0.2:7000"];
const ETH: [&str; 2] = ["eth:one", "eth:other"];

#[test]
fn packet_sockets() {
    ping_pong("packet_sockets", ETH, Mode::Calls, None);
    ping_pong("packet_sockets", ETH, Mode::Thread { processor: None }, None);
}

#[test]
fn packet_sockets_on_a_bad_network() {
    let faults = Some(Faults { seed: 3, ..Faults::each(10_000) });
    ping_pong("packet_sockets_on_a_bad_network", ETH, Mode::Calls, faults);
}

#[test]
fn af_xdp() {
    ping_pong("af_xdp", ["xdp:one", "xdp:other"], Mode::Calls, None);
}

#[test]
fn udp() {
    ping_pong("udp", UDP, Mode::Calls, None);
    ping_pong("udp", UDP, Mode::Thread { processor: None }, None);
}
