//! Checks that links in the documentation have targets, and that mdBook makes a book of it.

use sovia_tests::{TempDir, skipped};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns every page of the tree.
fn pages() -> Vec<String> {
    let output = Command::new("git").args(["ls-files", "*.md"]).current_dir(root()).output();
    let known = output.ok().filter(|output| output.status.success());
    let listed = known.map(|it| String::from_utf8_lossy(&it.stdout).into_owned());
    let mut pages: Vec<String> = listed.unwrap_or_default().lines().map(str::to_owned).collect();
    if pages.is_empty() {
        // A tree without its git history.
        let here = pages_in(&root(), false).into_iter().chain(pages_in(&root().join("docs"), true));
        pages.extend(here.map(|it| it.strip_prefix(root()).unwrap().display().to_string()));
    }
    pages
}

/// Returns pages in a folder, or also in folders below it.
fn pages_in(folder: &Path, goes_down: bool) -> Vec<PathBuf> {
    let mut pages = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if goes_down && path.is_dir() {
            pages.extend(pages_in(&path, goes_down));
        } else if path.extension().is_some_and(|it| it == "md") {
            pages.push(path);
        }
    }
    pages
}

/// Returns lines outside of code blocks, without inline code.
fn prose(text: &str) -> String {
    let mut prose = String::new();
    let mut is_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code && !line.starts_with("    ") {
            let outside = line.split('`').step_by(2);
            prose.extend(outside);
            prose.push('\n');
        }
    }
    prose
}

/// Returns the targets of a page's links.
fn links(text: &str) -> Vec<String> {
    let parts = prose(text);
    let parts = parts.split("](").skip(1).filter_map(|part| part.split_once(')'));
    parts.map(|(link, _)| link.trim().to_owned()).collect()
}

/// Returns the anchors of a page's headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut is_code = false;
    let mut anchors = BTreeSet::new();
    for line in text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        if is_code || !line.starts_with('#') {
            continue;
        }
        let letters = line.trim_start_matches('#').trim().to_lowercase();
        let kept = letters.chars().filter(|it| it.is_alphanumeric() || " -_".contains(*it));
        anchors.insert(kept.map(|it| if it == ' ' { '-' } else { it }).collect());
    }
    anchors
}

#[test]
fn links_of_the_installed_documentation_lead_somewhere() {
    let folder = TempDir::new();
    let put = Command::new(root().join("scripts/put-docs")).arg(folder.path()).output();
    let put = put.expect("bash runs");
    assert!(put.status.success(), "{put:?}");
    let pages = pages_in(folder.path(), true);
    assert!(pages.len() > 25, "{pages:?}");
    for page in pages {
        for link in links(&fs::read_to_string(&page).unwrap()) {
            let path = link.split('#').next().unwrap_or_default();
            let is_elsewhere =
                path.is_empty() || path.contains(':') || path.ends_with("report/index.html");
            let to = page.with_file_name(path);
            assert!(is_elsewhere || to.exists(), "{}: {link}", page.display());
        }
    }
}

#[test]
fn links_lead_somewhere() {
    let (mut faults, mut count) = (Vec::new(), 0);
    for page in pages() {
        let text = fs::read_to_string(root().join(&page)).unwrap();
        for link in links(&text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            // Links of the summary are relative to the tree's root; `make papers` makes the report.
            let is_summary = page.ends_with("SUMMARY.md");
            if link.ends_with("report/index.html") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let from = root().join(&page);
            let folder = if is_summary { root() } else { from.parent().unwrap().to_owned() };
            let target = if file.is_empty() { from.clone() } else { folder.join(file) };
            count += 1;
            let is_heading = || {
                let text = fs::read_to_string(&target).unwrap_or_default();
                anchor.is_empty() || anchors(&text).contains(anchor)
            };
            if !target.exists() || !is_heading() {
                faults.push(format!("{page}: {link}"));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(count > 100, "{count} links");
}

#[test]
fn every_page_of_the_documentation_is_in_the_book() {
    let summary = fs::read_to_string(root().join("docs/book/SUMMARY.md")).unwrap();
    let named: BTreeSet<String> = links(&summary).into_iter().collect();
    for page in pages() {
        let is_of_book = page.starts_with("docs/") && !page.starts_with("docs/book/");
        assert!(!is_of_book || named.contains(&page), "{page} is not in docs/book/SUMMARY.md");
    }
}

#[test]
fn the_book_is_made() {
    if skipped("the_book_is_made", &["mdbook"]) {
        return;
    }
    let target = TempDir::new();
    let output = Command::new("scripts/book").arg(target.path()).current_dir(root()).output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("ERROR") && !said.contains("WARN"), "{said}");
    // scripts/check-links checks every link of every page, and every anchor.
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains(" pages, 0 wrong"), "{told}");
    let book = target.path().join("book");
    for page in [
        "index.html",
        "docs/quickstart.html",
        "docs/develop/sockets.html",
        "docs/report/index.html",
    ] {
        let text =
            fs::read_to_string(book.join(page)).unwrap_or_else(|why| panic!("{page}: {why}"));
        assert!(text.contains("<title>"), "{page}");
    }
    // Files that pages show or link to are in the book.
    assert!(book.join("docs/demo.svg").exists());
    assert!(book.join("abi/sovia/examples/echo.c").exists());
    // A link without a target is found.
    let page = book.join("docs/quickstart.html");
    let text = fs::read_to_string(&page).unwrap();
    for wrong in ["gone.html", "faq.html#gone", "#gone"] {
        fs::write(&page, format!("{text}<a href=\"{wrong}\">")).unwrap();
        let output =
            Command::new("scripts/check-links").arg(&book).current_dir(root()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(wrong), "{wrong}: {said}");
    }
}

#[test]
fn the_checker_of_links_knows_pages() {
    let text = "# A & b: `c`\n[x](y.md#z) `[no](no)`\n```\n[no](no)\n# no\n```\n## A-b_c\n";
    assert_eq!(links(text), ["y.md#z"]);
    let expected = ["a--b-c", "a-b_c"].map(str::to_owned);
    assert_eq!(anchors(text), BTreeSet::from(expected));
}
