// A connection as standard input, output and error, as in a service of inetd; and functions of libc that print
// without a stream.
#include "common.h"

#include <netdb.h>
#include <pty.h>
#include <stdio_ext.h>
#include <syslog.h>
#include <utmp.h>
#include <wchar.h>
#include <wordexp.h>

static char buffer[70000];

static void becomes_standard(struct peer *p, int last) {
    for (int number = 0; number <= last; number++)
        MUST(dup2(p->fd, number));
    MUST(close(p->fd));
}

// Sends a line, receives its result, sends another, and receives the rest.
static void asks(struct peer *p) {
    send_all(p->fd, "first line\nsecond 42 words\n", 27);
    meet(p);
    send_all(p->fd, "last\n", 5);
    MUST(shutdown(p->fd, SHUT_WR));
    ssize_t got = recv(p->fd, buffer, sizeof buffer, MSG_WAITALL);
    say_text("received", buffer, got);
}

static void hears_all(struct peer *p) {
    ssize_t got = recv(p->fd, buffer, sizeof buffer, MSG_WAITALL);
    say_text("received", buffer, got);
}

static void serves(struct peer *p) {
    becomes_standard(p, 2);
    char line[100], word[20];
    int number;
    setvbuf(stdout, NULL, _IOLBF, 0);
    char *first = NULL;
    say("getline %zd", getline(&first, &(size_t){0}, stdin));
    free(first);
    printf("%s\n", "one");
    fprintf(stderr, "two %d\n", 2);
    say("scanf %d", scanf("%19s %d", word, &number));
    printf("%s %d\n", word, number);
    errno = ENOENT;
    perror("three");
    errno = EPIPE;
    perror(NULL);
    errno = 12345;
    perror("");
    psignal(SIGTERM, "four");
    putchar('5');
    fflush(stdout);
    putc('6', stderr);
    meet(p);
    say("rest %d", fgets(line, sizeof line, stdin) != NULL);
    say("last %d", fgets(line, sizeof line, stdin) != NULL && !strcmp(line, "last\n"));
    say("none %d", fgets(line, sizeof line, stdin) == NULL && feof(stdin));
    CALL(fclose(stdin));
    printf("bye\n");
    exit(0);
}

// perror also prints to a standard error of wide characters.
static void serves_wide(struct peer *p) {
    becomes_standard(p, 2);
    wchar_t line[100];
    say("fgetws %d", fgetws(line, 100, stdin) != NULL);
    say("length %zu", wcslen(line));
    wprintf(L"wide %d\n", 7);
    fflush(stdout);
    say("fwide %d", fwide(stderr, 1) > 0);
    errno = ENOENT;
    perror("three");
    meet(p);
    while (fgetws(line, 100, stdin))
        say("fgetws %d", (int)wcslen(line));
    fputws(L"bye\n", stderr);
    exit(0);
}

static void prints(struct peer *p) {
    say("dprintf %d", dprintf(p->fd, "nothing more\n"));
    say("dprintf %d", dprintf(p->fd, "%d %s %c %ld %x %u %d %d\n", 1, "two", '3', 4L, 5, 6u, 7, 8));
    say("dprintf %d", dprintf(p->fd, "%.1f %.1f %.1f %.1f %.1f %.1f %.1f %.1f %.1f %.1Lf %d\n", 1., 2., 3., 4., 5., 6.,
                              7., 8., 9., 10.L, 11));
    say("dprintf %d", dprintf(p->fd, "%2$s %1$s\n", "first", "second"));
    int at = 0;
    say("dprintf %d", dprintf(p->fd, "%s%n\n", "four", &at));
    say("at %d", at);
    say("dprintf %d", dprintf(p->fd, "%5000d\n", 5));
    say("dprintf %d", dprintf(p->fd, "%4095d", 6));
    say("dprintf %d", dprintf(p->fd, "%4096d", 7));
    errno = 0;
    say("dprintf %d %s", dprintf(p->fd, "%ls\n", L"\xffffff"), strerrorname_np(errno));
    MUST(shutdown(p->fd, SHUT_WR));
    signal(SIGPIPE, SIG_IGN);
    errno = 0;
    say("dprintf %d %s", dprintf(p->fd, "late\n"), strerrorname_np(errno));
}

extern int __dprintf_chk(int fd, int flag, const char *format, ...);

static void prints_checked(struct peer *p) {
    say("dprintf %d", __dprintf_chk(p->fd, 1, "%d %s %c %ld %x %u %d %.1f %.1f %d\n", 1, "two", '3', 4L, 5, 6u, 7, 8., 9., 10));
    say("dprintf %d", __dprintf_chk(p->fd, 1, "%5000d\n", 5));
}

static void logs(struct peer *p) {
    MUST(dup2(p->fd, 2));
    openlog("service", LOG_PERROR, LOG_USER);
    send_all(p->fd, "before\n", 7);
    syslog(LOG_DEBUG, "logged %d", 7);
    send_all(p->fd, "after\n", 6);
    MUST(close(2));
}

extern void __syslog_chk(int priority, int flag, const char *format, ...);
extern void __vsyslog_chk(int priority, int flag, const char *format, va_list arguments);

__attribute__((format(printf, 2, 3))) static void logs_by(const char *name, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (!strcmp(name, "vsyslog"))
        vsyslog(LOG_DEBUG, format, arguments);
    else
        __vsyslog_chk(LOG_DEBUG, 1, format, arguments);
    va_end(arguments);
}

static void logs_by_others(struct peer *p) {
    MUST(dup2(p->fd, 2));
    openlog("service", LOG_PERROR, LOG_USER);
    const char *name = p->name + strlen("logs_by_");
    send_all(p->fd, "before\n", 7);
    if (!strcmp(name, "syslog_chk"))
        __syslog_chk(LOG_DEBUG, 1, "logged %d", 7);
    else
        logs_by(name, "logged %d", 7);
    send_all(p->fd, "after\n", 6);
    MUST(close(2));
}

// A terminal takes the three numbers.
static void logs_in(struct peer *p) {
    pid_t child = MUST(fork());
    if (child == 0) {
        int leader, terminal;
        char byte = 0;
        for (int number = 0; number <= 2; number++)
            MUST(dup2(p->fd, number));
        MUST(openpty(&leader, &terminal, NULL, NULL, NULL));
        int failed = login_tty(terminal);
        bool written = write(1, "x", 1) == 1 && read(leader, &byte, 1) == 1 && byte == 'x';
        _exit(failed ? 1 : written ? 7 : 2);
    }
    int status;
    MUST(waitpid(child, &status, 0));
    say_status("child", status);
    send_all(p->fd, "alive\n", 6);
}

// Commands in expanded words read a connection.
static void expands_words(struct peer *p) {
    char text[100];
    snprintf(text, sizeof text, "$(dd bs=1 count=10 status=none <&%d) and more", p->fd);
    wordexp_t words;
    say("wordexp %d", wordexp(text, &words, 0));
    for (size_t i = 0; i < words.we_wordc; i++)
        say("%s", words.we_wordv[i]);
    wordfree(&words);
    meet(p);
    recv_all(p->fd, buffer, 17 + 5);
    say_text("rest", buffer, 22);
    send_all(p->fd, "bye\n", 4);
    CALL(recv(p->fd, buffer, 1, 0));
}

static void prints_past_streams(struct peer *p) {
    MUST(dup2(p->fd, 2));
    send_all(p->fd, "before\n", 7);
    h_errno = HOST_NOT_FOUND;
    herror("name");
    siginfo_t info = {.si_signo = SIGTERM, .si_code = SI_USER, .si_pid = 7, .si_uid = 8};
    psiginfo(&info, "signal");
    send_all(p->fd, "after\n", 6);
    MUST(close(2));
}

// An FTP client uses two files on its control connection: closing one closes the descriptor of
// both.
static void two_files_on_one_number(struct peer *p) {
    FILE *in = fdopen(p->fd, "r"), *out = fdopen(p->fd, "w");
    char line[100];
    for (int i = 0; i < 2; i++)
        say("fgets %d", fgets(line, sizeof line, in) != NULL);
    fprintf(out, "printed %d\r\n", 7);
    CALL(fflush(out));
    meet(p);
    say("fgets %d", fgets(line, sizeof line, in) != NULL);
    say("fgets %d", fgets(line, sizeof line, in) != NULL);
    fprintf(out, "bye\r\n");
    CALL(fflush(out));
    CALL(fclose(in));
    CALL(fclose(out));
}

// Calls on the descriptor between calls on the stream.
static void files_and_calls(struct peer *p) {
    FILE *both = fdopen(p->fd, "r+");
    setvbuf(both, NULL, _IONBF, 0);
    char line[100];
    say("fgetc %c", fgetc(both));
    CALL(read(fileno(both), line, 4));
    say("fgets %s", fgets(line, sizeof line, both) ? line : "nothing");
    say("fputs %d", fputs("by the stream\n", both) >= 0);
    CALL(write(fileno(both), "by a call\n", 10));
    say("fwrite %zu", fwrite("by the stream\n", 1, 14, both));
    CALL(recv(p->fd, line, 16, MSG_WAITALL));
    meet(p);
    CALL(recv(p->fd, line, 5, MSG_WAITALL));
    say("fgetc %d, end %d", fgetc(both), !!feof(both));
    CALL(fclose(both));
}

// Bytes that were not flushed before a fork are flushed twice.
static void forks_unflushed(struct peer *p) {
    becomes_standard(p, 1);
    printf("before the fork\n");
    pid_t child = MUST(fork());
    if (child == 0)
        exit(0);
    int status;
    MUST(waitpid(child, &status, 0));
    printf("of the parent\n");
    exit(0);
}

static void is_reopened(struct peer *p) {
    becomes_standard(p, 1);
    char line[30];
    printf("before\n");
    say("stdin %d", freopen("/dev/null", "r", stdin) == stdin && fileno(stdin) == 0);
    say("fgets %d", fgets(line, sizeof line, stdin) != NULL);
    say("stdout %d", freopen("/dev/null", "w", stdout) == stdout && fileno(stdout) == 1);
    printf("to nowhere\n");
    CALL(fflush(stdout));
}

static void cannot_be_reopened(struct peer *p) {
    becomes_standard(p, 1);
    printf("before\n");
    errno = 0;
    say("stdin %d %s", freopen("/no/such/file", "r", stdin) != NULL, strerrorname_np(errno));
    errno = 0;
    say("stdout %d %s", freopen(NULL, "w", stdout) != NULL, strerrorname_np(errno));
    CALL(fcntl(0, F_GETFD));
    CALL(fcntl(1, F_GETFD));
}

static void handled(int number) { (void)number; }

static void is_interrupted(struct peer *p) {
    becomes_standard(p, 1);
    struct sigaction action = {.sa_handler = handled};
    MUST(sigaction(SIGALRM, &action, NULL));
    char line[100];
    say("fgets %d", fgets(line, sizeof line, stdin) != NULL);
    say("fgets %d", fgets(line, sizeof line, stdin) != NULL);
    ualarm(20000, 20000);
    errno = 0;
    char *got = fgets(line, sizeof line, stdin);
    say("fgets %d %s, error %d", got != NULL, strerrorname_np(errno), !!ferror(stdin));
    ualarm(0, 0);
    clearerr(stdin);
    meet(p);
    say("fgets %d", fgets(line, sizeof line, stdin) != NULL);
    printf("bye\n");
    exit(0);
}

static void *reads_a_line(void *file) {
    char line[100];
    fgets(line, sizeof line, file);
    return NULL;
}

// The stream's lock is free after a thread has been cancelled in a call.
static void is_cancelled(struct peer *p) {
    FILE *in = fdopen(p->fd, "r");
    char line[100];
    for (int i = 0; i < 2; i++)
        say("fgets %d", fgets(line, sizeof line, in) != NULL);
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, reads_a_line, in);
    nap(50);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    say("cancelled %d", result == PTHREAD_CANCELED);
    say("free %d", ftrylockfile(in) == 0);
    funlockfile(in);
    meet(p);
    say("fgets %s", fgets(line, sizeof line, in) ? line : "nothing");
    CALL(fclose(in));
}

enum { THREADS = 4, LINES = 1000 };

static void *writes_lines(void *file) {
    for (int i = 0; i < LINES; i++)
        fprintf(file, "line %04d of a thread\n", i);
    return NULL;
}

static void threads_share_a_file(struct peer *p) {
    FILE *out = fdopen(p->fd, "w");
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, writes_lines, out);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CALL(fclose(out));
}

static void counts_lines(struct peer *p) {
    FILE *in = fdopen(p->fd, "r");
    int lines = 0, number, sum = 0;
    char end[30];
    while (fscanf(in, "line %d of a%29[^\n]\n", &number, end) == 2 && !strcmp(end, " thread")) {
        lines++;
        sum += number;
    }
    say("%d lines, sum %d", lines, sum);
    CALL(fclose(in));
}

// The peer has ended.
static void writes_to_nobody(struct peer *p) {
    becomes_standard(p, 1);
    signal(SIGPIPE, SIG_IGN);
    meet(p);
    nap(50);
    int failed = 0;
    for (int i = 0; i < 1000 && !failed; i++)
        failed = printf("to nobody\n") < 0 || fflush(stdout) != 0;
    say("failed %d %s, error %d", failed, strerrorname_np(errno), !!ferror(stdout));
    say("getchar %d", getchar());
}

static void leaves(struct peer *p) {
    struct linger at_once = {1, 0};
    MUST(setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once));
    MUST(close(p->fd));
    meet(p);
}

// The number of a stream of popen.
static void takes_a_pipes_number(struct peer *p) {
    FILE *pipe = popen("true", "w");
    setbuf(pipe, NULL);
    MUST(dup2(p->fd, fileno(pipe)));
    fputs("by the pipe's stream\n", pipe);
    send_all(p->fd, "by a call\n", 10);
    say("pclose %d", pclose(pipe));
}

// Puts a file at one of the numbers of a service.
static void becomes(int number, int fd) {
    if (fd < 0)
        close(number);
    else
        MUST(dup2(fd, number));
}

static void takes(const char *what, int in, int out, int err) {
    int numbers[] = {in, out, err};
    for (int number = 0; number <= 2; number++)
        becomes(number, numbers[number]);
    clearerr(stdin);
    clearerr(stdout);
    clearerr(stderr);
    char line[100];
    errno = 0;
    char *got = fgets(line, sizeof line, stdin);
    say("%s: stdin %s%s", what, got ? got : "none, ", got ? "" : strerrorname_np(errno));
    errno = 0;
    bool printed = printf("printed with %s\n", what) >= 0 && fflush(stdout) == 0;
    say("%s: stdout %d %s", what, printed, printed ? "0" : strerrorname_np(errno));
    __fpurge(stdout);
    errno = 0;
    bool logged = fprintf(stderr, "logged with %s\n", what) >= 0;
    say("%s: stderr %d %s", what, logged, logged ? "0" : strerrorname_np(errno));
}

// Starts like a service of inetd, but one or more of its numbers are a pipe, a file, a device, or
// closed.
static void has_others_at_its_numbers(struct peer *p) {
    int null = MUST(open("/dev/null", O_RDWR)), full = MUST(open("/dev/full", O_RDWR)), pipes[2];
    char path[512], *text = NULL;
    size_t room = 0;
    MUST(pipe(pipes));
    MUST(write(pipes[1], "by a pipe\n", 10));
    snprintf(path, sizeof path, "%s/log", p->dir);
    int file = MUST(open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600));
    // One line at a time, because bytes read ahead would belong to the next process.
    setbuf(stdin, NULL);
    takes("a pipe, the connection and nothing", pipes[0], p->fd, null);
    takes("nothing, the connection and a file", null, p->fd, file);
    takes("the connection and a file", p->fd, file, file);
    takes("the connection, a full device and the connection", p->fd, full, p->fd);
    takes("closed, the connection and closed", -1, p->fd, -1);
    takes("the connection alone", p->fd, -1, -1);
    takes("all closed", -1, -1, -1);
    takes("a pipe's wrong ends", pipes[1], pipes[0], pipes[0]);
    FILE *log = fopen(path, "r");
    while (getline(&text, &room, log) > 0)
        say("log: %s", text);
    fclose(log);
    free(text);
    say_alive(p->fd, false, "at the end");
}

static void asks_a_service_in_part(struct peer *p) {
    FILE *in = fdopen(MUST(dup(p->fd)), "r");
    char line[100];
    setbuf(in, NULL);
    send_all(p->fd, "first\nsecond\nthird\n", 19);
    for (int i = 0; i < 4; i++)
        say("line: %s", fgets(line, sizeof line, in));
    say_alive(p->fd, true, "at the end");
}

static const struct scenario scenarios[] = {
    {"a_service_on_0_1_and_2", asks, serves},
    {"a_service_of_wide_characters", asks, serves_wide},
    {"prints_without_a_stream", hears_all, prints},
    {"prints_without_a_stream_checked", hears_all, prints_checked},
    {"logs_to_standard_error", hears_all, logs},
    {"logs_by_syslog_chk", hears_all, logs_by_others},
    {"logs_by_vsyslog", hears_all, logs_by_others},
    {"logs_by_vsyslog_chk", hears_all, logs_by_others},
    {"a_terminal_takes_0_1_and_2", hears_all, logs_in},
    {"words_are_expanded_by_a_command", asks, expands_words},
    {"libc_prints_past_its_streams", hears_all, prints_past_streams},
    {"two_files_on_one_number", asks, two_files_on_one_number},
    {"files_and_calls_in_turn", asks, files_and_calls},
    {"what_a_fork_finds_unflushed", hears_all, forks_unflushed},
    {"standard_streams_are_reopened", hears_all, is_reopened},
    {"standard_streams_cannot_be_reopened", hears_all, cannot_be_reopened},
    {"a_handler_interrupts_a_stream", asks, is_interrupted},
    {"a_thread_is_cancelled_in_a_stream", asks, is_cancelled},
    {"threads_share_a_file", counts_lines, threads_share_a_file},
    {"a_stream_to_nobody", leaves, writes_to_nobody},
    {"a_connection_takes_the_number_of_a_pipe", hears_all, takes_a_pipes_number},
    {"a_service_whose_numbers_are_others", asks_a_service_in_part, has_others_at_its_numbers},
};
SCENARIO_MAIN(scenarios)
