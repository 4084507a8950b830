//! The drop-in of a unit: a file that Sovia writes. Sovia removes the file only if Sovia wrote it.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::plan::Plan;
use crate::admin::unit::{DROP_INS, Place};

/// Name of the file in the folder of the unit's drop-ins.
pub(super) const NAME: &str = "sovia.conf";
/// First words of the file.
const MARK: &str = "# Written by `sovia enable`";

/// Returns the text of the file.
pub(super) fn text(unit: &str, plan: &Plan) -> String {
    let mut text = format!(
        "{MARK}. Enabling again overwrites this file; `sovia disable {unit}` removes the file.\n"
    );
    for section in ["Unit", "Service"] {
        let lines: Vec<_> = plan.lines.iter().filter(|line| line.section == section).collect();
        if lines.is_empty() {
            continue;
        }
        text += &format!("\n[{section}]\n");
        for line in lines {
            if !line.why.is_empty() {
                text += &format!("# {}\n", line.why);
            }
            text += &format!("{}\n", line.setting);
        }
    }
    text
}

/// Returns a unit's name with its type.
pub(super) fn with_type(name: &str) -> String {
    if name.ends_with(".service") { name.to_owned() } else { format!("{name}.service") }
}

/// Drop-in of a unit, which may exist or not.
#[derive(Debug)]
pub(super) struct DropIn {
    unit: String,
    path: PathBuf,
}

/// Returns all existing drop-ins.
pub(super) fn all(place: &Place) -> anyhow::Result<Vec<DropIn>> {
    let folder = place.path(DROP_INS);
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| folder.display().to_string())?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry.with_context(|| folder.display().to_string())?.file_name();
        if let Some(unit) = name.to_str().and_then(|name| name.strip_suffix(".d")) {
            let drop_in = DropIn::of(place, unit);
            if drop_in.is_ours()? == Some(true) {
                found.push(drop_in);
            }
        }
    }
    found.sort_by(|one, other| one.unit.cmp(&other.unit));
    Ok(found)
}

impl DropIn {
    pub(super) fn of(place: &Place, unit: &str) -> Self {
        let path = place.path(DROP_INS).join(format!("{unit}.d")).join(NAME);
        Self { unit: unit.to_owned(), path }
    }

    pub(super) fn unit(&self) -> &str {
        &self.unit
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if Sovia wrote the existing file; `None` if there is no file.
    fn is_ours(&self) -> anyhow::Result<Option<bool>> {
        match fs::read(&self.path) {
            Ok(text) => Ok(Some(text.starts_with(MARK.as_bytes()))),
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                Ok(None)
            }
            Err(error) => Err(error).with_context(|| self.path.display().to_string()),
        }
    }

    fn must_be_ours(&self) -> anyhow::Result<bool> {
        match self.is_ours()? {
            Some(false) => bail!(
                "cannot change {}: `sovia enable` did not write this file; rename or remove the file",
                self.path.display()
            ),
            there => Ok(there.is_some()),
        }
    }

    /// Writes the file. Returns false if the file has this text already. A reader finds the whole old file or the whole
    /// new one.
    pub(super) fn write(&self, text: &str) -> anyhow::Result<bool> {
        if self.must_be_ours()? && fs::read_to_string(&self.path).is_ok_and(|old| old == text) {
            return Ok(false);
        }
        let cannot = || format!("cannot write {}", self.path.display());
        let folder = self.path.parent().with_context(cannot)?;
        fs::create_dir_all(folder).with_context(cannot)?;
        let mut file = tempfile::Builder::new()
            .prefix(".sovia")
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
            .tempfile_in(folder)
            .with_context(cannot)?;
        file.write_all(text.as_bytes()).with_context(cannot)?;
        file.as_file().sync_all().with_context(cannot)?;
        file.persist(&self.path).with_context(cannot)?;
        Ok(true)
    }

    /// Removes the file, and its folder if that is empty then. Returns false if there was no file.
    pub(super) fn remove(&self) -> anyhow::Result<bool> {
        if !self.must_be_ours()? {
            return Ok(false);
        }
        fs::remove_file(&self.path)
            .with_context(|| format!("cannot remove {}", self.path.display()))?;
        if let Some(folder) = self.path.parent() {
            // The call fails if the folder has other drop-ins, which must stay.
            let _ = fs::remove_dir(folder);
        }
        Ok(true)
    }
}
