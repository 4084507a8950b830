//! `sovia ps` and other commands that inspect running programs.
//!
//! The commands read the statistics pages of processes under Sovia (`sovia_stats_page`): of the caller's user, or of
//! all users for root. They do not stop, slow down or query any process.

mod busy;
mod columns;
pub(crate) mod explain;
pub(crate) mod filter;
mod kernel;
mod numbers;
mod others;
pub(crate) mod ps;
pub(crate) mod stat;
pub(crate) mod top;
mod units;
mod users;

#[cfg(test)]
mod tests {
    use super::{explain, ps, stat};
    use serde::Serialize;
    use std::collections::BTreeSet;

    /// Returns the keys in the first column of a section's table in docs/reference/json.md.
    fn documented(section: &str) -> BTreeSet<String> {
        let text = include_str!("../../../../docs/reference/json.md");
        let heading = format!("## {section}:");
        let rows = text.lines().skip_while(|line| !line.starts_with(&heading)).skip(1);
        let rows = rows.take_while(|line| !line.starts_with("## "));
        let keys = rows.filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
        let keys = keys.flat_map(|cell| cell.split('`').skip(1).step_by(2));
        keys.map(str::to_owned).collect()
    }

    fn printed(object: impl Serialize) -> BTreeSet<String> {
        let object = serde_json::to_value(object).unwrap();
        object.as_object().unwrap().keys().cloned().collect()
    }

    #[test]
    fn each_key_that_is_printed_is_documented_and_no_other() {
        assert_eq!(documented("sovia ps"), printed(ps::Out::default()));
        assert_eq!(documented("sovia stat"), printed(stat::Out::default()));
        assert_eq!(documented("sovia stat --totals"), printed(stat::TotalsOut::default()));
        assert_eq!(documented("sovia explain"), printed(explain::Out::default()));
    }
}
