//! Manual pages and completions, made from this program's command line. [`sections`] has facts that no command line
//! contains: files, variables and exit statuses.

#[cfg(test)]
mod reference;
mod sections;

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

/// Writes the manual pages of a command and its subcommands to `folder`/man1. Writes completions for bash, zsh and fish
/// to folders with these names.
///
/// # Errors
/// An error if a file cannot be written.
pub(crate) fn write(command: &Command, folder: &Path) -> io::Result<()> {
    write_pages(command.clone(), &folder.join("man1"))?;
    write_completions(command.clone(), folder)
}

fn write_pages(command: Command, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut whole = command.disable_help_subcommand(true);
    whole.build();
    write_page(&whole, whole.get_name(), folder)
}

fn write_page(command: &Command, name: &str, folder: &Path) -> io::Result<()> {
    let below = || command.get_subcommands().filter(|below| !below.is_hide_set());
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    sections::title(name, &mut page)?;
    // The page of `sovia bench latency` is sovia-bench-latency. The section NAME must contain this name for apropos.
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    sections::name(name, &about, &mut page)?;
    sections::synopsis(command, &mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    if below().next().is_some() {
        man.render_subcommands_section(&mut page)?;
    }
    sections::of(name, &mut page)?;
    fs::write(folder.join(format!("{name}.1")), &page)?;
    below().try_for_each(|below| write_page(below, &format!("{name}-{}", below.get_name()), folder))
}

/// Writes a shell's completions under the name that the shell looks for.
fn write_completions(mut command: Command, folder: &Path) -> io::Result<()> {
    for (shell, place) in
        [(Shell::Bash, "bash/sovia"), (Shell::Zsh, "zsh/_sovia"), (Shell::Fish, "fish/sovia.fish")]
    {
        let path = folder.join(place);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        let mut file = fs::File::create(path)?;
        clap_complete::generate(shell, &mut command, "sovia", &mut file);
        // zsh completes the program's command line because of the argument's hint.
        match shell {
            Shell::Bash => file.write_all(include_bytes!("program.bash"))?,
            Shell::Fish => file.write_all(include_bytes!("program.fish"))?,
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory, Parser};
    use sovia_control::env;

    use super::sections;
    use crate::Cli;

    #[test]
    fn each_example_is_a_command_that_this_program_parses() {
        for (page, examples) in sections::EXAMPLES {
            for (line, _) in *examples {
                let line = line.strip_prefix("sudo ").unwrap_or(line).trim_end_matches('&');
                let parsed = Cli::try_parse_from(line.split_whitespace());
                assert!(parsed.is_ok(), "{page}: {line}: {:?}", parsed.err());
            }
        }
    }

    #[test]
    fn each_page_has_examples() {
        fn check(command: &Command, page: &str) {
            let has = sections::EXAMPLES.iter().any(|(name, _)| *name == page);
            assert!(has, "{page} has no examples");
            for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
                check(below, &format!("{page}-{}", below.get_name()));
            }
        }
        check(&Cli::command(), "sovia");
    }

    /// With `ACCEPT=1` the test writes the pages.
    #[test]
    fn pages_of_the_reference_are_what_the_code_says() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/");
        for (name, page) in super::reference::pages(&Cli::command()) {
            let path = format!("{folder}{name}");
            if std::env::var_os("ACCEPT").is_some() {
                std::fs::write(&path, &page).unwrap();
            }
            let stored = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(stored == page, "{name} differs: ACCEPT=1 cargo test -p sovia-cli reference");
        }
    }

    #[test]
    fn a_synopsis_has_the_values_of_options() {
        let mut command = Cli::command();
        command.build();
        let mut page = Vec::new();
        let run = command.find_subcommand("run").unwrap();
        sections::synopsis(run, &mut page).unwrap();
        let text = sections::without_codes(&String::from_utf8(page).unwrap());
        assert!(text.contains("[--only SPEC]..."), "{text}");
        assert!(text.contains("[--respect-filters[=SPEC]]..."), "{text}");
        assert!(text.ends_with("PROGRAM...\n"), "{text}");
    }

    #[test]
    fn each_variable_of_the_library_is_in_the_manual() {
        let known: Vec<_> = sections::VARIABLES.iter().map(|variable| variable.name).collect();
        for name in [
            env::RULES,
            env::AGENT,
            env::FILTERS,
            env::STATS,
            env::IO_URING,
            env::MEET,
            env::MEMORY,
            env::SPIN,
            env::PROTOCOL,
            env::PRELOAD,
        ] {
            assert!(known.contains(&name), "{name} is not in the manual");
        }
    }
}
