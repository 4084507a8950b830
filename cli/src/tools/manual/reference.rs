//! Pages of docs/reference that are generated from the code: commands, variables, reasons, metrics.

use std::fmt::Write;

use clap::Command;
use sovia_cli::advice::{Ends, advice};
use sovia_control::Reason;
use sovia_stats_page::{Metrics, key, scan_of};

use super::sections;

/// Returns the pages, each with its name.
pub(super) fn pages(command: &Command) -> [(&'static str, String); 4] {
    [
        ("cli.md", cli(command)),
        ("variables.md", variables()),
        ("reasons.md", reasons()),
        ("metrics.md", metrics()),
    ]
}

fn cli(command: &Command) -> String {
    let mut whole = command.clone().disable_help_subcommand(true);
    whole.build();
    let mut page = "# Commands\n\n\
        The manual pages have the same text: `man sovia-run`. Exit statuses are in [json.md](json.md), variables in\n\
        [variables.md](variables.md).\n"
        .to_owned();
    describe(&whole, &mut page);
    page
}

fn describe(command: &Command, page: &mut String) {
    let below = || command.get_subcommands().filter(|below| !below.is_hide_set());
    if below().next().is_none() {
        let name = command.get_bin_name().unwrap_or(command.get_name());
        let about = command.get_long_about().or(command.get_about());
        let about = about.map(ToString::to_string).unwrap_or_default();
        let _ = write!(page, "\n## {name}\n\n{}\n", paragraphs(&about));
        let usage = command.clone().render_usage().to_string();
        let _ = write!(page, "\n    {}\n", usage.trim_start_matches("Usage: "));
        let arguments = || command.get_arguments().filter(|argument| !argument.is_hide_set());
        if arguments().any(|argument| argument.get_id() != "help") {
            page.push_str("\n| argument | meaning |\n|---|---|\n");
        }
        for argument in arguments().filter(|argument| argument.get_id() != "help") {
            let help = argument.get_long_help().or(argument.get_help());
            let help = help.map(ToString::to_string).unwrap_or_default();
            let defaults =
                argument.get_default_values().iter().map(|value| value.to_string_lossy());
            let defaults: Vec<_> = defaults.collect();
            let default = if defaults.is_empty() || !argument.get_action().takes_values() {
                String::new()
            } else {
                format!(" [{}]", defaults.join(" "))
            };
            let name = sections::plain(argument).replace('|', "\\|");
            let _ = writeln!(page, "| `{name}` | {}{default} |", cell(&help));
        }
    }
    below().for_each(|below| describe(below, page));
}

/// Joins the lines of each paragraph of a text.
fn paragraphs(text: &str) -> String {
    text.split("\n\n").map(one_line).collect::<Vec<_>>().join("\n\n")
}

fn cell(text: &str) -> String {
    one_line(text).replace('|', "\\|")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn variables() -> String {
    let mut page = "# Variables\n\n\
        The library reads these variables when a program starts. `sovia run` sets the variables that have an option,\n\
        and refuses invalid values. A library that is loaded without `sovia run` ignores them; `sovia explain` lists\n\
        ignored variables. None needs to be set.\n\n\
        | variable | meaning | default |\n|---|---|---|\n"
        .to_owned();
    for sections::Variable { name, about, default } in sections::VARIABLES {
        let _ = writeln!(page, "| `{name}` | {} | {} |", cell(about), cell(default));
    }
    page
}

fn reasons() -> String {
    let mut page = "# Reasons\n\n\
        Reasons why a connection is on TCP, as `sovia run -v`, `sovia ps` and `sovia explain` print them. JSON and metrics\n\
        use the keys.\n\n\
        | key | reason | what to do |\n|---|---|---|\n"
        .to_owned();
    let ends = Ends {
        user: "USER".to_owned(),
        other_user: Some("OTHER-USER".to_owned()),
        ..Ends::default()
    };
    for &reason in Reason::ALL {
        let lines: Vec<_> = advice(reason, &ends).iter().map(|line| as_markdown(line)).collect();
        let lines = if lines.is_empty() { "nothing".to_owned() } else { lines.join(".<br>") };
        let (key, reason) = (key(reason), reason.describe());
        let _ = writeln!(page, "| `{key}` | {} | {} |", cell(reason), cell(&lines));
    }
    page
}

/// Formats the command in a line of advice as code. The command follows a colon and two spaces.
fn as_markdown(line: &str) -> String {
    match line.split_once(":  ") {
        Some((purpose, command)) => format!("{purpose}: `{}`", command.trim_start()),
        None => line.to_owned(),
    }
}

fn metrics() -> String {
    let mut page = "# Metrics\n\n\
        `sovia agent --metrics FILE` writes these metrics for Prometheus ([monitor.md](../operate/monitor.md)). All but the\n\
        last have the labels `program` and `user`. The label `reason` has a key of [reasons.md](reasons.md).\n\n\
        | metric | kind | meaning |\n|---|---|---|\n"
        .to_owned();
    let text = Metrics::default().next(&scan_of([]), |_| String::new());
    let described = |word: &'static str| {
        text.lines().filter_map(move |line| line.strip_prefix(word)?.split_once(' '))
    };
    for (name, help) in described("# HELP ") {
        let kind = described("# TYPE ").find(|(of, _)| *of == name).map_or("", |(_, kind)| kind);
        let _ = writeln!(page, "| `{name}` | {kind} | {} |", cell(help));
    }
    page
}
