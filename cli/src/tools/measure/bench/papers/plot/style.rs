//! Style of a series, by its name. A name has the same colour in every picture.

/// Style of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Style {
    pub(super) color: &'static str,
    /// Number of the mark: circle, square, triangle, diamond, inverted triangle, bar.
    pub(super) mark: usize,
    /// Dashes in SVG's form; `None` for ends that poll.
    pub(super) dashes: Option<&'static str>,
}

/// Name and colour of published figures, and the colour of unknown names.
pub(in crate::measure::bench::papers) const PUBLISHED: &str = "published";
const PUBLISHED_COLOR: &str = "#8a8a8a";
const OTHER: &str = "#4d4d4d";
/// Suffixes of names that tell how the ends wait.
const POLLING: &str = ", polling";
const BLOCKING: &str = ", blocking";
const SLEEPING: &str = ", sleeping";

/// Names and their colours. The first name that a series contains applies.
const COLORS: [(&str, &str); 66] = [
    ("send/receive, polling, cold, read", "#6a51a3"),
    ("send/receive, polling, cold", "#41b6c4"),
    ("TCP, polling, cold, read", "#8c2d04"),
    ("TCP, polling, cold", "#fd8d3c"),
    ("libsovia SOVIA_SINGLE", "#c2a5cf"),
    ("libsovia SOVIA_COMBINE", "#7b3294"),
    ("sovia run SOVIA_SINGLE", "#a6dba0"),
    ("sovia run SOVIA_COMBINE", "#5aae61"),
    ("SOVIA_NOTIFY", "#e69f00"),
    ("SOVIA_HANDLER", "#cc79a7"),
    ("SOVIA_3WAY", "#a6761d"),
    ("SOVIA_RDMA", "#111111"),
    ("SOVIA_HYBRID", "#7f3c8d"),
    ("SOVIA_FLOWCNTL", "#e7298a"),
    ("SOVIA_COMBINE", "#a50026"),
    ("SOVIA_DACKS", "#2b8cbe"),
    ("SOVIA_SINGLE", "#009e73"),
    ("SOVIA_REG", "#009e73"),
    ("SOVIA_COPY", "#56b4e9"),
    ("SOVIA_BASE", "#7f3c8d"),
    ("sovia run", "#1b7837"),
    ("libsovia", "#40004b"),
    ("sock-via", "#40004b"),
    ("TCP over LANE, udp", "#8c6d31"),
    ("TCP over LANE", "#b8860b"),
    ("TCP without offloads", "#e6550d"),
    ("TCP with Nagle", "#8c2d04"),
    ("TCP", "#d55e00"),
    ("tcp", "#d55e00"),
    ("sovia", "#1b7837"),
    ("VI udp", "#3182bd"),
    ("VI xdp", "#756bb1"),
    ("VI eth", "#0072b2"),
    ("native VIA, udp", "#3182bd"),
    ("native VIA", "#0072b2"),
    ("send/receive", "#0072b2"),
    ("RDMA write", "#009e73"),
    ("Unix", "#7f3c8d"),
    ("bare ring", "#222222"),
    ("local copy", "#4d4d4d"),
    ("EMP, a thread", "#6a3d9a"),
    ("EMP", "#0072b2"),
    ("received by segments", "#cc79a7"),
    ("sent as a block", "#0072b2"),
    ("32 segments", "#cc79a7"),
    ("then copied", "#56b4e9"),
    ("one segment", "#0072b2"),
    ("completion queue", "#0072b2"),
    ("round robin", "#d55e00"),
    ("M-VIA's law, alone, 2 MB held", "#a50026"),
    ("M-VIA's law, alone", "#d55e00"),
    ("M-VIA's law, a stream, cache off", "#7f3c8d"),
    ("M-VIA's law, a stream, cache on", "#e69f00"),
    ("M-VIA's law, a stream, cache told", "#8c6d31"),
    ("cLAN's law, alone, 2 MB held", "#111111"),
    ("cLAN's law, alone", "#0072b2"),
    ("cLAN's law, a stream, cache off", "#009e73"),
    ("cLAN's law, a stream, cache on", "#56b4e9"),
    ("cLAN's law, a stream, cache told", "#4d4d4d"),
    ("pinned (mlock, munlock), 2 MB held", "#cc79a7"),
    ("2 MB held", "#a50026"),
    ("registered", "#009e73"),
    ("pinned", "#e69f00"),
    ("copied, uncached", "#0072b2"),
    ("copied", "#56b4e9"),
    ("median", "#0072b2"),
];

/// Returns the style of a picture's `i`-th published series. These series have one colour and different marks.
pub(super) fn published(i: usize) -> Style {
    Style { color: PUBLISHED_COLOR, mark: i, dashes: None }
}

/// Returns the style of a series by its name.
pub(super) fn of(name: &str) -> Style {
    let dashes = if name.ends_with(BLOCKING) {
        Some("7 3")
    } else if name.ends_with(SLEEPING) {
        Some("2 3")
    } else {
        None
    };
    let bare =
        [POLLING, BLOCKING, SLEEPING].iter().fold(name, |name, it| name.trim_end_matches(it));
    let found = COLORS.iter().position(|(known, _)| bare.contains(known));
    let color = found.map_or(OTHER, |place| COLORS[place].1);
    // Series with the same colour get different marks, by the rest of the name after the known part.
    Style { color, mark: found.unwrap_or(0) + bare.len(), dashes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_of_a_name_does_not_depend_on_waiting() {
        let color = |name: &str| of(name).color;
        assert_eq!(color("native VIA, sleeping"), color("native VIA, blocking"));
        assert_eq!(color("TCP with Nagle, polling"), color("TCP with Nagle"));
        assert_ne!(color("TCP"), color("TCP over LANE, shm"));
        assert_eq!(published(1).color, published(2).color);
        assert_ne!(published(1).mark, published(2).mark);
        assert_eq!(of("a, polling").dashes, None);
        assert_ne!(of("a, blocking").dashes, of("a, sleeping").dashes);
    }
}
