//! A rule set of nftables, as `nft -j list ruleset` prints it (libnftables-json(5)).

use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Family, table and name of a chain or a set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id<'a> {
    family: &'a str,
    table: &'a str,
    pub(super) name: &'a str,
}

impl<'a> Id<'a> {
    fn read(object: &'a Map<String, Value>, name: &str) -> Option<Id<'a>> {
        let text = |key: &str| object.get(key)?.as_str();
        Some(Id { family: text("family")?, table: text("table")?, name: text(name)? })
    }

    /// Returns the id of another chain or set in the same table.
    pub(super) fn sibling(&self, name: &'a str) -> Id<'a> {
        Id { name, ..*self }
    }
}

impl std::fmt::Display for Id<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "chain {} in table {} {}", self.name, self.family, self.table)
    }
}

/// A chain that the kernel calls.
#[derive(Debug)]
pub(super) struct Base<'a> {
    family: &'a str,
    pub(super) kind: &'a str,
    hook: &'a str,
    priority: i64,
    device: Option<&'a Value>,
    /// True if the chain's policy drops packets.
    pub(super) drops: bool,
}

/// Names of the devices that a rule sees: the input device and the output device. An empty name means none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Devices {
    pub(super) input: &'static str,
    pub(super) output: &'static str,
}

impl Base<'_> {
    /// Returns the devices that rules of the chain see; `None` if packets of open connections over `lo` do not pass
    /// the chain.
    pub(super) fn devices(&self) -> Option<Devices> {
        const LO: &str = "lo";
        // Rules of type nat see only the first packet of a connection.
        if matches!(self.family, "arp" | "bridge") || self.kind == "nat" {
            return None;
        }
        let is_lo = |name: &Value| name.as_str().is_none_or(|name| is_named(LO, name));
        let is_for_lo = match self.device {
            None => true,
            Some(Value::Array(names)) => names.iter().any(is_lo),
            Some(name) => is_lo(name),
        };
        let devices = match self.hook {
            "prerouting" | "input" | "ingress" => Devices { input: LO, output: "" },
            "output" | "postrouting" | "egress" => Devices { input: "", output: LO },
            _ => return None,
        };
        is_for_lo.then_some(devices)
    }

    /// Returns true if the kernel has looked up the state of a packet before the chain.
    pub(super) fn knows_state(&self) -> bool {
        /// `NF_IP_PRI_CONNTRACK`.
        const CONNTRACK: i64 = -200;
        match self.hook {
            "input" | "postrouting" => true,
            "prerouting" | "output" => self.priority > CONNTRACK,
            _ => false,
        }
    }
}

/// Returns true if a rule's device name stands for this device. The name may be a prefix followed by `*`.
pub(super) fn is_named(device: &str, name: &str) -> bool {
    match name.strip_suffix('*') {
        Some(prefix) => device.starts_with(prefix),
        None => name == device,
    }
}

#[derive(Debug, Default)]
pub(super) struct Chain<'a> {
    pub(super) base: Option<Base<'a>>,
    pub(super) rules: Vec<Rule<'a>>,
}

#[derive(Debug)]
pub(super) struct Rule<'a> {
    pub(super) handle: Option<u64>,
    pub(super) statements: &'a [Value],
}

#[derive(Debug, Default)]
pub(super) struct Ruleset<'a> {
    pub(super) chains: BTreeMap<Id<'a>, Chain<'a>>,
    /// Elements of sets and maps.
    sets: BTreeMap<Id<'a>, &'a [Value]>,
    /// Sets and maps to which rules add elements.
    changing: BTreeSet<Id<'a>>,
    /// Set if a rule may exclude packets from connection tracking.
    pub(super) leaves_untracked: bool,
}

impl<'a> Ruleset<'a> {
    pub(super) fn read(objects: &'a [Value]) -> Ruleset<'a> {
        let mut rules = Ruleset::default();
        for object in objects {
            let Some((kind, Value::Object(object))) = only(object) else { continue };
            match kind {
                "chain" => rules.add_chain(object),
                "rule" => rules.add_rule(object),
                "set" | "map" => rules.add_set(object),
                _ => {}
            }
        }
        rules
    }

    fn add_chain(&mut self, object: &'a Map<String, Value>) {
        let Some(id) = Id::read(object, "name") else { return };
        let text = |key: &str| object.get(key).and_then(Value::as_str);
        let family = id.family;
        let base = text("hook").map(|hook| Base {
            family,
            kind: text("type").unwrap_or_default(),
            hook,
            // A priority given by name may have any value. Assume the earliest.
            priority: object.get("prio").and_then(Value::as_i64).unwrap_or(i64::MIN),
            device: object.get("dev"),
            drops: text("policy") == Some("drop"),
        });
        self.chains.entry(id).or_default().base = base;
    }

    fn add_rule(&mut self, object: &'a Map<String, Value>) {
        let Some(id) = Id::read(object, "chain") else { return };
        let statements = object.get("expr").and_then(Value::as_array);
        let statements = statements.map_or(&[][..], Vec::as_slice);
        for statement in statements {
            self.leaves_untracked |= statement.get("notrack").is_some()
                || statement.pointer("/mangle/key/ct/key").is_some_and(|key| key == "zone");
            let names = ["/set/set", "/map/map", "/meter/name"].into_iter();
            let names = names.filter_map(|at| statement.pointer(at)?.as_str());
            let sets = names.map(|name| id.sibling(name.trim_start_matches('@')));
            self.changing.extend(sets);
        }
        let handle = object.get("handle").and_then(Value::as_u64);
        self.chains.entry(id).or_default().rules.push(Rule { handle, statements });
    }

    fn add_set(&mut self, object: &'a Map<String, Value>) {
        let Some(id) = Id::read(object, "name") else { return };
        let flags = object.get("flags").map(ToString::to_string).unwrap_or_default();
        if !flags.contains("timeout") && !object.contains_key("timeout") {
            let elements = object.get("elem").and_then(Value::as_array);
            self.sets.insert(id, elements.map_or(&[][..], Vec::as_slice));
        }
    }

    /// Returns the elements of an anonymous set, or of a named set to which no rule adds elements.
    pub(super) fn elements(&self, id: &Id<'a>, set: &'a Value) -> Option<&'a [Value]> {
        if let Some(elements) = set.get("set") {
            return elements.as_array().map(Vec::as_slice);
        }
        let id = id.sibling(set.as_str()?.strip_prefix('@')?);
        let known = self.sets.get(&id).filter(|_| !self.changing.contains(&id));
        known.copied()
    }
}

/// Returns the key and value of an object with exactly one key.
pub(super) fn only(object: &Value) -> Option<(&str, &Value)> {
    let mut all = object.as_object()?.iter();
    let (key, value) = all.next()?;
    all.next().is_none().then_some((key, value))
}

/// Key of the element that stands for all other keys.
pub(super) const ANY: &str = "*";

/// Returns true if an element always matches: it has no limit, quota or time-out.
pub(super) fn is_plain(element: &Value) -> bool {
    let is_plain = |value: &Value| match value.get("elem").and_then(Value::as_object) {
        Some(parts) => {
            parts.keys().all(|key| matches!(key.as_str(), "val" | "comment" | "counter"))
        }
        None => true,
    };
    // An element of a map is a pair.
    is_plain(element) && element.get(0).is_none_or(is_plain)
}

/// Returns an element's value without its other attributes.
pub(super) fn element(value: &Value) -> &Value {
    value.pointer("/elem/val").unwrap_or(value)
}
