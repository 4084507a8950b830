//! Round trips and streams between two VIs on a NIC for RDMA, beside which ib_send_lat and ib_send_bw can be run.
//!
//! `pingpong DEVICE BYTES COUNT`: half the time of a round trip at the median, then the bandwidth of messages of 64 KB.

use std::thread;
use std::time::Instant;
use via::{Connection, DescriptorAddress, Done, MemAttributes, Memory, Nic, Vi, ViAttributes};
use via_verbs::{Config, VerbsNic, VerbsVi};

const WINDOW: usize = 128;
const PLACE: usize = 1 << 16;
const DATA: usize = 4096 * WINDOW;

struct End {
    vi: VerbsVi,
    memory: Memory,
    handle: via::MemHandle,
    _nic: VerbsNic,
}

impl End {
    fn new(nic: VerbsNic) -> End {
        let memory = Memory::zeroed(DATA + PLACE);
        let handle = nic.register_mem(&memory, MemAttributes::default()).expect("registered");
        let attributes =
            ViAttributes { max_transfer_size: PLACE as u32, ..ViAttributes::default() };
        End { vi: nic.create_vi(attributes).expect("a VI"), memory, handle, _nic: nic }
    }

    fn descriptor(&self, i: usize, bytes: usize) -> DescriptorAddress {
        let at = i % WINDOW * 4096;
        let data = [self.memory.segment(DATA, bytes as u32, self.handle)];
        self.memory.descriptor(at).expect("a place").prepare(&data, None).expect("room");
        DescriptorAddress { address: self.memory.address(at), handle: self.handle }
    }

    fn receive(&self, i: usize, bytes: usize) {
        self.vi.post_recv(self.descriptor(i % (WINDOW / 2), bytes)).expect("posted");
    }

    fn send(&self, i: usize, bytes: usize) {
        self.vi.post_send(self.descriptor(i, bytes)).expect("posted");
    }

    fn taken(&self, done: impl Fn(&VerbsVi) -> Done) {
        loop {
            if let Done::Completion(completion) = done(&self.vi) {
                completion.result().expect("a good end");
                return;
            }
            core::hint::spin_loop();
        }
    }
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let [_, device, bytes, count] = &words[..] else { panic!("pingpong DEVICE BYTES COUNT") };
    let (bytes, count): (usize, usize) =
        (bytes.parse().expect("bytes"), count.parse().expect("a count"));
    let open = |port| {
        VerbsNic::open(&format!("{device}:{port}").parse::<Config>().expect("a device"))
            .expect("a NIC")
    };
    let (server, client) = (End::new(open(21_000)), End::new(open(21_001)));
    let at =
        VerbsNic::address_at(&format!("{device}:21000").parse().expect("a device"), b"pingpong");
    for i in 0..WINDOW / 2 {
        server.receive(i, PLACE);
        client.receive(i, PLACE);
    }
    let answering = thread::spawn(move || {
        let request = server._nic.connect_wait(&at, None).expect("a request");
        request.accept(&server.vi).expect("accepted");
        for i in 0..count {
            server.taken(Vi::recv_done);
            server.send(WINDOW / 2 + i % (WINDOW / 2), bytes);
            server.receive(i, PLACE);
            server.taken(Vi::send_done);
        }
        for i in 0..count {
            server.taken(Vi::recv_done);
            server.receive(i, PLACE);
            if i % 16 == 15 {
                server.send(WINDOW - 1, 0);
                server.taken(Vi::send_done);
            }
        }
    });
    let at =
        VerbsNic::address_at(&format!("{device}:21000").parse().expect("a device"), b"pingpong");
    while client.vi.connect_request(&at.with_discriminator(b"client"), &at, None).is_err() {
        thread::yield_now();
    }
    let mut times = Vec::with_capacity(count);
    for i in 0..count {
        let begin = Instant::now();
        client.send(WINDOW / 2, bytes);
        client.taken(Vi::recv_done);
        times.push(begin.elapsed());
        client.receive(i, PLACE);
        client.taken(Vi::send_done);
    }
    times.sort();
    println!(
        "{bytes} bytes: {:.2} us one way (median of {count})",
        times[count / 2].as_secs_f64() * 5e5
    );
    let begin = Instant::now();
    let (mut sent, mut done, mut acked) = (0, 0, 0);
    while done < count {
        // As many as have a receive, and a descriptor.
        if sent < count && sent - done < 32 && sent - acked < 48 {
            client.send(WINDOW / 2 + sent % 32, PLACE);
            sent += 1;
            continue;
        }
        if let Done::Completion(completion) = client.vi.send_done() {
            completion.result().expect("sent");
            done += 1;
        }
        if let Done::Completion(completion) = client.vi.recv_done() {
            completion.result().expect("received");
            client.receive(acked / 16, PLACE);
            acked += 16;
        }
    }
    let rate = (count * PLACE) as f64 / begin.elapsed().as_secs_f64() / 1048576.0;
    println!("{PLACE} bytes: {rate:.2} MB/s");
    answering.join().expect("the other end");
}
