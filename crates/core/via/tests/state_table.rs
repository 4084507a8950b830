//! Prints every state and every event as a table, and compares it with a stored copy. A change of the states must also
//! change the copy.

use via::state::{Event, ViState};

fn table() -> String {
    let mut lines = Vec::new();
    let mut header = format!("{:<12}", "");
    for state in ViState::ALL {
        header += &format!(" {state:<16}");
    }
    lines.push(header.trim_end().to_owned());
    for &event in Event::ALL {
        let mut line = format!("{event:<12}");
        for state in ViState::ALL {
            let cell = state.after(event).map_or("-".to_owned(), |to| to.to_string());
            line += &format!(" {cell:<16}");
        }
        lines.push(line.trim_end().to_owned());
    }
    lines.join("\n") + "\n"
}

#[test]
fn the_table_is_the_one_on_file() {
    assert_eq!(table(), include_str!("state_table.txt"), "the table as it is now:\n{}", table());
}

#[test]
fn an_illegal_transition_names_state_and_event() {
    let error = ViState::Error.after(Event::Request).unwrap_err();
    assert_eq!(error.to_string(), "request is not possible in state ERROR");
}
