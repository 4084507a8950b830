//! Checks that the tests compile and run the same examples that the pages on sockets in docs/develop show.

use crate::common::here;
use std::fs;

/// Returns the lines of a text without their indentation.
fn bare(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join("\n")
}

#[test]
fn its_examples_are_those_that_run() {
    let root = here().join("../..");
    let page = |name| fs::read_to_string(root.join("docs/develop").join(name)).expect(name);
    let guide = ["c.md", "rust.md", "go.md", "zero-copy.md"].map(page).concat();
    let mut count = 0;
    for part in guide.split("<!-- ").skip(1) {
        let (file, rest) = part.split_once(" -->\n```").expect("a file's name and a block");
        let (_language, rest) = rest.split_once('\n').expect("a block has lines");
        let (block, _) = rest.split_once("\n```").expect("a block ends");
        let source = fs::read_to_string(root.join(file)).expect(file);
        assert!(bare(&source).contains(&bare(block)), "not in {file}:\n{block}");
        count += 1;
    }
    // Each code block of the guide must be one of the examples above.
    let blocks = ["c", "rust", "go"].map(|it| guide.matches(&format!("\n```{it}\n")).count());
    assert_eq!(blocks.iter().sum::<usize>(), count);
    assert!(count > 8);
}
