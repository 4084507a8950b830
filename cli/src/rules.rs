//! Rules of the command line: which connections may be accelerated, and which users are trusted.

mod trust;

use anyhow::Context;
use sovia_control::{Effect, RuleError, RuleFault, Rules};

use crate::similar::suggestion;

pub use self::trust::rules_by_number as by_number;

/// Rules, as the command line has them. Without any everything of one's own user is accelerated.
///
/// A SPEC is a list of conditions, joined by commas, that must all hold.
#[derive(clap::Args)]
pub struct Specs {
    /// Accelerate only connections that match this SPEC, or one of the SPECs if the option is given several times
    #[arg(long, value_name = "SPEC")]
    pub only: Vec<String>,
    /// Keep connections that match this SPEC on TCP
    #[arg(long, value_name = "SPEC")]
    pub except: Vec<String>,
    /// Keep matching connections on TCP unless packet filters let all packets of the connection pass. The rule needs
    /// `sovia agent --filters`, which watches the filters. Without a SPEC, the rule is for all connections. When
    /// filters change, accelerated connections go back to TCP, and may be accelerated again later
    #[arg(long, value_name = "SPEC", num_args = 0..=1, require_equals = true, default_missing_value = "port=1-65535")]
    pub respect_filters: Vec<String>,
    /// Also share memory with processes of another user, which must trust this program's user by such a rule as well.
    /// The SPEC names the other user by `user=NAME`, `uid=NUMBER`, `group=NAME` or `any`. A group stands for the users
    /// that are its members when the program starts. A trusted process can disturb its connections with this program,
    /// but cannot reach other memory of this program
    #[arg(long, value_name = "SPEC")]
    pub trust: Vec<String>,
    /// Send matching connections through an agent, usually to another host. `name=NAME` in the SPEC names the agent.
    /// The agent carries connections once 32 small messages are in flight; `messages=N` is another number.
    /// Both ends must have such a rule. Without such a rule, two ends on one host share memory
    #[arg(long, value_name = "SPEC")]
    pub nic: Vec<String>,
}

/// Returns the error of a rule, with the rule's place and a suggestion for a misspelt word.
pub fn explained(place: &str, error: &RuleError) -> anyhow::Error {
    const EFFECTS: [&str; 5] = ["only", "except", "respect-filters", "trust", "nic"];
    const KEYS: [&str; 10] =
        ["port", "addr", "program", "end", "user", "uid", "group", "any", "name", "messages"];
    let word = |end: char| error.term().split(end).next().unwrap_or_default().trim();
    let suggestion = match error.fault() {
        RuleFault::Effect => suggestion(word(':'), EFFECTS),
        RuleFault::Key => suggestion(word('='), KEYS),
        _ => String::new(),
    };
    anyhow::anyhow!("{place}: {error}{suggestion}")
}

impl Specs {
    /// Returns the rules, with IDs in place of the names of users and groups.
    ///
    /// # Errors
    /// An error for an invalid SPEC, or for an unknown user or group.
    pub fn rules(&self) -> anyhow::Result<Rules> {
        let mut rules = Rules::NONE;
        let trusted: Vec<String> = self
            .trust
            .iter()
            .map(|spec| trust::by_number(spec).with_context(|| format!("--trust {spec}")))
            .collect::<anyhow::Result<Vec<_>>>()?
            .concat();
        for (effect, specs) in [
            (Effect::Only, &self.only),
            (Effect::Except, &self.except),
            (Effect::RespectFilters, &self.respect_filters),
            (Effect::Trust, &trusted),
            (Effect::Nic, &self.nic),
        ] {
            for spec in specs {
                let option = format!("--{}", effect.word());
                rules.add(effect, spec).map_err(|error| explained(&option, &error))?;
            }
        }
        Ok(rules)
    }
}
