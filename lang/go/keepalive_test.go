package sovia

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// keepAlives is what a socket has of keep-alive.
type keepAlives struct{ on, idle, interval, count int }

// read asks by a function that gets an option's number.
func (k *keepAlives) read(t *testing.T, get func(level, name int) (int, error)) {
	t.Helper()
	for _, option := range []struct {
		to          *int
		level, name int
	}{
		{&k.on, syscall.SOL_SOCKET, syscall.SO_KEEPALIVE},
		{&k.idle, syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE},
		{&k.interval, syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL},
		{&k.count, syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT},
	} {
		value, err := get(option.level, option.name)
		if err != nil {
			t.Fatal(err)
		}
		*option.to = value
	}
}

func ours(t *testing.T, conn net.Conn) (found keepAlives) {
	t.Helper()
	// The kernel's word: options are those of its socket.
	fd := int(conn.(*Conn).socket.fd)
	found.read(t, func(level, name int) (int, error) { return syscall.GetsockoptInt(fd, level, name) })
	return found
}

// theirs is what a connection of package net's has.
func theirs(t *testing.T, conn net.Conn) (found keepAlives) {
	t.Helper()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	found.read(t, func(level, name int) (value int, err error) {
		if failed := raw.Control(func(fd uintptr) {
			value, err = syscall.GetsockoptInt(int(fd), level, name)
		}); failed != nil {
			return 0, failed
		}
		return value, err
	})
	return found
}

// accepting returns a function that accepts a connection, for one that is dialled.
func accepting(t *testing.T, listener net.Listener) func() net.Conn {
	t.Helper()
	accepted := make(chan net.Conn, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			t.Error(err)
		}
		accepted <- conn
	}()
	return func() net.Conn {
		conn := <-accepted
		t.Cleanup(func() { conn.Close() })
		return conn
	}
}

// dialled connects with what both dialers mean by a time, and returns what the four ends have.
func dialled(t *testing.T, idle time.Duration) (ends [4]keepAlives) {
	t.Helper()
	listener, err := (&ListenConfig{KeepAlive: idle}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	accept := accepting(t, listener)
	conn, err := (&Dialer{KeepAlive: idle}).Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ends[0], ends[1] = ours(t, conn), ours(t, accept())

	listener, err = (&net.ListenConfig{KeepAlive: idle}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	accept = accepting(t, listener)
	conn, err = (&net.Dialer{KeepAlive: idle}).Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ends[2], ends[3] = theirs(t, conn), theirs(t, accept())
	return ends
}

func TestKeepAliveIsWhatPackageNetHas(t *testing.T) {
	for _, idle := range []time.Duration{0, -1, 40 * time.Second, 1500 * time.Millisecond} {
		ends := dialled(t, idle)
		// Go before 1.23 sets the interval to the same time: that is compared where it has its usual value.
		if idle > 0 {
			ends[2].interval, ends[3].interval = ends[0].interval, ends[1].interval
		}
		if ends[0] != ends[2] || ends[1] != ends[3] {
			t.Errorf("%v: %+v, and package net has %+v", idle, ends[:2], ends[2:])
		}
	}
}

func TestKeepAliveIsChanged(t *testing.T) {
	client, server := pair(t)
	go echo(server)
	// On a VI as well as before.
	for round := 0; round < 2; round++ {
		if err := client.SetKeepAlive(false); err != nil || ours(t, client).on != 0 {
			t.Fatal(err, ours(t, client))
		}
		if err := client.SetKeepAlive(true); err != nil || ours(t, client).on != 1 {
			t.Fatal(err, ours(t, client))
		}
		if err := client.SetKeepAlivePeriod(7 * time.Second); err != nil || ours(t, client).idle != 7 {
			t.Fatal(err, ours(t, client))
		}
		config := KeepAliveConfig{Enable: true, Idle: -1, Interval: 1, Count: 3}
		if err := client.SetKeepAliveConfig(config); err != nil || ours(t, client) != (keepAlives{1, 7, 1, 3}) {
			t.Fatal(err, ours(t, client))
		}
		if err := client.SetKeepAliveConfig(KeepAliveConfig{}); err != nil || ours(t, client) != (keepAlives{0, 15, 15, 9}) {
			t.Fatal(err, ours(t, client))
		}
		roundTrips(t, client, 100)
	}
	if stats, err := client.Stats(); err != nil || !stats.OnVI {
		t.Fatal(stats, err)
	}
	client.Close()
	if err := client.SetKeepAlive(true); !errors.Is(err, net.ErrClosed) {
		t.Fatal(err)
	}
	if err := client.SetKeepAlivePeriod(1); !errors.Is(err, net.ErrClosed) {
		t.Fatal(err)
	}
}

func TestALocalAddressIsTaken(t *testing.T) {
	listener := listening(t)
	accept := accepting(t, listener)
	dialer := Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Timeout: time.Minute}
	conn, err := dialer.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if at := accept().RemoteAddr().(*net.TCPAddr); !at.IP.Equal(net.IPv4(127, 0, 0, 2)) {
		t.Fatal(at)
	}
	// A pointer to none is none, as in package net.
	dialer.LocalAddr = (*net.TCPAddr)(nil)
	conn, err = dialer.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	accepting(t, listener)()
	dialer.LocalAddr = &net.UnixAddr{Name: "here"}
	if _, err := dialer.Dial("tcp", listener.Addr().String()); err == nil {
		t.Fatal("connected from an address of another kind")
	}
}

func TestADialersDeadlineIsOver(t *testing.T) {
	listener := listening(t)
	past := Dialer{Deadline: time.Now().Add(-time.Second)}
	if _, err := past.Dial("tcp", listener.Addr().String()); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	listener.Close()
	if err := listener.(*Listener).SetDeadline(time.Now()); !errors.Is(err, net.ErrClosed) {
		t.Fatal(err)
	}
}

func TestLingerOfNoTimeResets(t *testing.T) {
	client, server := pair(t)
	if err := client.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	client.Close()
	if _, err := server.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Fatal(err)
	}
	client, server = pair(t)
	if err := client.SetLinger(-1); err != nil {
		t.Fatal(err)
	}
	for _, set := range []func(int) error{client.SetReadBuffer, client.SetWriteBuffer} {
		if err := set(1 << 16); err != nil {
			t.Fatal(err)
		}
	}
	client.Write([]byte("x"))
	client.Close()
	if count, err := server.Read(make([]byte, 2)); count != 1 || err != nil {
		t.Fatal(count, err)
	}
}
