package sovia

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

// pair returns two ends of a connection; it goes with the test.
func pair(t *testing.T) (client, server *Conn) {
	t.Helper()
	listener := listening(t)
	accepted := make(chan net.Conn, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			t.Error(err)
		}
		accepted <- conn
	}()
	conn, err := Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	client, server = conn.(*Conn), (<-accepted).(*Conn)
	t.Cleanup(func() {
		client.Close()
		server.Close()
	})
	return client, server
}

func listening(t *testing.T) net.Listener {
	t.Helper()
	listener, err := Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener
}

// echo answers until the end.
func echo(conn net.Conn) {
	io.Copy(conn, conn)
	conn.Close()
}

func roundTrips(t *testing.T, conn net.Conn, count int) {
	t.Helper()
	answer := make([]byte, 64)
	for i := 0; i < count; i++ {
		question := bytes.Repeat([]byte{byte(i)}, len(answer))
		if _, err := conn.Write(question); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, answer); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(question, answer) {
			t.Fatalf("round trip %d brought %v", i, answer)
		}
	}
}

func TestBytesMoveOverSharedMemory(t *testing.T) {
	client, server := pair(t)
	go echo(server)
	roundTrips(t, client, 1000)
	stats, err := client.Stats()
	if err != nil {
		t.Fatal(err)
	}
	if !stats.OnVI || stats.MessagesSent < 900 || stats.BytesReceived == 0 || stats.Reason != "" {
		t.Fatalf("after 1000 round trips: %+v", stats)
	}
}

func TestTheKernelsPeersAreTalkedToOverTCP(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			echo(conn)
		}
	}()
	client, err := Dial("tcp4", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	roundTrips(t, client, 100)

	ours := listening(t)
	go func() {
		conn, err := ours.Accept()
		if err == nil {
			echo(conn)
		}
	}()
	theirs, err := net.Dial("tcp", ours.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	roundTrips(t, theirs, 100)
	stats, err := client.(*Conn).Stats()
	if err != nil || stats.OnVI {
		t.Fatalf("%+v %v", stats, err)
	}
}

func TestMuchDataArrivesWholeBothWays(t *testing.T) {
	client, server := pair(t)
	const size = 32 << 20
	var all sync.WaitGroup
	run := func(what func() error) {
		all.Add(1)
		go func() {
			defer all.Done()
			if err := what(); err != nil {
				t.Error(err)
			}
		}()
	}
	for i, ends := range [][2]*Conn{{client, server}, {server, client}} {
		from, to := ends[0], ends[1]
		data := make([]byte, size)
		rand.New(rand.NewSource(int64(i))).Read(data)
		sum := sha256.Sum256(data)
		run(func() error {
			defer from.CloseWrite()
			sizes := rand.New(rand.NewSource(7))
			for rest := data; len(rest) > 0; {
				part := 1 + sizes.Intn(200000)
				if part > len(rest) {
					part = len(rest)
				}
				if _, err := from.Write(rest[:part]); err != nil {
					return err
				}
				rest = rest[part:]
			}
			return nil
		})
		run(func() error {
			hash := sha256.New()
			count, err := io.Copy(hash, to)
			if err == nil && (count != size || !bytes.Equal(hash.Sum(nil), sum[:])) {
				err = fmt.Errorf("%d bytes came, others than were sent", count)
			}
			return err
		})
	}
	all.Wait()
}

func TestHalvesCloseByThemselves(t *testing.T) {
	client, server := pair(t)
	if _, err := client.Write([]byte("question")); err != nil {
		t.Fatal(err)
	}
	if err := client.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(server)
	if err != nil || string(all) != "question" {
		t.Fatalf("%q %v", all, err)
	}
	if _, err := client.Write([]byte("more")); !errors.Is(err, syscall.EPIPE) {
		t.Fatalf("a write behind CloseWrite: %v", err)
	}
	if _, err := server.Write([]byte("answer")); err != nil {
		t.Fatal(err)
	}
	server.Close()
	all, err = io.ReadAll(client)
	if err != nil || string(all) != "answer" {
		t.Fatalf("%q %v", all, err)
	}
}

func TestCloseWakesWhoWaits(t *testing.T) {
	client, _ := pair(t)
	listener := listening(t)
	ended := make(chan error, 2)
	go func() {
		_, err := client.Read(make([]byte, 1))
		ended <- err
	}()
	go func() {
		_, err := listener.Accept()
		ended <- err
	}()
	client.Close()
	listener.Close()
	for i := 0; i < 2; i++ {
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Fatal(err)
		}
	}
	if err := client.Close(); !errors.Is(err, net.ErrClosed) {
		t.Fatal(err)
	}
}

func TestADeadlineIsOverAndCanBeMoved(t *testing.T) {
	client, server := pair(t)
	client.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := client.Read(make([]byte, 1))
	var timeout net.Error
	if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Fatal(err)
	}
	client.SetReadDeadline(time.Time{})
	go server.Write([]byte("x"))
	if count, err := client.Read(make([]byte, 1)); count != 1 || err != nil {
		t.Fatal(count, err)
	}
	listener := listening(t).(*Listener)
	listener.SetDeadline(time.Now())
	if _, err := listener.Accept(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
}

func TestWhatCannotBeReachedIsAnError(t *testing.T) {
	listener := listening(t)
	nobody := listener.Addr().String()
	listener.Close()
	if _, err := Dial("tcp", nobody); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := DialContext(over, "tcp", "192.0.2.1:9"); err == nil {
		t.Fatal("connected, though the context was over")
	}
	for _, bad := range [][2]string{{"udp", "127.0.0.1:9"}, {"tcp", "127.0.0.1"}, {"tcp", "127.0.0.1:what"}} {
		if _, err := Dial(bad[0], bad[1]); err == nil {
			t.Fatal(bad)
		}
		if _, err := Listen(bad[0], bad[1]); err == nil {
			t.Fatal(bad)
		}
	}
}

func TestManyConnectionsAtOnce(t *testing.T) {
	listener := listening(t)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go echo(conn)
		}
	}()
	var all sync.WaitGroup
	for i := 0; i < 64; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			conn, err := Dial("tcp", listener.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			answer := make([]byte, 100)
			for j := 0; j < 200; j++ {
				if _, err := conn.Write(answer); err != nil {
					t.Error(err)
					return
				}
				if _, err := io.ReadFull(conn, answer); err != nil {
					t.Error(err)
					return
				}
			}
		}()
	}
	all.Wait()
}

func TestHTTPOverBothEnds(t *testing.T) {
	listener := listening(t)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(w, r.Body)
	})}
	defer server.Close()
	go server.Serve(listener)
	client := &http.Client{Transport: &http.Transport{DialContext: DialContext}}
	defer client.CloseIdleConnections()
	body := bytes.Repeat([]byte("0123456789"), 50000)
	for i := 0; i < 20; i++ {
		answer, err := client.Post("http://"+listener.Addr().String()+"/", "text/plain", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		back, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || !bytes.Equal(back, body) {
			t.Fatalf("%d bytes came back: %v", len(back), err)
		}
	}
}
