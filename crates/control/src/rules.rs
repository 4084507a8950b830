//! Which connections may leave TCP.
//!
//! Text form, as on the command line and in [`env::RULES`](crate::env::RULES): rules joined by
//! `;`, each `only:SPEC`, `except:SPEC`, `respect-filters:SPEC`, `trust:SPEC` or `nic:SPEC`. A SPEC is a list of terms
//! joined by `,`. All of them must match:
//!
//! - `port=6379` or `port=6000-6100`: the port of either end;
//! - `addr=127.0.0.1` or `addr=10.0.0.0/8`: the peer's address;
//! - `program=redis-server`: the program's file name;
//! - `end=connector` or `end=acceptor`.
//!
//! A `nic:` rule also names the NIC in software that connects the two ends, `name=a`; the first that
//! matches counts. Where none does the ends share memory. A `trust:` rule also names users, `uid=112` or `any`: with
//! processes of those users an end shares memory as well, if they do so with its own.

use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;

use crate::term::{End, NicName, RuleError, RuleFault, Spec};
use crate::users::Users;

/// Most rules in one list: enough for what people write by hand.
pub const RULES_MAX: usize = 32;

/// What a matching rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Accelerate; where such rules exist, what none of them matches stays on TCP.
    Only,
    /// Keep on TCP, whatever `Only` rules say.
    Except,
    /// Accelerate only while packet filters let every packet pass.
    RespectFilters,
    /// Share memory with processes of those users.
    Trust,
    /// Accelerate by a NIC in software.
    Nic,
}

impl Effect {
    /// The word before the colon.
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

/// A list of rules, at most [`RULES_MAX`]. An empty one allows everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    list: Vec<(Effect, Spec)>,
}

impl Rules {
    /// No rules: everything may be accelerated.
    pub const NONE: Self = Self { list: Vec::new() };

    /// Reads the text form. Empty text, and empty rules between two `;`, are no rules.
    ///
    /// # Errors
    /// The first term that cannot be understood, and what is expected in its place.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        let mut rules = Self::NONE;
        rules.read(text)?;
        Ok(rules)
    }

    /// Reads a file: the text form on lines, of which those that begin with `#` are remarks.
    ///
    /// # Errors
    /// As for [`parse`](Self::parse).
    pub fn parse_file(text: &str) -> Result<Self, RuleError> {
        let mut rules = Self::NONE;
        let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        for line in lines {
            rules.read(line)?;
        }
        Ok(rules)
    }

    /// Adds rules in their text form.
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

    /// Adds one rule, from the text of its SPEC.
    ///
    /// # Errors
    /// As for [`parse`](Self::parse), and [`RuleFault::TooMany`] if the list is full.
    pub fn add(&mut self, effect: Effect, spec: &str) -> Result<(), RuleError> {
        let parsed = Spec::parse(spec)?;
        if parsed.nic().is_some() != (effect == Effect::Nic) {
            return Err(RuleError::new(spec.trim(), RuleFault::Nic));
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

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether this end of a connection may be accelerated. `program` is the path or the file
    /// name of the program that holds it. Neither allocates nor blocks.
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

    /// Whether any connection of that program may be accelerated, given as for [`allows`](Self::allows). None may where all
    /// `only:` rules name other programs, or where an `except:` rule says no more than this one's name.
    pub fn concern(&self, program: &[u8]) -> bool {
        let of = |wanted| self.list.iter().filter(move |(effect, _)| *effect == wanted);
        let is_named = |(_, spec): &(Effect, Spec)| spec.is_for(program);
        let is_refused = |(_, spec): &(Effect, Spec)| spec.is_for(program) && spec.is_for_all();
        (of(Effect::Only).next().is_none() || of(Effect::Only).any(is_named))
            && !of(Effect::Except).any(is_refused)
    }

    /// The NIC by which this end of a connection may be accelerated, if a rule names one.
    pub fn nic(
        &self,
        program: &[u8],
        end: End,
        local: SocketAddr,
        peer: SocketAddr,
    ) -> Option<&NicName> {
        let mut named = self.list.iter().filter(|(effect, _)| *effect == Effect::Nic);
        named.find(|(_, spec)| spec.matches(program, end, local, peer))?.1.nic()
    }

    /// Whether this end of a connection may share memory with a process of that user, whichever user this process has. `None` is
    /// a user who has no number here: only a rule for any user names it.
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

    /// Whether this end of a connection may share memory with a process of any other user.
    pub fn trusts_some(
        &self,
        program: &[u8],
        end: End,
        local: SocketAddr,
        peer: SocketAddr,
    ) -> bool {
        self.trusting(program, end, local, peer).next().is_some()
    }

    /// The users whom the rules trust that match this end of a connection.
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

    /// Returns true if any rule has that effect.
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

/// The text form; [`Rules::parse`] reads it back to an equal value.
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
