// Varve: a key-value storage engine. MIT licence, see LICENSE.
package cluster

import (
	"fmt"
	"math/rand"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Stale reads beside random faults. Counters only grow, also by an INCR without an
// answer that takes effect later. So a read that says how old its answer may be has to
// return at least the newest number that was acknowledged that long before the read was
// sent. The tests' clock and the nodes' steady ones run equally fast.

const (
	counters = 8 // On several shards.
	// Of the nodes under random faults.
	maxStaleness = 10 * time.Second
	// Nodes ask a leader each second. What is older is answered without one.
	leaderless = 2 * time.Second
)

// staleReads is what was acknowledged, and what was read. Safe for concurrent use.
type staleReads struct {
	mutex  sync.Mutex
	begin  time.Time
	acked  [counters][]ack
	counts map[string]int
	oldest time.Duration
	wrong  []string // Answers that were too old.
}

type ack struct {
	number int64
	at     time.Duration // Since begin.
}

func newStaleReads() *staleReads { return &staleReads{begin: time.Now(), counts: map[string]int{}} }

func counterKey(counter int) string { return fmt.Sprintf("counter-%d", counter) }

// write adds to counters, through nodes at random.
func (s *staleReads) write(c *cluster, stop *atomic.Bool) {
	s.ask(c, stop, *seed-2, nil, func(client *client, random *rand.Rand) error {
		counter := random.Intn(counters)
		answer, err := client.do("INCR", counterKey(counter))
		if err == nil {
			s.mutex.Lock()
			defer s.mutex.Unlock()
			s.acked[counter] = append(s.acked[counter], ack{answer.(int64), time.Since(s.begin)})
		}
		return err
	})
}

// read asks nodes at random for what their own replicas have.
func (s *staleReads) read(c *cluster, stop *atomic.Bool) {
	s.ask(c, stop, *seed-3, []string{"READONLY"}, func(client *client, random *rand.Rand) error {
		counter := random.Intn(counters)
		sent := time.Since(s.begin)
		answer, err := client.do("GET", counterKey(counter))
		if err != nil {
			return err
		}
		number := int64(0)
		if text, there := answer.(string); there {
			if number, err = strconv.ParseInt(text, 10, 64); err != nil {
				return err
			}
		}
		age, err := client.do("NODE.STALENESS")
		if err == nil {
			s.judge(counter, number, sent, time.Duration(age.(int64))*time.Millisecond)
		}
		return err
	})
}

// ask connects to a node at random, sends the command `first`, and takes some steps before
// it goes on to another node.
func (s *staleReads) ask(c *cluster, stop *atomic.Bool, seed int64, first []string, step func(*client, *rand.Rand) error) {
	random := rand.New(rand.NewSource(seed))
	for !stop.Load() {
		nodes := c.list()
		connection, err := dial(nodes[random.Intn(len(nodes))].client, 2*time.Second)
		if err == nil && first != nil {
			_, err = connection.do(first...)
		}
		for i := 0; err == nil && i < 50 && !stop.Load(); i++ {
			time.Sleep(pace)
			if err = step(connection, random); isRefusal(err) {
				s.count("refused: " + codeOf(err))
				err = nil
			}
		}
		if connection != nil {
			connection.conn.Close()
		}
		time.Sleep(pace)
	}
}

func (s *staleReads) count(what string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.counts[what]++
}

// judge looks at an answer, of which a node has said how old it may be. That is negative
// if the node does not know.
func (s *staleReads) judge(counter int, number int64, sent, age time.Duration) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if age < 0 || age > maxStaleness {
		s.wrong = append(s.wrong, fmt.Sprintf("an answer may be %v old, and the bound is %v", age, maxStaleness))
		return
	}
	s.counts["answered"]++
	if age > leaderless {
		s.counts["answered without a leader"]++
	}
	s.oldest = max(s.oldest, age)
	for i := len(s.acked[counter]) - 1; i >= 0; i-- {
		if one := s.acked[counter][i]; one.at <= sent-age {
			if number < one.number {
				s.wrong = append(s.wrong, fmt.Sprintf("%s is %d, may be %v old, and was %d %v before",
					counterKey(counter), number, age, one.number, sent-one.at))
			}
			break
		}
	}
}

// expectRight fails the test for answers that were too old, and if there were none that
// had to be stale.
func (s *staleReads) expectRight(t *testing.T) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	t.Logf("stale reads, the oldest %v:%s", s.oldest, inLines(s.counts))
	for _, one := range s.wrong {
		t.Error("stale read: " + one)
	}
	if s.counts["answered"] == 0 || !testing.Short() && s.counts["answered without a leader"] == 0 {
		t.Error("no stale read was answered, or none without a leader")
	}
}

func TestAStaleReadIsJudged(t *testing.T) {
	for i, one := range []struct {
		right     bool
		number    int64
		sent, age time.Duration
	}{
		{true, 7, 10 * time.Second, 0},
		{false, 6, 10 * time.Second, 0},
		{false, 6, 10 * time.Second, time.Second},
		{true, 6, 10 * time.Second, 1001 * time.Millisecond},
		{false, 5, 10 * time.Second, 4 * time.Second},
		{true, 0, 10 * time.Second, 9 * time.Second},
		{false, 7, 20 * time.Second, maxStaleness + time.Millisecond},
		{false, 7, 10 * time.Second, -time.Millisecond},
	} {
		s := newStaleReads()
		s.acked[0] = []ack{{6, 5 * time.Second}, {7, 9 * time.Second}}
		if s.judge(0, one.number, one.sent, one.age); (len(s.wrong) == 0) != one.right {
			t.Errorf("answer %d: %v", i, s.wrong)
		}
	}
}
