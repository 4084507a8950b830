//! Rules for connections: which connections may leave TCP, and how.
//!
//! The command line and [`env::RULES`](crate::env::RULES) have rules as text. Rules are joined by `;`. A rule is
//! `only:SPEC`, `except:SPEC`, `respect-filters:SPEC`, `trust:SPEC` or `nic:SPEC`. A SPEC is a list of terms joined
//! by `,`. A rule applies to connections that match all its terms:
//!
//! - `port=6379` or `port=6000-6100`: the port of either end;
//! - `addr=127.0.0.1` or `addr=10.0.0.0/8`: the peer's address;
//! - `program=redis-server`: the program's file name;
//! - `end=connector` or `end=acceptor`.
//!
//! A `nic:` rule also names the NIC in software that connects the two ends, such as `name=a`. `messages=1` is the number
//! of messages in flight from which the NIC carries connections. The first matching `nic:` rule applies. If none matches,
//! the ends share memory.
//!
//! A `trust:` rule also names users, such as `uid=112` or `any`. An end of a matching connection may share memory with a
//! process of such a user. The rules of that process must also trust the user of this end.

use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;

use crate::term::{End, NicRule, RuleError, RuleFault, Spec};
use crate::users::Users;

/// Maximum number of rules in a list, enough for lists written by hand.
pub const RULES_MAX: usize = 32;

/// Number of messages in flight from which a NIC carries connections, if the rule has no term `messages=`. From about
/// this number on, small messages can be faster than over TCP.
const MESSAGES: u16 = 32;

/// Effect of a matching rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Accelerates matching connections. If a list has `Only` rules, connections that match none of these rules
    /// stay on TCP.
    Only,
    /// Keeps matching connections on TCP, even if an `Only` rule also matches.
    Except,
    /// Accelerates matching connections only while packet filters let every packet pass.
    RespectFilters,
    /// Lets matching connections share memory with processes of the named users.
    Trust,
    /// Accelerates matching connections by a NIC in software.
    Nic,
}

impl Effect {
    /// Returns the word that a rule with this effect has before the colon.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Only => "only",
            Self::Except => "except",
            Self::RespectFilters => "respect-filters",
            Self::Trust => "trust",
            Self::Nic => "nic",
        }
    }
}

/// List of at most [`RULES_MAX`] rules. An empty list allows everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    list: Vec<(Effect, Spec)>,
}

impl Rules {
    /// The empty list: every connection may be accelerated.
    pub const NONE: Self = Self { list: Vec::new() };

    /// Parses rules from text. Ignores empty rules, such as an empty text between two `;`.
    ///
    /// # Errors
    /// A [`RuleError`] with the first wrong term.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        let mut rules = Self::NONE;
        rules.read(text)?;
        Ok(rules)
    }

    /// Parses a file with rules. Lines that begin with `#` are comments.
    ///
    /// # Errors
    /// Same as [`parse`](Self::parse).
    pub fn parse_file(text: &str) -> Result<Self, RuleError> {
        let mut rules = Self::NONE;
        let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        for line in lines {
            rules.read(line)?;
        }
        Ok(rules)
    }

    /// Adds rules from their text form.
    fn read(&mut self, text: &str) -> Result<(), RuleError> {
        for rule in text.split(';').map(str::trim).filter(|rule| !rule.is_empty()) {
            let (word, spec) =
                rule.split_once(':').ok_or(RuleError::new(rule, RuleFault::Effect))?;
            let effect = match word.trim() {
                "only" => Effect::Only,
                "except" => Effect::Except,
                "respect-filters" => Effect::RespectFilters,
                "trust" => Effect::Trust,
                "nic" => Effect::Nic,
                _ => return Err(RuleError::new(rule, RuleFault::Effect)),
            };
            self.add(effect, spec)?;
        }
        Ok(())
    }

    /// Adds a rule with this effect and with the text `spec` as its SPEC.
    ///
    /// # Errors
    /// Same as [`parse`](Self::parse), and [`RuleFault::TooMany`] if the list is full.
    pub fn add(&mut self, effect: Effect, spec: &str) -> Result<(), RuleError> {
        let parsed = Spec::parse(spec)?;
        if parsed.nic().is_some() != (effect == Effect::Nic) {
            return Err(RuleError::new(spec.trim(), RuleFault::Nic));
        }
        if parsed.messages().is_some() && effect != Effect::Nic {
            return Err(RuleError::new(spec.trim(), RuleFault::Messages));
        }
        if parsed.users().is_some() != (effect == Effect::Trust) {
            return Err(RuleError::new(spec.trim(), RuleFault::User));
        }
        if self.list.len() == RULES_MAX {
            return Err(RuleError::new(spec.trim(), RuleFault::TooMany));
        }
        self.list.push((effect, parsed));
        Ok(())
    }

    /// Returns true if there are no rules.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns true if this end of a connection may be accelerated. `program` is the path or the file name of the
    /// end's program. The function neither allocates nor blocks.
    pub fn allows(&self, program: &[u8], end: End, local: SocketAddr, peer: SocketAddr) -> bool {
        let mut only_seen = false;
        let mut only_matched = false;
        for (effect, spec) in self.list.iter() {
            let matched = spec.matches(program, end, local, peer);
            match effect {
                Effect::Nic | Effect::Trust | Effect::RespectFilters => {}
                Effect::Except if matched => return false,
                Effect::Except => {}
                Effect::Only => {
                    only_seen = true;
                    only_matched |= matched;
                }
            }
        }
        only_matched || !only_seen
    }

    /// Returns true if any connection of `program` may be accelerated. `program` is a path or a file name. Returns
    /// false if all `only:` rules name other programs, or if an `except:` rule matches all connections of this
    /// program.
    pub fn concern(&self, program: &[u8]) -> bool {
        let of = |wanted| self.list.iter().filter(move |(effect, _)| *effect == wanted);
        let is_named = |(_, spec): &(Effect, Spec)| spec.is_for(program);
        let is_refused = |(_, spec): &(Effect, Spec)| spec.is_for(program) && spec.is_for_all();
        (of(Effect::Only).next().is_none() || of(Effect::Only).any(is_named))
            && !of(Effect::Except).any(is_refused)
    }

    /// Returns the NIC by which this end of a connection may be accelerated, if a rule names one.
    pub fn nic(
        &self,
        program: &[u8],
        end: End,
        local: SocketAddr,
        peer: SocketAddr,
    ) -> Option<NicRule<'_>> {
        let mut named = self.list.iter().filter(|(effect, _)| *effect == Effect::Nic);
        let (_, spec) = named.find(|(_, spec)| spec.matches(program, end, local, peer))?;
        Some(NicRule { name: spec.nic()?, messages: spec.messages().unwrap_or(MESSAGES) })
    }

    /// Returns true if this end of a connection may share memory with a process of user `uid`. The function does
    /// not check if `uid` is this process's own user. `uid` is `None` for a user without a number in this user
    /// namespace. Then only a rule for any user matches.
    pub fn trusts(
        &self,
        program: &[u8],
        end: End,
        local: SocketAddr,
        peer: SocketAddr,
        uid: Option<u32>,
    ) -> bool {
        self.trusting(program, end, local, peer).any(|users| users.contains(uid))
    }

    /// Returns true if this end of a connection may share memory with a process of at least one other user.
    pub fn trusts_some(
        &self,
        program: &[u8],
        end: End,
        local: SocketAddr,
        peer: SocketAddr,
    ) -> bool {
        self.trusting(program, end, local, peer).next().is_some()
    }

    /// Returns the users of all `trust:` rules that match this end of a connection.
    fn trusting(
        &self,
        program: &[u8],
        end: End,
        local: SocketAddr,
        peer: SocketAddr,
    ) -> impl Iterator<Item = Users> {
        let matching = move |spec: &&Spec| spec.matches(program, end, local, peer);
        let trusting = self.list.iter().filter(|(effect, _)| *effect == Effect::Trust);
        trusting.map(|(_, spec)| spec).filter(matching).filter_map(Spec::users)
    }

    /// Returns true if this end of a connection may be accelerated only while packet filters let every packet pass.
    pub fn respects_filters(
        &self,
        program: &[u8],
        end: End,
        local: SocketAddr,
        peer: SocketAddr,
    ) -> bool {
        let matches = |(effect, spec): &(Effect, Spec)| {
            *effect == Effect::RespectFilters && spec.matches(program, end, local, peer)
        };
        self.list.iter().any(matches)
    }

    /// Returns true if any rule has this effect.
    pub fn have(&self, effect: Effect) -> bool {
        self.list.iter().any(|(of_rule, _)| *of_rule == effect)
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self::NONE
    }
}

impl core::str::FromStr for Rules {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        Self::parse(text)
    }
}

/// Writes the rules as text. [`Rules::parse`] parses this text to an equal value.
impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (effect, spec)) in self.list.iter().enumerate() {
            let semicolon = if place == 0 { "" } else { ";" };
            write!(f, "{semicolon}{}:{spec}", effect.word())?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
