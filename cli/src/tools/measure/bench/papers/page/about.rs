//! Introductions to the scenarios' figures.

use crate::measure::bench::papers::published::{CLUSTER, EMP, FEATURES, NETPIPE, Paper, SOVIA};
use crate::measure::bench::papers::work::Scenario;

/// Returns sentences below a paper's findings: differences between the published and the measured system, and limits of
/// the bounds.
pub(super) fn caveats(paper: &Paper) -> &'static [&'static str] {
    if *paper == FEATURES {
        &[
            "The paper's VIs are in cLAN's hardware, between two hosts. Our VIs are in shared memory, between two processes \
             of one host.",
            "The paper's TCP runs over LANE on Windows NT. Our TCP is the kernel's over loopback.",
        ]
    } else if *paper == NETPIPE {
        &[
            "VIA on cLAN is compared with shared memory: we measure no adapter.",
            "The paper's LANE has MTU 1500 (section 5.2). It is compared with our LANE at MTU 9000, which carries more than \
             twice as much.",
            "Ratios of LANE and VIA divide the latency of TCP that sleeps, between hosts, by the latency of shared memory \
             within a host. The paper's ratio is 6.4. The finding also holds for a ratio of hundreds, so the verdict means \
             nothing yet.",
            "The finding 'at least 40 % below M-VIA's' has no lower bound. Shared memory is always faster than VIs over \
             packet sockets.",
            "Rows with two processors at each end are not measured.",
        ]
    } else if *paper == SOVIA {
        &[
            "The paper's latencies and bandwidths are of calls that poll. They are compared with our blocking calls, which \
             poll for a while before they sleep.",
            "The paper's M-VIA runs on Fast Ethernet with 100 Mbit/s. Ours runs on veth, which has no such limit.",
            "The paper's LANE has MTU 9000 and buffers of 128 KB. It is compared with our LANE at MTU 1500.",
            "TCP that is compared with rows of M-VIA sleeps immediately and has offloads, while VIs and streams poll. With \
             TCP that polls, the two findings 'TCP / native VIA' and 'SOVIA_SINGLE / TCP' may have other results.",
            "The finding 'LANE / native VIA' has no upper bound: the paper's ratio is 6.6, and a ratio of hundreds holds \
             as well. The findings 'SINGLE below TCP' and 'RDMA writes have no significant advantage: bandwidth' have no \
             lower bound. These verdicts mean nothing yet.",
            "Figure 9 is not measured. Three published figures are missing here: TCP 96.0 us and SOVIA_HANDLER 38.2 us on \
             cLAN with two processors, and SOVIA_HANDLER 29.9 us with one.",
        ]
    } else if *paper == CLUSTER {
        &[
            "The paper does not give LANE's MTU. Ours is 1500.",
            "The paper's FTP and RPC run between two hosts, with TCP over LANE. Ours run within a host, with TCP over \
             loopback.",
            "The finding 'TCP over LANE reaches 55 %' holds from 0 to 0.8, and 'FTP over TCP exploits 32 %' from 0 to 0.5. \
             The finding 'LANE / native VIA' has no upper bound. These verdicts mean nothing yet.",
        ]
    } else if *paper == EMP {
        &[
            "The paper's EMP is one system, whose NIC does the work. Ours are two systems: figure 5 is compared with EMP \
             whose calls do the NIC's work, table 2 and figure 6 with EMP whose thread does the NIC's work.",
            "Table 2 does not contain the time of the NIC's thread. `sovia bench emp` prints this time as the processor \
             time of a batch.",
            "Isend and Irecv are the medians of one call each. The sum adds one call of each kind.",
            "The paper's table 2 and figure 6 are of an MPI application. Ours make the same calls on EMP itself.",
            "Figure 6's verdicts divide each curve by its own first value. They would hold even if TCP carried more than \
             EMP at every share.",
            "With fewer than four processors, the NIC's thread runs on the other end's processor, and sleeps immediately.",
        ]
    } else {
        &[]
    }
}

pub(super) fn about(scenario: Scenario) -> &'static str {
    match scenario {
        Scenario::Loops => {
            "A message of four bytes travels there and back, in the eight loops of the paper's Table 1, and in loops whose \
             calls sleep immediately. The round-trip time is that of the unchanged loop. The times of single calls are from \
             the same loop with reads of the time stamp counter between the calls; the time of these reads is subtracted. \
             One more receive is posted than the loop needs, because a message may arrive before the next call."
        }
        Scenario::Throughput => {
            "One way: the sender sends as fast as possible for a given time, and the receiver confirms with one message at \
             the end. The receiver reports each quarter of its receives that it has posted again. Two way: the ping-pong \
             loop, with the size divided by half a round trip. RDMA writes notify the target by immediate data. The series \
             'TCP with Nagle' has Nagle's algorithm and the largest socket buffers that the system allows. All other TCP \
             has TCP_NODELAY."
        }
        Scenario::Strided => {
            "1008 doubles are stored at a stride: copied within the process; sent as one block and then copied; or received \
             by descriptors with a segment for each double, 252 in a message."
        }
        Scenario::Scatter => {
            "Messages of 32 blocks are stored two block lengths apart, by 32 segments of the receive. For comparison: the \
             same bytes received in one piece, and received in one piece and then copied."
        }
        Scenario::Queues => {
            "Requests on random VIs, and replies of 4 bytes on the same VI. Both ends find the VI with an event by a \
             completion queue, or by polling one VI after the other. The requester polls only VIs on which it waits for a \
             reply."
        }
        Scenario::Netpipe => {
            "The ping-pong loop with NetPIPE's sizes. By default each size is also measured 3 bytes shorter and 3 bytes \
             longer; the last picture divides these figures by that of the size itself. The saturation curve shows \
             throughput by size, and the signature graph shows throughput by time. No paper measured two ends on one \
             processor. Our pictures of that are in the last chapter."
        }
        Scenario::Buffers => {
            "The ping-pong loop in which each message has other buffers. All buffers together are twice the size of the \
             last-level cache (NetPIPE's option -I). For comparison: the same loop with a receiver that reads every byte \
             before it answers, and the usual loop."
        }
        Scenario::Calls => {
            "Many calls of one kind in a row, while the other end does nothing. For comparison: a bare ring, which is the \
             hardware's limit, and the throughput of one VI."
        }
        Scenario::Memory => {
            "Growth of the memory of two processes that connected idle VIs, for each VI: pages that only one process \
             touches, pages that both touch, and each end's share of all pages."
        }
        Scenario::Registration => {
            "The cost of a send before it is posted: its bytes are registered before it and deregistered after it, or \
             copied. The NIC in shared memory pins no memory. For comparison: the time in which the kernel locks and \
             unlocks pages, which a NIC that pins memory needs at least. Both are also measured while 2 MB are registered \
             or locked, because M-VIA's time depended on that. Cached copies use the same memory each time. Uncached copies \
             use changing places of 256 MB; if the processors share larger caches, these copies also come from a cache. \
             Simulated: a network whose NICs need as long to register as the paper says of M-VIA (by size, and by the \
             memory that is already registered) and of cLAN (only by size). Measured are registering itself, and a stream \
             with its cache of registered buffers off, on (the cache notices freed memory), or told by the program. Each \
             figure is the mean of 16 sends from a buffer that is freed after eight sends. Lines with equal figures lie on \
             each other."
        }
        Scenario::Sovia => {
            "Streams over a VI in the configurations of SOVIA's Table 4, with a processor for each end. The configurations \
             differ in the thread that handles messages (Fig. 5), in the way to send bytes (Tables 2 and 3), and in window, \
             delayed acknowledgements and combining (Figs. 7 and 8). Blocking ends poll for a while, which is compared with \
             the papers' polling. Sleeping ends sleep immediately, which is compared with the papers' blocking calls on \
             cLAN. For comparison: the sockets of sovia run and of libsovia, in the same configurations and in their own \
             choice. Figure 9, of two processors at each end, is not measured. Processor time (Fig. 10): the sender sends \
             780 Mbit/s, which the paper's adapter carried with blocking calls, in bursts with sleeps between them. Figures \
             of ends that carried less are left out of pictures and comparisons. The kernel divides the time into the \
             program's and its own by a tick, which is coarse for such short measurements. The sum of both is exact. \
             SOVIA_RDMA is the three-way handshake whose acknowledgement names the reader's buffer. The sender writes to \
             this buffer by RDMA, so no end copies, and one message is in flight at a time."
        }
        Scenario::Hosts => {
            "Two network namespaces, joined by a pair of veth devices with MTU 1500 or 9000. Each end has a processor, \
             which it shares with its NIC in software. Native VIs are measured by NetPIPE's module (a ring of descriptors \
             with registered buffers of MaxTransferSize, fragments, and a continue message when the receiver has used up \
             its descriptors), over UDP, packet sockets (eth) and AF_XDP. For comparison: TCP over the same devices, which \
             segment up to 64 KB for TCP; TCP over devices without segmentation, like the papers' cards; and TCP over LANE, \
             the papers' baseline on cLAN, by VIs in shared memory and by UDP. Blocking calls of a NIC poll for a while \
             before they sleep. Sleeping calls sleep immediately, like TCP's. SOVIA's streams block, at MTU 1500. TCP and \
             LANE, with which they are compared, sleep immediately and have offloads."
        }
        Scenario::Rpc => {
            "`sovia bench rpc`: client and server by libtirpc, unchanged over TCP and under sovia run, and by the transport \
             'via' of libsovia-rpc in clnt_create. Our TCP is the kernel's over loopback. The paper's runs over LANE."
        }
        Scenario::Ftp => {
            "`sovia bench ftp`: files between two folders in memory, by unchanged programs over TCP and under sovia run, \
             and by programs that use SOCK_VIA for the data connection. Our TCP is the kernel's over loopback. The papers' \
             runs over LANE."
        }
        Scenario::Emp => {
            "`sovia bench emp`: two network namespaces, joined by veth devices with MTU 1500 and without offloads. The \
             calls or a thread do the NIC's work. TCP has buffers of 64 KB, and its calls block or poll. Batches are \
             compared with TCP that blocks."
        }
    }
}
