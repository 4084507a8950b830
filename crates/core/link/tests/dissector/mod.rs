//! Compares Wireshark's dissector (tools/wireshark) with this crate's parser and the meanings in `vectors.txt`.

mod capture;
mod corrupt;
mod meanings;
mod tshark;
mod vectors;
