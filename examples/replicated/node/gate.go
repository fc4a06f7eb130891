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
	holder uint64        // Who has closed it last, or 0 if it has opened since.
	shut   bool          // For good.
	idle   chan struct{} // Closed when none is under way; nil if nobody waits.
	timer  *time.Timer   // Opens it, if whoever has closed it dies.
	under  int           // Requests under way.
}

// enter waits until the gate is open. It returns false if it is shut for good.
func (g *gate) enter() bool {
	for {
		g.mutex.Lock()
		closed, shut := g.closed, g.shut
		if closed == nil && !shut {
			g.under++
		}
		g.mutex.Unlock()
		if closed == nil || shut {
			return !shut
		}
		<-closed
	}
}

// shutDown sends those that wait, and all that come, elsewhere.
func (g *gate) shutDown() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.shut = true
	g.open()
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
// way, or after a while. Another hold replaces it.
func (g *gate) hold(holder uint64, limit time.Duration) {
	g.mutex.Lock()
	g.open()
	g.close(holder, limit)
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

// close has requests wait. The gate is open, and its mutex held.
func (g *gate) close(holder uint64, limit time.Duration) {
	g.holder = holder
	g.closed = make(chan struct{})
	mine := g.closed
	g.timer = time.AfterFunc(min(limit, maxHold), func() {
		g.mutex.Lock()
		defer g.mutex.Unlock()
		if g.closed == mine {
			g.holder = 0 // Requests pass before whoever has closed it lets them.
			g.open()
		}
	})
}

// holdNew has requests that come wait, unless there is a hold. It does not wait
// for those that are under way.
func (g *gate) holdNew(holder uint64, limit time.Duration) bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.closed != nil {
		return false
	}
	g.close(holder, limit)
	return true
}

// release lets requests pass, unless another hold has begun meanwhile. It says
// whether none has passed since this one began.
func (g *gate) release(holder uint64) bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.holder != holder {
		return false
	}
	g.holder = 0
	g.open()
	return true
}
