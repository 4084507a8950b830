//! Helpers of the tests that run in the guest of `scripts/lab`.

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

/// Address of the guest.
pub(crate) const AT: &str = "10.77.0.1";
/// Length of a message that needs several packets.
pub(crate) const LONG: usize = 1 << 16;
/// Watchdog time. It is long, because the guest emulates its NIC.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// Locks the guest for one test, because the tests count objects of the whole process and change the whole guest.
/// Outside the guest, prints a line and returns `None`.
pub(crate) fn in_the_lab(test: &str) -> Option<MutexGuard<'static, ()>> {
    static ONE: Mutex<()> = Mutex::new(());
    let is_guest =
        Path::new("/run/lab/command").exists() && Path::new("/sys/class/infiniband/rxe0").exists();
    if !is_guest {
        println!("SKIPPED: {test}: it changes the guest of scripts/lab (make lab)");
        return None;
    }
    let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    // Stores the guest's state before the first test.
    BEFORE.get_or_init(kernel);
    Some(one)
}

static BEFORE: OnceLock<String> = OnceLock::new();

/// Returns the kernel's count of the objects that all processes have on its RDMA devices: queue pairs, regions,
/// identifiers and others.
fn kernel() -> String {
    let output = Command::new("rdma").args(["resource", "show"]).output().expect("iproute2");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    // Ignores other devices: `scripts/lab/wire` adds one, which always has some objects.
    let line = text.lines().find(|line| line.contains("rxe0")).expect("the guest's device");
    // Ignores the open device itself: librdmacm keeps it open until the process ends.
    line.split(" ctx ").next().expect("a part").to_owned()
}

/// Checks that no object of any NIC is left, in this process and in the kernel.
pub(crate) fn all_gone() {
    assert_eq!(live(), [0; 4]);
    let begin = Instant::now();
    // The kernel frees a killed process's objects only with their last reference, so the check repeats.
    while Some(&kernel()) != BEFORE.get() {
        assert!(begin.elapsed() < PATIENCE, "{} instead of {:?}", kernel(), BEFORE.get());
        thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn open(place: &str) -> Result<VerbsNic, String> {
    let config = place.parse::<Config>().map_err(|why| why.to_string())?;
    VerbsNic::open(&config).map_err(|why| why.to_string())
}

/// Opens a NIC with a port of its own.
pub(crate) fn nic() -> VerbsNic {
    open(&format!("{AT}:0")).expect("the guest's NIC")
}

/// A VI with memory for one message each way.
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

    /// Sends a message, and returns the status of the send.
    pub(crate) fn send(&self, byte: u8) -> Status {
        self.memory.write(128 + self.len, &vec![byte; self.len]);
        self.vi.post_send(self.prepared(64, 128 + self.len)).expect("posted");
        self.vi.send_wait(Some(PATIENCE)).expect("it is done").status
    }

    /// Waits for the next message, and returns its bytes.
    pub(crate) fn received(&self) -> Option<Vec<u8>> {
        let done = self.vi.recv_wait(Some(PATIENCE)).expect("it is done");
        let mut bytes = vec![0; self.len];
        self.memory.read(128, &mut bytes);
        done.result().ok().map(|_| bytes)
    }

    /// Sends a message, and checks that the peer returns it.
    pub(crate) fn is_echoed(&self, byte: u8) {
        assert!(!self.send(byte).intersects(Status::ERROR_MASK), "byte {byte}");
        let bytes = self.received().expect("it comes back");
        assert!(bytes.iter().all(|&it| it == byte), "byte {byte}");
        self.receive();
    }
}

/// Returns the messages of clients that connect to the address `server`, one client after the other.
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

/// Connects, and tries again while the peer is not there yet.
pub(crate) fn connect(nic: &VerbsNic, end: &End, host: &[u8]) {
    let (own, server) = (nic.address(b"client"), NetAddress::new(host, b"server"));
    let begin = Instant::now();
    while let Err(why) = end.vi.connect_request(&own, &server, Some(PATIENCE)) {
        assert!(begin.elapsed() < PATIENCE, "no connection: {why}");
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(end.vi.state(), ViState::Connected);
}

/// Returns the numbers of this process's queue pairs, registrations, completion queues and identifiers.
pub(crate) fn live() -> [usize; 4] {
    [&PAIRS, &REGIONS, &CQS, &IDS].map(|count| count.get())
}

/// Drops the ends and then the NIC, and checks that no object is left.
pub(crate) fn nothing_left(nic: VerbsNic, ends: Vec<End>) {
    for end in ends {
        nic.deregister_mem(end.handle).expect("nothing uses the memory");
        end.vi.disconnect();
    }
    assert_eq!((PAIRS.get(), REGIONS.get()), (0, 0));
    drop(nic);
    all_gone();
}
