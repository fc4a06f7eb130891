// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: guesses of passwords are slowed by address and logged, and others are not.
// Method: a guard with times that the test sets, and connections that guess.
package redis

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"varve.example/replicated/check"
)

func addressOf(text string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(text), Port: 1} }

func TestGuessesWaitForEachOther(t *testing.T) {
	var g guard
	now := time.Now()
	guesser, same, other := prefixOf(addressOf("2001:db8::1")), prefixOf(addressOf("2001:db8::2")), prefixOf(addressOf("10.0.0.1"))
	for i := 0; i < freeGuesses; i++ {
		if wait, allowed := g.turn(guesser, now); wait != 0 || !allowed {
			t.Fatal(i, wait, allowed)
		}
		g.failed(guesser, now)
	}
	allowed, most := 0, time.Duration(0)
	for i := 0; i < 300; i++ {
		if wait, may := g.turn(same, now); may {
			allowed++
			most = max(most, wait)
		}
	}
	if allowed != int(loginTimeout/guessPause)+1 || most != loginTimeout {
		t.Errorf("%d guesses are allowed, the last after %v", allowed, most)
	}
	if wait, allowed := g.turn(other, now); wait != 0 || !allowed {
		t.Error("another address waits")
	}
	if wait, allowed := g.turn(guesser, now.Add(forgetAfter+time.Second)); wait != 0 || !allowed {
		t.Error("an address is not forgotten")
	}
	for i := 0; i < 2*maxSuspects; i++ {
		g.failed(prefixOf(addressOf(fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255))), now)
	}
	check.ErrorIf(t, len(g.suspects) > maxSuspects, "%d addresses are kept", len(g.suspects))
}

// lines keeps what is logged.
type lines struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (l *lines) Write(text []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.Write(text)
}

func (l *lines) String() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.String()
}

func TestWhatIsRefusedIsLogged(t *testing.T) {
	var log lines
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	now := time.Now()
	var g guard
	for i := 0; i < 5; i++ {
		g.log(addressOf("10.0.0.1"), now, "a login has failed", "user", "x\ny")
	}
	g.log(addressOf("10.0.0.2"), now, "a login has failed")
	g.log(addressOf("10.0.0.1"), now.Add(logPause), "a login has failed")
	text := log.String()
	if strings.Count(text, "\n") != 3 || !strings.Contains(text, "from=10.0.0.1:1 before=0") ||
		!strings.Contains(text, "from=10.0.0.1:1 before=4") || !strings.Contains(text, "from=10.0.0.2:1 before=0") {
		t.Error(text)
	}
	f := serve(t, func(o *Options) { o.MaxConnections = 1 })
	f.dial().expect("AUTH nobody wrong", "-WRONGPASS invalid username-password pair or user is disabled.")
	f.dial().closed()
	if stats := f.server.Stats(); stats.FailedLogins != 1 || stats.Rejected != 1 {
		t.Errorf("%+v", stats)
	}
	if text := log.String(); !strings.Contains(text, "a login has failed\" from=127.0.0.1:") {
		t.Error(text)
	}
}
