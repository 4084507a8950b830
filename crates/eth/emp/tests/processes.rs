//! Tests of stations in separate processes: peers that are killed, that restart, or that belong to another user.

use crate::common::{Bytes, KEY, open};
use core::time::Duration;
use emp_eth::{Address, Config, DESCRIPTORS, Mode, Outcome, Station, Status};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

const LONG: Option<Duration> = Some(Duration::from_secs(120));
/// Bytes of a message that takes long to send.
const MUCH: usize = 20 << 20;

/// Environment variables with the role, the address, the peer and the key of the other process.
const ROLE: &str = "EMP_TEST_ROLE";
const PLACE: &str = "EMP_TEST_PLACE";
const PEER: &str = "EMP_TEST_PEER";
const OTHER_KEY: &str = "EMP_TEST_KEY";

/// Another process with a station.
struct Other {
    child: Child,
    at: SocketAddr,
}

impl Other {
    fn start(
        role: &str,
        at: SocketAddr,
        peer: &Station,
        change: impl Fn(&mut Command),
    ) -> Option<Other> {
        let Address::Udp(peer) = peer.address() else { panic!("it is on UDP") };
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "processes::the_other_process", "--ignored", "--nocapture"]);
        command.env(ROLE, role).env(PLACE, at.to_string()).env(PEER, peer.to_string());
        change(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(why) => {
                println!("SKIPPED: no process: {why}");
                return None;
            }
        };
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        let at = loop {
            let line = said.next().expect("it says where it is").unwrap();
            if let Some((_, at)) = line.split_once("AT ") {
                break at.parse().unwrap();
            }
        };
        // Discards the rest of the output.
        std::thread::spawn(move || said.for_each(drop));
        Some(Other { child, at })
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "it is the other process of these tests"]
fn the_other_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (at, peer) = (std::env::var(PLACE).unwrap(), std::env::var(PEER).unwrap());
    let key = std::env::var(OTHER_KEY).map_or(KEY, |key| key.parse().unwrap());
    let config = Config::new(format!("udp:{at}").parse().unwrap(), key);
    let station = Station::open(&config).unwrap();
    station.add_peer(&Address::Udp(peer.parse().unwrap()), KEY).unwrap();
    println!("AT {}", station.address());
    std::io::stdout().flush().unwrap();
    match &role[..] {
        "echo" => loop {
            let room = Bytes::zeroed(100_000);
            let receive = room.receive(&station, Some(0), None);
            let Some(Outcome { status: Status::Done, tag, length, .. }) =
                station.wait(receive, None).unwrap()
            else {
                continue;
            };
            let back = Bytes::of(room.bytes().into_iter().take(length as usize));
            let send = back.send(&station, 0, tag);
            station.wait(send, None).unwrap();
        },
        "sends much" => {
            let message = Bytes::pattern(MUCH);
            message.send(&station, 0, 1);
            std::thread::sleep(Duration::from_secs(600));
        }
        "receives much" => {
            let room = Bytes::zeroed(MUCH);
            room.receive(&station, None, None);
            std::thread::sleep(Duration::from_secs(600));
        }
        role => panic!("{role}?"),
    }
}

fn nowhere() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

fn short(config: &mut Config) {
    config.timing.tries = Some(6);
}

#[track_caller]
fn ping(station: &Station, len: usize) {
    let (message, room) = (Bytes::pattern(len), Bytes::zeroed(len));
    let receive = room.receive(station, Some(0), Some(9));
    let send = message.send(station, 0, 9);
    assert_eq!(station.wait(receive, LONG).unwrap().unwrap().status, Status::Done);
    assert_eq!(station.wait(send, LONG).unwrap().unwrap().status, Status::Done);
    assert_eq!(room.bytes(), message.bytes());
}

#[test]
fn two_processes_play_ping_pong() {
    for mode in [Mode::Calls, Mode::Thread { processor: None }] {
        let station = open(mode, |_| ());
        let other = Other::start("echo", nowhere(), &station, |_| ()).unwrap();
        station.add_peer(&Address::Udp(other.at), KEY).unwrap();
        for round in 0..300 {
            ping(&station, [4, 1472, 5000, 100_000][round % 4]);
        }
        assert_eq!(station.free_descriptors(), DESCRIPTORS);
    }
}

#[test]
fn a_sender_that_is_killed_in_the_middle_of_a_message_is_an_error() {
    let station = open(Mode::Calls, short);
    // Allocates the memory before the first byte arrives.
    let room = Bytes::zeroed(MUCH);
    let mut other = Other::start("sends much", nowhere(), &station, |_| ()).unwrap();
    station.add_peer(&Address::Udp(other.at), KEY).unwrap();
    let receive = room.receive(&station, Some(0), None);
    while station.counters().nic.came < 20 {
        station.progress();
    }
    other.kill();
    let ended = station.wait(receive, LONG).unwrap().unwrap();
    // A fast sender has already sent everything.
    assert!(matches!(ended.status, Status::PeerDead | Status::Done), "{ended:?}");
    assert_eq!(station.free_descriptors(), DESCRIPTORS);
}

#[test]
fn a_receiver_that_is_killed_in_the_middle_of_a_message_is_an_error() {
    let station = open(Mode::Calls, short);
    let mut other = Other::start("receives much", nowhere(), &station, |_| ()).unwrap();
    station.add_peer(&Address::Udp(other.at), KEY).unwrap();
    let message = Bytes::pattern(MUCH);
    let mut send = message.send(&station, 0, 1);
    while station.counters().nic.collections < 20 {
        // Six tries take a quarter of a second. The station may have given up a peer that got no processor time for so
        // long.
        if let Some(ended) = station.test(send).unwrap() {
            assert_eq!(ended.status, Status::PeerDead);
            send = message.send(&station, 0, 1);
        }
    }
    other.kill();
    let ended = station.wait(send, LONG).unwrap().unwrap();
    assert!(matches!(ended.status, Status::PeerDead | Status::Done), "{ended:?}");
    let later = message.send(&station, 0, 1);
    assert_eq!(station.wait(later, LONG).unwrap().unwrap().status, Status::PeerDead);
    assert_eq!(station.free_descriptors(), DESCRIPTORS);
}

#[test]
fn a_process_that_takes_a_killed_ones_place_is_told_apart() {
    let station = open(Mode::Thread { processor: None }, |_| ());
    let mut other = Other::start("echo", nowhere(), &station, |_| ()).unwrap();
    let at = other.at;
    station.add_peer(&Address::Udp(at), KEY).unwrap();
    for _ in 0..3 {
        ping(&station, 5000);
        other.kill();
        let word = Bytes::pattern(4);
        let lost = word.send(&station, 0, 1);
        other = Other::start("echo", at, &station, |_| ()).unwrap();
        let ended = station.wait(lost, LONG).unwrap().unwrap();
        assert_eq!(ended.status, Status::PeerRestarted);
    }
    ping(&station, 5000);
}

#[test]
fn another_user_with_the_key_is_a_peer_like_any() {
    if sovia_sys::call::geteuid() != 0 {
        return println!("SKIPPED: another_user_with_the_key_is_a_peer_like_any: not root");
    }
    let station = open(Mode::Calls, short);
    let nobody = |command: &mut Command| {
        command.uid(65534).gid(65534);
    };
    let Some(other) = Other::start("echo", nowhere(), &station, nobody) else { return };
    station.add_peer(&Address::Udp(other.at), KEY).unwrap();
    ping(&station, 5000);
    let guess = |command: &mut Command| {
        nobody(command);
        command.env(OTHER_KEY, "1");
    };
    let Some(other) = Other::start("echo", nowhere(), &station, guess) else { return };
    let stranger = station.add_peer(&Address::Udp(other.at), KEY).unwrap();
    let word = Bytes::pattern(4);
    let send = word.send(&station, stranger, 0);
    assert_eq!(station.wait(send, LONG).unwrap().unwrap().status, Status::PeerDead);
}
