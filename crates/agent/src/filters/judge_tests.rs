use super::*;
use serde_json::json;

const CONNECTED: u16 = 40_000;

/// Judges a rule set: one input chain of the table `inet t`, with this policy and these rules, and other objects.
fn input(policy: &str, rules: &[Value], others: &[Value]) -> Judgement {
    let at = json!({"family": "inet", "table": "t", "name": "in", "chain": "in"});
    let with = |key: &str, value: Value| {
        let mut object = at.clone();
        object[key] = value;
        object
    };
    let mut chain = with("hook", "input".into());
    chain["type"] = "filter".into();
    chain["policy"] = policy.into();
    let mut all = vec![json!({"metainfo": {"version": "1.0.6"}}), json!({"chain": chain})];
    all.extend(others.iter().cloned());
    all.extend(rules.iter().map(|rule| json!({"rule": with("expr", rule.clone())})));
    judge(&json!({"nftables": all})).unwrap()
}

fn is(key: Value, right: Value) -> Value {
    json!({"match": {"op": "==", "left": key, "right": right}})
}

fn meta(key: &str) -> Value {
    json!({"meta": {"key": key}})
}

fn field(protocol: &str, name: &str) -> Value {
    json!({"payload": {"protocol": protocol, "field": name}})
}

fn state() -> Value {
    json!({"ct": {"key": "state"}})
}

fn verdict(name: &str) -> Value {
    json!({name: null})
}

/// Returns those of four server ports whose connections the rules may stop.
fn ports(judgement: &Judgement) -> Vec<u16> {
    let concerns = |port: &u16| judgement.stopped.concern(CONNECTED, *port);
    [22, 80, 443, 8000].into_iter().filter(concerns).collect()
}

#[test]
fn an_empty_rule_set_stops_nothing_and_a_policy_stops_all() {
    assert!(judge(&json!({"nftables": []})).unwrap().stopped.is_empty());
    assert!(judge(&json!({})).is_none());
    assert!(input("accept", &[], &[]).stopped.is_empty());
    let dropped = input("drop", &[], &[]);
    assert_eq!(dropped.stopped, Flows::all());
    assert_eq!(dropped.by, ["the policy of chain in in table inet t"]);
}

#[test]
fn packets_over_lo_of_open_connections_are_known() {
    let accept = || verdict("accept");
    for pass in [
        is(meta("iifname"), "lo".into()),
        is(meta("iif"), json!({"set": ["eth0", "lo"]})),
        is(meta("iifname"), "l*".into()),
        is(meta("l4proto"), json!({"set": ["tcp", "udp"]})),
        is(state(), json!(["established", "related"])),
        is(state(), json!({"set": ["established"]})),
        json!({"match": {"op": "!=", "left": state(), "right": "invalid"}}),
        json!({"match": {"op": "!=", "left": meta("iifname"), "right": "eth0"}}),
    ] {
        let judged = input("drop", &[json!([pass, {"counter": null}, accept()])], &[]);
        assert!(judged.stopped.is_empty(), "{pass}: {judged:?}");
    }
    for miss in [
        is(meta("iifname"), "eth0".into()),
        is(meta("oifname"), "lo".into()),
        is(meta("l4proto"), "udp".into()),
        is(state(), "new".into()),
        is(field("udp", "dport"), 80.into()),
        json!({"match": {"op": "!=", "left": field("udp", "dport"), "right": 80}}),
    ] {
        let judged = input("drop", &[json!([miss, accept()])], &[]);
        assert_eq!(judged.stopped, Flows::all(), "{miss}");
        let judged = input("accept", &[json!([miss, verdict("drop")])], &[]);
        assert!(judged.stopped.is_empty(), "{miss}");
    }
}

#[test]
fn a_condition_that_is_not_known_has_both_outcomes() {
    for unknown in [
        is(field("ip", "saddr"), "10.0.0.1".into()),
        is(meta("mark"), 5.into()),
        is(meta("iifname"), "@names".into()),
        json!({"limit": {"rate": 10, "per": "second"}}),
        json!({"xt": {"type": "match", "name": "recent"}}),
    ] {
        for (policy, verdict) in [("accept", verdict("drop")), ("drop", verdict("accept"))] {
            let judged = input(policy, &[json!([unknown, verdict])], &[]);
            assert_eq!(judged.stopped, Flows::all(), "{unknown} {verdict}");
        }
    }
    let unknown = json!({"what": "ever"});
    assert_eq!(input("accept", &[json!([unknown])], &[]).stopped, Flows::all());
}

#[test]
fn ports_divide_packets() {
    let dport = || field("tcp", "dport");
    let drop = || verdict("drop");
    let compare =
        |op: &str, port: u16| json!({"match": {"op": op, "left": dport(), "right": port}});
    let stops = |condition: Value| ports(&input("accept", &[json!([condition, drop()])], &[]));
    assert_eq!(stops(is(dport(), 80.into())), [80]);
    assert_eq!(stops(is(dport(), json!({"set": [22, {"range": [400, 500]}]}))), [22, 443]);
    assert_eq!(stops(is(field("th", "sport"), 443.into())), [443]);
    assert_eq!(stops(json!({"match": {"op": "<", "left": dport(), "right": 80}})), [22]);
    assert!(stops(compare("<", 0)).is_empty());
    // Packets to the port of the connecting end are above 443 as well.
    assert_eq!(stops(compare(">", 443)), [22, 80, 443, 8000]);
    // The second rule does not see packets that the first rule has accepted.
    let rules = [
        json!([is(dport(), json!({"set": [22, 80]})), verdict("accept")]),
        json!([is(field("tcp", "sport"), json!({"set": [22, 80]})), verdict("accept")]),
    ];
    assert_eq!(ports(&input("drop", &rules, &[])), [443, 8000]);
}

#[test]
fn named_sets_count_unless_their_elements_come_and_go() {
    let set = |more: Value| {
        let mut set = json!({"family": "inet", "table": "t", "name": "s", "elem": [{"elem": {"val": 80, "comment": "web"}}]});
        set.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"set": set})
    };
    let rule = json!([is(field("tcp", "dport"), "@s".into()), verdict("drop")]);
    let stops = |set: Value| ports(&input("accept", core::slice::from_ref(&rule), &[set]));
    assert_eq!(stops(set(json!({}))), [80]);
    assert_eq!(stops(set(json!({"flags": ["interval"]}))), [80]);
    assert_eq!(stops(set(json!({"flags": ["timeout"]}))), [22, 80, 443, 8000]);
    // nft does not print that a set is dynamic.
    let add = |statement: Value| {
        let rules = [rule.clone(), json!([statement])];
        ports(&input("accept", &rules, &[set(json!({"size": 65535}))]))
    };
    let key = || field("tcp", "dport");
    assert_eq!(add(json!({"set": {"op": "add", "elem": key(), "set": "@t"}})), [80]);
    assert_eq!(add(json!({"set": {"op": "add", "elem": key(), "set": "@s"}})), [22, 80, 443, 8000]);
}

#[test]
fn chains_are_followed() {
    let other = |name: &str| json!({"chain": {"family": "inet", "table": "t", "name": name}});
    let of = |chain: &str, statements: Value| json!({"rule": {"family": "inet", "table": "t", "chain": chain, "handle": 7, "expr": statements}});
    let to = |verb: &str, name: &str| json!({verb: {"target": name}});
    let others = [
        other("web"),
        of("web", json!([is(field("tcp", "dport"), 22.into()), verdict("return")])),
        of("web", json!([is(field("tcp", "dport"), 80.into()), verdict("drop")])),
    ];
    let jump = input("accept", &[json!([to("jump", "web")])], &others);
    assert_eq!(ports(&jump), [80]);
    assert_eq!(jump.by, ["rule 7 of chain web in table inet t"]);
    let rules = [json!([to("jump", "web")]), json!([verdict("accept")])];
    assert_eq!(ports(&input("drop", &rules, &others)), [80]);
    // The kernel does not reach a rule after `goto`.
    let rules = [json!([to("goto", "web")]), json!([verdict("accept")])];
    assert_eq!(ports(&input("drop", &rules, &others)), [22, 80, 443, 8000]);
    let map = |verdicts: Value| json!([{"vmap": {"key": state(), "data": {"set": verdicts}}}]);
    let known = map(json!([["invalid", {"drop": null}], ["established", to("jump", "web")]]));
    assert_eq!(ports(&input("accept", &[known], &others)), [80]);
    let by_port =
        json!([{"vmap": {"key": field("tcp", "dport"), "data": {"set": [[443, {"drop": null}]]}}}]);
    assert_eq!(ports(&input("accept", &[by_port], &[])), [443]);
    let missing = input("accept", &[json!([to("jump", "nowhere")])], &[]);
    assert_eq!(missing.stopped, Flows::all());
}

#[test]
fn a_rule_set_of_many_ways_is_given_up() {
    let mut others = Vec::new();
    let to = |name: String| json!([{"jump": {"target": name}}]);
    for depth in 0..14 {
        let name = format!("c{depth}");
        others.push(json!({"chain": {"family": "inet", "table": "t", "name": name}}));
        for _ in 0..8 {
            let expr = to(format!("c{}", depth + 1));
            others.push(
                json!({"rule": {"family": "inet", "table": "t", "chain": name, "expr": expr}}),
            );
        }
    }
    others.push(json!({"chain": {"family": "inet", "table": "t", "name": "c14"}}));
    let judged = input("accept", &[to("c0".into())], &others);
    assert_eq!(judged.stopped, Flows::all());
    assert!(judged.by.len() <= NAMED_MAX);
}

#[test]
fn the_element_for_all_other_keys_comes_last() {
    let map = |key: Value, verdicts: Value| {
        input("accept", &[json!([{"vmap": {"key": key, "data": {"set": verdicts}}}])], &[])
    };
    let verdicts = |first: &str| json!([[first, {"accept": null}], ["*", {"drop": null}]]);
    assert_eq!(map(state(), verdicts("new")).stopped, Flows::all());
    assert!(map(state(), verdicts("established")).stopped.is_empty());
    assert_eq!(map(meta("l4proto"), verdicts("udp")).stopped, Flows::all());
    let first = json!([["*", {"accept": null}], [80, {"drop": null}]]);
    assert_eq!(ports(&map(field("tcp", "dport"), first)), [80]);
    let set = is(state(), json!({"set": ["new", "*"]}));
    assert_eq!(input("accept", &[json!([set, verdict("drop")])], &[]).stopped, Flows::all());
}

#[test]
fn elements_with_limits_are_not_known() {
    let with = |key: &str| json!({"elem": {"val": {"range": [0, 65535]}, key: {"rate": 1}}});
    let accept = |element: Value| {
        let condition = is(field("tcp", "dport"), json!({"set": [element]}));
        input("drop", &[json!([condition, verdict("accept")])], &[])
    };
    assert!(accept(with("counter")).stopped.is_empty());
    assert_eq!(accept(with("limit")).stopped, Flows::all());
    assert_eq!(accept(with("quota")).stopped, Flows::all());
}

#[test]
fn statements_that_look_up_may_end_their_rule() {
    let stops =
        |statement: Value| input("drop", &[json!([statement, verdict("accept")])], &[]).stopped;
    let by_map = || json!({"map": {"key": field("tcp", "dport"), "data": {"set": [[1, 5]]}}});
    let mangle = |key: Value, value: Value| json!({"mangle": {"key": key, "value": value}});
    assert!(stops(mangle(meta("mark"), 5.into())).is_empty());
    assert_eq!(stops(mangle(meta("mark"), by_map())), Flows::all());
    assert_eq!(stops(mangle(meta("mark"), json!({"ct": {"key": "mark"}}))), Flows::all());
    assert!(stops(json!({"counter": {"packets": 1, "bytes": 2}})).is_empty());
    assert!(stops(json!({"counter": "named"})).is_empty());
    assert_eq!(stops(json!({"counter": by_map()})), Flows::all());
    // The kernel discards packets for another host.
    assert_eq!(stops(mangle(meta("pkttype"), "other".into())), Flows::all());
    assert_eq!(stops(mangle(field("tcp", "dport"), 5.into())), Flows::all());
}

#[test]
fn a_chain_before_tracking_sees_no_state() {
    let chain = |hook: &str, priority: i64| {
        let objects = json!([
            {"chain": {"family": "inet", "table": "t", "name": "c", "type": "filter", "hook": hook, "prio": priority, "policy": "drop"}},
            {"rule": {"family": "inet", "table": "t", "chain": "c", "expr": [is(state(), "established".into()), verdict("accept")]}},
        ]);
        judge(&json!({"nftables": objects})).unwrap().stopped
    };
    for (hook, priority) in
        [("input", -300), ("postrouting", -300), ("output", 0), ("prerouting", -150)]
    {
        assert!(chain(hook, priority).is_empty(), "{hook} {priority}");
    }
    for (hook, priority) in
        [("output", -300), ("output", -200), ("prerouting", -300), ("ingress", 0)]
    {
        assert_eq!(chain(hook, priority), Flows::all(), "{hook} {priority}");
    }
}

#[test]
fn marks_choose_routes_in_chains_of_type_route() {
    let chain = |kind: &str| {
        let mangle = json!({"mangle": {"key": meta("mark"), "value": 5}});
        let objects = json!([
            {"chain": {"family": "ip", "table": "t", "name": "c", "type": kind, "hook": "output", "prio": 0, "policy": "accept"}},
            {"rule": {"family": "ip", "table": "t", "chain": "c", "expr": [mangle]}},
        ]);
        judge(&json!({"nftables": objects})).unwrap().stopped
    };
    assert!(chain("filter").is_empty());
    assert_eq!(chain("route"), Flows::all());
}

#[test]
fn a_rule_set_of_many_elements_is_given_up() {
    let ports: Vec<u32> = (1..32_000).collect();
    let condition = is(field("tcp", "dport"), json!({"set": ports}));
    let mut rules = vec![json!([condition, {"counter": null}]); 100];
    rules.push(json!([condition, verdict("drop")]));
    // The rules together have too many elements, so any packet may be stopped.
    assert!(input("accept", &rules, &[]).stopped.concern(40_000, 50_000));
    assert!(!input("accept", &rules[98..], &[]).stopped.concern(40_000, 50_000));
}

#[test]
fn untracked_packets_have_no_state() {
    let untracked = json!({"rule": {"family": "inet", "table": "t", "chain": "raw", "expr": [verdict("notrack")]}});
    let rules = [json!([is(state(), "established".into()), verdict("accept")])];
    assert!(input("drop", &rules, &[]).stopped.is_empty());
    assert_eq!(input("drop", &rules, &[untracked]).stopped, Flows::all());
    let zone = json!({"mangle": {"key": {"ct": {"key": "zone"}}, "value": 5}});
    let other = json!({"rule": {"family": "inet", "table": "t", "chain": "raw", "expr": [zone]}});
    assert_eq!(input("drop", &rules, &[other]).stopped, Flows::all());
}
