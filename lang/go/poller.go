package sovia

// #define _GNU_SOURCE
// #include <errno.h>
// #include <sovia.h>
//
// static int sovia_add(int epfd, int fd, uint64_t token) {
//     struct epoll_event event;
//     event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
//     event.data.u64 = token;
//     return sov_epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event);
// }
//
// static int sovia_remove(int epfd, int fd) {
//     struct epoll_event event = { 0 };
//     return sov_epoll_ctl(epfd, EPOLL_CTL_DEL, fd, &event);
// }
//
// /* Splits each event into a token and flags, because Go has no packed structures. */
// static int sovia_wait(int epfd, uint64_t *tokens, uint32_t *events, int count) {
//     struct epoll_event found[128];
//     int some = sov_epoll_wait(epfd, found, count < 128 ? count : 128, -1);
//     for (int i = 0; i < some; i++) {
//         tokens[i] = found[i].data.u64;
//         events[i] = found[i].events;
//     }
//     return some;
// }
import "C"

import (
	"os"
	"sync"
	"syscall"
)

const (
	// Events that wake a reader and a writer. The end of a connection wakes both.
	readable = C.EPOLLIN | C.EPOLLRDHUP | C.EPOLLHUP | C.EPOLLERR
	writable = C.EPOLLOUT | C.EPOLLHUP | C.EPOLLERR
	// Number of events that one call takes.
	batch = 128
)

// poller waits in its own goroutine for the events of all sockets of the process, and wakes the goroutines that wait
// for them.
//
// Sockets are registered edge-triggered, for both directions. A wake-up is a token in a channel of capacity one. So a
// goroutine that has seen EAGAIN finds a token for any later event.
type poller struct {
	fd      C.int
	mutex   sync.Mutex
	last    uint64
	sockets map[uint64]*socket
}

var (
	theOne   *poller
	whyNone  error
	makePoll sync.Once
)

// poll returns the process's poller. The first socket starts the poller, and it never ends.
func poll() (*poller, error) {
	makePoll.Do(func() {
		fd, err := C.sov_epoll_create1(C.EPOLL_CLOEXEC)
		if fd < 0 {
			whyNone = os.NewSyscallError("sov_epoll_create1", err)
			return
		}
		theOne = &poller{fd: fd, sockets: make(map[uint64]*socket)}
		go theOne.run()
	})
	return theOne, whyNone
}

func (p *poller) run() {
	tokens, events := make([]C.uint64_t, batch), make([]C.uint32_t, batch)
	for {
		count, err := C.sovia_wait(p.fd, &tokens[0], &events[0], batch)
		if count < 0 {
			if err == syscall.EINTR {
				continue
			}
			// The descriptor belongs to this package and is never closed.
			panic(os.NewSyscallError("sov_epoll_wait", err))
		}
		p.mutex.Lock()
		for i := 0; i < int(count); i++ {
			// A socket that has been closed meanwhile is no longer in the map.
			if s := p.sockets[uint64(tokens[i])]; s != nil {
				s.wake(uint32(events[i]))
			}
		}
		p.mutex.Unlock()
	}
}

func (p *poller) add(s *socket) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.last++
	s.token = p.last
	p.sockets[s.token] = s
	if done, err := C.sovia_add(p.fd, s.fd, C.uint64_t(s.token)); done < 0 {
		delete(p.sockets, s.token)
		return os.NewSyscallError("sov_epoll_ctl", err)
	}
	return nil
}

func (p *poller) remove(s *socket) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	delete(p.sockets, s.token)
	C.sovia_remove(p.fd, s.fd)
}
