// Varve: a key-value storage engine. MIT licence, see LICENSE.
package node

import (
	"sync"
	"time"
)

// gate lets the requests of a shard pass, or has them wait while the shard's
// leadership moves. A proposal that reaches a leader at that moment would be
// lost, and its client would not know whether it was applied.
type gate struct {
	mutex  sync.Mutex
	closed chan struct{} // Closed when requests may pass; nil if they may.
	idle   chan struct{} // Closed when none is under way; nil if nobody waits.
	timer  *time.Timer   // Opens it, if whoever has closed it dies.
	under  int           // Requests under way.
}

// enter waits until the gate is open.
func (g *gate) enter() {
	for {
		g.mutex.Lock()
		closed := g.closed
		if closed == nil {
			g.under++
			g.mutex.Unlock()
			return
		}
		g.mutex.Unlock()
		<-closed
	}
}

func (g *gate) leave() {
	g.mutex.Lock()
	g.under--
	if g.under == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
	g.mutex.Unlock()
}

func (g *gate) count() int {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.under
}

func (g *gate) open() {
	if g.closed != nil {
		close(g.closed)
		g.closed = nil
	}
	if g.timer != nil {
		g.timer.Stop()
		g.timer = nil
	}
}

const (
	drainTime = 500 * time.Millisecond // At most, for requests under way.
	maxHold   = 5 * time.Second
)

// hold has requests wait for at most a time, and returns when none is under
// way, or after a while. A time of 0 lets them pass.
func (g *gate) hold(limit time.Duration) {
	g.mutex.Lock()
	g.open()
	if limit <= 0 {
		g.mutex.Unlock()
		return
	}
	g.closed = make(chan struct{})
	mine := g.closed
	g.timer = time.AfterFunc(min(limit, maxHold), func() {
		g.mutex.Lock()
		defer g.mutex.Unlock()
		if g.closed == mine {
			g.open()
		}
	})
	if g.under == 0 {
		g.mutex.Unlock()
		return
	}
	if g.idle == nil {
		g.idle = make(chan struct{})
	}
	idle := g.idle
	g.mutex.Unlock()
	select {
	case <-idle:
	case <-time.After(drainTime):
	}
}
