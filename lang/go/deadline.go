package sovia

import (
	"sync"
	"time"
)

// deadline is a time at which a channel closes. Setting it affects calls that wait now, and later ones.
type deadline struct {
	mutex sync.Mutex
	timer *time.Timer
	over  chan struct{}
}

// set moves the deadline. A zero value means no deadline.
func (d *deadline) set(at time.Time) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		// The timer has fired or is about to. Wait until it has closed its channel.
		<-d.over
	}
	d.timer = nil
	isOver := false
	select {
	case <-d.over:
		isOver = true
	default:
	}
	if at.IsZero() || time.Until(at) > 0 {
		if isOver {
			d.over = make(chan struct{})
		}
		if !at.IsZero() {
			over := d.over
			d.timer = time.AfterFunc(time.Until(at), func() { close(over) })
		}
		return
	}
	if !isOver {
		close(d.over)
	}
}

// wait returns the channel that closes at the deadline as it is now.
func (d *deadline) wait() chan struct{} {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return d.over
}
