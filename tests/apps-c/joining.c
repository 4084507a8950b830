// Programs that take over streams from the process that executes them, at rare moments and in rare ways.
#include "common.h"
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>

extern char **environ;
enum { STREAMS = 60, TURNS = 30, LETTERS = 64 };

static char number[16], turn[16];

// --- the program

// Answers requests from turn `from` on. Turn n has the letters n to n + 63.
static void answers_letters(int fd, int from) {
    char letters[LETTERS];
    for (int n = from; n < TURNS; n++) {
        recv_all(fd, letters, LETTERS);
        for (int i = 0; i < LETTERS; i++)
            if (letters[i] != (char)(n + i))
                die("letter %d of turn %d", i, n);
        send_all(fd, letters, LETTERS);
    }
}

// Returns the number of the library's descriptors that this program has inherited.
static int counts_descriptors(void) {
    int found = 0;
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; (entry = readdir(folder));)
        found += atoi(entry->d_name) >= 1000;
    closedir(folder);
    return found != 0;
}

static int is_program(char **argv) {
    if (strcmp(argv[2], "counts") == 0)
        return counts_descriptors();
    answers_letters(atoi(argv[3]), atoi(argv[4]));
    return 0;
}

static char **program(struct peer *p, int fd, int from) {
    static char *arguments[6];
    snprintf(number, sizeof number, "%d", fd);
    snprintf(turn, sizeof turn, "%d", from);
    char *all[6] = {(char *)p->self, "--program", "answers", number, turn, NULL};
    memcpy(arguments, all, sizeof arguments);
    return arguments;
}

// --- an exec at any moment of the rendezvous, while threads make calls

static void *looks_on(void *fd) {
    char byte;
    for (;;)
        recv(*(int *)fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return NULL;
}

static void answers_and_becomes(struct peer *p, int fd, int turns, bool by_vfork) {
    char letters[LETTERS];
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, looks_on, &fd);
    for (int n = 0; n < turns; n++) {
        recv_all(fd, letters, LETTERS);
        send_all(fd, letters, LETTERS);
    }
    char **arguments = program(p, fd, turns);
    if (!by_vfork || vfork() == 0) {
        execv(p->self, arguments);
        _exit(99);
    }
    int status;
    MUST(wait(&status));
    _exit(status != 0);
}

static void serves_amid(struct peer *p, bool by_vfork) {
    int whole = 0, status;
    p->listener = listen_on(p, AF_INET, "port2");
    MUST(fcntl(p->listener, F_SETFD, FD_CLOEXEC));
    for (int i = 0; i < STREAMS; i++) {
        int fd = accept_one(p->listener);
        pid_t child = MUST(fork());
        if (child == 0)
            answers_and_becomes(p, fd, 1 + i % 6, by_vfork);
        close(fd);
        MUST(waitpid(child, &status, 0));
        whole += status == 0;
    }
    say("%d of %d programs have answered all", whole, STREAMS);
}

static void serves_amid_the_rendezvous(struct peer *p) { serves_amid(p, false); }
static void vforks_amid_the_rendezvous(struct peer *p) { serves_amid(p, true); }

static void sends_letters(struct peer *p) {
    char letters[LETTERS], back[LETTERS];
    for (int i = 0; i < STREAMS; i++) {
        int fd = connect_to(p, AF_INET, "port2");
        for (int n = 0; n < TURNS; n++) {
            for (int k = 0; k < LETTERS; k++)
                letters[k] = (char)(n + k);
            send_all(fd, letters, LETTERS);
            recv_all(fd, back, LETTERS);
            if (memcmp(letters, back, LETTERS))
                die("other letters in turn %d of stream %d", n, i);
        }
        close(fd);
    }
}

// --- execs that fail, while another thread starts programs

static struct peer *of_threads;

static void *fails_to_exec(void *stop) {
    static char huge[200000];
    memset(huge, 'x', sizeof huge - 1);
    char *arguments[] = {(char *)of_threads->self, huge, NULL};
    while (!*(atomic_bool *)stop)
        execv(of_threads->self, arguments);
    return NULL;
}

static void starts_programs_amid_failures(struct peer *p) {
    char *none[] = {NULL}, *counts[] = {(char *)p->self, "--program", "counts", NULL};
    static atomic_bool stop;
    pthread_t thread;
    int status, clean = 0;
    of_threads = p;
    pthread_create(&thread, NULL, fails_to_exec, &stop);
    for (int i = 0; i < 300; i++) {
        pid_t child = MUST(i % 2 ? fork() : vfork());
        if (child == 0) {
            close(p->fd);
            execve(p->self, counts, none);
            _exit(99);
        }
        MUST(waitpid(child, &status, 0));
        clean += status == 0;
    }
    stop = true;
    pthread_join(thread, NULL);
    say("%d of 300 programs have no descriptor of the library", clean);
    send_all(p->fd, "go on", 5);
}

static void hears_it_go_on(struct peer *p) {
    char words[5];
    recv_all(p->fd, words, 5);
    say("%.5s", words);
}

// --- programs that do not load the library after all

// libc's dynamic linker uses the last variable of this name.
static void becomes_without_the_last_preload(struct peer *p) {
    char *all[300];
    int count = 0;
    while (count < 298 && environ[count]) {
        all[count] = environ[count];
        count++;
    }
    all[count] = "LD_PRELOAD=";
    all[count + 1] = NULL;
    execve(p->self, program(p, p->fd, 0), all);
    die("exec");
}

// The first file of this name cannot be executed, and libc finds the next one.
static void becomes_what_path_leads_to(struct peer *p) {
    char first[500], second[500], path[1100];
    snprintf(first, sizeof first, "%s/first", p->dir);
    snprintf(second, sizeof second, "%s/second", p->dir);
    snprintf(path, sizeof path, "%s:%s", first, second);
    MUST(mkdir(first, 0700));
    MUST(mkdir(second, 0700));
    strcat(first, "/program");
    strcat(second, "/program");
    // An ELF file whose interpreter does not exist.
    char bytes[4096];
    int from = MUST(open(p->self, O_RDONLY)), to = MUST(open(first, O_CREAT | O_WRONLY, 0700));
    ssize_t got = MUST(read(from, bytes, sizeof bytes));
    char *linker = memmem(bytes, got, "/ld-linux", 9);
    if (!linker)
        die("no interpreter");
    linker[-1]++; // in another folder
    MUST(write(to, bytes, got));
    close(from);
    close(to);
    MUST(symlink(p->self, second));
    MUST(setenv("PATH", path, 1));
    execvp("program", program(p, p->fd, 0));
    die("exec");
}

static void sends_letters_to_one(struct peer *p) {
    char letters[LETTERS], back[LETTERS];
    for (int n = 0; n < TURNS; n++) {
        for (int k = 0; k < LETTERS; k++)
            letters[k] = (char)(n + k);
        send_all(p->fd, letters, LETTERS);
        recv_all(p->fd, back, LETTERS);
    }
    CALL(recv(p->fd, back, 1, 0));
}

static const struct scenario scenarios[] = {
    {"programs_begin_amid_the_rendezvous", serves_amid_the_rendezvous, sends_letters, RAW},
    {"programs_of_vforked_children_begin_amid_the_rendezvous", vforks_amid_the_rendezvous, sends_letters, RAW},
    {"execs_that_fail_leave_nothing_to_other_programs", starts_programs_amid_failures, hears_it_go_on},
    {"the_last_preload_counts", becomes_without_the_last_preload, sends_letters_to_one},
    {"path_leads_past_a_program_without_linker", becomes_what_path_leads_to, sends_letters_to_one},
};

int main(int argc, char **argv) {
    if (argc > 2 && strcmp(argv[1], "--program") == 0)
        return is_program(argv);
    return scenario_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]);
}
