//! Tests of refused calls, and of ends with different configurations.

use crate::common::pattern::{at_end, hear, read, say, write};
use crate::common::{Context, LONG};
use sovia_stream::configuration::Invalid;
use sovia_stream::{Configuration, ConnectError, Reset, SetUpError, Stack};
use std::net::Shutdown;
use std::time::Duration;
use via_sim::{Config, Network, SimNic};

fn network() -> Network {
    Network::new(1, Config::default().live())
}

fn context(network: &Network, name: &str, configuration: &str) -> Context<SimNic> {
    let address = network.nic("server").address(b"edges");
    Context::new(network.nic(name), address, configuration.parse().unwrap())
}

#[test]
fn a_configuration_that_cannot_be_is_refused_by_name() {
    let network = network();
    let stack = Stack::new(network.nic("a")).unwrap();
    let mut configuration = Configuration::default();
    configuration.flow.window = 0;
    let error = stack.unconnected(&configuration).unwrap_err();
    assert_eq!(error, SetUpError::Configuration(Invalid::Window(0)));
    let address = stack.nic().address(b"edges");
    let error = stack.listen(&address, &configuration).unwrap_err();
    assert_eq!(error.to_string(), "w is 0, and must be 1 to 256 packets");
}

#[test]
fn connect_without_a_listener_is_refused() {
    let network = network();
    let stack = Stack::new(network.nic("a")).unwrap();
    let address = network.nic("server").address(b"edges");
    let error = stack.connect(&address, &Configuration::default(), Some(LONG)).unwrap_err();
    assert_eq!(error, ConnectError::Vi(via::error::ConnectError::NoMatch));
    let error = std::io::Error::from(error);
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn accept_times_out_without_a_requester() {
    let network = network();
    let server = context(&network, "server", "SOVIA_DACKS");
    let listener = server.listen();
    assert!(listener.accept_within(Duration::ZERO).is_err());
    assert!(listener.accept_within(Duration::from_millis(20)).is_err());
}

/// The narrower terms apply, whichever end has them.
#[test]
fn ends_may_be_configured_differently() {
    let all =
        ["SOVIA_DACKS", "SOVIA_BASE", "w=5,t=5,reg,chunk=100", "SOVIA_COMBINE", "w=9,t=1,handler"];
    for (i, a) in all.iter().enumerate() {
        for b in &all[i + 1..] {
            let network = network();
            let (server, client) = (context(&network, "server", a), context(&network, "client", b));
            let listener = server.listen();
            let there = client.connect();
            let (here, _) = listener.accept_within(LONG).unwrap();
            std::thread::scope(|s| {
                s.spawn(|| {
                    write(&there, 1, 0, 50_000);
                    there.shutdown(Shutdown::Write).unwrap();
                    read(&there, 2, 0, 50_000);
                    say(&client.connect());
                });
                read(&here, 1, 0, 50_000);
                at_end(&here);
                write(&here, 2, 0, 50_000);
                here.flush();
                let (told, _) = listener.accept_within(LONG).unwrap();
                hear(&told);
            });
        }
    }
}

#[test]
fn ends_that_shake_hands_differently_part() {
    let network = network();
    let server = context(&network, "server", "SOVIA_DACKS");
    let _listener = server.listen();
    let client = context(&network, "client", "SOVIA_3WAY");
    let error = client.stack.connect(&client.address, &client.configuration, Some(LONG));
    match error.unwrap_err() {
        ConnectError::Reset(Reset::Protocol(violation)) => {
            assert_eq!(violation.0, "uses another handshake");
        }
        // The peer may have detected the error first.
        ConnectError::Reset(Reset::PeerClosed) => {}
        error => panic!("{error}"),
    }
}
