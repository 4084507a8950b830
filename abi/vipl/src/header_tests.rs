//! Checks that `vipl.h` and the library agree, and that C and C++ compilers accept the header.

#[path = "../../testing/commands.rs"]
mod commands;

use core::mem::offset_of;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use via::error::{ErrorCode, ReturnCode};
use via::{Control, Reliability, Resource, Status, ViState};

use self::commands::{folder, here, include, printed_by, run, skipped};
use crate::pointer::NetAddressHeader;
use crate::types::{
    AutodiscoveryList, ErrorDescriptor, MemAttributesC, NicAttributes, ViAttributesC,
};

/// Returns the header's values, as a program in the given language prints them.
fn told(compiler: &str, standard: &str, suffix: &str) -> BTreeMap<String, u64> {
    // The compiler chooses the language by the suffix.
    let source = folder().join(format!("layout-{standard}.{suffix}"));
    fs::copy(here().join("tests/c/layout.c"), &source).expect("the source");
    let mut command = Command::new(compiler);
    command.arg(format!("-std={standard}")).args(["-pedantic", "-Wall", "-Wextra", "-Werror"]);
    command.arg("-I").arg(include());
    let lines = printed_by(&mut command, &source, &format!("layout-{standard}"));
    lines
        .lines()
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').expect("a name and a value");
            (name.to_owned(), value.parse().expect("a number"))
        })
        .collect()
}

macro_rules! structure {
    ($all:ident, $rust:ty, $c:literal: $($rust_field:ident => $c_field:literal),+ $(,)?) => {
        $all.insert(format!("size {}", $c), size_of::<$rust>() as u64);
        $($all.insert(format!("at {}.{}", $c, $c_field), offset_of!($rust, $rust_field) as u64);)+
    };
}

/// Returns the values in Rust.
fn own() -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    structure!(all, NicAttributes, "VIP_NIC_ATTRIBUTES":
        name => "Name", hardware_version => "HardwareVersion",
        provider_version => "ProviderVersion", nic_address_len => "NicAddressLen",
        local_nic_address => "LocalNicAddress", thread_safe => "ThreadSafe",
        max_discriminator_len => "MaxDiscriminatorLen", max_register_bytes => "MaxRegisterBytes",
        max_register_regions => "MaxRegisterRegions",
        max_register_block_bytes => "MaxRegisterBlockBytes", max_vi => "MaxVI",
        max_descriptors_per_queue => "MaxDescriptorsPerQueue",
        max_segments_per_desc => "MaxSegmentsPerDesc", max_cq => "MaxCQ",
        max_cq_entries => "MaxCQEntries", max_transfer_size => "MaxTransferSize",
        native_mtu => "NativeMTU", max_ptags => "MaxPtags",
        reliability_level_support => "ReliabilityLevelSupport",
        rdma_read_support => "RDMAReadSupport",
    );
    structure!(all, ViAttributesC, "VIP_VI_ATTRIBUTES":
        reliability_level => "ReliabilityLevel", max_transfer_size => "MaxTransferSize",
        qos => "QoS", ptag => "Ptag", enable_rdma_write => "EnableRdmaWrite",
        enable_rdma_read => "EnableRdmaRead",
    );
    structure!(all, MemAttributesC, "VIP_MEM_ATTRIBUTES":
        ptag => "Ptag", enable_rdma_write => "EnableRdmaWrite",
        enable_rdma_read => "EnableRdmaRead",
    );
    structure!(all, ErrorDescriptor, "VIP_ERROR_DESCRIPTOR":
        nic => "NicHandle", vi => "ViHandle", cq => "CQHandle", descriptor => "DescriptorPtr",
        op_code => "OpCode", resource_code => "ResourceCode", error_code => "ErrorCode",
    );
    structure!(all, AutodiscoveryList, "VIP_AUTODISCOVERY_LIST":
        number_of_hops => "NumberOfHops", addresses => "ADAddrArray", count => "NumAdAddrs",
    );
    let address = [
        ("HostAddressLen", offset_of!(NetAddressHeader, host_len)),
        ("DiscriminatorLen", offset_of!(NetAddressHeader, discriminator_len)),
        ("HostAddress", size_of::<NetAddressHeader>()),
    ];
    for (field, at) in address {
        all.insert(format!("at VIP_NET_ADDRESS.{field}"), at as u64);
    }
    // Sum of the lengths, the longest NIC address and the longest discriminator.
    all.insert("size VIP_NET_ADDRESS".into(), 4 + 6 + 16);
    // The crate `via` asserts the descriptor's layout. These are the same numbers.
    let descriptor = "
        size VIP_CONTROL_SEGMENT 32, size VIP_ADDRESS_SEGMENT 16, size VIP_DATA_SEGMENT 16,
        size VIP_DESCRIPTOR_SEGMENT 16, size VIP_DESCRIPTOR 64,
        at VIP_CONTROL_SEGMENT.Next 0, at VIP_CONTROL_SEGMENT.NextHandle 8,
        at VIP_CONTROL_SEGMENT.SegCount 12, at VIP_CONTROL_SEGMENT.Control 14,
        at VIP_CONTROL_SEGMENT.Reserved 16, at VIP_CONTROL_SEGMENT.ImmediateData 20,
        at VIP_CONTROL_SEGMENT.Length 24, at VIP_CONTROL_SEGMENT.Status 28,
        at VIP_ADDRESS_SEGMENT.Data 0, at VIP_ADDRESS_SEGMENT.Handle 8,
        at VIP_ADDRESS_SEGMENT.Reserved 12,
        at VIP_DATA_SEGMENT.Data 0, at VIP_DATA_SEGMENT.Handle 8, at VIP_DATA_SEGMENT.Length 12,
        at VIP_DESCRIPTOR.CS 0, at VIP_DESCRIPTOR.Control 0,
        at VIP_DESCRIPTOR.DS 32, at VIP_DESCRIPTOR.Data 32,
        at VIP_DESCRIPTOR.DS[1].Local.Length 60, at VIP_DESCRIPTOR.Data[1].Length 60,
        size VIP_UINT64 8, size VIP_UINT32 4, size VIP_UINT16 2, size VIP_UINT8 1,
        size VIP_ULONG 8, size VIP_BOOLEAN 4, size VIP_PVOID 8, size VIP_PVOID64 8,
        size VIP_MEM_HANDLE 4, size VIP_EVENT_HANDLE 8, size VIP_RELIABILITY_LEVEL 2,
        size VIP_RETURN 4, size VIP_VI_STATE 4, size VIP_RESOURCE_CODE 4, size VIP_ERROR_CODE 4";
    for entry in descriptor.split(',') {
        let (name, value) = entry.trim().rsplit_once(' ').expect("a name and a value");
        all.insert(name.into(), value.parse().expect("a number"));
    }
    let values = [
        ("SUCCESS", ReturnCode::Success as u64),
        ("NOT_DONE", ReturnCode::NotDone as u64),
        ("INVALID_PARAMETER", ReturnCode::InvalidParameter as u64),
        ("ERROR_RESOURCE", ReturnCode::ErrorResource as u64),
        ("TIMEOUT", ReturnCode::Timeout as u64),
        ("REJECT", ReturnCode::Reject as u64),
        ("INVALID_RELIABILITY_LEVEL", ReturnCode::InvalidReliabilityLevel as u64),
        ("INVALID_MTU", ReturnCode::InvalidMtu as u64),
        ("INVALID_QOS", ReturnCode::InvalidQos as u64),
        ("INVALID_PTAG", ReturnCode::InvalidPtag as u64),
        ("INVALID_RDMAREAD", ReturnCode::InvalidRdmaRead as u64),
        ("DESCRIPTOR_ERROR", ReturnCode::DescriptorError as u64),
        ("INVALID_STATE", ReturnCode::InvalidState as u64),
        ("ERROR_NAMESERVICE", ReturnCode::ErrorNameservice as u64),
        ("NO_MATCH", ReturnCode::NoMatch as u64),
        ("NOT_REACHABLE", ReturnCode::NotReachable as u64),
        ("ERROR_NOT_SUPPORTED", ReturnCode::ErrorNotSupported as u64),
        ("ERROR", ReturnCode::Error as u64),
        ("STATE_IDLE", ViState::Idle as u64),
        ("STATE_CONNECTED", ViState::Connected as u64),
        ("STATE_CONNECT_PENDING", ViState::ConnectPending as u64),
        ("STATE_ERROR", ViState::Error as u64),
        ("SERVICE_UNRELIABLE", Reliability::UNRELIABLE.bits().into()),
        ("SERVICE_RELIABLE_DELIVERY", Reliability::RELIABLE_DELIVERY.bits().into()),
        ("SERVICE_RELIABLE_RECEPTION", Reliability::RELIABLE_RECEPTION.bits().into()),
        ("BASE_SERVICES", 7),
        ("SERVICE_ACK", 1 << 14),
        ("SERVICE_DFC", 1 << 15),
        ("RESOURCE_NIC", Resource::Nic as u64),
        ("RESOURCE_VI", Resource::Vi as u64),
        ("RESOURCE_CQ", Resource::Cq as u64),
        ("RESOURCE_DESCRIPTOR", Resource::Descriptor as u64),
        ("ERROR_POST_DESC", ErrorCode::PostDesc as u64),
        ("ERROR_CONN_LOST", ErrorCode::ConnLost as u64),
        ("ERROR_RECVQ_EMPTY", ErrorCode::RecvqEmpty as u64),
        ("ERROR_VI_OVERRUN", ErrorCode::ViOverrun as u64),
        ("ERROR_RDMAW_PROT", ErrorCode::RdmawProt as u64),
        ("ERROR_RDMAW_DATA", ErrorCode::RdmawData as u64),
        ("ERROR_RDMAW_ABORT", ErrorCode::RdmawAbort as u64),
        ("ERROR_RDMAR_PROT", ErrorCode::RdmarProt as u64),
        ("ERROR_COMP_PROT", ErrorCode::CompProt as u64),
        ("ERROR_RDMA_TRANSPORT", ErrorCode::RdmaTransport as u64),
        ("ERROR_CATASTROPHIC", ErrorCode::Catastrophic as u64),
        ("CONTROL_OP_SENDRECV", Control::OP_SENDRECV.bits().into()),
        ("CONTROL_OP_RDMAWRITE", Control::OP_RDMAWRITE.bits().into()),
        ("CONTROL_OP_RDMAREAD", Control::OP_RDMAREAD.bits().into()),
        ("CONTROL_OP_RESERVED", Control::OP_MASK.bits().into()),
        ("CONTROL_OP_MASK", Control::OP_MASK.bits().into()),
        ("CONTROL_IMMEDIATE", Control::IMMEDIATE.bits().into()),
        ("CONTROL_QFENCE", Control::QFENCE.bits().into()),
        ("CONTROL_RESERVED", Control::RESERVED.bits().into()),
        ("STATUS_DONE", Status::DONE.bits().into()),
        ("STATUS_FORMAT_ERROR", Status::FORMAT_ERROR.bits().into()),
        ("STATUS_PROTECTION_ERROR", Status::PROTECTION_ERROR.bits().into()),
        ("STATUS_LENGTH_ERROR", Status::LENGTH_ERROR.bits().into()),
        ("STATUS_PARTIAL_ERROR", Status::PARTIAL_ERROR.bits().into()),
        ("STATUS_DESC_FLUSHED_ERROR", Status::DESC_FLUSHED_ERROR.bits().into()),
        ("STATUS_TRANSPORT_ERROR", Status::TRANSPORT_ERROR.bits().into()),
        ("STATUS_RDMA_PROT_ERROR", Status::RDMA_PROT_ERROR.bits().into()),
        ("STATUS_REMOTE_DESC_ERROR", Status::REMOTE_DESC_ERROR.bits().into()),
        ("STATUS_ERROR_MASK", Status::ERROR_MASK.bits().into()),
        ("STATUS_OP_SEND", Status::OP_SEND.bits().into()),
        ("STATUS_OP_RECEIVE", Status::OP_RECEIVE.bits().into()),
        ("STATUS_OP_RDMA_WRITE", Status::OP_RDMA_WRITE.bits().into()),
        ("STATUS_OP_REMOTE_RDMA_WRITE", Status::OP_REMOTE_RDMA_WRITE.bits().into()),
        ("STATUS_OP_RDMA_READ", Status::OP_RDMA_READ.bits().into()),
        ("STATUS_OP_MASK", Status::OP_MASK.bits().into()),
        ("STATUS_IMMEDIATE", Status::IMMEDIATE.bits().into()),
        ("STATUS_RESERVED", Status::RESERVED.bits().into()),
        ("INFINITE", 0xffff_ffff),
        ("DESCRIPTOR_ALIGNMENT", via::descriptor::ALIGNMENT as u64),
        ("SMI_AUTODISCOVERY", 1),
        ("TRUE", 1),
        ("FALSE", 0),
    ];
    all.extend(values.map(|(name, value)| (format!("value VIP_{name}"), value)));
    all
}

#[test]
fn layouts_and_values_agree_in_c() {
    assert_eq!(told("gcc", "c99", "c"), own());
}

#[test]
fn layouts_and_values_agree_in_cpp() {
    if !skipped("layouts_and_values_agree_in_cpp", "g++") {
        assert_eq!(told("g++", "c++17", "cc"), own());
    }
}

#[test]
fn the_sizes_of_1997() {
    let sizes = [
        (size_of::<NicAttributes>(), 200),
        (size_of::<ViAttributesC>(), 40),
        (size_of::<MemAttributesC>(), 16),
        (size_of::<ErrorDescriptor>(), 48),
    ];
    assert!(sizes.iter().all(|(own, known)| own == known), "{sizes:?}");
}

/// Programs also use the structures' tags in declarations of their own.
#[test]
fn names_of_the_time_compile() {
    let source = here().join("tests/c/names.c");
    let strict = ["-Wall", "-Wextra", "-Werror", "-O2", "-D_FORTIFY_SOURCE=2"];
    for standard in ["gnu89", "c99", "c11"] {
        let program = folder().join(format!("names-{standard}"));
        let mut cc = Command::new("gcc");
        cc.arg(format!("-std={standard}")).args(strict).arg("-I").arg(include());
        run(cc.arg("-c").arg(&source).arg("-o").arg(&program));
    }
    if !skipped("names_of_the_time_compile in C++", "g++") {
        let copy = folder().join("names.cc");
        fs::copy(&source, &copy).expect("the source");
        let mut cxx = Command::new("g++");
        cxx.arg("-std=gnu++98").args(strict).arg("-I").arg(include());
        run(cxx.arg("-c").arg(&copy).arg("-o").arg(folder().join("names-cc")));
    }
}

/// Checks that the header and the library have the same functions.
#[test]
fn the_header_declares_what_the_map_exports() {
    let names = |file: PathBuf, end: char| -> Vec<String> {
        let text = fs::read_to_string(&file).expect("a source");
        let mut names: Vec<String> = text
            .split(|c: char| !(c.is_alphanumeric() || c == '_' || c == end))
            .filter(|word| word.starts_with("Vip") && word.contains(end))
            .map(|word| word.split(end).next().unwrap_or_default().to_owned())
            .collect();
        names.sort();
        names
    };
    let declared = names(include().join("vipl.h"), '(');
    assert_eq!(declared.len(), 46);
    assert_eq!(declared, names(here().join("vipl.map"), ';'));
}
