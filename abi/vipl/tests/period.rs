//! A program like those written when VIA was new, with compiler settings of that time.
//!
//! The original programs cannot be part of a test: see docs/reference/vipl.md, "Programs of its time".

use crate::common::{agent, folder, here, include, library, run, watched};
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Builds the program for one of the two libraries of the time, with the arguments of its makefile.
fn built(name: &str, arguments: &[&str]) -> PathBuf {
    let (program, place) = (folder().join(name), library().parent().expect("a folder"));
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu89", "-O2", "-g", "-fcommon", "-w", "-I"]).arg(include());
    cc.arg(here().join("tests/c/period.c")).arg("-L").arg(place).args(arguments);
    run(cc.arg(format!("-Wl,-rpath,{}", place.display())).arg("-o").arg(&program));
    program
}

fn both_nodes(name: &str, discriminator: u32, arguments: &[&str]) {
    converse(
        name,
        discriminator,
        arguments,
        "self node0 node1 # both on this host\n",
        &[[], []],
        First::Accepts,
    );
}

/// Runs two nodes, each with its own settings.
fn converse<const N: usize>(
    name: &str,
    discriminator: u32,
    arguments: &[&str],
    lines: &str,
    settings: &[[(&str, String); N]; 2],
    first: First,
) {
    let program = built(name, arguments);
    let hosts = folder().join(format!("{name}.hosts"));
    fs::write(&hosts, lines).expect("a hosts file");
    let node = |number: &str, peer: &str| {
        let mut command = watched(60, false, &program);
        command.arg(number).arg(&hosts).args([peer, &discriminator.to_string()]);
        command.envs(settings[usize::from(number == "1")].clone());
        command.stdout(Stdio::piped()).spawn().expect("it runs")
    };
    let nodes = match first {
        First::Accepts => [node("0", "node1"), node("1", "node0")],
        First::Asks(long_before) => {
            let asking = node("1", "node0");
            std::thread::sleep(long_before);
            [node("0", "node1"), asking]
        }
    };
    // The output has both nodes' lines, because one node's line may explain the other's failure.
    let said = nodes.map(|node| {
        let output = node.wait_with_output().expect("it ends");
        (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.to_string())
    });
    let ok = |number| (format!("node {number}: ok\n"), "exit status: 0".to_owned());
    assert_eq!(said, [0, 1].map(ok), "{name}");
}

/// The node that is started first.
#[derive(Clone, Copy)]
enum First {
    Accepts,
    Asks(Duration),
}

#[test]
fn a_message_passing_library_for_m_via() {
    both_nodes("period-mvia", std::process::id(), &["-lvipl"]);
}

/// cLAN's library had another name.
#[test]
fn a_message_passing_library_for_clan() {
    let link = library().parent().expect("a folder").join("libgnivipl.so");
    let _ = fs::remove_file(&link);
    std::os::unix::fs::symlink("libvipl.so", link).expect("a link to the library");
    both_nodes("period-clan", std::process::id() + (1 << 30), &["-DGIGANET", "-lgnivipl"]);
}

/// Each node has its own NIC, on a UDP socket.
#[test]
fn a_message_passing_library_between_two_udp_addresses() {
    let free = || UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let places = [free(), free()].map(|place| place.expect("a free port"));
    let lines = format!("{} node0\n{} node1\n", places[0], places[1]);
    let setting = |place: &SocketAddr| {
        [("SOVIA_VIPL_PROVIDER", "eth".to_owned()), ("SOVIA_VIPL_NIC", format!("udp:{place}"))]
    };
    converse(
        "period-udp",
        std::process::id(),
        &["-lvipl"],
        &lines,
        &places.each_ref().map(setting),
        First::Accepts,
    );
}

/// Each node has its own NIC, on libfabric.
#[test]
fn a_message_passing_library_on_libfabric() {
    const TEST: &str = "a_message_passing_library_on_libfabric";
    let free = || UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let places = [free(), free()].map(|place| place.expect("a free port"));
    let lines = format!("{} node0\n{} node1\n", places[0], places[1]);
    if let Err(why) = sovia_nic::AnyNic::open("ofi", "tcp;ofi_rxm@127.0.0.1") {
        println!("SKIPPED: {TEST}: {why}");
        return;
    }
    let setting = |place: &SocketAddr| {
        let nic = format!("tcp;ofi_rxm@{place}");
        [("SOVIA_VIPL_PROVIDER", "ofi".to_owned()), ("SOVIA_VIPL_NIC", nic)]
    };
    let id = std::process::id() + (1 << 28);
    // The requesting node repeats its request while there is no NIC at the other address, as it does while no program
    // waits there.
    for first in [First::Accepts, First::Asks(Duration::from_millis(300))] {
        let settings = places.each_ref().map(setting);
        converse("period-ofi", id, &["-lvipl"], &lines, &settings, first);
    }
}

/// The nodes have their NICs at two agents, each on a UDP socket, and then at one agent.
#[test]
fn a_message_passing_library_at_agents() {
    let free = || UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let places = [free(), free()].map(|place| place.expect("a free port").to_string());
    let names = ["a", "b"].map(|end| format!("period-{}{end}", std::process::id()));
    for (name, place) in names.iter().zip(&places) {
        agent::start(name, place);
    }
    for [first, second] in [[0, 1], [0, 0]] {
        let lines = format!("{} node0\n{} node1\n", places[first], places[second]);
        let settings = [first, second].map(|which| agent::settings(&names[which]));
        let id = std::process::id() + (1 << 29) + second as u32;
        converse("period-agent", id, &["-lvipl"], &lines, &settings, First::Accepts);
    }
}
