//! Users in rules `trust:`. People write users' names. The library cannot look names up, so it gets the IDs.

use crate::databases;
use anyhow::{Context, bail};
use sovia_control::Effect;

/// Replaces the names in a SPEC by user IDs. A group gives one SPEC for each member.
pub(super) fn by_number(spec: &str) -> anyhow::Result<Vec<String>> {
    let mut specs = vec![String::new()];
    for term in spec.split(',') {
        let said = match term.split_once('=').map(|(key, value)| (key.trim(), value.trim())) {
            Some(("user", name)) => vec![format!("uid={}", databases::user(name)?)],
            Some(("group", name)) => members(name)?,
            _ => vec![term.to_owned()],
        };
        let with = |spec: &String| -> Vec<String> {
            let comma = if spec.is_empty() { "" } else { "," };
            said.iter().map(|term| format!("{spec}{comma}{term}")).collect()
        };
        specs = specs.iter().flat_map(with).collect();
    }
    Ok(specs)
}

/// Returns the rules of the environment with IDs in place of names; `None` if there are no names.
///
/// # Errors
/// An error if there is no such user or group, or if the databases cannot be queried.
pub fn rules_by_number(text: &str) -> anyhow::Result<Option<String>> {
    let trust = format!("{}:", Effect::Trust.word());
    let mut rules = Vec::new();
    for rule in text.split(';') {
        match rule.trim().strip_prefix(&trust) {
            Some(spec) => {
                rules.extend(by_number(spec)?.iter().map(|spec| format!("{trust}{spec}")));
            }
            None => rules.push(rule.to_owned()),
        }
    }
    let by_number = rules.join(";");
    Ok((by_number != text).then_some(by_number))
}

fn members(name: &str) -> anyhow::Result<Vec<String>> {
    let members = databases::members_of(name)
        .with_context(|| format!("cannot look up the group `{name}` with getent"))?
        .with_context(|| format!("there is no group `{name}`"))?;
    if members.is_empty() {
        bail!("the group `{name}` has no members");
    }
    Ok(members.iter().map(|uid| format!("uid={uid}")).collect())
}
