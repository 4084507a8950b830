package sovia

// #define _GNU_SOURCE
// #include <netinet/in.h>
// #include <netinet/tcp.h>
// #include <sovia.h>
import "C"

import "time"

// What package net takes where a program says nothing.
const (
	keepAliveIdle     = 15 * time.Second
	keepAliveInterval = 15 * time.Second
	keepAliveCount    = 9
)

// KeepAliveConfig is net.KeepAliveConfig, which Go has since 1.23. Of the times and the count zero means what package net takes (15 s,
// 15 s, 9), and a negative one what the socket has already.
type KeepAliveConfig struct {
	// Enable: the kernel asks a peer that has been silent whether it is still there.
	Enable bool
	// Idle is how long it is silent before the first question.
	Idle time.Duration
	// Interval is the time between questions.
	Interval time.Duration
	// Count is how many questions go without an answer before the connection is over.
	Count int
}

// SetKeepAlive switches SO_KEEPALIVE, which is on to begin with.
func (c *Conn) SetKeepAlive(keepAlive bool) error {
	return c.failed("set", c.socket.option(C.SOL_SOCKET, C.SO_KEEPALIVE, truth(keepAlive)))
}

// SetKeepAlivePeriod sets how long the peer is silent before it is asked whether it is there; zero is what package net takes.
func (c *Conn) SetKeepAlivePeriod(d time.Duration) error {
	return c.failed("set", c.socket.keepAliveTime(C.TCP_KEEPIDLE, d, keepAliveIdle))
}

// SetKeepAliveConfig sets all of it.
func (c *Conn) SetKeepAliveConfig(config KeepAliveConfig) error {
	return c.failed("set", c.socket.keepAlive(config))
}

func (s *socket) keepAlive(config KeepAliveConfig) error {
	if err := s.option(C.SOL_SOCKET, C.SO_KEEPALIVE, truth(config.Enable)); err != nil {
		return err
	}
	if err := s.keepAliveTime(C.TCP_KEEPIDLE, config.Idle, keepAliveIdle); err != nil {
		return err
	}
	if err := s.keepAliveTime(C.TCP_KEEPINTVL, config.Interval, keepAliveInterval); err != nil {
		return err
	}
	count := config.Count
	if count == 0 {
		count = keepAliveCount
	}
	if count < 0 {
		return nil
	}
	return s.option(C.IPPROTO_TCP, C.TCP_KEEPCNT, C.int(count))
}

// keepAliveTime sets an option that counts seconds, of which there is one at least.
func (s *socket) keepAliveTime(name C.int, d, usual time.Duration) error {
	if d == 0 {
		d = usual
	}
	if d < 0 {
		return nil
	}
	return s.option(C.IPPROTO_TCP, name, C.int((d+time.Second-1)/time.Second))
}

// keepAliveOf is what a Dialer or a ListenConfig means by its two fields: a negative time for which there is no configuration leaves
// the socket as it is.
func keepAliveOf(idle time.Duration, config KeepAliveConfig) KeepAliveConfig {
	if !config.Enable && idle >= 0 {
		return KeepAliveConfig{Enable: true, Idle: idle}
	}
	return config
}

func truth(value bool) C.int {
	if value {
		return 1
	}
	return 0
}
