// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: a conversion to slots keeps all keys, whatever is killed and whenever; it waits
// for nodes that do not know it, and happens once.
// Method: directories that are prepared as by an older program, three nodes of one
// process that end at each step, and what they have at the end.

package node

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	client "github.com/redis/go-redis/v9"

	"varve.example/replicated/machine"
	"varve.example/replicated/redis"
	"varve.example/replicated/storage"
)

// runner runs a node as the program does: again once it has another layout.
type runner struct {
	t       *testing.T
	options Options
	serving redis.Options
	stop    chan struct{} // Nil while it does not run.
	ended   chan struct{}

	mutex  sync.Mutex
	node   *Node
	starts int
}

func (r *runner) start() {
	r.stop, r.ended, r.starts = make(chan struct{}), make(chan struct{}), 0
	go func() {
		defer close(r.ended)
		for again := true; again; {
			n, err := Start(r.options)
			if err != nil {
				r.t.Error(err)
				return
			}
			serving := r.serving
			if !n.HasSlots() {
				serving.Cluster = ""
			}
			server := redis.NewServer(serving, n)
			if err := server.Listen(); err != nil {
				r.t.Error(err)
			}
			go server.Serve()
			r.set(n)
			select {
			case <-r.stop:
				again = false
			case err := <-n.Failed():
				if again = errors.Is(err, ErrLayout); !again {
					r.t.Error(err)
				}
			}
			server.Close()
			n.Stop()
			r.set(nil)
			select {
			case <-r.stop:
				again = false
			default:
			}
		}
	}()
}

func (r *runner) set(n *Node) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.node = n; n != nil {
		r.starts++
	}
}

// now is the node that runs, or nil.
func (r *runner) now() *Node {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.node
}

func (r *runner) end() {
	if r.stop != nil {
		close(r.stop)
		<-r.ended
		r.stop = nil
	}
}

const convertedShards = 5

// hashed prepares the directories of three nodes as an older program has left them.
func hashed(t *testing.T) map[uint64]*runner {
	peers, runners := peersOf(t, 3), map[uint64]*runner{}
	for _, id := range sortedKeys(peers) {
		options := firstOptions(t, peers, id)
		options.Shards, options.Announce, options.Convert = convertedShards, freeAddress(t), true
		options.RoundMS, options.SnapshotEntries, options.Timeout = 100, 1000, 20*time.Second
		me := identity{Number: id, Shards: convertedShards, Token: fmt.Sprint("token ", id), Cluster: "older", Peers: peers, Replicas: 3}
		if err := writeFile(filepath.Join(options.Dir, identityFile), me); err != nil {
			t.Fatal(err)
		}
		serving := redis.DefaultOptions
		serving.Address, serving.Cluster = freeAddress(t), options.Announce
		runners[id] = &runner{t: t, options: options, serving: serving}
		t.Cleanup(runners[id].end)
	}
	return runners
}

func startRunners(runners map[uint64]*runner) {
	for _, r := range runners {
		r.start()
	}
}

// inLayout waits until all nodes that run have a layout, and serve all shards.
func inLayout(t *testing.T, runners map[uint64]*runner, name string) {
	t.Helper()
	await(t, name, func() bool {
		for _, r := range runners {
			if r.stop == nil {
				continue
			}
			n := r.now()
			if n == nil || n.cluster != name || n.Ready() != nil {
				return false
			}
		}
		return true
	})
}

func clientOf(t *testing.T, r *runner) *client.Client {
	c := client.NewClient(&client.Options{Addr: r.serving.Address, ReadTimeout: 20 * time.Second})
	t.Cleanup(func() { c.Close() })
	return c
}

// fillHashed writes keys of all kinds, without a conversion, and returns their sum.
func fillHashed(t *testing.T, runners map[uint64]*runner, keys int) machine.Contents {
	t.Helper()
	for _, r := range runners {
		r.options.Convert = r.options.ID != 3
		announce := r.options.Announce
		if r.options.ID == 3 {
			r.options.Announce = "" // It would be refused.
		}
		r.start()
		t.Cleanup(func() { r.options.Announce = announce })
	}
	inLayout(t, runners, "older")
	c := clientOf(t, runners[1])
	for begin := 0; begin < keys; begin += 500 {
		_, err := c.Pipelined(ctx, func(p client.Pipeliner) error {
			for i := begin; i < min(begin+500, keys); i++ {
				p.Set(ctx, fmt.Sprintf("key-%d", i), fmt.Sprint("value ", i), 0)
				if i%5 == 0 {
					p.Set(ctx, fmt.Sprintf("key-%d", i), fmt.Sprint("value ", i), time.Duration(i+3600)*time.Second)
				}
				if i%15 == 0 {
					p.Expire(ctx, fmt.Sprintf("key-%d", i), time.Duration(i+7200)*time.Second) // The first time stays in an entry.
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := c.MSet(ctx, "{tag}1", "x", "{tag}2", "y", "", "empty", "void", "").Err(); err != nil {
		t.Fatal(err)
	}
	sum, err := runners[2].now().Checksum()
	if err != nil {
		t.Fatal(err)
	}
	if sum.Entries == 0 {
		t.Fatal("nothing was written")
	}
	return sum
}

// allowLast lets node 3 take part, which has prevented the conversion.
func allowLast(runners map[uint64]*runner, announce string) {
	runners[3].end()
	runners[3].options.Convert, runners[3].options.Announce = true, announce
	runners[3].start()
}

// checkConverted checks all that a converted cluster must have.
func checkConverted(t *testing.T, runners map[uint64]*runner, want machine.Contents, keys int) {
	t.Helper()
	inLayout(t, runners, "older"+slotsMark)
	got, err := runners[3].now().Checksum()
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Fatalf("the contents are %+v, not %+v", got, want)
	}
	for shard := uint64(1); shard <= convertedShards; shard++ {
		sums := map[machine.Summary]int{}
		await(t, "replicas are equal", func() bool {
			clear(sums)
			for _, r := range runners {
				answer, err := r.now().host.StaleRead(clusterOf(shard), machine.Digest{})
				if err != nil {
					t.Fatal(err)
				}
				sums[answer.(machine.Summary)]++
			}
			return len(sums) == 1
		})
		answer, err := runners[1].now().host.StaleRead(clusterOf(shard), machine.Moment{})
		if err != nil {
			t.Fatal(err)
		}
		moment := answer.(storage.Snapshot)
		err = machine.EachEntry(moment, func(key, _ []byte) error {
			if _, here := belongs(key, shard, convertedShards); !here {
				return fmt.Errorf("shard %d has %q", shard, key)
			}
			return nil
		})
		moment.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
	options := &client.ClusterOptions{ReadTimeout: 20 * time.Second}
	for _, r := range runners {
		options.Addrs = append(options.Addrs, r.serving.Cluster)
	}
	await(t, "all nodes have a cluster port", func() bool { return len(runners[1].now().Map().Nodes) == 3 })
	c := client.NewClusterClient(options)
	defer c.Close()
	for i := 0; i < keys; i += 7 {
		key := fmt.Sprintf("key-%d", i)
		if value, err := c.Get(ctx, key).Result(); err != nil || value != fmt.Sprint("value ", i) {
			t.Fatal(key, value, err)
		}
		left, err := c.TTL(ctx, key).Result()
		expires := 0
		if i%5 == 0 {
			expires = i + 3600
		}
		if i%15 == 0 {
			expires = i + 7200
		}
		if err != nil || (expires == 0) != (left < 0) || expires > 0 && (left < time.Duration(expires-600)*time.Second || left > time.Duration(expires)*time.Second) {
			t.Fatal(key, left, err)
		}
	}
	if info := runners[2].now().Info(); !strings.Contains(info, "slots:true") {
		t.Fatal(info)
	}
	if err := c.Set(ctx, "after", "the conversion", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := c.Del(ctx, "after").Err(); err != nil {
		t.Fatal(err)
	}
}

func TestAnOlderClusterIsConverted(t *testing.T) {
	runners := hashed(t)
	announce := runners[3].options.Announce
	const keys = 4000
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	defer func() {
		if t.Failed() {
			t.Log(log.String())
		}
	}()
	fillHashed(t, runners, keys)
	c := clientOf(t, runners[2])
	big := strings.Repeat("b", machine.MaxValueBytes)
	await(t, "a big value is stored", func() bool { return c.Set(ctx, "big", big, time.Hour).Err() == nil })
	if err := c.Persist(ctx, "big").Err(); err != nil {
		t.Fatal(err)
	}
	want, err := runners[1].now().Checksum()
	if err != nil {
		t.Fatal(err)
	}
	// Node 3 is like one of an older program, which does not say that it converts.
	await(t, "the cluster waits for node 3", func() bool {
		for _, r := range runners {
			if n := r.now(); n.leadsNow(directoryShard) && (n.number == 3 || n.beginConversion() != nil) {
				return true
			}
		}
		return false
	})
	time.Sleep(time.Second) // As long as it might take to begin.
	inLayout(t, runners, "older")
	for _, r := range runners {
		if n := r.now(); n.leadsNow(directoryShard) && n.number != 3 {
			if err := n.beginConversion(); err == nil || !strings.Contains(err.Error(), "node 3 is of an older program") {
				t.Fatal(err)
			}
		}
	}
	if _, err := runners[1].now().Backup("before", ""); err != nil {
		t.Fatal(err)
	}
	allowLast(runners, announce)
	await(t, "it is converted", func() bool { n := runners[3].now(); return n != nil && n.HasSlots() })
	checkConverted(t, runners, want, keys)
	if lines := strings.Count(log.String(), "node 3 is of an older program"); lines > 1 {
		t.Errorf("%d lines say why it waits", lines)
	}
	if got, err := clientOf(t, runners[1]).Get(ctx, "big").Result(); err != nil || got != big {
		t.Fatal(len(got), err)
	}
	for id, r := range runners {
		if want := 3; r.starts != want { // With each layout once.
			t.Errorf("node %d was started %d times, not %d", id, r.starts, want)
		}
	}
	// Once: further starts change nothing.
	for _, r := range runners {
		r.end()
	}
	startRunners(runners)
	checkConverted(t, runners, want, keys)
	for _, r := range runners {
		if r.starts != 1 {
			t.Errorf("node %d was started %d times", r.options.ID, r.starts)
		}
	}
	// Backups of both layouts can be restored into a cluster that was created with slots.
	if _, err := runners[1].now().Backup("after", "before"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"before", "after"} {
		newer := single(t, Options{Shards: 3, Backups: filepath.Join(runners[1].options.Dir, "backups")})
		if m, err := newer.Restore(name); err != nil || m.Total.Lasting != want.Lasting || m.Total.LastingSum != want.LastingSum {
			t.Fatal(name, m, err)
		}
	}
	// A node that joins learns the layout.
	join := startNode(t, Options{Address: freeAddress(t), Client: "client", Join: runners[2].options.Address, Announce: freeAddress(t), Dir: t.TempDir()})
	defer join.Stop()
	if !join.HasSlots() || join.Directory().Cluster != "older"+slotsMark {
		t.Fatal(join.cluster, join.Directory().Cluster)
	}
}

// killAt has the given nodes end when they come to a step.
type killAt struct {
	mutex   sync.Mutex
	step    string
	only    uint64 // 0: whoever comes first.
	reached chan uint64
}

func (k *killAt) of(id uint64) func(string) error {
	return func(step string) error {
		k.mutex.Lock()
		defer k.mutex.Unlock()
		if k.step == "" || step != k.step || k.only != 0 && k.only != id {
			return nil
		}
		k.only = id // It goes no further until it is started again.
		select {
		case k.reached <- id:
		default:
		}
		return errors.New("killed")
	}
}

func (k *killAt) clear() {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.step = ""
}

var convertSteps = []string{
	"before the layout older" + convertingMark, "between copy and deletion", "after a deletion",
	"before the mark", "after the mark", "before the layout older" + slotsMark,
}

func TestAConversionGoesOnAfterEachStep(t *testing.T) {
	for i, step := range convertSteps {
		for _, all := range []bool{false, true} {
			if testing.Short() && !(i == 0 && !all || i == 1 && all) {
				continue
			}
			t.Run(fmt.Sprintf("%s, all nodes: %t", step, all), func(t *testing.T) {
				t.Parallel()
				const keys = 1500
				runners := hashed(t)
				announce := runners[3].options.Announce
				want := fillHashed(t, runners, keys)
				k := &killAt{step: step, reached: make(chan uint64, 1)}
				for id, r := range runners {
					r.end()
					r.options.Step = k.of(id)
				}
				runners[3].options.Convert, runners[3].options.Announce = true, announce
				startRunners(runners)
				victim := <-k.reached
				killed := runners
				if !all {
					killed = map[uint64]*runner{victim: runners[victim]}
				}
				// Those of one process can only end in order: cluster/convert_test.go kills nodes.
				for _, r := range killed {
					r.end()
				}
				if !all { // The others go on, as far as they can.
					time.Sleep(3 * time.Second)
				}
				k.clear()
				for _, r := range killed {
					r.start()
				}
				checkConverted(t, runners, want, keys)
			})
		}
	}
}

func TestANodeThatWasDownIsConverted(t *testing.T) {
	const keys = 1500
	for i, step := range []string{convertSteps[0], convertSteps[len(convertSteps)-1]} {
		if testing.Short() && i > 0 {
			continue
		}
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			runners := hashed(t)
			announce := runners[3].options.Announce
			for _, r := range runners {
				r.options.SnapshotEntries = 6 // So that it receives a snapshot of some shard.
			}
			want := fillHashed(t, runners, keys)
			runners[3].end()
			k := &killAt{step: step, only: 3, reached: make(chan uint64, 1)}
			runners[3].options.Step = k.of(3)
			runners[3].options.Convert, runners[3].options.Announce = true, announce
			runners[3].start()
			<-k.reached
			runners[3].end()
			inLayout(t, runners, "older"+slotsMark)
			k.clear()
			runners[3].options.Convert = false
			if step == convertSteps[0] {
				runners[3].options.Announce = "" // Nobody has told it to convert.
			}
			runners[3].start()
			await(t, "node 3 has slots", func() bool { n := runners[3].now(); return n != nil && n.HasSlots() && n.Ready() == nil })
			t.Logf("it has received %d snapshots", runners[3].now().events.received.Load())
			runners[3].end()
			runners[3].options.Announce = announce
			runners[3].start()
			checkConverted(t, runners, want, keys)
		})
	}
}

// As if the others were lost while keys move.
func TestAHalfConvertedClusterIsSalvaged(t *testing.T) {
	t.Parallel()
	const keys = 1500
	for i, step := range []string{convertSteps[1], convertSteps[2]} {
		if testing.Short() && i > 0 {
			continue
		}
		runners := hashed(t)
		announce := runners[3].options.Announce
		want := fillHashed(t, runners, keys)
		k := &killAt{step: step, reached: make(chan uint64, 1)}
		for id, r := range runners {
			r.options.Step = k.of(id)
			r.end()
		}
		runners[3].options.Convert, runners[3].options.Announce = true, announce
		startRunners(runners)
		<-k.reached
		var dirs []string
		for _, id := range sortedKeys(runners) {
			runners[id].end()
			dirs = append(dirs, runners[id].options.Dir)
		}
		backups := t.TempDir()
		if _, _, err := (&Salvage{Dirs: dirs, To: filepath.Join(backups, "none"), Committed: true}).Run(); err == nil {
			t.Fatal("what is not known to be committed was left out")
		}
		m, lines, err := (&Salvage{Dirs: dirs, To: filepath.Join(backups, "half")}).Run()
		if err != nil {
			t.Fatal(lines, err)
		}
		if m.Total.Lasting != want.Lasting || m.Total.LastingSum != want.LastingSum {
			t.Fatalf("%+v, not %+v", m.Total, want)
		}
		newer := single(t, Options{Shards: 3, Backups: backups})
		if _, err := newer.Restore("half"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOnlyNodesOfTheSameClusterAreFollowed(t *testing.T) {
	for _, one := range []struct {
		first, second string
		precedes      bool
	}{
		{"a", "a", false}, {"a", "a" + slotsMark, true}, {"a", "a" + convertingMark, true}, {"", slotsMark, true},
		{"a" + convertingMark, "a" + slotsMark, true}, {"a" + slotsMark, "a" + convertingMark, false},
		{"a" + slotsMark, "a", false}, {"a", "b" + slotsMark, false},
	} {
		if precedes(one.first, one.second) != one.precedes {
			t.Error(one)
		}
	}
	me := identity{Number: 2, Shards: 1, Token: "mine", Cluster: "ours"}
	n := &Node{number: 2, token: "mine", cluster: "ours", failed: make(chan error, 1), options: Options{Dir: t.TempDir()}}
	n.directory.Store(&Directory{Nodes: map[uint64]*NodeRecord{1: {Token: "theirs"}}})
	path := filepath.Join(n.options.Dir, identityFile)
	if err := writeFile(path, me); err != nil {
		t.Fatal(err)
	}
	of := func(token string) *Directory { return &Directory{Nodes: map[uint64]*NodeRecord{2: {Token: token}}} }
	for _, theirs := range []Status{
		{Cluster: "ours" + slotsMark}, {Cluster: "ours" + slotsMark, Newer: of("another")}, {Cluster: "ours" + slotsMark, Newer: &Directory{}},
		{Cluster: "others" + slotsMark, Newer: of("mine")}, {Cluster: "ours", Newer: of("mine")},
	} {
		if n.follows(&theirs) || n.relaid.Load() {
			t.Fatalf("%+v is followed", theirs)
		}
	}
	// It shows its directory to nodes of its cluster only.
	n.cluster = "ours" + convertingMark
	for _, theirs := range []Status{{Node: 1, Cluster: "ours", Token: "another"}, {Node: 3, Cluster: "ours"}, {Node: 1, Cluster: "others", Token: "theirs"}} {
		if n.mayFollow(&theirs) {
			t.Fatalf("%+v is shown the directory", theirs)
		}
	}
	if !n.mayFollow(&Status{Node: 1, Cluster: "ours", Token: "theirs"}) {
		t.Fatal("a node is not shown the directory of its cluster")
	}
	n.cluster = "ours"
	if !n.follows(&Status{Cluster: "ours" + slotsMark, Newer: of("mine")}) || !errors.Is(<-n.failed, ErrLayout) {
		t.Fatal("it is not followed")
	}
	n.relaid.Store(false)
	if err := n.changeLayout(layoutConverting); err == nil {
		t.Fatal("a layout was given back")
	}
}
