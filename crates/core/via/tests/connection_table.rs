//! Prints every phase of a request and every step as a table, and compares it with a stored copy. A change of the
//! phases must also change the copy.

use via::connection::{Phase, Step};
use via::state::{Event, ViState};

fn table() -> String {
    let mut lines = Vec::new();
    let mut header = format!("{:<10}", "");
    for step in Step::ALL {
        header += &format!(" {step:<10}");
    }
    lines.push(format!("{header} then the VI"));
    for &phase in Phase::ALL {
        let mut line = format!("{phase:<10}");
        for &step in Step::ALL {
            let cell = phase.after(step).map_or("-".to_owned(), |to| to.to_string());
            line += &format!(" {cell:<10}");
        }
        let event = phase.event().map_or("-".to_owned(), |event| event.to_string());
        lines.push(format!("{line} {event}"));
    }
    lines.join("\n") + "\n"
}

#[test]
fn the_table_is_the_one_on_file() {
    let file = include_str!("connection_table.txt");
    assert_eq!(table(), file, "the table as it is now:\n{}", table());
}

#[test]
fn only_phases_that_are_over_have_no_steps() {
    for &phase in Phase::ALL {
        let moves = Step::ALL.iter().any(|&step| phase.after(step).is_ok());
        assert_eq!(moves, !phase.is_over(), "{phase}");
        assert_eq!(phase.event().is_some(), phase.is_over(), "{phase}");
    }
}

/// However a request ends, its VI is in a state from which the program can continue.
#[test]
fn every_end_fits_the_vis_states() {
    for &phase in Phase::ALL {
        let Some(event) = phase.event() else { continue };
        let after = ViState::ConnectPending.after(event).unwrap();
        let connected = phase == Phase::Accepted;
        assert_eq!(after, if connected { ViState::Connected } else { ViState::Idle }, "{phase}");
    }
    assert!(ViState::Idle.after(Event::Request).is_ok());
}

#[test]
fn an_illegal_step_names_phase_and_step() {
    let error = Phase::Expired.after(Step::Accept).unwrap_err();
    assert_eq!(error.to_string(), "accept is not possible for a request that is expired");
}
