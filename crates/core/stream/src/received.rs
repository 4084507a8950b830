//! Arrived packets that the program reads in their receive buffers, without a copy.
//!
//! Only this module, `buffer`, `register` and `target` have unsafe code.
#![allow(unsafe_code)]

use crate::core::Core;
use core::fmt;
use core::ops::Deref;
use core::ptr::NonNull;
use via::Nic;

/// An arrived packet, or the rest of one, as a slice. Dropping it returns the packet's place in the window to the peer.
pub struct Received<'s, N: Nic + 'static> {
    core: &'s Core<N>,
    place: Place,
}

enum Place {
    /// In the buffer of the receive with this index.
    Receive { receive: u16, start: NonNull<u8>, len: usize },
    /// In memory of its own.
    Own(Vec<u8>),
}

// SAFETY: the pointer refers to bytes that only this value uses until it is dropped. So any thread may hold the value.
unsafe impl<N: Nic + 'static> Send for Received<'_, N> {}
// SAFETY: a shared reference only gives read access to bytes that no code writes until the value is dropped.
unsafe impl<N: Nic + 'static> Sync for Received<'_, N> {}

impl<'s, N: Nic + 'static> Received<'s, N> {
    /// Borrows bytes `had..len` in the buffer of a receive that is not posted.
    pub(crate) fn packet(core: &'s Core<N>, receive: u16, len: u32, had: u32) -> Self {
        let start = core.slots.received(usize::from(receive), len);
        let place = match start {
            Some(start) => {
                // SAFETY: `had` is at most `len`, and the buffer has `len` bytes from `start` on.
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
            // SAFETY: the range lies in the core's memory, which stays valid while `core` is borrowed. The receive is
            // not posted until this value is dropped, so the NIC does not write to the range.
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
