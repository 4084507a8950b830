//! Checks that `docs/research/scale.md` agrees with the tables.

use std::fs;
use std::path::PathBuf;

fn at(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn lines(table: &str) -> Vec<String> {
    let text = fs::read_to_string(at("tables").join(table)).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Formats `1234567` as `1,234,567`.
fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Converts microseconds to milliseconds, with about three digits.
fn millis(micros: &str) -> String {
    let micros: u64 = micros.split('.').next().unwrap().parse().unwrap();
    match micros {
        0..10_000 => format!("{}.{:02}", micros / 1000, micros / 10 % 100),
        10_000..100_000 => format!("{}.{}", micros / 1000, micros / 100 % 10),
        _ => (micros / 1000).to_string(),
    }
}

/// Returns the rows of all scenarios in a table, two for each.
fn rows(table: &str) -> Vec<String> {
    let lines = lines(table);
    let of = |name: &str| {
        let names = lines[0].split_whitespace().skip(1);
        names.clone().position(|it| it == name).unwrap()
    };
    let row = |line: &String| {
        let (scenario, cells) = line.split_at(34);
        let cells: Vec<_> = cells.split_whitespace().collect();
        let (name, control) = scenario.trim().rsplit_once(", ").unwrap();
        let name = if control == "fixed" { name } else { "" };
        let shares = ["goodput", "bulk", "fair"].map(|name| cells[of(name)].to_owned());
        let times = ["p50", "p99", "p99.9", "longest"].map(|name| millis(cells[of(name)]));
        let counts = ["frames", "again", "timeouts"].map(|name| grouped(cells[of(name)]));
        let all = [shares.as_slice(), times.as_slice(), counts.as_slice()].concat();
        format!("| {name} | {control} | {} |", all.join(" | "))
    };
    lines[1..].iter().map(row).collect()
}

fn memory() -> Vec<String> {
    let row = |line: &String| {
        let (what, bytes) = line.rsplit_once(' ').unwrap();
        format!("| {} | {} |", what.trim(), grouped(bytes))
    };
    lines("state.txt").iter().map(row).collect()
}

/// Returns the page with the given rows below a table's header.
fn with(page: &str, head: &str, rows: &[String]) -> String {
    let begin = page.find(head).expect("the page has the table");
    let (before, table) = page.split_at(begin);
    let mut lines = table.lines();
    let head: Vec<_> = lines.by_ref().take(2).collect();
    let after: Vec<_> = lines.skip_while(|line| line.starts_with('|')).collect();
    format!("{before}{}\n{}\n{}\n", head.join("\n"), rows.join("\n"), after.join("\n"))
}

#[test]
fn page_has_the_figures_of_the_tables() {
    let path = at("../../../docs/research/scale.md");
    let page = fs::read_to_string(&path).unwrap();
    let streams = [rows("small.txt"), rows("large.txt")].concat();
    let current = with(&page, "| scenario | |", &streams);
    let current = with(&current, "| | bytes |", &memory());
    if std::env::var_os("ACCEPT").is_some() {
        return fs::write(&path, current).unwrap();
    }
    let differs = page.lines().zip(current.lines()).find(|(was, is)| was != is);
    assert!(
        page == current,
        "docs/research/scale.md is older than the tables; ACCEPT=1 writes its figures anew: {differs:?}"
    );
}
