//! systemd units, parsed from their files.

mod find;
mod words;

use std::path::PathBuf;

pub(crate) use self::find::{DROP_INS, Place};
pub(crate) use self::words::{quoted, quoted_with_specifiers, words};

/// Settings in the files of a unit, in the order in which systemd reads them.
#[derive(Debug, Default)]
pub(crate) struct Unit {
    /// The unit's own name, even if the user gave an alias.
    pub(crate) name: String,
    /// The unit's file, followed by its drop-ins.
    pub(crate) files: Vec<PathBuf>,
    settings: Vec<Setting>,
}

#[derive(Debug)]
struct Setting {
    key: String,
    value: String,
}

impl Unit {
    /// Adds the settings of a file.
    pub(crate) fn read(&mut self, path: PathBuf, text: &str) {
        self.files.push(path);
        let mut in_service = false;
        for line in logical_lines(text) {
            if let Some(section) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                in_service = section == "Service";
            } else if in_service && let Some((key, value)) = line.split_once('=') {
                let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
                self.settings.push(Setting { key, value });
            }
        }
    }

    /// Returns the values of a setting in `[Service]` after the last empty value, which resets a list.
    pub(crate) fn values(&self, key: &str) -> Vec<&str> {
        let mut values = Vec::new();
        for setting in self.settings.iter().filter(|setting| setting.key == key) {
            match setting.value.as_str() {
                "" => values.clear(),
                value => values.push(value),
            }
        }
        values
    }

    /// Returns the last value of a setting.
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        self.values(key).pop()
    }

    /// Returns true if a setting has a value other than "no". Some settings have further words that mean a kind of
    /// "yes".
    pub(crate) fn is_on(&self, key: &str) -> bool {
        self.value(key).is_some_and(|value| {
            !["no", "n", "false", "f", "off", "0"].contains(&value.to_lowercase().as_str())
        })
    }

    /// Returns the words of a setting that is a list.
    pub(crate) fn list(&self, key: &str) -> Vec<String> {
        self.values(key).iter().flat_map(|value| words(value)).collect()
    }
}

/// Returns the lines without comments. A line that ends in `\` is joined with the next one.
fn logical_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut begun: Option<String> = None;
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with(['#', ';']) || (line.is_empty() && begun.is_none()) {
            continue;
        }
        let whole = match begun.take() {
            Some(begun) => format!("{begun} {line}"),
            None => line.to_owned(),
        };
        match whole.strip_suffix('\\') {
            Some(part) => begun = Some(part.trim_end().to_owned()),
            None => lines.push(whole),
        }
    }
    lines.extend(begun);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(text: &str) -> Unit {
        let mut unit = Unit::default();
        unit.read(PathBuf::new(), text);
        unit
    }

    #[test]
    fn settings_are_read_as_systemd_reads_them() {
        let unit = unit(
            "[Unit]\nPrivateUsers=yes\n[Service]\n# a\nExecStart=/bin/a \\\n# between\n  b\nReadWritePaths=/a\nReadWritePaths=/b\nPrivateTmp = off\n[Install]\nExecStart=/bin/c\n",
        );
        assert_eq!(unit.value("ExecStart"), Some("/bin/a b"));
        assert_eq!(unit.values("ReadWritePaths"), ["/a", "/b"]);
        assert!(!unit.is_on("PrivateUsers") && !unit.is_on("PrivateTmp"));
    }

    #[test]
    fn an_empty_value_resets_what_came_before() {
        let mut unit = unit("[Service]\nExecStart=/bin/a\nRestrictAddressFamilies=AF_INET\n");
        unit.read(PathBuf::new(), "[Service]\nExecStart=\nExecStart=/bin/b\n");
        assert_eq!(unit.values("ExecStart"), ["/bin/b"]);
        assert_eq!(unit.list("RestrictAddressFamilies"), ["AF_INET"]);
    }
}
