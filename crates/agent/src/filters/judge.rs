//! Finds the packets over the loopback device that nftables rules may stop. The input is the output of `nft -j list
//! ruleset` (libnftables-json(5)).
//!
//! [`judge`] follows the packets of open TCP connections through every base chain that such packets pass. A condition
//! on ports divides the packets. A condition on the device, the protocol or the state of the connection has one known
//! outcome. For any other condition, each packet counts with both outcomes. So the result contains every packet that
//! may be stopped, and perhaps packets that pass.

use super::ruleset::{ANY, Devices, Id, Rule, Ruleset, element, is_named, is_plain, only};
use serde_json::Value;
use sovia_proto::filters::{Flows, Ports, Side};

/// Maximum number of nested jumps in the kernel (`NFT_JUMP_STACK_SIZE`).
const JUMPS_MAX: usize = 16;
/// Maximum number of rules and set elements examined. A rule counts once for each path to the rule.
const LOOKS_MAX: u32 = 1 << 18;
/// Maximum number of rules named in a judgement.
const NAMED_MAX: usize = 16;

/// Packets that rules may stop, and these rules.
#[derive(Debug, Default)]
pub struct Judgement {
    /// The packets.
    pub stopped: Flows,
    /// The rules, as text for users.
    pub by: Vec<String>,
}

impl Judgement {
    /// Returns the judgement that any packet may be stopped, for this reason.
    pub fn nothing_passes(reason: String) -> Judgement {
        Judgement { stopped: Flows::all(), by: vec![reason] }
    }

    /// Adds another judgement to this one.
    pub fn and(&mut self, other: Judgement) {
        self.stopped.add_all(&other.stopped);
        self.by.extend(other.by);
        self.by.truncate(NAMED_MAX);
    }
}

/// Judges a rule set. Returns `None` for a text that is no rule set.
pub(super) fn judge(listing: &Value) -> Option<Judgement> {
    let rules = Ruleset::read(listing.get("nftables")?.as_array()?);
    let mut judgement = Judgement::default();
    let mut left = LOOKS_MAX;
    for (id, chain) in &rules.chains {
        let Some(base) = &chain.base else { continue };
        let Some(devices) = base.devices() else { continue };
        let mut walk = Walk {
            rules: &rules,
            devices,
            is_for_routes: base.kind == "route",
            knows_state: base.knows_state() && !rules.leaves_untracked,
            left: &mut left,
            judgement: &mut judgement,
        };
        let falls = walk.chain(id, Flows::all(), 0);
        if base.drops {
            walk.stop(&falls, || format!("the policy of {id}"));
        }
    }
    Some(judgement)
}

/// Outcome of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    /// False for every packet.
    Never,
    /// True for every packet.
    Always,
    /// Not known.
    Maybe,
    /// True for packets whose port is in one of the ranges.
    Ports(Side, Vec<Ports>),
    /// True for packets whose port is in none of the ranges.
    OtherPorts(Side, Vec<Ports>),
}

impl Test {
    fn of(is_met: bool) -> Test {
        if is_met { Test::Always } else { Test::Never }
    }

    fn negated(self) -> Test {
        match self {
            Test::Never => Test::Always,
            Test::Always => Test::Never,
            Test::Maybe => Test::Maybe,
            Test::Ports(side, ranges) => Test::OtherPorts(side, ranges),
            Test::OtherPorts(side, ranges) => Test::Ports(side, ranges),
        }
    }

    /// Returns the packets for which the condition may be true, and those for which it may be false.
    fn split(&self, flows: &Flows) -> (Flows, Flows) {
        match self {
            Test::Never => (Flows::NONE, flows.clone()),
            Test::Always => (flows.clone(), Flows::NONE),
            Test::Maybe => (flows.clone(), flows.clone()),
            Test::Ports(side, ranges) => flows.split(*side, ranges),
            Test::OtherPorts(side, ranges) => {
                let (inside, outside) = flows.split(*side, ranges);
                (outside, inside)
            }
        }
    }
}

/// Result of a statement for the packets that reach it.
enum After {
    /// These packets continue with the rule's next statement.
    GoOn(Flows),
    /// All packets have left the rule.
    Left,
}

/// State of a walk through one base chain.
struct Walk<'a, 'j> {
    rules: &'a Ruleset<'a>,
    devices: Devices,
    /// True if the chain is of type `route`.
    is_for_routes: bool,
    /// True if rules see the state of a connection.
    knows_state: bool,
    /// Number of rules and elements that may still be examined.
    left: &'j mut u32,
    judgement: &'j mut Judgement,
}

/// Sets of packets on their way through a chain.
#[derive(Default)]
struct Passage {
    /// Packets that continue with the next rule.
    next: Flows,
    /// Packets that have returned to the calling chain.
    returned: Flows,
}

impl<'a> Walk<'a, '_> {
    fn stop(&mut self, flows: &Flows, by: impl FnOnce() -> String) {
        if !flows.is_empty() {
            self.judgement.stopped.add_all(flows);
            if self.judgement.by.len() < NAMED_MAX {
                self.judgement.by.push(by());
            }
        }
    }

    /// Takes packets through a chain. Returns the packets that reach its end or return from it.
    fn chain(&mut self, id: &Id<'a>, flows: Flows, jumps: usize) -> Flows {
        let Some(chain) = self.rules.chains.get(id).filter(|_| jumps <= JUMPS_MAX) else {
            self.stop(&flows, || format!("{id}, which the agent cannot analyze"));
            return Flows::NONE;
        };
        let mut passage = Passage { next: flows, returned: Flows::NONE };
        for rule in &chain.rules {
            if passage.next.is_empty() {
                break;
            }
            let Some(left) = self.left.checked_sub(1) else {
                self.stop(&passage.next, || format!("{id}, which has too many rules to analyze"));
                return Flows::NONE;
            };
            *self.left = left;
            self.rule(id, rule, &mut passage, jumps);
        }
        passage.returned.add_all(&passage.next);
        passage.returned
    }

    fn rule(&mut self, id: &Id<'a>, rule: &Rule<'a>, passage: &mut Passage, jumps: usize) {
        let mut here = core::mem::take(&mut passage.next);
        for statement in rule.statements {
            if here.is_empty() {
                break;
            }
            let at = (id, rule.handle, jumps);
            match self.statement(at, statement, here, passage) {
                After::GoOn(flows) => here = flows,
                After::Left => return,
            }
        }
        passage.next.add_all(&here);
    }

    /// Takes packets through a statement of a rule. Adds those that leave the rule to `passage`.
    fn statement(
        &mut self,
        at: (&Id<'a>, Option<u64>, usize),
        statement: &'a Value,
        here: Flows,
        passage: &mut Passage,
    ) -> After {
        let (id, handle, jumps) = at;
        let rule = || match handle {
            Some(handle) => format!("rule {handle} of {id}"),
            None => format!("a rule of {id}"),
        };
        let Some((kind, value)) = only(statement) else {
            self.stop(&here, rule);
            return After::GoOn(here);
        };
        match kind {
            "match" => {
                let (yes, no) = self.test(id, value).split(&here);
                passage.next.add_all(&no);
                return After::GoOn(yes);
            }
            "vmap" => {
                self.verdict_map(at, value, here, passage);
                return After::Left;
            }
            _ if is_condition(kind, value) => {
                passage.next.add_all(&here);
                return After::GoOn(here);
            }
            // Without a map, these statements neither stop nor change a packet, so every packet continues.
            "log" | "notrack" => return After::GoOn(here),
            "counter" | "secmark" | "ct helper" | "ct timeout" | "mangle"
                if self.is_harmless(kind, value) =>
            {
                if !is_literal(value.get("value").unwrap_or(value)) {
                    passage.next.add_all(&here);
                }
                return After::GoOn(here);
            }
            "accept" => {}
            "continue" => passage.next.add_all(&here),
            "return" => passage.returned.add_all(&here),
            "jump" | "goto" if let Some(target) = value.get("target").and_then(Value::as_str) => {
                let back = self.chain(&id.sibling(target), here, jumps + 1);
                let goes_on =
                    if kind == "jump" { &mut passage.next } else { &mut passage.returned };
                goes_on.add_all(&back);
            }
            "drop" | "reject" | "queue" => self.stop(&here, rule),
            _ => {
                self.stop(&here, rule);
                return After::GoOn(here);
            }
        }
        After::Left
    }

    /// Returns true if a statement changes no more of a packet than its metadata.
    fn is_harmless(&self, kind: &str, value: &Value) -> bool {
        let key = |of: &str| value.pointer(of).and_then(Value::as_str);
        let is_mark = matches!(key("/key/meta/key"), Some("mark" | "priority" | "nftrace"));
        let is_of_connection = matches!(key("/key/ct/key"), Some("mark" | "zone"));
        // In a chain of type `route`, a mark may choose another route.
        kind != "mangle" || is_of_connection || is_mark && !self.is_for_routes
    }

    /// Takes packets through a verdict map. Packets without an element continue with the next rule.
    fn verdict_map(
        &mut self,
        at: (&Id<'a>, Option<u64>, usize),
        map: &'a Value,
        mut here: Flows,
        passage: &mut Passage,
    ) {
        let (key, data) = (map.get("key"), map.get("data"));
        let elements = data.and_then(|data| self.elements(at.0, data));
        let (Some(key), Some(elements)) = (key, elements) else {
            self.stop(&here, || format!("a verdict map of {}", at.0));
            return;
        };
        // The kernel tries all other elements before the element for any key.
        let is_any = |element: &&Value| element.get(0).is_some_and(|key| self::element(key) == ANY);
        let (any, others): (Vec<&Value>, Vec<&Value>) = elements.iter().partition(is_any);
        for element in others.into_iter().chain(any) {
            let [wanted, verdict] = element.as_array().map_or(&[][..], Vec::as_slice) else {
                self.stop(&here, || format!("a verdict map of {}", at.0));
                return;
            };
            let (yes, no) = self.compare(key, core::slice::from_ref(wanted)).split(&here);
            if let After::GoOn(flows) = self.statement(at, verdict, yes, passage) {
                passage.next.add_all(&flows);
            }
            here = no;
        }
        passage.next.add_all(&here);
    }

    /// Returns the elements of a set; `None` if they are not known, or if an element has a condition of its own.
    fn elements(&mut self, id: &Id<'a>, set: &'a Value) -> Option<&'a [Value]> {
        let elements = self.rules.elements(id, set)?;
        // Each element counts as an examination.
        *self.left = self.left.checked_sub(elements.len() as u32)?;
        elements.iter().all(is_plain).then_some(elements)
    }

    /// Decides a `match` statement.
    fn test(&mut self, id: &Id<'a>, condition: &'a Value) -> Test {
        let (Some(left), Some(right)) = (condition.get("left"), condition.get("right")) else {
            return Test::Maybe;
        };
        let values = match right {
            Value::Array(values) => Some(values.as_slice()),
            right if right.get("set").is_some() => self.elements(id, right),
            Value::String(name) if name.starts_with('@') => self.elements(id, right),
            value => Some(core::slice::from_ref(value)),
        };
        let Some(values) = values else { return Test::Maybe };
        match condition.get("op").and_then(Value::as_str) {
            Some("==" | "in") => self.compare(left, values),
            Some("!=") if is_of_another_protocol(left) => Test::Never,
            Some("!=") => self.compare(left, values).negated(),
            Some(op)
                if let Some(side) = port(left)
                    && let [value] = values =>
            {
                compare_order(op, side, value)
            }
            _ => Test::Maybe,
        }
    }

    /// Returns the outcome of the condition that `left` has one of the values.
    fn compare(&self, left: &Value, values: &[Value]) -> Test {
        if is_of_another_protocol(left) {
            return Test::Never;
        }
        if let Some(side) = port(left) {
            let ranges = values.iter().map(range).collect::<Option<Vec<Ports>>>();
            return ranges.map_or(Test::Maybe, |ranges| Test::Ports(side, ranges));
        }
        let is_any = |is: &dyn Fn(&str) -> bool| {
            let names = values.iter().map(|value| element(value).as_str());
            let names = names.collect::<Option<Vec<&str>>>();
            let is = |name: &str| name == ANY || is(name);
            names.map_or(Test::Maybe, |names| Test::of(names.into_iter().any(is)))
        };
        match left.pointer("/meta/key").and_then(Value::as_str) {
            Some("iif" | "iifname") => is_any(&|name| is_named(self.devices.input, name)),
            Some("oif" | "oifname") => is_any(&|name| is_named(self.devices.output, name)),
            Some("l4proto") => is_any(&|name| name == "tcp"),
            Some(_) => Test::Maybe,
            None if left.pointer("/ct/key").is_some_and(|key| key == "state") => {
                // Without tracking, or before it, a packet has another state.
                if self.knows_state { is_any(&|name| name == "established") } else { Test::Maybe }
            }
            None => Test::Maybe,
        }
    }
}

/// Returns true if a statement is a condition with an unknown outcome: on earlier packets, or by an extension of
/// iptables.
fn is_condition(kind: &str, value: &Value) -> bool {
    let is_of_iptables = || value.get("type").is_some_and(|kind| kind == "match");
    matches!(kind, "limit" | "quota" | "ct count" | "meter" | "set" | "map" | "last")
        || kind == "xt" && is_of_iptables()
}

/// Returns true if a statement contains its value, so that no look-up can fail.
fn is_literal(value: &Value) -> bool {
    value.is_null() || value.is_number() || value.is_string() || value.get("packets").is_some()
}

/// Returns the side whose port `left` is; `None` for any other key.
fn port(left: &Value) -> Option<Side> {
    let payload = left.get("payload")?;
    let is_ours = matches!(payload.get("protocol")?.as_str()?, "tcp" | "th");
    match payload.get("field")?.as_str()? {
        "sport" if is_ours => Some(Side::Source),
        "dport" if is_ours => Some(Side::Destination),
        _ => None,
    }
}

/// Returns true if a key is a field of a protocol other than TCP. nft omits the condition on the protocol before such
/// a key.
fn is_of_another_protocol(left: &Value) -> bool {
    const OTHERS: [&str; 10] =
        ["udp", "udplite", "sctp", "dccp", "icmp", "icmpv6", "igmp", "esp", "ah", "comp"];
    let protocol = left.pointer("/payload/protocol").and_then(Value::as_str);
    protocol.is_some_and(|protocol| OTHERS.contains(&protocol))
}

/// Returns the range of ports that a condition's value stands for.
fn range(value: &Value) -> Option<Ports> {
    let port = |value: &Value| u16::try_from(value.as_u64()?).ok();
    let value = element(value);
    if let Some([first, last]) = value.get("range").and_then(Value::as_array).map(Vec::as_slice) {
        let (first, last) = (port(first)?, port(last)?);
        return (first <= last).then_some(Ports { first, last });
    }
    let port = port(value)?;
    Some(Ports { first: port, last: port })
}

fn compare_order(op: &str, side: Side, value: &Value) -> Test {
    let Some(Ports { first: port, .. }) = range(value) else { return Test::Maybe };
    let below = |last: u16| Test::Ports(side, vec![Ports { first: 0, last }]);
    let under = port.checked_sub(1).map_or(Test::Never, below);
    match op {
        "<" => under,
        ">=" => under.negated(),
        "<=" => below(port),
        ">" => below(port).negated(),
        _ => Test::Maybe,
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
