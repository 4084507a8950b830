//! Checks that no method of a provider's trait has a body. A provider that forwards calls could forget a method with a
//! body, and the compiler would not notice.

use std::fs;
use std::path::Path;

/// Returns the names of a trait's methods, and true for each method with a body.
fn methods(source: &str, name: &str) -> Vec<(String, bool)> {
    let head = format!("pub trait {name}");
    let from = source.find(&head).unwrap_or_else(|| panic!("no {head}"));
    let text = &source[from..];
    let text = &text[..text.find("\n}").expect("the trait's end")];
    let code: Vec<&str> = text.lines().filter(|l| !l.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    code.split("\n    fn ")
        .skip(1)
        .map(|method| {
            let end = method.find([';', '{']).expect("a method ends");
            let name = method.split(['(', '<']).next().unwrap_or_default();
            (name.to_owned(), method.as_bytes()[end] == b'{')
        })
        .collect()
}

#[test]
fn provider_traits_have_no_default_bodies() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let traits = [
        ("nic.rs", "Nic:"),
        ("nic.rs", "Connection:"),
        ("vi.rs", "Vi:"),
        ("cq.rs", "CompletionQueue:"),
    ];
    for (file, name) in traits {
        let source = fs::read_to_string(folder.join(file)).expect("a source");
        let methods = methods(&source, name);
        assert!(methods.len() >= 4, "{name} {methods:?}");
        let with_body: Vec<_> = methods.iter().filter(|(_, body)| *body).collect();
        assert!(with_body.is_empty(), "{name} {with_body:?}");
    }
}

#[test]
fn a_body_is_found() {
    let source = "pub trait Vi: Sync {\n    fn a(&self);\n    /// x {\n    fn b(&self) -> bool {\n        true\n    }\n}\n";
    assert_eq!(methods(source, "Vi:"), [("a".into(), false), ("b".into(), true)]);
}
