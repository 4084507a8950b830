//! Introductions to the scenarios' figures.

use crate::measure::bench::papers::published::{CLUSTER, EMP, FEATURES, NETPIPE, Paper, SOVIA};
use crate::measure::bench::papers::work::Scenario;

/// Returns sentences below a paper's findings: differences between the published and the measured system, and limits of
/// the bounds.
pub(super) fn caveats(paper: &Paper) -> &'static [&'static str] {
    if *paper == FEATURES {
        &[
            "Their VIs are cLAN's, in hardware and between two hosts. Ours are in shared memory, between two processes of one host.",
            "Their TCP is LANE's on Windows NT. Ours is the kernel's over loopback.",
        ]
    } else if *paper == NETPIPE {
        &[
            "VIA on cLAN stands beside shared memory: no adapter is measured.",
            "LANE was measured at MTU 1500 (section 5.2). Ours beside it is at MTU 9000, where a lane carries more than twice as much.",
            "Quotients of LANE and VIA divide a TCP that sleeps, between hosts, by shared memory within a host. Theirs is 6.4; a quotient of \
             hundreds holds as well, so the verdict has no meaning yet.",
            "\"At least 40 % below M-VIA's\" has no lower bound. Shared memory is below VIs by packet sockets in any case.",
            "Rows of two processors at each end are not measured.",
        ]
    } else if *paper == SOVIA {
        &[
            "Their latencies and bandwidths are of calls that poll. Ours beside them block: they look for a while before they sleep.",
            "Their M-VIA is on Fast Ethernet, of 100 Mbit/s. Ours is on veth, which has no such limit.",
            "LANE was measured at MTU 9000 and with buffers of 128 KB. Ours beside it is at MTU 1500.",
            "TCP beside the rows of M-VIA sleeps at once and has offloads, while VIs and streams look. With a TCP that looks, TCP by native VIA \
             and SOVIA_SINGLE by TCP may both turn out otherwise.",
            "\"LANE by native VIA\" has no upper bound: theirs is 6.6, and a quotient of hundreds holds as well. \"SINGLE below TCP\" and \
             \"RDMA writes have no significant advantage: bandwidth\" have no lower bound. These verdicts have no meaning yet.",
            "Figure 9 is not measured. Three published figures are missing here: TCP 96.0 us and SOVIA_HANDLER 38.2 us on cLAN with two \
             processors, SOVIA_HANDLER 29.9 us with one.",
        ]
    } else if *paper == CLUSTER {
        &[
            "The paper does not say which MTU LANE had. Ours is 1500.",
            "Their FTP and RPC run between two hosts, with TCP over LANE. Ours run within a host, with TCP over loopback.",
            "\"TCP over LANE reaches 55 %\" holds from 0 to 0.8, and \"FTP over TCP exploits 32 %\" from 0 to 0.5. \"LANE by native VIA\" has no \
             upper bound. These verdicts have no meaning yet.",
        ]
    } else if *paper == EMP {
        &[
            "Their EMP is one system, whose NIC does the work. Figure 5 stands beside ours with the NIC in the calls, table 2 and figure 6 \
             beside ours with the NIC in a thread: two systems.",
            "The time of the NIC's thread is not in table 2. `sovia bench emp` prints it as the processor time of a batch.",
            "Isend and Irecv are the median of one call each, and the sum adds one call of each kind.",
            "Table 2 and figure 6 of the paper are of an MPI application. Ours make the same calls on EMP itself.",
            "Figure 6's verdicts divide each curve by its own start. They would hold with TCP above EMP at every share.",
            "With fewer than four processors the NIC's thread uses the other end's processor, and sleeps at once.",
        ]
    } else {
        &[]
    }
}

pub(super) fn about(scenario: Scenario) -> &'static str {
    match scenario {
        Scenario::Loops => {
            "Four bytes there and back by the eight loops of the first paper's Table 1, and by those that sleep at once. The round \
             trip is of the loop as it is; the calls are of the same loop with a look at the time \
             stamp counter between two calls, the look taken off. There is always one receive more \
             posted than the loop needs, because here a message may be there before the next call."
        }
        Scenario::Throughput => {
            "One way: as fast as possible for a given time, confirmed by one message at the end. The receiver tells of receives \
             that it has posted again, a quarter of them at a time. Two way: the ping-pong loop; the size by half a round trip. RDMA \
             writes of these loops tell their target by immediate data that they are there. TCP with Nagle has Nagle's algorithm and \
             the greatest socket buffers that the system gives; TCP without that word has TCP_NODELAY."
        }
        Scenario::Strided => {
            "1008 doubles stored a stride apart: copied within the process; sent as one block and \
             then copied; received by descriptors with a segment for each double, 252 a message."
        }
        Scenario::Scatter => {
            "Messages of 32 blocks, stored two block lengths apart, by 32 segments of the receive; \
             beside them the same bytes in one piece, and in one piece and then copied."
        }
        Scenario::Queues => {
            "Requests on VIs at random and replies of 4 bytes on the same. Both ends find the VI \
             with news by a completion queue, or by looking at one VI after the other; the \
             requester leaves out those on which it waits for nothing."
        }
        Scenario::Netpipe => {
            "The ping-pong loop by NetPIPE's sizes, each also 3 bytes shorter and longer unless \
             told otherwise; the last picture has those by the size itself. Saturation curve: throughput by size. Signature graph: throughput \
             by time. Ends that share one processor, which no paper had, have pictures of their own behind the papers."
        }
        Scenario::Buffers => {
            "The ping-pong loop where each message is sent from other memory and received into other memory, twice what the last cache \
             holds (NetPIPE's option -I); the same with a receiver that reads every byte before it answers; and the usual loop."
        }
        Scenario::Calls => {
            "Calls many of a kind at a time, with the other end silent. Beside them the bare ring, \
             which is the hardware's limit, and what one VI carries."
        }
        Scenario::Memory => {
            "What the pages of two processes grew by when they connected idle VIs, by VI: pages \
             that one of them touches alone, pages that both touch, and each end's share of all."
        }
        Scenario::Registration => {
            "What a send costs before it is posted, if its bytes are registered for it and deregistered \
             after it, or copied. The NIC in shared memory pins nothing; \
             beside it, what the kernel takes to lock pages and unlock them, which a NIC that pins costs \
             at least. Both also while 2 MB are registered, or locked, on which M-VIA's time depended. Copies go to one place, and come \
             from one (cached), or from ever other places of 256 MB (uncached): from caches that processors share, where those are larger. Simulated: the times are \
             those of a simulated network whose NICs take as long to register as the paper says of M-VIA (by size, and by what is registered \
             beside) and of cLAN (by size alone); registering by itself, and by a stream, as a mean over 16 sends from a buffer whose memory \
             goes after eight: its cache of registered buffers off, on (it notices memory that goes), and told by the program. Lines \
             of equal figures lie upon each other."
        }
        Scenario::Sovia => {
            "Streams over a VI by the configurations of SOVIA's Table 4, with a processor for each end: which thread handles messages \
             (Fig. 5), how bytes are sent (Tables 2 and 3), the window, delayed acknowledgements and combining (Figs. 7 and 8). \
             They block after looking for a while, which stands for the papers' polling; or they sleep at once, which stands for \
             the papers' blocking on cLAN. Beside them the sockets of sovia run and of libsovia, in the same configurations and as they choose. \
             Figure 9, of two processors at each end, is not measured. Processor time (Fig. 10): the sender offers the 780 Mbit/s that the paper's \
             adapter carried with blocking calls, in bursts, and sleeps in between; figures of ends that did not carry as much are left \
             out of pictures and comparisons. What of it is the program's and what is the kernel's the kernel tells by its tick, which is coarse \
             for measurements as short as these; the sum is exact. SOVIA_RDMA is the three-way handshake whose acknowledgement names \
             the reader's buffer, to which the sender writes by RDMA: nothing is copied at either end, and one message is on its way at a time."
        }
        Scenario::Hosts => {
            "Two network namespaces, joined by a pair of veth devices of MTU 1500 or 9000; each end has a \
             processor, for its NIC in software too. Native VIs by NetPIPE's module (a ring of descriptors with \
             registered buffers of MaxTransferSize, fragments, and a continue message when the receiver's \
             descriptors are used up), over UDP, packet sockets (eth) and AF_XDP; TCP over the same devices, \
             which hand it segments of up to 64 KB to cut, and over devices without that, as the papers' cards were; TCP over LANE, the \
             papers' baseline on cLAN, by VIs in shared memory and by UDP. \
             Blocking calls of a NIC look for a while before they sleep; those that sleep do so at once, as TCP's. \
             SOVIA's streams block, at MTU 1500; TCP and LANE beside them sleep at once, with offloads."
        }
        Scenario::Rpc => {
            "Client and server by libtirpc, unchanged over TCP and under sovia run, and by libsovia-rpc's transport \"via\" in \
             clnt_create: `sovia bench rpc`. TCP is the kernel's over loopback, where the paper's is over LANE."
        }
        Scenario::Ftp => {
            "Files between folders in memory: `sovia bench ftp`, by unchanged programs over TCP and under sovia run, and by programs that \
             say SOCK_VIA for the data connection. TCP is the kernel's over loopback, where the papers' is over LANE."
        }
        Scenario::Emp => {
            "`sovia bench emp`: between two network namespaces over veth at MTU 1500, without offloads. The NIC is in the calls, or in a \
             thread. TCP has buffers of 64 KB; its calls block, or look again and again. Batches are compared with TCP that blocks."
        }
    }
}
