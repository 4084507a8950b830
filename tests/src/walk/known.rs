//! Differences that docs/reference/functions.md documents.

use super::script::Script;
use super::seeds::MOVED;

/// Returns true if docs/reference/functions.md documents the first difference.
pub(super) fn is_known(script: &Script, kernel: &str, sovia: &str) -> bool {
    let Some(first) = First::of(kernel, sovia) else { return false };
    has_edges(script) && (moves(script) && first.is_one_edge_more() || first.is_edge_of_room())
        || has_both_paths(script) && first.is_order()
        || is_of_spawned_program(script, kernel, sovia)
        || goes_back(script, kernel, sovia)
            && (bytes(kernel) == bytes(sovia)
                || kills(script) && without_end(bytes(kernel)) == without_end(bytes(sovia)))
}

/// Number of lines before the first difference.
fn same(kernel: &str, sovia: &str) -> usize {
    kernel.lines().zip(sovia.lines()).take_while(|(one, other)| one == other).count()
}

/// Returns true if the first difference is of a program without the library that `vfork`, `posix_spawn` or `system`
/// started. Such a program has no relay. If the connection went back to TCP before, the program's bytes do not
/// reach the peer. And its walker does not see a reset that the program's bytes cause.
fn is_of_spawned_program(script: &Script, kernel: &str, sovia: &str) -> bool {
    let is_spawn = |action: &str| {
        let mut words = action.split(' ');
        words.next() == Some("child")
            && matches!(words.next(), Some("vfork" | "spawn" | "system"))
            && words.next() == Some("kernel")
    };
    let same = same(kernel, sovia);
    let (Some(of_kernel), Some(of_sovia)) = (kernel.lines().nth(same), sovia.lines().nth(same))
    else {
        return false;
    };
    let before = &script.steps[..script.steps.len().min(same)];
    let has = |is: &dyn Fn(&str) -> bool| before.iter().any(|step| is(&step.action));
    let writes = script.steps.get(same).is_some_and(|step| is_spawn(&step.action));
    writes && has(&|action| action.starts_with("child"))
        || has(&is_spawn) && of_kernel.replace("|ERR|HUP", "") == of_sovia
}

/// Returns true if a connection may have fallen back to TCP by the first step that differs.
fn goes_back(script: &Script, kernel: &str, sovia: &str) -> bool {
    let taken = &script.steps[..script.steps.len().min(same(kernel, sovia) + 1)];
    let has = |action: &str| taken.iter().any(|step| step.action.starts_with(action));
    has("child") || has("give") || has("splice") || has("add") && has("fork")
}

/// The bytes that the walkers have received, in order, each with the events of a poll before; and what must not be. (Whether a reset
/// is reported, and by which call, may differ after the connection has gone back. So may POLLERR.)
fn bytes(text: &str) -> Vec<String> {
    let tells =
        |line: &&str| line.contains(" bytes ") || line.contains("HANGS") || line.contains("DIED");
    let told = |line: &str| line.rsplit(": ").next().unwrap_or(line).replace("|ERR", "");
    text.lines().filter(tells).map(told).collect()
}

fn kills(script: &Script) -> bool {
    script.steps.iter().any(|step| step.action == "kill")
}

/// Returns such lines without the events of an end. If a peer dies with bytes unread, a connection that goes back may end with an
/// end of stream instead of a reset.
fn without_end(lines: Vec<String>) -> Vec<String> {
    lines.into_iter().map(|line| line.replace("|HUP", "")).collect()
}

fn has_edges(script: &Script) -> bool {
    script.steps.iter().any(|step| step.action.contains("edge"))
}

/// Number of transfers of each connection before the walk uses it.
fn transfers(script: &Script) -> Vec<usize> {
    let opened = |action: &str| action.strip_prefix("open ")?.split(' ').next()?.parse().ok();
    let of_others = script.steps.iter().filter_map(|step| opened(&step.action));
    of_others.chain([script.warmup]).collect()
}

/// Returns true if a connection moves to its VI in the walk.
fn moves(script: &Script) -> bool {
    let transfers = transfers(script);
    transfers.len() > 1 || transfers.iter().any(|&transfers| transfers < MOVED)
}

/// Returns true if some connections may be on their VIs and others on TCP.
fn has_both_paths(script: &Script) -> bool {
    let transfers = transfers(script);
    transfers.len() > 1 && transfers.iter().any(|&transfers| transfers < MOVED)
}

/// The first lines that differ.
struct First<'t> {
    kernel: Line<'t>,
    sovia: Line<'t>,
    /// All later lines of Sovia.
    after: &'t str,
}

/// A line, split into its parts.
#[derive(Debug, PartialEq, Eq)]
struct Line<'t> {
    /// Number of each entry with events, and its mask.
    events: Vec<(&'t str, Vec<&'t str>)>,
    words: Vec<&'t str>,
}

impl<'t> Line<'t> {
    fn of(line: &'t str) -> Line<'t> {
        let (mut events, mut words) = (Vec::new(), Vec::new());
        let mut parts = line.split([',', ' ']).filter(|part| !part.is_empty()).peekable();
        while let Some(part) = parts.next() {
            let number = part.strip_suffix(':').filter(|number| number.parse::<u32>().is_ok());
            // Behind the number of places in a call another number comes, or a word.
            let mask =
                parts.peek().filter(|mask| mask.starts_with(|c: char| c.is_ascii_uppercase()));
            match (number, mask) {
                (Some(number), Some(mask)) => {
                    events.push((number, mask.split('|').collect()));
                    parts.next();
                }
                _ => words.push(part),
            }
        }
        Line { events, words }
    }

    /// Returns true for `events INSTANCE PLACES` with as many events.
    fn is_full(&self) -> bool {
        let places = self.words.iter().find_map(|word| word.strip_suffix(':'));
        self.words.contains(&"events")
            && places.and_then(|places| places.parse().ok()) == Some(self.events.len())
    }

    fn sorted(&self) -> Vec<(&'t str, Vec<&'t str>)> {
        let mut events = self.events.clone();
        events.sort();
        events
    }
}

impl<'t> First<'t> {
    fn of(kernel: &'t str, sovia: &'t str) -> Option<First<'t>> {
        let mut rest = sovia;
        for of_kernel in kernel.lines() {
            let (of_sovia, after) = rest.split_once('\n').unwrap_or((rest, ""));
            if of_kernel != of_sovia {
                return Some(First {
                    kernel: Line::of(of_kernel),
                    sovia: Line::of(of_sovia),
                    after,
                });
            }
            rest = after;
        }
        None
    }

    /// Either of a VI and TCP may be first. If the wait has no room for more, other entries may be first.
    fn is_order(&self) -> bool {
        let Line { events, words } = &self.kernel;
        let is_full = events.len() == self.sovia.events.len() && self.kernel.is_full();
        *events != self.sovia.events
            && *words == self.sovia.words
            && (self.kernel.sorted() == self.sovia.sorted() || is_full)
    }

    /// Sovia may report an edge once more.
    fn is_one_edge_more(&self) -> bool {
        let is_told = |(number, mask): &(&str, Vec<&str>)| {
            let mut of_it = self.sovia.events.iter().filter(|(of, _)| of == number);
            of_it.any(|(_, told)| mask.iter().all(|event| told.contains(event)))
        };
        let is_none = self.kernel.words.last() == Some(&"none");
        self.wakes_one_more()
            || self.kernel.words.contains(&"events")
                && (is_none
                    || !self.kernel.events.is_empty() && self.kernel.events.iter().all(is_told))
    }

    /// Returns true if only Sovia wakes a thread that waits for events, and everything else is the same.
    fn wakes_one_more(&self) -> bool {
        let (mut kernel, mut sovia) = (self.kernel.words.clone(), self.sovia.words.clone());
        let sleeps = kernel.windows(2).position(|words| words == ["events", "sleeps"]);
        let wakes = sovia.iter().position(|word| *word == "events:");
        if let (Some(sleeps), Some(wakes)) = (sleeps, wakes) {
            kernel.drain(sleeps..sleeps + 2);
            sovia.remove(wakes);
        }
        sleeps.is_some() && kernel == sovia && self.kernel.events.is_empty()
    }

    /// A peer makes room step by step. Sovia may report an edge of room once more. Or it reports an edge without the room that the
    /// kernel reports in it, and the room afterwards.
    fn is_edge_of_room(&self) -> bool {
        const ROOM: &str = "OUT";
        let (kernel, sovia) = (&self.kernel.events, &self.sovia.events);
        if kernel.is_empty() && !sovia.is_empty() {
            return self.is_one_edge_more() && sovia.iter().all(|(_, mask)| mask == &[ROOM]);
        }
        let comes_after = |number: &str| {
            let mut told = self.after.lines().flat_map(|line| Line::of(line).events);
            told.any(|(of, mask)| of == number && mask.contains(&ROOM))
        };
        let is_without_room = |(number, whole): &(&str, Vec<&str>)| {
            let without: Vec<_> = whole.iter().copied().filter(|&event| event != ROOM).collect();
            sovia.contains(&(number, without)) && comes_after(number)
        };
        let is_told = |event| sovia.contains(event) || is_without_room(event);
        kernel != sovia
            && kernel.len() == sovia.len()
            && self.kernel.words == self.sovia.words
            && kernel.iter().all(is_told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(script: &str, kernel: &str, sovia: &str) -> bool {
        is_known(&script.parse().expect("a walk"), kernel, sovia)
    }

    #[test]
    fn the_order_of_two_paths_is_known_and_no_other_order() {
        let (one, other) = ("A events 0 4: 1: IN, 2: OUT", "A events 0 4: 2: OUT, 1: IN");
        assert!(known("20; B open 2", one, other));
        assert!(!known("20; B open 20", one, other));
        assert!(!known("2; A read 1", one, other));
        assert!(known("2; B open 20", "A events 0 1: 1: IN", "A events 0 1: 2: OUT"));
        assert!(!known("2; B open 20", "A events 0 4: 1: IN", "A events 0 4: 2: OUT"));
        assert!(!known("2; B open 20", one, "A events 0 4: 1: IN"));
        let (woken, asleep) =
            ("A woken: events: 1: IN, readable: IN", "A woken: events: 1: IN, readable sleeps");
        assert!(!known("2; B open 20", woken, asleep));
    }

    #[test]
    fn one_edge_more_of_a_connection_that_moves_is_known() {
        const MOVES: &str = "5; A add 0 edge in";
        for (kernel, sovia) in [
            ("A events 0 4: none", "A events 0 4: 1: IN"),
            ("A woken: events sleeps", "A woken: events: 1: IN"),
        ] {
            assert!(known(MOVES, kernel, sovia));
            assert!(!known(MOVES, sovia, kernel));
            assert!(!known("20; A add 0 edge in", kernel, sovia));
            assert!(!known("5; A add 0 level in", kernel, sovia));
        }
        let both =
            ["A woken: events sleeps, readable sleeps", "A woken: events sleeps, readable: IN"];
        assert!(!known(MOVES, both[0], both[1]));
    }

    #[test]
    fn an_edge_of_room_is_known_again_or_in_two_parts() {
        const EDGE: &str = "20; A add 0 edge both";
        assert!(known(EDGE, "A events 0 4: none", "A events 0 4: 1: OUT"));
        assert!(!known(EDGE, "A events 0 4: none", "A events 0 4: 1: IN"));
        assert!(!known("20; A add 0 level both", "A events 0 4: none", "A events 0 4: 1: OUT"));
        let (whole, part) = ("B woken: events: 1: IN|OUT", "B woken: events: 1: IN");
        assert!(known(EDGE, whole, &format!("{part}\nB events 0 4: 1: IN|OUT")));
        assert!(!known(EDGE, whole, part));
        assert!(!known(EDGE, whole, "B woken: events sleeps"));
    }

    #[test]
    fn a_spawned_program_without_a_relay_is_known() {
        const SPAWNS: &str = "20; A child exec kernel nothing 1; A child vfork kernel write 5";
        let write = [
            "A child: 0\nA child: status 238\nB read: 5 bytes ab",
            "A child: 0\nA child: status 66\nB read: EAGAIN",
        ];
        assert!(known(SPAWNS, write[0], write[1]));
        assert!(!known("20; A write 1; A child vfork kernel write 5", write[0], write[1]));
        let reset =
            ["A child: 0\nA await: IN|ERR|HUP 5 bytes ab", "A child: 0\nA await: IN 5 bytes ab"];
        assert!(known("20; A child spawn kernel write 1; A await 5", reset[0], reset[1]));
        assert!(!known("20; A child exec kernel write 1; A await 5", reset[0], reset[1]));
    }

    #[test]
    fn a_connection_that_has_gone_back_loses_no_bytes() {
        const BACK: &str = "20; A child exec here nothing 1";
        let (one, other) = (
            "A child: 0\nA at the end: IN|ERR 5 bytes ab",
            "A child: 0\nA at the end: IN 5 bytes ab",
        );
        assert!(known(BACK, one, other));
        assert!(!known(BACK, one, "A child: 0\nA at the end: IN 5 bytes cd"));
        let without_end = "A child: 0\nA at the end: IN|HUP 5 bytes ab";
        assert!(!known(BACK, one, without_end));
        assert!(known("20; A child exec here nothing 1; B kill", one, without_end));
    }
}
