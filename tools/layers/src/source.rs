//! Reads the imports between the files of a crate from the files' tokens. So comments and strings
//! do not count, and code in macros does.

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};

/// One mention of a name at the crate's root.
#[derive(Debug)]
pub(crate) struct Import {
    /// File, relative to the sources, and line.
    pub(crate) place: String,
    /// The module at the root that the file belongs to.
    pub(crate) from: String,
    /// The name.
    pub(crate) to: String,
}

/// Names at the crate's root besides modules.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Root {
    /// Types, functions and macros that it defines.
    pub(crate) owns: BTreeSet<String>,
    /// Names that it passes on, and the module at the root that each comes from.
    pub(crate) passes_on: BTreeMap<String, String>,
}

/// The sources of a crate.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    modules: BTreeSet<String>,
    root: Root,
    imports: Vec<Import>,
}

impl Tree {
    /// Reads files, given by their names relative to the sources, and their texts.
    ///
    /// # Panics
    /// If a text is no Rust.
    pub(crate) fn read<'f>(files: impl IntoIterator<Item = (&'f str, &'f str)>) -> Tree {
        let mut tree = Tree::default();
        for (name, text) in files {
            let tokens: TokenStream =
                text.parse().unwrap_or_else(|e| panic!("{name} cannot be read: {e}"));
            let mut path: Vec<&str> = name.trim_end_matches(".rs").split('/').collect();
            if path.last() == Some(&"mod") {
                path.pop();
            }
            if path == ["lib"] || path == ["main"] {
                tree.root.passes_on.extend(passed_on(tokens.clone()));
                tree.root.owns.extend(definitions(tokens));
                continue;
            }
            if is_of_tests(name) {
                continue;
            }
            tree.modules.insert(path[0].to_owned());
            let file = File { name, module: path[0] };
            file.scan(tokens, path.len(), &mut tree.imports);
        }
        tree
    }

    /// The modules at the root.
    pub(crate) fn modules(&self) -> BTreeSet<&str> {
        self.modules.iter().map(String::as_str).collect()
    }

    /// Returns the names at the root besides modules.
    pub(crate) fn root(&self) -> &Root {
        &self.root
    }

    /// The module that a name at the root comes from: itself, or the one whose name the root passes on.
    pub(crate) fn origin<'n>(&'n self, name: &'n str) -> &'n str {
        let passed_on = self.root.passes_on.get(name).filter(|_| !self.modules.contains(name));
        passed_on.map_or(name, String::as_str)
    }

    /// Returns the imports of all files.
    pub(crate) fn imports(&self) -> &[Import] {
        &self.imports
    }
}

/// Keywords that begin the definition of a named item.
const KINDS: [&str; 7] = ["fn", "type", "struct", "enum", "const", "static", "trait"];

/// The names in each `pub use module::…;`, with the module.
fn passed_on(tokens: TokenStream) -> BTreeMap<String, String> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut found = BTreeMap::new();
    for i in 1..tokens.len() {
        if !is_ident(&tokens[i], "use") {
            continue;
        }
        let skip =
            if tokens[i + 1..].len() > 3 && is_ident(&tokens[i + 1], "self") { 4 } else { 1 };
        let Some(TokenTree::Ident(module)) = tokens.get(i + skip) else { continue };
        let path = &tokens[i + skip + 1..];
        let end = path.iter().position(|token| is_punct(token, ';')).unwrap_or(path.len());
        for name in last_names(&path[..end]) {
            found.insert(name, module.to_string());
        }
    }
    found
}

/// The last name of each path: `c` and `d` of `a::{b::c, e as d}`.
fn last_names(tokens: &[TokenTree]) -> Vec<String> {
    match tokens.last() {
        Some(TokenTree::Ident(name)) => vec![name.to_string()],
        Some(TokenTree::Group(list)) => {
            let tokens: Vec<TokenTree> = list.stream().into_iter().collect();
            tokens.split(|token| is_punct(token, ',')).flat_map(last_names).collect()
        }
        _ => Vec::new(),
    }
}

/// Names of what a file defines, outside every block.
fn definitions(tokens: TokenStream) -> BTreeSet<String> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    tokens
        .windows(2)
        .filter(|pair| KINDS.iter().any(|kind| is_ident(&pair[0], kind)))
        .map(|pair| pair[1].to_string())
        .collect()
}

struct File<'f> {
    name: &'f str,
    module: &'f str,
}

impl File<'_> {
    /// Finds the imports in some tokens that lie `depth` modules below the root.
    fn scan(&self, tokens: TokenStream, depth: usize, found: &mut Vec<Import>) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut i = 0;
        while i < tokens.len() {
            if is_test_only(&tokens[i..]) {
                i += item_length(&tokens[i..]);
                continue;
            }
            if let Some(way) = way_up(&tokens[i..], depth) {
                i += way.tokens;
                if way.ends == 0 {
                    self.names(&tokens[i..], found);
                } else if let Some(TokenTree::Group(list)) = tokens.get(i) {
                    // In it the way may go on.
                    self.scan(list.stream(), way.ends, found);
                    i += 1;
                }
                continue;
            }
            if let TokenTree::Group(group) = &tokens[i] {
                // Its name may be one that a macro is given.
                let is_named = |back: usize| i >= back && is_ident(&tokens[i - back], "mod");
                let is_module =
                    group.delimiter() == Delimiter::Brace && (is_named(2) || is_named(3));
                self.scan(group.stream(), depth + usize::from(is_module), found);
            }
            i += 1;
        }
    }

    /// The name, or the list of them, that follows on the root.
    fn names(&self, tokens: &[TokenTree], found: &mut Vec<Import>) {
        match tokens.first() {
            Some(TokenTree::Ident(name)) => self.note(name.to_string(), name.span(), found),
            Some(TokenTree::Group(list)) => {
                for name in firsts(list) {
                    self.note(name.to_string(), name.span(), found);
                }
            }
            Some(TokenTree::Punct(_)) => self.note("*".to_owned(), tokens[0].span(), found),
            _ => {}
        }
    }

    fn note(&self, to: String, span: Span, found: &mut Vec<Import>) {
        found.push(Import {
            place: format!("{}:{}", self.name, span.start().line),
            from: self.module.to_owned(),
            to,
        });
    }
}

/// The first name of each path in a list.
fn firsts(list: &Group) -> Vec<TokenTree> {
    let mut firsts = Vec::new();
    let mut begins = true;
    for token in list.stream() {
        let is_comma = is_punct(&token, ',');
        if begins && !is_comma {
            firsts.push(token);
        }
        begins = is_comma;
    }
    firsts
}

/// The beginning of a path that leads towards the root.
struct Way {
    /// How many tokens it takes.
    tokens: usize,
    /// How many modules below the root it ends.
    ends: usize,
}

/// `crate::`, or a row of `super::`, if some tokens that lie `depth` modules below the root begin so.
fn way_up(tokens: &[TokenTree], depth: usize) -> Option<Way> {
    if is_ident(&tokens[0], "crate") && is_path(&tokens[1..]) {
        return Some(Way { tokens: 3, ends: 0 });
    }
    let mut up = 0;
    while tokens.get(3 * up).is_some_and(|token| is_ident(token, "super"))
        && is_path(&tokens[3 * up + 1..])
    {
        up += 1;
    }
    (up > 0).then(|| Way { tokens: 3 * up, ends: depth.saturating_sub(up) })
}

pub(crate) fn is_ident(token: &TokenTree, name: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == name)
}

fn is_punct(token: &TokenTree, char: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == char)
}

/// Whether `::` comes first.
fn is_path(tokens: &[TokenTree]) -> bool {
    tokens.len() >= 2 && tokens[..2].iter().all(|token| is_punct(token, ':'))
}

/// Whether a file is named by a `#[cfg(test)] mod tests;`.
pub(crate) fn is_of_tests(file: &str) -> bool {
    let mut path = file.trim_end_matches(".rs").split('/');
    path.any(|name| name == "tests" || name.ends_with("_tests"))
}

/// Whether `#[cfg(test)]` comes first.
pub(crate) fn is_test_only(tokens: &[TokenTree]) -> bool {
    match tokens {
        [mark, TokenTree::Group(group), ..] if is_punct(mark, '#') => {
            let words: Vec<TokenTree> = group.stream().into_iter().collect();
            matches!(&words[..], [cfg, TokenTree::Group(what)]
                if is_ident(cfg, "cfg") && what.stream().to_string() == "test")
        }
        _ => false,
    }
}

/// How many tokens an item with its attributes takes.
pub(crate) fn item_length(tokens: &[TokenTree]) -> usize {
    let end = tokens.iter().position(|token| {
        is_punct(token, ';')
            || matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
    });
    end.map_or(tokens.len(), |end| end + 1)
}
