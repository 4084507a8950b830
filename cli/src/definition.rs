//! A program's command line as data, so that manual pages and completions of all programs that `sovia` becomes are made from
//! what these programs parse (`tools/manual`).

use clap::builder::ValueRange;
use clap::{Arg, ArgAction, Command, CommandFactory};
use serde::{Deserialize, Serialize};

/// The only argument with which a program prints its definition, as JSON, and ends.
pub const ASKED: &str = "--definition";

/// A command: its words, its arguments and its subcommands. What is hidden is left out.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Definition {
    /// Its name, as it is typed.
    pub name: String,
    /// What it does, in a line.
    pub about: Option<String>,
    /// What it does, at length.
    pub long_about: Option<String>,
    /// Its options and positional arguments, in their order.
    pub arguments: Vec<Argument>,
    /// Its subcommands.
    pub subcommands: Vec<Definition>,
    /// Whether one of them must be named.
    pub needs_subcommand: bool,
    /// Whether it says its version.
    pub has_version: bool,
    /// Whether its arguments are those of another program, which has a definition of its own.
    pub is_passed_on: bool,
}

/// An option, or a positional argument where it has neither `short` nor `long`.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Argument {
    /// Its name within its command.
    pub id: String,
    /// The letter behind `-`.
    pub short: Option<char>,
    /// The word behind `--`.
    pub long: Option<String>,
    /// What it does, in a line.
    pub help: Option<String>,
    /// What it does, at length.
    pub long_help: Option<String>,
    /// What its values are called.
    pub value_names: Vec<String>,
    /// The values that it may have, with what they mean, where these are few.
    pub values: Vec<(String, Option<String>)>,
    /// Its values where it is not given.
    pub defaults: Vec<String>,
    /// The fewest and the most values behind it; none where it is a flag.
    pub count: Option<(usize, usize)>,
    /// Whether it may be given several times.
    pub repeats: bool,
    /// Whether it must be given.
    pub required: bool,
    /// Whether all behind it belongs to it.
    pub is_trailing: bool,
    /// Whether subcommands have it as well.
    pub is_global: bool,
}

/// Prints the definition of a program's command line if that is asked for; whether it was.
pub fn print_if_asked<C: CommandFactory>() -> bool {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_none_or(|only| only != ASKED) || arguments.next().is_some() {
        return false;
    }
    let mut command = C::command();
    command.build();
    match serde_json::to_string(&Definition::from(&command)) {
        Ok(text) => println!("{text}"),
        Err(error) => eprintln!("{error}"),
    }
    true
}

impl From<&Command> for Definition {
    fn from(command: &Command) -> Self {
        let own = |argument: &&Arg| {
            !argument.is_hide_set() && !["help", "version"].contains(&argument.get_id().as_str())
        };
        let subcommands = command
            .get_subcommands()
            .filter(|other| !other.is_hide_set() && other.get_name() != "help");
        Self {
            name: command.get_name().to_owned(),
            about: command.get_about().map(ToString::to_string),
            long_about: command.get_long_about().map(ToString::to_string),
            arguments: command.get_arguments().filter(own).map(Argument::from).collect(),
            subcommands: subcommands.map(Self::from).collect(),
            needs_subcommand: command.is_subcommand_required_set(),
            has_version: command.get_version().is_some(),
            is_passed_on: command.is_disable_help_flag_set(),
        }
    }
}

impl From<&Arg> for Argument {
    fn from(argument: &Arg) -> Self {
        let takes_value = argument.get_action().takes_values();
        let values = if takes_value { argument.get_possible_values() } else { Vec::new() };
        let range = argument.get_num_args().unwrap_or(ValueRange::SINGLE);
        let seen = values
            .iter()
            .filter(|value| !value.is_hide_set())
            .map(|value| (value.get_name().to_owned(), value.get_help().map(ToString::to_string)));
        Self {
            id: argument.get_id().to_string(),
            short: argument.get_short(),
            long: argument.get_long().map(str::to_owned),
            help: argument.get_help().map(ToString::to_string),
            long_help: argument.get_long_help().map(ToString::to_string),
            value_names: argument
                .get_value_names()
                .unwrap_or_default()
                .iter()
                .map(ToString::to_string)
                .collect(),
            values: seen.collect(),
            defaults: argument
                .get_default_values()
                .iter()
                .filter(|_| takes_value)
                .map(|value| value.to_string_lossy().into_owned())
                .collect(),
            count: takes_value.then(|| (range.min_values(), range.max_values())),
            repeats: matches!(argument.get_action(), ArgAction::Append | ArgAction::Count),
            required: argument.is_required_set(),
            is_trailing: argument.is_trailing_var_arg_set(),
            is_global: argument.is_global_set(),
        }
    }
}
