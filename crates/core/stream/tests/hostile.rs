//! Tests with a peer that has a VI and violates the protocol. The peer loses its connection with a reason, and other
//! streams are not affected.

use crate::common::pattern::{at_end, read, write};
use crate::common::{Context, LONG};
use sovia_proto::packet::Written;
use sovia_proto::session::{Leave, Request};
use sovia_stream::{Configuration, Reset, TransferError};
use std::cell::RefCell;
use std::net::Shutdown;
use std::time::Duration;
use via::descriptor::RemoteSegment;
use via::{
    Completion, Control, DescriptorAddress, MemAttributes, MemHandle, Memory, Nic, Status, Vi,
    ViAttributes, ViState,
};
use via_shm::ShmNic;

/// A VI that a test uses directly.
struct Raw {
    vi: via_shm::ShmVi,
    memory: Memory,
    handle: MemHandle,
    _nic: ShmNic,
    /// Result of each message, for reports of failures.
    sent: RefCell<Vec<String>>,
}

const RECEIVES: usize = 40;
/// Positions of received bytes and of outgoing bytes. The two areas must not overlap, because the NIC's thread may
/// receive the peer's WAKEUP at any time.
const INTO: usize = (RECEIVES + 1) * 64;
const FROM: usize = INTO + LONGEST;
const LONGEST: usize = 40_000;

impl Raw {
    fn connect(name: &str) -> Raw {
        let nic = ShmNic::open(name).unwrap();
        let memory = Memory::zeroed(FROM + LONGEST);
        let handle = nic.register_mem(&memory, MemAttributes::default()).unwrap();
        let attributes = ViAttributes { max_transfer_size: 64 << 10, ..ViAttributes::default() };
        let vi = nic.create_vi(attributes).unwrap();
        let raw = Raw { vi, memory, handle, _nic: nic, sent: RefCell::default() };
        for i in 1..=RECEIVES {
            let data = raw.memory.segment(INTO, LONGEST as u32, raw.handle);
            raw.memory.descriptor(i * 64).unwrap().prepare(&[data], None).unwrap();
            raw.vi.post_recv(raw.place(i)).unwrap();
        }
        let address = raw._nic.address(b"stream");
        let local = raw._nic.address(b"raw");
        while raw.vi.connect_request(&local, &address, Some(LONG)).is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
        raw
    }

    fn place(&self, i: usize) -> DescriptorAddress {
        DescriptorAddress { address: self.memory.address(i * 64), handle: self.handle }
    }

    /// Sends `len` bytes that begin with `body`.
    fn send(&self, immediate: Option<u32>, body: &[u8], len: usize) {
        self.memory.write(FROM, body);
        let data = self.memory.segment(FROM, len as u32, self.handle);
        self.memory.descriptor(0).unwrap().prepare(&[data], immediate).unwrap();
        let posted = self.vi.post_send(self.place(0));
        let waited = posted.is_ok().then(|| self.vi.send_wait(Some(LONG)));
        self.sent.borrow_mut().push(format!("{posted:?}, {waited:?}"));
    }

    /// Writes bytes by RDMA where `leave` permits it, with matching immediate data.
    fn write(&self, leave: &Leave, bytes: &[u8]) -> Completion {
        self.memory.write(FROM, bytes);
        let data = self.memory.segment(FROM, bytes.len() as u32, self.handle);
        let to = RemoteSegment { address: leave.to.address, handle: leave.to.handle };
        let written = Written { len: bytes.len() as u32, acks: 0 };
        let descriptor = self.memory.descriptor(0).unwrap();
        let immediate = Some(written.encode());
        descriptor.prepare_rdma(Control::OP_RDMAWRITE, to, &[data], immediate).unwrap();
        self.vi.post_send(self.place(0)).unwrap();
        self.vi.send_wait(Some(LONG)).unwrap()
    }

    /// Asks for permission to write, and waits for it. Skips the peer's WAKEUP before.
    fn ask(&self, request: Request) -> Leave {
        self.send(Some(7 << 24), &request.encode(), Request::LEN);
        loop {
            let received = self.vi.recv_wait(Some(LONG)).unwrap();
            if received.immediate.unwrap() >> 24 == 2 {
                let mut body = [0; Leave::LEN];
                assert!(self.memory.read(INTO, &mut body));
                return Leave::decode(&body).unwrap();
            }
        }
    }

    /// Returns true if the first message has been sent. The peer cannot have prevented that: the VI is connected, and
    /// the peer posts its receives before it accepts.
    fn has_sent(&self) -> bool {
        self.sent.borrow().first().is_some_and(|first| first.starts_with("Ok(()), Some(Ok("))
    }

    fn wakeup(&self) {
        self.wakeup_as(&Configuration::default());
    }

    fn wakeup_as(&self, configuration: &Configuration) {
        let terms = sovia_proto::wakeup::Terms::of(configuration);
        let body = terms.encode();
        self.send(Some(6 << 24), &body, body.len());
    }

    /// Waits until the peer has ended the connection.
    fn is_cut_off(&self) {
        let begin = std::time::Instant::now();
        while self.vi.state() == ViState::Connected {
            assert!(begin.elapsed() < LONG);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

const DATA: u32 = 1 << 24;

/// A message that a correct peer would not send. The flag says whether a WAKEUP goes first.
type Lie = (&'static str, bool, fn(&Raw));

const LIES: &[Lie] = &[
    ("data before WAKEUP", false, |raw| raw.send(Some(DATA), b"x", 1)),
    ("no immediate data", true, |raw| raw.send(None, b"x", 1)),
    ("an unknown kind", true, |raw| raw.send(Some(99 << 24), b"", 0)),
    ("a WAKEUP of another version", false, |raw| raw.send(Some(6 << 24), &[7; 16], 16)),
    ("a WAKEUP without its end", false, |raw| raw.send(Some(6 << 24), b"SOV", 3)),
    ("a WAKEUP that is far too long", false, |raw| raw.send(Some(6 << 24), b"", 30_000)),
    ("a second WAKEUP", true, Raw::wakeup),
    ("acknowledges what was not sent", true, |raw| raw.send(Some(2 << 24 | 5), b"", 0)),
    ("data without bytes", true, |raw| raw.send(Some(DATA), b"", 0)),
    ("data longer than a chunk", true, |raw| raw.send(Some(DATA), b"", 40_000)),
    ("FINACK without a FIN", true, |raw| raw.send(Some(4 << 24), b"", 0)),
    ("a switch to TCP", true, |raw| raw.send(Some(5 << 24), b"", 0)),
    ("a request for leave", true, |raw| raw.send(Some(7 << 24), &[1, 0, 0, 0], 4)),
    ("an acknowledgement with a body", true, |raw| raw.send(Some(2 << 24), b"body", 4)),
    ("more than the window", true, |raw| (0..60).for_each(|_| raw.send(Some(DATA), b"y", 1))),
    ("data behind FIN", true, |raw| {
        raw.send(Some(3 << 24), b"", 0);
        raw.send(Some(DATA), b"x", 1);
    }),
];

#[test]
fn only_a_peer_that_lies_is_cut_off() {
    for (n, (lie, woken, tell)) in LIES.iter().enumerate() {
        let name = format!("hostile-{n}-{}", std::process::id());
        let nic = ShmNic::open(&name).unwrap();
        let address = nic.address(b"stream");
        let server = Context::new(nic, address.clone(), Configuration::default());
        let listener = server.listen();
        let raw = Raw::connect(&name);
        let (end, _) = listener.accept_within(LONG).unwrap();
        if *woken {
            raw.wakeup();
        }
        tell(&raw);
        assert!(raw.has_sent(), "{lie}: {:?}, {:?}", raw.sent, raw.vi.state());
        // The stream may first return valid bytes from before the violation.
        let error = loop {
            match end.read_within(&mut [0; 10], LONG) {
                Ok(0) => break None,
                Ok(_) => {}
                Err(error) => break Some(error),
            }
        };
        let told = match error {
            // The stream had ended before the violation.
            None => end.write_within(&[0], LONG).unwrap_err(),
            Some(error) => error,
        };
        println!("{lie}: {told}");
        assert!(
            matches!(told, TransferError::Reset(_)),
            "{lie}: {told}; {:?}, {:?}",
            raw.sent,
            raw.vi.state()
        );
        let long = lie.contains("longer than a chunk") || lie.contains("more than the window");
        let protocol = matches!(told, TransferError::Reset(Reset::Protocol(_)));
        assert!(protocol || long, "{lie}: {told}");
        raw.is_cut_off();
        // The listener still serves a correct peer.
        let honest = Context::new(ShmNic::open(&name).unwrap(), address, Configuration::default());
        let client = honest.connect();
        let (end, _) = listener.accept_within(LONG).unwrap();
        write(&client, 1, 0, 1000);
        read(&end, 1, 0, 1000);
        drop(client);
        at_end(&end);
    }
}

/// A message that a correct peer would not send with SOVIA_RDMA.
type LieOfWrites = (&'static str, fn(&Raw));

const LIES_OF_WRITES: &[LieOfWrites] = &[
    ("data that is sent", |raw| raw.send(Some(DATA), b"x", 1)),
    ("says that it has written, and sends", |raw| raw.send(Some(8 << 24 | 5), b"hello", 5)),
    ("a permission that was not requested", |raw| raw.send(Some(2 << 24), &[1; 16], 16)),
    ("leave that names no memory", |raw| raw.send(Some(2 << 24), &[1, 0, 0, 0], 4)),
    ("asks for leave for nothing", |raw| raw.send(Some(7 << 24), &[0; 4], 4)),
];

#[test]
fn a_peer_that_lies_about_its_writes_is_cut_off() {
    let configuration: Configuration = "SOVIA_RDMA".parse().unwrap();
    for (n, (lie, tell)) in LIES_OF_WRITES.iter().enumerate() {
        let name = format!("hostile-writes-{n}-{}", std::process::id());
        let nic = ShmNic::open(&name).unwrap();
        let address = nic.address(b"stream");
        let server = Context::new(nic, address, configuration);
        let listener = server.listen();
        let raw = Raw::connect(&name);
        let (end, _) = listener.accept_within(LONG).unwrap();
        raw.wakeup_as(&configuration);
        tell(&raw);
        assert!(raw.has_sent(), "{lie}: {:?}, {:?}", raw.sent, raw.vi.state());
        let mut out = vec![7; 5000];
        // A reader that waits, so that the peer could write to its buffer.
        let told = end.read(&mut out).unwrap_err();
        println!("{lie}: {told}");
        assert!(matches!(told, TransferError::Reset(Reset::Protocol(_))), "{lie}: {told}");
        assert!(out.iter().all(|&byte| byte == 7), "{lie}");
        raw.is_cut_off();
    }
}

/// Creates a server with this configuration and `N` connected peers that have sent WAKEUP.
fn with_peers<const N: usize>(
    name: &str,
    configuration: Configuration,
) -> (Context<ShmNic>, [(Raw, sovia_stream::Stream<ShmNic>); N]) {
    let name = format!("hostile-{name}-{}", std::process::id());
    let nic = ShmNic::open(&name).unwrap();
    let address = nic.address(b"stream");
    let server = Context::new(nic, address, configuration);
    let listener = server.listen();
    let peers = core::array::from_fn(|_| {
        let raw = Raw::connect(&name);
        let (end, _) = listener.accept_within(LONG).unwrap();
        raw.wakeup_as(&configuration);
        (raw, end)
    });
    (server, peers)
}

/// A peer with permission may write at any later time: a correct program can do so with `try_write`.
#[test]
fn a_reader_whose_half_is_closed_needs_no_peer() {
    let (_server, [(raw, end)]) = with_peers("slow", "SOVIA_RDMA".parse().unwrap());
    let leave = std::thread::scope(|s| {
        let reader = s.spawn(|| {
            let mut out = vec![7; 5000];
            let read = end.read(&mut out);
            (read, out.iter().all(|&byte| byte == 7))
        });
        let leave = raw.ask(Request { bytes: 3000, waits: false });
        end.shutdown(Shutdown::Read).unwrap();
        assert_eq!(reader.join().unwrap(), (Ok(0), true));
        leave
    });
    // The permission is still valid. The stream drops the bytes, and the connection continues.
    let written = raw.write(&leave, &[9; 3000]);
    assert!(written.result().is_ok(), "{written:?}");
    assert_eq!((end.readable(), end.try_write(b"x")), (0, Err(TransferError::WouldBlock)));
    let asked = raw.vi.recv_wait(Some(LONG)).unwrap();
    assert_eq!(asked.immediate.unwrap() >> 24, 7, "{asked:?}");
    assert_eq!(raw.vi.state(), ViState::Connected);
}

/// A call that waits has permission for the reader's buffer. The call's message ends the read.
#[test]
fn a_reader_whose_half_is_closed_leaves_with_the_message_that_has_leave() {
    let (_server, [(raw, end)]) = with_peers("waits", "SOVIA_RDMA".parse().unwrap());
    std::thread::scope(|s| {
        let reader = s.spawn(|| end.read(&mut [7; 5000]));
        let leave = raw.ask(Request { bytes: 3000, waits: true });
        end.shutdown(Shutdown::Read).unwrap();
        let written = raw.write(&leave, &[9; 3000]);
        assert!(written.result().is_ok(), "{written:?}");
        assert_eq!(reader.join().unwrap(), Ok(0));
    });
    assert_eq!(raw.vi.state(), ViState::Connected);
}

/// A peer that knows the address of another stream's buffer cannot write to it.
#[test]
fn a_peer_cannot_write_to_another_streams_buffer() {
    // The reading program's buffer, then the stream's landing buffer.
    for waits in [true, false] {
        let name = format!("stranger-{waits}");
        let (_server, peers) = with_peers(&name, "SOVIA_RDMA".parse().unwrap());
        let [(honest, end), (stranger, _its_own)] = peers;
        std::thread::scope(|s| {
            let reader = s.spawn(|| {
                let mut out = vec![7; 5000];
                let read = end.read(&mut out).unwrap();
                out.truncate(read);
                out
            });
            let leave = honest.ask(Request { bytes: 3000, waits });
            let strange = stranger.write(&leave, &[8; 3000]);
            let written = honest.write(&leave, &[9; 1000]);
            assert_eq!(reader.join().unwrap(), [9; 1000]);
            assert!(strange.status.contains(Status::RDMA_PROT_ERROR), "{strange:?}");
            assert!(written.result().is_ok(), "{written:?}");
        });
    }
}
