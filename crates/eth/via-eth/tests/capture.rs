//! Captures the traffic of two NICs in two network namespaces, over UDP and over Ethernet devices. Checks that
//! Wireshark's dissector (tools/wireshark) explains all of it.

use crate::namespaces::between_namespaces;
use core::time::Duration;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use via::error::ConnectError;
use via::{
    Connection, Control, DescriptorAddress, MemAttributes, MemHandle, Memory, Nic, RemoteSegment,
    Status, Vi, ViAttributes,
};
use via_eth::{Config, EthNic, EthVi, Place};

/// Number of packets to capture at each end. The NICs exchange messages until then.
const PACKETS: u32 = 400;
const LEN: usize = 9000;
const OWN: usize = 64;

/// A running capture.
struct Capture {
    dumpcap: Child,
    file: PathBuf,
}

impl Capture {
    /// Starts a capture of all traffic of a device.
    fn start(device: &str, folder: &Path) -> Result<Capture, String> {
        std::fs::create_dir_all(folder).expect("a folder");
        let file = folder.join(format!("{device}.pcapng"));
        let mut dumpcap = Command::new("dumpcap")
            .args(["-q", "-i", device, "-c", &PACKETS.to_string(), "-w"])
            .arg(&file)
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|why| format!("dumpcap: {why}"))?;
        let mut said = BufReader::new(dumpcap.stderr.take().expect("a pipe"));
        let mut all = String::new();
        // dumpcap prints the file's name once it has opened the device.
        while !all.contains("File: ") {
            if said.read_line(&mut all).expect("it speaks") == 0 {
                let _ = dumpcap.wait();
                return Err(format!("dumpcap: {}", all.trim()));
            }
        }
        // Reads the rest of the output, so that dumpcap never blocks on a full pipe.
        thread::spawn(move || {
            let _ = said.read_to_end(&mut Vec::new());
        });
        Ok(Capture { dumpcap, file })
    }

    fn is_over(&mut self) -> bool {
        self.dumpcap.try_wait().expect("it can be waited for").is_some()
    }

    /// Returns tshark's output for the capture.
    fn read(&self, arguments: &[&str]) -> Vec<String> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tools/wireshark/sovia.lua");
        let output = Command::new("tshark")
            .env("HOME", self.file.parent().expect("a folder"))
            .args(["-X", &format!("lua_script:{script}"), "-n", "-r"])
            .arg(&self.file)
            .args(arguments)
            .output()
            .expect("tshark is there");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !said.contains(".lua"), "tshark: {said}");
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
    }

    fn values(&self, field: &str) -> BTreeSet<String> {
        let form = ["-T", "fields", "-E", "occurrence=a", "-E", "aggregator=;", "-e", field];
        let lines = self.read(&form);
        let all = lines.iter().flat_map(|line| line.split(';'));
        all.filter(|value| !value.is_empty()).map(str::to_owned).collect()
    }
}

struct End {
    vi: EthVi,
    memory: Memory,
    handle: MemHandle,
}

impl End {
    fn new(nic: &EthNic) -> End {
        let attributes = ViAttributes {
            enable_rdma_write: true,
            enable_rdma_read: true,
            ..ViAttributes::default()
        };
        let vi = nic.create_vi(attributes).expect("a VI");
        let memory = Memory::zeroed(2 * OWN + LEN);
        let rights =
            MemAttributes { enable_rdma_write: true, enable_rdma_read: true, ..Default::default() };
        let handle = nic.register_mem(&memory, rights).expect("a region");
        End { vi, memory, handle }
    }

    fn at(&self, descriptor: usize) -> DescriptorAddress {
        DescriptorAddress { address: self.memory.address(descriptor), handle: self.handle }
    }

    fn receive(&self) {
        let data = self.memory.segment(2 * OWN, LEN as u32, self.handle);
        self.memory.descriptor(0).expect("room").prepare(&[data], None).expect("it fits");
        self.vi.post_recv(self.at(0)).expect("posted");
    }

    fn received(&self) {
        let done = self.vi.recv_wait(None).expect("it comes");
        assert!(!done.status.intersects(Status::ERROR_MASK), "{:?}", done.status);
    }

    /// Posts the prepared descriptor, and waits until the operation has ended.
    fn post(&self) {
        self.vi.post_send(self.at(OWN)).expect("posted");
        let done = self.vi.send_wait(None).expect("it is done");
        assert!(!done.status.intersects(Status::ERROR_MASK), "{:?}", done.status);
    }

    fn send(&self, len: usize) {
        let data = self.memory.segment(2 * OWN, len as u32, self.handle);
        let descriptor = self.memory.descriptor(OWN).expect("room");
        descriptor.prepare(&[data], Some(7)).expect("it fits");
        self.post();
    }

    /// Writes into the peer's memory, or reads from it.
    fn rdma(&self, control: Control, remote: RemoteSegment) {
        let data = self.memory.segment(2 * OWN, LEN as u32, self.handle);
        let descriptor = self.memory.descriptor(OWN).expect("room");
        descriptor.prepare_rdma(control, remote, &[data], None).expect("it fits");
        self.post();
    }
}

/// Runs the client end, one connection after the other, until the captures are complete.
fn ask(nic: &EthNic, server: &via::NetAddress, captures: &mut [Capture], is_over: &AtomicBool) {
    loop {
        let end = End::new(nic);
        end.receive();
        let own = nic.address(b"client");
        while end.vi.connect_request(&own, server, None) == Err(ConnectError::NoMatch) {}
        // Receives the address of the peer's memory.
        end.received();
        let mut words = [0; 12];
        end.memory.read(2 * OWN, &mut words);
        let (address, handle) = words.split_at(8);
        let remote = RemoteSegment {
            address: u64::from_ne_bytes(address.try_into().expect("eight bytes")),
            handle: u32::from_ne_bytes(handle.try_into().expect("four bytes")),
        };
        end.rdma(Control::OP_RDMAWRITE, remote);
        end.rdma(Control::OP_RDMAREAD, remote);
        end.receive();
        let over = captures.iter_mut().all(Capture::is_over);
        is_over.store(over, Ordering::SeqCst);
        end.send(LEN);
        end.received();
        end.vi.disconnect();
        if over {
            return;
        }
    }
}

fn answer(nic: &EthNic, is_over: &AtomicBool) {
    while !is_over.load(Ordering::SeqCst) {
        let end = End::new(nic);
        end.receive();
        let request = nic.connect_wait(&nic.address(b"server"), None).expect("a request");
        request.accept(&end.vi).expect("accepted");
        let address = end.memory.address(2 * OWN).to_ne_bytes();
        let handle = end.handle.raw().to_ne_bytes();
        end.memory.write(2 * OWN, &[&address[..], &handle[..]].concat());
        end.send(12);
        end.received();
        end.send(1);
        // The other end disconnects.
        let _ = end.vi.recv_wait(None);
    }
}

fn captured(name: &str, places: [&str; 2]) {
    if Command::new("tshark").arg("--version").output().is_err() {
        return println!("SKIPPED: {name}: there is no tshark");
    }
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let is_over = AtomicBool::new(false);
    let over = &is_over;
    let (tell, told) = channel();
    let (go, may_start) = channel::<()>();
    let open = move |place: &str| {
        let place: Place = place.parse().expect("a place");
        let mut config = Config::new(place);
        // Never gives up, so that a slow peer does not fail the test.
        config.timing.tries = None;
        config.timing.longest = Duration::from_millis(100);
        config.open().map_err(|why| why.to_string())
    };
    let folder = &folder;
    let start = move |device| Capture::start(device, folder);
    let peer = move || {
        // An error means that the other end has no NIC or no capture.
        let Ok(()) = may_start.recv() else { return };
        match open(places[1]).and_then(|nic| Ok((start("other")?, nic))) {
            Ok((capture, nic)) => {
                tell.send(Ok((capture, nic.address(b"server")))).expect("the other thread listens");
                answer(&nic, over);
            }
            Err(why) => tell.send(Err(why)).expect("the other thread listens"),
        }
    };
    let own = move || {
        let nic = open(places[0])?;
        let capture = start("one")?;
        go.send(()).map_err(|_| "the other thread has gone")?;
        let (others, server) = told.recv().expect("the other thread says so")?;
        let mut captures = [capture, others];
        ask(&nic, &server, &mut captures, over);
        Ok::<_, String>(captures)
    };
    let captures = match between_namespaces(own, peer).and_then(|captures| captures) {
        Ok(captures) => captures,
        Err(why) => return println!("SKIPPED: {name}: {why}"),
    };
    // A capture does not show frames that a packet socket sends on the same device. Only both captures together show
    // all frames.
    let [mut kinds, mut items] = [BTreeSet::new(), BTreeSet::new()];
    for capture in &captures {
        // Padding over UDP consists of zeros, and contains no further frame.
        let missed = "sovia.malformed || sovia.padding contains 02:01 && udp";
        assert_eq!(capture.read(&["-Y", missed]), [""; 0]);
        let strangers = capture.read(&["-Y", "(udp || eth.type == 0x88b5) && !sovia"]);
        assert_eq!(strangers, [""; 0], "frames that are not recognized");
        let checksums = capture.values("sovia.checksum.status");
        // UDP has its own checksum.
        let expected = if places[0].starts_with("udp:") { "3" } else { "1" };
        assert_eq!(checksums.iter().collect::<Vec<_>>(), [expected], "all alike");
        kinds.extend(capture.values("sovia.kind"));
        items.extend(capture.values("sovia.item"));
    }
    for kind in ["1", "2", "16", "18", "19"] {
        assert!(kinds.contains(kind), "no frame of kind {kind}: {kinds:?}");
    }
    // Item kinds: parts of sends, RDMA writes and answers; reads; the end.
    assert_eq!(items.iter().collect::<Vec<_>>(), ["1", "2", "3", "4", "5"]);
    std::fs::remove_dir_all(folder).expect("the folder is the test's own");
}

#[test]
fn conversation_over_udp_is_recognized_and_explained() {
    let places = ["udp:10.0.0.1:17471", "udp:10.0.0.2:17472"];
    captured("conversation_over_udp_is_recognized_and_explained", places);
}

#[test]
fn conversation_over_ethernet_devices_is_recognized_and_explained() {
    let places = ["eth:one", "eth:other"];
    captured("conversation_over_ethernet_devices_is_recognized_and_explained", places);
}
