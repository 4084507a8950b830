/* Tests that a program that gains privileges has nothing of Sovia but the library's code. It echoes over a connection
   of its own, with epoll and a forked child. It counts its descriptors, looks at its memory, and asks for an io_uring
   ring. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <unistd.h>
#include <dirent.h>
#include <dlfcn.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <netinet/in.h>

enum { ROUNDS = 1000 };

static int ask(const struct sockaddr_in *address) {
    char answer[64];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (const struct sockaddr *)address, sizeof *address) != 0)
        return 1;
    for (int i = 0; i < ROUNDS; i++)
        if (write(fd, "ping", 4) != 4 || read(fd, answer, sizeof answer) != 4)
            return 2;
    return 0;
}

int main(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    int set = epoll_create1(0);
    if (bind(listener, (struct sockaddr *)&address, len) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &len) != 0)
        return 1;
    pid_t child = fork();
    if (child == 0)
        _exit(ask(&address));
    int fd = accept(listener, NULL, NULL);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
    for (;;) {
        char bytes[64];
        epoll_wait(set, &event, 1, -1);
        ssize_t n = read(fd, bytes, sizeof bytes);
        if (n <= 0)
            break;
        if (write(fd, bytes, n) != n)
            return 2;
    }
    int status;
    waitpid(child, &status, 0);
    int descriptors = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder) != NULL)
        descriptors++;
    closedir(folder);
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    int code = 0, memory = 0;
    while (fgets(line, sizeof line, maps) != NULL) {
        code |= strstr(line, "libsovia_preload") != NULL;
        memory |= strstr(line, "memfd:sovia") != NULL;
    }
    /* A ring with zero entries is always refused; the error shows why. */
    syscall(SYS_io_uring_setup, 0, NULL);
    int rings = errno;
    unsigned (*stands_aside)(void) = (unsigned (*)(void))dlsym(RTLD_DEFAULT, "sovia_stands_aside");
    unsigned aside = stands_aside != NULL ? stands_aside() : 0;
    printf("secure %lu child %d descriptors %d code %d memory %d rings %d aside %u\n", getauxval(AT_SECURE), status, descriptors, code, memory,
           rings, aside);
    return 0;
}
