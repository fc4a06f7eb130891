// Varve: a key-value storage engine. MIT licence, see LICENSE.
package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Two client libraries of Redis Cluster do a part of the steps under random faults:
// go-redis in this process, and Debian's redis-py in processes of its own.
//
// Both repeat a command by themselves, even if its outcome is unknown. A SET that is
// done twice may restore an old value, which is right for the library and would
// look like a lost update in a history where it is one step. So the history has each
// command that a library has sent as a step of its own, with its own outcome. This
// needs no library to be set up otherwise than a program would.

var python = flag.String("python", "", "an interpreter with redis-py; empty for the system's")

const libraryTimeout = 5 * time.Second

// caller is a client of a library, for one goroutine.
type caller interface {
	// call does a step, and records each command that was sent for it.
	call(h *history, id int, s step) error
	close()
}

// library has the clients of one library, and counts what they did. The test's own clients
// are counted in the same way, and not listed here. Safe for concurrent use.
type library struct {
	name    string
	clients []caller

	mutex    sync.Mutex
	answered int // Calls of the library.
	sent     int // Commands, of which a call may need several.
	moved    int // Commands that were answered with MOVED.
	errors   map[string]int
	gap      time.Duration // The longest time of one client without an answer.
}

func newLibrary(name string) *library { return &library{name: name, errors: map[string]int{}} }

func (l *library) countSent(err error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.sent++; isRefusal(err) && codeOf(err) == "MOVED" {
		l.moved++
	}
}

func (l *library) countCall(err error, gap time.Duration) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.gap = max(l.gap, gap)
	if err == nil {
		l.answered++
	} else {
		l.errors[kindOf(err)]++
	}
}

// kindOf has few values, for a count.
func kindOf(err error) string {
	var failure net.Error
	var end libraryError
	switch {
	case isRefusal(err):
		return codeOf(err)
	case errors.As(err, &end):
		kind, _, _ := strings.Cut(string(end), ":")
		return kind
	case isDial(err):
		return "not connected"
	case errors.As(err, &failure) && failure.Timeout():
		return "timeout"
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE):
		return "connection lost"
	}
	return err.Error()
}

func (l *library) log(t *testing.T) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	commands := ""
	if l.sent > 0 {
		commands = fmt.Sprintf(", %d commands sent, %d of them answered with MOVED", l.sent, l.moved)
	}
	t.Logf("%s: %d operations answered%s; %v at most without an answer; errors:%s", l.name, l.answered,
		commands, l.gap.Round(time.Millisecond), inLines(l.errors))
	if l.answered == 0 && len(l.clients) > 0 {
		t.Errorf("%s: no operation was answered", l.name)
	}
}

// run takes steps with one of the clients until it is stopped.
func (l *library) run(h *history, client caller, id int, stop *atomic.Bool) {
	random := rand.New(rand.NewSource(*seed + int64(id)))
	last := time.Now()
	for number := 0; !stop.Load(); number++ {
		time.Sleep(pace)
		err := client.call(h, id, draw(h, random, id, number))
		now := time.Now()
		l.countCall(err, now.Sub(last))
		if err == nil {
			last = now
		}
	}
}

const (
	stepsAfterFaults    = 40 // Of each client, so many that each shard has some.
	stepsInShortForm    = 12
	attemptsAfterFaults = 100
)

// expectWorking has each client that has met the faults do steps on keys of many
// shards. It may need some attempts, by which libraries learn of what has changed:
// go-redis looks for moves every 10 s if no node tells it.
func (l *library) expectWorking(t *testing.T, h *history, id int) {
	t.Helper()
	steps, most := stepsAfterFaults, 0
	if testing.Short() {
		steps = stepsInShortForm
	}
	for at, client := range l.clients {
		if at > 0 && client == l.clients[0] {
			continue // It is shared.
		}
		for number := 0; number < steps; number++ {
			s := step{doSet, fmt.Sprintf("after-%s-%d-%d", l.name, at, number), fmt.Sprint(number + 1)}
			if number%2 == 1 {
				s.action, s.value = doGet, ""
			}
			for attempt := 1; ; attempt++ {
				err := client.call(h, id, s)
				most = max(most, attempt)
				if err == nil {
					break
				}
				if attempt == attemptsAfterFaults {
					t.Errorf("%s: still broken after the faults: %v", l.name, err)
					return
				}
				time.Sleep(250 * time.Millisecond)
			}
		}
	}
	t.Logf("%s: each client works after the faults, with %d attempts at most", l.name, most)
}

// goRedis is safe for concurrent use: goroutines share one, as they do in programs.
type goRedis struct {
	library *library
	client  *redis.ClusterClient
}

// call and the hook below have this in the context.
type call struct {
	history *history
	id      int
	step    step
	command *redis.Cmd
}

type callKey struct{}

// newGoRedis connects first to any of the nodes that there are, as through a name with
// all their addresses: in time, all of the first nodes are removed.
func newGoRedis(c *cluster, l *library) *goRedis {
	anyNode := "127.0.0.1:1"
	options := &redis.ClusterOptions{ReadTimeout: libraryTimeout}
	if c.network != nil {
		anyNode, options.Password = address(0)+":1", testPassword
	}
	options.Addrs = []string{anyNode}
	options.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == anyNode {
			nodes := c.list()
			address = nodes[rand.Intn(len(nodes))].door
		}
		return (&net.Dialer{Timeout: libraryTimeout}).DialContext(ctx, network, address)
	}
	g := &goRedis{l, redis.NewClusterClient(options)}
	g.client.OnNewNode(func(node *redis.Client) { node.AddHook(g) })
	return g
}

func (g *goRedis) call(h *history, id int, s step) error {
	var words []interface{}
	for _, word := range s.words() {
		words = append(words, word)
	}
	command := redis.NewCmd(context.Background(), words...)
	ctx := context.WithValue(context.Background(), callKey{}, call{h, id, s, command})
	return errorOfGoRedis(g.client.Process(ctx, command))
}

func (g *goRedis) close() { g.client.Close() }

func errorOfGoRedis(err error) error {
	var answered redis.Error
	if err == redis.Nil {
		return nil
	} else if errors.As(err, &answered) {
		return refusal(err.Error())
	}
	return err
}

// ProcessHook sees each command that is sent to a node.
func (g *goRedis) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		of, recorded := ctx.Value(callKey{}).(call)
		if !recorded || command != redis.Cmder(of.command) {
			return next(ctx, command) // Of the library itself, such as CLUSTER SLOTS.
		}
		begin := of.history.now()
		err := next(ctx, command)
		plain := errorOfGoRedis(err)
		g.library.countSent(plain)
		of.history.record(of.id, of.step, begin, of.command.Val(), plain)
		return err
	}
}

func (g *goRedis) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g *goRedis) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// redisPy is a process with a client of redis-py.
type redisPy struct {
	library *library
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// libraryError is an error of redis-py.
type libraryError string

func (e libraryError) Error() string { return string(e) }

// findRedisPy returns an interpreter with redis-py, or why there is none.
func findRedisPy() (program, why string) {
	candidates := []string{"python3", "/usr/bin/python3"}
	if *python != "" {
		candidates = []string{*python}
	}
	for _, one := range candidates {
		if exec.Command(one, "-c", "import redis.cluster").Run() == nil {
			return one, ""
		}
	}
	return "", "redis-py is missing (apt-get install python3-redis)"
}

func newRedisPy(c *cluster, l *library, program string) (*redisPy, error) {
	password := ""
	if c.network != nil {
		password = testPassword
	}
	words := []string{"redis_py_client.py", password}
	for _, p := range c.list() {
		words = append(words, p.door)
	}
	r := &redisPy{library: l, command: exec.Command(program, words...)}
	// It ends with its input, so it does not outlive this program.
	r.command.Stderr = os.Stderr
	var err error
	if r.in, err = r.command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := r.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	r.out = bufio.NewReader(out)
	return r, r.command.Start()
}

func (r *redisPy) call(h *history, id int, s step) error {
	var answer struct {
		Attempts []struct {
			Begin   int64
			Error   string
			Refused bool
			Answer  interface{}
		}
		Error string
	}
	begin := h.now()
	line, err := json.Marshal(s.words())
	if err == nil {
		_, err = r.in.Write(append(line, '\n'))
	}
	if err == nil {
		line, err = r.out.ReadBytes('\n')
	}
	if err == nil {
		err = json.Unmarshal(line, &answer)
	}
	if err != nil { // The process has ended. It is found broken after the faults.
		return libraryError(fmt.Sprintf("redis_py_client.py: %v: %s", err, line))
	}
	var last error
	for _, one := range answer.Attempts {
		last = nil
		if one.Refused {
			last = refusal(one.Error)
		} else if one.Error != "" {
			last = libraryError(one.Error)
		}
		if number, ok := one.Answer.(float64); ok {
			one.Answer = int64(number)
		}
		r.library.countSent(last)
		h.record(id, s, begin+one.Begin, one.Answer, last)
	}
	if answer.Error == "" {
		return nil
	} else if isRefusal(last) && last.Error() == answer.Error {
		return last
	}
	return libraryError(answer.Error)
}

func (r *redisPy) close() {
	r.in.Close()
	r.command.Wait()
}

const clientsOfLibrary = 2

// newLibraries returns the libraries that there are, with their clients.
func newLibraries(c *cluster) []*library {
	c.t.Helper()
	first := newLibrary("go-redis")
	shared := newGoRedis(c, first)
	for i := 0; i < clientsOfLibrary; i++ {
		first.clients = append(first.clients, shared)
	}
	c.t.Cleanup(shared.close)
	program, why := findRedisPy()
	if why != "" {
		c.t.Logf("NOT TESTED: clients of a second library: %s", why)
		return []*library{first}
	}
	second := newLibrary("redis-py")
	for i := 0; i < clientsOfLibrary; i++ {
		one, err := newRedisPy(c, second, program)
		if err != nil {
			c.t.Fatal(err)
		}
		second.clients = append(second.clients, one)
		c.t.Cleanup(one.close)
	}
	return []*library{first, second}
}

// fakeNode answers a client of Redis Cluster. All slots are the owner's. If `answer`
// returns nothing to a SET, the connection is closed.
func fakeNode(t *testing.T, address, owner string, answer func() string) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Error(err)
		return
	}
	t.Cleanup(func() { listener.Close() })
	host, port, _ := net.SplitHostPort(owner)
	serve := func(conn net.Conn) {
		defer conn.Close()
		requests := client{conn: conn, reader: bufio.NewReader(conn)}
		for {
			words, err := requests.answer()
			if err != nil {
				return
			}
			reply := ""
			switch strings.ToUpper(words.([]interface{})[0].(string)) {
			case "INFO":
				reply = "+cluster_enabled:1\r\n"
			case "CLUSTER":
				reply = fmt.Sprintf("*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n+%s\r\n:%s\r\n+id\r\n", host, port)
			case "COMMAND":
				reply = "*1\r\n*6\r\n+set\r\n:-3\r\n*1\r\n+write\r\n:1\r\n:1\r\n:1\r\n"
			case "SET":
				if reply = answer(); reply == "" {
					return
				}
			default:
				reply = "-ERR unknown command\r\n"
			}
			if _, err := io.WriteString(conn, reply); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
}

// fakeCluster returns a cluster with one address, and another address.
func fakeCluster(t *testing.T) (c *cluster, first, second string) {
	t.Helper()
	ports := freePorts(t, 2)
	first, second = fmt.Sprintf("127.0.0.1:%d", ports[0]), fmt.Sprintf("127.0.0.1:%d", ports[1])
	return &cluster{t: t, nodes: []*process{{door: first}}}, first, second
}

func startRedisPy(t *testing.T, c *cluster) *redisPy {
	t.Helper()
	program, why := findRedisPy()
	if why != "" {
		t.Skip(why)
	}
	client, err := newRedisPy(c, newLibrary("redis-py"), program)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.close)
	return client
}

const slotOfKey = 12539 // Of the key "key".

// redis-py is used with two mends, without which it could stay broken: these tests see
// that they work with the version that is installed.
func TestRedisPyFollowsAMoveToANodeThatIsSlowToListen(t *testing.T) {
	t.Parallel()
	c, first, second := fakeCluster(t)
	client := startRedisPy(t, c)
	var once sync.Once
	fakeNode(t, first, first, func() string {
		once.Do(func() {
			time.AfterFunc(100*time.Millisecond, func() {
				fakeNode(t, second, first, func() string { return "+OK\r\n" })
			})
		})
		return fmt.Sprintf("-MOVED %d %s\r\n", slotOfKey, second)
	})
	h := &history{begin: time.Now()}
	err := client.call(h, 0, step{doSet, "key", "value"})
	// It may give the node up and ask the first one again, twice at most.
	if err != nil || h.answered != 1 || h.refused > 3 || h.unknown != 0 {
		t.Fatalf("%d answered, %d refused, %d unknown: %v", h.answered, h.refused, h.unknown, err)
	}
}

func TestRedisPyAsksANodeAgainThatItHadGivenUp(t *testing.T) {
	t.Parallel()
	c, first, second := fakeCluster(t)
	client := startRedisPy(t, c)
	fakeNode(t, first, second, func() string { return "+OK\r\n" })
	h := &history{begin: time.Now()}
	err := client.call(h, 0, step{doSet, "key", "value"})
	if err == nil || !strings.Contains(err.Error(), "cannot be connected") || len(h.operations) != 0 {
		t.Fatalf("%v: %+v", err, h.operations)
	}
	fakeNode(t, second, second, func() string { return "+OK\r\n" })
	if err := client.call(h, 0, step{doSet, "key", "value"}); err != nil || h.answered != 1 {
		t.Fatalf("%d answered: %v", h.answered, err)
	}
}

// The history has a SET that a library repeats after an unknown outcome twice.
func TestARepeatedCommandIsTwoSteps(t *testing.T) {
	t.Parallel()
	test := func(start func(*testing.T, *cluster) caller) func(*testing.T) {
		return func(t *testing.T) {
			c, first, _ := fakeCluster(t)
			var calls atomic.Int64
			fakeNode(t, first, first, func() string {
				if calls.Add(1) == 1 {
					return "" // It may have been done.
				}
				return "+OK\r\n"
			})
			h := &history{begin: time.Now()}
			err := start(t, c).call(h, 0, step{doSet, "key", "value"})
			if err != nil || h.answered != 1 || h.unknown != 1 || h.operations[0].Call >= h.operations[1].Call {
				t.Errorf("%d answered, %d unknown: %v: %+v", h.answered, h.unknown, err, h.operations)
			}
		}
	}
	t.Run("go-redis", test(func(_ *testing.T, c *cluster) caller { return newGoRedis(c, newLibrary("go-redis")) }))
	t.Run("redis-py", test(func(t *testing.T, c *cluster) caller { return startRedisPy(t, c) }))
}
