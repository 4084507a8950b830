//! Sections of manual pages with facts that no command line contains: variables, files, exit statuses.

use std::io::{self, Write};

use clap::{Arg, ArgAction, Command};

/// A section: its title, and entries of a term and its description.
struct Section {
    title: &'static str,
    entries: &'static [(&'static str, &'static str)],
}

/// An environment variable.
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
        "Path of the socket of the host's agent. Empty: programs use no agent.",
        "/run/sovia/agent",
    ),
    variable(
        "SOVIA_FILTERS",
        "Path of the socket of the agent that watches packet filters.",
        "/run/sovia/filters",
    ),
    variable(
        "SOVIA_IO_URING",
        "\"allow\" allows io_uring. Otherwise io_uring_setup fails with ENOSYS, since the library cannot see what a ring does to a socket.",
        "refused",
    ),
    variable(
        "SOVIA_MEET",
        "Number of transfers on a connection before an end looks for its peer. 0: the end looks for its peer at the first transfer.",
        "chosen from the lengths of earlier connections to the same address; if there were none, from the first connections to other addresses; otherwise 3",
    ),
    variable(
        "SOVIA_MEMORY",
        "Limit in MiB of the shared memory for bytes that peers have not read yet, for a process and its children.",
        "the smaller of tcp_mem and an eighth of the memory limit",
    ),
    variable(
        "SOVIA_PRELOAD",
        "Path of the library that `sovia run` loads into programs.",
        "the one installed beside sovia",
    ),
    variable(
        "SOVIA_PROTOCOL",
        "Configuration of the papers' protocol, as for --protocol: a name from the papers' table 4 such as SOVIA_COMBINE, or words such as \"handler,copy,w=8,t=4\".",
        "auto",
    ),
    variable(
        "SOVIA_RULES",
        "Rules for the connections to accelerate and the users to trust, such as \"only:port=6379;except:program=curl;trust:uid=112\". Rules on the command line replace these rules.",
        "all connections within one user",
    ),
    variable(
        "SOVIA_SPIN",
        "Longest time in microseconds that a waiting thread spins before it sleeps. 0: the thread sleeps at once.",
        "50",
    ),
    variable(
        "SOVIA_STATS",
        "Path of the file for counters. `sovia run -v` sets this variable.",
        "none",
    ),
];

/// Examples by page: command lines with their descriptions.
pub(super) const EXAMPLES: &[(&str, &[(&str, &str)])] = &[
    (
        "sovia",
        &[
            ("sovia run -- redis-server &", "Starts Redis under Sovia."),
            (
                "sovia run -v -- redis-benchmark -t get",
                "Starts a client of Redis, and reports at the end how many connections were accelerated.",
            ),
            ("sovia doctor", "Reports what keeps programs on TCP on this host."),
        ],
    ),
    (
        "sovia-lane-up",
        &[(
            "sudo sovia lane up --address 10.200.0.1/24 --nic udp:10.0.0.1:7000 --peer 10.200.0.2=udp:10.0.0.2:7000",
            "Makes the device lane0, and carries its packets to the lane of another host over UDP.",
        )],
    ),
    (
        "sovia-bench-latency",
        &[(
            "sovia bench latency --size 4,1K --wait block",
            "Compares the latency of messages of 4 and 1024 bytes. Both ends make blocking calls.",
        )],
    ),
    (
        "sovia-bench-bandwidth",
        &[(
            "sovia bench bandwidth --size 1K,64K",
            "Compares the bandwidth of streams of messages of two sizes.",
        )],
    ),
    (
        "sovia-bench-rate",
        &[("sovia bench rate --size 64", "Compares the rate of messages of 64 bytes.")],
    ),
    (
        "sovia-bench-connect",
        &[("sovia bench connect", "Compares the rate at which connections are set up.")],
    ),
    (
        "sovia-bench-connections",
        &[("sovia bench connections", "Compares short connections over TCP and Sovia.")],
    ),
    ("sovia-bench-idle", &[("sovia bench idle", "Measures the memory of many idle connections.")]),
    (
        "sovia-bench-ftp",
        &[("sudo sovia bench ftp --size 16M", "Measures the transfer of a file of 16 MB by FTP.")],
    ),
    (
        "sovia-bench-emp",
        &[("sudo sovia bench emp", "Compares EMP with TCP between two network namespaces.")],
    ),
    (
        "sovia-bench-rpc",
        &[(
            "sovia bench rpc --size 0,4K",
            "Measures calls without an argument, and calls with an argument of 4096 bytes.",
        )],
    ),
    (
        "sovia-bench-start",
        &[(
            "sovia bench start",
            "Measures the time that `sovia run` adds to the start of a program.",
        )],
    ),
    ("sovia-bench-load", &[("sovia bench load", "Measures the processor time of streams.")]),
    (
        "sovia-bench-compare",
        &[(
            "sovia bench compare before.jsonl now.jsonl",
            "Compares the ratios in two files of results.",
        )],
    ),
    ("sovia-bench-machine", &[("sovia bench machine", "Prints one line about this machine.")]),
    (
        "sovia-bench-papers",
        &[(
            "sovia bench papers --quick --out report",
            "Writes a report with few sizes to report/index.html.",
        )],
    ),
    (
        "sovia-bench-hosts",
        &[(
            "sudo sovia bench hosts --quick --out report",
            "Measures VIs and TCP between two network namespaces, and writes a report.",
        )],
    ),
    ("sovia-bench-loops", &[("sovia bench loops --quick", "Measures the ping-pong loops.")]),
    (
        "sovia-bench-throughput",
        &[("sovia bench throughput --quick", "Measures the throughput by message size.")],
    ),
    (
        "sovia-bench-strided",
        &[("sovia bench strided --quick", "Measures how long a strided store takes.")],
    ),
    (
        "sovia-bench-scatter",
        &[("sovia bench scatter --quick", "Measures receives into 32 segments.")],
    ),
    (
        "sovia-bench-queues",
        &[("sovia bench queues --quick", "Compares a completion queue with polling.")],
    ),
    (
        "sovia-bench-netpipe",
        &[("sovia bench netpipe --quick", "Measures NetPIPE's sweep over message sizes.")],
    ),
    ("sovia-bench-calls", &[("sovia bench calls --quick", "Measures single calls of a VI.")]),
    ("sovia-bench-memory", &[("sovia bench memory --quick", "Measures the memory of idle VIs.")]),
    (
        "sovia-bench-buffers",
        &[("sovia bench buffers --quick", "Measures a ping-pong with buffers outside the cache.")],
    ),
    (
        "sovia-bench-registration",
        &[("sovia bench registration --quick", "Measures the registration of memory.")],
    ),
    (
        "sovia-bench-sovia",
        &[("sovia bench sovia --quick", "Measures SOVIA streams in the papers' configurations.")],
    ),
    (
        "sovia-run",
        &[
            ("sovia run -- redis-server &", "Starts Redis under Sovia."),
            (
                "sovia run -v -- redis-benchmark -t get -n 100000",
                "Starts a client of Redis. When the client ends, reports how many connections were accelerated, and why others stayed on TCP.",
            ),
            ("sovia run --only port=5432 -- app", "Accelerates only connections with this port."),
            (
                "sovia run --trust user=redis -- app",
                "Also shares memory with programs of the user redis, if they trust the user of this program.",
            ),
        ],
    ),
    (
        "sovia-bench",
        &[
            ("sovia bench latency --size 4,1K", "Compares the latency of messages of two sizes."),
            ("sovia bench bandwidth --json", "Prints one JSON object per line, for scripts."),
        ],
    ),
    ("sovia-demo", &[("sovia demo", "Compares Redis over TCP, a Unix socket and Sovia.")]),
    (
        "sovia-agent",
        &[
            (
                "sudo sovia agent",
                "Lets programs in different network namespaces use Sovia with each other.",
            ),
            (
                "sudo sovia agent --filters",
                "Watches packet filters for programs that respect filters.",
            ),
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
            "Makes the device lane0, and carries its packets to the lane of another host over UDP.",
        )],
    ),
    (
        "sovia-doctor",
        &[
            ("sovia doctor", "Reports what keeps programs of this user on TCP here."),
            ("sovia doctor --json", "Prints one JSON object per line, for scripts."),
        ],
    ),
    (
        "sovia-enable",
        &[(
            "sudo sovia enable redis-server --trust any --now",
            "Restarts Redis under Sovia, for clients of all users.",
        )],
    ),
    (
        "sovia-disable",
        &[("sudo sovia disable redis-server --now", "Restarts Redis without Sovia.")],
    ),
    ("sovia-off", &[("sudo sovia off", "Takes the connections of all users back to TCP.")]),
    ("sovia-on", &[("sudo sovia on", "Accelerates connections of all users again.")]),
    (
        "sovia-ps",
        &[
            ("sudo sovia ps", "Lists the connections of all users."),
            (
                "sovia ps --port 6379 --json",
                "Prints one JSON object for each end of a connection with this port, one per line.",
            ),
        ],
    ),
    (
        "sovia-stat",
        &[
            ("sovia stat -i 5", "Prints every five seconds what each process did."),
            ("sovia stat --totals", "Prints totals since the start of each program."),
        ],
    ),
    ("sovia-top", &[("sovia top", "Watches programs and pairs of programs, ordered by traffic.")]),
    (
        "sovia-explain",
        &[(
            "sovia explain 6379",
            "Reports why connections with port 6379 are on TCP, and how to change that.",
        )],
    ),
];

const RUN_STATUS: Section = Section {
    title: "EXIT STATUS",
    entries: &[
        ("125", "`sovia run` itself failed: a wrong option, rule or variable, or no library."),
        ("126", "The program was found, but cannot be executed."),
        ("127", "The program was not found."),
        ("any other", "The program's exit status. A signal that ends the program also ends sovia."),
    ],
};

const DOCTOR_STATUS: Section = Section {
    title: "EXIT STATUS",
    entries: &[
        ("0", "Programs of this user leave TCP."),
        ("1", "Something keeps them on TCP."),
        ("2", "The command line is wrong."),
    ],
};

const STATUS: Section = Section {
    title: "EXIT STATUS",
    entries: &[
        ("0", "Success."),
        ("1", "The command failed, and printed the reason."),
        ("2", "The command line is wrong."),
    ],
};

const FILES: Section = Section {
    title: "FILES",
    entries: &[
        ("/run/sovia/agent", "The socket of the agent. Containers mount its folder."),
        ("/run/sovia/filters", "The socket of the agent that watches packet filters."),
        (
            "/run/sovia/off, /run/user/UID/sovia-off",
            "The first file exists while Sovia is off for all users, the second while Sovia is off for user UID.",
        ),
        ("/etc/sovia", "Keys, peers and environments of the units sovia-nic@ and sovia-port@."),
    ],
};

/// Writes the title. Its footer has the version.
pub(crate) fn title(name: &str, page: &mut impl Write) -> io::Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    writeln!(page, ".TH \"{}\" 1 \"\" \"Sovia {version}\" \"Sovia\"", escaped(&name.to_uppercase()))
}

/// Writes the section NAME, which whatis and apropos index.
pub(crate) fn name(name: &str, about: &str, page: &mut impl Write) -> io::Result<()> {
    let about = escaped(about.trim_end_matches('.'));
    writeln!(page, ".SH NAME\n{} \\- {about}", escaped(name))
}

/// Writes the section SYNOPSIS, with all options and their values.
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

/// Writes the sections of the page `name`.
pub(crate) fn of(name: &str, page: &mut impl Write) -> io::Result<()> {
    let sections: &[Section] = match name {
        "sovia" => &[FILES],
        "sovia-run" => &[RUN_STATUS],
        "sovia-doctor" => &[DOCTOR_STATUS],
        "sovia-agent" => &[STATUS, FILES],
        "sovia-bench" | "sovia-lane" => &[],
        _ => &[STATUS],
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

/// Escapes text for roff.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    match text.chars().next() {
        Some('.' | '\'') => format!("\\&{text}"),
        _ => text,
    }
}
