//! The dashboard and the alerts for Prometheus name existing metrics, and promtool accepts the alerts.

use sovia_tests::skipped;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/monitoring")
}

fn read(name: &str) -> String {
    fs::read_to_string(folder().join(name)).unwrap_or_else(|why| panic!("{name}: {why}"))
}

/// Returns the words of a text that begin like a metric of Sovia.
fn metrics(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("sovia_")).collect()
}

#[test]
fn metrics_of_the_dashboard_and_of_alerts_are_written_by_the_agent() {
    let page = read("../../docs/reference/metrics.md");
    let known = metrics(&page);
    assert!(known.len() > 10, "{known:?}");
    for name in ["dashboard.json", "alerts.yml"] {
        let text = read(name);
        let named = metrics(&text);
        assert!(named.len() > 3 && named.is_subset(&known), "{name}: {named:?}");
    }
}

#[test]
fn reasons_of_alerts_are_keys_of_reasons() {
    let page = read("../../docs/reference/reasons.md");
    let alerts = read("alerts.yml");
    let named = alerts.split("reason=").skip(1);
    let named = named.filter_map(|rest| rest.trim_start_matches('~').split('"').nth(1));
    let named: Vec<&str> = named.flat_map(|list| list.split('|')).collect();
    assert!(named.len() > 4, "{named:?}");
    for reason in named {
        assert!(page.contains(&format!("| `{reason}` |")), "{reason}");
    }
}

#[test]
fn the_dashboard_is_json_whose_panels_ask_for_something() {
    let dashboard: serde_json::Value = serde_json::from_str(&read("dashboard.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("a list of panels");
    assert!(panels.len() > 5);
    for panel in panels {
        let targets = panel["targets"].as_array().expect("a list of targets");
        assert!(!targets.is_empty() && panel["title"].is_string(), "{panel}");
    }
}

#[test]
fn promtool_takes_the_alerts_and_their_tests() {
    let test = "promtool_takes_the_alerts_and_their_tests";
    if skipped(test, &["promtool"]) {
        return;
    }
    for words in [["check", "rules", "alerts.yml"], ["test", "rules", "alerts.test.yml"]] {
        let said = Command::new("promtool").args(words).current_dir(folder()).output();
        let said = said.expect("promtool runs");
        assert!(said.status.success(), "{said:?}");
    }
}
