/* Runs as another user, and abuses the notification sockets between itself and a server. Of some, this process owns one
 * end, and the server sends to the other end. The server has handed over others.
 *
 *     bells PORT MODE
 *
 * Sends requests to a Redis server until the connection is accelerated. Then begins the abuse, prints "begun", and goes on
 * until it is killed. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST = 256, NUMBERS = 256, COPIES = 600, PAGE = 4096 };
static int bells[MOST];
static _Atomic int count;
static struct sockaddr_in server;

static void fail(const char *what)
{
	fprintf(stderr, "bells: %s: %s\n", what, strerror(errno));
	_exit(2);
}

/* The calls below go to the kernel by number, because the library hides these descriptors from the program. */

static int is_bell(int fd)
{
	int domain, type;
	socklen_t len = sizeof domain;
	if (syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) != 0 || domain != AF_UNIX)
		return 0;
	len = sizeof type;
	return syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_STREAM;
}

/* Copies each notification socket as soon as it exists, because the library keeps none of those that it
 * has handed over. */
static void *copy_bells(void *unused)
{
	static ino_t known[MOST];
	struct rlimit limit;
	getrlimit(RLIMIT_NOFILE, &limit);
	/* The library's descriptors are in the last quarter of the numbers, but not above 4096. */
	const int numbers = limit.rlim_cur < 4096 ? limit.rlim_cur : 4096, from = numbers - numbers / 4;
	for (;;)
		for (int fd = from; fd < from + NUMBERS; fd++) {
			struct stat about;
			int n = 0;
			if (count == MOST || !is_bell(fd) || syscall(SYS_fstat, fd, &about) != 0)
				continue;
			while (n < count && known[n] != about.st_ino)
				n++;
			if (n < count)
				continue;
			int copy = syscall(SYS_fcntl, fd, F_DUPFD, COPIES);
			if (copy < 0)
				continue;
			known[n] = about.st_ino;
			bells[n] = copy;
			count = n + 1;
		}
	return unused;
}

static int connected(void)
{
	int s = socket(AF_INET, SOCK_STREAM, 0);
	if (s < 0 || connect(s, (struct sockaddr *)&server, sizeof server) != 0)
		fail("connect");
	setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	return s;
}

static void ask(int s)
{
	char answer[64];
	if (send(s, "PING\r\n", 6, MSG_NOSIGNAL) != 6 || recv(s, answer, sizeof answer, 0) <= 0)
		fail("the server");
}

/* Makes a socket whose close takes an hour, because it has bytes that its peer does not read. */
static int lingering(void)
{
	int listener = syscall(SYS_socket, AF_INET, SOCK_STREAM, 0), s = syscall(SYS_socket, AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof at;
	static char bytes[1 << 16];
	syscall(SYS_bind, listener, &at, len);
	syscall(SYS_listen, listener, 1);
	syscall(SYS_getsockname, listener, &at, &len);
	syscall(SYS_connect, s, &at, len);
	while (syscall(SYS_sendto, s, bytes, sizeof bytes, MSG_DONTWAIT, NULL, 0) > 0)
		;
	struct linger linger = {1, 3600};
	syscall(SYS_setsockopt, s, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
	return s;
}

static void send_lingering(int bell, int flags)
{
	int s = lingering();
	char byte = 7;
	struct iovec part = {&byte, 1};
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr header;
	} control = {.header = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
	memcpy(CMSG_DATA(&control.header), &s, sizeof s);
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
	if (syscall(SYS_sendmsg, bell, &message, flags | MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
		struct linger none = {1, 0};
		syscall(SYS_setsockopt, s, SOL_SOCKET, SO_LINGER, &none, sizeof none);
	}
	/* This process keeps a copy, so the child is killed with it. */
}

/* Receives into memory that a page fault never provides. The socket's lock for readers is held
 * meanwhile. */
static void *hold(void *at)
{
	int bell = *(int *)at;
	int faults = syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffdio_api api = {.api = UFFD_API};
	void *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register range = {.range = {(unsigned long)memory, PAGE}, .mode = UFFDIO_REGISTER_MODE_MISSING};
	if (faults < 0 || ioctl(faults, UFFDIO_API, &api) != 0 || ioctl(faults, UFFDIO_REGISTER, &range) != 0)
		fail("userfaultfd");
	syscall(SYS_fcntl, bell, F_SETFL, 0);
	for (;;)
		syscall(SYS_recvfrom, bell, memory, 1, 0, NULL, NULL);
	return NULL;
}

static void *repeat(void *mode)
{
	char bytes[PAGE] = {0};
	for (;;)
		for (int i = 0; i < count; i++) {
			const int now = MSG_DONTWAIT | MSG_NOSIGNAL;
			if (strcmp(mode, "floods") == 0)
				syscall(SYS_sendto, bells[i], bytes, 1, now, NULL, 0);
			else if (strcmp(mode, "floods_out_of_band") == 0)
				syscall(SYS_sendto, bells[i], bytes, 1, now | MSG_OOB, NULL, 0);
			else if (strcmp(mode, "steals") == 0)
				syscall(SYS_recvfrom, bells[i], bytes, sizeof bytes, now, NULL, NULL);
			else
				syscall(SYS_shutdown, bells[i], i % 2 ? SHUT_WR : SHUT_RDWR);
		}
	return NULL;
}

static void begin(const char *mode)
{
	pthread_t thread;
	if (strcmp(mode, "holds_locks") == 0) {
		/* Each end has a byte to receive. */
		for (int i = 0; i < count; i++)
			syscall(SYS_sendto, bells[i], "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);
		for (int i = 0; i < count; i++)
			pthread_create(&thread, NULL, hold, &bells[i]);
	} else if (strcmp(mode, "sends_what_lingers") == 0) {
		for (int i = 0; i < count; i++) {
			send_lingering(bells[i], i % 2 ? MSG_OOB : 0);
			syscall(SYS_sendto, bells[i], "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);
		}
	} else if (strcmp(mode, "changes_options") == 0) {
		for (int i = 0; i < count; i++) {
			const int one = 1, offset = 7;
			syscall(SYS_fcntl, bells[i], F_SETFL, O_ASYNC);
			syscall(SYS_setsockopt, bells[i], SOL_SOCKET, SO_SNDBUF, &one, sizeof one);
			syscall(SYS_setsockopt, bells[i], SOL_SOCKET, SO_RCVBUF, &one, sizeof one);
			syscall(SYS_setsockopt, bells[i], SOL_SOCKET, SO_PEEK_OFF, &offset, sizeof offset);
		}
	} else if (strcmp(mode, "lets_go") == 0) {
		for (int i = 0; i < count; i++)
			syscall(SYS_close, bells[i]);
	} else {
		pthread_create(&thread, NULL, repeat, (void *)mode);
	}
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	server = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
	server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	pthread_t thread;
	pthread_create(&thread, NULL, copy_bells, NULL);
	int s = connected();
	/* Seven ends belong to this process, and seven to the server. It copies those that are handed over, if it is fast.
	 * The test's watchdog ends a process that never meets its peer. */
	while (count < 14)
		for (int i = 0; i < 500; i++)
			ask(s);
	begin(argv[2]);
	printf("begun\n");
	fflush(stdout);
	/* Keep sending requests, so that the server has a reason to wake this process. The results do not matter. */
	char answer[64];
	for (;;) {
		(void)!send(s, "PING\r\n", 6, MSG_NOSIGNAL | MSG_DONTWAIT);
		(void)!recv(s, answer, sizeof answer, MSG_DONTWAIT);
		usleep(1000);
	}
}
