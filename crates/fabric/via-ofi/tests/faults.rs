//! Tests of failures: a missing library, provider or peer, a killed peer, and messages of other programs. Each test
//! checks that no object is left.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use via::error::ConnectError;
use via::{
    Cause, Connection, DescriptorAddress, MemAttributes, MemHandle, Memory, NetAddress, Nic,
    Reliability, Status, Vi, ViAttributes, ViState,
};
use via_ofi::{Config, OfiNic, OfiVi, counts};

const TCP: &str = "tcp;ofi_rxm@127.0.0.1";
/// Length of a message that needs more than one frame.
const LONG: usize = 1 << 20;
/// Watchdog time.
const PATIENCE: Duration = Duration::from_secs(120);
/// Environment variable with the role of this program as a child process.
const ROLE: &str = "VIA_OFI_TEST_ROLE";
/// Environment variable with the delay in milliseconds.
const ROUND: &str = "VIA_OFI_TEST_ROUND";

fn open(place: &str) -> Result<OfiNic, String> {
    Config::new(place.parse().expect("a place")).open().map_err(|why| why.to_string())
}

/// Opens a NIC; `None` if this host has no libfabric.
fn nic(test: &str, place: &str) -> Option<OfiNic> {
    match open(place) {
        Ok(nic) => Some(nic),
        Err(why) if why.contains("cannot load libfabric") => {
            println!("SKIPPED: {test}: {why}");
            None
        }
        Err(why) => panic!("{why}"),
    }
}

/// A VI with memory for one message each way.
struct End {
    vi: OfiVi,
    memory: Memory,
    handle: MemHandle,
    len: usize,
}

impl End {
    fn new(nic: &OfiNic, len: usize) -> End {
        let attributes = ViAttributes {
            max_transfer_size: len as u32,
            reliability: Reliability::RELIABLE_RECEPTION,
            ..ViAttributes::default()
        };
        let vi = nic.create_vi(attributes).expect("a VI");
        let memory = Memory::zeroed(128 + 2 * len);
        let handle = nic.register_mem(&memory, MemAttributes::default()).expect("a region");
        End { vi, memory, handle, len }
    }

    fn prepared(&self, descriptor: usize, at: usize) -> DescriptorAddress {
        let data = self.memory.segment(at, self.len as u32, self.handle);
        self.memory.descriptor(descriptor).expect("room").prepare(&[data], None).expect("it fits");
        DescriptorAddress { address: self.memory.address(descriptor), handle: self.handle }
    }

    fn receive(&self) {
        self.vi.post_recv(self.prepared(0, 128)).expect("posted");
    }

    /// Sends a message, and returns the status of the send.
    fn send(&self, byte: u8) -> Status {
        self.memory.write(128 + self.len, &vec![byte; self.len]);
        self.vi.post_send(self.prepared(64, 128 + self.len)).expect("posted");
        self.vi.send_wait(Some(PATIENCE)).expect("it is done").status
    }

    /// Waits for the next message, and returns its bytes.
    fn received(&self) -> Option<Vec<u8>> {
        let done = self.vi.recv_wait(Some(PATIENCE)).expect("it is done");
        let mut bytes = vec![0; self.len];
        self.memory.read(128, &mut bytes);
        done.result().ok().map(|_| bytes)
    }
}

/// Returns the messages of one client that connects to the address `server`.
fn echo(nic: &OfiNic, len: usize) {
    let end = End::new(nic, len);
    end.receive();
    let request = nic.connect_wait(&nic.address(b"server"), Some(PATIENCE)).expect("a request");
    request.accept(&end.vi).expect("accepted");
    while let Some(bytes) = end.received() {
        end.receive();
        if end.send(bytes[0]).intersects(Status::ERROR_MASK) {
            return;
        }
    }
}

fn connect(nic: &OfiNic, end: &End, host: &[u8]) {
    let (own, server) = (nic.address(b"client"), NetAddress::new(host, b"server"));
    while end.vi.connect_request(&own, &server, Some(PATIENCE)) == Err(ConnectError::NoMatch) {
        thread::yield_now();
    }
    assert_eq!(end.vi.state(), ViState::Connected);
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "not yet: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Returns a command that runs this program as a child process with one test.
fn another(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["faults::another_process", "--exact", "--nocapture"]).env(ROLE, role);
    command.stdout(Stdio::piped());
    command
}

/// Plays the role of a child process. Does nothing without a role.
#[test]
fn another_process() {
    match std::env::var(ROLE).as_deref() {
        Ok("open") => println!("\nsaid: {}", open(TCP).err().unwrap_or("it is open".into())),
        Ok(role) if role.starts_with("leave ") => {
            let place = &role["leave ".len()..];
            // A thread opens new endpoints that meet for the first time, again and again, until the process has ended.
            let place = place.to_owned();
            let (tell, told) = std::sync::mpsc::channel();
            thread::spawn(move || {
                loop {
                    let nics = [(); 2].map(|()| open(&place));
                    let [Ok(server), Ok(client)] = nics else { return };
                    let end = End::new(&client, 100);
                    let there = server.address(b"server");
                    let found = end.vi.connect_request(&client.address(b"client"), &there, None);
                    assert_eq!(found, Err(ConnectError::NoMatch));
                    let _ = tell.send(());
                }
            });
            told.recv().expect("they have met");
            let round: u64 = std::env::var(ROUND).expect("a round").parse().expect("a number");
            thread::sleep(Duration::from_millis(round));
            std::process::exit(0);
        }
        Ok(role) if role.starts_with("hold ") => {
            let nic = open(&role["hold ".len()..]).expect("a NIC");
            println!("\nsaid: open");
            let request = nic.connect_wait(&nic.address(b"server"), Some(PATIENCE));
            println!("\nsaid: held");
            thread::sleep(PATIENCE);
            drop(request);
        }
        Ok(place) => {
            let nic = open(place).expect("a NIC");
            let host: Vec<_> = nic.address(b"").host.iter().map(u8::to_string).collect();
            println!("\nsaid: {}", host.join(" "));
            std::io::stdout().flush().expect("the test reads");
            echo(&nic, LONG);
        }
        Err(_) => {}
    }
}

/// Returns what the child process reports.
fn said(child: &mut Child) -> String {
    let lines = BufReader::new(child.stdout.as_mut().expect("a pipe")).lines();
    let mut lines = lines.map_while(Result::ok);
    lines.find_map(|line| line.strip_prefix("said: ").map(str::to_owned)).expect("it says that")
}

fn server(place: &str) -> (Child, Vec<u8>) {
    let mut child = another(place).spawn().expect("it starts");
    let host = said(&mut child);
    (child, host.split(' ').map(|byte| byte.parse().expect("a byte")).collect())
}

#[test]
fn without_the_library_opening_says_what_to_install() {
    let folder = std::env::temp_dir().join(format!("via-ofi-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("libfabric.so.1"), "no library").expect("a file");
    let mut child = another("open").env("LD_LIBRARY_PATH", &folder).spawn().expect("it starts");
    let said = said(&mut child);
    child.wait().expect("it ends");
    std::fs::remove_dir_all(&folder).expect("the folder goes");
    assert!(said.contains("cannot load libfabric") && said.contains("libfabric1"), "{said}");
}

#[test]
fn missing_provider_or_address_is_named_in_the_error() {
    const TEST: &str = "missing_provider_or_address_is_named_in_the_error";
    if nic(TEST, TCP).is_none() {
        return;
    }
    for place in ["nonesuch", "tcp;ofi_rxm@198.51.100.77"] {
        let why = open(place).map(drop).expect_err("it cannot be opened");
        assert!(why.contains(place.split('@').next().unwrap()), "{why}");
    }
}

/// Returns an address of this host without a NIC, as a place and as bytes.
fn nowhere() -> (String, Vec<u8>) {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let place = format!("tcp;ofi_rxm@{}", free.expect("a free port"));
    let host = place.parse::<via_ofi::Place>().expect("a place").host().expect("an address");
    (place, host)
}

/// Opens a NIC at an address where an earlier NIC may still be: the earlier NIC's own thread closes it.
fn open_again(place: &str) -> OfiNic {
    let begin = Instant::now();
    loop {
        match open(place) {
            Ok(nic) => return nic,
            Err(why) => assert!(why.contains("in use") && begin.elapsed() < PATIENCE, "{why}"),
        }
        thread::yield_now();
    }
}

#[test]
fn a_request_to_an_address_without_a_nic_finds_no_program_that_waits() {
    let test = "a_request_to_an_address_without_a_nic_finds_no_program_that_waits";
    let Some(nic) = nic(test, TCP) else { return };
    let end = End::new(&nic, 100);
    let (own, there) = (nic.address(b"client"), NetAddress::new(&nowhere().1, b"server"));
    for _ in 0..3 {
        let error = end.vi.connect_request(&own, &there, None).expect_err("nothing is there");
        assert_eq!(error, ConnectError::NoMatch);
        assert_eq!(end.vi.state(), ViState::Idle);
    }
}

/// The client repeats its request while no program waits, like programs of VIA's time. Meanwhile the server's NIC is
/// opened, or closed and opened again.
#[test]
fn a_request_meets_a_nic_that_is_opened_later() {
    const TEST: &str = "a_request_meets_a_nic_that_is_opened_later";
    let Some(nic) = nic(TEST, TCP) else { return };
    let (place, host) = nowhere();
    for round in 0..4 {
        let end = End::new(&nic, 100);
        thread::scope(|s| {
            let server = s.spawn(|| {
                thread::sleep(Duration::from_millis(37) * round);
                echo(&open_again(&place), 100);
            });
            end.receive();
            connect(&nic, &end, &host);
            assert!(!end.send(7).intersects(Status::ERROR_MASK));
            assert_eq!(end.received().expect("it comes back"), [7; 100]);
            end.vi.disconnect();
            server.join().expect("it ends");
        });
    }
}

/// Peers wait for each other, even if one of them has no NIC yet.
#[test]
fn peers_meet_though_one_nic_is_opened_later() {
    const TEST: &str = "peers_meet_though_one_nic_is_opened_later";
    let Some(first) = nic(TEST, TCP) else { return };
    // The end with the smaller address sends the request, and the other end reports that it is there.
    for is_smaller in [false, true] {
        let ours = first.address(b"peer");
        let (place, theirs) = core::iter::repeat_with(nowhere)
            .map(|(place, host)| (place, NetAddress::new(&host, b"peer")))
            .find(|(_, theirs)| (ours < *theirs) == is_smaller)
            .expect("ports are drawn");
        let end = End::new(&first, 100);
        end.vi.connect_peer_request(&ours, &theirs, Some(PATIENCE)).expect("it begins");
        thread::sleep(Duration::from_millis(200));
        assert_eq!(end.vi.connect_peer_done(), None, "the other one may come yet");
        let second = open(&place).expect("a NIC");
        let other = End::new(&second, 100);
        other.vi.connect_peer_request(&theirs, &ours, Some(PATIENCE)).expect("it begins");
        end.vi.connect_peer_wait().expect("connected");
        other.vi.connect_peer_wait().expect("connected");
    }
}

/// Kills a program that holds a request. Opens a NIC at its address before the client sends anything there.
#[test]
fn a_request_that_went_with_its_server_ends() {
    const TEST: &str = "a_request_that_went_with_its_server_ends";
    let Some(nic) = nic(TEST, TCP) else { return };
    let (place, host) = nowhere();
    let mut child = another(&format!("hold {place}")).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut said = |what: &str| {
        let word = format!("said: {what}");
        assert!(lines.by_ref().map_while(Result::ok).any(|line| line == word), "{what}");
    };
    said("open");
    let end = End::new(&nic, 100);
    thread::scope(|s| {
        let ask = || {
            let (own, server) = (nic.address(b"client"), NetAddress::new(&host, b"server"));
            end.vi.connect_request(&own, &server, Some(PATIENCE))
        };
        let asking = s.spawn(ask);
        said("held");
        child.kill().expect("it is killed");
        child.wait().expect("it ends");
        let _again = open_again(&place);
        let error = asking.join().expect("it ends").expect_err("no program waits");
        assert_eq!(error, ConnectError::NoMatch);
    });
    assert_eq!(end.vi.state(), ViState::Idle);
}

/// Kills the peer's process while messages move. Silent connections must also notice this, and memory must be free
/// again.
fn killed(test: &str, place: &str) {
    let Some(nic) = nic(test, place) else { return };
    for is_silent in [false, true] {
        let (mut child, host) = server(place);
        let end = End::new(&nic, LONG);
        end.receive();
        connect(&nic, &end, &host);
        for byte in 1..4 {
            assert!(!end.send(byte).intersects(Status::ERROR_MASK));
            assert_eq!(end.received().expect("it comes back")[LONG - 1], byte);
            end.receive();
        }
        assert_eq!(place == "shm", !shared_by(child.id()).is_empty());
        child.kill().expect("it is killed");
        child.wait().expect("it ends");
        if is_silent {
            until("the connection is lost", || end.vi.state() == ViState::Error);
        } else {
            until("a send fails", || {
                end.vi.state() == ViState::Error || end.send(5).intersects(Status::ERROR_MASK)
            });
            until("the connection is lost", || end.vi.state() == ViState::Error);
        }
        assert_eq!(end.vi.cause(), Some(Cause::PeerDied));
        assert!(end.received().is_none(), "the receive is flushed");
        nic.deregister_mem(end.handle).expect("nothing uses the memory");
        end.vi.disconnect();
        drop(end);
        until("nothing moves", || counts(&nic).moves == 0);
        assert_eq!((counts(&nic).regions, counts(&nic).ends), (0, 0));
        assert_eq!(shared_by(child.id()), Vec::<String>::new(), "left in /dev/shm");
    }
}

#[test]
fn a_peer_that_is_killed_is_found_out_over_tcp() {
    killed("a_peer_that_is_killed_is_found_out_over_tcp", TCP);
}

/// Returns the shared-memory files that libfabric has made for a process.
fn shared_by(process: u32) -> Vec<String> {
    let all = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let names = all.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(&format!("{process}:"))).collect()
}

#[test]
fn a_peer_that_is_killed_is_found_out_over_shared_memory() {
    killed("a_peer_that_is_killed_is_found_out_over_shared_memory", "shm");
}

/// Ends a process while one of its threads opens NICs, which meet and are closed.
fn left(test: &str, place: &str) {
    if nic(test, place).is_none() {
        return;
    }
    for round in 0..25 {
        let mut command = another(&format!("leave {place}"));
        let mut child = command.env(ROUND, round.to_string()).spawn().expect("it starts");
        let ended = child.wait().expect("it ends");
        assert!(ended.success(), "round {round}: {ended}");
        assert_eq!(shared_by(child.id()), Vec::<String>::new(), "round {round}");
    }
}

#[test]
fn a_process_may_end_while_nics_on_tcp_are_used() {
    left("a_process_may_end_while_nics_on_tcp_are_used", TCP);
}

#[test]
fn a_process_may_end_while_nics_on_shared_memory_are_used() {
    left("a_process_may_end_while_nics_on_shared_memory_are_used", "shm");
}

/// An endpoint that is not a NIC sends messages to two NICs, which communicate at the same time.
#[test]
fn messages_of_unknown_senders_are_counted_and_ignored() {
    const TEST: &str = "messages_of_unknown_senders_are_counted_and_ignored";
    let (Some(one), Some(two)) = (nic(TEST, TCP), nic(TEST, TCP)) else { return };
    let hosts = [&one, &two].map(|nic| nic.address(b"").host);
    let opened = sovia_ofi::Endpoint::open("tcp;ofi_rxm", (Some("127.0.0.1"), None), 4096);
    let mut stranger = opened.expect("an endpoint");
    let own: Box<[u8]> = stranger.address().into();
    let peers = hosts.each_ref().map(|host| stranger.peer(host).expect("an address"));
    thread::scope(|s| {
        s.spawn(|| echo(&one, LONG));
        let end = End::new(&two, LONG);
        end.receive();
        connect(&two, &end, &hosts[0]);
        let mut events = Vec::new();
        for round in 0..100u8 {
            for peer in peers {
                for kind in 0..10u8 {
                    stranger.send(peer, |room| {
                        room[0] = kind;
                        room[1..9].copy_from_slice(&[round; 8]);
                        // One kind of message contains an address: the endpoint's own, or a NIC's.
                        let claimed: &[u8] = if round % 2 == 0 { &own } else { &hosts[1] };
                        room[9] = claimed.len() as u8;
                        room[10..10 + claimed.len()].copy_from_slice(claimed);
                        room[40..80].fill(round.wrapping_mul(kind));
                        Some(9 + usize::from(round) % 70)
                    });
                }
            }
            stranger.poll(&mut events);
            for event in events.drain(..) {
                if let sovia_ofi::Event::Frame(frame) = event {
                    stranger.give_back(frame);
                }
            }
            assert!(!end.send(round).intersects(Status::ERROR_MASK));
            assert!(end.received().expect("it comes back").iter().all(|&byte| byte == round));
            end.receive();
        }
        end.vi.disconnect();
    });
    let dropped = [&one, &two].map(|nic| {
        let counts = counts(nic);
        counts.strange + counts.dropped.malformed + counts.dropped.strangers
    });
    assert!(dropped.iter().all(|&dropped| dropped > 100), "{dropped:?}");
}

/// Deregistering waits until no move is in progress, and no object is left.
#[test]
fn nothing_is_left_of_connections_and_regions() {
    const TEST: &str = "nothing_is_left_of_connections_and_regions";
    let Some(nic) = nic(TEST, TCP) else { return };
    for _ in 0..3 {
        let (mut child, host) = server(TCP);
        let end = End::new(&nic, LONG);
        end.receive();
        connect(&nic, &end, &host);
        assert!(!end.send(1).intersects(Status::ERROR_MASK));
        end.received().expect("it comes back");
        // A message is in flight when the connection ends.
        end.receive();
        end.memory.write(128 + LONG, &[2; LONG]);
        end.vi.post_send(end.prepared(64, 128 + LONG)).expect("posted");
        end.vi.disconnect();
        nic.deregister_mem(end.handle).expect("nothing uses the memory");
        drop(end);
        child.wait().expect("it ends");
    }
    until("all is over", || {
        let counts = counts(&nic);
        (counts.moves, counts.regions, counts.ends) == (0, 0, 0)
    });
}

/// Connects 1,000 VIs of one process in pairs between two NICs. Each VI sends one message.
#[test]
fn a_thousand_connected_vis() {
    const TEST: &str = "a_thousand_connected_vis";
    const PAIRED: usize = 500;
    const LEN: usize = 64;
    let (Some(server), Some(client)) = (nic(TEST, TCP), nic(TEST, TCP)) else { return };
    let ends = |nic: &OfiNic| -> Vec<End> {
        let end = |_| {
            let end = End::new(nic, LEN);
            end.receive();
            end
        };
        (0..PAIRED).map(end).collect()
    };
    let (accepting, requesting) = (ends(&server), ends(&client));
    let host = server.address(b"").host;
    thread::scope(|s| {
        s.spawn(|| {
            for end in &accepting {
                let request = server.connect_wait(&server.address(b"server"), Some(PATIENCE));
                request.expect("a request").accept(&end.vi).expect("accepted");
            }
        });
        requesting.iter().for_each(|end| connect(&client, end, &host));
    });
    assert_eq!((counts(&server).ends, counts(&client).ends), (PAIRED, PAIRED));
    for (i, (a, b)) in accepting.iter().zip(&requesting).enumerate() {
        for (from, to, byte) in [(a, b, i as u8), (b, a, !i as u8)] {
            assert!(!from.send(byte).intersects(Status::ERROR_MASK), "pair {i}");
            assert_eq!(to.received(), Some(vec![byte; LEN]), "pair {i}");
        }
    }
    for end in requesting {
        end.vi.disconnect();
        client.deregister_mem(end.handle).expect("nothing uses the memory");
    }
    let all_over = || [&server, &client].map(|nic| counts(nic).ends) == [0, 0];
    until("all connections are over", all_over);
}
