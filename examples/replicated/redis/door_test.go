// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: clients of Redis Cluster find the slots where they compute them, are sent to
// the nodes that have them, and are told in the form that they read; other clients
// notice nothing. Method: known answers; a server whose store has other nodes.
package redis

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"varve.example/replicated/check"
)

func TestSlotsAreThoseOfRedisCluster(t *testing.T) {
	if crc := crc16([]byte("123456789")); crc != 0x31c3 {
		t.Errorf("the checksum is %#x", crc)
	}
	for key, want := range map[string]int{
		"123456789": 12739, "foo": 12182, "bar": 5061, "hello": 866, "": 0,
		"foo{bar}{zap}": 5061, "foo{}{bar}": 8363, "foo{{bar}}zap": 4015,
		"{user1000}.following": 3443, "{user1000}.followers": 3443, "user1000": 3443,
	} {
		if slot := SlotOf([]byte(key)); slot != want {
			t.Errorf("%q is in slot %d, not %d", key, slot, want)
		}
	}
}

func TestShardsHaveRangesOfSlots(t *testing.T) {
	for _, shards := range []uint64{1, 2, 3, 7, 8, 100, 1000, Slots - 1, Slots} {
		next := 0
		for shard := uint64(1); shard <= shards; shard++ {
			first, last := slotsOf(shard, shards)
			if first != next || last < first || shardOfSlot(first, shards) != shard || shardOfSlot(last, shards) != shard {
				t.Fatalf("shard %d of %d has the slots %d to %d", shard, shards, first, last)
			}
			next = last + 1
		}
		check.FatalIf(t, next != Slots, "%d shards have %d slots", shards, next)
	}
}

// What older clusters have written must be found.
func TestTheMapOfOlderClustersStays(t *testing.T) {
	for key, want := range map[string]uint64{"a": 1, "{a}b": 1, "key-1": 5, "layer:17": 6} {
		if shard := HashedShardOf([]byte(key), 8); shard != want {
			t.Errorf("%q is in shard %d, not %d", key, shard, want)
		}
	}
}

func id(number int) string { return fmt.Sprintf("%040d", number) }

// serveCluster is node 1, which leads shards 1 and 2. Node 2 leads the third one, and
// the fourth one has no leader.
func serveCluster(t *testing.T, change func(*Options)) (f *fixture, plain, cluster *testClient) {
	f = serve(t, func(o *Options) {
		o.Cluster = "127.0.0.1:0"
		if change != nil {
			change(o)
		}
	})
	f.store.mutex.Lock()
	f.store.elsewhere = map[uint64]string{3: "host2:7002"}
	f.store.known = ClusterMap{
		Epoch: 5,
		Nodes: []ClusterNode{{1, id(1), "127.0.0.1:7001", true, true}, {2, id(2), "host2:7002", false, true},
			{3, id(3), "[::1]:7003", false, false}},
		Shards: []ClusterShard{{1, true, []uint64{1, 2, 3}}, {1, true, []uint64{1, 2}}, {2, true, []uint64{1, 2}},
			{2, false, []uint64{2}}},
	}
	f.store.mutex.Unlock()
	conn, err := net.Dial("tcp", f.server.ClusterAddr().String())
	check.OK(t, err)
	return f, f.dial(), f.wrap(conn)
}

// keyIn is a key of a shard, another one for each number.
func keyIn(shard uint64, number int) string {
	for i := 0; ; i++ {
		if key := fmt.Sprintf("key-%d-%d", number, i); ShardOf([]byte(key), testShards) == shard {
			return key
		}
	}
}

func moved(key string) string {
	return fmt.Sprintf("-MOVED %d host2:7002", SlotOf([]byte(key)))
}

func TestClientsOfAClusterAreSentToTheLeader(t *testing.T) {
	_, plain, cluster := serveCluster(t, nil)
	here, there := keyIn(1, 0), keyIn(3, 0)
	cluster.expect("set "+here+" 1", "+OK")
	for _, request := range []string{"get %s", "set %s 1", "incr %s", "del %s", "watch %s", "type %s", "mset %s 1", "exists %s"} {
		cluster.expect(fmt.Sprintf(request, there), moved(there))
	}
	cluster.expect("get "+here, `"1"`)
	cluster.expect("set "+keyIn(4, 0)+" 1", "+OK") // Nobody else has it.
	cluster.expect("asking", "+OK")
	cluster.expect("get "+there, moved(there))
	// In a pipeline each command has its own answer.
	cluster.send("set " + here + " 2\r\nset " + there + " 2\r\nget " + here + "\r\n")
	for _, want := range []string{"+OK", moved(there), `"2"`} {
		if answer, err := cluster.one(); err != nil || answer != want {
			t.Errorf("%s %v, not %s", answer, err, want)
		}
	}
	// A replica answers reads that may be stale, and nothing else.
	cluster.expect("readonly", "+OK")
	cluster.expect("get "+there, "nil")
	cluster.expect("set "+there+" 1", moved(there))
	cluster.expect("multi", "+OK")
	cluster.expect("get "+there, moved(there))
	cluster.expect("discard", "+OK")
	cluster.expect("readwrite", "+OK")
	cluster.expect("get "+there, moved(there))
	// Others are served here.
	plain.expect("set "+there+" 1", "+OK")
	plain.expect("get "+there, `"1"`)
	plain.expect("mget "+there+" "+here, `*["1" "2"]`)
	for _, request := range []string{"cluster slots", "cluster keyslot a", "asking"} {
		plain.expect(request, "-"+noCluster)
	}
}

func TestKeysOfACommandAreInOneSlot(t *testing.T) {
	f, plain, cluster := serveCluster(t, nil)
	a, b := keyIn(1, 0), keyIn(1, 1) // One shard, two slots.
	for _, request := range []string{"mget " + a + " " + b, "mset " + a + " 1 " + b + " 2", "del " + a + " " + b,
		"msetnx " + a + " 1 " + b + " 2", "watch " + a + " " + b, "exists " + a + " " + b} {
		cluster.expect(request, "-"+crossSlot)
	}
	cluster.expect("mset {"+a+"}1 1 {"+a+"}2 2", "+OK")
	cluster.expect("mget {"+a+"}2 {"+a+"}1", `*["2" "1"]`)
	plain.expect("mset "+a+" 1 "+b+" 2", "+OK")

	// A command that is refused fails its transaction, as does a slot that differs.
	transaction := func(client *testClient, last string, commands ...string) {
		t.Helper()
		client.expect("multi", "+OK")
		for _, command := range commands {
			client.expect(command, "+QUEUED")
		}
		client.expect("exec", last)
	}
	transaction(cluster, "*[+OK :2]", "set "+a+" 1", "incr "+a)
	transaction(cluster, "-"+crossSlot, "set "+a+" 5", "set "+b+" 5")
	transaction(plain, "*[+OK +OK]", "set "+a+" 5", "set "+b+" 5")
	transaction(cluster, "*[+PONG]", "ping")
	there := keyIn(3, 0)
	cluster.expect("multi", "+OK")
	cluster.expect("set "+there+" 1", moved(there))
	cluster.expect("exec", "-EXECABORT Transaction discarded because of previous errors.")
	// The leader moves while commands are queued.
	cluster.expect("multi", "+OK")
	cluster.expect("set "+a+" 6", "+QUEUED")
	f.store.mutex.Lock()
	f.store.elsewhere[1] = "host2:7002"
	f.store.mutex.Unlock()
	cluster.expect("exec", moved(a))
	cluster.expect("exec", "-ERR EXEC without MULTI")
	plain.expect("get "+a, `"5"`)
}

func TestWhatACommandWithoutKeysIsAboutIsSplit(t *testing.T) {
	_, plain, cluster := serveCluster(t, func(o *Options) { o.Allow = []string{"keys", "flushall"} })
	for shard := uint64(1); shard <= testShards; shard++ {
		for number := 0; number < 10; number++ {
			plain.expect("set "+keyIn(shard, number)+" 1", "+OK")
		}
	}
	plain.expect("dbsize", ":40")
	cluster.expect("dbsize", ":20")
	for client, count := range map[*testClient]int{plain: 40, cluster: 20} {
		found := 0
		for cursor := "0"; ; {
			client.send("scan " + cursor + " count 7\r\n")
			answer, err := client.one()
			check.OK(t, err)
			fields := strings.Fields(strings.NewReplacer("*[", "", "]", "", `"`, "").Replace(answer))
			if found += len(fields) - 1; fields[0] == "0" {
				break
			}
			cursor = fields[0]
		}
		check.ErrorIf(t, found != count, "%d keys, not %d", found, count)
	}
	cluster.expect("flushall", "+OK")
	plain.expect("dbsize", ":0") // A shard that has just moved would be left out by all.
}

func TestTheAnswersOfCLUSTER(t *testing.T) {
	_, plain, cluster := serveCluster(t, nil)
	node1, node2 := `*["127.0.0.1" :7001 "`+id(1)+`" *[]]`, `*["host2" :7002 "`+id(2)+`" *[]]`
	slots := fmt.Sprintf("*[*[:0 :4095 %s] *[:4096 :8191 %s] *[:8192 :12287 %s] *[:12288 :16383 %s]]", node1, node1, node2, node2)
	cluster.expect("cluster slots", slots)
	cluster.expect("readonly", "+OK") // Who reads from replicas is told of those that are up.
	cluster.expect("cluster slots", fmt.Sprintf("*[*[:0 :4095 %s %s] *[:4096 :8191 %s %s] *[:8192 :12287 %s %s] *[:12288 :16383 %s]]",
		node1, node2, node1, node2, node2, node1, node2))
	cluster.expect("readwrite", "+OK")
	cluster.expect("CLUSTER SLOTS", slots)
	cluster.expect("cluster keyslot foo", ":12182")
	cluster.expect("cluster myid", fmt.Sprintf("%q", id(1)))
	cluster.expect("cluster nodes", fmt.Sprintf("%q", id(1)+" 127.0.0.1:7001@0 myself,master - 0 0 5 connected 0-8191\n"+
		id(2)+" host2:7002@0 master - 0 0 5 connected 8192-16383\n"+id(3)+" ::1:7003@0 master,fail? - 0 0 5 disconnected\n"))
	info := cluster.ask("cluster info")
	for _, want := range []string{"cluster_state:fail", "cluster_slots_assigned:16384", "cluster_slots_ok:12288",
		"cluster_slots_fail:4096", "cluster_known_nodes:3", "cluster_size:2", "cluster_current_epoch:5"} {
		check.ErrorIf(t, !strings.Contains(info, want), "%s is not in %s", want, info)
	}
	shards := cluster.ask("cluster shards")
	for _, want := range []string{`*["slots" *[:0 :4095] "nodes" *[*["id" "` + id(1) + `" "ip" "127.0.0.1" "endpoint" "127.0.0.1" ` +
		`"role" "master" "health" "online" "port" :7001 "replication-offset" :0]]]`, `:12288 :16383`, `"health" "fail"`} {
		check.ErrorIf(t, !strings.Contains(shards, want), "%s is not in %s", want, shards)
	}
	cluster.expect("cluster", "-"+wrongNumber("cluster"))
	cluster.expect("cluster keyslot", "-"+wrongNumber("cluster|keyslot"))
	cluster.expect("cluster meet a 1", "-ERR unknown subcommand 'meet'. Try CLUSTER HELP.")
	if help := cluster.ask("cluster help"); !strings.Contains(help, "KEYSLOT") {
		t.Error(help)
	}
	for client, is := range map[*testClient][3]string{plain: {"0", "standalone", "no"}, cluster: {"1", "cluster", "yes"}} {
		info, hello := client.ask("info"), client.ask("hello")
		if !strings.Contains(info, "cluster_enabled:"+is[0]) || !strings.Contains(info, "redis_mode:"+is[1]) ||
			!strings.Contains(hello, `"mode" "`+is[1]+`"`) {
			t.Error(is, info, hello)
		}
		client.expect("config get cluster-enabled", fmt.Sprintf(`*["cluster-enabled" %q]`, is[2]))
		client.expect("config get port", fmt.Sprintf(`*["port" "%d"]`, port(client.conn.RemoteAddr())))
	}
}

// As soon as a node is up, and before it knows the others.
func TestAClusterThatIsNotKnownYet(t *testing.T) {
	f, _, cluster := serveCluster(t, nil)
	f.store.mutex.Lock()
	f.store.known = ClusterMap{Shards: make([]ClusterShard, testShards)}
	f.store.mutex.Unlock()
	for _, request := range []string{"cluster slots", "dbsize", "scan 0"} {
		cluster.expect(request, "-LOADING this node does not know its cluster yet")
	}
	cluster.expect("cluster keyslot foo", ":12182")
}
