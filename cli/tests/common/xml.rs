//! Checks that a text is well-formed XML with elements, attributes and text.

/// Returns a fault of the text, if there is one.
pub(crate) fn fault(text: &str) -> Option<String> {
    let mut open: Vec<&str> = Vec::new();
    let mut roots = 0;
    let mut rest = text.strip_prefix("<?xml").and_then(|it| it.split_once("?>"))?.1;
    while let Some((before, tag)) = rest.split_once('<') {
        if let Some(fault) = text_fault(before) {
            return Some(fault);
        }
        let Some((tag, after)) = tag.split_once('>') else { return Some("a tag is open".into()) };
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return Some(format!("</{name}> ends nothing"));
            }
            continue;
        }
        let (tag, is_empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        if open.is_empty() {
            roots += 1;
        }
        if !is_empty {
            open.push(name);
        }
        if let Some(fault) = attributes_fault(attributes) {
            return Some(format!("<{name}>: {fault}"));
        }
    }
    if !open.is_empty() || roots != 1 || !rest.trim().is_empty() {
        return Some(format!("{roots} roots, {open:?} open, {rest:?} behind"));
    }
    None
}

fn attributes_fault(mut text: &str) -> Option<String> {
    while !text.trim().is_empty() {
        let Some((name, value)) = text.split_once("=\"") else { return Some(text.to_owned()) };
        let Some((value, after)) = value.split_once('"') else { return Some(text.to_owned()) };
        if name.trim().is_empty() || name.trim().contains(char::is_whitespace) {
            return Some(format!("the name {name:?}"));
        }
        if let Some(fault) = text_fault(value) {
            return Some(fault);
        }
        text = after;
    }
    None
}

fn text_fault(text: &str) -> Option<String> {
    let known = ["amp;", "lt;", "gt;", "quot;"];
    let bad = text.split('&').skip(1).find(|it| !known.iter().any(|name| it.starts_with(name)));
    bad.map(|it| format!("&{it} is nothing"))
}
