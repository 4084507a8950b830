//! Sends from the program's own memory: tests of messages whose memory the program gets back before they have arrived.

use crate::common::{Choices, End, RELIABLE, open, open_memory, pair, seeds};
use core::cell::Cell;
use via::{MemAttributes, Memory, Nic, Vi};
use via_sim::{Config, Link, Network, SimNic};

const LEN: usize = 20_000;

/// An action of a program on memory from which a message is being sent.
type Deed = fn(&SimNic, &End, via::MemHandle);

/// Posts a send, executes `deed` at a random moment, and overwrites the memory. Returns true if the message has
/// arrived. It must then be unchanged.
fn arrives(seed: u64, deed: Deed) -> bool {
    let mut choices = Choices::new(seed);
    let faults = Link::faulty(choices.below(20) as f64 / 100.0);
    let network =
        Network::new(seed, Config { retransmit_tries: 80, ..Config::default().over(faults) });
    let [(nic, a), (_, b)] = pair(&network, LEN, open(RELIABLE[choices.below(2)]));
    let memory = Memory::zeroed(LEN);
    let handle = nic.register_mem(&memory, open_memory()).unwrap();
    let message = choices.bytes(LEN);
    memory.write(0, &message);
    b.post_recv(0, 0, LEN);
    let place = a.place(0);
    let descriptor = a.memory.descriptor_at(place.address).unwrap();
    descriptor.prepare(&[memory.segment(0, LEN as u32, handle)], None).unwrap();
    a.vi.post_send(place).unwrap();
    for _ in 0..choices.below(60) {
        network.step();
    }
    // The NIC owns the memory until the send completes.
    let is_done = !a.sent().is_empty();
    deed(&nic, &a, handle);
    memory.write(0, &[0xEE; LEN]);
    network.run();
    let came: Vec<_> = b.received().iter().map(|done| done.result()).collect();
    let has_come = matches!(came[..], [Ok(_)]);
    if has_come {
        assert!(b.bytes(0, LEN) == message, "another message has come");
    }
    assert!(has_come || !is_done, "it was done and did not arrive");
    has_come
}

/// Executes `deed` at many moments. At some of them the message must arrive although its send was not complete.
fn tries(deed: Deed) {
    let arrived = Cell::new(0);
    seeds(200, |seed| arrived.set(arrived.get() + u32::from(arrives(seed, deed))));
    println!("{} messages arrived", arrived.get());
    assert!(arrived.get() > 0);
}

#[test]
fn message_from_deregistered_memory_arrives_as_posted() {
    tries(|nic, _, handle| nic.deregister_mem(handle).unwrap());
}

#[test]
fn message_from_memory_forbidden_afterwards_arrives_as_posted() {
    tries(|nic, _, handle| {
        let ptag = Some(nic.create_ptag().unwrap());
        nic.set_mem_attributes(handle, MemAttributes { ptag, ..open_memory() }).unwrap();
    });
}

#[test]
fn message_of_an_ended_connection_arrives_as_posted_or_not_at_all() {
    tries(|_, a, _| a.vi.disconnect());
}
