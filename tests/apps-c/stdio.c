// Streams as standard input and output, and as FILE pointers.
#include "common.h"

static char buffer[70000];

static void asks(struct peer *p) {
    send_all(p->fd, "first line\nsecond 42 words\n", 27);
    ssize_t got = recv(p->fd, buffer, 34, MSG_WAITALL);
    say_text("received", buffer, got);
    meet(p);
    send_all(p->fd, "last\n", 5);
    MUST(shutdown(p->fd, SHUT_WR));
    got = recv(p->fd, buffer, sizeof buffer, MSG_WAITALL);
    say_text("received", buffer, got);
}

static void standard(struct peer *p) {
    CALL(dup2(p->fd, 0));
    CALL(dup2(p->fd, 1));
    CALL(close(p->fd));
    char line[100], word[20];
    int number;
    if (!fgets(line, sizeof line, stdin))
        die("no line");
    say_text("line", line, strlen(line));
    say("scanf %d", scanf("%19s %d %19s", word, &number, line));
    say("%s %d %s", word, number, line);
    printf("printed %d\n", 7);
    puts("and put");
    fputs("without a newline", stdout);
    CALL(fflush(stdout));
    meet(p);
    if (getchar() != '\n' || !fgets(line, sizeof line, stdin))
        die("no last line");
    say_text("line", line, strlen(line));
    say("end of file: %d", fgets(line, sizeof line, stdin) == NULL && feof(stdin));
    printf("bye\n");
    exit(0); // flushes
}

static void file_pointers(struct peer *p) {
    FILE *in = fdopen(p->fd, "r"), *out = fdopen(dup(p->fd), "w");
    char *line = NULL;
    size_t room = 0;
    say("fileno %d", fileno(in) == p->fd);
    say("getline %zd", getline(&line, &room, in));
    say("getline %zd", getline(&line, &room, in));
    fprintf(out, "printed %d\n", 7);
    fwrite("and put\n", 1, 8, out);
    setvbuf(out, NULL, _IONBF, 0);
    fputs("without a newline", out);
    meet(p);
    say("getline %zd", getline(&line, &room, in));
    say("getline %zd", getline(&line, &room, in));
    say("end of file %d, error %d", !!feof(in), !!ferror(in));
    fprintf(out, "bye\n");
    CALL(fclose(out));
    CALL(fclose(in));
    CALL(write(p->fd, "x", 1));
    free(line);
}

static void direct(struct peer *p) {
    FILE *both = fdopen(p->fd, "r+");
    setbuf(both, NULL);
    char line[100];
    for (int i = 0; i < 2; i++)
        if (fgets(line, sizeof line, both))
            say_text("line", line, strlen(line));
    say("dprintf %d", dprintf(p->fd, "printed %d\n", 7));
    fputs("and put\n", both);
    fputs("without a newline", both);
    meet(p);
    say("fread %zu", fread(line, 1, 50, both));
    fputs("bye\n", both);
    CALL(fclose(both));
}

// A large transfer by fwrite and fread
static void writes_files(struct peer *p) {
    FILE *out = fdopen(p->fd, "w");
    for (int i = 0; i < 300; i++) {
        fill(buffer, 10000, i * 10000);
        if (fwrite(buffer, 100, 100, out) != 100)
            die("fwrite of piece %d: %s", i, strerrorname_np(errno));
    }
    CALL(fclose(out));
}

static void reads_files(struct peer *p) {
    FILE *in = fdopen(p->fd, "r");
    size_t got, total = 0;
    bool right = true;
    while ((got = fread(buffer, 1, 7777, in)) > 0) {
        right = right && matches(buffer, got, total);
        total += got;
    }
    say("%zu bytes, %s", total, right ? "right" : "WRONG");
    fclose(in);
}

// Reads and writes in turn on one buffered stream. libc must seek in between, which a connection cannot.
static void turns(struct peer *p) {
    FILE *both = fdopen(p->fd, "r+");
    char line[100];
    for (int i = 0; i < 2; i++)
        if (fgets(line, sizeof line, both))
            say_text("line", line, strlen(line));
    errno = 0;
    say("puts %d", fputs("printed 7\nand put\nwithout a newline", both) >= 0);
    say("flush %d %s", fflush(both), errno ? strerrorname_np(errno) : "0");
    errno = 0;
    say("ftell %ld %s", ftell(both), errno ? strerrorname_np(errno) : "0");
    errno = 0;
    say("fseek %d %s", fseek(both, 1, SEEK_SET), errno ? strerrorname_np(errno) : "0");
    errno = 0;
    say("rewound, error %d", (rewind(both), !!ferror(both)));
    meet(p);
    say("getline %zd", fgets(line, sizeof line, both) ? (ssize_t)strlen(line) : -1);
    CALL(fclose(both));
}

static void takes_turns(struct peer *p) {
    send_all(p->fd, "first line\nsecond 42 words\n", 27);
    meet(p);
    send_all(p->fd, "last\n", 5);
    MUST(shutdown(p->fd, SHUT_WR));
    ssize_t got = recv(p->fd, buffer, sizeof buffer, MSG_WAITALL);
    say_text("received", buffer, got);
}

// Leaves bytes in libc's buffer when the program ends.
static void leaves_to_exit(struct peer *p) {
    FILE *out = fdopen(p->fd, "w");
    fprintf(out, "never flushed %d\n", 7);
    say("fileno %d", fileno(out) == p->fd);
    say("unlocked %d", fileno_unlocked(out) == p->fd);
    exit(0);
}

static void hears_the_end(struct peer *p) {
    ssize_t got = recv(p->fd, buffer, sizeof buffer, MSG_WAITALL);
    say_text("received", buffer, got);
}

// Another file takes the stream, and its number.
static void reopens(struct peer *p) {
    FILE *out = fdopen(p->fd, "w");
    fprintf(out, "before\n");
    out = freopen("/dev/null", "w", out);
    say("number kept %d", fileno(out) == p->fd);
    say("to nowhere %d", fprintf(out, "to nowhere\n"));
    CALL(fclose(out));
}

// A stream and its copy in a child write the bytes that each has put into it.
static void forks_with_a_file(struct peer *p) {
    FILE *out = fdopen(p->fd, "w");
    fprintf(out, "before the fork\n");
    fflush(out);
    pid_t child = MUST(fork());
    if (child == 0) {
        fprintf(out, "of the child\n");
        fclose(out);
        _exit(0);
    }
    int status;
    MUST(waitpid(child, &status, 0));
    fprintf(out, "of the parent\n");
    CALL(fclose(out));
    CALL(write(p->fd, "x", 1));
}

// The stream reports errors of the connection.
static void waits_in_a_file(struct peer *p) {
    FILE *in = fdopen(p->fd, "r");
    MUST(fcntl(p->fd, F_SETFL, O_NONBLOCK));
    errno = 0;
    say("getc %d %s, end %d, error %d", getc(in), errno ? strerrorname_np(errno) : "0", !!feof(in), !!ferror(in));
    clearerr(in);
    MUST(fcntl(p->fd, F_SETFL, 0));
    meet(p);
    int c = getc(in);
    say("getc %c, ungetc %c, getc %c", c, ungetc('y', in), getc(in));
    char line[20];
    errno = 0;
    say("fputs %d %s", fputs("x", in), errno ? strerrorname_np(errno) : "0");
    clearerr(in);
    say("fgets %s", fgets(line, sizeof line, in) ? "a line" : "nothing");
    say("getc %d, end %d, error %d", getc(in), !!feof(in), !!ferror(in));
    CALL(fclose(in));
}

static void answers_a_file(struct peer *p) {
    meet(p);
    send_all(p->fd, "a line\n", 7);
}

static void wrong_modes(struct peer *p) {
    for (const char *const *mode = (const char *const[]){"", "x", "+r", "rb+", "wce", "a+", NULL}; *mode; mode++) {
        errno = 0;
        FILE *file = fdopen(dup(p->fd), *mode);
        say("fdopen %s %d %s", *mode, file != NULL, errno ? strerrorname_np(errno) : "0");
        say("appends %d", !!(fcntl(p->fd, F_GETFL) & O_APPEND));
        if (file)
            CALL(fclose(file));
    }
    send_all(p->fd, "done\n", 5);
}

// A stream that existed before the connection, and calls on its number.
static void file_before_connect(struct peer *p) {
    int fd = MUST(socket(AF_INET, SOCK_STREAM, 0));
    FILE *file = fdopen(fd, "r+");
    setbuf(file, NULL);
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port_of(p, "early"))};
    MUST(connect(fd, (struct sockaddr *)&to, sizeof to));
    warm(fd, false);
    fputs("by the stream\n", file);
    send_all(fd, "by a call\n", 10);
    char line[30];
    say("fgets %s", fgets(line, sizeof line, file) ? line : "nothing");
    CALL(recv(fd, buffer, 5, MSG_WAITALL));
    CALL(fclose(file));
}

static void accepts_a_file(struct peer *p) {
    int listener = listen_on(p, AF_INET, "early"), fd = accept_one(listener);
    warm(fd, true);
    ssize_t got = recv(fd, buffer, 24, MSG_WAITALL);
    say_text("received", buffer, got);
    send_all(fd, "a line\nrest!", 12);
    CALL(recv(fd, buffer, 1, 0));
}

// A connection takes the descriptor number of a libc stream.
static void takes_a_files_number(struct peer *p) {
    FILE *file = fopen("/dev/null", "r+");
    setbuf(file, NULL);
    MUST(dup2(p->fd, fileno(file)));
    fputs("by libc's stream\n", file);
    send_all(p->fd, "by a call\n", 10);
    CALL(fclose(file));
}

// A file of another kind takes the stream.
static void reopens_mapped(struct peer *p) {
    FILE *in = fdopen(p->fd, "r");
    in = freopen("/proc/self/comm", "rm", in);
    char line[30];
    say("mapped %d", in && fgets(line, sizeof line, in) != NULL);
    in = in ? freopen("/dev/null", "r,ccs=UTF-8", in) : NULL;
    say("wide %d", in && fgets(line, sizeof line, in) == NULL);
    if (in)
        CALL(fclose(in));
}

static int run_with_stream(struct peer *p, char *const arguments[]) {
    pid_t child = MUST(fork());
    int status;
    if (child == 0) {
        MUST(dup2(p->fd, 0));
        MUST(dup2(p->fd, 1));
        execvp(arguments[0], arguments);
        _exit(99);
    }
    MUST(waitpid(child, &status, 0));
    return status;
}

static void becomes_cat(struct peer *p) {
    say_status("cat", run_with_stream(p, (char *[]){"cat", NULL}));
    // The child has read to the end; the stream is still open for writing here.
    send_all(p->fd, "after cat", 9);
}

static void talks_to_cat(struct peer *p) {
    for (int i = 0; i < 10; i++) {
        fill(buffer, 1000, i * 1000);
        send_all(p->fd, buffer, 1000);
        recv_pattern(p->fd, i * 1000, 1000, 1000);
    }
    say("ten round trips with cat");
    send_all(p->fd, "end of it", 9);
    MUST(shutdown(p->fd, SHUT_WR));
    long got = recv(p->fd, buffer, 18, MSG_WAITALL);
    say_text("received", buffer, got);
    CALL(recv(p->fd, buffer, 1, 0));
}

// The new program reads the bytes that arrived before the exec.
static void becomes_cat_late(struct peer *p) {
    meet(p);
    await_bytes(p->fd, 1000);
    recv_pattern(p->fd, 0, 100, 100);
    say_status("cat", run_with_stream(p, (char *[]){"cat", NULL}));
}

static void sends_before_cat(struct peer *p) {
    send_pattern(p->fd, 0, 1000, 1000);
    meet(p);
    nap(150);
    send_pattern(p->fd, 1000, 50000, 10000);
    MUST(shutdown(p->fd, SHUT_WR));
    drain_to_eof(p->fd, 100);
}

static void becomes_shell(struct peer *p) {
    int status = run_with_stream(p, (char *[]){"sh", "-c", "read a b; echo \"got $b $a\"; read c; echo \"and $c\"; exit 5", NULL});
    say_status("sh", status);
}

static void talks_to_shell(struct peer *p) {
    send_all(p->fd, "one two\n", 8);
    say_text("received", buffer, recv(p->fd, buffer, 12, MSG_WAITALL));
    send_all(p->fd, "three\n", 6);
    say_text("received", buffer, recv(p->fd, buffer, 10, MSG_WAITALL));
    CALL(recv(p->fd, buffer, 1, 0));
}

// The process itself becomes the program, without a fork.
static void execs_itself_away(struct peer *p) {
    MUST(dup2(p->fd, 0));
    MUST(dup2(p->fd, 1));
    MUST(dup2(p->fd, 2));
    close(p->fd);
    close(p->listener);
    execlp("cat", "cat", NULL);
    die("exec");
}

static void cat_is_replaced(struct peer *p) {
    send_all(p->fd, "end of it", 9);
    long got = recv(p->fd, buffer, 9, MSG_WAITALL);
    say_text("received", buffer, got);
    nap(50);
    talks_to_cat(p);
}

static void only_output(struct peer *p) {
    pid_t child = MUST(fork());
    int status;
    if (child == 0) {
        MUST(dup2(p->fd, 1));
        execlp("seq", "seq", "1", "20000", NULL);
        _exit(99);
    }
    MUST(waitpid(child, &status, 0));
    say_status("seq", status);
    send_all(p->fd, "done\n", 5);
    close(p->fd);
}

static void counts_output(struct peer *p) {
    uint32_t sum = CHECKSUM_START;
    long total = 0, got;
    while ((got = recv(p->fd, buffer, sizeof buffer, 0)) > 0) {
        sum = checksum(sum, buffer, got);
        total += got;
    }
    say("%ld bytes, checksum %08x", total, sum);
}

// The descriptor is closed under two FILEs, and a pipe gets its number.
static void closes_under_files(struct peer *p) {
    FILE *in = fdopen(p->fd, "r"), *out = fdopen(p->fd, "w");
    int kept = MUST(dup(p->fd)), number = p->fd, pipes[2];
    char line[100];
    MUST(pipe(pipes));
    say("line %d", fgets(line, sizeof line, in) != NULL && !strcmp(line, "first line\n"));
    fputs("unflushed", out);
    CALL(close(number));
    CALL(fflush(out));
    say("error %d", !!ferror(out));
    clearerr(out);
    setvbuf(out, NULL, _IONBF, 0);
    CALL(fputs("nowhere", out));
    // The stream still has the bytes that it had read ahead.
    say("line %d", fgets(line, sizeof line, in) != NULL && !strcmp(line, "second 42 words\n"));
    CALL(fgetc(in));
    say("end %d, error %d, number %d", !!feof(in), !!ferror(in), fileno(in) == number);
    say("taken %d", dup2(pipes[1], number) == number);
    clearerr(out);
    say("puts %d", fputs("into the pipe", out) >= 0);
    ssize_t got = read(pipes[0], line, sizeof line);
    say_text("the pipe has", line, got);
    CALL(fclose(out));
    CALL(fclose(in));
    send_all(kept, "by another number\n", 18);
    meet(p);
    recv_all(kept, line, 5);
    say_text("received", line, 5);
    CALL(close(kept));
}

static void asks_beside(struct peer *p) {
    send_all(p->fd, "first line\nsecond 42 words\n", 27);
    recv_all(p->fd, buffer, 18);
    meet(p);
    send_all(p->fd, "last\n", 5);
    drain_to_eof(p->fd, 0);
}

static const struct scenario scenarios[] = {
    {"printf_and_fgets_on_0_and_1", asks, standard},
    {"fdopen_reads_and_writes", asks, file_pointers},
    {"one_unbuffered_file_for_both", asks, direct},
    {"much_through_fwrite_and_fread", reads_files, writes_files},
    {"reads_and_writes_in_turn", takes_turns, turns},
    {"exit_flushes_a_file", hears_the_end, leaves_to_exit},
    {"a_file_is_reopened", hears_the_end, reopens},
    {"a_file_in_a_child", hears_the_end, forks_with_a_file},
    {"a_file_that_must_wait", answers_a_file, waits_in_a_file},
    {"modes_of_a_file", hears_the_end, wrong_modes},
    {"a_file_before_the_connection", accepts_a_file, file_before_connect},
    {"a_connection_takes_the_number_of_a_file", hears_the_end, takes_a_files_number},
    {"a_file_is_reopened_as_others", hears_the_end, reopens_mapped},
    {"exec_of_cat_on_a_stream", becomes_cat, talks_to_cat},
    {"exec_leaves_unread_bytes_to_cat", becomes_cat_late, sends_before_cat},
    {"exec_of_a_shell_on_a_stream", becomes_shell, talks_to_shell},
    {"becoming_cat_without_a_fork", execs_itself_away, cat_is_replaced},
    {"exec_of_a_writer_on_a_stream", only_output, counts_output},
    {"a_file_whose_number_is_closed", asks_beside, closes_under_files},
};
SCENARIO_MAIN(scenarios)
