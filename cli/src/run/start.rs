//! A program ready to be executed.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use nix::errno::Errno;
use nix::unistd::{execv, execvp};

use crate::program::{EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND, Findings};

use super::voice::say;

/// A program, its arguments, and the reason to print if the kernel cannot execute it.
pub(super) struct Program {
    path: PathBuf,
    file: CString,
    args: Vec<CString>,
    missing: Option<PathBuf>,
    is_bare_script: bool,
}

impl Program {
    /// Makes a program from the file at `path`. The first word of `command` is the program's name as the user wrote it.
    pub(super) fn new(
        path: PathBuf,
        command: &[OsString],
        findings: &Findings,
    ) -> anyhow::Result<Self> {
        let file = CString::new(path.as_os_str().as_bytes())
            .context("cannot run the program: its path has a NUL byte")?;
        let args: Result<_, _> = command.iter().map(|arg| CString::new(arg.as_bytes())).collect();
        Ok(Self {
            path,
            file,
            args: args.context("cannot run the program: an argument has a NUL byte")?,
            missing: findings.missing.clone(),
            is_bare_script: findings.is_bare_script,
        })
    }

    /// Returns the path of the program's file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Executes the program in this process. Returns only if that fails, after printing the reason. Returns the exit
    /// status.
    pub(super) fn become_it(&self) -> i32 {
        // execvp passes a file with an unknown format to the shell. That is right only for a script without `#!`, and
        // not for an executable of another machine.
        let Err(errno) = if self.is_bare_script {
            execvp(&self.file, &self.args)
        } else {
            execv(&self.file, &self.args)
        };
        let path = self.path.display();
        match (errno, &self.missing) {
            (Errno::ENOENT, Some(interpreter)) => {
                let interpreter = interpreter.display();
                say(format_args!(
                    "sovia: cannot run {path}: its interpreter {interpreter} is missing\n"
                ));
            }
            _ => say(format_args!("sovia: cannot run {path}: {}\n", errno.desc())),
        }
        if errno == Errno::ENOENT { EXIT_NOT_FOUND } else { EXIT_NOT_EXECUTABLE }
    }
}
