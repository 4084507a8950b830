//! Buffers that are sent without a copy. The program fills a buffer and lends it to a stream. The stream returns it
//! after sending.
//!
//! Only this module, `received`, `register` and `target` have unsafe code.
#![allow(unsafe_code)]

use crate::error::SetUpError;
use crate::memory::Registered;
use crate::shared::Shared;
use crate::tag::Tag;
use core::fmt;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use std::sync::Arc;
use via::error::RegisterError;
use via::{DataSegment, MemAttributes, Memory, Nic};

/// Registered memory for sending. The program reads and writes it as a slice.
///
/// ```
/// # use sovia_stream::{Configuration, Stack};
/// # use via_sim::{Config, Network};
/// # let network = Network::new(1, Config::default().live());
/// # let (server, client) = (network.nic("server"), network.nic("client"));
/// # let address = server.address(b"example");
/// # let server = Stack::new(server)?;
/// # let listener = server.listen(&address, &Configuration::default())?;
/// # let stack = Stack::new(client)?;
///
/// # let accepted = std::thread::spawn(move || listener.accept().map(|peer| (peer, listener)));
/// # let stream = stack.connect(&address, &Configuration::default(), None)?;
/// # let (peer, listener) = accepted.join().unwrap()?;
/// let mut buffer = stack.buffer(4096)?;
/// buffer[..12].copy_from_slice(b"in its place");
/// stream.lend(buffer, 12).map_err(|(_buffer, error)| error)?;
///
/// let received = peer.borrow()?.expect("no end yet");
/// assert_eq!(received[..], *b"in its place");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Buffer<N: Nic + 'static> {
    registered: Registered<N>,
    len: usize,
    /// Keeps the stack's protection tag alive, which must outlive the registration.
    _stack: Arc<Shared<N>>,
}

impl<N: Nic + 'static> Buffer<N> {
    pub(crate) fn new(stack: &Arc<Shared<N>>, len: usize) -> Result<Buffer<N>, SetUpError> {
        let registered = Registered::new(&stack.nic, Memory::zeroed(len), stack.ptag)?;
        Ok(Buffer { registered, len, _stack: stack.clone() })
    }

    /// Returns a segment for part of the buffer.
    pub(crate) fn segment(&self, at: usize, len: usize) -> DataSegment {
        self.registered.memory.segment(at, len as u32, self.registered.handle)
    }

    /// Registers the buffer again for a stream with its own protection tag. Returns `None` if the stream has no tag of
    /// its own.
    pub(crate) fn under(&self, tag: &Tag<N>) -> Result<Option<Registered<N>>, RegisterError> {
        if !tag.is_own() {
            return Ok(None);
        }
        let attributes = MemAttributes { ptag: Some(tag.ptag()), ..MemAttributes::default() };
        Registered::with(&tag.stack.nic, self.registered.memory.clone(), attributes).map(Some)
    }

    fn start(&self) -> NonNull<u8> {
        let memory = &self.registered.memory;
        memory.range(memory.address(0), 0).expect("memory has a beginning")
    }
}

impl<N: Nic + 'static> Deref for Buffer<N> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the slice covers `len` bytes of initialized memory that only this value owns. The NIC reads them only
        // while a send is posted. During that time the stream owns the value, so no slice exists.
        unsafe { core::slice::from_raw_parts(self.start().as_ptr(), self.len) }
    }
}

impl<N: Nic + 'static> DerefMut for Buffer<N> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the slice covers `len` bytes of initialized memory that only this value owns, and `&mut self`
        // excludes other slices. The NIC reads them only while a send is posted, when the stream owns the value.
        unsafe { core::slice::from_raw_parts_mut(self.start().as_ptr(), self.len) }
    }
}

impl<N: Nic + 'static> fmt::Debug for Buffer<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").field("len", &self.len).finish_non_exhaustive()
    }
}
