//! Sections of manual pages about what no command line says: variables, files, exit statuses.

use std::io::{self, Write};

use clap::{Arg, ArgAction, Command};

/// A section's title, and its entries: what, and what about it.
struct Section {
    title: &'static str,
    entries: &'static [(&'static str, &'static str)],
}

/// A variable of the environment.
pub(super) struct Variable {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) default: &'static str,
}

const fn variable(name: &'static str, about: &'static str, default: &'static str) -> Variable {
    Variable { name, about, default }
}

/// The variables that `sovia run` sets and the library reads.
pub(super) const VARIABLES: &[Variable] = &[
    variable(
        "SOVIA_AGENT",
        "Path of the host's agent. Empty: programs look for none.",
        "/run/sovia/agent",
    ),
    variable(
        "SOVIA_FILTERS",
        "Path of the agent that watches packet filters.",
        "/run/sovia/filters",
    ),
    variable(
        "SOVIA_IO_URING",
        "\"allow\" lets io_uring through. Without it io_uring_setup fails with ENOSYS, since the library cannot see what a ring does to a socket.",
        "refused",
    ),
    variable(
        "SOVIA_MEET",
        "Number of transfers that an end makes before it looks for its peer. 0: it looks with the first, and from the third connection to a server on the VI is granted with the call that connects. That is for connections of one request with a long answer, half a megabyte or more.",
        "as lengths of earlier connections to the address suggest; 3 without any",
    ),
    variable(
        "SOVIA_MEMORY",
        "Shared memory for what peers have not read yet, in MiB, for a process and its children.",
        "the smaller of tcp_mem and an eighth of the memory limit",
    ),
    variable(
        "SOVIA_PRELOAD",
        "The library that sovia run injects.",
        "the one installed beside sovia",
    ),
    variable(
        "SOVIA_PROTOCOL",
        "Configuration of the papers' protocol, as by --protocol: a name of the papers' table 4 such as SOVIA_COMBINE, or words such as \"handler,copy,w=8,t=4\".",
        "auto",
    ),
    variable(
        "SOVIA_RULES",
        "What may be accelerated and whom to trust, such as \"only:port=6379;except:program=curl;trust:uid=112\". Rules on the command line replace these.",
        "everything within one user",
    ),
    variable(
        "SOVIA_SPIN",
        "Longest spin before a wait sleeps, in microseconds. 0: sleep at once.",
        "50",
    ),
    variable("SOVIA_STATS", "File to count into; set by -v.", "none"),
];

/// By page: command lines, and what each does.
pub(super) const EXAMPLES: &[(&str, &[(&str, &str)])] = &[
    (
        "sovia-run",
        &[
            ("sovia run -- redis-server &", "Starts Redis under Sovia."),
            (
                "sovia run -v -- redis-benchmark -t get -n 100000",
                "Starts its client, and reports at the end what was accelerated, and why the rest was not.",
            ),
            ("sovia run --only port=5432 -- app", "Accelerates connections of one port alone."),
            (
                "sovia run --trust user=redis -- app",
                "Shares memory with the programs of the user redis as well, if they trust this one's user.",
            ),
        ],
    ),
    (
        "sovia-bench",
        &[
            ("sovia bench latency --size 4,1K", "Compares the latency of messages of two sizes."),
            ("sovia bench bandwidth --json", "Prints one JSON object a line, for scripts."),
        ],
    ),
    ("sovia-demo", &[("sovia demo", "Compares Redis over TCP, a Unix socket and Sovia.")]),
    (
        "sovia-agent",
        &[
            ("sudo sovia agent", "Lets programs meet that are in different network namespaces."),
            ("sudo sovia agent --filters", "Reports packet filters to programs that respect them."),
            (
                "sudo sovia agent --metrics /var/lib/prometheus/node-exporter/sovia.prom",
                "Writes counters for Prometheus.",
            ),
        ],
    ),
    (
        "sovia-lane",
        &[(
            "sudo sovia lane up --address 10.200.0.1/24 --nic udp:10.0.0.1:7000 --peer 10.200.0.2=udp:10.0.0.2:7000",
            "Makes the device lane0, whose packets go to the lane of another host by UDP.",
        )],
    ),
    (
        "sovia-doctor",
        &[
            ("sovia doctor", "Reports what keeps programs of this user on TCP here."),
            ("sovia doctor --json", "Prints one JSON object a line, for scripts."),
        ],
    ),
    (
        "sovia-enable",
        &[(
            "sudo sovia enable redis-server --trust any --now",
            "Restarts Redis under Sovia, for clients of all users.",
        )],
    ),
    ("sovia-disable", &[("sudo sovia disable redis-server --now", "Restarts it without Sovia.")]),
    ("sovia-off", &[("sudo sovia off", "Takes the connections of all users back to TCP.")]),
    ("sovia-on", &[("sudo sovia on", "Lets connections be accelerated again.")]),
    (
        "sovia-ps",
        &[
            ("sudo sovia ps", "Lists the connections of all users."),
            (
                "sovia ps --port 6379 --json",
                "Prints one JSON object a line, for each end at a port.",
            ),
        ],
    ),
    (
        "sovia-stat",
        &[
            ("sovia stat -i 5", "Prints every five seconds what each process did."),
            ("sovia stat --totals", "Prints what has been done since the beginning."),
        ],
    ),
    ("sovia-top", &[("sovia top", "Watches programs, by traffic.")]),
    (
        "sovia-explain",
        &[(
            "sovia explain 6379",
            "Reports why connections at a port are on TCP, and what would change it.",
        )],
    ),
];

const RUN_STATUS: Section = Section {
    title: "EXIT STATUS",
    entries: &[
        (
            "125",
            "sovia itself failed: an option, a rule or a variable that it does not understand, no library.",
        ),
        ("126", "The program cannot be executed."),
        ("127", "There is no such program."),
        ("any other", "The program's own. A signal that ends the program ends sovia, too."),
    ],
};

const FILES: Section = Section {
    title: "FILES",
    entries: &[
        ("/run/sovia/agent", "The socket of the agent. Its folder is what containers mount."),
        ("/run/sovia/filters", "The socket of the agent that watches packet filters."),
        (
            "/run/sovia/off, /run/user/UID/sovia-off",
            "There while `sovia off` holds, for all users or for one.",
        ),
        ("/etc/sovia", "Keys, peers and environments of the units sovia-nic@ and sovia-port@."),
    ],
};

/// The section NAME, from which whatis and apropos make their list.
pub(crate) fn name(name: &str, about: &str, page: &mut impl Write) -> io::Result<()> {
    let about = escaped(about.trim_end_matches('.'));
    writeln!(page, ".SH NAME\n{} \\- {about}", escaped(name))
}

/// The section SYNOPSIS: all options with their values.
pub(super) fn synopsis(command: &Command, page: &mut impl Write) -> io::Result<()> {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    write!(page, ".SH SYNOPSIS\n\\fB{}\\fR", escaped(name))?;
    let shown = || command.get_arguments().filter(|argument| !argument.is_hide_set());
    for argument in shown().filter(|argument| !argument.is_positional()) {
        write!(page, " [{}]{}", option(argument), repeats(argument))?;
    }
    for argument in shown().filter(|argument| argument.is_positional()) {
        let (open, close) = if argument.is_required_set() { ("", "") } else { ("[", "]") };
        write!(page, " {open}{}{}{close}", values(argument), repeats(argument))?;
    }
    if command.has_subcommands() {
        write!(page, " \\fICOMMAND\\fR")?;
    }
    writeln!(page)
}

/// Returns an argument with its values, as text.
#[cfg(test)]
pub(super) fn plain(argument: &Arg) -> String {
    let text = if argument.is_positional() { values(argument) } else { option(argument) };
    without_codes(&text) + repeats(argument)
}

/// Returns text without roff's fonts and escapes.
#[cfg(test)]
pub(super) fn without_codes(text: &str) -> String {
    let codes = ["\\fB", "\\fI", "\\fR", "\\"];
    codes.iter().fold(text.to_owned(), |text, code| text.replace(code, ""))
}

fn option(argument: &Arg) -> String {
    let long = argument.get_long().map(|long| format!("\\fB{}\\fR", escaped(&format!("--{long}"))));
    let short = argument.get_short().map(|short| format!("\\fB\\-{short}\\fR"));
    let names = short.into_iter().chain(long).collect::<Vec<_>>().join("|");
    if !argument.get_action().takes_values() {
        return names;
    }
    let is_optional = argument.get_num_args().is_some_and(|range| range.min_values() == 0);
    match (is_optional, values(argument)) {
        (true, values) => format!("{names}[={values}]"),
        (false, values) => format!("{names} {values}"),
    }
}

fn values(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default();
    let names = names.iter().map(|name| format!("\\fI{}\\fR", escaped(name)));
    names.collect::<Vec<_>>().join(" ")
}

fn repeats(argument: &Arg) -> &'static str {
    let has_many = argument.is_positional()
        && argument.get_num_args().is_some_and(|range| range.max_values() > 1);
    let is_repeated = matches!(argument.get_action(), ArgAction::Append | ArgAction::Count);
    if has_many || is_repeated { "..." } else { "" }
}

/// The sections of the page `name`.
pub(crate) fn of(name: &str, page: &mut impl Write) -> io::Result<()> {
    let sections: &[Section] = match name {
        "sovia" => &[FILES],
        "sovia-run" => &[RUN_STATUS],
        "sovia-agent" => &[FILES],
        _ => &[],
    };
    for Section { title, entries } in sections {
        writeln!(page, ".SH \"{title}\"")?;
        for (what, about) in *entries {
            writeln!(page, ".TP\n\\fB{}\\fR\n{}", escaped(what), escaped(about))?;
        }
    }
    if ["sovia", "sovia-run"].contains(&name) {
        writeln!(page, ".SH ENVIRONMENT")?;
        for Variable { name, about, default } in VARIABLES {
            let about = format!("{about} Default: {default}.");
            writeln!(page, ".TP\n\\fB{}\\fR\n{}", escaped(name), escaped(&about))?;
        }
    }
    let examples = EXAMPLES.iter().find(|(page, _)| *page == name);
    if let Some((_, examples)) = examples {
        writeln!(page, ".SH EXAMPLES")?;
        for (line, about) in *examples {
            writeln!(page, ".TP\n\\fB{}\\fR\n{}", escaped(line), escaped(about))?;
        }
    }
    if name != "sovia" {
        writeln!(page, ".SH \"SEE ALSO\"\n\\fBsovia\\fR(1)")?;
    }
    Ok(())
}

/// Text in which roff finds nothing but text.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    match text.chars().next() {
        Some('.' | '\'') => format!("\\&{text}"),
        _ => text,
    }
}
