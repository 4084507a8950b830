//! Streams over a NIC: the type with which a program begins.

use crate::background::Background;
use crate::buffer::Buffer;
use crate::cache::{CacheCounters, Caching};
use crate::core::Patience;
use crate::error::{CachingError, ConnectError, SetUpError, TransferError};
use crate::listener::Listener;
use crate::shared::Shared;
use crate::stream::Stream;
use crate::unconnected::Unconnected;
use core::ops::Range;
use core::time::Duration;
use sovia_proto::configuration::Configuration;
use std::sync::Arc;
use std::thread;
use std::time::Instant;
use via::error::ConnectError::NoMatch;
use via::{NetAddress, Nic, Vi};

/// Time without a listener at an address after which [`Stack::connect`] reports that there is none. A listener does not
/// wait while it accepts a request, nor before its thread has begun. On a busy machine that thread may not run for some
/// tenths of a second.
const NO_LISTENER: Duration = Duration::from_secs(1);
/// Number of requests without a listener that are needed as well. A machine that stops for a second gives no listener
/// the time to begin.
const TRIES: u32 = 500;
/// Pause after a request that found no listener.
const PAUSE: Duration = Duration::from_micros(200);

/// Streams over a NIC. A program may drop a stack before its streams. Exception: dropping a stepped stack loses the
/// bytes that its closed streams have not sent yet.
///
/// ```
/// use sovia_stream::{Configuration, Stack};
/// use via_shm::ShmNic;
///
/// let stack = Stack::new(ShmNic::open("stack-example")?)?;
/// // The configuration that suits this provider. A listener or a stream may use another one.
/// let configuration = Configuration { chunk: 16 << 10, ..stack.recommended() };
/// let listener = stack.listen(&stack.nic().address(b"echo"), &configuration)?;
/// println!("listening at {}", listener.local_address());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Stack<N: Nic + 'static>(pub(crate) Arc<Shared<N>>);

impl<N: Nic + 'static> Stack<N> {
    /// Creates a stack over `nic`. The stack starts its threads when it needs them.
    ///
    /// # Errors
    /// [`SetUpError::Ptag`].
    pub fn new(nic: N) -> Result<Stack<N>, SetUpError> {
        Stack::with(nic, Background::threaded())
    }

    /// Creates a stack without its own threads, for simulation. Combined bytes wait until [`Stream::flush`]. Closed
    /// streams continue only in [`Stack::step`], while the stack exists.
    ///
    /// # Errors
    /// [`SetUpError::Ptag`].
    pub fn stepped(nic: N) -> Result<Stack<N>, SetUpError> {
        Stack::with(nic, Background::stepped())
    }

    fn with(nic: N, background: Background) -> Result<Stack<N>, SetUpError> {
        Ok(Stack(Arc::new(Shared::new(nic, background)?)))
    }

    /// Returns the NIC.
    pub fn nic(&self) -> &N {
        &self.0.nic
    }

    /// Returns the configuration that suits the NIC best: SOVIA_DACKS, with HYBRID if the NIC completes sends within
    /// the call, and with COPY if not. Without completion in the call, a program that sends from its own buffer waits
    /// for the peer with each packet. Waiting costs more than a copy.
    pub fn recommended(&self) -> Configuration {
        Configuration { transfer: self.0.soonest(), ..Configuration::default() }
    }

    /// Connects to the listener at `remote`, within the timeout (`None`: no limit). Returns after the peer has sent its
    /// terms. Detecting that there is no listener takes a second.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn connect(
        &self,
        remote: &NetAddress,
        configuration: &Configuration,
        timeout: Option<Duration>,
    ) -> Result<Stream<N>, ConnectError> {
        let begin = Instant::now();
        let end = self.unconnected(configuration)?;
        // Distinguishes this end from others in logs.
        let mut name = std::process::id().to_be_bytes().to_vec();
        name.extend(self.0.fresh().to_be_bytes());
        let local = NetAddress::new(&self.nic().attributes().local_address, &name);
        let left = || timeout.map(|timeout| timeout.saturating_sub(begin.elapsed()));
        let mut tries = 0;
        while let Err(error) = end.vi().connect_request(&local, remote, left()) {
            tries += 1;
            let no_listener = begin.elapsed() >= NO_LISTENER && tries >= TRIES;
            if error != NoMatch || no_listener || left().is_some_and(|t| t.is_zero()) {
                return Err(error.into());
            }
            thread::sleep(PAUSE);
        }
        let left = left();
        let stream = end.connected();
        match stream.0.await_normal(Patience::of(left)) {
            Ok(()) => Ok(stream),
            Err(TransferError::Reset(reset)) => Err(reset.into()),
            Err(_) => Err(ConnectError::TimedOut),
        }
    }

    /// Listens at an address of the NIC. From now on a thread of the listener accepts connections, even while the
    /// program is busy (ICS section 4.3).
    ///
    /// # Errors
    /// [`SetUpError`] for an invalid configuration, or if the thread cannot be started.
    pub fn listen(
        &self,
        local: &NetAddress,
        configuration: &Configuration,
    ) -> Result<Listener<N>, SetUpError> {
        Listener::new(&self.0, local, configuration)
    }

    /// Creates an end that the caller connects.
    ///
    /// # Errors
    /// [`SetUpError`].
    pub fn unconnected(&self, configuration: &Configuration) -> Result<Unconnected<N>, SetUpError> {
        Unconnected::new(&self.0, configuration)
    }

    /// Allocates a registered buffer of `len` bytes (at least one). The program can fill it and lend it
    /// ([`Stream::lend`]) to any stream of this stack.
    ///
    /// # Errors
    /// [`SetUpError::Register`].
    pub fn buffer(&self, len: usize) -> Result<Buffer<N>, SetUpError> {
        Buffer::new(&self.0, len)
    }

    /// Chooses whether the program's buffers stay registered between sends, and gives up all cached buffers. The
    /// default is [`Caching::Noticed`] where registering has a cost and the kernel supports it, and otherwise
    /// [`Caching::Off`]. Where registering is free, the stack never caches.
    ///
    /// # Errors
    /// [`CachingError`] for [`Caching::Noticed`]. The choice does not change then.
    pub fn set_caching(&self, caching: Caching) -> Result<(), CachingError> {
        self.0.cache.set(caching, &self.0.nic)
    }

    /// Returns the current choice of caching.
    pub fn caching(&self) -> Caching {
        self.0.cache.get(&self.0.nic)
    }

    /// Tells the cache that the memory at these addresses will be freed or unmapped, or may get other pages. With
    /// [`Caching::Told`], call it before freeing or unmapping (`stack.forget(buffer.as_ptr_range())`). Sends in
    /// progress are not affected.
    pub fn forget(&self, memory: Range<*const u8>) {
        self.0.cache.forget(&(memory.start.addr()..memory.end.addr()));
    }

    /// Returns the counters of the registration cache.
    pub fn cache_counters(&self) -> CacheCounters {
        self.0.cache.counters()
    }

    /// Continues to close the streams of a stepped stack. Returns the number of unfinished streams.
    pub fn step(&self) -> usize {
        self.0.step()
    }
}

impl<N: Nic + 'static> Drop for Stack<N> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

#[cfg(test)]
#[path = "stack_tests.rs"]
mod tests;
