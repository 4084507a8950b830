//! Registration at the papers' costs, in simulated time: by itself, and by a stream. The stream's cache of registered
//! buffers is off, or notices unmapped memory, or is notified by the program. Only the requester works, and no result
//! depends on the machine.

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use sovia_stream::{Caching, Configuration, Stack, Stream, Unconnected};
use via::{MemAttributes, MemHandle, Memory, Nic, Vi};
use via_sim::{Config, Network, Registering, SimNic};

use super::Player;
use crate::measure::bench::papers::work::{Law, Metric, Sender};

/// Time that no operation exceeds.
const LONG: Duration = Duration::from_secs(60);
/// Number of sends in a mean, and number of sends from the same memory. After those, the memory is unmapped, and other
/// memory gets its addresses.
const SENDS: u32 = 16;
const SENDS_OF_ONE: u32 = 8;

/// Mapped pages to send from.
struct Pages {
    start: NonNull<libc::c_void>,
    len: usize,
}

impl Pages {
    fn new(len: usize) -> anyhow::Result<Self> {
        let len = len.max(1);
        Ok(Self { start: map(None, len)?, len })
    }

    /// Replaces the pages by new ones at the same addresses.
    fn renew(&mut self) -> anyhow::Result<()> {
        map(Some(self.start), self.len).map(drop)
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the pages stay mapped while `self` lives, and no thread writes to them.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.len) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, and no slice of it is left. After an error the mapping stays.
        let _ = unsafe { munmap(self.start, self.len) };
    }
}

fn map(at: Option<NonNull<libc::c_void>>, len: usize) -> anyhow::Result<NonNull<libc::c_void>> {
    let flags = if at.is_some() { MapFlags::MAP_FIXED } else { MapFlags::empty() };
    let at = at.and_then(|at| std::num::NonZeroUsize::new(at.as_ptr().expose_provenance()));
    let len = std::num::NonZeroUsize::new(len).context("no bytes")?;
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: either the kernel chooses the address, or the call replaces the caller's own mapping. No slice of that
    // mapping is left.
    let mapped = unsafe { mmap_anonymous(at, len, access, flags | MapFlags::MAP_PRIVATE) };
    mapped.context("cannot map memory")
}

/// Two ends of a stream. This thread advances their simulated time.
struct Ends {
    network: Network,
    near: Stack<SimNic>,
    stream: Stream<SimNic>,
    peer: Stream<SimNic>,
    _far: Stack<SimNic>,
}

impl Ends {
    fn new(costs: Registering) -> anyhow::Result<Self> {
        let network = Network::new(1, Config::default().registering(costs));
        let [near, far] = [network.nic("a"), network.nic("b")].map(Stack::stepped);
        let (near, far) = (near?, far?);
        let [a, b] = [&near, &far].map(|stack| stack.nic().address(b"end"));
        let how: Configuration = "SOVIA_DACKS,reg".parse()?;
        let (one, other) = (near.unconnected(&how)?, far.unconnected(&how)?);
        one.vi().connect_peer_request(&a, &b, Some(LONG))?;
        other.vi().connect_peer_request(&b, &a, Some(LONG))?;
        one.vi().connect_peer_wait()?;
        other.vi().connect_peer_wait()?;
        let [stream, peer] = [one, other].map(Unconnected::connected);
        Ok(Self { network, near, stream, peer, _far: far })
    }

    /// Sends bytes, and receives them at the other end.
    fn send(&self, bytes: &[u8]) -> anyhow::Result<()> {
        ensure!(self.stream.write(bytes)? == bytes.len(), "a write was short");
        let (mut out, mut got) = (vec![0; bytes.len()], 0);
        while got < out.len() {
            got += self.peer.read_within(&mut out[got..], LONG)?;
        }
        Ok(())
    }

    /// Returns the time of all sends; `None` if unmapped memory cannot be noticed here.
    fn sends(&self, caching: Option<Caching>, len: usize) -> anyhow::Result<Option<Duration>> {
        if let Some(caching) = caching
            && self.near.set_caching(caching).is_err()
        {
            return Ok(None);
        }
        let mut pages = Pages::new(len)?;
        self.network.run();
        let begin = self.network.now();
        for send in 0..SENDS {
            if send > 0 && send % SENDS_OF_ONE == 0 {
                if caching == Some(Caching::Told) {
                    self.near.forget(pages.bytes().as_ptr_range());
                }
                pages.renew()?;
            }
            self.send(pages.bytes())?;
        }
        Ok(Some(self.network.now().since(begin)))
    }
}

/// Memory that stays registered.
struct Held {
    nic: Arc<SimNic>,
    handle: MemHandle,
    _memory: Memory,
}

impl Held {
    fn new(nic: &Arc<SimNic>, bytes: usize) -> anyhow::Result<Self> {
        let memory = Memory::zeroed(bytes);
        let handle = nic.register_mem(&memory, MemAttributes::default())?;
        Ok(Self { nic: nic.clone(), handle, _memory: memory })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // The call fails only for an unknown handle, and this handle is known.
        let _ = self.nic.deregister_mem(self.handle);
    }
}

/// Registers and deregisters bytes once, without a stream.
fn alone(costs: Registering, len: usize, held: usize) -> anyhow::Result<Duration> {
    let network = Network::new(1, Config::default().registering(costs));
    let nic = Arc::new(network.nic("a"));
    let _held = (held > 0).then(|| Held::new(&nic, held)).transpose()?;
    let memory = Memory::zeroed(len);
    let begin = network.now();
    let handle = nic.register_mem(&memory, MemAttributes::default())?;
    nic.deregister_mem(handle)?;
    Ok(network.now().since(begin))
}

/// Returns the mean cost of registering the bytes of a send, in µs. Returns `None` if this machine's kernel does not
/// report unmapped memory.
fn cost(law: Law, sender: Sender, len: usize, held: usize) -> anyhow::Result<Option<f64>> {
    let costs = match law {
        Law::MVia => Registering::M_VIA,
        Law::Clan => Registering::PUBLISHED,
    };
    let caching = match sender {
        Sender::Alone => return Ok(Some(alone(costs, len, held)?.as_secs_f64() * 1e6)),
        Sender::CacheOff => Caching::Off,
        Sender::CacheOn => Caching::Noticed,
        Sender::CacheTold => Caching::Told,
    };
    let Some(costly) = Ends::new(costs)?.sends(Some(caching), len)? else { return Ok(None) };
    let free = Ends::new(Registering::FREE)?.sends(None, len)?.unwrap_or_default();
    Ok(Some(costly.saturating_sub(free).as_secs_f64() * 1e6 / f64::from(SENDS)))
}

impl Player<'_> {
    pub(super) fn simulated(
        &mut self,
        law: Law,
        sender: Sender,
        sizes: &[usize],
        held: usize,
    ) -> anyhow::Result<()> {
        if !self.is_requester() {
            return Ok(());
        }
        for &len in sizes {
            if let Some(us) = cost(law, sender, len, held)? {
                self.reading(Metric::Preparing, len, us);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(law: Law, sender: Sender, len: usize, held: usize) -> Option<f64> {
        cost(law, sender, len, held).unwrap().map(|us| (us * 100.0).round() / 100.0)
    }

    #[test]
    fn send_without_a_stream_costs_what_the_paper_reports() {
        assert_eq!(at(Law::MVia, Sender::Alone, 4, 0), Some(4.3));
        assert_eq!(at(Law::MVia, Sender::Alone, 4, 2 << 20), Some(10.1));
        assert_eq!(at(Law::Clan, Sender::Alone, 4, 2 << 20), Some(3.5));
    }

    /// By M-VIA's law, the stream's own buffers make registration more expensive (ICS 2001, section 4.1).
    #[test]
    fn a_stream_registers_each_send_or_each_buffer() {
        let off = at(Law::Clan, Sender::CacheOff, 4096, 0).unwrap();
        assert_eq!(off, 3.5, "one page");
        assert!(at(Law::MVia, Sender::CacheOff, 4096, 0).unwrap() > 2.0 * 4.3);
        // There are two registrations in sixteen sends, and the last one is not undone.
        let told = at(Law::Clan, Sender::CacheTold, 4096, 0).unwrap();
        assert!(told > 0.0 && told < off / 7.0, "{told}");
        match at(Law::Clan, Sender::CacheOn, 4096, 0) {
            Some(on) => assert_eq!(on, told),
            None => println!("SKIPPED: the kernel does not tell of memory that goes"),
        }
    }
}
