package sovia

// #define _GNU_SOURCE
// #include <netinet/in.h>
// #include <netinet/tcp.h>
// #include <sovia.h>
import "C"

import "time"

// Defaults of package net.
const (
	keepAliveIdle     = 15 * time.Second
	keepAliveInterval = 15 * time.Second
	keepAliveCount    = 9
)

// KeepAliveConfig has the fields of net.KeepAliveConfig, which Go has since version 1.23. A zero field means the
// default of package net (15 s, 15 s, 9). A negative field leaves the socket's value unchanged.
type KeepAliveConfig struct {
	// Enable makes the kernel probe a silent peer.
	Enable bool
	// Idle is the time without data before the first probe.
	Idle time.Duration
	// Interval is the time between probes.
	Interval time.Duration
	// Count is the number of unanswered probes after which the connection has failed.
	Count int
}

// SetKeepAlive sets SO_KEEPALIVE, which is on by default.
func (c *Conn) SetKeepAlive(keepAlive bool) error {
	return c.failed("set", c.socket.option(C.SOL_SOCKET, C.SO_KEEPALIVE, truth(keepAlive)))
}

// SetKeepAlivePeriod sets the time without data before the first probe. Zero means the default of package net.
func (c *Conn) SetKeepAlivePeriod(d time.Duration) error {
	return c.failed("set", c.socket.keepAliveTime(C.TCP_KEEPIDLE, d, keepAliveIdle))
}

// SetKeepAliveConfig sets all keep-alive options.
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

// keepAliveTime sets an option in seconds, rounded up.
func (s *socket) keepAliveTime(name C.int, d, usual time.Duration) error {
	if d == 0 {
		d = usual
	}
	if d < 0 {
		return nil
	}
	return s.option(C.IPPROTO_TCP, name, C.int((d+time.Second-1)/time.Second))
}

// keepAliveOf returns the configuration that the two fields of a Dialer or ListenConfig stand for. If no
// configuration is enabled, a negative time leaves the socket unchanged.
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
