//! Kills peers, takes links down and ends connections, in an order that a seed gives, while messages move. Every
//! message must arrive unchanged or its VI must break. VIs must connect again, and no object may be left. Runs in the
//! guest of `scripts/lab`: `make lab-soak MINUTES=n SEED=n`.

use crate::common::*;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use via::{Status, Vi, ViState};

/// Environment variable that is set for the peer's process.
const ROLE: &str = "VIA_VERBS_SOAK_ROLE";

/// Random numbers from a seed (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % end
    }
}

/// Runs the peer. Does nothing without [`ROLE`].
#[test]
fn another_process() {
    let Ok(len) = std::env::var(ROLE) else { return };
    let nic = nic();
    let host: Vec<_> = nic.address(b"").host.iter().map(u8::to_string).collect();
    println!("\nsaid: {}", host.join(" "));
    std::io::stdout().flush().expect("the test reads");
    echo(&nic, len.parse().expect("a length"), usize::MAX);
}

/// A peer process, which is killed when this value is dropped.
struct Peer {
    process: Child,
    host: Vec<u8>,
}

impl Peer {
    fn new(len: usize) -> Peer {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command
            .args(["soak::another_process", "--exact", "--nocapture"])
            .env(ROLE, len.to_string());
        let mut process = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let lines = BufReader::new(process.stdout.as_mut().expect("a pipe")).lines();
        let mut lines = lines.map_while(Result::ok);
        let said = lines.find_map(|line| line.strip_prefix("said: ").map(str::to_owned));
        let said = said.expect("it says where it is");
        let host = said.split(' ').map(|byte| byte.parse().expect("a byte")).collect();
        Peer { process, host }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn link(state: &str) {
    let set = Command::new("ip").args(["link", "set", "lab0", state]).status();
    assert!(set.expect("ip runs").success());
}

/// Checks that the VI breaks, by itself or by a send, that its receive completes, and that the VI becomes idle again.
fn ends(end: &End) {
    let begin = Instant::now();
    while end.vi.state() != ViState::Error {
        assert!(begin.elapsed() < PATIENCE, "the VI has not been told");
        // Messages that arrive before the end must be unchanged.
        if !end.send(0xff).intersects(Status::ERROR_MASK)
            && let Some(bytes) = end.received()
        {
            assert!(bytes.iter().all(|&byte| byte == 0xff));
            end.receive();
        }
    }
    while end.vi.recv_wait(Some(PATIENCE)).is_ok() {}
    end.vi.disconnect();
}

#[test]
fn kills_and_links_that_go_down() {
    let Some(_one) = in_the_lab("kills_and_links_that_go_down") else { return };
    let number = |name, usual| {
        std::env::var(name)
            .ok()
            .filter(|it| !it.is_empty())
            .map_or(usual, |it| it.parse::<u64>().unwrap_or_else(|why| panic!("{name}: {why}")))
    };
    let (minutes, seed) = (number("LAB_MINUTES", 1), number("LAB_SEED", 1));
    println!("LAB_SEED={seed}, {minutes} minutes");
    let mut random = Random(seed);
    let until = Instant::now() + Duration::from_secs(60 * minutes);
    let [mut rounds, mut messages, mut kills, mut downs, mut partings] = [0u64; 5];
    while Instant::now() < until {
        rounds += 1;
        let len = [1, 100, 3000, LONG][random.below(4) as usize];
        let nic = nic();
        let end = End::new(&nic, len);
        let mut peer = Peer::new(len);
        for _ in 0..1 + random.below(6) {
            end.receive();
            connect(&nic, &end, &peer.host);
            for _ in 0..random.below(200) {
                end.is_echoed(random.below(255) as u8);
                messages += 1;
            }
            match random.below(3) {
                0 => {
                    kills += 1;
                    peer.process.kill().expect("it is killed");
                    ends(&end);
                    peer = Peer::new(len);
                }
                1 => {
                    downs += 1;
                    link("down");
                    // The device gives up messages that it cannot send. Sends acknowledged before stay successful.
                    let status = end.send(1);
                    assert!(status.intersects(Status::ERROR_MASK), "{status:?}");
                    thread::sleep(Duration::from_millis(random.below(1500)));
                    link("up");
                    ends(&end);
                }
                _ => {
                    partings += 1;
                    end.vi.disconnect();
                    while end.vi.recv_wait(Some(PATIENCE)).is_ok() {}
                }
            }
        }
        drop(peer);
        nothing_left(nic, vec![end]);
    }
    println!(
        "{rounds} rounds, {messages} messages there and back, {kills} kills, {downs} times the link down, {partings} partings"
    );
}
