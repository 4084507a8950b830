//! Every state of a stream and every event, as a table on file, and the usual sequences of events. A change of the
//! states must also change the file.

use sovia_proto::close::Closing;
use sovia_proto::packet::Kind;
use sovia_proto::state::{Event, State};

fn table() -> String {
    let mut header = format!("{:<10}", "");
    for event in Event::ALL {
        header += &format!(" {event:<10}");
    }
    let mut lines = vec![header.trim_end().to_owned()];
    for &state in State::ALL {
        let mut line = format!("{state:<10}");
        for &event in Event::ALL {
            let cell = state.after(event).map_or("-".to_owned(), |to| to.to_string());
            line += &format!(" {cell:<10}");
        }
        lines.push(line.trim_end().to_owned());
    }
    let mut line = format!("{:<10}", "sends");
    for event in Event::ALL {
        let cell = event.sends().map_or("-".to_owned(), |kind| format!("{kind:?}"));
        line += &format!(" {cell:<10}");
    }
    lines.push(line.trim_end().to_owned());
    lines.join("\n") + "\n"
}

#[test]
fn the_table_is_the_one_on_file() {
    let file = include_str!("state_table.txt");
    assert_eq!(table(), file, "the table as it is now:\n{}", table());
}

#[track_caller]
fn way(events: &[Event], end: State) {
    let state = events.iter().fold(State::Closed, |state, &event| state.after(event).unwrap());
    assert_eq!(state, end);
}

const OPEN: [Event; 3] = [Event::Connect, Event::Connected, Event::Wakeup];

fn then(events: &[Event]) -> Vec<Event> {
    [&OPEN[..], events].concat()
}

#[test]
fn the_ways_of_closing() {
    use Event::{Abort, Fin, FinAck, Lost, SendFin, Shutdown};
    way(&OPEN, State::Normal);
    way(&then(&[Shutdown, SendFin, FinAck, Fin]), State::Finished);
    way(&then(&[Shutdown, SendFin, Fin, FinAck]), State::Finished);
    way(&then(&[Fin, Shutdown, SendFin, FinAck]), State::Finished);
    // The peer's FIN arrives while bytes wait in the combining buffer.
    way(&then(&[Shutdown, Fin]), State::LastDrain);
    way(&then(&[Shutdown, Fin, SendFin, FinAck]), State::Finished);
    // Half-closed by either end, for any time.
    way(&then(&[Shutdown, SendFin, FinAck, Shutdown]), State::FinWait2);
    way(&then(&[Fin]), State::CloseWait);
    way(&then(&[Fin, Lost]), State::Reset);
    way(&then(&[Shutdown, SendFin, Abort]), State::Reset);
    way(&then(&[Fin, Shutdown, SendFin, FinAck, Lost]), State::Finished);
}

/// Checks that the flags by which the preloaded sockets close ([`Closing`]) agree with this table.
#[test]
fn flags_agree_with_the_table() {
    fn compare(state: State, flags: Closing, depth: usize) {
        assert_eq!(state.peer_finished(), flags.fin_received, "{state}");
        assert_eq!(state == State::Finished, flags.is_finished(), "{state}");
        if depth == 0 {
            return;
        }
        for (kind, event) in [(Kind::Fin, Event::Fin), (Kind::FinAck, Event::FinAck)] {
            let mut after = flags;
            let answer = after.arrived(kind);
            let next = state.after(event);
            assert_eq!(answer.is_ok(), next.is_ok(), "{event} in {state}");
            if let Ok(next) = next {
                assert_eq!(answer.unwrap(), event.sends() == Some(Kind::FinAck));
                compare(next, after, depth - 1);
            }
        }
        if let Ok(next) = state.after(Event::Shutdown).and_then(|s| s.after(Event::SendFin)) {
            let mut after = flags;
            assert!(after.send_fin());
            compare(next, after, depth - 1);
        }
    }
    compare(State::Normal, Closing::default(), 8);
}

#[test]
fn states_that_are_over_do_not_change() {
    for &state in State::ALL.iter().filter(|state| state.is_over() && **state != State::Closed) {
        for &event in Event::ALL {
            assert!(state.after(event).is_err() || state.after(event) == Ok(state));
        }
    }
    let error = State::Reset.after(Event::Fin).unwrap_err();
    assert_eq!(error.to_string(), "fin is not possible in state RESET");
}
