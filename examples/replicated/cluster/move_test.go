// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: nodes come and go under load, and no client gets an error. Method:
// clients that write and read keys of their own, each with the last value that
// was acknowledged; a node joins, another one is drained and stopped.
package cluster

import (
	"fmt"
	"math/rand"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"varve.example/replicated/check"
)

// load is clients and what they have measured.
type load struct {
	c     *cluster
	keys  int // Of each client.
	value string
	stop  atomic.Bool
	group sync.WaitGroup
	phase atomic.Value // A string, under which latencies are counted.
	nodes atomic.Value // []*process that clients connect to.

	mutex      sync.Mutex
	latencies  map[string][]time.Duration
	failures   []string
	unanswered int // Requests under way when a connection was closed.
	written    map[string]string
}

func startLoad(c *cluster, clients, keys int) *load {
	l := &load{
		c: c, keys: keys, value: strings.Repeat("v", 100),
		latencies: map[string][]time.Duration{}, written: map[string]string{},
	}
	l.phase.Store("quiet")
	l.nodes.Store(append([]*process(nil), c.nodes...))
	for id := 0; id < clients; id++ {
		l.group.Add(1)
		go func() {
			defer l.group.Done()
			l.run(id)
		}()
	}
	return l
}

func (l *load) fail(format string, arguments ...interface{}) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.failures = append(l.failures, fmt.Sprintf("%s, %s: ", time.Now().UTC().Format("15:04:05.000"), l.phase.Load())+fmt.Sprintf(format, arguments...))
}

// run writes and reads in turns. A closed connection makes it connect to
// another node and ask again, as any client of Redis does.
func (l *load) run(id int) {
	random := rand.New(rand.NewSource(*seed + int64(id)))
	last := map[string]string{}
	var connection *client
	ask := func(words ...string) (interface{}, error) {
		for attempt := 0; ; attempt++ {
			if connection == nil {
				nodes := l.nodes.Load().([]*process)
				var err error
				address := nodes[random.Intn(len(nodes))].client
				if connection, err = dial(address, 2*time.Minute); err != nil {
					connection = nil
					if attempt > 100 {
						return nil, err
					}
					time.Sleep(10 * time.Millisecond)
					continue
				}
			}
			answer, err := connection.do(words...)
			if err == nil || isRefusal(err) {
				return answer, err
			}
			connection.conn.Close()
			connection = nil
			l.mutex.Lock()
			l.unanswered++
			l.mutex.Unlock()
		}
	}
	for number := 0; !l.stop.Load(); number++ {
		time.Sleep(2 * time.Millisecond)
		key := fmt.Sprintf("load-%d-%d", id, random.Intn(l.keys))
		begin, phase := time.Now(), l.phase.Load().(string)
		if last[key] == "" || random.Intn(2) == 0 {
			value := fmt.Sprintf("%d-%s", number, l.value)
			if _, err := ask("SET", key, value); err != nil {
				l.fail("SET %s at %s: %v after %v", key, connection.conn.RemoteAddr(), err, time.Since(begin))
				delete(last, key)
				continue
			}
			last[key] = value
		} else if answer, err := ask("GET", key); err != nil {
			l.fail("GET: %v after %v", err, time.Since(begin))
		} else if answer != last[key] {
			l.fail("GET %s: %v, not %v", key, answer, last[key])
		}
		took := time.Since(begin)
		l.mutex.Lock()
		l.latencies[phase] = append(l.latencies[phase], took)
		l.mutex.Unlock()
	}
	if connection != nil {
		connection.conn.Close()
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for key, value := range last {
		l.written[key] = value
	}
}

func (l *load) finish() {
	l.c.t.Helper()
	l.stop.Store(true)
	l.group.Wait()
	if len(l.failures) > 0 {
		l.c.showLogs()
	}
	for i, failure := range l.failures {
		if i == 10 {
			l.c.t.Errorf("and %d more", len(l.failures)-10)
			break
		}
		l.c.t.Error(failure)
	}
	var phases []string
	for phase := range l.latencies {
		phases = append(phases, phase)
	}
	sort.Strings(phases)
	for _, phase := range phases {
		all := l.latencies[phase]
		sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
		at := func(part float64) time.Duration {
			return all[int(part*float64(len(all)-1))].Round(10 * time.Microsecond)
		}
		l.c.t.Logf("%-12s %7d requests, P50 %v, P99 %v, P99.9 %v, longest %v",
			phase, len(all), at(.5), at(.99), at(.999), at(1))
	}
	l.c.t.Logf("%d failures; %d requests were under way when a connection was closed, and were made again",
		len(l.failures), l.unanswered)
}

// checkWritten reads all that was acknowledged last.
func (l *load) checkWritten() {
	l.c.t.Helper()
	nodes := l.nodes.Load().([]*process)
	connection, err := dial(nodes[0].client, 20*time.Second)
	if err != nil {
		l.c.t.Fatal(err)
	}
	defer connection.conn.Close()
	for key, value := range l.written {
		if answer, err := connection.do("GET", key); err != nil || answer != value {
			l.c.t.Errorf("%s: %v %v, not %v", key, answer, err, value)
		}
	}
}

// restartInTurns has clients connect to the others meanwhile.
func (l *load) restartInTurns(nodes []*process) {
	for _, p := range nodes {
		var others []*process
		for _, other := range nodes {
			if other != p {
				others = append(others, other)
			}
		}
		l.nodes.Store(others)
		p.terminate()
		l.c.start(p)
		l.c.await(p)
		l.c.ready(p)
	}
	l.nodes.Store(append([]*process(nil), nodes...))
}

// slowNodes has flags. With slow ticks and much time for a request, a busy machine
// alone makes neither for elections nor for errors.
var slowNodes = []string{"--round-ms=100", "--timeout=20s"}

// The logs then have entries of megabytes, and leaders must not be slowed down by
// reading them.
func TestNodesAreRestartedAfterLargeValues(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, slowNodes...)
	connection, err := dial(c.nodes[0].client, 2*time.Minute)
	check.OK(t, err)
	defer connection.conn.Close()
	large := strings.Repeat("x", 16<<20)
	for i := 0; i < *largeValues; i++ {
		key := fmt.Sprintf("large-%d", i)
		for _, words := range [][]string{{"SET", key, large}, {"DEL", key}} {
			check.OK(t, connection.insist(words...))
		}
	}
	l := startLoad(c, 4, 50)
	time.Sleep(*movePause)
	l.phase.Store("upgrade")
	for i := 0; i < *restarts; i++ {
		l.restartInTurns(c.nodes)
	}
	l.phase.Store("quiet again")
	time.Sleep(*movePause)
	l.finish()
	l.checkWritten()
	c.expectEqual()
}

func TestANodeJoinsAndAnotherIsDrainedUnderLoad(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, slowNodes...)
	for i := 0; i < *moveMegabytes; i++ {
		c.fill(c.nodes[0], fmt.Sprintf("fill-%d", i), 1000, 1000)
	}
	l := startLoad(c, 8, 50)
	time.Sleep(*movePause)
	l.phase.Store("join")
	joined := c.join()
	l.nodes.Store(append([]*process(nil), c.nodes...))
	time.Sleep(*movePause / 4)
	l.phase.Store("spread")
	c.admin(c.nodes[0], "NODE.SPREAD")
	c.settle()
	t.Logf("spread:\n%s", strings.Join(c.admin(joined, "NODE.STATUS"), "\n"))
	l.phase.Store("drain")
	c.admin(joined, "NODE.DRAIN", "1")
	c.settle()
	status := strings.Join(c.admin(joined, "NODE.STATUS"), "\n")
	check.ErrorIf(t, !strings.Contains(status, "state=drained replicas=0"), "node 1 is not drained:\n%s", status)
	l.phase.Store("stop")
	l.nodes.Store(append([]*process(nil), c.nodes[1:]...))
	c.nodes[0].terminate()
	c.admin(joined, "NODE.REMOVE", "1")
	// One node after the other, as for an upgrade.
	l.phase.Store("upgrade")
	l.restartInTurns(c.nodes[1:])
	l.phase.Store("quiet again")
	time.Sleep(*movePause)
	l.finish()
	l.checkWritten()
	c.nodes = c.nodes[1:]
	c.expectEqual()
	c.checkFiles()
}
