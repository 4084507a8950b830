/* Sends random messages among eight processes for a time: `soak MINUTES [SEED]`. With 0 minutes it runs one round.
   A round's seed decides whether messages travel through shared memory or by EMP over loopback. On the EMP path,
   frames may be lost, duplicated, reordered and corrupted. One round in three kills a process. In one of three, some
   processes pause for a while.

   Each process sends messages of random length to every process, itself included. It posts random receives, from any
   or one source and with any or one tag. It cancels some of them, and probes. It writes to a part of the others'
   memory, reads it back, and counts there by atomic operations.

   Checks the bytes of each message and that each message arrives once. Checks the data read back and the counts.
   Messages with one tag must match receives in the order of both posts. Only operations that involve a dead process
   may fail.
   Prints each round's seed; `soak 0 SEED` repeats that round. */
#define _GNU_SOURCE
#include <errno.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { N = 8, EACH = 25, CLASSES = 3, RECEIVES = 6, SENDS = 6, LONGEST = 3 << 20, SLOT = 100000, KEY = 1, WATCHDOG = 300 };

/* State that all processes of a round share. */
static struct {
    unsigned char address[N][64];
    atomic_int arrived[4];
    atomic_int dead[N], finished[N];
    /* Steps of all processes: completed operations, and meetings. */
    atomic_ulong steps;
    /* Successful additions of one process to another one's count. */
    atomic_ullong added[N][N];
} *all;

static uint64_t round_seed, state;
static int me, victim;

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}
static uint64_t chance(uint64_t below) { return (state = mix(state)) % below; }
static uint64_t fixed(int a, int b, int i, int what)
{
    return mix(mix(round_seed ^ (uint64_t)what << 48) ^ (uint64_t)a << 32 ^ (uint64_t)b << 16 ^ (uint64_t)i);
}

static void fail(int line, const char *what, long got)
{
    fprintf(stderr, "soak: seed %llu: process %d: line %d: %s (%ld)\n", (unsigned long long)round_seed, me, line, what, got);
    _exit(1);
}
#define CHECK(condition) ((condition) ? (void)0 : fail(__LINE__, #condition, 0))
#define IS(expression, expected)                                                                                            \
    do {                                                                                                                    \
        long got_ = (long)(expression);                                                                                     \
        if (got_ != (long)(expected))                                                                                       \
            fail(__LINE__, #expression " is not " #expected, got_);                                                         \
    } while (0)

/* Returns the length of message `i` from one process to another. */
static size_t length_of(int from, int to, int i)
{
    uint64_t x = fixed(from, to, i, 1);
    static const size_t most[] = {40, 300, 2000, 16384, 20000, 100000, 400000, LONGEST};
    size_t limit = most[x % 64 == 0 ? 7 : x % 7];
    return 16 + (x >> 8) % (limit - 16 + 1);
}
static uint64_t class_of(int from, int to, int i) { return fixed(from, to, i, 2) % CLASSES; }
static unsigned char byte_of(uint64_t seed, size_t at) { return (unsigned char)(seed + at * 29 + at / 253); }
static void fill(unsigned char *bytes, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] = byte_of(seed, i);
}
static int is_filled(const unsigned char *bytes, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != byte_of(seed, i))
            return 0;
    return 1;
}

enum what { RECEIVE, SEND, REMOTE, PROBE };
struct operation {
    enum what what;
    int is_used, peer, number;
    /* For a receive: its position in the order of posts, and whether it has been cancelled. */
    long posted;
    int is_cancelled;
    unsigned char *bytes;
};
static struct operation receives[RECEIVES], sends[SENDS], remote = {.what = REMOTE}, probe = {.what = PROBE};
static enum { WRITING, READING, ADDING } remote_does;
static size_t remote_len;
static uint64_t remote_seed, remote_before;
static long receives_posted;
/* Number of messages sent to each process; and for each message to this process, the receive that matched
 * it. */
static int sent[N], left_to_send, came[N], left_to_come;
static long met[N][EACH];

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_av *av;
static struct fid_cq *cq;
static struct fid_ep *ep;
static struct fid_mr *mr;
static unsigned char *memory;

/* Returns true if `process` has died or will die, and so may be the reason for an error. */
static int may_fail(int peer) { return peer == victim; }

static void check_error(const struct fi_cq_err_entry *error, const struct operation *operation)
{
    if (operation->what == PROBE) {
        IS(error->err, FI_ENOMSG);
    } else if (operation->what == RECEIVE && error->err == FI_ECANCELED) {
        CHECK(operation->is_cancelled);
    } else {
        if (error->err != FI_ECONNRESET && error->err != FI_EHOSTUNREACH)
            fail(__LINE__, "an error that no death explains", error->err);
        /* A receive from any source may have matched a message of the dead process. */
        CHECK(victim >= 0 && (may_fail(operation->peer) || (operation->what == RECEIVE && operation->peer < 0)));
    }
}

static void received(struct operation *receive, size_t len)
{
    uint32_t head[4];
    CHECK(len >= sizeof head && len <= LONGEST);
    memcpy(head, receive->bytes, sizeof head);
    int from = (int)head[0], i = (int)head[2];
    CHECK(from >= 0 && from < N && (int)head[1] == me && i >= 0 && i < EACH);
    CHECK(receive->peer < 0 || receive->peer == from);
    IS(len, length_of(from, me, i));
    IS(head[3], len);
    CHECK(is_filled(receive->bytes + sizeof head, len - sizeof head, fixed(from, me, i, 3)));
    CHECK(met[from][i] == 0);
    met[from][i] = receive->posted;
    came[from]++;
    left_to_come--;
}

static void done_remotely(void)
{
    remote.is_used = 0;
    if (remote_does == READING)
        CHECK(is_filled(remote.bytes, remote_len, remote_seed));
    if (remote_does == ADDING)
        all->added[me][remote.peer]++;
    if (remote_does == WRITING) {
        remote_does = READING;
        memset(remote.bytes, 0, remote_len);
        ssize_t result = fi_read(ep, remote.bytes, remote_len, NULL, (fi_addr_t)remote.peer, (uint64_t)me * SLOT, KEY, &remote);
        remote.is_used = result == 0;
        if (result != -FI_EAGAIN && result != 0)
            CHECK(may_fail(remote.peer));
    }
}

/* Ends a process of a round that hangs: no process has made a step for WATCHDOG seconds, however slowly they run. */
static void watch(int signal)
{
    static unsigned long before = -1ul;
    (void)signal;
    unsigned long now = all->steps;
    if (now == before) {
        static const char text[] = "soak: no process makes a step any more\n";
        ssize_t ignored = write(2, text, sizeof text - 1);
        (void)ignored;
        _exit(2);
    }
    before = now;
    alarm(WATCHDOG);
}

/* Handles completed operations. Returns true if there were any. */
static int progress(void)
{
    struct fi_cq_tagged_entry entry;
    ssize_t n = fi_cq_read(cq, &entry, 1);
    if (n == -FI_EAGAIN)
        return 0;
    all->steps++;
    if (n == -FI_EAVAIL) {
        struct fi_cq_err_entry error = {0};
        IS(fi_cq_readerr(cq, &error, 0), 1);
        struct operation *operation = error.op_context;
        if (operation == NULL) {
            /* An injected message has no context. Only a message to the dead process may fail. */
            struct operation injected = {.what = SEND, .peer = victim};
            check_error(&error, &injected);
            return 1;
        }
        check_error(&error, operation);
        operation->is_used = 0;
        return 1;
    }
    IS(n, 1);
    struct operation *operation = entry.op_context;
    switch (operation->what) {
    case RECEIVE:
        received(operation, entry.len);
        operation->is_used = 0;
        break;
    case SEND:
    case PROBE:
        operation->is_used = 0;
        break;
    case REMOTE:
        done_remotely();
    }
    return 1;
}

static void post_receive(struct operation *receive, int any)
{
    uint64_t tag = chance(CLASSES), ignore = any || chance(2) ? UINT64_MAX : 0;
    receive->peer = any || chance(2) ? -1 : (int)chance(N);
    receive->is_cancelled = 0;
    fi_addr_t from = receive->peer < 0 ? FI_ADDR_UNSPEC : (fi_addr_t)receive->peer;
    receive->posted = ++receives_posted;
    receive->is_used = 1;
    ssize_t result = fi_trecv(ep, receive->bytes, LONGEST, NULL, from, tag, ignore, receive);
    if (result != 0) {
        CHECK(result == -FI_EAGAIN || may_fail(receive->peer));
        receive->is_used = 0;
    }
}

static void send_one(struct operation *send)
{
    int to = (int)chance(N), i = sent[to];
    if (i == EACH)
        return;
    size_t len = length_of(me, to, i);
    uint32_t head[4] = {(uint32_t)me, (uint32_t)to, (uint32_t)i, (uint32_t)len};
    memcpy(send->bytes, head, sizeof head);
    fill(send->bytes + sizeof head, len - sizeof head, fixed(me, to, i, 3));
    uint64_t tag = class_of(me, to, i);
    ssize_t result;
    send->is_used = 1;
    send->peer = to;
    if (len <= info->tx_attr->inject_size && chance(3) == 0) {
        result = fi_tinject(ep, send->bytes, len, (fi_addr_t)to, tag);
        memset(send->bytes, 0xdd, len);
        send->is_used = 0;
    } else {
        struct iovec pieces[2] = {{send->bytes, len / 2}, {send->bytes + len / 2, len - len / 2}};
        struct fi_msg_tagged msg = {.msg_iov = pieces, .iov_count = 2, .addr = (fi_addr_t)to, .tag = tag, .context = send};
        result = fi_tsendmsg(ep, &msg, FI_COMPLETION | (chance(4) == 0 ? FI_DELIVERY_COMPLETE : 0));
    }
    if (result != 0)
        send->is_used = 0;
    if (result == -FI_EAGAIN)
        return;
    /* Messages to a dead process are counted as sent, so that the round can end. */
    CHECK(result == 0 || may_fail(to));
    sent[to]++;
    left_to_send--;
}

static void begin_remote(void)
{
    remote.peer = (int)chance(N);
    remote.is_used = 1;
    ssize_t result;
    if (chance(2)) {
        remote_does = ADDING;
        static uint64_t one = 1;
        result = fi_fetch_atomic(ep, &one, 1, NULL, &remote_before, NULL, (fi_addr_t)remote.peer, N * SLOT, KEY, FI_UINT64, FI_SUM, &remote);
    } else {
        remote_does = WRITING;
        remote_len = 1 + chance(chance(3) ? 2000 : SLOT);
        remote_seed = chance(1 << 30);
        fill(remote.bytes, remote_len, remote_seed);
        result = fi_write(ep, remote.bytes, remote_len, NULL, (fi_addr_t)remote.peer, (uint64_t)me * SLOT, KEY, &remote);
    }
    if (result != 0) {
        CHECK(result == -FI_EAGAIN || may_fail(remote.peer));
        remote.is_used = 0;
    }
}

static void begin_probe(void)
{
    struct fi_msg_tagged msg = {.addr = FI_ADDR_UNSPEC, .ignore = UINT64_MAX, .context = &probe};
    probe.is_used = fi_trecvmsg(ep, &msg, FI_PEEK) == 0;
}

/* Waits until all living processes have come here, and makes progress meanwhile. */
static void meet(int where)
{
    all->arrived[where]++;
    all->steps++;
    for (;;) {
        int dead = 0;
        for (int i = 0; i < N; i++)
            dead += all->dead[i];
        if (all->arrived[where] + (where > 0 ? dead : 0) >= N)
            return;
        if (!progress())
            usleep(50);
    }
}

static void open_all(void)
{
    struct fi_info *hints = fi_allocinfo();
    hints->caps = FI_TAGGED | FI_RMA | FI_ATOMIC | FI_DIRECTED_RECV | FI_SOURCE;
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = strdup("sovia");
    IS(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info), 0);
    fi_freeinfo(hints);
    IS(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
    IS(fi_domain(fabric, info, &domain, NULL), 0);
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    IS(fi_av_open(domain, &av_attr, &av, NULL), 0);
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
    IS(fi_cq_open(domain, &cq_attr, &cq, NULL), 0);
    IS(fi_endpoint(domain, info, &ep, NULL), 0);
    IS(fi_ep_bind(ep, &av->fid, 0), 0);
    IS(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), 0);
    IS(fi_enable(ep), 0);
    size_t len = sizeof all->address[me];
    IS(fi_getname(&ep->fid, all->address[me], &len), 0);
    memory = calloc(1, N * SLOT + 8);
    IS(fi_mr_reg(domain, memory, N * SLOT + 8, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &mr, NULL), 0);
    meet(0);
    fi_addr_t number;
    for (int i = 0; i < N; i++) {
        IS(fi_av_insert(av, all->address[i], 1, &number, 0, NULL), 1);
        IS(number, i);
    }
    meet(1);
}

static void one_process(void)
{
    signal(SIGALRM, watch);
    alarm(WATCHDOG);
    state = fixed(me, 0, 0, 4);
    open_all();
    for (int i = 0; i < RECEIVES; i++)
        receives[i] = (struct operation){.what = RECEIVE, .bytes = malloc(LONGEST)};
    for (int i = 0; i < SENDS; i++)
        sends[i] = (struct operation){.what = SEND, .bytes = malloc(LONGEST)};
    remote.bytes = malloc(SLOT);
    left_to_send = left_to_come = N * EACH;
    int dies_at = me == victim ? (int)(fixed(me, 0, 0, 5) % (N * EACH)) : -1;
    for (;;) {
        if (dies_at >= 0 && N * EACH - left_to_come >= dies_at)
            raise(SIGKILL);
        for (int i = 0; i < RECEIVES; i++)
            if (!receives[i].is_used)
                post_receive(&receives[i], i == 0);
        int busy = remote.is_used || probe.is_used, owed = left_to_come;
        for (int i = 0; i < SENDS; i++) {
            if (!sends[i].is_used && left_to_send > 0)
                send_one(&sends[i]);
            busy |= sends[i].is_used;
        }
        for (int i = 0; i < N; i++)
            if (all->dead[i])
                owed -= EACH - came[i];
        if (left_to_send == 0 && owed == 0 && !busy)
            break;
        if (!remote.is_used && left_to_send > 0 && chance(20) == 0)
            begin_remote();
        if (!probe.is_used && chance(50) == 0)
            begin_probe();
        struct operation *receive = &receives[1 + chance(RECEIVES - 1)];
        if (receive->is_used && !receive->is_cancelled && chance(100) == 0) {
            receive->is_cancelled = 1;
            ssize_t result = fi_cancel(&ep->fid, receive);
            CHECK(result == 0 || result == -FI_ENOENT);
        }
        for (int i = 0; i < 20 && progress(); i++)
            ;
        if (chance(1000) == 0)
            usleep((useconds_t)chance(2000));
    }
    all->finished[me] = 1;
    meet(2);
    /* Messages with one tag must match receives in the order of both posts. */
    for (int from = 0; from < N; from++) {
        long last[CLASSES] = {0};
        for (int i = 0; i < EACH; i++) {
            long *before = &last[class_of(from, me, i)];
            CHECK(met[from][i] != 0 || may_fail(from));
            CHECK(met[from][i] == 0 || met[from][i] > *before);
            if (met[from][i] != 0)
                *before = met[from][i];
        }
    }
    uint64_t count, expected = 0;
    memcpy(&count, memory + N * SLOT, sizeof count);
    for (int i = 0; i < N; i++)
        expected += all->added[i][me];
    /* The dead process may have added once more than it recorded. */
    CHECK(count == expected || (victim >= 0 && count == expected + 1));
    meet(3);
    IS(fi_close(&mr->fid), 0);
    IS(fi_close(&ep->fid), 0);
    IS(fi_close(&cq->fid), 0);
    IS(fi_close(&av->fid), 0);
    IS(fi_close(&domain->fid), 0);
    IS(fi_close(&fabric->fid), 0);
    fi_freeinfo(info);
    _exit(0);
}

static int one_round(void)
{
    state = mix(round_seed);
    int by_emp = chance(2) == 0, is_direct = chance(2) == 0, acts = (int)chance(3);
    int faults = by_emp && chance(2) ? 200 + (int)chance(3000) : 0;
    victim = acts == 0 ? (int)chance(N) : -1;
    char text[64];
    setenv("FI_SOVIA_SHM", by_emp ? "off" : "on", 1);
    unsetenv("FI_SOVIA_FAULTS");
    unsetenv("SOVIA_DIRECT");
    if (!by_emp) {
        unsetenv("FI_SOVIA_SHM");
        if (!is_direct)
            setenv("SOVIA_DIRECT", "off", 1);
    }
    setenv("FI_SOVIA_PLACE", by_emp ? "udp:127.0.0.1:0" : "off", 1);
    /* Repeated tries find a dead process, here in about a minute; a live one runs more often than that. A process
       also gives up by tries if its last acknowledgement was lost after the peer had ended. */
    setenv("FI_SOVIA_TRIES", "60", 1);
    if (faults) {
        snprintf(text, sizeof text, "%d:%llu", faults, (unsigned long long)(round_seed & 0xffff));
        setenv("FI_SOVIA_FAULTS", text, 1);
    }
    printf("seed %llu: by %s, %d of a million frames with each fault, %s\n", (unsigned long long)round_seed,
           by_emp ? "EMP" : is_direct ? "shared memory" : "shared memory alone", faults,
           acts == 0 ? "one is killed" : acts == 1 ? "some stand still" : "undisturbed");
    fflush(stdout);
    memset(all, 0, sizeof *all);
    pid_t processes[N];
    for (me = 0; me < N; me++)
        if ((processes[me] = fork()) == 0)
            one_process();
    int left = N, is_right = 1;
    while (left > 0) {
        if (acts == 1) {
            /* An ended process keeps its id until it has been waited for. */
            pid_t process = processes[chance(N)];
            if (process > 0) {
                kill(process, SIGSTOP);
                usleep((useconds_t)chance(30000));
                kill(process, SIGCONT);
            }
            usleep((useconds_t)chance(30000));
        }
        int status;
        pid_t ended = waitpid(-1, &status, acts == 1 ? WNOHANG : 0);
        for (int i = 0; ended > 0 && i < N; i++) {
            if (processes[i] != ended)
                continue;
            processes[i] = 0;
            left--;
            all->dead[i] = 1;
            int was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
            if (i == victim ? !was_killed : status != 0) {
                if (is_right)
                    fprintf(stderr, "soak: seed %llu: process %d ended with %#x\n", (unsigned long long)round_seed, i, status);
                is_right = 0;
                for (int j = 0; j < N; j++)
                    if (processes[j] > 0)
                        kill(processes[j], SIGKILL);
            }
        }
    }
    return is_right;
}

int main(int argc, char **argv)
{
    long minutes = argc > 1 ? atol(argv[1]) : 0;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL);
    time_t begun = time(NULL);
    all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(all != MAP_FAILED);
    long rounds = 0;
    do {
        round_seed = seed + (uint64_t)rounds++;
        if (!one_round()) {
            printf("wrong: again by `soak 0 %llu`\n", (unsigned long long)round_seed);
            return 1;
        }
    } while (time(NULL) - begun < minutes * 60);
    printf("%ld rounds: right\n", rounds);
    return 0;
}
