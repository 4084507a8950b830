//! Text from the environment and the command line: rules, and configurations of the protocol.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sovia_control::{Effect, End, Rules};
use sovia_fuzz::input::Input;
use sovia_proto::configuration::Configuration;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Once;

/// Checks that parsed rules are written with the same meaning, and that a refusal has a reason.
fn rules(text: &str, input: &mut Input<'_>) -> Option<Rules> {
    let rules = match Rules::parse(text) {
        Ok(rules) => rules,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return None;
        }
    };
    assert_eq!(Rules::parse(&rules.to_string()).as_ref(), Ok(&rules));
    for end in [End::Connector, End::Acceptor] {
        let [local, peer] = [(); 2].map(|()| address(input));
        let program = input.bytes(8);
        let allows = rules.allows(program, end, local, peer);
        assert!(allows || !rules.is_empty(), "no rule keeps a connection on TCP");
        assert!(rules.nic(program, end, local, peer).is_none() || rules.have(Effect::Nic));
    }
    Some(rules)
}

fn address(input: &mut Input<'_>) -> SocketAddr {
    let port = input.u16();
    if input.flag() {
        (Ipv6Addr::from_bits(u128::from(input.u64()) << 64 | u128::from(input.u64())), port).into()
    } else {
        (Ipv4Addr::from_bits(input.u64() as u32), port).into()
    }
}

/// Checks that a parsed configuration is possible, and is written with the same meaning.
fn configuration(text: &str) {
    for configuration in [text.parse::<Configuration>(), Configuration::of_socket(text)] {
        match configuration {
            Ok(configuration) => {
                assert_eq!(configuration.check(), Ok(()));
                assert_eq!(configuration.to_string().parse(), Ok(configuration));
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    static FIRST: Once = Once::new();
    FIRST.call_once(|| {
        let text =
            "only:port=6000-6100,addr=10.0.0.0/8;except:program=curl;nic:name=a,end=connector";
        assert!(rules(text, &mut Input::new(b"")).is_some(), "nothing is tested");
    });
    // The text ends with a line, if there is one; the rest are addresses.
    let (text, rest) =
        bytes.split_at(bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len()));
    let text = String::from_utf8_lossy(text);
    let _ = rules(&text, &mut Input::new(rest));
    configuration(&text);
});
