//! What programs follow that have the library by /etc/ld.so.preload. The library itself tells of no mistake there.

use sovia_cli::system_rules::read;
use sovia_control::env;

use super::Finding;

pub(super) fn rules() -> Finding {
    let (what, path) = ("system's rules", env::SYSTEM_RULES.to_string_lossy());
    match read(env::SYSTEM_RULES) {
        Ok(None) => Finding::good(what, format!("no {path}")),
        Ok(Some(rules)) if rules.is_empty() => Finding::good(what, format!("{path}: none")),
        Ok(Some(rules)) => Finding::good(what, format!("{path}: {rules}")),
        Err(why) => Finding::note(
            what,
            format!("{path}: {why}"),
            "programs that have the library by /etc/ld.so.preload stay on TCP until it is right",
        ),
    }
}
