//! Output of `sovia run -vv` before the program starts.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use sovia_control::env as names;
use sovia_proto::agent::PATH;

/// Findings and environment variables, formatted for the user.
pub(super) struct Outset<'a> {
    pub(super) program: &'a Path,
    /// The library, if it is injected.
    pub(super) library: Option<&'a Path>,
    /// Returns a variable of the program's environment.
    pub(super) variable: fn(&str) -> Option<OsString>,
}

impl Outset<'_> {
    fn text(&self, name: &str) -> Option<String> {
        let value = (self.variable)(name)?;
        (!value.is_empty()).then(|| value.to_string_lossy().into_owned())
    }

    /// Returns the path where the library looks for the host's agent, and what is there.
    fn agent(&self) -> String {
        let path = match (self.variable)(names::AGENT) {
            Some(given) if given.is_empty() => return "none (SOVIA_AGENT is empty)".to_owned(),
            Some(given) => PathBuf::from(given),
            None => PathBuf::from(PATH),
        };
        let is_there = if path.exists() {
            ""
        } else {
            " (does not exist; processes of one user need no agent)"
        };
        format!("{}{is_there}", path.display())
    }
}

impl fmt::Display for Outset<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "sovia: program:  {}", self.program.display())?;
        match self.library {
            Some(path) => writeln!(f, "sovia: library:  {}", path.display())?,
            None => writeln!(f, "sovia: library:  none")?,
        }
        let rules = self.text(names::RULES);
        let rules = rules.as_deref().unwrap_or(
            "none: all connections between this user's programs on this host are accelerated",
        );
        writeln!(f, "sovia: rules:    {rules}")?;
        let protocol = self.text(names::PROTOCOL);
        writeln!(f, "sovia: protocol: {}", protocol.as_deref().unwrap_or("the default"))?;
        writeln!(f, "sovia: agent:    {}", self.agent())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_says_what_holds() {
        let outset = Outset {
            program: Path::new("/bin/x"),
            library: Some(Path::new("/lib/y.so")),
            variable: |name| {
                [
                    (names::RULES, "except:port=22"),
                    (names::PROTOCOL, ""),
                    (names::AGENT, "/nowhere"),
                ]
                .iter()
                .find(|(of, _)| *of == name)
                .map(|(_, value)| value.into())
            },
        };
        let expected = "\
sovia: program:  /bin/x
sovia: library:  /lib/y.so
sovia: rules:    except:port=22
sovia: protocol: the default
sovia: agent:    /nowhere (does not exist; processes of one user need no agent)
";
        assert_eq!(outset.to_string(), expected);
        let bare = Outset {
            program: Path::new("/bin/x"),
            library: None,
            variable: |name| (name == names::AGENT).then(OsString::new),
        };
        let said = bare.to_string();
        assert!(
            said.contains("library:  none\n")
                && said.contains("agent:    none (SOVIA_AGENT is empty)\n"),
            "{said}"
        );
    }
}
