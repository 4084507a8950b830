//! A listener that accepts streams while the program is busy.

use crate::core::Patience;
use crate::error::{AcceptError, SetUpError};
use crate::shared::Shared;
use crate::stream::Stream;
use crate::unconnected::Unconnected;
use core::time::Duration;
use sovia_proto::configuration::Configuration;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;
use via::error::ConnectError;
use via::{Connection, NetAddress, Nic};

/// Largest number of streams that wait for the program. Further requests are rejected.
const BACKLOG: usize = 128;
/// Longest time that the thread waits for a request before it checks whether the listener still exists.
const NAP: Duration = Duration::from_millis(200);

/// Waits for connections at an address, in its own thread (the papers' connection thread). Dropping the listener ends
/// the thread, and closes streams that the program has not accepted.
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
/// let client = std::thread::spawn(move || {
///     let stream = stack.connect(&address, &Configuration::default(), None).unwrap();
///     stream.write(b"hello").unwrap();
/// });
/// let (stream, peer) = listener.accept_within(std::time::Duration::from_secs(60))?;
/// println!("a stream from {peer}");
/// let mut bytes = [0; 5];
/// assert_eq!(stream.read(&mut bytes)?, 5);
/// # client.join().unwrap();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Listener<N: Nic + 'static> {
    shared: Arc<Waiting<N>>,
    local: NetAddress,
}

#[derive(Debug)]
struct Waiting<N: Nic + 'static> {
    state: Mutex<State<N>>,
    told: Condvar,
}

#[derive(Debug)]
struct State<N: Nic + 'static> {
    streams: VecDeque<(Stream<N>, NetAddress)>,
    /// Error that ended the thread.
    failed: Option<ConnectError>,
    stop: bool,
}

impl<N: Nic + 'static> Listener<N> {
    pub(crate) fn new(
        stack: &Arc<Shared<N>>,
        local: &NetAddress,
        configuration: &Configuration,
    ) -> Result<Listener<N>, SetUpError> {
        configuration.check().map_err(SetUpError::Configuration)?;
        let state = State { streams: VecDeque::new(), failed: None, stop: false };
        let shared = Arc::new(Waiting { state: Mutex::new(state), told: Condvar::new() });
        let (waiting, stack) = (shared.clone(), stack.clone());
        let (address, configuration) = (local.clone(), *configuration);
        let run = move || waiting.run(&stack, &address, &configuration);
        let thread = thread::Builder::new().name("sovia-listener".into());
        thread.spawn(run).map_err(|error| SetUpError::Thread(error.kind()))?;
        Ok(Listener { shared, local: local.clone() })
    }

    /// Returns the address of the listener.
    pub fn local_address(&self) -> &NetAddress {
        &self.local
    }

    /// Waits for the next stream.
    ///
    /// # Errors
    /// [`AcceptError::Listen`].
    pub fn accept(&self) -> Result<Stream<N>, AcceptError> {
        self.accepted(Patience::Endless).map(|(stream, _)| stream)
    }

    /// Waits up to `timeout` for the next stream. Returns the stream and its peer's address, as the peer gave it.
    ///
    /// # Errors
    /// [`AcceptError::TimedOut`], or [`AcceptError::WouldBlock`] with a timeout of zero.
    pub fn accept_within(&self, timeout: Duration) -> Result<(Stream<N>, NetAddress), AcceptError> {
        let none = timeout.is_zero();
        self.accepted(if none { Patience::None } else { Patience::of(Some(timeout)) })
    }

    fn accepted(&self, patience: Patience) -> Result<(Stream<N>, NetAddress), AcceptError> {
        let mut state = self.shared.lock();
        loop {
            if let Some(accepted) = state.streams.pop_front() {
                return Ok(accepted);
            }
            if let Some(error) = &state.failed {
                return Err(error.clone().into());
            }
            let told = &self.shared.told;
            state = match patience {
                Patience::None => return Err(AcceptError::WouldBlock),
                Patience::Endless => told.wait(state).unwrap_or_else(PoisonError::into_inner),
                Patience::Until(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(AcceptError::TimedOut);
                    }
                    let woken = told.wait_timeout(state, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

impl<N: Nic + 'static> Drop for Listener<N> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.stop = true;
        let streams = core::mem::take(&mut state.streams);
        drop(state);
        drop(streams);
    }
}

impl<N: Nic + 'static> Waiting<N> {
    fn lock(&self) -> MutexGuard<'_, State<N>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, stack: &Arc<Shared<N>>, local: &NetAddress, configuration: &Configuration) {
        loop {
            let request = stack.nic.connect_wait(local, Some(NAP));
            let (stop, full) = {
                let state = self.lock();
                (state.stop, state.streams.len() >= BACKLOG)
            };
            match request {
                // Dropping the request rejects it.
                _ if stop => return,
                Ok(_) if full => {}
                Ok(request) => self.accept(stack, configuration, request),
                Err(ConnectError::Timeout) => {}
                Err(error) => {
                    self.lock().failed = Some(error);
                    self.told.notify_all();
                    return;
                }
            }
        }
    }

    /// Accepts one request. An error affects only the requester.
    fn accept(
        &self,
        stack: &Arc<Shared<N>>,
        configuration: &Configuration,
        request: N::Connection,
    ) {
        let Ok(end) = Unconnected::new(stack, configuration) else { return request.reject() };
        let remote = request.remote_address().clone();
        if request.accept(end.vi()).is_err() {
            return;
        }
        let stream = end.connected();
        let mut state = self.lock();
        if state.stop {
            return;
        }
        state.streams.push_back((stream, remote));
        drop(state);
        self.told.notify_one();
    }
}
