//! Runs a program in a terminal of tmux, with a tmux server of its own.

use crate::TempDir;
use std::path::PathBuf;
use std::process::Command;

/// A terminal, which ends when this value is dropped.
#[derive(Debug)]
pub struct Terminal {
    socket: PathBuf,
}

impl Terminal {
    /// Makes a terminal of `width` columns in which the shell runs `command`.
    pub fn start(folder: &TempDir, width: u16, command: &str) -> Self {
        let terminal = Self { socket: folder.path().join(format!("tmux-{width}")) };
        let width = width.to_string();
        terminal.tmux(&["new-session", "-d", "-x", &width, "-y", "40", command]);
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&self.socket).args(["-f", "/dev/null"]).args(arguments);
        let output = command.output().expect("tmux runs");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Returns the text on the screen.
    pub fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Presses a key.
    pub fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    /// Returns the process that was started in it.
    pub fn pid(&self) -> i32 {
        let said = self.tmux(&["display-message", "-p", "#{pane_pid}"]);
        said.trim().parse().expect("a process's id")
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}
