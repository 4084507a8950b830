// Package sovia has net.Conn and net.Listener over libsovia: TCP connections whose bytes move over shared memory where both ends
// speak Sovia and are on one host, and over the kernel's TCP where not.
//
// Go makes its system calls itself, so no library can be put before them: a Go program asks for Sovia's sockets. Everything that takes
// a net.Listener or a dial function works over them, net/http first of all:
//
//	listener, err := sovia.Listen("tcp", "127.0.0.1:8080")
//	...
//	http.Serve(listener, handler)
//
// The other end may be a program under `sovia run`, one that uses libsovia in any language, or an ordinary TCP program.
//
// Built with cgo; libsovia and its header are found by pkg-config.
package sovia

// #cgo pkg-config: sovia
import "C"
