//! A definition as a command that clap knows.

use clap::builder::PossibleValue;
use clap::{Arg, ArgAction, Command};
use sovia_cli::definition::{Argument, Definition};

/// clap takes text that lasts as long as the program, unless all programs of the workspace are built with another feature of it.
fn lasting(text: String) -> &'static str {
    text.leak()
}

/// The command that `definition` describes. It parses less strictly than the one that was described: it knows nothing of what
/// values look like, and of which arguments exclude each other.
pub fn command(definition: Definition) -> Command {
    let mut command = Command::new(lasting(definition.name))
        .max_term_width(100)
        .subcommand_required(definition.needs_subcommand)
        .arg_required_else_help(definition.needs_subcommand)
        .subcommands(definition.subcommands.into_iter().map(command))
        .args(definition.arguments.into_iter().map(argument));
    if definition.has_version {
        command = command.version(env!("CARGO_PKG_VERSION"));
    }
    if let Some(about) = definition.about {
        command = command.about(lasting(about));
    }
    if let Some(about) = definition.long_about {
        command = command.long_about(lasting(about));
    }
    command
}

fn argument(argument: Argument) -> Arg {
    let mut arg = Arg::new(lasting(argument.id))
        .short(argument.short)
        .required(argument.required)
        .trailing_var_arg(argument.is_trailing)
        .global(argument.is_global)
        .action(match (argument.count, argument.repeats) {
            (None, false) => ArgAction::SetTrue,
            (None, true) => ArgAction::Count,
            (Some(_), false) => ArgAction::Set,
            (Some(_), true) => ArgAction::Append,
        });
    if let Some(long) = argument.long {
        arg = arg.long(lasting(long));
    }
    if let Some(help) = argument.help {
        arg = arg.help(lasting(help));
    }
    if let Some(help) = argument.long_help {
        arg = arg.long_help(lasting(help));
    }
    if let Some((fewest, most)) = argument.count {
        arg = arg.num_args(fewest..=most);
        if !argument.value_names.is_empty() {
            arg = arg.value_names(argument.value_names.into_iter().map(lasting));
        }
        if !argument.values.is_empty() {
            arg = arg.value_parser(argument.values.into_iter().map(possible).collect::<Vec<_>>());
        }
        arg = arg.default_values(argument.defaults.into_iter().map(lasting));
    }
    arg
}

fn possible((name, help): (String, Option<String>)) -> PossibleValue {
    let value = PossibleValue::new(lasting(name));
    match help {
        Some(help) => value.help(lasting(help)),
        None => value,
    }
}
