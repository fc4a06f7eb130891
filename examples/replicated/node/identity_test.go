// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: nodes of other clusters, and nodes that have lost their directories,
// change nothing here; a first start that was interrupted, and members that
// nobody wants, are put right.
// Method: nodes of one process, whose records and directories are prepared.

package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"varve.example/replicated/check"
	"varve.example/replicated/machine"
	"varve.example/replicated/storage"
)

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Minute); !done(); time.Sleep(10 * time.Millisecond) {
		check.FatalIf(t, time.Now().After(end), "not in time: %v", what)
	}
}

// single starts a cluster of one node.
func single(t *testing.T, options Options) *Node {
	options.ID, options.Address, options.Client = 1, freeAddress(t), "client"
	options.Peers, options.Replicas, options.Dir = map[uint64]string{1: options.Address}, 1, t.TempDir()
	n := startNode(t, options)
	t.Cleanup(n.Stop)
	awaitDirectory(t, n)
	await(t, "the shards serve, and the node's token is recorded", func() bool {
		for shard := uint64(0); shard <= options.Shards; shard++ {
			if n.here(shard) == nil {
				return false
			}
		}
		return n.isListed()
	})
	return n
}

func peersOf(t *testing.T, count uint64) map[uint64]string {
	peers := map[uint64]string{}
	for i := uint64(1); i <= count; i++ {
		peers[i] = freeAddress(t)
	}
	return peers
}

func firstOptions(t *testing.T, peers map[uint64]string, id uint64) Options {
	return Options{
		ID: id, Address: peers[id], Client: fmt.Sprint("client", id), Peers: peers,
		Shards: 1, Replicas: 3, Dir: t.TempDir(),
	}
}

// startAll starts the first nodes of a cluster.
func startAll(t *testing.T, peers map[uint64]string) []*Node {
	var nodes []*Node
	for _, id := range sortedKeys(peers) {
		n := startNode(t, firstOptions(t, peers, id))
		t.Cleanup(n.Stop)
		nodes = append(nodes, n)
	}
	return nodes
}

func asText(t *testing.T, of interface{}) string {
	text, err := json.Marshal(of)
	check.OK(t, err)
	return string(text)
}

// prepare makes the directory of a node of one shard, which has not run yet.
func prepare(t *testing.T, dir string, me identity, texts map[string]string) {
	t.Helper()
	check.OK(t, writeFile(filepath.Join(dir, identityFile), me))
	engine, err := storage.OpenEngine(filepath.Join(dir, "data"), storage.DefaultOptions)
	check.OK(t, err)
	records, err := storage.OpenNode(engine, 1)
	check.OK(t, err)
	defer records.Close()
	check.OK(t, records.SetRecords(texts))
}

func put(t *testing.T, n *Node, key string) {
	t.Helper()
	updates := machine.AppendPut(machine.NewProposal(nil, 1), []byte(key), []byte("value"), 0)
	check.OK(t, check.Err(n.Propose(1, updates)))
}

// checkKeeps checks that the node has its replicas and the entry still.
func checkKeeps(t *testing.T, n *Node, revision uint64) {
	t.Helper()
	time.Sleep(5 * followPause)
	if now := n.Directory().Revision; now > revision+10 {
		t.Fatalf("the directory of revision %d was adopted", now)
	}
	if contents, err := n.Checksum(); err != nil || contents.Entries != 1 {
		t.Fatal(contents, err)
	}
	select {
	case err := <-n.Failed():
		t.Fatal(err)
	default:
	}
}

func TestTheDirectoryOfAnotherClusterIsNotFollowed(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"old", DefaultCluster} {
		lost, n := single(t, Options{Cluster: name, Shards: 1}), single(t, Options{Shards: 1})
		put(t, n, "key")
		// What the lost cluster says of the address that is used again.
		foreign := lost.Directory().copy()
		foreign.Revision = 1000
		foreign.Nodes[1].Address = n.options.Address
		foreign.Nodes[4] = &NodeRecord{Address: lost.options.Address, Token: "4"}
		foreign.LastReplica++
		foreign.Places[1].Replicas = map[uint64]*Replica{foreign.LastReplica: {Node: 1, State: Voting}}
		if name != DefaultCluster {
			// Only the name tells: a cluster with that name could have removed node 1.
			foreign.Places[1].Replicas[foreign.LastReplica].Node = 4
			delete(foreign.Nodes, 1)
		}
		revision := n.Directory().Revision
		told := lost.status()
		told.Node, told.Token, told.Newer = 4, "4", foreign
		var reply Status
		check.OK(t, lost.callAt(n.options.Address, "Exchange", told, &reply, time.Second))
		if (reply.Refused == "") != (name == DefaultCluster) || (name != DefaultCluster && reply.Newer != nil) {
			t.Fatalf("the answer to cluster %s: %+v", name, reply)
		}
		n.adopt(foreign)
		checkKeeps(t, n, revision)
	}
}

func TestRequestsOfAnotherClusterAreRefused(t *testing.T) {
	n := single(t, Options{Cluster: "ours", Shards: 1})
	put(t, n, "key")
	theirs := &Node{cluster: "theirs", transport: plainTransport()}
	var reply Reply
	request := Request{Cluster: "theirs", Shard: 1, Updates: machine.NewProposal(nil, 0)}
	if err := theirs.callAt(n.options.Address, "Do", request, &reply, time.Second); err != nil || !reply.NotHere {
		t.Fatal(reply, err)
	}
	var joined JoinReply
	if err := theirs.callAt(n.options.Address, "Join", JoinRequest{"a:1", "b:1", "token", "theirs", layoutSlots}, &joined, time.Second); err != nil ||
		joined.Refused == "" || len(n.Directory().Nodes) != 1 {
		t.Fatal(joined, err)
	}
	for cluster, served := range map[string]bool{"theirs": false, "ours": false, "ours" + slotsMark: true} {
		theirs.cluster = cluster
		conn, err := theirs.dialNode(n.options.Address, kindStream)
		check.OK(t, err)
		defer conn.Close()
		conn.Write([]byte(theirs.streamRequest(1, 0)))
		conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		if count, _ := conn.Read(make([]byte, 1)); (count == 1) != served {
			t.Fatalf("a backup of cluster %s is served: %t", cluster, count == 1)
		}
	}
	if deployment("ours", 8) == deployment("theirs", 8) || deployment("ours", 8) == deployment("ours", 9) ||
		deployment("", 8) != 8 {
		t.Fatal("Raft does not tell them apart")
	}
}

func TestANodeThatJoinsLearnsTheName(t *testing.T) {
	first := single(t, Options{Cluster: "ours", Shards: 1})
	options := Options{Address: freeAddress(t), Join: first.options.Address, Cluster: "theirs", Dir: t.TempDir()}
	options.RoundMS, options.SnapshotEntries, options.Timeout = 20, 1000, 5*time.Second
	if n, err := Start(options); err == nil {
		n.Stop()
		t.Fatal("it has joined another cluster")
	}
	options.Cluster = ""
	n := startNode(t, options)
	defer n.Stop()
	var me identity
	text, err := os.ReadFile(filepath.Join(options.Dir, identityFile))
	if err == nil {
		err = json.Unmarshal(text, &me)
	}
	if err != nil || me.Cluster != "ours" || me.Layout != layoutSlots ||
		n.cluster != "ours"+slotsMark || n.Directory().Cluster != "ours"+slotsMark {
		t.Fatal(me, err)
	}
}

func TestAnEmptyDirectoryIsNotANewNodeByItself(t *testing.T) {
	address := freeAddress(t)
	options := Options{ID: 1, Address: address, Peers: map[uint64]string{1: address}, Shards: 1, Replicas: 1, Dir: t.TempDir()}
	options.RoundMS, options.SnapshotEntries, options.Timeout = 20, 1000, 5*time.Second
	_, err := Start(options)
	check.FatalIf(t, err == nil || !strings.Contains(err.Error(), "--create") || !strings.Contains(err.Error(), "--join"), "%v", err)
	if _, err := os.Stat(filepath.Join(options.Dir, identityFile)); !os.IsNotExist(err) {
		t.Fatal("an identity was recorded: ", err)
	}
	for _, options.Create = range []bool{true, false} { // Later starts do without.
		n, err := Start(options)
		check.OK(t, err)
		n.Stop()
	}
}

func TestADirectoryOfAnOlderProgramGoesOn(t *testing.T) {
	address := freeAddress(t)
	options := Options{ID: 1, Address: address, Peers: map[uint64]string{1: address}, Shards: 1, Replicas: 1, Dir: t.TempDir()}
	check.OK(t, writeFile(filepath.Join(options.Dir, identityFile), identity{Number: 1, Shards: 1, Token: "token"}))
	n := startNode(t, options)
	defer n.Stop()
	awaitDirectory(t, n)
	if n.cluster != "" || n.Directory().Cluster != "" {
		t.Fatal("it has got a name: ", n.cluster, n.Directory().Cluster)
	}
	join := startNode(t, Options{Address: freeAddress(t), Join: address, Dir: t.TempDir()})
	defer join.Stop()
	check.FatalIf(t, join.cluster != "", "a node that joins has the name %v", join.cluster)
}

// As if its disk had been missing when it could reach nobody.
func TestANodeThatHasLostItsDirectoryEnds(t *testing.T) {
	peers := peersOf(t, 3)
	nodes := startAll(t, peers)
	tokens := func() (tokens []string) {
		for _, record := range nodes[0].Directory().Nodes {
			if record.Token != "" {
				tokens = append(tokens, record.Token)
			}
		}
		return tokens
	}
	await(t, "the tokens are recorded", func() bool { return len(tokens()) == 3 })
	nodes[2].Stop()
	empty := firstOptions(t, peers, 3)
	me := identity{Number: 3, Shards: 1, Token: "another", Cluster: DefaultCluster, Layout: layoutSlots, Peers: peers, Replicas: 3}
	// Without replicas: dragonboat panics if a log is empty that must not be.
	early := newDirectory(peers, 1, 3)
	early.Cluster, early.Revision = DefaultCluster+slotsMark, 1
	for _, place := range early.Places {
		delete(place.Replicas, 3)
	}
	prepare(t, empty.Dir, me, map[string]string{directoryKey: asText(t, early)})
	n := startNode(t, empty)
	defer n.Stop()
	select {
	case err := <-n.Failed():
		t.Log(err)
	case <-time.After(20 * time.Second):
		t.Fatal("it goes on")
	}
	nodes[0].mutex.RLock()
	last := nodes[0].heardOf[3]
	nodes[0].mutex.RUnlock()
	check.FatalIf(t, contains(tokens(), "another") || last.status.Token == "another", "it has taken the other one's place")
	var reply Status
	if err := nodes[1].callAt(peers[1], "Exchange", n.status(), &reply, time.Second); err != nil || reply.Refused == "" {
		t.Fatalf("%+v %v", reply, err)
	}
	// The leader of the directory does not replace a token, whatever it has heard.
	d := nodes[0].Directory().copy()
	d.Nodes[1].Token = "older"
	check.FatalIf(t, nodes[0].introduce(d) || d.Nodes[1].Token != "older", "the token was replaced")
	if d.Nodes[1].Token = ""; !nodes[0].introduce(d) || d.Nodes[1].Token != nodes[0].token {
		t.Fatal("the token was not recorded")
	}
}

// As if it were killed after it had recorded some replicas, or none.
func TestAnInterruptedFirstStartIsContinued(t *testing.T) {
	t.Parallel()
	for _, recorded := range []bool{false, true} {
		peers := peersOf(t, 3)
		first, second := startNode(t, firstOptions(t, peers, 1)), startNode(t, firstOptions(t, peers, 2))
		defer first.Stop()
		defer second.Stop()
		awaitDirectory(t, first)
		options := firstOptions(t, peers, 3)
		me := identity{Number: 3, Shards: 1, Token: "token", Cluster: DefaultCluster, Layout: layoutSlots, Peers: peers, Replicas: 3}
		texts := map[string]string{}
		texts[directoryKey] = asText(t, first.Directory()) // It was told already.
		if recorded {
			r := &replicaRecord{Shard: 0, Replica: 3, Members: peers}
			texts[r.key()] = asText(t, r)
		}
		prepare(t, options.Dir, me, texts)
		options.Peers = nil // What is recorded is enough.
		third := startNode(t, options)
		defer third.Stop()
		for shard := uint64(0); shard <= 1; shard++ {
			await(t, "the replica serves", func() bool { return third.here(shard) != nil })
			await(t, "the replica leads", func() bool {
				for _, n := range []*Node{first, second} {
					if n.Leads(shard) {
						n.transfer(shard, 3)
					}
				}
				return third.Leads(shard)
			})
		}
		all, err := third.storage.Records(replicaKey)
		check.FatalIf(t, err != nil || len(all) != 2, "%v %v", all, err)
		for _, text := range all {
			check.FatalIf(t, !strings.Contains(text, peers[1]), "it has joined: %v", text)
		}
	}
}

func TestFirstReplicasThatHaveLeftDoNotComeBack(t *testing.T) {
	n := single(t, Options{Shards: 1})
	records := map[string]string{}
	d := n.Directory().copy()
	delete(d.Places[1].Replicas, 1)
	d.Revision++
	n.directory.Store(d)
	if err := n.recordFirst(records); err != nil || len(records) != 1 || records["replica-0-1"] == "" {
		t.Fatal(records, err)
	}
}

func TestAMemberThatNobodyWantsIsTakenOut(t *testing.T) {
	t.Parallel()
	n := single(t, Options{Shards: 2})
	before, _, err := n.members(n.Directory(), 2)
	check.OK(t, err)
	// A change that was given up is done late.
	late := Membership{Shard: 2, Kind: addObserver, Replica: firstReplica + 7, Address: "127.0.0.1:1", After: before.Change}
	check.OK(t, (&Service{n}).Change(late, nil))
	check.FatalIf(t, !n.Directory().settled(), "it is not settled")
	await(t, "the member is out", func() bool {
		now, _, err := n.members(n.Directory(), 2)
		return err == nil && now.Removed[late.Replica] && len(now.Observers) == 0
	})
	check.FatalIf(t, n.here(2) == nil || len(n.Directory().Places[2].Replicas) != 1, "more than that was removed")
}

func TestANodeThatWasRemovedLosesWhatItLeads(t *testing.T) {
	t.Parallel()
	peers := peersOf(t, 4)
	nodes := startAll(t, peers)
	awaitDirectory(t, nodes[0])
	await(t, "node 2 leads shard 1", func() bool { // It is on the nodes 2 to 4.
		for _, n := range nodes {
			if n.Leads(1) && n.number != 2 {
				n.transfer(1, 2)
			}
		}
		return nodes[1].Leads(1)
	})
	// Remove does not do this to a node that is up, but it may come back.
	if err := nodes[0].update(func(next *Directory) error {
		delete(next.Nodes, 2)
		next.heal(nodes[0].alive)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	await(t, "its replicas are replaced", func() bool {
		d := nodes[0].Directory()
		return d.settled() && len(d.holds(2)) == 0 && nodes[0].leaderNode(1) != 2
	})
}

func TestRemovingNeedsToHearOthers(t *testing.T) {
	d := newDirectory(testPeers(5), 1, 3)
	n := &Node{number: 1, heardOf: map[uint64]heard{5: {at: time.Now()}}} // 5 is to go.
	for _, number := range []uint64{2, 3} {
		check.FatalIf(t, n.hearsOthers(d, 5), "%v are enough", n.heardOf)
		n.heardOf[number] = heard{at: time.Now()}
	}
	check.FatalIf(t, !n.hearsOthers(d, 5), "two of three are not enough")
	check.FatalIf(t, !n.hearsOthers(newDirectory(testPeers(2), 1, 1), 2), "the other one of two cannot be removed")
}

// fullEngine has a disk that can be full.
type fullEngine struct {
	storage.Engine
	full *atomic.Bool
}

type fullDatabase struct {
	storage.Database
	full *atomic.Bool
}

func (e fullEngine) Create(name string) (storage.Database, error) {
	db, err := e.Engine.Create(name)
	return fullDatabase{db, e.full}, err
}

func (d fullDatabase) Write(batch []byte) error {
	if d.full.Load() {
		return errors.New("the disk is full")
	}
	return d.Database.Write(batch)
}

func TestADirectoryIsFollowedOnceItIsRecorded(t *testing.T) {
	engine, err := storage.OpenEngine(filepath.Join(t.TempDir(), "data"), storage.DefaultOptions)
	check.OK(t, err)
	full := &atomic.Bool{}
	n := &Node{}
	if n.storage, err = storage.OpenNode(fullEngine{engine, full}, 1); err != nil {
		t.Fatal(err)
	}
	defer n.storage.Close()
	n.directory.Store(&Directory{})
	d := newDirectory(testPeers(1), 1, 1)
	d.Revision = 7
	for _, failing := range []bool{true, false} {
		full.Store(failing)
		n.adopt(d)
		text, err := n.storage.Record(directoryKey)
		if err != nil || (n.Directory().Revision == 7) == failing || (text == "") != failing {
			t.Fatalf("full %t: followed %d, recorded %q, %v", failing, n.Directory().Revision, text, err)
		}
	}
}
