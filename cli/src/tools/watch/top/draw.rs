//! Draws `sovia top` in the terminal's width.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line as Text, Span};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Sparkline, Table, TableState};

use super::model::{History, Model, Pair};
use crate::watch::busy::Sum;
use crate::watch::units::short;
use crate::watch::users::Users;

/// Columns with numbers: name, and the narrowest terminal that shows the column.
const NUMBERS: [(&str, u16); 7] = [
    ("VIA/TCP", 0),
    ("SENT/s", 0),
    ("RCVD/s", 0),
    ("MSGS/s", 100),
    ("SAVED/s", 0),
    ("SLEEP/s", 120),
    ("TURN", 0),
];
const NUMBER_WIDTH: u16 = 7;

/// Formats a time for people, such as `1.23µs`.
fn time(seconds: Option<f64>) -> String {
    let Some(seconds) = seconds else { return "-".into() };
    let (value, unit) = match seconds {
        s if s < 1e-6 => (s * 1e9, "ns"),
        s if s < 1e-3 => (s * 1e6, "µs"),
        s if s < 1.0 => (s * 1e3, "ms"),
        s => (s, "s"),
    };
    let decimals = if value < 10.0 { 1 } else { 0 };
    format!("{value:.decimals$}{unit}")
}

fn numbers(sum: &Sum, width: u16) -> Vec<Cell<'static>> {
    let rate = &sum.rate;
    let cells = [
        format!("{}/{}", sum.on_vi, sum.on_tcp),
        short(rate.sent),
        short(rate.received),
        short(rate.messages_sent),
        short(rate.saved()),
        short(rate.sleeps),
        time(sum.turn(0.5)),
    ];
    let shown = cells.into_iter().zip(NUMBERS).filter(|(_, (_, from))| width >= *from);
    shown.map(|(cell, _)| right(cell)).collect()
}

fn right(text: String) -> Cell<'static> {
    Cell::from(Text::from(text).right_aligned())
}

fn header(names: &[&'static str], width: u16) -> Row<'static> {
    let mut cells: Vec<Cell<'_>> = names.iter().map(|name| Cell::from(*name)).collect();
    let shown = NUMBERS.iter().filter(|(_, from)| width >= *from);
    cells.extend(shown.map(|(name, _)| right((*name).to_owned())));
    Row::new(cells).style(Style::new().add_modifier(Modifier::REVERSED))
}

fn widths(names: &[Constraint], width: u16) -> Vec<Constraint> {
    let shown = NUMBERS.iter().filter(|(_, from)| width >= *from);
    names.iter().copied().chain(shown.map(|_| Constraint::Length(NUMBER_WIDTH))).collect()
}

/// The user's choices about the screen.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct View {
    pub(super) is_paused: bool,
    pub(super) shows_help: bool,
}

/// Text of the help screen: keys and columns.
const HELP: &str = "\
q, Esc          quit
o               order pairs by traffic, messages, saved calls or connections
Up, Down, k, j  choose the pair that the graphs below show
Space, p        pause
h, ?            this help

VIA/TCP  number of ends of connections on VIs, and on TCP
SENT/s   bytes sent per second, on VIs and on TCP
RCVD/s   bytes received per second, on VIs and on TCP
MSGS/s   messages sent on VIs per second (shown from 100 columns)
SAVED/s  system calls per second that VIs saved
SLEEP/s  sleeps of waiting threads per second (shown from 120 columns)
TURN     median time from one answer to the next on a connection

`sovia explain PID` reports why a program's connections are on TCP.
Any key returns.";

/// Draws the screen.
pub(super) fn draw(frame: &mut Frame<'_>, model: &Model, users: &Users, view: View) {
    let area = frame.area();
    if view.shows_help {
        frame.render_widget(Paragraph::new(HELP), area);
        return;
    }
    let picture = if area.height >= 20 { 8 } else { 0 };
    let most = (area.height.saturating_sub(picture + 3) / 2).max(2);
    let programs = (model.programs.len() as u16 + 1).clamp(2, most);
    let [title, upper, lower, below, keys] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(programs),
        Constraint::Min(2),
        Constraint::Length(picture),
        Constraint::Length(1),
    ])
    .areas(area);
    draw_title(frame, title, model, view.is_paused);
    draw_programs(frame, upper, model, users);
    draw_couples(frame, lower, model);
    if let Some((pair, history)) = model.chosen()
        && picture > 0
    {
        draw_picture(frame, below, &pair.sum, history);
    }
    let order = format!("o order: {}", model.order.name());
    let text =
        as_fit(&["q quit", "h help", &order, "up/down choose a pair", "space pause"], area.width);
    frame.render_widget(Paragraph::new(text).style(Style::new().add_modifier(Modifier::DIM)), keys);
}

/// Returns as many of the `items`, from the first, as fit into a line of `width` columns.
fn as_fit(items: &[&str], width: u16) -> String {
    let mut line = String::new();
    for item in items {
        let space = if line.is_empty() { "" } else { "  " };
        if line.len() + space.len() + item.len() > usize::from(width) {
            break;
        }
        line = line + space + item;
    }
    line
}

fn draw_title(frame: &mut Frame<'_>, area: Rect, model: &Model, is_paused: bool) {
    let (on_vi, on_tcp) = model.ends;
    let mut line = vec![
        Span::styled("sovia", Style::new().add_modifier(Modifier::BOLD)),
        Span::raw(format!(
            "  ends: {on_vi} on VIs, {on_tcp} on TCP   sent {}B/s   saved {} calls/s",
            short(model.all.sent),
            short(model.all.saved())
        )),
    ];
    if is_paused {
        line.push(Span::styled("   PAUSED", Style::new().add_modifier(Modifier::BOLD)));
    }
    let mut lines = vec![Text::from(line)];
    if model.couples.is_empty() && model.programs.is_empty() {
        let more = match model.forbidden {
            0 => String::new(),
            n => format!("; only root can see {n} processes of other users"),
        };
        lines.push(Text::from(format!("no program under Sovia has a connection{more}")));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// Returns a column that is as wide as its longest text, so that numbers are close to names in a wide terminal.
fn as_wide_as<'a>(texts: impl Iterator<Item = &'a str>, title: &str) -> Constraint {
    let longest = texts.map(|text| text.chars().count()).max().unwrap_or(0);
    Constraint::Max(longest.max(title.len()) as u16)
}

fn draw_programs(frame: &mut Frame<'_>, area: Rect, model: &Model, users: &Users) {
    let names = model.programs.iter().map(|line| match line.processes {
        1 => line.program.name.clone(),
        n => format!("{} ({n})", line.program.name),
    });
    let names: Vec<String> = names.collect();
    let owners = model.programs.iter().map(|line| users.name(line.program.uid));
    let owners: Vec<String> = owners.collect();
    let columns = [
        as_wide_as(names.iter().map(String::as_str), "PROGRAM"),
        as_wide_as(owners.iter().map(String::as_str), "USER"),
    ];
    let rows = model.programs.iter().zip(names).zip(owners).map(|((line, name), owner)| {
        let mut cells = vec![Cell::from(name), Cell::from(owner)];
        cells.extend(numbers(&line.sum, area.width));
        Row::new(cells)
    });
    let table = Table::new(rows, widths(&columns, area.width));
    frame.render_widget(table.header(header(&["PROGRAM", "USER"], area.width)), area);
}

fn draw_couples(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    const TITLE: &str = "CLIENT > SERVER";
    let name = |name: &str| if name.is_empty() { "?".to_owned() } else { name.to_owned() };
    let both =
        |pair: &Pair| format!("{} > {}", name(&pair.couple.client), name(&pair.couple.server));
    let names: Vec<String> = model.couples.iter().map(both).collect();
    let columns = [as_wide_as(names.iter().map(String::as_str), TITLE), Constraint::Length(5)];
    let rows = model.couples.iter().zip(names).map(|(pair, both)| {
        let mut cells = vec![Cell::from(both), right(pair.couple.port.to_string())];
        cells.extend(numbers(&pair.sum, area.width));
        Row::new(cells)
    });
    let table = Table::new(rows, widths(&columns, area.width))
        .header(header(&[TITLE, "PORT"], area.width))
        .row_highlight_style(Style::new().add_modifier(Modifier::BOLD))
        .highlight_symbol("> ");
    let mut state = TableState::new().with_selected(Some(model.chosen));
    frame.render_stateful_widget(table, area, &mut state);
}

fn draw_picture(frame: &mut Frame<'_>, area: Rect, sum: &Sum, history: &History) {
    let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(area);
    let title = format!(" answers/s: {} ", short(sum.rate.packets_received));
    let block = Block::new().borders(Borders::TOP).title(title);
    let inside = block.inner(left);
    frame.render_widget(block, left);
    let from = history.answers.len().saturating_sub(usize::from(inside.width));
    let data: Vec<u64> = history.answers.iter().skip(from).copied().collect();
    frame.render_widget(Sparkline::default().data(&data), inside);

    let title = title_of_turns(sum);
    let block = Block::new().borders(Borders::TOP).title(title);
    let inside = block.inner(right);
    frame.render_widget(block, right);
    frame.render_widget(Paragraph::new(bars(history, inside)), inside);
}

/// Returns the title of the graph of times between answers. It fits half of 80 columns.
fn title_of_turns(sum: &Sum) -> String {
    format!(" TURN: median {}, 99 % {} ", time(sum.turn(0.5)), time(sum.turn(0.99)))
}

/// Returns bars for the times between answers, by powers of two. If there are more than lines, the most frequent ones.
fn bars(history: &History, area: Rect) -> Vec<Text<'static>> {
    let all: f64 = history.turns.values().sum();
    let mut turns: Vec<(u32, f64)> =
        history.turns.iter().map(|(&turn, &weight)| (turn, weight)).collect();
    turns.retain(|(_, weight)| *weight * 1000.0 >= all);
    turns.sort_by(|one, other| other.1.total_cmp(&one.1));
    turns.truncate(usize::from(area.height));
    turns.sort_by_key(|(turn, _)| *turn);
    let width = f64::from(area.width.saturating_sub(18));
    let most = turns.iter().map(|(_, weight)| *weight).fold(1e-9, f64::max);
    let line = |(turn, weight): (u32, f64)| {
        let bar = "█".repeat((weight / most * width) as usize);
        let from = time(Some(f64::from(turn).exp2() / 1e9));
        Text::from(format!("{from:>7}.. {:>4.0} % {bar}", weight / all * 100.0))
    };
    turns.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use sovia_stats_page::{Rate, scan_of};

    use crate::watch::busy::{Couple, Program};
    use crate::watch::top::model::Line;

    fn sum() -> Sum {
        let rate = Rate {
            sent: 123_456_789.0,
            received: 2.0,
            messages_sent: 1_000_000.0,
            packets_received: 1_000_000.0,
            sleeps: 10.0,
        };
        Sum { on_vi: 50, on_tcp: 1, rate, turns: vec![(1e-6, 1e6)] }
    }

    fn shown(width: u16, height: u16) -> String {
        shown_as(width, height, View::default())
    }

    fn shown_as(width: u16, height: u16, view: View) -> String {
        let mut model = Model::begin(&scan_of([]));
        let program = Program { name: "redis-server".into(), uid: 0 };
        model.programs.push(Line { program, processes: 2, sum: sum() });
        let couple =
            Couple { client: "redis-benchmark".into(), server: "redis-server".into(), port: 6379 };
        model.couples.push(Pair { couple, sum: sum() });
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, &model, &Users::default(), view)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let line = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(|y| line(y).trim_end().to_owned() + "\n").collect()
    }

    #[test]
    fn names_and_numbers_fit_80_columns() {
        let text = shown(80, 24);
        assert!(text.contains("redis-benchmark > redis-server"), "{text}");
        assert!(text.contains("redis-server (2)") && text.contains("123M"), "{text}");
        assert!(text.contains("SAVED/s") && !text.contains("SLEEP/s"), "{text}");
        assert!(text.contains("1.0µs"), "{text}");
    }

    #[test]
    fn all_columns_show_in_200() {
        let text = shown(200, 50);
        assert!(NUMBERS.iter().all(|(name, _)| text.contains(name)), "{text}");
        // A program's figures must be close to its name.
        let line = text.lines().find(|line| line.contains("123M")).unwrap();
        let between = line.find("123M").unwrap() - line.find("redis-server").unwrap();
        assert!(between < 50, "{text}");
    }

    #[test]
    fn help_explains_each_column_in_80_columns() {
        let text = shown_as(80, 24, View { shows_help: true, ..View::default() });
        assert!(NUMBERS.iter().all(|(name, _)| text.contains(name)), "{text}");
        assert!(text.contains("Any key returns."), "{text}");
        assert!(HELP.lines().all(|line| line.len() <= 80));
    }

    #[test]
    fn last_line_shows_whole_keys() {
        let last = |width| shown(width, 24).lines().last().unwrap().to_owned();
        assert_eq!(last(60), "q quit  h help  o order: traffic  up/down choose a pair");
        assert!(last(80).ends_with("space pause"));
    }

    #[test]
    fn title_of_turns_fits_half_of_80_columns() {
        let turns = vec![(123e-6, 1.0)];
        let title = title_of_turns(&Sum { turns, ..sum() });
        assert_eq!(title, " TURN: median 123µs, 99 % 123µs ");
        assert!(title.chars().count() <= 40);
    }

    #[test]
    fn no_terminal_is_too_small() {
        for (width, height) in [(1, 1), (10, 3), (300, 4), (20, 100)] {
            shown(width, height);
        }
    }

    #[test]
    fn times_have_their_units() {
        for (seconds, text) in [(72e-9, "72ns"), (1.5e-6, "1.5µs"), (0.25, "250ms"), (3.0, "3.0s")]
        {
            assert_eq!(time(Some(seconds)), text);
        }
        assert_eq!(time(None), "-");
    }
}
