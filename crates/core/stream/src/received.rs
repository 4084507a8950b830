//! Arrived packets where they arrived, which a program reads without copying them.
//!
//! This, `buffer`, `register` and `target` are the only places with unsafe code.
#![allow(unsafe_code)]

use crate::core::Core;
use core::fmt;
use core::ops::Deref;
use core::ptr::NonNull;
use via::Nic;

/// An arrived packet, or the rest of one, as a slice. Dropping it gives its place back to the peer.
pub struct Received<'s, N: Nic + 'static> {
    core: &'s Core<N>,
    place: Place,
}

enum Place {
    /// In the buffer of that receive.
    Receive { receive: u16, start: NonNull<u8>, len: usize },
    /// In memory of its own.
    Own(Vec<u8>),
}

// SAFETY: the pointer is to bytes that belong to this value until it is dropped, whichever thread
// has it.
unsafe impl<N: Nic + 'static> Send for Received<'_, N> {}
// SAFETY: shared, it only lends its bytes for reading.
unsafe impl<N: Nic + 'static> Sync for Received<'_, N> {}

impl<'s, N: Nic + 'static> Received<'s, N> {
    /// Bytes `had..len` of the buffer of a receive that is not posted.
    pub(crate) fn packet(core: &'s Core<N>, receive: u16, len: u32, had: u32) -> Self {
        let start = core.slots.received(usize::from(receive), len);
        let place = match start {
            Some(start) => {
                // SAFETY: `had` is at most `len`, and so many bytes from `start` on are the buffer's.
                let start = unsafe { start.add(had as usize) };
                Place::Receive { receive, start, len: (len - had) as usize }
            }
            None => Place::Own(Vec::new()),
        };
        Received { core, place }
    }

    pub(crate) fn own(core: &'s Core<N>, bytes: Vec<u8>) -> Self {
        Received { core, place: Place::Own(bytes) }
    }
}

impl<N: Nic + 'static> Deref for Received<'_, N> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.place {
            // SAFETY: the range lies in the core's memory, which it outlives; its receive is not
            // posted until this is dropped, so the NIC does not write to it.
            Place::Receive { start, len, .. } => unsafe {
                core::slice::from_raw_parts(start.as_ptr(), *len)
            },
            Place::Own(bytes) => bytes,
        }
    }
}

impl<N: Nic + 'static> Drop for Received<'_, N> {
    fn drop(&mut self) {
        if let Place::Receive { receive, .. } = self.place {
            self.core.give_back(receive);
        }
    }
}

impl<N: Nic + 'static> fmt::Debug for Received<'_, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Received").field("len", &self.len()).finish_non_exhaustive()
    }
}
