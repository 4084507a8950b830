//! Packets over the loopback device that nftables rules may stop, from the output of `nft -j list ruleset` (libnftables-json(5)).
//!
//! [`judge`] follows the packets of open TCP connections through every base chain that such packets pass. A condition on
//! ports divides them; one on the device, the protocol or the state of the connection is decided. A packet meets both outcomes
//! of any other condition. So the result may hold packets that pass, and lacks none that may be stopped.

use super::ruleset::{ANY, Devices, Id, Rule, Ruleset, element, is_named, is_plain, only};
use serde_json::Value;
use sovia_proto::filters::{Flows, Ports, Side};

/// Jumps that the kernel follows at most (`NFT_JUMP_STACK_SIZE`).
const JUMPS_MAX: usize = 16;
/// Rules, and elements of their sets, that are looked at, counted once for each way to them.
const LOOKS_MAX: u32 = 1 << 18;
/// Rules that are named at most.
const NAMED_MAX: usize = 16;

/// Packets that rules may stop, and these rules.
#[derive(Debug, Default)]
pub struct Judgement {
    /// The packets.
    pub stopped: Flows,
    /// The rules, as text for people.
    pub by: Vec<String>,
}

impl Judgement {
    /// The judgement that nothing is certain to pass, for a reason.
    pub fn nothing_passes(reason: String) -> Judgement {
        Judgement { stopped: Flows::all(), by: vec![reason] }
    }

    /// Adds another one.
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
    /// No packet meets it.
    Never,
    /// Every packet meets it.
    Always,
    /// Not known.
    Maybe,
    /// Packets whose port is in one of the ranges meet it.
    Ports(Side, Vec<Ports>),
    /// Packets whose port is in none of them meet it.
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

    /// Packets that may meet it, and packets that may not.
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
    /// They go on with the rule's next statement.
    GoOn(Flows),
    /// They have left the rule.
    Left,
}

/// The way of packets through one base chain.
struct Walk<'a, 'j> {
    rules: &'a Ruleset<'a>,
    devices: Devices,
    /// Whether the chain is of type `route`.
    is_for_routes: bool,
    /// Whether rules see the state of a connection.
    knows_state: bool,
    /// How many more rules and elements are looked at.
    left: &'j mut u32,
    judgement: &'j mut Judgement,
}

/// Sets of packets on their way through a chain.
#[derive(Default)]
struct Passage {
    /// Those that go on with the next rule.
    next: Flows,
    /// Those that have left the chain for its caller.
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

    /// Takes packets through a chain. Returns those that come to its end, or return from it.
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
            // Without a map they let every packet go on, with its way and its bytes.
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

    /// Returns true if a statement leaves packets as they are but for what is noted beside them.
    fn is_harmless(&self, kind: &str, value: &Value) -> bool {
        let key = |of: &str| value.pointer(of).and_then(Value::as_str);
        let is_mark = matches!(key("/key/meta/key"), Some("mark" | "priority" | "nftrace"));
        let is_of_connection = matches!(key("/key/ct/key"), Some("mark" | "zone"));
        // In a chain of this kind a mark may choose another route.
        kind != "mangle" || is_of_connection || is_mark && !self.is_for_routes
    }

    /// Takes packets through a verdict map. Packets for which there is no element go on with the next rule.
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
        // Other elements come before the one for all other keys.
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

    /// Elements of a set; `None` if they are not known, or not all alike.
    fn elements(&mut self, id: &Id<'a>, set: &'a Value) -> Option<&'a [Value]> {
        let elements = self.rules.elements(id, set)?;
        // Each look takes time.
        *self.left = self.left.checked_sub(elements.len() as u32)?;
        elements.iter().all(is_plain).then_some(elements)
    }

    /// Decides a statement `match`.
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

    /// Decides whether a key has one of the values.
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
                // The state of a packet that is not tracked, or not yet, is another one.
                if self.knows_state { is_any(&|name| name == "established") } else { Test::Maybe }
            }
            None => Test::Maybe,
        }
    }
}

/// Returns true if a statement is a condition that is not known: on earlier packets, or by an extension of iptables.
fn is_condition(kind: &str, value: &Value) -> bool {
    let is_of_iptables = || value.get("type").is_some_and(|kind| kind == "match");
    matches!(kind, "limit" | "quota" | "ct count" | "meter" | "set" | "map" | "last")
        || kind == "xt" && is_of_iptables()
}

/// Returns true if the value of a statement is written out, so that no look-up can fail.
fn is_literal(value: &Value) -> bool {
    value.is_null() || value.is_number() || value.is_string() || value.get("packets").is_some()
}

/// The side whose port a key is.
fn port(left: &Value) -> Option<Side> {
    let payload = left.get("payload")?;
    let is_ours = matches!(payload.get("protocol")?.as_str()?, "tcp" | "th");
    match payload.get("field")?.as_str()? {
        "sport" if is_ours => Some(Side::Source),
        "dport" if is_ours => Some(Side::Destination),
        _ => None,
    }
}

/// Returns true if a key is a field of a protocol that is not TCP: nft leaves out the condition on the protocol before it.
fn is_of_another_protocol(left: &Value) -> bool {
    const OTHERS: [&str; 10] =
        ["udp", "udplite", "sctp", "dccp", "icmp", "icmpv6", "igmp", "esp", "ah", "comp"];
    let protocol = left.pointer("/payload/protocol").and_then(Value::as_str);
    protocol.is_some_and(|protocol| OTHERS.contains(&protocol))
}

/// The ports that a value of a condition means.
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
