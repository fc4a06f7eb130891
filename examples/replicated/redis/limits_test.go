// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: commands that are too large do nothing, and what clients watch, ask for
// and are answered is within the budget. Method: large values, small budgets,
// and clients that do not read.
package redis

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"varve.example/replicated/check"
	"varve.example/replicated/machine"
	"varve.example/replicated/resp"
	"varve.example/replicated/testca"
)

// words sends a command whose words may have any bytes.
func (c *testClient) words(words ...string) {
	c.t.Helper()
	var request strings.Builder
	fmt.Fprintf(&request, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(&request, "$%d\r\n%s\r\n", len(word), word)
	}
	c.send(request.String())
}

func (c *testClient) next(want string) {
	c.t.Helper()
	if got, err := c.one(); err != nil || got != want {
		c.t.Errorf("%.200s %v, not %.200s", got, err, want)
	}
}

// settle waits until the memory is in a range.
func (f *fixture) settle(what string, least, most int64) {
	f.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		used := f.server.Stats().Memory
		if used >= least && used <= most {
			return
		}
		check.FatalIf(f.t, time.Now().After(end), "%s: %d bytes", what, used)
	}
}

const tooMuchData = "-ERR too much data at once"

func TestTooMuchDataChangesNothing(t *testing.T) {
	f := serve(t, nil)
	c := f.dial()
	for i := 1; i <= 4; i++ {
		c.expect(fmt.Sprintf("SETRANGE {t}%d %d x", i, machine.MaxValueBytes-1), fmt.Sprintf(":%d", machine.MaxValueBytes))
	}
	// Too much to compare, to read, or to delete.
	c.expect("WATCH {t}1 {t}2 {t}3", "+OK")
	c.expect("MULTI", "+OK")
	c.expect("SET {t}d done", "+QUEUED")
	c.expect("EXEC", tooMuchData)
	c.expect("GET {t}d", "nil")
	c.expect("MULTI", "+OK")
	for _, request := range []string{"SET {t}s 1", "INCR {t}n", "STRLEN {t}1", "STRLEN {t}2", "STRLEN {t}3", "SET {t}s 2 EX 100"} {
		c.expect(request, "+QUEUED")
	}
	c.expect("EXEC", tooMuchData)
	c.expect("MGET {t}s {t}n", "*[nil nil]")
	c.expect("DEL {t}1 {t}2 {t}3 {t}4", tooMuchData)
	c.expect("EXISTS {t}1 {t}2 {t}3 {t}4", ":4")
	// In a pipeline it is only that command, and the ones after it.
	c.send("INCR {t}n\r\nDEL {t}1 {t}2 {t}3 {t}4\r\n")
	c.next(":1")
	c.next(tooMuchData)
	c.expect("EXISTS {t}1 {t}2 {t}3 {t}4 {t}n", ":5")
	// What is not too much is done.
	c.expect("WATCH {t}s", "+OK")
	c.expect("MULTI", "+OK")
	c.expect("DEL {t}1 {t}none", "+QUEUED")
	c.expect("MSET {t}s 1 {t}n 5", "+QUEUED")
	c.expect("EXEC", "*[:1 +OK]")
	c.expect("DEL {t}2 {t}3", ":2")
	c.expect("DEL {t}4 {t}s {t}n", ":3")
	c.expect("EXISTS {t}1 {t}2 {t}3 {t}4", ":0")
}

func TestExistsOfManyLargeValues(t *testing.T) {
	f := serve(t, func(o *Options) { o.MaxAnswer = 4 << 20 })
	c := f.dial()
	for _, key := range []string{"{t}1", "{t}2", "other"} {
		c.expect("SETRANGE "+key+" 3000000 x", ":3000001")
	}
	c.expect("SET old v PXAT 1", "+OK")
	c.expect("EXISTS {t}1 {t}2 other {t}1 none old", ":4")
	c.expect("TOUCH {t}1 {t}2 other other", ":4")
	f.dial().expect("MGET {t}1 {t}2", "-ERR the answer is larger than 4194304 bytes")
	// Each is read once, however often it is named.
	before := f.store.reads
	c.expect("EXISTS"+strings.Repeat(" {t}1 none {t}2", 1000), ":2000")
	check.ErrorIf(t, f.store.reads-before > 20, "%d reads", f.store.reads-before)
	c.expect("SET {t}1 2 EX none", "-ERR value is not an integer or out of range")
	c.expect("INCR other", "-ERR value is not an integer or out of range")
	c.send("GET {t}1\r\nGET {t}2\r\n") // They are read one after the other.
	for range 2 {
		check.OK(t, check.Err(c.one()))
	}
	text := c.ask("INFO commandstats")
	for _, line := range []string{"cmdstat_set:calls=2,.*failed_calls=1", "cmdstat_incr:calls=1,.*failed_calls=1",
		"cmdstat_mget:calls=1,.*failed_calls=1", "cmdstat_get:calls=2,.*failed_calls=0"} {
		check.ErrorIf(t, !regexp.MustCompile(line).MatchString(text), "%s is not in %s", line, text)
	}
}

func TestExistsDoesNotReadForEver(t *testing.T) {
	f := serve(t, func(o *Options) { o.MaxAnswer = 4 << 20 })
	client := &client{server: f.server}
	_, err := client.headsOnce(1, [][]byte{[]byte("key")}, time.Now().Add(-time.Second))
	check.ErrorIf(t, err != errSlowKeys, "%v", err)
}

func TestWatchesAreCounted(t *testing.T) {
	// Less than MaxAnswer: small values are watched without reserving it.
	f := serve(t, func(o *Options) { o.MaxMemory = 4 << 20 })
	watch := []string{"WATCH"}
	for i := 0; i < 16; i++ {
		watch = append(watch, fmt.Sprint(i, strings.Repeat("k", 60000)))
	}
	for _, one := range []struct{ request, answer string }{
		{"UNWATCH", "+OK"}, {"DISCARD", "+OK"}, {"EXEC", "*[]"}, {"RESET", "+RESET"}, {"", ""},
	} {
		c := f.dial()
		c.words(watch...)
		c.next("+OK")
		c.words(watch...) // The same keys again take nothing.
		c.next("+OK")
		f.settle("watched", 16*60000, 16*60000+100000)
		switch one.request {
		case "EXEC", "DISCARD":
			c.expect("MULTI", "+OK")
			fallthrough
		case "UNWATCH", "RESET":
			if one.request == "EXEC" { // The keys are of several shards.
				one.answer = "-" + crossShard
			}
			c.expect(one.request, one.answer)
			f.settle(one.request, 0, 0)
		}
		c.conn.Close()
		f.settle("closed", 0, 0)
	}
	var clients []*testClient
	refused := 0
	for i := 0; i < 5; i++ {
		c := f.dial()
		c.words(watch...)
		if got, err := c.one(); err != nil || got != "+OK" {
			refused++
		}
		clients = append(clients, c)
	}
	check.ErrorIf(t, refused == 0 || refused == 5, "%d of 5 were refused", refused)
	for _, c := range clients {
		c.conn.Close()
	}
	f.settle("closed", 0, 0)
}

// An attempt to take much does not make one to take little fail.
func TestLargeAttemptsDoNotDisturbSmallOnes(t *testing.T) {
	b := budget{limit: 100}
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Add(1)
	go func() {
		defer group.Done()
		for {
			select {
			case <-stop:
				return
			default:
				b.take(1000)
			}
		}
	}()
	for i := 0; i < 200000; i++ {
		if !b.take(1) {
			t.Error("refused")
			break
		}
		b.give(1)
	}
	close(stop)
	group.Wait()
	check.ErrorIf(t, b.used.Load() != 0, "%v", b.used.Load())
}

func TestManyKeysAreCounted(t *testing.T) {
	f := serve(t, func(o *Options) { o.MaxMemory = 16 << 20 })
	c := f.dial()
	c.expect("SET k v", "+OK")
	many := func(count int) []string {
		return strings.Split("MGET"+strings.Repeat(" k", count), " ")
	}
	c.words(many(100000)...)
	c.next("-OOM there is no memory left for answers")
	c.words(many(20000)...)
	c.next("*[" + strings.TrimSpace(strings.Repeat(`"v" `, 20000)) + "]")
	c.conn.Close()
	f.settle("closed", 0, 0)
}

func TestAnswersOfWritesAreCounted(t *testing.T) {
	f := serve(t, func(o *Options) { o.MaxMemory = 64 << 20 })
	c := f.dial()
	c.expect(fmt.Sprintf("SETRANGE b %d x", machine.MaxValueBytes-1), fmt.Sprintf(":%d", machine.MaxValueBytes))
	c.conn.Close()
	f.settle("closed", 0, 0)
	for _, request := range []string{"MULTI\r\nGET b\r\nGET b\r\nEXEC\r\n", "GETEX b\r\nGETEX b\r\n"} {
		var clients []*testClient
		for i := 0; i < 3; i++ {
			one := f.dial() // Does not read.
			one.send(request)
			clients = append(clients, one)
		}
		f.settle(request, machine.MaxValueBytes, 64<<20)
		for end := time.Now().Add(2500 * time.Millisecond); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if used := f.server.Stats().Memory; used > 64<<20 {
				t.Fatalf("%q: %d bytes", request, used)
			}
		}
		for _, one := range clients {
			one.conn.Close()
		}
		f.settle("closed", 0, 0)
	}
}

// Small answers of writes need no reservation, and those that need one are of
// commands that are done once.
func TestWritesThatAnswerWithValues(t *testing.T) {
	small := serve(t, func(o *Options) { o.MaxMemory = 1 << 20 }).dial()
	small.expect("SET a 1", "+OK")
	small.expect("GETEX a EX 100", `"1"`)
	small.expect("GETSET a 2", `"1"`)
	f := serve(t, nil)
	c := f.dial()
	for _, size := range []int{1000, 300000, 5000000} {
		value := strings.Repeat("v", size)
		c.words("MSET", "{t}a", value, "{t}b", value, "{t}n", "0")
		c.next("+OK")
		c.send("INCR {t}n\r\nGETEX {t}a\r\nSET {t}a new GET\r\nGETDEL {t}b\r\nINCR {t}n\r\n")
		for _, want := range []string{":1", `"` + value + `"`, `"` + value + `"`, `"` + value + `"`, ":2"} {
			c.next(want)
		}
		c.expect("MGET {t}a {t}b {t}n", `*["new" nil "2"]`)
		c.words("MSET", "{t}a", value, "{t}n", "0")
		c.next("+OK")
		c.expect("WATCH {t}a", "+OK")
		c.expect("MULTI", "+OK")
		for _, request := range []string{"INCR {t}n", "GET {t}a", "GETDEL {t}a", "INCR {t}n"} {
			c.expect(request, "+QUEUED")
		}
		c.expect("EXEC", fmt.Sprintf(`*[:1 "%s" "%s" :2]`, value, value))
		c.expect("MGET {t}a {t}n", `*[nil "2"]`)
	}
	c.conn.Close()
	f.settle("closed", 0, 0)
}

func TestAnswersOfScansAreCounted(t *testing.T) {
	f := serve(t, func(o *Options) { o.Allow = []string{"keys"} })
	c := f.dial()
	for i := 0; i < 300; i++ {
		c.words("SET", fmt.Sprint("{t}", i, strings.Repeat("k", 60000)), "")
		c.next("+OK")
	}
	c.conn.Close()
	f.settle("closed", 0, 0)
	for request, least := range map[string]int64{"SCAN 0 COUNT 10000\r\n": 8 << 20, "KEYS *\r\n": 300 * 60000} {
		one := f.dial() // Does not read.
		one.send(strings.Repeat(request, 10))
		f.settle(request, least, 64<<20)
		one.conn.Close()
		f.settle("closed", 0, 0)
	}
}

// The answers that a client has read take no memory, though the commands after
// them in the pipeline are not done.
func TestAnswersThatWereReadAreFreed(t *testing.T) {
	f := serve(t, nil)
	const size, count = 4 << 20, 80
	f.dial().expect(fmt.Sprintf("SETRANGE big %d x", size-1), fmt.Sprintf(":%d", size))
	live := func() int64 {
		var memory runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&memory)
		return int64(memory.HeapAlloc)
	}
	for _, one := range []struct{ request, after string }{
		{"GET big\r\n", ""}, {"GET big\r\nSET other 1\r\n", "+OK\r\n"}, {"MGET big\r\n", ""},
		{"MULTI\r\nGET big\r\nEXEC\r\n", ""},
	} {
		before := live()
		c := f.dial()
		c.send(strings.Repeat(one.request, count))
		for i := 0; i < count-2; i++ {
			for line := ""; !strings.HasPrefix(line, "$"); {
				var err error
				if line, err = c.reader.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}
			check.OK(t, check.Err(c.reader.Discard(size+2+len(one.after))))
		}
		if held := live() - before; held > 8*size {
			t.Errorf("%q: %d bytes are held", one.request, held)
		}
		c.conn.Close()
		f.settle("closed", 0, 0)
	}
}

func TestThePipelineOfAClientThatHasGoneIsDropped(t *testing.T) {
	f := serve(t, nil)
	f.dial().expect("SETRANGE big 4194303 x", ":4194304")
	c := f.dial()
	c.send(strings.Repeat("GET big\r\n", 50) + "SET after 1\r\n" + strings.Repeat("GET big\r\n", 50))
	c.one()
	c.conn.(*net.TCPConn).SetLinger(0)
	c.conn.Close()
	for end := time.Now().Add(time.Minute); f.server.Stats().Connected > 1; time.Sleep(10 * time.Millisecond) {
		check.FatalIf(t, time.Now().After(end), "the connection is still served")
	}
	f.settle("closed", 0, 0)
	f.dial().expect("EXISTS after", ":0")
}

func TestCommandsThatAreNotInTransactions(t *testing.T) {
	f := serve(t, func(o *Options) { o.Users, o.Allow = loadTestUsers(t), []string{"keys", "flushall", "flushdb"} })
	c := f.dial()
	c.expect("AUTH secret", "+OK")
	c.expect("SET a old", "+OK")
	for _, request := range []string{"FLUSHALL", "FLUSHDB", "KEYS *", "SCAN 0", "DBSIZE", "NODE.STATUS", "AUTH wrong", "HELLO 3",
		"DISCARD x", "WATCH", "MULTI x"} {
		c.expect("MULTI", "+OK")
		want := "-ERR Command not allowed inside a transaction"
		if name, _, _ := strings.Cut(request, " "); commands[strings.ToLower(name)] != nil && commands[strings.ToLower(name)].immediate {
			want = "-" + wrongNumber(strings.ToLower(name))
		}
		c.expect(request, want)
		c.expect("SET a new", "+QUEUED")
		c.expect("EXEC", "-EXECABORT Transaction discarded because of previous errors.")
		c.expect("GET a", `"old"`)
	}
	// A wrong EXEC ends the transaction.
	c.expect("MULTI", "+OK")
	c.expect("SET a new", "+QUEUED")
	c.expect("EXEC x", "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command")
	c.expect("GET a", `"old"`)
	c.expect("EXEC", "-ERR EXEC without MULTI")
	if failed := f.server.Stats().FailedLogins; failed != 0 {
		t.Errorf("%d passwords were tried", failed)
	}
	// Nothing is answered after a command that closes the connection.
	c.expect("MULTI", "+OK")
	c.expect("CLIENT KILL SKIPME no", "+QUEUED")
	c.expect("PING", "+QUEUED")
	c.send("EXEC\r\n")
	if line, _ := c.reader.ReadString('\n'); line != "*2\r\n" {
		t.Errorf("%q", line)
	}
	c.next(":1")
	f.expectClosed(c, "killed")
}

func TestAllowedCommandsAreForOperators(t *testing.T) {
	f := serve(t, func(o *Options) { o.Users, o.Allow = loadTestUsers(t), []string{"keys", "flushall"} })
	c := f.dial()
	for _, login := range []string{"reader r", "writer w1"} {
		c.expect("AUTH "+login, "+OK")
		name := strings.Fields(login)[0]
		for _, command := range []string{"keys *", "flushall"} {
			c.expect(command, fmt.Sprintf("-NOPERM User %s has no permissions to run the '%s' command", name, strings.Fields(command)[0]))
		}
	}
	c.expect("AUTH operator o", "+OK")
	c.expect("KEYS *", "*[]")
	c.expect("FLUSHALL", "+OK")
}

func TestTimeToLogInAgain(t *testing.T) {
	f := serve(t, func(o *Options) { o.Users, o.AuthTimeout = loadTestUsers(t), 500*time.Millisecond })
	c := f.dial()
	c.expect("AUTH secret", "+OK")
	time.Sleep(700 * time.Millisecond)
	c.expect("RESET", "+RESET")
	time.Sleep(50 * time.Millisecond)
	c.expect("AUTH secret", "+OK")
	time.Sleep(700 * time.Millisecond)
	c.expect("RESET", "+RESET")
	begin := time.Now()
	f.expectClosed(c, "after RESET")
	// RESET without a login gives no more time.
	d := f.dial()
	go func() {
		for i := 0; i < 100; i++ {
			d.conn.Write([]byte("RESET\r\n"))
			time.Sleep(20 * time.Millisecond)
		}
	}()
	f.expectClosed(d, "RESET again and again")
	if took := time.Since(begin); took > 1900*time.Millisecond {
		t.Error(took)
	}
}

// A user that changes between the check of a password and the login has to log
// in again.
func TestUsersThatChangeDuringALogin(t *testing.T) {
	path := writeFile(t, 0o600, "a write "+HashPassword([]byte("1"))+"\nb read "+HashPassword([]byte("1"))+"\n")
	users, err := LoadUsers("", path)
	check.OK(t, err)
	s := NewServer(Options{Users: users}, newStore(t))
	c := &client{server: s, parser: resp.NewParser(strangerLimits)}
	version := users.version.Load()
	user := users.check([]byte("a"), []byte("1"))
	os.WriteFile(path, []byte("b read "+HashPassword([]byte("1"))+"\n"), 0o600)
	check.OK(t, users.Reload())
	c.login(user, version)
	check.ErrorIf(t, c.version == users.version.Load(), "the change is not noticed")
}

func TestCloseDoesNotWaitForEver(t *testing.T) {
	f := serve(t, nil)
	f.store.pause = make(chan struct{})
	f.dial().send("SET a b\r\n")
	time.Sleep(100 * time.Millisecond)
	begin := time.Now()
	f.server.Close()
	if took := time.Since(begin); took < closeTimeout || took > 3*closeTimeout {
		t.Error(took)
	}
	close(f.store.pause)
	f.server.serving.Wait()
	f.server.expirer.Wait()
}

func TestAPipelineIsTakenTogether(t *testing.T) {
	const count = 5000
	var pipeline strings.Builder
	for i := 0; i < count; i++ {
		fmt.Fprintf(&pipeline, "*3\r\n$3\r\nSET\r\n$9\r\nkey:%05d\r\n$5\r\n%05d\r\n", i, i)
	}
	for i := 0; i < count; i += 7 {
		fmt.Fprintf(&pipeline, "*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n")
	}
	authority := testca.New(t)
	certFile, keyFile := authority.Issue("node")
	config, _, err := LoadTLS(certFile, keyFile, "")
	check.OK(t, err)
	for _, one := range []struct {
		memory    int64
		proposals int
		piece     int // Bytes that are sent at once, and are a record of TLS.
		tls       *tls.Config
	}{{DefaultOptions.MaxMemory, 40, 0, nil}, {1, 10000, 0, nil}, {DefaultOptions.MaxMemory, 40, 0, config},
		{DefaultOptions.MaxMemory, 40, 100, config}} {
		f := serve(t, func(o *Options) { o.MaxMemory, o.TLS = one.memory, one.tls })
		c := f.dial()
		if one.tls != nil {
			conn, err := tls.Dial("tcp", f.server.Addr().String(), &tls.Config{RootCAs: authority.Pool()})
			check.OK(t, err)
			c = f.wrap(conn)
		}
		f.store.pause = make(chan struct{})
		c.send("SET first x\r\n")
		for f.server.Stats().Commands == 0 {
			time.Sleep(time.Millisecond)
		}
		rest := pipeline.String() // All of it has been sent when the first one is done.
		for one.piece > 0 && len(rest) > one.piece {
			c.send(rest[:one.piece])
			rest = rest[one.piece:]
		}
		c.send(rest)
		close(f.store.pause)
		c.next("+OK")
		for i := 0; i < count; i++ {
			c.next("+OK")
		}
		for i, number := 0, 1; i < count; i, number = i+7, number+1 {
			c.next(fmt.Sprintf(":%d", number))
		}
		c.expect("MGET key:00000 key:04999", `*["00000" "04999"]`)
		check.ErrorIf(t, f.store.proposals > one.proposals, "%d proposals", f.store.proposals)
		f.settle("idle", 0, 0)
	}
}
