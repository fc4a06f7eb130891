// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: commands do what Redis' do, alone and many at a time. Method: real
// machines without replication; the words as a client sends them.
package redis

import (
	"fmt"
	"math/rand"
	"regexp"
	"strings"
	"testing"
	"time"

	"varve.example/replicated/check"
	"varve.example/replicated/machine"
)

func TestAnswersAsRedisDoes(t *testing.T) {
	f := serve(t, nil)
	c := f.dial()
	const integer = "-ERR value is not an integer or out of range"
	future := fmt.Sprint(time.Now().Unix() + 100)
	for _, one := range []struct{ request, answer string }{
		{"PING", "+PONG"}, {"PING x", `"x"`}, {"ECHO x", `"x"`}, {"SELECT 0", "+OK"},
		{"SELECT 1", "-ERR DB index is out of range"}, {"SELECT x", "-ERR invalid DB index"},
		{"get a", "nil"}, {"SET a b", "+OK"}, {"GET a", `"b"`}, {"TYPE a", "+string"}, {"TYPE z", "+none"},
		{"MSET b 1 c 2", "+OK"}, {"MGET a z c", `*["b" nil "2"]`}, {"EXISTS a b z a", ":3"}, {"TOUCH a z", ":1"},
		{"DBSIZE", ":3"}, {"DEL a z b", ":2"}, {"UNLINK a c c", ":1"}, {"DBSIZE", ":0"},
		{"SET", "-ERR wrong number of arguments for 'set' command"},
		{"MSET a b c", "-ERR wrong number of arguments for 'mset' command"},
		{"LPUSH a b", "-ERR unknown command 'lpush'"},

		{"SET a 1 NX", "+OK"}, {"SET a 2 nx", "nil"}, {"SET a 2 XX", "+OK"}, {"SET z 2 XX", "nil"},
		{"SET a 3 GET", `"2"`}, {"SET z 3 XX GET", "nil"}, {"EXISTS z", ":0"}, {"SET a 1 NX XX", "-ERR syntax error"},
		{"SET a 1 EX", "-ERR syntax error"}, {"SET a 1 EX 5 PX 5", "-ERR syntax error"},
		{"SET a 1 EX 5 KEEPTTL", "-ERR syntax error"}, {"SET a 1 EX 0", "-ERR invalid expire time in 'set' command"},
		{"SET a 1 EX 9223372036854775807", "-ERR invalid expire time in 'set' command"},
		{"SET a 1 EX x", integer}, {"SET a 1 EX x FOO", "-ERR syntax error"}, {"GETEX a EX x EX 5", "-ERR syntax error"}, {"SET a 1 FOO", "-ERR syntax error"},
		{"SETNX a 5", ":0"}, {"SETNX d 5", ":1"}, {"GETSET d 6", `"5"`}, {"GETDEL d", `"6"`}, {"GETDEL d", "nil"},

		{"SET t v EX 100", "+OK"}, {"TTL t", ":100"}, {"SET t w KEEPTTL", "+OK"}, {"TTL t", ":100"},
		{"PERSIST t", ":1"}, {"PERSIST t", ":0"}, {"TTL t", ":-1"}, {"PTTL z", ":-2"}, {"EXPIRE t 50", ":1"},
		{"EXPIRE t 60 NX", ":0"}, {"EXPIRE t 40 GT", ":0"}, {"EXPIRE t 40 LT", ":1"}, {"EXPIRE z 40", ":0"},
		{"EXPIRE t 40 FOO", "-ERR Unsupported option FOO"},
		{"EXPIRE t 90 XX GT", ":1"}, {"EXPIRE t 85 xx gt", ":0"}, {"EXPIRE t 80 LT XX", ":1"}, {"TTL t", ":80"}, {"PERSIST t", ":1"},
		{"EXPIRE t 90 XX LT", ":0"}, {"EXPIRE t 90 LT", ":1"}, {"EXPIRE t x FOO", "-ERR Unsupported option FOO"},
		{"EXPIRE t 90 GT LT", "-ERR GT and LT options at the same time are not compatible"},
		{"EXPIRE t 90 NX XX", "-ERR NX and XX, GT or LT options at the same time are not compatible"},
		{"EXPIRE t 90 LT NX", "-ERR NX and XX, GT or LT options at the same time are not compatible"},
		{"SET r v PXAT 33177117420500", "+OK"}, {"EXPIRETIME r", ":33177117421"}, {"DEL r", ":1"}, {"EXPIREAT t " + future, ":1"}, {"EXPIRETIME t", ":" + future},
		{"PEXPIRETIME t", ":" + future + "000"}, {"SET t x", "+OK"}, {"TTL t", ":-1"}, {"PEXPIRE t 100000", ":1"},
		{"GETEX t PERSIST", `"x"`}, {"TTL t", ":-1"}, {"GETEX t EX 100", `"x"`}, {"TTL t", ":100"}, {"GETEX t", `"x"`},
		{"GETEX z EX 100", "nil"}, {"GETEX t EX 5 PERSIST", "-ERR syntax error"}, {"PEXPIREAT t 1", ":1"}, {"GET t", "nil"},
		{"SETEX t 100 v", "+OK"}, {"TTL t", ":100"}, {"PSETEX t 200000 v", "+OK"}, {"TTL t", ":200"},
		{"SETEX t 0 v", "-ERR invalid expire time in 'setex' command"}, {"EXPIRE t -1", ":1"}, {"EXISTS t", ":0"},
		{"SET t v PXAT " + future + "000", "+OK"}, {"EXPIRETIME t", ":" + future}, {"DEL t", ":1"},

		{"INCR n", ":1"}, {"INCRBY n 10", ":11"}, {"DECR n", ":10"}, {"DECRBY n 20", ":-10"}, {"INCRBY n x", integer},
		{"DECRBY n -9223372036854775808", "-ERR decrement would overflow"}, {"INCRBYFLOAT n 0.5", `"-9.5"`}, {"INCR n", integer},
		{"APPEND s hello", ":5"}, {"APPEND s world", ":10"}, {"STRLEN s", ":10"}, {"STRLEN z", ":0"},
		{"GETRANGE s 0 3", `"hell"`}, {"GETRANGE s -3 -1", `"rld"`}, {"GETRANGE s 0 -1", `"helloworld"`}, {"GETRANGE s 20 30", `""`},
		{"GETRANGE s -1 -3", `""`}, {"GETRANGE s -100 1", `"he"`}, {"SUBSTR s 0 0", `"h"`}, {"GETRANGE z 0 -1", `""`}, {"GETRANGE s x 1", integer},
		{"SETRANGE s 5 W", ":10"}, {"GET s", `"helloWorld"`}, {"SETRANGE s -1 W", "-ERR offset is out of range"},
		{"SETRANGE s 16777216 W", "-ERR string exceeds maximum allowed size"}, {"SETRANGE e 2 ''", ":0"}, {"EXISTS e", ":0"},
		{"MSETNX {k}1 a {k}2 b", ":1"}, {"MSETNX {k}3 a {k}2 b", ":0"}, {"MGET {k}1 {k}2 {k}3", `*["a" "b" nil]`},
		{"SET '' v", "+OK"}, {"GET ''", `"v"`},

		{"SCAN x", "-ERR invalid cursor"}, {"SCAN 77", "-ERR invalid cursor"}, {"SCAN 0 COUNT", "-ERR syntax error"},
		{"SCAN 0 COUNT 0", "-ERR syntax error"}, {"SCAN 99999999999999", "-ERR invalid cursor"}, {"SCAN 0 COUNT x", integer},
		{"KEYS *", "-ERR 'keys' is refused, because it is expensive or destroys data. Node option: --allow-commands"},
		{"FLUSHALL", "-ERR 'flushall' is refused, because it is expensive or destroys data. Node option: --allow-commands"},
		{"NODE.STATUS x", `*["NODE.STATUS" "x"]`}, {"CONFIG GET databases", `*["databases" "1"]`}, {"CONFIG GET nothing", "*[]"},
		{"CONFIG SET a b", "-ERR Unknown option or number of arguments for CONFIG SET - 'a'"}, {"ACL WHOAMI", `"default"`},
		{"ACL WHOAMI x", "-ERR wrong number of arguments for 'acl|whoami' command"}, {"ACL SETUSER x on", "-ERR unknown subcommand 'SETUSER'. Try ACL HELP."},
		{"AUTH x", "-ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"},
		{"AUTH default x", "+OK"}, {"AUTH other x", "-WRONGPASS invalid username-password pair or user is disabled."},
		{"CLIENT SETNAME me", "+OK"}, {"CLIENT GETNAME", `"me"`}, {"CLIENT SETNAME 'a b'", "-" + badName}, {"CLIENT ID", ":1"},
		{"CLIENT SETINFO LIB-NAME x", "+OK"}, {"CLIENT SETINFO foo x", "-ERR Unrecognized option 'foo'"}, {"CLIENT NO-EVICT on", "+OK"},
		{"CLIENT NO-TOUCH off", "+OK"}, {"CLIENT FOO", "-ERR unknown subcommand 'FOO'. Try CLIENT HELP."},
		{"CONFIG help", "*[+CONFIG <subcommand> [<argument> ...]. Subcommands are: +GET +RESETSTAT +SET]"}, {"ACL help", "*[+ACL <subcommand> [<argument> ...]. Subcommands are: +WHOAMI]"},
		{"CLIENT GETREDIR", ":-1"},
		{"COMMAND COUNT", fmt.Sprintf(":%d", len(commands))}, {"COMMAND INFO get foo", `*[*["get" :2 *[+readonly] :1 :1 :1 *[+@string] *[] *[] *[]] nil]`},
		{"COMMAND DOCS strlen", `*["strlen" *["summary" "Returns the length of a value." "group" "string"]]`},
		{"COMMAND GETKEYS MSET a b c d", `*["a" "c"]`},
		{"HELLO 4", "-NOPROTO unsupported protocol version"}, {"HELLO 2 FOO", "-ERR Syntax error in HELLO option 'FOO'"},
		{"RESET", "+RESET"}, {"CLIENT GETNAME", "nil"},
		{"HELLO 3 SETNAME you", `%["server" "redis" "version" "7.2.0" "proto" :3 "id" :1 "mode" "standalone" "role" "master" "modules" *[]]`},
		{"CONFIG GET databases", `%["databases" "1"]`}, {"GET z", "nil"}, {"CLIENT GETNAME", `"you"`},
		{"HELLO", `%["server" "redis" "version" "7.2.0" "proto" :3 "id" :1 "mode" "standalone" "role" "master" "modules" *[]]`},
	} {
		c.expect(one.request, one.answer)
	}
	for request, pattern := range map[string]string{
		"TIME":                 `^\*\["\d+" "\d+"\]$`,
		"INFO server":          `redis_version:7\.2\.0.*engine:test`,
		"INFO replication":     `role:master.*master_repl_offset:0`,
		"INFO":                 `# Clients.*connected_clients:1.*# Stats.*# Extra.*a:b`,
		"CLIENT LIST":          `id=1 addr=127\.0\.0\.1:\d+ .*cmd=client\|list user=default .*resp=3`,
		"CLIENT LIST TYPE foo": `Unknown client type`,
		"CLIENT LIST ID 7 8":   `^"txt:"$`,
		"CLIENT INFO":          `^"txt:id=1 `,
		"COMMAND":              `"getrange" :4`,
	} {
		if got := c.ask("%s", request); !regexp.MustCompile("(?s)" + pattern).MatchString(got) {
			t.Errorf("%s: %s", request, got)
		}
	}
	c.expect("QUIT", "+OK")
	if _, closed := c.closed(); !closed {
		t.Error("still open after QUIT")
	}
}

func TestKeysExpire(t *testing.T) {
	f := serve(t, nil)
	c := f.dial()
	for i := 0; i < 50; i++ {
		c.expect(fmt.Sprintf("SET k%d v PX 100", i), "+OK")
	}
	c.expect("SET k7 stays", "+OK")
	c.expect("EXPIRE k8 100", ":1")
	time.Sleep(150 * time.Millisecond)
	c.expect("MGET k6 k7 k8", `*[nil "stays" "v"]`)
	c.expect("DBSIZE", ":2")
	c.expect("EXISTS k1 k2 k7", ":1")
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		entries := uint64(0)
		for _, one := range f.store.machines[1:] {
			answer, err := one.Lookup(machine.Digest{})
			check.OK(t, err)
			entries += answer.(machine.Summary).Entries
		}
		if entries == 2 {
			break
		}
		check.FatalIf(t, time.Now().After(end), "%d entries are there", entries)
	}
	check.ErrorIf(t, f.server.Stats().KeysExpired < 48, "%v", f.server.Stats())
}

func TestPipelinesKeepTheirOrderAndGoTogether(t *testing.T) {
	f := serve(t, nil)
	c := f.dial()
	var request, want []string
	for i := 0; i < 50; i++ {
		request = append(request, fmt.Sprintf("SET k%d v%d", i, i))
		want = append(want, "+OK")
	}
	request = append(request, "GET k7", "INCR n", "DEL k7", "SET k8 v x", "SET k8 v", "INCR n", "GET k7", "GET k8", "NO", "GET n")
	want = append(want, `"v7"`, ":1", ":1", "-ERR syntax error", "+OK", ":2", "nil", `"v"`, "-ERR unknown command 'no'", `"2"`)
	c.send(strings.Join(request, "\r\n") + "\r\n")
	for i := range want {
		c.next(want[i])
	}
	// More than the least only where the network has cut the pipeline.
	check.ErrorIf(t, f.store.proposals > 20, "%d proposals of 4 shards", f.store.proposals)
}

func TestErrorsAreOfTheCommandsTheyAreOf(t *testing.T) {
	f := serve(t, nil)
	c := f.dial()
	f.store.down = ShardOf([]byte("bad"), testShards)
	good := "good"
	for ShardOf([]byte(good), testShards) == f.store.down {
		good += "."
	}
	c.send(fmt.Sprintf("SET %s v\r\nSET bad v\r\nMSET %s v bad v\r\nGET %s\r\nGET bad\r\n", good, good, good))
	for _, want := range []string{"+OK", "-ERR timeout", "-ERR timeout", `"v"`, "-ERR timeout"} {
		c.next(want)
	}
}

func TestScansAllShardsOnAnyNode(t *testing.T) {
	f := serve(t, nil)
	// Another node of the same cluster.
	other := &fixture{t, f.store, NewServer(Options{Address: "127.0.0.1:0", MaxConnections: 10, MaxPipeline: 10,
		MaxWords: 100, MaxRequest: 10000, MaxAnswer: 10000, MaxMemory: 1 << 20, AuthTimeout: time.Minute,
		RequestTimeout: time.Minute, WriteTimeout: time.Minute}, f.store)}
	check.OK(t, other.server.Listen())
	go other.server.Serve()
	t.Cleanup(func() { other.server.Close() })
	clients := []*testClient{f.dial(), other.dial()}
	for i := 0; i < 300; i++ {
		clients[0].expect(fmt.Sprintf("SET key:%d v", i), "+OK")
	}
	clients[0].expect("SET gone v PXAT 1", "+OK")
	for _, count := range []int{1, 7, 1000} {
		seen := map[string]bool{}
		cursor := "0"
		for calls := 0; ; calls++ {
			answer := clients[calls%2].ask("SCAN %s COUNT %d MATCH key:*", cursor, count)
			words := strings.FieldsFunc(answer, func(c rune) bool { return strings.ContainsRune(`*[]" `, c) })
			cursor = words[0]
			for _, key := range words[1:] {
				check.ErrorIf(t, seen[key], "twice: %v", key)
				seen[key] = true
			}
			if cursor == "0" || calls > 1000 {
				break
			}
		}
		check.ErrorIf(t, len(seen) != 300 || seen["gone"], "count %d: %d keys", count, len(seen))
	}
	clients[0].expect("SCAN 0 TYPE list COUNT 10000", `*["0" *[]]`)
}

func TestAllowedCommands(t *testing.T) {
	f := serve(t, func(o *Options) { o.Allow = []string{"keys", "flushall"} })
	c := f.dial()
	c.expect("MSET a 1 b 2 c 3", "+OK")
	c.expect("KEYS [bx]", `*["b"]`)
	c.expect("FLUSHALL", "+OK")
	c.expect("DBSIZE", ":0")
	if got := c.ask("FLUSHDB"); !strings.Contains(got, "refused") {
		t.Error(got)
	}
}

func TestStaleReadsAreOfAConnectionThatWantsThem(t *testing.T) {
	f := serve(t, nil)
	c := f.dial()
	c.expect("GET a", "nil")
	c.expect("READONLY", "+OK")
	c.expect("GET a", "nil")
	c.expect("READWRITE", "+OK")
	c.expect("GET a", "nil")
	f.store.mutex.Lock()
	defer f.store.mutex.Unlock()
	check.ErrorIf(t, f.store.stale < 1 || f.store.reads < 3, "%d of %d", f.store.stale, f.store.reads)
}

func TestTransactions(t *testing.T) {
	f := serve(t, nil)
	c, d := f.dial(), f.dial()
	for _, one := range []struct{ request, answer string }{
		{"EXEC", "-ERR EXEC without MULTI"}, {"DISCARD", "-ERR DISCARD without MULTI"},
		{"MULTI", "+OK"}, {"MULTI", "-ERR MULTI calls can not be nested"}, {"WATCH a", "-ERR WATCH inside MULTI is not allowed"},
		{"SET {t}a 1", "+QUEUED"}, {"INCR {t}a", "+QUEUED"}, {"GET {t}a", "+QUEUED"}, {"MGET {t}a {t}b", "+QUEUED"},
		{"PING", "+QUEUED"}, {"SET {t}a x y", "+QUEUED"}, {"INCRBYFLOAT {t}a 0.5", "+QUEUED"}, {"INCR {t}a", "+QUEUED"},
		{"TTL {t}a", "+QUEUED"}, {"DEL {t}a {t}b", "+QUEUED"},
		{"EXEC", `*[+OK :2 "2" *["2" nil] +PONG -ERR syntax error "2.5" -ERR value is not an integer or out of range :-1 :1]`},
		{"GET {t}a", "nil"},
		{"MULTI", "+OK"}, {"SET a 1", "+QUEUED"}, {"FOO", "-ERR unknown command 'foo'"},
		{"EXEC", "-EXECABORT Transaction discarded because of previous errors."}, {"GET a", "nil"},
		{"MULTI", "+OK"}, {"SET a 1", "+QUEUED"}, {"DISCARD", "+OK"}, {"GET a", "nil"},
		{"MULTI", "+OK"}, {"MSET a 1 b 2 c 3 d 4 e 5", "+QUEUED"}, {"EXEC", "-" + crossShard}, {"EXISTS a b c d e", ":0"},
		{"MULTI", "+OK"}, {"EXEC", "*[]"},
	} {
		c.expect(one.request, one.answer)
	}
	// Watched keys, with and without a change.
	c.expect("SET {t}n 1", "+OK")
	c.expect("WATCH {t}n {t}none", "+OK")
	c.expect("MULTI", "+OK")
	c.expect("INCR {t}n", "+QUEUED")
	c.expect("EXEC", "*[:2]")
	for _, change := range []string{"SET {t}n 5", "SET {t}none x", "EXPIRE {t}n 100", "DEL {t}n"} {
		c.expect("WATCH {t}n {t}none", "+OK")
		d.ask("%s", change)
		c.expect("MULTI", "+OK")
		c.expect("SET {t}n 9", "+QUEUED")
		c.expect("EXEC", "*[]") // A null array.
	}
	c.expect("WATCH {t}n", "+OK")
	d.expect("SET {t}n 7", "+OK")
	c.expect("UNWATCH", "+OK")
	c.expect("MULTI", "+OK")
	c.expect("INCR {t}n", "+QUEUED")
	c.expect("EXEC", "*[:8]")
	c.conn.Close()
	d.conn.Close()
	f.settle("at the end", 0, 0)
}

func TestRepliesCanBeSwitchedOff(t *testing.T) {
	f := serve(t, nil)
	c := f.dial()
	c.send("CLIENT REPLY OFF\r\nSET a 1\r\nGET a\r\nBAD\r\nCLIENT REPLY ON\r\n")
	c.next("+OK")
	c.send("CLIENT REPLY SKIP\r\nSET a 2\r\nGET a\r\n")
	c.next(`"2"`)
}

func TestPatterns(t *testing.T) {
	for _, one := range []struct {
		pattern, text string
		want          bool
	}{
		{"*", "", true}, {"", "", true}, {"", "a", false}, {"a*", "abc", true}, {"a*c", "abc", true}, {"a*c", "abd", false},
		{"?b?", "abc", true}, {"?", "", false}, {"[abc]x", "bx", true}, {"[^abc]x", "bx", false}, {"[^abc]x", "dx", true},
		{"[a-c]", "b", true}, {"[c-a]", "b", true}, {"[a-c]", "d", false}, {"\\*", "*", true}, {"\\*", "a", false}, {"[\\]]", "]", true},
		{"a\\", "a\\", true}, {"[", "a", false}, {"[a", "a", true}, {"**a**", "bab", true}, {"*a*b*c", "xaxbxc", true}, {"h[-x]", "h-", true},
		{"[a-]", "^", true}, {"[^a-]", "-", true}, {"[^a-]", "]", false}, {"[a-]]", "]", true}, {"[\\a-c]", "b", false}, {"[\\a-c]", "-", true},
	} {
		if got := matches([]byte(one.pattern), []byte(one.text)); got != one.want {
			t.Errorf("%q of %q: %v", one.pattern, one.text, got)
		}
	}
	// The time is bounded by the product of the lengths.
	begin := time.Now()
	matches([]byte(strings.Repeat("*a", 500)+"b"), []byte(strings.Repeat("a", 20000)))
	if took := time.Since(begin); took > 5*time.Second {
		t.Error(took)
	}
}

func FuzzPatterns(f *testing.F) {
	f.Add([]byte("a*[b-c]\\"), []byte("abc"))
	f.Fuzz(func(t *testing.T, pattern, text []byte) {
		matches(pattern, text)
		check.FatalIf(t, len(text) > 0 && matches(nil, text), "nothing matches text")
		check.FatalIf(t, !matches([]byte("*"), text), "* matches all")
	})
}

// FuzzCommands sends any words to a server: nothing may end it.
func FuzzCommands(f *testing.F) {
	names := names()
	random := rand.New(rand.NewSource(1))
	for i := range names {
		f.Add(uint16(i), []byte("k"), []byte("1"), []byte("EX"), []byte(fmt.Sprint(random.Intn(100))), uint8(i%6))
	}
	served := serve(f, func(o *Options) { o.Allow = []string{"keys", "flushall", "flushdb"} })
	f.Fuzz(func(t *testing.T, which uint16, a, b, c, d []byte, count uint8) {
		name := names[int(which)%len(names)]
		words := [][]byte{[]byte(name), a, b, c, d}[:1+count%5]
		var request strings.Builder
		fmt.Fprintf(&request, "*%d\r\n", len(words))
		for _, word := range words {
			fmt.Fprintf(&request, "$%d\r\n%s\r\n", len(word), word)
		}
		one := (&fixture{t, served.store, served.server}).dial()
		defer one.conn.Close()
		one.send(request.String())
		if name == "client" || name == "quit" {
			return
		}
		if _, err := one.one(); err != nil {
			t.Fatalf("%q: %v", words, err)
		}
	})
}

func TestErrorsHaveCodes(t *testing.T) {
	f := serve(t, nil)
	f.store.down, f.store.failure = ShardOf([]byte("a"), testShards), &coded{"CLUSTERDOWN", "no leader"}
	c := f.dial()
	for _, request := range []string{"GET a", "SET a 1", "MGET a b", "DBSIZE", "WATCH a", "INCR a"} {
		c.expect(request, "-CLUSTERDOWN no leader")
	}
	c.expect("MULTI", "+OK")
	c.expect("SET a 1", "+QUEUED")
	c.expect("EXEC", "-CLUSTERDOWN no leader")
}

func TestTheAgeOfStaleAnswersIsTold(t *testing.T) {
	f := serve(t, nil)
	c := f.dial()
	f.store.age = 1500 * time.Microsecond
	c.expect("GET a", "nil")
	c.expect("NODE.STALENESS", ":0")
	c.expect("READONLY", "+OK")
	for _, request := range []string{"GET a", "MGET a b c d"} {
		c.ask("%s", request)
		c.expect("NODE.STALENESS", ":2")
	}
	c.expect("DBSIZE", ":0")
	c.expect("NODE.STALENESS", ":2")
	f.store.age = -1
	c.expect("GET a", "nil")
	c.expect("NODE.STALENESS", ":-1")
	c.expect("READWRITE", "+OK")
	c.expect("GET a", "nil")
	c.expect("NODE.STALENESS", ":0")
}

func TestSmallThingsAreAsInRedis(t *testing.T) {
	c := serve(t, nil).dial()
	const last = "9223372036854775807"
	for _, one := range [][2]string{
		{"SET a 1", "+OK"}, {"PEXPIREAT a " + last, ":1"}, {"PEXPIRETIME a", ":" + last},
		{"EXPIRETIME a", ":9223372036854776"}, {"SET a 1 PXAT " + last, "+OK"}, {"PERSIST a", ":1"},
		{"PEXPIREAT a -9223372036854775808", ":1"}, {"EXISTS a", ":0"},
		{"SET a 1 PX " + last, "-ERR invalid expire time in 'set' command"},
		{"EXPIREAT a " + last, "-ERR invalid expire time in 'expireat' command"},
		{"INCRBYFLOAT a inf", "-ERR increment would produce NaN or Infinity"},
		{"INCRBYFLOAT a -Infinity", "-ERR increment would produce NaN or Infinity"},
		{"INCRBYFLOAT a nan", "-ERR value is not a valid float"},
		{"CLIENT KILL TYPE wrong", "-ERR Unknown client type 'wrong'"}, {"CLIENT KILL TYPE pubsub", ":0"},
		{"CLIENT KILL USER wrong", "-ERR No such user 'wrong'"}, {"CLIENT KILL USER default", ":0"},
	} {
		c.expect(one[0], one[1])
	}
	if text := c.ask("CLIENT LIST"); !strings.Contains(text, " cmd=client|list ") {
		t.Error(text)
	}
	c.ask("GET a b")
	if text := c.ask("INFO commandstats"); !strings.Contains(text, "cmdstat_exists:calls=1,usec=") ||
		!strings.Contains(text, "cmdstat_get:calls=0,usec=0,usec_per_call=0.00,rejected_calls=1,failed_calls=0") || strings.Contains(text, "# Server") {
		t.Error(text)
	}
	if text := c.ask("INFO"); strings.Contains(text, "cmdstat_") {
		t.Error(text)
	}
}

func TestCommandListTakesFilters(t *testing.T) {
	c := serve(t, nil).dial()
	for _, one := range [][2]string{
		{"COMMAND LIST wrong", "-ERR syntax error"}, {"COMMAND LIST FILTERBY pattern", "-ERR syntax error"},
		{"COMMAND LIST FILTERBY wrong set", "-ERR syntax error"}, {"COMMAND LIST x y z", "-ERR syntax error"},
		{"COMMAND LIST FILTERBY pattern get", `*["get"]`}, {"COMMAND LIST FILTERBY PATTERN missing*", "*[]"},
		{"COMMAND LIST FILTERBY pattern config*", `*["config" "config|get" "config|resetstat" "config|set" "config|help"]`},
		{"COMMAND LIST FILTERBY pattern cl*help", `*["client|help" "cluster|help"]`},
		{"COMMAND LIST FILTERBY aclcat transactions", `*["discard" "exec" "multi" "unwatch" "watch"]`},
		{"COMMAND LIST FILTERBY aclcat scripting", "*[]"}, {"COMMAND LIST FILTERBY module any", "*[]"},
	} {
		c.expect(one[0], one[1])
	}
	all := c.ask("COMMAND LIST")
	for _, name := range []string{`"set"`, `"client|list"`, `"client|help"`, `"acl|whoami"`, `"slowlog|get"`} {
		check.ErrorIf(t, !strings.Contains(all, name), "%s is not in %s", name, all)
	}
}

func TestClientListHasTheBytesOfTheRequest(t *testing.T) {
	c := serve(t, nil).dial()
	for request, bytes := range map[string]int{
		"*2\r\n$6\r\nclient\r\n$4\r\nlist\r\n":         26,
		"*2\r\n$6\r\nclient\r\n$4\r\ninfo\r\n":         26,
		"PING\r\n*2\r\n$6\r\nclient\r\n$4\r\nlist\r\n": 32,
	} {
		c.send(request)
		if strings.HasPrefix(request, "PING") {
			c.next("+PONG")
		}
		text, err := c.one()
		check.ErrorIf(t, err != nil || !strings.Contains(text, fmt.Sprintf(" qbuf=%d qbuf-free=4", bytes)), "%v %v", text, err)
	}
}

func TestCommandsOfTransactionsAreCounted(t *testing.T) {
	c := serve(t, nil).dial()
	for _, one := range [][2]string{
		{"MULTI", "+OK"}, {"SET a 1", "+QUEUED"}, {"SET a 2 EX 0", "+QUEUED"}, {"ECHO x", "+QUEUED"}, {"EXEC", ""},
		{"MULTI", "+OK"}, {"GET a", "+QUEUED"}, {"DISCARD", "+OK"},
	} {
		if got := c.ask("%s", one[0]); one[1] != "" && got != one[1] {
			t.Error(one[0], got)
		}
	}
	text := c.ask("INFO commandstats")
	for _, line := range []string{`cmdstat_echo:calls=1,.*rejected_calls=0`, `cmdstat_set:calls=2,.*rejected_calls=0,failed_calls=1`, `cmdstat_exec:calls=1,`} {
		check.ErrorIf(t, !regexp.MustCompile(line).MatchString(text), "%s is not in %s", line, text)
	}
	check.ErrorIf(t, strings.Contains(text, "cmdstat_get:"), "%v", text)
}
