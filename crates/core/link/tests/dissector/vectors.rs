//! Runs the dissector on the frames of `vectors.txt`.

use crate::dissector::capture::{Medium, capture};
use crate::dissector::meanings::{Vector, fields, is_bytes, number, vectors};
use crate::dissector::tshark::{self, Fields, infos, is_there};

/// A port that the tests configure as a port of frames.
const PORT: u16 = 7471;

/// Converts tshark's output to the form of `meanings::fields`, without tshark's additional remarks.
fn plain(printed: &Fields) -> Fields {
    let is_field = |name: &str| name != "_ws.expert.message" && name != "sovia.padding";
    let plain = |name: &str, values: &Vec<String>| {
        let plain = |value: &String| {
            if is_bytes(name) { value.clone() } else { number(value).to_string() }
        };
        values.iter().map(plain).collect()
    };
    let kept = printed.iter().filter(|(name, _)| is_field(name));
    kept.map(|(name, values)| (*name, plain(name, values))).collect()
}

#[track_caller]
fn check(vector: &Vector, printed: &Fields) {
    let name = vector.name;
    if let Some(reason) = vector.refused() {
        assert_eq!(printed.get("sovia.malformed"), Some(&vec![reason.to_owned()]), "{name}");
        let expert = &printed["_ws.expert.message"];
        assert!(expert.iter().any(|said| said == reason), "{name}: {expert:?}");
    } else {
        assert_eq!(plain(printed), fields(vector), "{name}");
    }
}

fn in_medium(medium: Medium) -> Vec<u8> {
    let packets: Vec<_> = vectors().into_iter().map(|vector| (medium, vector.frame)).collect();
    capture(&packets)
}

#[test]
fn every_vector_is_explained_in_ethernet_frames() {
    if !is_there("every_vector_is_explained_in_ethernet_frames") {
        return;
    }
    let file = in_medium(Medium::Ethernet { is_padded: false });
    let printed = tshark::fields("ethernet", &file, &[]);
    assert_eq!(printed.len(), vectors().len());
    vectors().iter().zip(&printed).for_each(|(vector, printed)| check(vector, printed));
}

#[test]
fn padding_of_ethernet_is_told_from_the_frame() {
    if !is_there("padding_of_ethernet_is_told_from_the_frame") {
        return;
    }
    let printed = tshark::fields("padded", &in_medium(Medium::Ethernet { is_padded: true }), &[]);
    // Frames whose length field exceeds their bytes become complete by padding.
    let legal = |vector: &Vector| vector.refused().is_none();
    let mut padded = 0;
    for (vector, printed) in vectors().iter().zip(&printed).filter(|(vector, _)| legal(vector)) {
        check(vector, printed);
        let wanted = 46usize.saturating_sub(vector.frame.len());
        let padding = (wanted > 0).then(|| vec!["00".repeat(wanted)]);
        assert_eq!(printed.get("sovia.padding"), padding.as_ref(), "{}", vector.name);
        padded += usize::from(wanted > 0);
    }
    assert!(padded > 0);
}

#[test]
fn every_vector_is_dissected_in_datagrams_for_a_given_port() {
    if !is_there("every_vector_is_dissected_in_datagrams_for_a_given_port") {
        return;
    }
    let file = in_medium(Medium::Udp { from: 40000, to: PORT });
    let by_rule = format!("udp.port=={PORT},sovia");
    let by_preference = format!("sovia.ports:{PORT}");
    for (name, arguments) in [("rule", ["-d", &by_rule]), ("preference", ["-o", &by_preference])] {
        let printed = tshark::fields(name, &file, &arguments);
        vectors().iter().zip(&printed).for_each(|(vector, printed)| check(vector, printed));
    }
}

#[test]
fn datagrams_on_any_port_are_recognized_by_their_checksums() {
    if !is_there("datagrams_on_any_port_are_recognized_by_their_checksums") {
        return;
    }
    // Each frame has its own conversation, because the dissector does not recognize a conversation by a refused frame.
    let own = |(n, vector): (usize, Vector)| {
        (Medium::Udp { from: 40000, to: 31000 + n as u16 }, vector.frame)
    };
    let packets: Vec<_> = vectors().into_iter().enumerate().map(own).collect();
    let printed = tshark::fields("alone", &capture(&packets), &[]);
    for (vector, printed) in vectors().iter().zip(&printed) {
        if vector.refused().is_none() {
            check(vector, printed);
        }
        // The dissector recognizes a datagram by its header alone, even if it then refuses the body.
        let corrupt = vector.refused() == Some("the frame's checksum does not match");
        assert!(!corrupt || !printed.contains_key("sovia.kind"), "{}", vector.name);
    }
    // A single conversation: once a frame has been recognized, all of them count as frames.
    let file = in_medium(Medium::Udp { from: 40000, to: 31000 });
    let printed = tshark::fields("together", &file, &[]);
    vectors().iter().zip(&printed).for_each(|(vector, printed)| check(vector, printed));
}

#[test]
fn frames_that_are_segments_of_one_packet_are_all_explained() {
    if !is_there("frames_that_are_segments_of_one_packet_are_all_explained") {
        return;
    }
    let [first, second] = ["The first part of a send of nine bytes", "An RDMA read"]
        .map(|name| vectors().into_iter().find(|vector| vector.name == name).unwrap());
    let both = [&first.frame[..], &second.frame].concat();
    let medium = Medium::Udp { from: 40000, to: 31000 };
    let printed = tshark::fields("segments", &capture(&[(medium, both)]), &[]);
    assert_eq!(printed[0]["sovia.item"], ["1", "4"]);
    assert_eq!(printed[0]["sovia.number"], ["7", "1"]);
    assert!(
        !printed[0].contains_key("sovia.malformed") && !printed[0].contains_key("sovia.padding")
    );
}

#[test]
fn frames_without_checksums_are_refused_where_that_is_preferred() {
    if !is_there("frames_without_checksums_are_refused_where_that_is_preferred") {
        return;
    }
    let all = vectors();
    let vector = all.iter().find(|vector| vector.meaning.starts_with("unchecked")).unwrap();
    let file = capture(&[(Medium::Ethernet { is_padded: false }, vector.frame.clone())]);
    let printed = tshark::fields("required", &file, &["-o", "sovia.require:TRUE"]);
    let reason = "the frame has no checksum, and this link requires one";
    assert_eq!(printed[0]["sovia.malformed"], [reason]);
}

#[test]
fn column_of_information_says_what_a_frame_is() {
    if !is_there("column_of_information_says_what_a_frame_is") {
        return;
    }
    let said = infos("infos", &in_medium(Medium::Ethernet { is_padded: false }));
    for (name, info) in [
        ("The first part of a send of nine bytes", "stream #7 t9 ack 5 part 0..5 of 9"),
        (
            "The last part of an RDMA write",
            "stream #50331649 t50331652 ack 5 write 6..9 of 9 at 0x102030405060708 immediate 0xaabbccdd",
        ),
        ("The answer to an RDMA read", "stream #0 t0 ack 0 reply 0..2 of 2 to read 4294967298"),
        ("An RDMA read", "stream #1 t2 ack 3 read 4096 at 0x1000"),
        (
            "The end of a connection, because item 40 met no receive",
            "stream #1 t2 ack 41 end: no receive for item 40",
        ),
        ("The end of a connection, as the program wished", "stream #1 t2 ack 3 end: disconnected"),
        (
            "7, 8, 9, 12 and 13 are missing, 10, 11 and 14 are there; two frames were marked",
            "ack 7 room 64 seen #14 t20 0 ns ago marked 2 there 10..11, 14",
        ),
        (
            "Ranges across the wrap: 0xfffffffe is missing, 0xffffffff and 0 are there",
            "ack 4294967294 room 64 there 4294967295..0",
        ),
        ("A part of an unreliable message", "datagram #4294967299 part 4..5 of 5"),
        ("An end is there", "hello from 0x500000011 to 0x500000000"),
        ("Does a frame of 60 bytes pass?", "probe 0x4 padded by 24"),
        (
            "A peer's request for a connection",
            "request from ab/c to d/: reliable reception, messages up to 65536",
        ),
        ("It is accepted", "answer: accepted, reliable delivery, messages up to 4096"),
        ("Damaged", "REFUSED: the frame's checksum does not match"),
    ] {
        let place = vectors().iter().position(|vector| vector.name == name).unwrap();
        assert_eq!(said[place], info, "{name}");
    }
}
