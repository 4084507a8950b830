//! Checks the rules for programs that load the library by /etc/ld.so.preload. The library cannot report invalid rules.

use std::path::Path;

use sovia_cli::switch;
use sovia_cli::system_rules::read;
use sovia_control::env;

use super::Finding;

pub(super) fn off_switch() -> Finding {
    let what = "off switch";
    match switch::in_force(Path::new("/"), nix::unistd::geteuid().as_raw()) {
        None => Finding::good(what, "not set: Sovia is on"),
        Some(path) if path == switch::of_all() => {
            Finding::bad(what, format!("off for all users: {}", path.display()), "sudo sovia on")
        }
        Some(path) => {
            Finding::bad(what, format!("off for this user: {}", path.display()), "sovia on")
        }
    }
}

pub(super) fn rules() -> Finding {
    let (what, path) = ("system's rules", env::SYSTEM_RULES.to_string_lossy());
    match read(env::SYSTEM_RULES) {
        Ok(None) => Finding::good(what, format!("no file {path}")),
        Ok(Some(rules)) if rules.is_empty() => Finding::good(what, format!("{path}: no rules")),
        Ok(Some(rules)) => Finding::good(what, format!("{path}: {rules}")),
        Err(why) => Finding::note(
            what,
            format!("{path}: {why}"),
            "programs that load the library by /etc/ld.so.preload stay on TCP until the file is corrected",
        ),
    }
}
