//! Streams over a NIC, as a program begins with them.

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

/// For how long no listener must have waited at an address before it is believed that none is there:
/// a listener does not wait while it takes a request, nor before its thread has begun. On a busy
/// machine that thread may not run for some tenths of a second.
const NO_LISTENER: Duration = Duration::from_secs(1);
/// How many requests must have met no listener as well: a machine that stands still for a second gives no
/// listener the time to begin.
const TRIES: u32 = 500;
/// How long after a request that met no listener the next is made.
const PAUSE: Duration = Duration::from_micros(200);

/// Streams over a NIC. It may be dropped before they are; but a program that drops a stack which is to be
/// stepped gives up what its closed streams have not sent yet.
///
/// ```
/// use sovia_stream::{Configuration, Stack};
/// use via_shm::ShmNic;
///
/// let stack = Stack::new(ShmNic::open("stack-example")?)?;
/// // What suits this provider; a listener or a stream may be given another one.
/// let configuration = Configuration { chunk: 16 << 10, ..stack.recommended() };
/// let listener = stack.listen(&stack.nic().address(b"echo"), &configuration)?;
/// println!("listening at {}", listener.local_address());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Stack<N: Nic + 'static>(pub(crate) Arc<Shared<N>>);

impl<N: Nic + 'static> Stack<N> {
    /// Streams over that NIC. Threads are started when they are needed.
    ///
    /// # Errors
    /// [`SetUpError::Ptag`].
    pub fn new(nic: N) -> Result<Stack<N>, SetUpError> {
        Stack::with(nic, Background::threaded())
    }

    /// Streams over that NIC without a thread of their own, for simulation: combined bytes wait
    /// until [`Stream::flush`], and closed streams go on with [`Stack::step`], for as long as there is
    /// a stack to step.
    ///
    /// # Errors
    /// [`SetUpError::Ptag`].
    pub fn stepped(nic: N) -> Result<Stack<N>, SetUpError> {
        Stack::with(nic, Background::stepped())
    }

    fn with(nic: N, background: Background) -> Result<Stack<N>, SetUpError> {
        Ok(Stack(Arc::new(Shared::new(nic, background)?)))
    }

    /// The NIC.
    pub fn nic(&self) -> &N {
        &self.0.nic
    }

    /// The configuration that suits the NIC best where nothing else is asked for: SOVIA_DACKS, with
    /// HYBRID where a send is over when its call returns, and COPY where it is not. There a program
    /// that lends its buffer to the NIC has to wait for the far side before it has it back, at each
    /// packet, which costs more than a copy does.
    pub fn recommended(&self) -> Configuration {
        Configuration { transfer: self.0.soonest(), ..Configuration::default() }
    }

    /// Connects to the listener at `remote`, within the timeout (`None`: however long it
    /// takes). Returns once the peer has sent its terms. That there is no listener is found out after
    /// a second.
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
        // Tells this end from others, for logs.
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

    /// Listens at an address of the NIC's: from now on connections are accepted by a thread of the
    /// listener's, whatever the program does (ICS section 4.3).
    ///
    /// # Errors
    /// [`SetUpError`] for a configuration that cannot be, or without a thread.
    pub fn listen(
        &self,
        local: &NetAddress,
        configuration: &Configuration,
    ) -> Result<Listener<N>, SetUpError> {
        Listener::new(&self.0, local, configuration)
    }

    /// An end to be connected by the caller.
    ///
    /// # Errors
    /// [`SetUpError`].
    pub fn unconnected(&self, configuration: &Configuration) -> Result<Unconnected<N>, SetUpError> {
        Unconnected::new(&self.0, configuration)
    }

    /// A registered buffer of so many bytes (at least one), to be filled and lent
    /// ([`Stream::lend`]) to any stream of this stack.
    ///
    /// # Errors
    /// [`SetUpError::Register`].
    pub fn buffer(&self, len: usize) -> Result<Buffer<N>, SetUpError> {
        Buffer::new(&self.0, len)
    }

    /// Chooses whether the program's buffers stay registered between sends. Without it that is
    /// [`Caching::Noticed`] where registering is not free and the kernel allows it, else
    /// [`Caching::Off`]. Where registering is free nothing is ever cached. What was cached is given up.
    ///
    /// # Errors
    /// [`CachingError`] for [`Caching::Noticed`]; then everything stays as it was.
    pub fn set_caching(&self, caching: Caching) -> Result<(), CachingError> {
        self.0.cache.set(caching, &self.0.nic)
    }

    /// Whether buffers stay registered.
    pub fn caching(&self) -> Caching {
        self.0.cache.get(&self.0.nic)
    }

    /// The memory at these addresses goes away, or may have other pages from now on: to be called
    /// before it is freed or unmapped, with [`Caching::Told`]
    /// (`stack.forget(buffer.as_ptr_range())`). Sends that are under way are not disturbed.
    pub fn forget(&self, memory: Range<*const u8>) {
        self.0.cache.forget(&(memory.start.addr()..memory.end.addr()));
    }

    /// What the registration cache has done.
    pub fn cache_counters(&self) -> CacheCounters {
        self.0.cache.counters()
    }

    /// Goes on closing the streams of a stepped stack; how many are not finished.
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
