//! Tests of rules: matching, errors, and conversion to text and back.

use std::format;
use std::string::{String, ToString};

use proptest::prelude::*;

use super::*;

fn allowed(rules: &str, program: &str, local: &str, peer: &str) -> bool {
    let rules = Rules::parse(rules).unwrap();
    rules.allows(program.as_bytes(), End::Acceptor, local.parse().unwrap(), peer.parse().unwrap())
}

#[track_caller]
fn fault(rules: &str) -> (RuleFault, String) {
    let error = Rules::parse(rules).unwrap_err();
    (error.fault(), error.term().to_string())
}

const REDIS: &str = "127.0.0.1:6379";
const CLIENT: &str = "127.0.0.1:40000";

#[test]
fn without_rules_everything_is_allowed() {
    assert!(allowed("", "redis-server", REDIS, CLIENT));
    assert!(allowed(" ; ;", "redis-server", REDIS, CLIENT));
    assert!(Rules::parse("").unwrap().is_empty());
}

#[test]
fn a_file_has_rules_on_lines_and_remarks() {
    let text = "# Who is accelerated; only these\n\nonly:program=redis-server\n  # and\n only:port=80 ; trust:any\n";
    let rules = Rules::parse_file(text).unwrap();
    assert_eq!(rules, Rules::parse("only:program=redis-server;only:port=80;trust:any").unwrap());
    assert!(Rules::parse_file("").unwrap().is_empty());
    let error = Rules::parse_file("only:port=1\nport=2\n").unwrap_err();
    assert_eq!((error.fault(), error.term()), (RuleFault::Effect, "port=2"));
}

#[test]
fn rules_concern_a_program_if_they_allow_any_of_its_connections() {
    let concern = |rules: &str| Rules::parse(rules).unwrap().concern(b"/usr/bin/redis-server");
    for rules in [
        "",
        "trust:any",
        "only:port=1",
        "only:program=redis-server",
        "only:program=app;only:program=redis-server,port=6379",
        "except:program=app",
        "except:program=redis-server,port=1",
        "except:port=1",
    ] {
        assert!(concern(rules), "{rules}");
    }
    for rules in [
        "only:program=app",
        "only:program=app;trust:any",
        "except:program=redis-server",
        "only:program=redis-server;except:program=redis-server",
    ] {
        assert!(!concern(rules), "{rules}");
    }
}

#[test]
fn a_port_is_that_of_either_end() {
    assert!(allowed("only:port=6379", "x", REDIS, CLIENT));
    assert!(allowed("only:port=6379", "x", CLIENT, REDIS));
    assert!(!allowed("only:port=6380", "x", CLIENT, REDIS));
    assert!(allowed("only:port=6000-6379", "x", CLIENT, REDIS));
    assert!(!allowed("only:port=6000-6378", "x", CLIENT, REDIS));
}

#[test]
fn an_address_is_the_peers() {
    assert!(allowed("only:addr=10.0.0.0/8", "x", "127.0.0.1:1", "10.200.3.4:2"));
    assert!(!allowed("only:addr=10.0.0.0/8", "x", "10.0.0.1:1", "127.0.0.1:2"));
    assert!(allowed("only:addr=fd00::/8", "x", "[::1]:1", "[fd12::1]:2"));
    assert!(!allowed("only:addr=::1", "x", "[::1]:1", "[::2]:2"));
    assert!(allowed("only:addr=0.0.0.0/0", "x", "1.2.3.4:1", "5.6.7.8:2"));
    assert!(!allowed("only:addr=0.0.0.0/0", "x", "[::1]:1", "[::1]:2"));
}

#[test]
fn ipv4_seen_through_an_ipv6_socket_is_the_same_address() {
    assert!(allowed("only:addr=127.0.0.1", "x", "[::ffff:127.0.0.1]:1", "[::ffff:127.0.0.1]:2"));
    assert!(allowed("only:addr=::ffff:127.0.0.1", "x", "127.0.0.1:1", "127.0.0.1:2"));
}

#[test]
fn a_program_is_its_file_name() {
    assert!(allowed("only:program=redis-server", "/usr/bin/redis-server", REDIS, CLIENT));
    assert!(allowed("only:program=redis-server", "redis-server", REDIS, CLIENT));
    assert!(!allowed("only:program=redis", "/usr/bin/redis-server", REDIS, CLIENT));
}

#[test]
fn all_terms_of_a_rule_must_match() {
    let rules = "only:port=6379, program=redis-server";
    assert!(allowed(rules, "redis-server", REDIS, CLIENT));
    assert!(!allowed(rules, "redis-cli", REDIS, CLIENT));
    assert!(!allowed(rules, "redis-server", CLIENT, CLIENT));
}

#[test]
fn one_only_rule_suffices_and_any_except_rule_refuses() {
    let rules = "only:port=1;only:port=6379;except:program=redis-cli";
    assert!(allowed(rules, "redis-server", REDIS, CLIENT));
    assert!(!allowed(rules, "redis-cli", REDIS, CLIENT));
    assert!(!allowed("except:port=6379;only:port=6379", "x", REDIS, CLIENT));
    assert!(allowed("except:port=22", "x", REDIS, CLIENT));
}

#[test]
fn errors_name_the_term() {
    assert_eq!(fault("port=6379"), (RuleFault::Effect, "port=6379".into()));
    assert_eq!(fault("just:port=1"), (RuleFault::Effect, "just:port=1".into()));
    assert_eq!(fault("only:port=1,prot=2"), (RuleFault::Key, "prot=2".into()));
    assert_eq!(fault("only:6379"), (RuleFault::Key, "6379".into()));
    assert_eq!(fault("only:"), (RuleFault::Empty, "".into()));
    assert_eq!(fault("only:port=1,"), (RuleFault::Empty, "port=1,".into()));
    assert_eq!(fault("only:port=1,port=2"), (RuleFault::Twice, "port=2".into()));
    for bad in ["0", "65536", "9-8", "http", "", "1-", "-1"] {
        assert_eq!(fault(&format!("only:port={bad}")).0, RuleFault::Port, "{bad}");
    }
    for bad in ["localhost", "10.0.0.0/33", "::/129", "1.2.3", "10.0.0.0/", "[::1]"] {
        assert_eq!(fault(&format!("only:addr={bad}")).0, RuleFault::Address, "{bad}");
    }
    for bad in ["", "/usr/bin/x", &"x".repeat(256)] {
        assert_eq!(fault(&format!("only:program={bad}")).0, RuleFault::Program, "{bad}");
    }
    let text = Rules::parse("only:port=http").unwrap_err().to_string();
    assert!(text.contains("`port=http`") && text.contains("65535"), "{text}");
}

#[test]
fn the_list_has_an_end() {
    let full = "only:port=1;".repeat(RULES_MAX);
    assert!(Rules::parse(&full).is_ok());
    assert_eq!(fault(&format!("{full}only:port=2")), (RuleFault::TooMany, "port=2".into()));
    assert!(Rules::parse("only:port=http").unwrap_err().to_string().len() < 200);
    let text = RuleError::new("x", RuleFault::TooMany).to_string();
    assert!(text.contains(&RULES_MAX.to_string()), "{text}");
}

#[test]
fn host_bits_behind_the_prefix_are_dropped() {
    let rules = Rules::parse("only:addr=10.1.2.3/8;only:addr=::ffff:10.0.0.1/104").unwrap();
    assert_eq!(rules.to_string(), "only:addr=10.0.0.0/8;only:addr=10.0.0.0/8");
}

prop_compose! {
    fn port_term()(a in 1u16.., b in 1u16.., range: bool) -> String {
        if range { format!("port={}-{}", a.min(b), a.max(b)) } else { format!("port={a}") }
    }
}

prop_compose! {
    fn addr_term()(bits: u128, v4: bool, prefix in prop::option::of(0u8..=128)) -> String {
        if v4 {
            let address = std::net::Ipv4Addr::from_bits(bits as u32);
            prefix.map_or(format!("addr={address}"), |p| format!("addr={address}/{}", p % 33))
        } else {
            let address = std::net::Ipv6Addr::from_bits(bits);
            prefix.map_or(format!("addr={address}"), |p| format!("addr={address}/{p}"))
        }
    }
}

fn rule() -> impl Strategy<Value = String> {
    let name = "[a-zA-Z0-9äß_.=:-]{1,40}".prop_map(|name| format!("program={name}"));
    let option = |strategy: BoxedStrategy<String>| prop::option::of(strategy);
    (any::<bool>(), option(port_term().boxed()), option(addr_term().boxed()), option(name.boxed()))
        .prop_map(|(only, port, addr, name)| {
            let terms: std::vec::Vec<_> = [port, addr, name].into_iter().flatten().collect();
            let spec = if terms.is_empty() { "port=1".into() } else { terms.join(",") };
            format!("{}:{spec}", if only { "only" } else { "except" })
        })
}

proptest! {
    #[test]
    fn what_is_written_reads_back_the_same(list in prop::collection::vec(rule(), 0..=RULES_MAX)) {
        let rules = Rules::parse(&list.join(";")).unwrap();
        let text = rules.to_string();
        prop_assert_eq!(&Rules::parse(&text).unwrap(), &rules);
        prop_assert_eq!(Rules::parse(&text).unwrap().to_string(), text);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in any::<String>(), ruleish in "(only|except|respect-filters|x)?:?[a-z0-9:./=,; -]{0,60}") {
        let _ = Rules::parse(&text);
        let _ = Rules::parse(&ruleish);
    }

    #[test]
    fn no_input_makes_a_lookup_panic(list in prop::collection::vec(rule(), 0..4), program: std::vec::Vec<u8>,
                                     local: u128, peer: u128, port: u16) {
        let rules = Rules::parse(&list.join(";")).unwrap();
        let address = |bits| (std::net::Ipv6Addr::from_bits(bits), port).into();
        rules.allows(&program, End::Connector, address(local), address(peer));
    }
}

#[test]
fn first_matching_rule_names_the_nic() {
    let rules = "nic:name=a,end=connector; nic:port=6379,name=b";
    let rules = Rules::parse(rules).unwrap();
    let nic = |end, local: &str, peer: &str| {
        let name = rules.nic(b"x", end, local.parse().unwrap(), peer.parse().unwrap());
        name.map(|rule| rule.name.as_str().to_string())
    };
    assert_eq!(nic(End::Connector, CLIENT, REDIS).as_deref(), Some("a"));
    assert_eq!(nic(End::Acceptor, REDIS, CLIENT).as_deref(), Some("b"));
    assert_eq!(nic(End::Acceptor, "127.0.0.1:6380", CLIENT), None);
    assert!(rules.allows(b"x", End::Acceptor, REDIS.parse().unwrap(), CLIENT.parse().unwrap()));
    assert_eq!(rules.to_string(), "nic:end=connector,name=a;nic:port=6379,name=b");
    assert_eq!(Rules::parse(&rules.to_string()).unwrap(), rules);
}

#[test]
fn a_nic_is_named_where_one_is_needed_and_only_there() {
    assert_eq!(fault("nic:port=1").0, RuleFault::Nic);
    assert_eq!(fault("only:port=1,name=a").0, RuleFault::Nic);
    assert_eq!(fault("nic:name=").0, RuleFault::Nic);
    assert_eq!(fault("nic:name=a/b").0, RuleFault::Nic);
    assert_eq!(fault(&std::format!("nic:name={}", "a".repeat(33))).0, RuleFault::Nic);
    assert_eq!(fault("nic:name=a,end=both").0, RuleFault::End);
}

#[test]
fn a_nic_carries_from_the_number_of_messages_that_its_rule_has() {
    let rules = Rules::parse("nic:port=6379,name=a,messages=1;nic:name=b").unwrap();
    let messages = |local: &str| {
        let (local, peer) = (local.parse().unwrap(), CLIENT.parse().unwrap());
        rules.nic(b"x", End::Acceptor, local, peer).unwrap().messages
    };
    assert_eq!((messages(REDIS), messages("127.0.0.1:6380")), (1, 32));
    assert_eq!(rules.to_string(), "nic:port=6379,name=a,messages=1;nic:name=b");
    assert_eq!(Rules::parse(&rules.to_string()).unwrap(), rules);
    for bad in ["nic:name=a,messages=0", "nic:name=a,messages=65536", "only:port=1,messages=1"] {
        assert_eq!(fault(bad).0, RuleFault::Messages, "{bad}");
    }
}

#[test]
fn a_trusted_user_is_one_that_a_matching_rule_names() {
    let rules = Rules::parse("trust:uid=112,port=6379; trust:any,program=y").unwrap();
    let trusts = |program: &[u8], local: &str, uid| {
        rules.trusts(
            program,
            End::Acceptor,
            local.parse().unwrap(),
            CLIENT.parse().unwrap(),
            Some(uid),
        )
    };
    assert!(trusts(b"x", REDIS, 112) && trusts(b"y", REDIS, 113));
    assert!(!trusts(b"x", REDIS, 113) && !trusts(b"x", "127.0.0.1:6380", 112));
    assert!(rules.allows(b"x", End::Acceptor, REDIS.parse().unwrap(), CLIENT.parse().unwrap()));
    assert_eq!(rules.to_string(), "trust:port=6379,uid=112;trust:program=y,any");
    assert_eq!(Rules::parse(&rules.to_string()).unwrap(), rules);
    let none = Rules::parse("only:port=6379").unwrap();
    assert!(!none.trusts(
        b"x",
        End::Acceptor,
        REDIS.parse().unwrap(),
        CLIENT.parse().unwrap(),
        Some(0)
    ));
}

#[test]
fn users_are_named_where_they_are_needed_and_only_there() {
    for bad in
        ["trust:port=1", "only:uid=1", "except:any", "trust:uid=root", "trust:uid=4294967295"]
    {
        assert_eq!(fault(bad).0, RuleFault::User, "{bad}");
    }
    assert_eq!(fault("trust:user=redis").0, RuleFault::UserName);
    assert_eq!(fault("trust:group=web").0, RuleFault::UserName);
    assert_eq!(fault("trust:any,uid=1").0, RuleFault::Twice);
    assert_eq!(fault("trust:nobody").0, RuleFault::Key);
}

#[test]
fn a_rule_about_filters_accelerates_and_refuses_nothing_itself() {
    let rules = Rules::parse("respect-filters:port=6379,program=redis-server").unwrap();
    let respects = |program: &[u8], local: &str| {
        let (local, peer) = (local.parse().unwrap(), CLIENT.parse().unwrap());
        assert!(rules.allows(program, End::Acceptor, local, peer));
        rules.respects_filters(program, End::Acceptor, local, peer)
    };
    assert!(respects(b"redis-server", REDIS));
    assert!(!respects(b"x", REDIS) && !respects(b"redis-server", "127.0.0.1:6380"));
    assert_eq!(fault("respect-filters:any").0, RuleFault::User);
    assert_eq!(fault("respect-filters:name=a").0, RuleFault::Nic);
}
