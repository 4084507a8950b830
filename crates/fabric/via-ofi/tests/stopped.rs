//! A stopped peer is not lost, even after a long time, and even if the TCP connection below libfabric is reset
//! meanwhile.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use via::error::ConnectError;
use via::{
    Connection, DescriptorAddress, MemAttributes, MemHandle, Memory, NetAddress, Nic, Reliability,
    Vi, ViAttributes, ViState,
};
use via_ofi::{Config, OfiNic, OfiVi};

const TEST: &str = "a_peer_that_is_stopped_goes_on_though_the_connection_below_is_reset";
/// Watchdog time.
const PATIENCE: Duration = Duration::from_secs(240);
/// Time for which the peer is stopped.
const STOPPED: Duration = Duration::from_secs(40);
/// Length of a message that needs more than one frame.
const LONG: usize = 1 << 20;
/// Environment variable that is set for a child process.
const ROLE: &str = "VIA_OFI_TEST_ROLE";

fn open() -> Result<OfiNic, String> {
    let place = "tcp;ofi_rxm@127.0.0.1".parse().expect("a place");
    Config::new(place).open().map_err(|why| why.to_string())
}

/// A VI with memory for one message each way.
struct End {
    vi: OfiVi,
    memory: Memory,
    handle: MemHandle,
}

impl End {
    fn new(nic: &OfiNic) -> End {
        let attributes = ViAttributes {
            max_transfer_size: LONG as u32,
            reliability: Reliability::RELIABLE_RECEPTION,
            ..ViAttributes::default()
        };
        let vi = nic.create_vi(attributes).expect("a VI");
        let memory = Memory::zeroed(128 + 2 * LONG);
        let handle = nic.register_mem(&memory, MemAttributes::default()).expect("a region");
        End { vi, memory, handle }
    }

    fn prepared(&self, descriptor: usize, at: usize, len: usize) -> DescriptorAddress {
        let data = self.memory.segment(at, len as u32, self.handle);
        self.memory.descriptor(descriptor).expect("room").prepare(&[data], None).expect("it fits");
        DescriptorAddress { address: self.memory.address(descriptor), handle: self.handle }
    }

    fn receive(&self) {
        self.vi.post_recv(self.prepared(0, 128, LONG)).expect("posted");
    }

    /// Sends a message of `len` equal bytes. Returns false if the VI has broken.
    fn send(&self, byte: u8, len: usize) -> bool {
        self.memory.write(128 + LONG, &vec![byte; len]);
        self.vi
            .post_send(self.prepared(64, 128 + LONG, len))
            .is_ok_and(|()| self.vi.send_wait(Some(PATIENCE)).expect("it is done").result().is_ok())
    }

    /// Returns the next message, and posts another receive. Returns `None` if the VI has broken.
    fn received(&self) -> Option<Vec<u8>> {
        let done = self.vi.recv_wait(Some(PATIENCE)).expect("it is done");
        let mut bytes = vec![0; done.length as usize];
        self.memory.read(128, &mut bytes);
        done.result().ok()?;
        self.receive();
        Some(bytes)
    }

    /// Sends a message, and checks the answer.
    fn exchange(&self, round: usize) {
        let (byte, len) = (round as u8, if round.is_multiple_of(2) { LONG } else { 100 });
        assert!(self.send(byte, len), "round {round}: {:?}", self.vi.cause());
        let came = self.received();
        let came = came.unwrap_or_else(|| panic!("round {round}: {:?}", self.vi.cause()));
        assert!(came == vec![byte; len], "round {round} has other bytes");
    }
}

/// Runs the child process, which returns the messages of one client.
#[test]
fn another_process() {
    if std::env::var(ROLE).is_err() {
        return;
    }
    let nic = open().expect("a NIC");
    let host: Vec<_> = nic.address(b"").host.iter().map(u8::to_string).collect();
    println!("\nsaid: {}", host.join(" "));
    std::io::stdout().flush().expect("the test reads");
    let end = End::new(&nic);
    end.receive();
    let request = nic.connect_wait(&nic.address(b"server"), Some(PATIENCE)).expect("a request");
    request.accept(&end.vi).expect("accepted");
    while let Some(bytes) = end.received() {
        if !end.send(bytes[0], bytes.len()) {
            return;
        }
    }
}

fn server() -> (Child, Vec<u8>) {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["stopped::another_process", "--exact", "--nocapture"]).env(ROLE, "server");
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.as_mut().expect("a pipe")).lines();
    let said = lines.by_ref().map_while(Result::ok);
    let host = said.filter_map(|line| line.strip_prefix("said: ").map(str::to_owned)).next();
    let host = host.expect("it says where it is");
    (child, host.split(' ').map(|byte| byte.parse().expect("a byte")).collect())
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(sent.expect("kill starts").success());
}

/// Resets the TCP connections from and to a port. Returns their number.
fn reset(port: u16) -> usize {
    let port = format!(":{port}");
    let which = ["(", "sport", "=", &port, "or", "dport", "=", &port, ")"];
    let output = Command::new("ss").args(["-KHtn"]).args(which).output().expect("ss starts");
    String::from_utf8_lossy(&output.stdout).lines().count()
}

#[test]
fn a_peer_that_is_stopped_goes_on_though_the_connection_below_is_reset() {
    if std::env::var(ROLE).is_ok() {
        return;
    }
    if Command::new("ss").arg("-V").output().is_err() {
        return println!("SKIPPED: {TEST}: there is no ss");
    }
    let nic = match open() {
        Ok(nic) => nic,
        Err(why) => return println!("SKIPPED: {TEST}: {why}"),
    };
    let (mut child, host) = server();
    // `host` contains a `sockaddr_in`.
    let port = u16::from_be_bytes([host[2], host[3]]);
    let end = End::new(&nic);
    end.receive();
    let (own, there) = (nic.address(b"client"), NetAddress::new(&host, b"server"));
    while end.vi.connect_request(&own, &there, Some(PATIENCE)) == Err(ConnectError::NoMatch) {
        thread::yield_now();
    }
    (0..10).for_each(|round| end.exchange(round));
    thread::scope(|s| {
        let (end, child) = (&end, &child);
        s.spawn(move || {
            signal(child, "-STOP");
            let begin = Instant::now();
            let mut resets = 0;
            // Also resets connections that the provider has opened again meanwhile.
            while begin.elapsed() < STOPPED {
                resets += reset(port);
                thread::sleep(Duration::from_secs(4));
            }
            println!("{resets} connections reset");
            signal(child, "-CONT");
        });
        (10..200).for_each(|round| end.exchange(round));
    });
    assert_eq!(end.vi.state(), ViState::Connected);
    end.vi.disconnect();
    child.wait().expect("it ends");
}
