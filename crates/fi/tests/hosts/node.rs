//! Endpoints of one process that reach each other as if they were on two hosts.

use core::cell::UnsafeCell;
use sovia_fi::completion::{Completion, Counter, Failure, Queue, WORDS};
use sovia_fi::endpoint::{Bindings, Post, Remote, Send};
use sovia_fi::memory::{Buffer, Piece};
use sovia_fi::region::Region;
use sovia_fi::vector::Vector;
use sovia_fi::{Address, Endpoint, Error, State, flag};
use std::time::{Duration, Instant};

/// A completion or failure that an endpoint reported.
pub(crate) type Told = Result<Completion, Failure>;

/// An endpoint with its queue, counter and address vector.
pub(crate) struct Node {
    pub(crate) state: State,
    pub(crate) told: Vec<Told>,
}

/// Memory that an endpoint may write to.
pub(crate) struct Bytes(Box<[UnsafeCell<u8>]>);

impl Bytes {
    pub(crate) fn pattern(len: usize, seed: usize) -> Bytes {
        let byte = |at: usize| ((at + seed) * 31 + at / 251) as u8;
        Bytes((0..len).map(|at| UnsafeCell::new(byte(at))).collect())
    }

    pub(crate) fn zeroed(len: usize) -> Bytes {
        Bytes((0..len).map(|_| UnsafeCell::new(0)).collect())
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        // SAFETY: the cell is live. A NIC may write meanwhile, and then only the value of this byte is unspecified.
        self.0.iter().map(|byte| unsafe { byte.get().read_volatile() }).collect()
    }

    pub(crate) fn byte(&self, at: usize) -> u8 {
        // SAFETY: the cell is live. A NIC may write meanwhile, and then only the value of this byte is unspecified.
        unsafe { self.0[at].get().read_volatile() }
    }

    pub(crate) fn address(&self) -> u64 {
        self.0.as_ptr() as u64
    }

    pub(crate) fn buffer(&self) -> Buffer {
        let piece = Piece { address: self.0.as_ptr() as usize, len: self.0.len() };
        // SAFETY: tests keep the memory until the operation is over or the endpoint is closed. Tests read the memory
        // only through `bytes` and `byte`.
        unsafe { Buffer::new(&[piece]) }.unwrap()
    }
}

impl Node {
    /// Opens an endpoint on loopback, with `variables` as its environment.
    pub(crate) fn new(variables: &[(&str, &str)]) -> Node {
        let mut state = State::default();
        state.common.queues.push(Some(Queue::default()));
        state.common.counters.push(Some(Counter::default()));
        state.common.vectors.push(Some(Vector::default()));
        let bindings = Bindings {
            send_queue: Some(0),
            receive_queue: Some(0),
            counters: [None; 6],
            vector: Some(0),
        };
        let endpoint = Endpoint::with(bindings, |name| {
            let given = variables.iter().find(|(its, _)| *its == name);
            match (name, given) {
                (_, Some((_, value))) => Some((*value).to_owned()),
                ("FI_SOVIA_PLACE", None) => Some("udp:127.0.0.1:0".to_owned()),
                ("FI_SOVIA_SHM", None) => Some("off".to_owned()),
                _ => None,
            }
        });
        state.endpoints.push(Some(Box::new(endpoint.unwrap())));
        state.drive(0, &[0], &[], 0);
        Node { state, told: Vec::new() }
    }

    pub(crate) fn address(&mut self) -> Address {
        *self.state.endpoint(0).unwrap().0.address()
    }

    /// Adds an address to the address vector, and returns its number.
    pub(crate) fn knows(&mut self, address: Address) -> u64 {
        self.state.common.vectors[0].as_mut().unwrap().insert(address)
    }

    pub(crate) fn try_send(
        &mut self,
        bytes: &Bytes,
        to: u64,
        tag: u64,
        delivery: bool,
    ) -> Result<(), Error> {
        let send = Send {
            buffer: bytes.buffer(),
            to,
            tag: Some(tag),
            data: Some(tag + 1),
            context: tag as usize,
            tell: true,
            delivery,
        };
        let (endpoint, common) = self.state.endpoint(0)?;
        endpoint.send(common, send)
    }

    pub(crate) fn receive(&mut self, bytes: &Bytes, from: Option<u64>, tag: u64, ignore: u64) {
        let post = Post {
            buffer: bytes.buffer(),
            context: 1_000_000 + tag as usize,
            tell: true,
            tagged: true,
            source: from,
            tag,
            ignore,
            multi: false,
        };
        let (endpoint, common) = self.state.endpoint(0).unwrap();
        endpoint.receive(common, post).unwrap();
    }

    pub(crate) fn remote(&self, bytes: &Bytes, to: u64, address: u64, context: usize) -> Remote {
        let buffer = bytes.buffer();
        Remote { buffer, to, address, key: 5, data: None, context, tell: true }
    }

    pub(crate) fn register(&mut self, bytes: &Bytes) {
        let region = Region {
            memory: bytes.buffer(),
            access: flag::REMOTE_READ | flag::REMOTE_WRITE,
            base: bytes.address(),
            counter: None,
        };
        self.state.common.regions.insert(5, region).unwrap();
    }

    /// Makes progress once, and collects completions and failures.
    pub(crate) fn go(&mut self) {
        self.state.progress_of_queue(0);
        let queue = self.state.queue(0).unwrap();
        loop {
            let mut words = [0; WORDS];
            match queue.take(|at, word| words[at] = word) {
                Ok(source) => {
                    let [context, flags, len, buffer, data, tag] = words;
                    let (context, len, buffer) = (context as usize, len as usize, buffer as usize);
                    let told = Completion { context, flags, len, buffer, data, tag, source };
                    self.told.push(Ok(told));
                }
                Err(Error::AVAILABLE) => {
                    self.told.push(Err(queue.take_failure().unwrap()));
                }
                Err(_) => return,
            }
        }
    }

    /// Returns the result of an operation once it is over.
    pub(crate) fn told_of(&mut self, context: usize) -> Option<Told> {
        let is_it = |told: &Told| match told {
            Ok(completion) => completion.context == context,
            Err(failure) => failure.completion.context == context,
        };
        let at = self.told.iter().position(is_it)?;
        Some(self.told.remove(at))
    }
}

/// Returns two nodes that know each other under number 0.
pub(crate) fn two(variables: &[(&str, &str)]) -> (Node, Node) {
    let (mut one, mut other) = (Node::new(variables), Node::new(variables));
    let (to_one, to_other) = (one.address(), other.address());
    assert_eq!((one.knows(to_other), other.knows(to_one)), (0, 0));
    (one, other)
}

/// Drives all nodes until `done` returns a value.
#[track_caller]
pub(crate) fn until<T>(
    nodes: &mut [&mut Node],
    mut done: impl FnMut(&mut [&mut Node]) -> Option<T>,
) -> T {
    // The limit only ends a test that hangs.
    let begun = Instant::now();
    loop {
        nodes.iter_mut().for_each(|node| node.go());
        if let Some(told) = done(nodes) {
            return told;
        }
        assert!(begun.elapsed() < Duration::from_secs(300), "nothing has come of it");
    }
}

/// Sends, and makes progress while no room is free.
pub(crate) fn send(nodes: &mut [&mut Node], from: usize, bytes: &Bytes, tag: u64, delivery: bool) {
    until(nodes, |nodes| match nodes[from].try_send(bytes, 0, tag, delivery) {
        Ok(()) => Some(()),
        Err(Error::AGAIN) => None,
        Err(error) => panic!("{error:?}"),
    });
}
