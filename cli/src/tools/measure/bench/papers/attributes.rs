//! Attributes of this host's providers, beside table 1 of ICS 2001.

use sovia_nic::AnyNic;
use via::{Nic, NicAttributes, Reliability};

use super::tables::Table;

/// Published columns: M-VIA, Berkeley VIA, Giganet cLAN.
const PUBLISHED: [(&str, [&str; 3]); 9] = [
    ("RDMA write", ["no", "no", "yes"]),
    ("RDMA read", ["no", "no", "no"]),
    ("unreliable delivery", ["yes", "yes", "yes"]),
    ("reliable delivery", ["no", "no", "yes"]),
    ("reliable reception", ["no", "no", "no"]),
    ("protection tags", ["yes", "no", "no"]),
    ("notify functions", ["yes", "no", "no"]),
    ("completion queues", ["yes", "no", "yes"]),
    ("MaxTransferSize", ["32768", "102400", "65486"]),
];

/// Providers, each with the place of a NIC from which its attributes are read.
const PROVIDERS: [(&str, &str); 4] = [
    ("shared memory", "shm:report"),
    ("Ethernet, UDP", "udp:127.0.0.1:0"),
    ("libfabric, tcp", "ofi:tcp;ofi_rxm@127.0.0.1"),
    ("RDMA", "verbs:"),
];

/// Returns the table, with the providers that can be opened here.
pub(super) fn table() -> Table {
    let mut header: Vec<String> = ["", "M-VIA", "Berkeley VIA", "cLAN"].map(str::to_owned).to_vec();
    let mut rows: Vec<Vec<String>> = PUBLISHED
        .iter()
        .map(|(what, theirs)| {
            std::iter::once(what).chain(theirs).map(|it| (*it).to_owned()).collect()
        })
        .collect();
    for (provider, place) in PROVIDERS {
        header.push(format!("{provider} (here)"));
        let ours = match AnyNic::open_at(place) {
            Ok(nic) => of(nic.attributes()),
            Err(_) => PUBLISHED.map(|_| "not opened".to_owned()),
        };
        rows.iter_mut().zip(ours).for_each(|(row, ours)| row.push(ours));
    }
    let title = "Table 1: implementations of the VI Architecture, published and here".to_owned();
    Table { title, header, rows, left: (0..4 + PROVIDERS.len()).collect() }
}

/// Returns a NIC's attributes in the order of the published rows.
fn of(it: &NicAttributes) -> [String; PUBLISHED.len()] {
    let yes = |has: bool| if has { "yes" } else { "no" }.to_owned();
    [
        yes(it.capabilities.rdma_write),
        yes(!it.rdma_read.is_empty()),
        yes(it.reliability.contains(Reliability::UNRELIABLE)),
        yes(it.reliability.contains(Reliability::RELIABLE_DELIVERY)),
        yes(it.reliability.contains(Reliability::RELIABLE_RECEPTION)),
        yes(it.max_ptags > 0),
        // Every provider has callbacks, because the trait of VIs requires them.
        yes(true),
        yes(it.max_cq > 0),
        it.max_transfer_size.to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_memory_stands_beside_clan() {
        let table = table();
        let column = table.header.iter().position(|name| name == "shared memory (here)").unwrap();
        assert!(table.rows.iter().all(|row| row.len() == table.header.len()));
        let of = |what: &str| table.rows.iter().find(|row| row[0] == what).unwrap();
        assert_eq!((&of("RDMA write")[3][..], &of("RDMA write")[column][..]), ("yes", "yes"));
        assert_eq!(of("MaxTransferSize")[column], (8 << 20).to_string());
    }
}
