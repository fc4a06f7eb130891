// Varve: a key-value storage engine. MIT licence, see LICENSE.
package redis

import (
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"
)

// guard knows from which addresses passwords were guessed, slows these down, and
// logs what was refused. Addresses of IPv6 are taken together by their first 64
// bits, of which one machine can have all.
type guard struct {
	mutex    sync.Mutex
	suspects map[netip.Prefix]*suspect
}

type suspect struct {
	failures int
	last     time.Time // When a login has failed last.
	next     time.Time // When the next login may be tried.
	logged   time.Time
	silent   int // Events since then that were not logged.
}

const (
	freeGuesses  = 10 // Of an address, after which logins wait for each other.
	guessPause   = 200 * time.Millisecond
	forgetAfter  = 10 * time.Minute
	maxSuspects  = 10000
	logPause     = time.Second // Between two lines on an address.
	loginTimeout = 5 * time.Second
)

func prefixOf(address net.Addr) netip.Prefix {
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap()
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	prefix, _ := ip.Prefix(bits)
	return prefix
}

// of returns what is known of an address. The caller holds the lock.
func (g *guard) of(prefix netip.Prefix, now time.Time) *suspect {
	found := g.suspects[prefix]
	if found != nil && now.Sub(found.last) <= forgetAfter {
		return found
	}
	if len(g.suspects) >= maxSuspects {
		for one, s := range g.suspects {
			if now.Sub(s.last) > forgetAfter || len(g.suspects) > maxSuspects*9/10 {
				delete(g.suspects, one)
			}
		}
	}
	if g.suspects == nil {
		g.suspects = map[netip.Prefix]*suspect{}
	}
	found = &suspect{last: now}
	g.suspects[prefix] = found
	return found
}

// turn says how long a login must wait for others of its address. It is refused
// if that is too long.
func (g *guard) turn(prefix netip.Prefix, now time.Time) (wait time.Duration, allowed bool) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	s := g.suspects[prefix]
	if s == nil || s.failures < freeGuesses || now.Sub(s.last) > forgetAfter {
		return 0, true
	}
	at := now
	if s.next.After(now) {
		at = s.next
	}
	if wait = at.Sub(now); wait > loginTimeout {
		return 0, false
	}
	s.next = at.Add(guessPause)
	return wait, true
}

// failed counts a login.
func (g *guard) failed(prefix netip.Prefix, now time.Time) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	s := g.of(prefix, now)
	s.failures++
	s.last = now
}

// log writes a line on an address, at most one a second. The next one says how
// many there were.
func (g *guard) log(address net.Addr, now time.Time, what string, more ...any) {
	g.mutex.Lock()
	s := g.of(prefixOf(address), now)
	s.last = now
	if now.Sub(s.logged) < logPause {
		s.silent++
		g.mutex.Unlock()
		return
	}
	arguments := append([]any{"from", address.String(), "before", s.silent}, more...)
	s.logged, s.silent = now, 0
	g.mutex.Unlock()
	slog.Warn(what, arguments...)
}
