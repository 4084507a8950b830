//! Cases that streams must pass over any provider, in every configuration. Each case has two roles.

#![allow(dead_code, reason = "each test file uses what it needs")]

pub(crate) mod cases;
pub(crate) mod ends;
pub(crate) mod pattern;
pub(crate) mod pinned;
pub(crate) mod run;

use sovia_stream::configuration::PRESETS;
use sovia_stream::{Configuration, Listener, Stack, Stream};
use std::time::Duration;
use via::{NetAddress, Nic};

/// Time that is long enough for every expected event.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// Tools of a role.
pub(crate) struct Context<N: Nic + 'static> {
    pub(crate) stack: Stack<N>,
    pub(crate) address: NetAddress,
    pub(crate) configuration: Configuration,
}

impl<N: Nic + 'static> Context<N> {
    pub(crate) fn new(nic: N, address: NetAddress, configuration: Configuration) -> Context<N> {
        Context { stack: Stack::new(nic).unwrap(), address, configuration }
    }

    pub(crate) fn listen(&self) -> Listener<N> {
        self.stack.listen(&self.address, &self.configuration).unwrap()
    }

    /// Accepts the server's end of the only connection.
    pub(crate) fn accept(&self) -> Stream<N> {
        let listener = self.listen();
        listener.accept_within(LONG).unwrap().0
    }

    /// Connects the client's end. The server need not listen yet.
    pub(crate) fn connect(&self) -> Stream<N> {
        use sovia_stream::ConnectError;
        use via::error::ConnectError as Vi;
        loop {
            match self.stack.connect(&self.address, &self.configuration, Some(LONG)) {
                Ok(stream) => return stream,
                Err(ConnectError::Vi(Vi::NoMatch | Vi::NotReachable(_))) => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// A test case.
pub(crate) struct Case<N: Nic + 'static> {
    pub(crate) name: &'static str,
    pub(crate) server: fn(&Context<N>),
    pub(crate) client: fn(&Context<N>),
}

/// Returns the configurations to try: the papers' and some others, limited to names that contain `SOVIA_ONLY`.
pub(crate) fn configurations() -> Vec<(String, Configuration)> {
    let own = [
        ("handler,dacks", "SOVIA_DACKS,handler"),
        ("notify,combine", "SOVIA_COMBINE,notify"),
        ("handler,combine", "SOVIA_COMBINE,handler"),
        ("3way,notify", "3way,notify,copy"),
        ("rdma,notify", "rdma,notify,copy"),
        ("rdma,handler", "rdma,handler,reg,chunk=1000"),
        ("narrow", "w=3,t=2,reg,chunk=1000"),
    ];
    let own = own.map(|(name, text)| (name, text.parse().unwrap()));
    let only = std::env::var("SOVIA_ONLY").unwrap_or_default();
    PRESETS
        .iter()
        .copied()
        .chain(own)
        .filter(|(name, _)| name.contains(&only))
        .map(|(name, configuration)| (name.to_owned(), configuration))
        .collect()
}
