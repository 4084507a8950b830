//! What tests in the guest of `scripts/lab` are written with.

use sovia_verbs::live::{CQS, IDS, PAIRS, REGIONS};
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use via::{
    Connection, DescriptorAddress, MemAttributes, MemHandle, Memory, NetAddress, Nic, Status, Vi,
    ViAttributes, ViState,
};
use via_verbs::{Config, VerbsNic, VerbsVi};

/// The guest's address.
pub(crate) const AT: &str = "10.77.0.1";
/// Longer than a packet.
pub(crate) const LONG: usize = 1 << 16;
/// A watchdog: the NIC is emulated.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// What the tests count belongs to the whole process, and what they change to the whole guest: one at a time. `None`, and a word about
/// it, outside the guest.
pub(crate) fn in_the_lab(test: &str) -> Option<MutexGuard<'static, ()>> {
    static ONE: Mutex<()> = Mutex::new(());
    let is_guest =
        Path::new("/run/lab/command").exists() && Path::new("/sys/class/infiniband/rxe0").exists();
    if !is_guest {
        println!("SKIPPED: {test}: it changes the guest of scripts/lab (make lab)");
        return None;
    }
    let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    // What the guest has before any test.
    BEFORE.get_or_init(kernel);
    Some(one)
}

static BEFORE: OnceLock<String> = OnceLock::new();

/// The kernel's own count of what all processes have of its devices for RDMA: queue pairs, regions, identifiers and the like.
fn kernel() -> String {
    let output = Command::new("rdma").args(["resource", "show"]).output().expect("iproute2");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    // `scripts/lab/wire` adds a device, which has some of each by itself.
    let line = text.lines().find(|line| line.contains("rxe0")).expect("the guest's device");
    // The open device itself is librdmacm's, which keeps it until its process ends.
    line.split(" ctx ").next().expect("a part").to_owned()
}

/// Nothing is left of any NIC, by this process's counts and by the kernel's.
pub(crate) fn all_gone() {
    assert_eq!(live(), [0; 4]);
    let begin = Instant::now();
    // What a process had that has been killed goes with its last reference.
    while Some(&kernel()) != BEFORE.get() {
        assert!(begin.elapsed() < PATIENCE, "{} instead of {:?}", kernel(), BEFORE.get());
        thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn open(place: &str) -> Result<VerbsNic, String> {
    let config = place.parse::<Config>().map_err(|why| why.to_string())?;
    VerbsNic::open(&config).map_err(|why| why.to_string())
}

/// A NIC with a port of its own.
pub(crate) fn nic() -> VerbsNic {
    open(&format!("{AT}:0")).expect("the guest's NIC")
}

/// A VI with room for one message each way.
pub(crate) struct End {
    pub(crate) vi: VerbsVi,
    pub(crate) memory: Memory,
    pub(crate) handle: MemHandle,
    pub(crate) len: usize,
}

impl End {
    pub(crate) fn new(nic: &VerbsNic, len: usize) -> End {
        let attributes = ViAttributes { max_transfer_size: len as u32, ..ViAttributes::default() };
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

    pub(crate) fn receive(&self) {
        self.vi.post_recv(self.prepared(0, 128)).expect("posted");
    }

    /// The status of a send.
    pub(crate) fn send(&self, byte: u8) -> Status {
        self.memory.write(128 + self.len, &vec![byte; self.len]);
        self.vi.post_send(self.prepared(64, 128 + self.len)).expect("posted");
        self.vi.send_wait(Some(PATIENCE)).expect("it is done").status
    }

    /// The bytes of the next message.
    pub(crate) fn received(&self) -> Option<Vec<u8>> {
        let done = self.vi.recv_wait(Some(PATIENCE)).expect("it is done");
        let mut bytes = vec![0; self.len];
        self.memory.read(128, &mut bytes);
        done.result().ok().map(|_| bytes)
    }

    /// A message there and back.
    pub(crate) fn is_echoed(&self, byte: u8) {
        assert!(!self.send(byte).intersects(Status::ERROR_MASK), "byte {byte}");
        let bytes = self.received().expect("it comes back");
        assert!(bytes.iter().all(|&it| it == byte), "byte {byte}");
        self.receive();
    }
}

/// Sends back what comes to the address `server`, of one client after the other.
pub(crate) fn echo(nic: &VerbsNic, len: usize, clients: usize) {
    for _ in 0..clients {
        let end = End::new(nic, len);
        end.receive();
        let request = nic.connect_wait(&nic.address(b"server"), Some(PATIENCE));
        let request = request.expect("a request");
        request.accept(&end.vi).expect("accepted");
        while let Some(bytes) = end.received() {
            end.receive();
            if end.send(bytes[0]).intersects(Status::ERROR_MASK) {
                break;
            }
        }
        end.vi.disconnect();
        nic.deregister_mem(end.handle).expect("nothing uses the memory");
    }
}

/// Connects, again and again while the far side is not there yet.
pub(crate) fn connect(nic: &VerbsNic, end: &End, host: &[u8]) {
    let (own, server) = (nic.address(b"client"), NetAddress::new(host, b"server"));
    let begin = Instant::now();
    while let Err(why) = end.vi.connect_request(&own, &server, Some(PATIENCE)) {
        assert!(begin.elapsed() < PATIENCE, "no connection: {why}");
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(end.vi.state(), ViState::Connected);
}

/// What this process has of the NIC's: queue pairs, registrations, completion queues and identifiers.
pub(crate) fn live() -> [usize; 4] {
    [&PAIRS, &REGIONS, &CQS, &IDS].map(|count| count.get())
}

/// Ends an end, then a NIC, and sees that nothing is left.
pub(crate) fn nothing_left(nic: VerbsNic, ends: Vec<End>) {
    for end in ends {
        nic.deregister_mem(end.handle).expect("nothing uses the memory");
        end.vi.disconnect();
    }
    assert_eq!((PAIRS.get(), REGIONS.get()), (0, 0));
    drop(nic);
    all_gone();
}
