// Package sovia implements net.Conn and net.Listener over libsovia. If both ends of a connection are on one host and
// use Sovia, its bytes move over shared memory. All other connections use the kernel's TCP.
//
// Go makes its system calls itself, so no preloaded library can accelerate a Go program: the program must use this
// package. Code that takes a net.Listener or a dial function works with it, such as net/http:
//
//	listener, err := sovia.Listen("tcp", "127.0.0.1:8080")
//	...
//	http.Serve(listener, handler)
//
// The other end may be a program under `sovia run`, a program that uses libsovia in any language, or an ordinary TCP
// program.
//
// The package needs cgo, and finds libsovia and its header by pkg-config.
package sovia

// #cgo pkg-config: sovia
import "C"
