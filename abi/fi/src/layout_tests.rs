//! Tests that structures have the layout of libfabric's headers.

#[path = "../../testing/commands.rs"]
mod commands;

use core::mem::offset_of;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use self::commands::{here, printed_by};
use crate::types::*;

macro_rules! structures {
    ($($rust:ident = $c:literal { $($field:ident = $c_field:literal,)* })*) => {{
        let mut all = BTreeMap::new();
        $(
            all.insert($c.to_owned(), size_of::<$rust>());
            $(all.insert(format!("{}.{}", $c, $c_field), offset_of!($rust, $field));)*
        )*
        all
    }};
}

/// Returns sizes and offsets as Rust computes them.
fn own() -> BTreeMap<String, usize> {
    structures! {
        Fid = "fid" {
            class = "fclass",
            context = "context",
            ops = "ops",
        }
        Ops = "fi_ops" {
            size = "size",
            close = "close",
            bind = "bind",
            control = "control",
            ops_open = "ops_open",
            tostr = "tostr",
            ops_set = "ops_set",
        }
        TxAttr = "fi_tx_attr" {
            caps = "caps",
            mode = "mode",
            op_flags = "op_flags",
            msg_order = "msg_order",
            comp_order = "comp_order",
            inject_size = "inject_size",
            size = "size",
            iov_limit = "iov_limit",
            rma_iov_limit = "rma_iov_limit",
            tclass = "tclass",
        }
        RxAttr = "fi_rx_attr" {
            caps = "caps",
            mode = "mode",
            op_flags = "op_flags",
            msg_order = "msg_order",
            comp_order = "comp_order",
            total_buffered_recv = "total_buffered_recv",
            size = "size",
            iov_limit = "iov_limit",
        }
        EpAttr = "fi_ep_attr" {
            kind = "type",
            protocol = "protocol",
            protocol_version = "protocol_version",
            max_msg_size = "max_msg_size",
            msg_prefix_size = "msg_prefix_size",
            max_order_raw_size = "max_order_raw_size",
            max_order_war_size = "max_order_war_size",
            max_order_waw_size = "max_order_waw_size",
            mem_tag_format = "mem_tag_format",
            tx_ctx_cnt = "tx_ctx_cnt",
            rx_ctx_cnt = "rx_ctx_cnt",
            auth_key_size = "auth_key_size",
            auth_key = "auth_key",
        }
        DomainAttr = "fi_domain_attr" {
            domain = "domain",
            name = "name",
            threading = "threading",
            control_progress = "control_progress",
            data_progress = "data_progress",
            resource_mgmt = "resource_mgmt",
            av_type = "av_type",
            mr_mode = "mr_mode",
            mr_key_size = "mr_key_size",
            cq_data_size = "cq_data_size",
            cq_cnt = "cq_cnt",
            ep_cnt = "ep_cnt",
            tx_ctx_cnt = "tx_ctx_cnt",
            rx_ctx_cnt = "rx_ctx_cnt",
            max_ep_tx_ctx = "max_ep_tx_ctx",
            max_ep_rx_ctx = "max_ep_rx_ctx",
            max_ep_stx_ctx = "max_ep_stx_ctx",
            max_ep_srx_ctx = "max_ep_srx_ctx",
            cntr_cnt = "cntr_cnt",
            mr_iov_limit = "mr_iov_limit",
            caps = "caps",
            mode = "mode",
            auth_key = "auth_key",
            auth_key_size = "auth_key_size",
            max_err_data = "max_err_data",
            mr_cnt = "mr_cnt",
            tclass = "tclass",
        }
        FabricAttr = "fi_fabric_attr" {
            fabric = "fabric",
            name = "name",
            prov_name = "prov_name",
            prov_version = "prov_version",
            api_version = "api_version",
        }
        Info = "fi_info" {
            next = "next",
            caps = "caps",
            mode = "mode",
            addr_format = "addr_format",
            src_addrlen = "src_addrlen",
            dest_addrlen = "dest_addrlen",
            src_addr = "src_addr",
            dest_addr = "dest_addr",
            handle = "handle",
            tx_attr = "tx_attr",
            rx_attr = "rx_attr",
            ep_attr = "ep_attr",
            domain_attr = "domain_attr",
            fabric_attr = "fabric_attr",
            nic = "nic",
        }
        Provider = "fi_provider" {
            version = "version",
            fi_version = "fi_version",
            context = "context",
            name = "name",
            getinfo = "getinfo",
            fabric = "fabric",
            cleanup = "cleanup",
        }
        FidFabric = "fid_fabric" {
            fid = "fid",
            ops = "ops",
            api_version = "api_version",
        }
        OpsFabric = "fi_ops_fabric" {
            size = "size",
            domain = "domain",
            passive_ep = "passive_ep",
            eq_open = "eq_open",
            wait_open = "wait_open",
            trywait = "trywait",
            domain2 = "domain2",
        }
        FidDomain = "fid_domain" {
            fid = "fid",
            ops = "ops",
            mr = "mr",
        }
        OpsDomain = "fi_ops_domain" {
            size = "size",
            av_open = "av_open",
            cq_open = "cq_open",
            endpoint = "endpoint",
            scalable_ep = "scalable_ep",
            cntr_open = "cntr_open",
            poll_open = "poll_open",
            stx_ctx = "stx_ctx",
            srx_ctx = "srx_ctx",
            query_atomic = "query_atomic",
            query_collective = "query_collective",
            endpoint2 = "endpoint2",
        }
        OpsMr = "fi_ops_mr" {
            size = "size",
            reg = "reg",
            regv = "regv",
            regattr = "regattr",
        }
        MrAttr = "fi_mr_attr" {
            mr_iov = "mr_iov",
            iov_count = "iov_count",
            access = "access",
            offset = "offset",
            requested_key = "requested_key",
            context = "context",
            auth_key_size = "auth_key_size",
            auth_key = "auth_key",
            iface = "iface",
            device = "device",
        }
        FidMr = "fid_mr" {
            fid = "fid",
            mem_desc = "mem_desc",
            key = "key",
        }
        AvAttr = "fi_av_attr" {
            kind = "type",
            rx_ctx_bits = "rx_ctx_bits",
            count = "count",
            ep_per_node = "ep_per_node",
            name = "name",
            map_addr = "map_addr",
            flags = "flags",
        }
        FidAv = "fid_av" {
            fid = "fid",
            ops = "ops",
        }
        OpsAv = "fi_ops_av" {
            size = "size",
            insert = "insert",
            insertsvc = "insertsvc",
            insertsym = "insertsym",
            remove = "remove",
            lookup = "lookup",
            straddr = "straddr",
            av_set = "av_set",
        }
        EqAttr = "fi_eq_attr" {
            size = "size",
            flags = "flags",
            wait_obj = "wait_obj",
            signaling_vector = "signaling_vector",
            wait_set = "wait_set",
        }
        FidEq = "fid_eq" {
            fid = "fid",
            ops = "ops",
        }
        OpsEq = "fi_ops_eq" {
            size = "size",
            read = "read",
            readerr = "readerr",
            write = "write",
            sread = "sread",
            strerror = "strerror",
        }
        CqAttr = "fi_cq_attr" {
            size = "size",
            flags = "flags",
            format = "format",
            wait_obj = "wait_obj",
            signaling_vector = "signaling_vector",
            wait_cond = "wait_cond",
            wait_set = "wait_set",
        }
        CqEntry = "fi_cq_tagged_entry" {
            op_context = "op_context",
            flags = "flags",
            len = "len",
            buf = "buf",
            data = "data",
            tag = "tag",
        }
        CqErrEntry = "fi_cq_err_entry" {
            op_context = "op_context",
            flags = "flags",
            len = "len",
            buf = "buf",
            data = "data",
            tag = "tag",
            olen = "olen",
            err = "err",
            prov_errno = "prov_errno",
            err_data = "err_data",
            err_data_size = "err_data_size",
        }
        FidCq = "fid_cq" {
            fid = "fid",
            ops = "ops",
        }
        OpsCq = "fi_ops_cq" {
            size = "size",
            read = "read",
            readfrom = "readfrom",
            readerr = "readerr",
            sread = "sread",
            sreadfrom = "sreadfrom",
            signal = "signal",
            strerror = "strerror",
        }
        CntrAttr = "fi_cntr_attr" {
            events = "events",
            wait_obj = "wait_obj",
            wait_set = "wait_set",
            flags = "flags",
        }
        FidCntr = "fid_cntr" {
            fid = "fid",
            ops = "ops",
        }
        OpsCntr = "fi_ops_cntr" {
            size = "size",
            read = "read",
            readerr = "readerr",
            add = "add",
            set = "set",
            wait = "wait",
            adderr = "adderr",
            seterr = "seterr",
        }
        FidEp = "fid_ep" {
            fid = "fid",
            ops = "ops",
            cm = "cm",
            msg = "msg",
            rma = "rma",
            tagged = "tagged",
            atomic = "atomic",
            collective = "collective",
        }
        OpsEp = "fi_ops_ep" {
            size = "size",
            cancel = "cancel",
            getopt = "getopt",
            setopt = "setopt",
            tx_ctx = "tx_ctx",
            rx_ctx = "rx_ctx",
            rx_size_left = "rx_size_left",
            tx_size_left = "tx_size_left",
        }
        OpsCm = "fi_ops_cm" {
            size = "size",
            setname = "setname",
            getname = "getname",
            getpeer = "getpeer",
            connect = "connect",
            listen = "listen",
            accept = "accept",
            reject = "reject",
            shutdown = "shutdown",
            join = "join",
        }
        Msg = "fi_msg" {
            msg_iov = "msg_iov",
            desc = "desc",
            iov_count = "iov_count",
            addr = "addr",
            context = "context",
            data = "data",
        }
        OpsMsg = "fi_ops_msg" {
            size = "size",
            recv = "recv",
            recvv = "recvv",
            recvmsg = "recvmsg",
            send = "send",
            sendv = "sendv",
            sendmsg = "sendmsg",
            inject = "inject",
            senddata = "senddata",
            injectdata = "injectdata",
        }
        MsgTagged = "fi_msg_tagged" {
            msg_iov = "msg_iov",
            desc = "desc",
            iov_count = "iov_count",
            addr = "addr",
            tag = "tag",
            ignore = "ignore",
            context = "context",
            data = "data",
        }
        OpsTagged = "fi_ops_tagged" {
            size = "size",
            recv = "recv",
            recvv = "recvv",
            recvmsg = "recvmsg",
            send = "send",
            sendv = "sendv",
            sendmsg = "sendmsg",
            inject = "inject",
            senddata = "senddata",
            injectdata = "injectdata",
        }
        RmaIov = "fi_rma_iov" {
            addr = "addr",
            len = "len",
            key = "key",
        }
        MsgRma = "fi_msg_rma" {
            msg_iov = "msg_iov",
            desc = "desc",
            iov_count = "iov_count",
            addr = "addr",
            rma_iov = "rma_iov",
            rma_iov_count = "rma_iov_count",
            context = "context",
            data = "data",
        }
        OpsRma = "fi_ops_rma" {
            size = "size",
            read = "read",
            readv = "readv",
            readmsg = "readmsg",
            write = "write",
            writev = "writev",
            writemsg = "writemsg",
            inject = "inject",
            writedata = "writedata",
            injectdata = "injectdata",
        }
        Ioc = "fi_ioc" {
            addr = "addr",
            count = "count",
        }
        RmaIoc = "fi_rma_ioc" {
            addr = "addr",
            count = "count",
            key = "key",
        }
        MsgAtomic = "fi_msg_atomic" {
            msg_iov = "msg_iov",
            desc = "desc",
            iov_count = "iov_count",
            addr = "addr",
            rma_iov = "rma_iov",
            rma_iov_count = "rma_iov_count",
            datatype = "datatype",
            op = "op",
            context = "context",
            data = "data",
        }
        AtomicAttr = "fi_atomic_attr" {
            count = "count",
            size = "size",
        }
        OpsAtomic = "fi_ops_atomic" {
            size = "size",
            write = "write",
            writev = "writev",
            writemsg = "writemsg",
            inject = "inject",
            readwrite = "readwrite",
            readwritev = "readwritev",
            readwritemsg = "readwritemsg",
            compwrite = "compwrite",
            compwritev = "compwritev",
            compwritemsg = "compwritemsg",
            writevalid = "writevalid",
            readwritevalid = "readwritevalid",
            compwritevalid = "compwritevalid",
        }
    }
}

#[test]
fn layouts_agree_with_the_headers() {
    if !Path::new("/usr/include/rdma/fabric.h").exists() {
        println!("SKIPPED: layouts_agree_with_the_headers: not installed: libfabric-dev");
        return;
    }
    let mut compiler = Command::new("cc");
    let source = here().join("tests/c/layout.c");
    let text = printed_by(compiler.args(["-Wall", "-Werror"]), &source, "layout");
    let told: BTreeMap<String, usize> = text
        .lines()
        .map(|line| {
            let (name, value) = line.split_once(' ').expect("a name and a value");
            (name.to_owned(), value.parse().expect("a number"))
        })
        .collect();
    for (name, value) in own() {
        assert_eq!(told.get(&name), Some(&value), "{name}");
    }
}
