//! NetPIPE's module for VIA (Euro-Par 2001, section 3), on any NIC: sends blocks of any length over a VI with a limited
//! message length.
//!
//! - The receives are a ring of descriptors, each with a buffer of MaxTransferSize in registered memory. All are posted
//!   before the connection is made. Each is posted again after its message has been read.
//! - A block is sent in fragments of MaxTransferSize from a pool of registered memory, by a ring of send descriptors.
//!   So no memory is registered or copied for a block. The receiver leaves the block in its buffers.
//! - The sender waits for a "continue" message after as many fragments as the receiver has descriptors. The receiver
//!   sends this message when it has used up its descriptors, has posted all of them again, and expects more.
//!
//! The ends take turns, as in NetPIPE. So each message also tells the peer that this end has received everything and
//! posted its descriptors. An end therefore counts fragments since the last message from the other end, over several
//! blocks.

use std::io;

use anyhow::Context;
use via::error::ConnectError;
use via::{
    Completion, Connection, DescriptorAddress, Done, MemAttributes, MemHandle, Memory, NetAddress,
    Nic, Vi, ViAttributes,
};

use super::{Link, spin};
use crate::measure::bench::task::Wait;

/// Number of descriptors in each ring: receives and sends.
pub(in crate::measure::bench) const RING: usize = 32;
/// Distance between descriptors in bytes.
const DESCRIPTOR_BYTES: usize = 64;
const DISCRIMINATOR: &[u8] = b"netpipe";
/// Immediate data of a "continue" message, which has no bytes. Fragments have no immediate data.
const CONTINUE: u32 = 1;

/// One end.
pub(in crate::measure::bench) struct Module<N: Nic> {
    /// Declared before the NIC, so that it is dropped first.
    vi: N::Vi,
    /// Keeps the NIC open.
    nic: N,
    wait: Wait,
    memory: Memory,
    handle: MemHandle,
    transfer_max: usize,
    /// Offsets of the receive buffers and of the pool.
    buffers: usize,
    pool: usize,
    pool_len: usize,
    /// Number of sends, and number of sends known to be complete.
    sent: usize,
    done: usize,
    /// Fragments sent since the other end's last message, and fragments received since this end's last message.
    unanswered: usize,
    taken: usize,
    /// Number of "continue" messages that this end has sent.
    #[cfg(test)]
    continues: u64,
}

/// Error of the module's protocol.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("the VI has failed: {0}")]
    Broken(String),
    #[error("the other end sent \"continue\" instead of a fragment")]
    UnexpectedContinue,
    #[error("the other end sent a fragment instead of \"continue\"")]
    NoContinue,
    #[error("a block of {0} bytes does not fit the pool of {1} bytes")]
    Block(usize, usize),
    #[error("received a fragment of {0} bytes: expected at most {1} bytes")]
    Fragment(usize, usize),
}

impl<N: Nic> Module<N> {
    /// Makes an end on a NIC, for blocks of up to `longest` bytes. Its receives are posted, and it is not connected.
    pub(in crate::measure::bench) fn new(
        nic: N,
        wait: Wait,
        longest: usize,
    ) -> anyhow::Result<Self> {
        let transfer_max = nic.attributes().max_transfer_size as usize;
        let attributes =
            ViAttributes { max_transfer_size: transfer_max as u32, ..ViAttributes::default() };
        let vi = nic.create_vi(attributes)?;
        let buffers = (2 * RING * DESCRIPTOR_BYTES).next_multiple_of(4096);
        let pool = buffers + RING * transfer_max;
        let pool_len = longest.max(1);
        let memory = Memory::zeroed(pool + pool_len);
        let handle = nic.register_mem(&memory, MemAttributes::default())?;
        let module = Self {
            vi,
            nic,
            wait,
            memory,
            handle,
            transfer_max,
            buffers,
            pool,
            pool_len,
            sent: 0,
            done: 0,
            unanswered: 0,
            taken: 0,
            #[cfg(test)]
            continues: 0,
        };
        for n in 0..RING {
            let buffer =
                module.memory.segment(buffers + n * transfer_max, transfer_max as u32, handle);
            let descriptor = module
                .memory
                .descriptor(n * DESCRIPTOR_BYTES)
                .context("cannot use a descriptor of registered memory")?;
            descriptor.prepare(&[buffer], None)?;
            module.vi.post_recv(module.address(n))?;
        }
        Ok(module)
    }

    /// Waits for the other end's connection.
    pub(in crate::measure::bench) fn accept(self) -> anyhow::Result<Self> {
        let address = self.own();
        let request = self.nic.connect_wait(&address, None)?;
        request
            .accept(&self.vi)
            .map_err(|refused| anyhow::anyhow!("cannot accept a connection: {}", refused.error))?;
        Ok(self)
    }

    /// Connects to the other end, whose NIC is at the host address `host`.
    pub(in crate::measure::bench) fn connect(self, host: &[u8]) -> anyhow::Result<Self> {
        let own = self.own();
        let server = NetAddress::new(host, DISCRIMINATOR);
        // The responder may not wait yet.
        let connected = spin(|| match self.vi.connect_request(&own, &server, None) {
            Err(ConnectError::NoMatch) => None,
            other => Some(other),
        });
        connected.context("cannot connect the VI")?;
        Ok(self)
    }

    fn address(&self, descriptor: usize) -> DescriptorAddress {
        let address = self.memory.address(descriptor * DESCRIPTOR_BYTES);
        DescriptorAddress { address, handle: self.handle }
    }

    fn own(&self) -> NetAddress {
        NetAddress::new(&self.nic.attributes().local_address, DISCRIMINATOR)
    }

    fn fault(fault: Fault) -> io::Error {
        io::Error::other(fault)
    }

    /// Returns the error for a VI that has failed.
    fn broken(&self) -> io::Error {
        let cause = self.vi.cause().map_or("unknown cause".to_owned(), |it| it.to_string());
        Self::fault(Fault::Broken(cause))
    }

    /// Waits for a completion: by polling with `done` or by blocking with `wait`.
    fn completed<E>(
        &self,
        done: impl Fn(&N::Vi) -> Done,
        wait: impl Fn(&N::Vi) -> Result<Completion, E>,
    ) -> io::Result<Completion> {
        let completion = match self.wait {
            Wait::Poll => spin(|| match done(&self.vi) {
                Done::Completion(completion) => Some(Some(completion)),
                Done::NotDone => None,
                Done::Empty => Some(None),
            }),
            Wait::Block | Wait::Sleep => wait(&self.vi).ok(),
        };
        let completion = completion.filter(|completion| completion.result().is_ok());
        completion.ok_or_else(|| self.broken())
    }

    /// Posts the next send descriptor of the ring, after it has become free.
    fn post(&mut self, from: usize, len: usize, immediate: Option<u32>) -> io::Result<()> {
        // Completed sends return to the ring. If the ring is full, waits for the oldest one.
        while self.done < self.sent {
            if self.sent - self.done == RING {
                self.completed(Vi::send_done, |vi| vi.send_wait(None))?;
            } else {
                match self.vi.send_done() {
                    Done::Completion(completion) if completion.result().is_ok() => {}
                    Done::NotDone => break,
                    Done::Completion(_) | Done::Empty => return Err(self.broken()),
                }
            }
            self.done += 1;
        }
        let place = RING + self.sent % RING;
        let data = self.memory.segment(self.pool + from, len as u32, self.handle);
        let descriptor = self.memory.descriptor(place * DESCRIPTOR_BYTES);
        let descriptor = descriptor.ok_or_else(|| self.broken())?;
        let data = if len == 0 { &[][..] } else { &[data][..] };
        descriptor.prepare(data, immediate).map_err(io::Error::other)?;
        self.vi.post_send(self.address(place)).map_err(io::Error::other)?;
        self.sent += 1;
        self.taken = 0;
        Ok(())
    }

    /// Waits for the next message. `repost` posts its descriptor again.
    fn arrival(&mut self) -> io::Result<Completion> {
        let arrival = self.completed(Vi::recv_done, |vi| vi.recv_wait(None))?;
        self.unanswered = 0;
        Ok(arrival)
    }

    fn repost(&self, arrival: &Completion) -> io::Result<()> {
        self.vi.post_recv(arrival.descriptor).map_err(io::Error::other)
    }
}

impl<N: Nic> Link for Module<N> {
    /// Sends a block from the pool, with the length and the first byte of `data`.
    fn send(&mut self, data: &[u8]) -> io::Result<()> {
        if data.len() > self.pool_len {
            return Err(Self::fault(Fault::Block(data.len(), self.pool_len)));
        }
        let mut from = 0;
        if let Some(first) = data.first() {
            self.memory.write(self.pool, &[*first]);
        }
        while from < data.len() {
            if self.unanswered == RING {
                let arrival = self.arrival()?;
                if arrival.immediate != Some(CONTINUE) {
                    return Err(Self::fault(Fault::NoContinue));
                }
                self.repost(&arrival)?;
            }
            let len = (data.len() - from).min(self.transfer_max);
            self.post(from, len, None)?;
            self.unanswered += 1;
            from += len;
        }
        Ok(())
    }

    /// Receives a fragment, and copies only its first byte.
    fn receive(&mut self, data: &mut [u8]) -> io::Result<usize> {
        if self.taken == RING {
            self.post(0, 0, Some(CONTINUE))?;
            #[cfg(test)]
            {
                self.continues += 1;
            }
        }
        let arrival = self.arrival()?;
        if arrival.immediate.is_some() {
            return Err(Self::fault(Fault::UnexpectedContinue));
        }
        let len = arrival.length as usize;
        if len == 0 || len > data.len() {
            return Err(Self::fault(Fault::Fragment(len, data.len())));
        }
        let descriptor = (arrival.descriptor.address - self.memory.address(0)) as usize;
        let buffer = self.buffers + descriptor / DESCRIPTOR_BYTES * self.transfer_max;
        self.memory.read(buffer, &mut data[..1]);
        self.repost(&arrival)?;
        self.taken += 1;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use via_eth::{Config, EthNic, Place};

    fn nic() -> EthNic {
        Config::new(Place::Udp(([127, 0, 0, 1], 0).into())).open().unwrap()
    }

    /// Sends blocks there and back. Returns the number of continues that the responder has sent after each block.
    fn continues(wait: Wait, blocks: &[usize]) -> Vec<u64> {
        let longest = *blocks.iter().max().unwrap();
        let (tell, told) = channel();
        std::thread::scope(|s| {
            let responder = s.spawn(move || {
                let module = Module::new(nic(), wait, longest).unwrap();
                tell.send(module.nic.attributes().local_address.clone()).unwrap();
                let mut module = module.accept().unwrap();
                let mut continues = Vec::new();
                for (number, &block) in blocks.iter().enumerate() {
                    let mut bytes = vec![0; block];
                    module.receive_all(&mut bytes).unwrap();
                    assert_eq!(bytes[0], number as u8);
                    continues.push(module.continues);
                    module.send(&bytes).unwrap();
                }
                // The last block may be in flight until the other end disconnects.
                let _ = module.vi.recv_wait(None);
                continues
            });
            let host = told.recv().unwrap();
            let mut module = Module::new(nic(), wait, longest).unwrap().connect(&host).unwrap();
            for (number, &block) in blocks.iter().enumerate() {
                let mut bytes = vec![number as u8; block];
                module.send(&bytes).unwrap();
                bytes[0] = 0xff;
                module.receive_all(&mut bytes).unwrap();
                assert_eq!(bytes[0], number as u8);
            }
            module.vi.disconnect();
            responder.join().unwrap()
        })
    }

    #[test]
    fn receiver_sends_continue_when_its_descriptors_are_used_up() {
        let ring = RING * (64 << 10);
        let blocks = [1, 64 << 10, (64 << 10) + 1, ring, ring + 1, 2 * ring, 3 * ring + 5, 7];
        for wait in [Wait::Poll, Wait::Sleep] {
            assert_eq!(continues(wait, &blocks), [0, 0, 0, 0, 1, 2, 5, 5]);
        }
    }

    #[test]
    fn block_longer_than_the_pool_is_refused() {
        let mut module = Module::new(nic(), Wait::Poll, 100).unwrap();
        let refused = module.send(&[0; 101]).unwrap_err();
        assert_eq!(refused.to_string(), "a block of 101 bytes does not fit the pool of 100 bytes");
    }
}
