//! Sections of manual pages about what no command line says: variables, files, exit statuses.

use std::io::{self, Write};

/// A section's title, and its entries: what, and what about it.
struct Section {
    title: &'static str,
    entries: &'static [(&'static str, &'static str)],
}

/// The variables that `sovia run` sets and the library reads.
pub(super) const VARIABLES: &[(&str, &str)] = &[
    (
        "SOVIA_AGENT",
        "Where the agent of the host is found, instead of /run/sovia/agent. Empty: it is not looked for.",
    ),
    (
        "SOVIA_FILTERS",
        "Path of the agent that watches packet filters, instead of /run/sovia/filters.",
    ),
    (
        "SOVIA_IO_URING",
        "\"allow\" lets io_uring through. Without it io_uring_setup fails with ENOSYS, since the library cannot see what a ring does to a socket.",
    ),
    (
        "SOVIA_MEET",
        "How many transfers an end makes before it looks for its peer. 0: with the first.",
    ),
    (
        "SOVIA_MEMORY",
        "Shared memory for what peers have not read yet, in MiB, for a process and its children.",
    ),
    ("SOVIA_PRELOAD", "The library to inject, where it is not installed beside sovia."),
    ("SOVIA_PROTOCOL", "What connections do of the papers' protocol, as by --protocol."),
    (
        "SOVIA_RULES",
        "What may be accelerated and whom to trust, as \"only:port=6379;except:program=curl;trust:uid=112\". Rules on the command line replace these.",
    ),
    ("SOVIA_SPIN", "The longest spin before a wait sleeps, in microseconds. 0: sleep at once."),
    ("SOVIA_STATS", "Where to count; set by -v."),
];

const ENVIRONMENT: Section = Section { title: "ENVIRONMENT", entries: VARIABLES };

const RUN_STATUS: Section = Section {
    title: "EXIT STATUS",
    entries: &[
        ("125", "sovia itself failed: a rule it does not understand, no library."),
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
        ("/etc/sovia", "Keys, peers and environments of the units sovia-nic@ and sovia-port@."),
    ],
};

/// The section NAME, from which whatis and apropos make their list.
pub(crate) fn name(name: &str, about: &str, page: &mut impl Write) -> io::Result<()> {
    let about = escaped(about.trim_end_matches('.'));
    writeln!(page, ".SH NAME\n{} \\- {about}", escaped(name))
}

/// The sections of the page `name`.
pub(crate) fn of(name: &str, page: &mut impl Write) -> io::Result<()> {
    let sections: &[Section] = match name {
        "sovia" => &[ENVIRONMENT, FILES],
        "sovia-run" => &[RUN_STATUS, ENVIRONMENT],
        "sovia-agent" => &[FILES],
        _ => &[],
    };
    for Section { title, entries } in sections {
        writeln!(page, ".SH \"{title}\"")?;
        for (what, about) in *entries {
            writeln!(page, ".TP\n\\fB{}\\fR\n{}", escaped(what), escaped(about))?;
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
