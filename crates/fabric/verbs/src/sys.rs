//! The libraries' structures, as far as this crate uses them: rdma-core's ABI since version 22. `tests/layout.rs`
//! compares sizes and offsets with the C headers.

#![expect(missing_docs, reason = "the names are rdma-core's own")]

use core::ffi::{c_int, c_uint, c_void};

pub type PollCq = unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int;
pub type ReqNotifyCq = unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int;
pub type PostSend =
    unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int;
pub type PostRecv =
    unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int;

macro_rules! structures {
    ($($(#[$attribute:meta])* struct $name:ident { $($field:ident: $type:ty,)* })*) => {
        $(
            $(#[$attribute])*
            #[derive(Debug, Clone, Copy)]
            #[allow(non_camel_case_types, reason = "rdma-core's names")]
            #[repr(C)]
            pub struct $name { $(pub $field: $type,)* }
        )*

        /// Returns every structure with its name, its size, and the names and offsets of its fields.
        pub fn layout() -> Vec<(&'static str, usize, Vec<(&'static str, usize)>)> {
            vec![$((
                stringify!($name),
                size_of::<$name>(),
                vec![$((stringify!($field), core::mem::offset_of!($name, $field))),*],
            )),*]
        }
    };
}

structures! {
    struct ibv_context_ops {
        _compat_before_poll: [*mut c_void; 11],
        poll_cq: Option<PollCq>,
        req_notify_cq: Option<ReqNotifyCq>,
        _compat_between: [*mut c_void; 12],
        post_send: Option<PostSend>,
        post_recv: Option<PostRecv>,
        _compat_after: [*mut c_void; 5],
    }
    struct ibv_context {
        device: *mut c_void,
        ops: ibv_context_ops,
        cmd_fd: c_int,
        async_fd: c_int,
        num_comp_vectors: c_int,
        _mutex: [u64; 5],
        _abi_compat: *mut c_void,
    }
    struct ibv_device_attr {
        fw_ver: [u8; 64],
        node_guid: u64,
        sys_image_guid: u64,
        max_mr_size: u64,
        page_size_cap: u64,
        vendor_id: u32,
        vendor_part_id: u32,
        hw_ver: u32,
        max_qp: c_int,
        max_qp_wr: c_int,
        device_cap_flags: c_uint,
        max_sge: c_int,
        max_sge_rd: c_int,
        max_cq: c_int,
        max_cqe: c_int,
        max_mr: c_int,
        max_pd: c_int,
        max_qp_rd_atom: c_int,
        max_ee_rd_atom: c_int,
        max_res_rd_atom: c_int,
        max_qp_init_rd_atom: c_int,
        _rest: [u32; 17],
    }
    struct ibv_port_attr {
        state: c_uint,
        max_mtu: c_uint,
        active_mtu: c_uint,
        gid_tbl_len: c_int,
        port_cap_flags: u32,
        max_msg_sz: u32,
        _rest: [u32; 7],
    }
    struct ibv_pd {
        context: *mut ibv_context,
        handle: u32,
    }
    struct ibv_mr {
        context: *mut ibv_context,
        pd: *mut ibv_pd,
        addr: *mut c_void,
        length: usize,
        handle: u32,
        lkey: u32,
        rkey: u32,
    }
    struct ibv_comp_channel {
        context: *mut ibv_context,
        fd: c_int,
        refcnt: c_int,
    }
    /// Only the first fields. The libraries allocate and own these structures.
    struct ibv_cq {
        context: *mut ibv_context,
        channel: *mut ibv_comp_channel,
        cq_context: *mut c_void,
        handle: u32,
        cqe: c_int,
    }
    /// Only the first fields.
    struct ibv_qp {
        context: *mut ibv_context,
        qp_context: *mut c_void,
        pd: *mut ibv_pd,
        send_cq: *mut ibv_cq,
        recv_cq: *mut ibv_cq,
        srq: *mut c_void,
        handle: u32,
        qp_num: u32,
        state: c_uint,
        qp_type: c_uint,
    }
    struct ibv_wc {
        wr_id: u64,
        status: c_uint,
        opcode: c_uint,
        vendor_err: u32,
        byte_len: u32,
        imm_data: u32,
        qp_num: u32,
        src_qp: u32,
        wc_flags: c_uint,
        pkey_index: u16,
        slid: u16,
        sl: u8,
        dlid_path_bits: u8,
    }
    struct ibv_sge {
        addr: u64,
        length: u32,
        lkey: u32,
    }
    struct ibv_send_wr {
        wr_id: u64,
        next: *mut ibv_send_wr,
        sg_list: *mut ibv_sge,
        num_sge: c_int,
        opcode: c_uint,
        send_flags: c_uint,
        imm_data: u32,
        wr: rdma_wr,
        _rest: [u64; 9],
    }
    struct ibv_recv_wr {
        wr_id: u64,
        next: *mut ibv_recv_wr,
        sg_list: *mut ibv_sge,
        num_sge: c_int,
    }
    struct ibv_qp_cap {
        max_send_wr: u32,
        max_recv_wr: u32,
        max_send_sge: u32,
        max_recv_sge: u32,
        max_inline_data: u32,
    }
    struct ibv_qp_init_attr {
        qp_context: *mut c_void,
        send_cq: *mut ibv_cq,
        recv_cq: *mut ibv_cq,
        srq: *mut c_void,
        cap: ibv_qp_cap,
        qp_type: c_uint,
        sq_sig_all: c_int,
    }
    struct ibv_qp_attr {
        qp_state: c_uint,
        cur_qp_state: c_uint,
        path_mtu: c_uint,
        path_mig_state: c_uint,
        qkey: u32,
        rq_psn: u32,
        sq_psn: u32,
        dest_qp_num: u32,
        qp_access_flags: c_uint,
        cap: ibv_qp_cap,
        _ah_attr: [u64; 4],
        _alt_ah_attr: [u64; 4],
        pkey_index: u16,
        alt_pkey_index: u16,
        en_sqd_async_notify: u8,
        sq_draining: u8,
        max_rd_atomic: u8,
        max_dest_rd_atomic: u8,
        min_rnr_timer: u8,
        port_num: u8,
        timeout: u8,
        retry_cnt: u8,
        rnr_retry: u8,
        alt_port_num: u8,
        alt_timeout: u8,
        rate_limit: u32,
    }
    struct rdma_event_channel {
        fd: c_int,
    }
    struct rdma_cm_id {
        verbs: *mut ibv_context,
        channel: *mut rdma_event_channel,
        context: *mut c_void,
        qp: *mut ibv_qp,
        route: rdma_route,
        ps: c_uint,
        port_num: u8,
        _rest: [u64; 8],
    }
    struct rdma_route {
        addr: rdma_addr,
        path_rec: *mut c_void,
        num_paths: c_int,
    }
    struct rdma_addr {
        src_storage: libc::sockaddr_storage,
        dst_storage: libc::sockaddr_storage,
        addr: [u64; 5],
    }
    struct rdma_conn_param {
        private_data: *const c_void,
        private_data_len: u8,
        responder_resources: u8,
        initiator_depth: u8,
        flow_control: u8,
        retry_count: u8,
        rnr_retry_count: u8,
        srq: u8,
        qp_num: u32,
    }
    struct rdma_ud_param {
        private_data: *const c_void,
        private_data_len: u8,
        _ah_attr: [u64; 4],
        qp_num: u32,
        qkey: u32,
    }
    struct rdma_cm_event {
        id: *mut rdma_cm_id,
        listen_id: *mut rdma_cm_id,
        event: c_uint,
        status: c_int,
        param: rdma_ud_param,
    }
}

/// The member of `ibv_send_wr`'s union for RDMA.
#[derive(Debug, Clone, Copy)]
#[allow(non_camel_case_types, reason = "as its neighbours")]
#[repr(C)]
pub struct rdma_wr {
    pub remote_addr: u64,
    pub rkey: u32,
}

/// Values of the headers' enums, under the same names.
pub mod value {
    use core::ffi::c_uint;

    macro_rules! values {
        ($($name:ident = $value:expr,)*) => {
            $(pub const $name: c_uint = $value;)*

            /// All values with their names.
            pub const ALL: &[(&str, c_uint)] = &[$((stringify!($name), $name)),*];
        };
    }

    values! {
        IBV_ACCESS_LOCAL_WRITE = 1,
        IBV_ACCESS_REMOTE_WRITE = 2,
        IBV_ACCESS_REMOTE_READ = 4,
        IBV_QPT_RC = 2,
        IBV_QPS_INIT = 1,
        IBV_QPS_RTR = 2,
        IBV_QPS_RTS = 3,
        IBV_QPS_ERR = 6,
        IBV_QP_STATE = 1,
        IBV_QP_ACCESS_FLAGS = 8,
        IBV_QP_RNR_RETRY = 2048,
        IBV_QP_RETRY_CNT = 1024,
        IBV_WR_RDMA_WRITE = 0,
        IBV_WR_RDMA_WRITE_WITH_IMM = 1,
        IBV_WR_SEND = 2,
        IBV_WR_SEND_WITH_IMM = 3,
        IBV_WR_RDMA_READ = 4,
        IBV_SEND_FENCE = 1,
        IBV_SEND_SIGNALED = 2,
        IBV_SEND_INLINE = 8,
        IBV_WC_RECV_RDMA_WITH_IMM = 129,
        IBV_WC_WITH_IMM = 2,
        IBV_WC_SUCCESS = 0,
        IBV_WC_LOC_LEN_ERR = 1,
        IBV_WC_LOC_QP_OP_ERR = 2,
        IBV_WC_LOC_PROT_ERR = 4,
        IBV_WC_WR_FLUSH_ERR = 5,
        IBV_WC_LOC_ACCESS_ERR = 8,
        IBV_WC_REM_INV_REQ_ERR = 9,
        IBV_WC_REM_ACCESS_ERR = 10,
        IBV_WC_REM_OP_ERR = 11,
        IBV_WC_RETRY_EXC_ERR = 12,
        IBV_WC_RNR_RETRY_EXC_ERR = 13,
        RDMA_PS_TCP = 0x0106,
        RDMA_PS_UDP = 0x0111,
        RDMA_CM_EVENT_ADDR_RESOLVED = 0,
        RDMA_CM_EVENT_ADDR_ERROR = 1,
        RDMA_CM_EVENT_ROUTE_RESOLVED = 2,
        RDMA_CM_EVENT_ROUTE_ERROR = 3,
        RDMA_CM_EVENT_CONNECT_REQUEST = 4,
        RDMA_CM_EVENT_CONNECT_RESPONSE = 5,
        RDMA_CM_EVENT_CONNECT_ERROR = 6,
        RDMA_CM_EVENT_UNREACHABLE = 7,
        RDMA_CM_EVENT_REJECTED = 8,
        RDMA_CM_EVENT_ESTABLISHED = 9,
        RDMA_CM_EVENT_DISCONNECTED = 10,
        RDMA_CM_EVENT_DEVICE_REMOVAL = 11,
        RDMA_CM_EVENT_TIMEWAIT_EXIT = 15,
    }
}
