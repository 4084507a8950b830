//! The states of a stream and their transitions, drawn from the protocol's own table: figure 11 of ICS 2001.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use sovia_proto::state::{Event, State};

use super::svg::{Anchor, INK, Note, Svg};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 600.0;
const BOX: (f64, f64) = (112.0, 34.0);
/// Fill colours. The paper shades the states of active and passive close.
const SHADED: &str = "#e8eef4";
const PLAIN: &str = "#fff";

/// Returns the centre of a state's box.
fn place(state: State) -> (f64, f64) {
    match state {
        State::Closed => (110.0, 110.0),
        State::Connecting => (300.0, 110.0),
        State::Opening => (490.0, 110.0),
        State::Normal => (650.0, 110.0),
        State::Draining => (400.0, 230.0),
        State::CloseWait => (650.0, 230.0),
        State::FinWait1 => (230.0, 330.0),
        State::Closing => (400.0, 400.0),
        State::LastDrain => (650.0, 330.0),
        State::FinWait2 => (110.0, 450.0),
        State::LastAck => (650.0, 450.0),
        State::Finished => (400.0, 530.0),
        State::Reset => (650.0, 545.0),
    }
}

fn is_shaded(state: State) -> bool {
    !matches!(state, State::Closed | State::Connecting | State::Opening | State::Normal)
}

/// Returns the table's arrows. Arrows between the same two states are merged. Events that end every state or change no
/// state are described in words.
fn arrows() -> BTreeMap<(State, State), Vec<String>> {
    let mut arrows: BTreeMap<(State, State), Vec<String>> = BTreeMap::new();
    for &event in Event::ALL {
        for &from in State::ALL {
            let Ok(to) = from.after(event) else { continue };
            if to == from || matches!(event, Event::Lost | Event::Abort) {
                continue;
            }
            let mut name = event.to_string();
            if let Some(kind) = event.sends() {
                let _ = write!(name, " / {kind:?}");
            }
            arrows.entry((from, to)).or_default().push(name.to_uppercase());
        }
    }
    arrows
}

/// Draws the picture as SVG.
pub(in crate::measure::bench::papers) fn draw(title: &str, note: &Note) -> String {
    let mut svg = Svg::new(WIDTH, HEIGHT, title);
    svg.heading(20.0, title, note);
    for ((from, to), names) in arrows() {
        let (a, b) = (edge(place(from), place(to)), edge(place(to), place(from)));
        // The shift separates two arrows in opposite directions: the arrow to the left is below.
        let shift = match arrows().contains_key(&(to, from)) {
            true if b.0 < a.0 => 7.0,
            true => -7.0,
            false => 0.0,
        };
        let (a, b) = ((a.0, a.1 + shift), (b.0, b.1 + shift));
        svg.arrow(a, b, "#666");
        let (x, y) = ((a.0 + b.0) / 2.0, (a.1 + b.1) / 2.0);
        // Between close boxes, the label is above or below the boxes.
        let beside = match (a.1 - b.1).abs() < 1.0 {
            true if shift > 0.0 => 23.0,
            true if shift < 0.0 => -17.0,
            true => -24.0,
            false => 0.0,
        };
        for (i, name) in names.iter().enumerate() {
            svg.label((x, y - 4.0 + beside + 11.0 * i as f64), 9.5, name);
        }
    }
    for &state in State::ALL {
        let (x, y) = place(state);
        let fill = if is_shaded(state) { SHADED } else { PLAIN };
        svg.frame((x - BOX.0 / 2.0, y - BOX.1 / 2.0), BOX, fill, INK);
        svg.text((x, y + 4.0), Anchor::Middle, 11.5, &state.to_string());
    }
    let words =
        "LOST and ABORT lead from every state but CLOSED and FINISHED to RESET. Shaded: closing.";
    svg.text((20.0, HEIGHT - 14.0), Anchor::Start, 11.0, words);
    svg.finish()
}

/// Returns the point where a line to another box leaves a box.
fn edge(from: (f64, f64), to: (f64, f64)) -> (f64, f64) {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let by = |half: f64, way: f64| if way == 0.0 { f64::INFINITY } else { half / way.abs() };
    let times = by(BOX.0 / 2.0, dx).min(by(BOX.1 / 2.0, dy)).min(1.0);
    (from.0 + dx * times, from.1 + dy * times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picture_has_every_state_and_event() {
        let svg = draw("states", &Note { text: String::new(), is_warning: false });
        for state in State::ALL {
            assert!(svg.contains(&format!(">{state}<")), "{state}");
        }
        for event in Event::ALL.iter().filter(|it| !matches!(it, Event::Lost | Event::Abort)) {
            assert!(svg.contains(&event.to_string().to_uppercase()), "{event}");
        }
        // Checks the sentence about the two events that are not drawn.
        for &state in State::ALL {
            let resets = state.after(Event::Lost) == Ok(State::Reset);
            let is_spared = matches!(state, State::Closed | State::Finished);
            assert_eq!(resets, !is_spared, "{state}");
        }
    }

    #[test]
    fn no_two_states_lie_on_each_other() {
        for &a in State::ALL {
            for &b in State::ALL.iter().filter(|&&b| b != a) {
                let ((ax, ay), (bx, by)) = (place(a), place(b));
                assert!((ax - bx).abs() > BOX.0 || (ay - by).abs() > BOX.1, "{a} and {b}");
            }
        }
    }
}
