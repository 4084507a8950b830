//! Wireshark's dissector (tools/wireshark) beside this crate's parser and the stated meanings of `vectors.txt`.

mod capture;
mod corrupt;
mod meanings;
mod tshark;
mod vectors;
