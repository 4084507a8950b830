//! Checks the order of a crate's modules: each module imports only modules in lower layers.
//!
//! A test of the crate declares the order. An import from the own layer or a higher one could begin a
//! cycle of modules. Such modules cannot be read, tested or changed one by one.

mod mention;
mod source;

use source::Tree;
use std::fs;
use std::path::{Path, PathBuf};

/// Compares a crate's modules with their layers, lowest first. `known` are imports that there are: a
/// reader that finds nothing would have nothing to say against anything.
///
/// # Panics
/// With all faults, if there are any; if the crate's sources cannot be read.
pub fn check(manifest_dir: &str, layers: &[&[&str]], known: &[(&str, &str)]) {
    let read = read(manifest_dir);
    let tree = Tree::read(read.iter().map(|(name, text)| (name.as_str(), text.as_str())));
    for (from, to) in known {
        let has = tree
            .imports()
            .iter()
            .any(|import| import.from == *from && tree.origin(&import.to) == *to);
        assert!(has, "{from} imports {to}");
    }
    let faults = faults_of(&tree, layers);
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

/// Checks that a crate mentions `name` (another crate, or one of its own modules) in exactly these places. A place is
/// a module at the root, or a file relative to the crate's sources.
///
/// # Panics
/// With all faults, if there are any; if the crate's sources cannot be read.
pub fn check_mentions(manifest_dir: &str, name: &str, places: &[&str]) {
    let read = read(manifest_dir);
    let files = read.iter().map(|(file, text)| (file.as_str(), text.as_str()));
    let faults = mention::faults(files, name, places);
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

/// The files of a crate's sources, by their names relative to those, and their texts.
fn read(manifest_dir: &str) -> Vec<(String, String)> {
    let src = Path::new(manifest_dir).join("src");
    let mut found = Vec::new();
    files(&src, &mut found);
    found
        .iter()
        .map(|path| {
            let name = path.strip_prefix(&src).unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect()
}

fn layer(layers: &[&[&str]], module: &str) -> Option<usize> {
    layers.iter().position(|layer| layer.contains(&module))
}

/// Returns the faults of a tree of sources, for a list of layers.
fn faults_of(tree: &Tree, layers: &[&[&str]]) -> Vec<String> {
    let mut faults = Vec::new();
    let listed: Vec<&str> = layers.iter().flat_map(|layer| layer.iter().copied()).collect();
    for (i, module) in listed.iter().enumerate() {
        if listed[..i].contains(module) {
            faults.push(format!("{module} is in the list of layers twice"));
        }
        if !tree.modules().contains(module) {
            faults.push(format!("{module} is in the list of layers, and is no module"));
        }
    }
    for module in tree.modules() {
        if !listed.contains(&module) {
            faults.push(format!("{module} is a module, and is not in the list of layers"));
        }
    }
    for import in tree.imports() {
        let (from, to, place) = (&import.from, tree.origin(&import.to), &import.place);
        if from == to {
            continue;
        }
        if !tree.modules().contains(to) {
            let root = tree.root();
            // Those that the root itself defines, or passes on from another crate, are every module's.
            if !root.owns.contains(to) && !root.passes_on.contains_key(&import.to) {
                faults.push(format!(
                    "{place}: crate::{to} is neither a module nor named in lib.rs: import it from its \
                     module"
                ));
            }
            continue;
        }
        if let (Some(own), Some(other)) = (layer(layers, from), layer(layers, to))
            && other >= own
        {
            faults.push(format!(
                "{place}: {from} (layer {own}) imports {to} (layer {other}), which is not below it"
            ));
        }
    }
    faults
}

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use source::Root;

    /// Of a small crate in layers, with one more file.
    fn faults_with(name: &str, text: &str) -> Vec<String> {
        let files = [
            ("lib.rs", "mod low; mod middle; mod high; pub use high::run; pub type Errno = i32;"),
            ("low.rs", "pub fn f() {}"),
            ("middle/mod.rs", "mod part; use crate::low::f; use crate::Errno;"),
            ("high.rs", "use crate::{low, middle::{self, part}, Errno}; pub fn run() {}"),
            (name, text),
        ];
        faults_of(&Tree::read(files), &[&["low"], &["middle", "beside"], &["high"]])
            .into_iter()
            .filter(|fault| !fault.starts_with("beside is in the list"))
            .collect()
    }

    #[test]
    fn imports_of_what_is_not_below_are_found_in_every_form() {
        for text in [
            "use crate::high;",
            "use crate::{low, high::{a, b}};",
            "use crate::{\n    low::{c, d},\n    high as other,\n};",
            "fn f() { crate::high::g() }",
            "fn f(x: &crate::high::T) {}",
            "pub(crate) use super::super::high::T;",
            "use super::super::{low, high};",
            "use super::{self, super::high};",
            "mod inner { use super::super::super::high; }",
            "macro_rules! m { () => { $crate::high::g() }; }",
            "fn f() { assert!(x == [crate::high::C; 2], \"{}\", 1) }",
            "#[cfg(test)] mod tests { use crate::low; } use crate::high;",
        ] {
            let faults = faults_with("middle/part.rs", text);
            assert_eq!(faults.len(), 1, "{text}: {faults:?}");
            let fault = &faults[0];
            assert!(fault.starts_with("middle/part.rs:"), "{fault}");
            assert!(fault.contains("middle (layer 1) imports high (layer 2)"), "{fault}");
        }
        let beside = faults_with("beside.rs", "\n\nuse crate::middle;");
        assert_eq!(
            beside,
            ["beside.rs:3: beside (layer 1) imports middle (layer 1), which is not below it"]
        );
        let passed_on = faults_with("middle/part.rs", "fn f() { crate::run() }");
        assert_eq!(
            passed_on,
            ["middle/part.rs:1: middle (layer 1) imports high (layer 2), which is not below it"]
        );
        let hidden = faults_with("middle/part.rs", "fn f() { crate::walk() }");
        assert!(hidden.len() == 1 && hidden[0].contains("crate::walk is neither"), "{hidden:?}");
    }

    #[test]
    fn what_is_no_import_is_none() {
        for text in [
            "/// See [`crate::high`].\n// use crate::high;\n/* crate::high */ fn f() {}",
            "fn f() -> &'static str { \"use crate::high;\" }",
            "#[cfg(test)]\nmod tests { use crate::high; }",
            "#[cfg(test)]\n#[allow(unused)]\nuse crate::high;\nuse crate::low;",
            "use super::high;",
            "mod inner { use super::super::high; }",
            "use crate::middle::part::high;",
            "use crate::low::{high, crate_high};",
        ] {
            let faults = faults_with("middle/part.rs", text);
            assert!(faults.is_empty(), "{text}: {faults:?}");
        }
    }

    #[test]
    fn the_list_names_each_module_once() {
        let tree = Tree::read([("lib.rs", ""), ("low.rs", ""), ("new/mod.rs", "")]);
        let faults = faults_of(&tree, &[&["low", "gone"], &["low"]]);
        assert_eq!(
            faults,
            [
                "gone is in the list of layers, and is no module",
                "low is in the list of layers twice",
                "new is a module, and is not in the list of layers",
            ]
        );
        assert_eq!(tree.root(), &Root::default());
    }
}
