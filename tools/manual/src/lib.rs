//! Manual pages and completions of the command `sovia`, made from what its programs say that they parse
//! (`sovia_cli::definition`). What a definition cannot say (files, variables, exit statuses) is in [`sections`].

mod command;
pub mod sections;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;

use anyhow::{Context, bail, ensure};
use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use sovia_cli::definition::{ASKED, Definition};

pub use self::command::command;

/// What a program parses, which lies at `path`.
///
/// # Errors
/// It cannot be run, or says something else.
pub fn definition(path: &Path) -> anyhow::Result<Definition> {
    let asked = || format!("{} {ASKED}", path.display());
    let output = process::Command::new(path).arg(ASKED).output().with_context(asked)?;
    ensure!(output.status.success(), "{}: {}", asked(), output.status);
    serde_json::from_slice(&output.stdout).with_context(asked)
}

/// The definition of `sovia`, with those of the programs that it becomes in their places.
///
/// # Errors
/// A program says nothing, or none of `others` has a command that `sovia` passes on.
pub fn whole(sovia: &Path, others: &[PathBuf]) -> anyhow::Result<Definition> {
    let mut sovia = definition(sovia)?;
    let mut others: Vec<_> =
        others.iter().map(|path| definition(path)).collect::<anyhow::Result<_>>()?;
    for place in sovia.subcommands.iter_mut().filter(|command| command.is_passed_on) {
        let Some(found) = take(&mut others, &place.name) else {
            bail!("no program has the command `{}` of sovia's", place.name);
        };
        *place = found;
    }
    Ok(sovia)
}

/// The command `name` of another program: the program itself (`sovia agent`), or a command of it.
fn take(programs: &mut [Definition], name: &str) -> Option<Definition> {
    let whole = format!("sovia {name}");
    for program in programs {
        if program.name == whole {
            return Some(Definition { name: name.to_owned(), ..std::mem::take(program) });
        }
        let of_it = &mut program.subcommands;
        if let Some(found) = of_it.iter_mut().find(|command| command.name == name) {
            return Some(std::mem::take(found));
        }
    }
    None
}

/// Writes the pages of a command and all below it to `folder`/man1.
///
/// # Errors
/// A file cannot be written.
pub fn write_pages(command: Command, folder: &Path) -> io::Result<()> {
    let folder = folder.join("man1");
    fs::create_dir_all(&folder)?;
    let mut whole = command.disable_help_subcommand(true);
    whole.build();
    write_page(&whole, whole.get_name(), &folder)
}

fn write_page(command: &Command, name: &str, folder: &Path) -> io::Result<()> {
    let below = || command.get_subcommands().filter(|below| !below.is_hide_set());
    let man = Man::new(command.clone()).title(name.to_uppercase()).manual("Sovia");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    // `sovia bench latency` has the page sovia-bench-latency, which is what NAME must say for apropos.
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    sections::name(name, &about, &mut page)?;
    man.render_synopsis_section(&mut page)?;
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

/// Writes what bash, zsh and fish complete a command by to `folder`, under the names by which they look for it.
///
/// # Errors
/// A file cannot be written.
pub fn write_completions(mut command: Command, folder: &Path) -> io::Result<()> {
    for (shell, place) in
        [(Shell::Bash, "bash/sovia"), (Shell::Zsh, "zsh/_sovia"), (Shell::Fish, "fish/sovia.fish")]
    {
        let path = folder.join(place);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        let mut file = fs::File::create(path)?;
        clap_complete::generate(shell, &mut command, "sovia", &mut file);
    }
    Ok(())
}
