//! `sovia-manual OUT SOVIA OTHER...`: manual pages and completions of the program SOVIA and those that it becomes, in the folder OUT.

use std::path::PathBuf;

use anyhow::Context;
use clap::Parser;
use sovia_manual::{command, whole, write_completions, write_pages};

/// Makes manual pages and completions from what Sovia's programs say that they parse.
#[derive(Parser)]
struct Cli {
    /// The folder that gets man1, bash, zsh and fish
    out: PathBuf,
    /// The program `sovia`
    sovia: PathBuf,
    /// The programs that it becomes
    others: Vec<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let Cli { out, sovia, others } = Cli::parse();
    let sovia = command(whole(&sovia, &others)?);
    let cannot = || format!("cannot write to {}", out.display());
    write_pages(sovia.clone(), &out).with_context(cannot)?;
    write_completions(sovia, &out).with_context(cannot)
}
