// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: a client of Redis Cluster finds all keys, asks the leaders' nodes, and follows
// moves and the loss of a node; the layout of a cluster never changes by itself.
// Method: go-redis with three nodes of one process; directories that are prepared.

package node

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/redis/go-redis/v9"

	"varve.example/replicated/redis"
	"varve.example/replicated/testca"
)

var ctx = context.Background()

const doorShards = 4

// door is a node with the server for its clients.
type door struct {
	*Node
	server *redis.Server
}

func (d *door) close() {
	d.Leave()
	d.server.Close()
	d.Stop()
}

// doors starts three nodes, and waits until each knows the leaders of all shards.
func doors(t *testing.T) map[uint64]*door { return doorsWith(t, func(*Options, *redis.Options) {}) }

// doorsWith changes the options of a node and of its server.
func doorsWith(t *testing.T, change func(*Options, *redis.Options)) map[uint64]*door {
	peers, nodes := peersOf(t, 3), map[uint64]*door{}
	for _, id := range sortedKeys(peers) {
		options := firstOptions(t, peers, id)
		options.Shards, options.Announce = doorShards, freeAddress(t)
		options.RoundMS = 100 // A busy machine alone must not make for elections.
		serving := redis.DefaultOptions
		serving.Address, serving.Cluster = "127.0.0.1:0", options.Announce
		change(&options, &serving)
		one := &door{Node: startNode(t, options)}
		one.server = redis.NewServer(serving, one.Node)
		if err := one.server.Listen(); err != nil {
			t.Fatal(err)
		}
		go one.server.Serve()
		t.Cleanup(one.close)
		nodes[id] = one
	}
	for _, one := range nodes {
		await(t, "a node knows all leaders and all nodes", func() bool {
			m := one.Map()
			for _, shard := range m.Shards {
				if !shard.Led {
					return false
				}
			}
			return len(m.Nodes) == 3
		})
	}
	return nodes
}

func clusterClient(t *testing.T, nodes map[uint64]*door, change func(*client.ClusterOptions)) *client.ClusterClient {
	options := &client.ClusterOptions{ReadTimeout: 20 * time.Second}
	for _, one := range nodes {
		options.Addrs = append(options.Addrs, one.options.Announce)
	}
	if change != nil {
		change(options)
	}
	c := client.NewClusterClient(options)
	t.Cleanup(func() { c.Close() })
	return c
}

// Clients check the name in a node's certificate against what they were told of it.
func TestClientsOfAClusterUseTLSAndNames(t *testing.T) {
	t.Parallel()
	authority := testca.New(t)
	certFile, keyFile := authority.Issue("clients")
	nodes := doorsWith(t, func(options *Options, serving *redis.Options) {
		config, _, err := redis.LoadTLS(certFile, keyFile, "")
		if err == nil {
			err = redis.SetVersions(config, "1.2", "")
		}
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(serving.Cluster)
		serving.TLS, options.Announce = config, net.JoinHostPort("localhost", port)
	})
	c := clusterClient(t, nodes, func(o *client.ClusterOptions) { o.TLSConfig = &tls.Config{RootCAs: authority.Pool()} })
	for i := 0; i < 50; i++ {
		key := fmt.Sprint("key", i)
		if err := c.Set(context.Background(), key, i, 0).Err(); err != nil {
			t.Fatal(err)
		}
		if value, err := c.Get(context.Background(), key).Int(); err != nil || value != i {
			t.Fatal(value, err)
		}
	}
	slots, err := c.ClusterSlots(context.Background()).Result()
	if err != nil || len(slots) == 0 {
		t.Fatal(slots, err)
	}
	for _, one := range slots {
		if host, _, _ := net.SplitHostPort(one.Nodes[0].Addr); host != "localhost" {
			t.Errorf("a client is sent to %s", one.Nodes[0].Addr)
		}
	}
	stranger := clusterClient(t, nodes, func(o *client.ClusterOptions) {
		o.TLSConfig, o.MaxRedirects = &tls.Config{RootCAs: testca.New(t).Pool()}, 1
	})
	if err := stranger.Get(context.Background(), "key0").Err(); err == nil {
		t.Error("a node is believed that nobody vouches for")
	}
}

// commands are what the servers of the nodes were asked so far.
func commands(one *door) uint64 { return one.server.Stats().Commands }

// errorsOf is how many errors the nodes have answered, such as MOVED.
func errorsOf(nodes map[uint64]*door) (count uint64) {
	for _, one := range nodes {
		count += one.server.Stats().Errors
	}
	return count
}

// One cluster is enough for these. The last one stops a node.
func TestClientsOfACluster(t *testing.T) {
	t.Parallel()
	nodes := doors(t)
	for _, one := range []struct {
		name string
		do   func(*testing.T, map[uint64]*door)
	}{
		{"leaders are asked", testLeadersAreAsked}, {"replicas answer stale reads", testReplicasAnswer},
		{"a node that stops sends readers away", testReadersOfAStoppingNode},
		{"plain clients are served by any node", testPlainClients}, {"moves are followed", testMovesAreFollowed},
		{"a node is lost", testANodeIsLost},
	} {
		t.Run(one.name, func(t *testing.T) { one.do(t, nodes) })
	}
}

func testLeadersAreAsked(t *testing.T, nodes map[uint64]*door) {
	c := clusterClient(t, nodes, nil)
	const keys = 200
	await(t, "no command is sent elsewhere", func() bool {
		before := errorsOf(nodes)
		for i := 0; i < keys; i++ {
			if err := c.Set(ctx, fmt.Sprintf("key-%d", i), i, 0).Err(); err != nil {
				t.Log(err)
				return false
			}
		}
		return errorsOf(nodes) == before // Leaderships are moved until they are even.
	})
	await(t, "all nodes together have all keys", func() bool { // Unless one moves.
		size, err := c.DBSize(ctx).Result()
		if err != nil {
			t.Fatal(err)
		}
		var mutex sync.Mutex
		found := map[string]bool{}
		err = c.ForEachMaster(ctx, func(ctx context.Context, one *client.Client) error {
			all := one.Scan(ctx, 0, "*", 17).Iterator()
			for all.Next(ctx) {
				mutex.Lock() // Nodes are asked at the same time.
				found[all.Val()] = true
				mutex.Unlock()
			}
			return all.Err()
		})
		if err != nil {
			t.Fatal(err)
		}
		return size == keys && len(found) == keys
	})
	// A pipeline goes to several nodes, a transaction to one.
	answers, err := c.Pipelined(ctx, func(p client.Pipeliner) error {
		for i := 0; i < keys; i++ {
			p.Get(ctx, fmt.Sprintf("key-%d", i))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, answer := range answers {
		if got := answer.(*client.StringCmd).Val(); got != fmt.Sprint(i) {
			t.Fatalf("key-%d: %s", i, got)
		}
	}
	_, err = c.TxPipelined(ctx, func(p client.Pipeliner) error {
		p.Incr(ctx, "{tag}a")
		p.IncrBy(ctx, "{tag}b", 5)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	values, err := c.MGet(ctx, "{tag}a", "{tag}b").Result()
	if err != nil || fmt.Sprint(values) != "[1 5]" {
		t.Fatal(values, err)
	}
	if err := c.MGet(ctx, "a", "b").Err(); err == nil || !strings.HasPrefix(err.Error(), "CROSSSLOT ") {
		t.Fatal(err)
	}
}

// moveTo has another node lead a shard.
func moveTo(t *testing.T, nodes map[uint64]*door, shard, number uint64) {
	t.Helper()
	await(t, "the leadership moves", func() bool {
		for _, one := range nodes {
			if one.number != number && one.leadsNow(shard) {
				if err := one.transfer(shard, number); err != nil {
					t.Log(err)
				}
			}
		}
		return nodes[number].leadsNow(shard)
	})
}

func testMovesAreFollowed(t *testing.T, nodes map[uint64]*door) {
	c := clusterClient(t, nodes, nil)
	if err := c.Set(ctx, "key", 0, 0).Err(); err != nil {
		t.Fatal(err)
	}
	shard := nodes[1].ShardOf([]byte("key"))
	for round := uint64(1); round <= 6; round++ {
		target := round%3 + 1
		moveTo(t, nodes, shard, target)
		// Soon the client asks the new leader, and nobody else.
		last := 0
		await(t, "the client asks the new leader", func() bool {
			moveTo(t, nodes, shard, target) // The cluster may have moved it back.
			others := uint64(0)
			for number, one := range nodes {
				if number != target {
					others += commands(one)
				}
			}
			before := commands(nodes[target])
			if err := c.Incr(ctx, "key").Err(); err != nil {
				t.Fatal(err)
			}
			last++
			for number, one := range nodes {
				if number != target {
					others -= commands(one)
				}
			}
			return others == 0 && commands(nodes[target]) == before+1
		})
		t.Logf("node %d leads: %d commands until the client has followed", target, last)
	}
}

func testANodeIsLost(t *testing.T, nodes map[uint64]*door) {
	c := clusterClient(t, nodes, func(o *client.ClusterOptions) { o.MaxRedirects = 16 })
	var stop atomic.Bool
	done := make(chan error, 4)
	for worker := 0; worker < cap(done); worker++ {
		go func() {
			for number := 1; !stop.Load(); number++ {
				key := fmt.Sprintf("{%d-%d}", worker, number%50)
				if err := c.Set(ctx, key, number, 0).Err(); err != nil {
					done <- fmt.Errorf("SET %s: %w", key, err)
					return
				}
				if got, err := c.Get(ctx, key).Int(); err != nil || got != number {
					done <- fmt.Errorf("GET %s: %d %w, not %d", key, got, err, number)
					return
				}
			}
			done <- nil
		}()
	}
	time.Sleep(500 * time.Millisecond) // Of load.
	nodes[2].close()                   // In order, so that nothing is lost or unknown.
	for shard := uint64(1); shard <= doorShards; shard++ {
		await(t, "the others lead", func() bool { return nodes[1].leadsNow(shard) || nodes[3].leadsNow(shard) })
	}
	time.Sleep(500 * time.Millisecond)
	stop.Store(true)
	var m redis.ClusterMap
	await(t, "the map has leaders, and not the lost node", func() bool {
		m = nodes[1].Map()
		for _, shard := range m.Shards {
			if shard.Owner == 2 || !shard.Led {
				return false
			}
		}
		return true
	})
	for _, one := range m.Nodes {
		if one.Up != (one.Number != 2) || one.Self != (one.Number == 1) || len(one.ID) != 40 {
			t.Errorf("%+v", one)
		}
	}
	for worker := 0; worker < cap(done); worker++ {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func testReplicasAnswer(t *testing.T, nodes map[uint64]*door) {
	writer := clusterClient(t, nodes, nil)
	reader := clusterClient(t, nodes, func(o *client.ClusterOptions) { o.ReadOnly, o.RouteRandomly = true, true })
	if err := writer.Set(ctx, "key", "value", 0).Err(); err != nil {
		t.Fatal(err)
	}
	before, errs, asked := map[uint64]uint64{}, errorsOf(nodes), map[uint64]bool{}
	for number, one := range nodes {
		before[number] = commands(one)
	}
	await(t, "all nodes are asked", func() bool {
		if got, err := reader.Get(ctx, "key").Result(); got != "value" && err != client.Nil {
			t.Fatal(got, err)
		}
		for number, one := range nodes {
			asked[number] = asked[number] || commands(one) > before[number]+5 // More than a connection needs.
		}
		return asked[1] && asked[2] && asked[3]
	})
	if now := errorsOf(nodes); now != errs {
		t.Errorf("%d reads were sent elsewhere", now-errs)
	}
}

func testReadersOfAStoppingNode(t *testing.T, nodes map[uint64]*door) {
	await(t, "a reader is sent to the leader", func() bool {
		for shard := uint64(1); shard <= doorShards; shard++ {
			if leader := nodes[1].leaderNode(shard); leader == 2 || leader == 3 {
				before := nodes[1].Redirect(shard, true)
				nodes[1].stopping.Store(true)
				after := nodes[1].Redirect(shard, true)
				nodes[1].stopping.Store(false)
				return before == "" && after == nodes[leader].options.Announce
			}
		}
		return false
	})
}

// Plain clients of the same nodes are sent nowhere.
func testPlainClients(t *testing.T, nodes map[uint64]*door) {
	for _, one := range nodes {
		c := client.NewClient(&client.Options{Addr: one.server.Addr().String()})
		defer c.Close()
		var pairs, keys []string
		for i := 0; i < 20; i++ {
			keys = append(keys, fmt.Sprintf("key-%d", i))
			pairs = append(pairs, keys[i], "value")
		}
		if err := c.MSet(ctx, pairs).Err(); err != nil {
			t.Fatal(err)
		}
		if count, err := c.Exists(ctx, keys...).Result(); err != nil || count != 20 {
			t.Fatal(count, err)
		}
	}
}

func TestAnOlderClusterKeepsItsMap(t *testing.T) {
	address := freeAddress(t)
	options := Options{ID: 1, Address: address, Peers: map[uint64]string{1: address}, Shards: 4, Replicas: 1, Dir: t.TempDir()}
	options.RoundMS, options.SnapshotEntries, options.Timeout = 20, 1000, 5*time.Second
	if err := writeFile(filepath.Join(options.Dir, identityFile),
		identity{Number: 1, Shards: 4, Token: "token", Cluster: "older", Peers: options.Peers, Replicas: 1}); err != nil {
		t.Fatal(err)
	}
	options.Announce = freeAddress(t)
	if _, err := Start(options); err == nil || !strings.Contains(err.Error(), "NODE.RESTORE") {
		t.Fatal(err)
	}
	options.Announce = ""
	older := startNode(t, options)
	defer older.Stop()
	awaitDirectory(t, older)
	join := startNode(t, Options{Address: freeAddress(t), Join: address, Cluster: "older", Dir: t.TempDir()})
	defer join.Stop()
	// Who cannot serve its clients is refused before the cluster has registered it.
	refused := Options{Address: freeAddress(t), Join: address, Announce: freeAddress(t), Dir: t.TempDir(), Timeout: 5 * time.Second}
	if _, err := Start(refused); err == nil || !strings.Contains(err.Error(), "NODE.RESTORE") {
		t.Fatal(err)
	}
	if d, err := older.readDirectory(); err != nil || len(d.Nodes) != 2 {
		t.Fatal(asText(t, d), err)
	}
	newer := single(t, Options{Shards: 4})
	differ := 0
	for i := 0; i < 100; i++ {
		key := []byte(fmt.Sprintf("key-%d", i))
		if older.ShardOf(key) != redis.HashedShardOf(key, 4) || join.ShardOf(key) != older.ShardOf(key) {
			t.Fatal("the map has changed")
		}
		if older.ShardOf(key) != newer.ShardOf(key) {
			differ++
		}
	}
	if differ == 0 {
		t.Fatal("the maps are equal")
	}
}

func TestALayoutThatIsNotKnownIsRefused(t *testing.T) {
	options := Options{Address: freeAddress(t), Dir: t.TempDir(), RoundMS: 20, SnapshotEntries: 1000, Timeout: 5 * time.Second}
	options.Peers = map[uint64]string{1: options.Address}
	me := identity{Number: 1, Shards: 1, Token: "token", Cluster: "ours", Layout: 5, Peers: options.Peers, Replicas: 1}
	if err := writeFile(filepath.Join(options.Dir, identityFile), me); err != nil {
		t.Fatal(err)
	}
	if n, err := Start(options); err == nil || !strings.Contains(err.Error(), "layout 5") {
		if n != nil {
			n.Stop()
		}
		t.Fatal(err)
	}
}

func TestANodeThatKnowsNoSlotsIsRefused(t *testing.T) {
	n := single(t, Options{Cluster: "ours", Shards: 1})
	older := &Node{cluster: "ours", transport: plainTransport()}
	var joined JoinReply
	if err := older.callAt(n.options.Address, "Join", JoinRequest{Address: "a:1", Token: "token", Cluster: "ours"}, &joined,
		time.Second); err != nil || joined.Refused == "" || len(n.Directory().Nodes) != 1 {
		t.Fatal(joined, err)
	}
	var reply Reply
	request := Request{Cluster: "ours", Shard: 1, Updates: []byte("x")}
	if err := older.callAt(n.options.Address, "Do", request, &reply, time.Second); err != nil || !reply.NotHere {
		t.Fatal(reply, err)
	}
	var status Status
	if err := older.callAt(n.options.Address, "Exchange", Status{Node: 2, Cluster: "ours"}, &status, time.Second); err != nil ||
		status.Refused == "" || status.Newer != nil {
		t.Fatal(status, err)
	}
	// The program before would start the directory of a node with another number of
	// the deployment, which dragonboat refuses.
	n.Stop()
	me := identity{}
	me.setName(n.cluster)
	if me.Cluster != "ours" || me.Layout != layoutSlots || me.fullName() != n.cluster {
		t.Fatal(me)
	}
	options := n.options
	options.Create = false
	me.Number, me.Shards, me.Token, me.Layout = 1, 1, n.token, layoutHash
	me.Peers, me.Replicas = options.Peers, 1
	if err := writeFile(filepath.Join(options.Dir, identityFile), me); err != nil {
		t.Fatal(err)
	}
	if again, err := Start(options); err == nil {
		again.Stop()
		t.Fatal("the layout was changed")
	}
}

// The restore maps each key anew.
func TestABackupOfAnOlderClusterIsRestored(t *testing.T) {
	options := Options{ID: 1, Address: freeAddress(t), Shards: 4, Replicas: 1, Dir: t.TempDir(), Backups: t.TempDir()}
	options.Peers = map[uint64]string{1: options.Address}
	if err := writeFile(filepath.Join(options.Dir, identityFile),
		identity{Number: 1, Shards: 4, Token: "token", Cluster: "older", Peers: options.Peers, Replicas: 1}); err != nil {
		t.Fatal(err)
	}
	older := startNode(t, options)
	defer older.Stop()
	newer := single(t, Options{Shards: 3, Backups: options.Backups})
	for _, n := range []*Node{older, newer} {
		await(t, "all shards serve", func() bool {
			for shard := uint64(1); shard <= n.Shards(); shard++ {
				if n.here(shard) == nil {
					return false
				}
			}
			return true
		})
	}
	serve := func(n *Node) *client.Client {
		serving := redis.DefaultOptions
		serving.Address = "127.0.0.1:0"
		server := redis.NewServer(serving, n)
		if err := server.Listen(); err != nil {
			t.Fatal(err)
		}
		go server.Serve()
		t.Cleanup(func() { server.Close() })
		c := client.NewClient(&client.Options{Addr: server.Addr().String(), ReadTimeout: time.Minute})
		t.Cleanup(func() { c.Close() })
		return c
	}
	from, to := serve(older), serve(newer)
	for i := 0; i < 100; i++ {
		if err := from.Set(ctx, fmt.Sprintf("key-%d", i), i, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := older.Backup("monday", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := newer.Restore("monday"); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 100; i++ {
		if got, err := to.Get(ctx, fmt.Sprintf("key-%d", i)).Int(); err != nil || got != i {
			t.Fatal(i, got, err)
		}
	}
}
