// Package conformance asks of Sovia's connections what golang.org/x/net asks of every net.Conn. It is a module of its own, so that
// programs that use Sovia need no other module.
package conformance

import (
	"net"
	"testing"

	"golang.org/x/net/nettest"
	"sovia"
)

func pipe() (client, server net.Conn, stop func(), err error) {
	listener, err := sovia.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, nil, err
	}
	defer listener.Close()
	type end struct {
		conn net.Conn
		err  error
	}
	accepted := make(chan end, 1)
	go func() {
		conn, err := listener.Accept()
		accepted <- end{conn, err}
	}()
	if client, err = sovia.Dial("tcp", listener.Addr().String()); err != nil {
		return nil, nil, nil, err
	}
	other := <-accepted
	if other.err != nil {
		return nil, nil, nil, other.err
	}
	stop = func() {
		client.Close()
		other.conn.Close()
	}
	return client, other.conn, stop, nil
}

func TestConn(t *testing.T) {
	nettest.TestConn(t, pipe)
}
