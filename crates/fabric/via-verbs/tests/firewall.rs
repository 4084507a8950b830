//! A firewall that drops all packets of the connection manager and of RDMA. The test needs the guest of `scripts/lab`.

use crate::common::*;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use via::error::ConnectError;
use via::{NetAddress, Nic, Vi, ViState};

/// Remote end of the guest's wire, which `scripts/lab/wire` makes.
const FAR: &str = "10.77.1.1:0";
/// Firewall rule for RoCE's UDP port, which the connection manager also uses.
const RULE: &str = "add table ip wall
add chain ip wall in { type filter hook input priority 0; }
add rule ip wall in udp dport 4791 counter drop";

fn done(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output().expect("it is installed");
    assert!(output.status.success(), "{program} {words:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// Returns the number of packets that the firewall has dropped.
fn dropped() -> u64 {
    let list = done("nft", &["list", "table", "ip", "wall"]);
    let mut words = list.split_whitespace().skip_while(|word| *word != "packets").skip(1);
    words.next().expect("a counter").parse().expect("a number")
}

/// The attempt ends with the caller's own timeout. After the firewall is removed, a later attempt succeeds.
#[test]
fn firewalled_port_gives_the_timeout_that_was_asked_for() {
    let test = "firewalled_port_gives_the_timeout_that_was_asked_for";
    let Some(_one) = in_the_lab(test) else { return };
    if Command::new("nft").arg("--version").output().is_err() {
        return println!("SKIPPED: {test}: nft is not installed (Debian: nftables)");
    }
    done(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../scripts/lab/wire"), &[]);
    let (server, client) = (open(FAR).expect("the far NIC"), nic());
    let host = server.address(b"").host;
    let end = End::new(&client, LONG);
    end.receive();
    let before = live();

    done("nft", &[RULE]);
    let (own, to) = (client.address(b"client"), NetAddress::new(&host, b"server"));
    for wait in [50, 3000] {
        let (begin, wait) = (Instant::now(), Duration::from_millis(wait));
        let why = end.vi.connect_request(&own, &to, Some(wait)).expect_err("nothing passes");
        assert_eq!((why, end.vi.state()), (ConnectError::Timeout, ViState::Idle));
        assert!(begin.elapsed() >= wait, "it is no earlier than asked for");
    }
    assert!(dropped() > 0, "requests went as far as the firewall");
    done("nft", &["delete", "table", "ip", "wall"]);
    let begin = Instant::now();
    while live() != before && begin.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(live(), before, "attempts leave nothing");

    thread::scope(|s| {
        s.spawn(|| echo(&server, LONG, 1));
        connect(&client, &end, &host);
        end.is_echoed(1);
        end.vi.disconnect();
    });
    client.deregister_mem(end.handle).expect("nothing uses the memory");
    drop(end);
    drop(client);
    nothing_left(server, Vec::new());
}
