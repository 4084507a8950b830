//! Cost of a send before it is posted: registering the bytes, or copying them (figure 6 of the ICS paper). Only the
//! requester works.

use std::hint::black_box;
use std::ptr::NonNull;

use anyhow::Context;
use nix::sys::resource::{Resource, getrlimit};
use via::{MemAttributes, Memory, Nic};

use super::Player;
use crate::measure::bench::papers::station::{Room, Station};
use crate::measure::bench::papers::work::{Metric, Prepared};

/// Size of the memory for copies from uncached memory: much more than a processor's own caches.
const UNCACHED_BYTES: usize = 256 << 20;

/// Memory to copy from or to pin, and to copy to.
struct Copying {
    memory: Memory,
    target: Vec<u8>,
    /// Offset of the next copy.
    at: usize,
}

impl Copying {
    /// Allocates the memory and touches every page.
    fn new(from: usize, to: usize) -> Self {
        let memory = Memory::zeroed(from);
        let ones = vec![1; 1 << 20];
        for at in (0..from).step_by(ones.len()) {
            memory.write(at, &ones[..ones.len().min(from - at)]);
        }
        Self { memory, target: vec![1; to], at: 0 }
    }

    /// Copies `len` bytes from after the last copy.
    fn copy(&mut self, len: usize) {
        if self.at + len > self.memory.len() {
            self.at = 0;
        }
        self.memory.read(self.at, &mut self.target[..len]);
        black_box(&mut self.target);
        self.at += len;
    }

    fn start(&self) -> anyhow::Result<NonNull<u8>> {
        self.memory.range(self.memory.address(0), 0).context("no memory")
    }
}

impl Player<'_> {
    pub(super) fn registering<N: Nic>(
        &mut self,
        nic: N,
        prepared: Prepared,
        sizes: &[usize],
        held: usize,
    ) -> anyhow::Result<()> {
        let station = self.station(nic, Room { short: 1, long: 0, data: 4096 })?;
        let largest = sizes.iter().copied().max().unwrap_or(1);
        let from = if prepared == Prepared::CopiedUncached { UNCACHED_BYTES } else { largest };
        let is_requester = self.is_requester();
        // Memory that stays registered, or locked, while this function runs.
        let beside = Memory::zeroed(held.max(1));
        let handle = match prepared {
            Prepared::Registered if held > 0 => {
                Some(station.nic.register_mem(&beside, MemAttributes::default())?)
            }
            Prepared::Pinned if held > 0 && held as u64 <= lockable()? => {
                lock(beside.range(beside.address(0), 0).context("no memory")?, held)?;
                None
            }
            _ => None,
        };
        let mut copying =
            if is_requester { Copying::new(from, largest) } else { Copying::new(1, 1) };
        // Both ends have the same limit.
        let most = if prepared == Prepared::Pinned { lockable()? } else { u64::MAX };
        for &len in sizes.iter().filter(|&&len| len as u64 <= most) {
            let request = || {
                match prepared {
                    Prepared::Registered => register(&station, copying.start()?, len)?,
                    Prepared::Pinned => pin(copying.start()?, len)?,
                    Prepared::CopiedCached => {
                        copying.at = 0;
                        copying.copy(len);
                    }
                    Prepared::CopiedUncached => copying.copy(len),
                }
                Ok(())
            };
            if let Some(ns) = self.rounds(request, || Ok(()))? {
                self.reading(Metric::Preparing, len, ns / 1e3);
            }
        }
        if let Some(handle) = handle {
            station.nic.deregister_mem(handle)?;
        }
        Ok(())
    }
}

/// Registers memory and deregisters it.
fn register<N: Nic>(station: &Station<N>, start: NonNull<u8>, len: usize) -> anyhow::Result<()> {
    // SAFETY: the bytes belong to the caller's memory, which outlives the registration. No descriptor names them.
    let memory = unsafe { Memory::from_raw(start, len) };
    let handle = station.nic.register_mem(&memory, MemAttributes::default())?;
    Ok(station.nic.deregister_mem(handle)?)
}

/// Returns the number of bytes that this process may lock.
fn lockable() -> anyhow::Result<u64> {
    Ok(getrlimit(Resource::RLIMIT_MEMLOCK)?.0)
}

/// Locks bytes until this process ends or the memory is unmapped.
fn lock(start: NonNull<u8>, len: usize) -> anyhow::Result<()> {
    // SAFETY: mlock does not change memory.
    let locked = unsafe { libc::mlock(start.as_ptr().cast(), len) == 0 };
    let why = std::io::Error::last_os_error;
    anyhow::ensure!(locked, "cannot lock {len} bytes: {}", why());
    Ok(())
}

/// Locks and unlocks memory: the least that the kernel's part of a registration costs if it pins pages.
fn pin(start: NonNull<u8>, len: usize) -> anyhow::Result<()> {
    let start = start.as_ptr().cast();
    // SAFETY: mlock and munlock do not change memory.
    let pinned = unsafe { libc::mlock(start, len) == 0 && libc::munlock(start, len) == 0 };
    let why = std::io::Error::last_os_error;
    anyhow::ensure!(pinned, "cannot lock {len} bytes: {}", why());
    Ok(())
}
