// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Package node is one process of a cluster: dragonboat's groups, one for each
// shard, over the databases of a storage engine.
package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lni/dragonboat/v3"
	"github.com/lni/dragonboat/v3/config"
	"github.com/lni/dragonboat/v3/raftio"

	"varve.example/replicated/machine"
	"varve.example/replicated/raftfiles"
	"varve.example/replicated/redis"
	"varve.example/replicated/storage"
)

// Options of a node.
type Options struct {
	ID       uint64            // Of the first nodes; a node that joins is given a number.
	Address  string            // Where other nodes reach it.
	Client   string            // Where clients reach it, for the directory.
	Announce string            // Where clients of Redis Cluster reach it; empty if nowhere.
	Create   bool              // With Peers: an empty directory is that of a new cluster.
	Peers    map[uint64]string // Of a new cluster, with itself.
	Join     string            // In place of Peers: addresses of nodes, with commas.
	Cluster  string            // The name of a new cluster; DefaultCluster if it is empty.
	Shards   uint64            // Of a new cluster.
	Replicas int               // Of each shard of a new cluster.
	Dir      string
	Backups  string // Where backups are; in Dir if it is empty.
	BackupTo string // A program by which backups are elsewhere, with words for it.
	RoundMS  uint64 // Ticks; an election begins after 10 of them in silence.
	// Entries applied between two snapshots, behind which the log is cut.
	SnapshotEntries uint64
	Timeout         time.Duration // Of a request of a client.
	MaxStaleness    time.Duration // Of what stale reads return; 0 for no limit.
	MaxRequest      int           // Bytes of a request of a client.
	Convert         bool          // Whether an older cluster's keys may be mapped to shards by slots.
	TLS             PeerTLS
	Memory          Memory        // By PlanMemory.
	ReserveBytes    uint64        // Free space of the disk, below which the node ends.
	BalancePause    time.Duration // Between two replicas that move to emptier nodes; 0: none moves.
	// If it is not nil: is called when a database or the log has failed, and does not
	// return. What cannot go on waits in it, while others may call HandOver.
	Fatal func(error)
	// If it is not empty: a file with a number of milliseconds, which is added to
	// the time of day. For tests of clocks that are wrong.
	ClockFile string
	// If it is not nil: is called at each step of a conversion, which ends if it fails.
	// For tests.
	Step func(step string) error
}

// Node implements redis.Store.
type Node struct {
	options   Options
	number    uint64
	token     string
	cluster   string     // Its full name.
	wire      uint64     // The number by which Raft's messages are of nodes with that name.
	first     *Directory // With what the cluster began; nil if it is not known.
	engine    storage.Engine
	storage   *storage.Node
	host      *dragonboat.NodeHost
	events    events
	leaders   []atomic.Pointer[leadership] // By shard.
	owners    sync.Map                     // By shard: the last known one in Map.
	led       []atomic.Bool                // By shard: whether a message of its leader has come.
	current   []atomic.Int64               // By shard: since `clock`, when the replica here was current.
	transport transport
	listener  net.Listener
	raft      *raftTransport
	peers     peers
	gates     []*gate // By shard.
	use       memoryUse
	moves     []sync.Mutex // Over moving the leadership of a shard away.
	meters    []*meter
	started   time.Time
	stop      chan struct{}
	life      context.Context // Ends when stop is closed.
	endLife   context.CancelFunc
	failed    chan error
	loops     sync.WaitGroup
	stopping  atomic.Bool
	ended     atomic.Bool
	tasks     sync.WaitGroup // Begun by `begin`.
	copying   sync.Mutex     // Over writing or restoring a backup.
	held      sync.Map       // Of moments, by heldKey.
	lastTry   lastTry

	directory atomic.Pointer[Directory] // The newest one that is known.
	saved     sync.Mutex                // Over writing it down.

	asked    sync.Map                  // Nodes that have answered, or could not be reached.
	removing map[uint64]*replicaRecord // By shard. The loop `follow` has it.
	running  atomic.Bool               // Whether the recorded replicas were started.
	warned   sync.Map                  // Warnings that were logged and are not again.
	relaid   atomic.Bool               // Whether changeLayout ends the node.
	layout   sync.Mutex                // Over changing it.
	lines    Lines                     // Of what fails again and again.

	votes atomic.Pointer[map[uint64]uint64] // Replicas of this node that know of their vote, by their groups.

	inspected   time.Time // When members were last compared; the loop `control` has it.
	inspections int
	balancer    balancer
	room        atomic.Uint64 // Bytes for further replicas.

	mutex   sync.RWMutex
	local   map[uint64]*localReplica // By shard.
	heardOf map[uint64]heard         // By node.
}

// localReplica is a replica that runs here.
type localReplica struct {
	id      uint64
	machine *machine.Machine // Nil for the directory.
	weight  atomic.Pointer[weight]
}

// leadership is what a replica here knows of its leader.
type leadership struct {
	replica, leader uint64
	proved          atomic.Bool // Whether a message has gone there and back.
}

// leaderListener hears of leaders from dragonboat.
type leaderListener Node

// LeaderUpdated is called when a replica has a new leader, or none.
func (n *leaderListener) LeaderUpdated(info raftio.LeaderInfo) {
	n.leaders[shardOf(info.ClusterID)].Store(&leadership{replica: info.NodeID, leader: info.LeaderID})
}

// heard is what another node has last said of itself.
type heard struct {
	at     time.Time
	status Status
}

// identity is recorded in a directory when it is first used.
type identity struct {
	Number  uint64 // 0 until the cluster has given one.
	Shards  uint64
	Token   string
	Cluster string // Its name. Older directories have none.
	Layout  int    // How keys are mapped to shards.
	// Of a first node: with what the cluster began.
	Peers    map[uint64]string
	Replicas int
}

// Start opens the directory and takes part in the cluster.
func Start(options Options) (*Node, error) {
	// For all files, those of the engine and of dragonboat's log too.
	syscall.Umask(0o077)
	for _, dir := range []string{options.Dir, options.Backups} {
		if err := makePrivate(dir); err != nil {
			return nil, err
		}
	}
	transport, err := options.TLS.transport()
	if err != nil {
		return nil, err
	}
	n := &Node{
		options: options, transport: transport, started: time.Now(),
		stop: make(chan struct{}), failed: make(chan error, 1), local: map[uint64]*localReplica{}, heardOf: map[uint64]heard{},
		removing: map[uint64]*replicaRecord{},
	}
	n.life, n.endLife = context.WithCancel(context.Background())
	n.directory.Store(&Directory{})
	n.balancer.pause = options.BalancePause
	if err := n.start(); err != nil {
		n.Stop()
		return nil, err
	}
	return n, nil
}

// makePrivate makes a directory that only this user can use. One of an older
// program was open to all.
func makePrivate(dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return err
	}
	if err := os.Chmod(dir, 0o700); err != nil { // Such as one that nodes of several users share.
		slog.Warn("other users of this machine can read a directory", "error", err)
	}
	return nil
}

func (n *Node) start() error {
	me, err := n.identify()
	if err != nil {
		return err
	}
	n.number, n.token, n.cluster = me.Number, me.Token, me.fullName()
	if n.options.Convert && me.Layout == layoutHash {
		slog.Info("the keys of this cluster are converted to slots once all nodes run with --convert-to-slots")
	}
	n.wire = deployment(n.cluster, me.Shards)
	if err := n.checkLayout(); err != nil {
		return err
	}
	if len(me.Peers) > 0 {
		n.first = newDirectory(me.Peers, me.Shards, me.Replicas)
		n.first.Cluster = n.cluster
	}
	n.limitMemory(me.Shards)
	if n.engine, err = storage.OpenEngine(filepath.Join(n.options.Dir, "data"), n.options.Memory.engine(me.Shards)); err != nil {
		return err
	}
	if n.storage, err = storage.OpenNode(n.engine, int(me.Shards)); err != nil {
		return err
	}
	if me.Layout == layoutConverting || me.Layout == layoutConverted {
		if err := n.storage.RefuseOlder(); err != nil {
			return err
		}
	}
	if err := n.recall(); err != nil {
		return err
	}
	for shard := uint64(0); shard <= me.Shards; shard++ {
		n.gates = append(n.gates, &gate{})
		n.meters = append(n.meters, &meter{})
	}
	n.led = make([]atomic.Bool, me.Shards+1)
	n.current = make([]atomic.Int64, me.Shards+1)
	n.moves = make([]sync.Mutex, me.Shards+1)
	n.leaders = make([]atomic.Pointer[leadership], me.Shards+1)
	if n.host, err = n.openHost(&me); err != nil {
		return err
	}
	if n.listener, err = n.transport.listen(n.options.Address); err != nil {
		return err
	}
	n.run(func() { n.serve(n.listener) })
	n.run(n.exchange)
	if err := n.startRecorded(); err != nil {
		return err
	}
	n.run(n.follow)
	n.run(n.prove)
	n.run(n.refresh)
	n.run(n.watchDisk)
	n.run(n.weigh)
	n.run(n.control)
	if !n.hasSlots() {
		n.run(n.convert)
	}
	return nil
}

// run does it in the background; Stop waits for its end.
func (n *Node) run(loop func()) {
	n.loops.Add(1)
	go func() {
		defer n.loops.Done()
		loop()
	}()
}

func (n *Node) openHost(me *identity) (*dragonboat.NodeHost, error) {
	host := config.NodeHostConfig{
		NodeHostDir: filepath.Join(n.options.Dir, "raft"), RTTMillisecond: n.options.RoundMS,
		RaftAddress: n.options.Address, SystemEventListener: &n.events, RaftEventListener: (*leaderListener)(n),
		DeploymentID: me.deployment(), MaxReceiveQueueSize: n.queueLimit(),
	}
	host.Expert.TransportFactory = transportFactory{n}
	if n.options.Fatal != nil {
		files := raftfiles.New(n.options.Fatal)
		host.Expert.FS, host.Expert.LogDBFactory = files, raftfiles.Log(files)
	}
	host.Expert.LogDB = config.GetTinyMemLogDBConfig()
	host.Expert.LogDB.Shards = logParts // Fewer logs, whose writes are synced together.
	host.Expert.LogDB.KVLRUCacheSize = n.logCache()
	if part := uint64(n.options.Memory.RaftStore) / logParts; part > 0 {
		buffers := &host.Expert.LogDB.KVWriteBufferSize
		*buffers = min(max(part/8, 1<<20), *buffers)
		host.Expert.LogDB.KVLRUCacheSize = part - min(part/2, *buffers*host.Expert.LogDB.KVMaxWriteBufferNumber)
		host.Expert.LogDB.MaxSaveBufferSize = uint64(n.options.Memory.RaftLogs / 16)
	}
	host.Expert.Engine = config.GetDefaultEngineConfig()
	host.Expert.Engine.ExecShards = 4
	return dragonboat.NewNodeHost(host)
}

const logParts = 4

// logCache is how many bytes of each part of dragonboat's log are cached at most.
// A leader reads the log for replicas that lack entries. Each search reads a block
// of every table, and a block is at least as large as its largest entry. After
// requests of megabytes, leaders without a cache read for seconds, and elections
// begin. Pebble divides a cache into two pieces for each processor; here, a piece
// holds two of the largest requests.
func (n *Node) logCache() uint64 {
	return uint64(min(4*runtime.NumCPU()*max(n.options.MaxRequest, 1<<20), 512<<20))
}

// round is a tick of Raft.
func (n *Node) round() time.Duration { return time.Duration(n.options.RoundMS) * time.Millisecond }

// deployment is a number that dragonboat compares: who has another one is not
// heard. Keys hash to as many shards as there are. A cluster without a name has
// always had that number alone.
func deployment(cluster string, shards uint64) uint64 {
	if cluster == "" {
		return shards
	}
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%s %d", cluster, shards)
	return hash.Sum64()
}

// queueLimit is how many bytes of entries one replica keeps in memory at most,
// if its disk does not keep up. It is far above what one request has.
func (n *Node) queueLimit() uint64 {
	if n.options.Memory.Total > 0 {
		return n.options.Memory.logs(n.Shards(), uint64(n.options.MaxRequest))
	}
	return uint64(max(512<<20, 16*n.options.MaxRequest))
}

// Failed has an error when the node can no longer take part, and must be stopped.
func (n *Node) Failed() <-chan error { return n.failed }

func (n *Node) fail(err error) {
	select {
	case n.failed <- err: // Whoever has started the node logs it.
	default: // It has failed already.
	}
}

// Leave moves the leadership of all shards away for good, so that nobody has to wait
// for an election. Requests of clients are still done, by the other nodes. Clients of
// the cluster port are given a while to be sent there.
func (n *Node) Leave() {
	if n.stopping.Swap(true) || n.host == nil || n.listener == nil {
		return
	}
	for _, gate := range n.gates {
		gate.shutDown()
	}
	if n.relaid.Load() { // The others leave this layout too, so there is nobody who could lead in it.
		n.awaitRequests()
		return
	}
	n.handOver()
	n.awaitRequests()
	n.sayGoodbye()
	n.handOver() // What came while the others did not know yet that this node stops.
	if n.SendsAway() {
		time.Sleep(farewellTime)
	}
}

// Stop ends it. All that was acknowledged is durable without. Who does not Leave
// before does so now.
func (n *Node) Stop() {
	if n.ended.Swap(true) {
		return
	}
	n.Leave()
	close(n.stop)
	n.endLife()
	n.peers.clients.Range(func(_, client any) bool {
		client.(*peer).conn.Close()
		return true
	})
	// The replicas hear their leaders until the end, or they would begin elections.
	n.awaitTasks()
	n.dropAllHeld()
	if n.listener != nil {
		n.listener.Close()
	}
	n.loops.Wait()
	if n.host != nil {
		n.host.Stop()
	}
	if n.storage != nil {
		n.storage.Close()
	} else if n.engine != nil {
		n.engine.Close()
	}
}

// Leads says whether this node leads a shard, as far as it knows.
func (n *Node) Leads(shard uint64) bool {
	return n.here(shard) != nil && n.leaderNode(shard) == n.number
}

// Shards is how many there are.
func (n *Node) Shards() uint64 { return uint64(len(n.gates) - 1) }

// Now is the time of day in milliseconds since 1970. It may jump.
func (n *Node) Now() int64 {
	now := time.Now().UnixMilli()
	if n.options.ClockFile != "" {
		text, _ := os.ReadFile(n.options.ClockFile)
		wrong, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		now += wrong
	}
	return now
}

// Number is the node's.
func (n *Node) Number() uint64 { return n.number }

// Directory is the newest one that is known. It is not to be changed.
func (n *Node) Directory() *Directory { return n.directory.Load() }

const identityFile = "node.json"

// DefaultCluster is the name of a cluster that was given none.
const DefaultCluster = "varve"

var clusterName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// identify reads who this node is, or finds out. The first nodes are told by
// their options; others ask the cluster. The result is recorded.
func (n *Node) identify() (identity, error) {
	var me identity
	path := filepath.Join(n.options.Dir, identityFile)
	text, err := os.ReadFile(path)
	if err == nil {
		if err = json.Unmarshal(text, &me); err == nil && me.Layout != layoutHash && (me.Layout < layoutSlots || me.Layout > layoutConverted) {
			err = fmt.Errorf("%s has layout %d, which this program does not know", path, me.Layout)
		}
	} else if os.IsNotExist(err) {
		if me, err = n.newIdentity(); err == nil {
			err = writeFile(path, me)
		}
	}
	if err != nil {
		return me, err
	}
	if me.Number == 0 {
		if n.options.Join == "" {
			return me, errors.New("a node that has not joined yet needs --join")
		}
		if err := n.join(&me); err != nil {
			return me, err
		}
		if err := writeFile(path, me); err != nil {
			return me, err
		}
	}
	// Directories of older programs do not have them.
	if len(me.Peers) == 0 && n.options.Peers[me.Number] == n.options.Address {
		me.Peers, me.Replicas = n.options.Peers, n.options.Replicas
	}
	return me, nil
}

// newIdentity is of a node whose directory is empty. That alone does not make
// it new: its disk may be missing, and its votes with it. So it has to be told.
func (n *Node) newIdentity() (identity, error) {
	o, me := &n.options, identity{Token: newToken()}
	if o.Cluster != "" && !clusterName.MatchString(o.Cluster) {
		return me, fmt.Errorf("%q is not the name of a cluster: up to 64 letters, digits, '.', '_' and '-'", o.Cluster)
	}
	if len(o.Peers) == 0 {
		if o.Join == "" {
			return me, errors.New("a new node needs --create with --peers, or --join")
		}
		return me, nil
	}
	if !o.Create {
		return me, fmt.Errorf("%s is empty. To create a new cluster, add --create. "+
			"If node %d has lost its disk, have it removed (NODE.REMOVE %d), and start with --join",
			o.Dir, o.ID, o.ID)
	}
	if o.Peers[o.ID] != o.Address {
		return me, fmt.Errorf("node %d at %s is not one of the peers", o.ID, o.Address)
	}
	if o.Shards > redis.Slots {
		return me, fmt.Errorf("a cluster has at most %d shards", redis.Slots)
	}
	me.Number, me.Shards, me.Cluster, me.Peers, me.Replicas = o.ID, o.Shards, o.Cluster, o.Peers, o.Replicas
	me.Layout = layoutSlots
	if me.Cluster == "" {
		me.Cluster = DefaultCluster
	}
	return me, n.checkNotLost(&me)
}

// checkNotLost refuses to start a node as new that the cluster has seen before:
// it would not know its votes, on which the others rely. Those that do not
// answer may be new, too.
func (n *Node) checkNotLost(me *identity) error {
	for other, address := range me.Peers {
		var reply Status
		if other == me.Number || n.callAt(address, "Exchange", Status{Cluster: me.fullName()}, &reply, time.Second) != nil {
			continue
		}
		if reply.Cluster != me.fullName() {
			return fmt.Errorf("at %s is a node of the cluster %q, and not of %q", address, reply.Cluster, me.fullName())
		}
		if reply.Newer == nil {
			continue
		}
		if record := reply.Newer.Nodes[me.Number]; record == nil || record.Token != "" {
			return fmt.Errorf("the cluster has seen node %d before, but %s is empty: "+
				"have it removed (NODE.REMOVE %d), and start with --join", me.Number, n.options.Dir, me.Number)
		}
	}
	return nil
}

// otherCluster is what a node of another cluster is told.
func (n *Node) otherCluster(theirs string) string {
	return fmt.Sprintf("this is the cluster %q, and not %q", n.cluster, theirs)
}

// refused is called when another node does not hear this one.
func (n *Node) refused(why string) {
	if n.isListed() {
		n.warnOnce(why) // The other one is of an older cluster of that name.
		return
	}
	n.fail(errors.New(why))
}

// isListed says whether the directory that is known lists this very node.
func (n *Node) isListed() bool {
	record := n.Directory().Nodes[n.number]
	return record != nil && record.Token == n.token
}

func (n *Node) warnOnce(text string) {
	if _, before := n.warned.LoadOrStore(text, true); !before {
		slog.Warn(text)
	}
}

func newToken() string { return fmt.Sprintf("%d-%d", time.Now().UnixNano(), os.Getpid()) }

// writeFile replaces a file by JSON, which survives a crash when it returns.
func writeFile(path string, content interface{}) error {
	text, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return err
	}
	file, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Write(append(text, '\n')); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// join asks the nodes of Join in turns for a number, until there is an answer.
func (n *Node) join(me *identity) error {
	request := JoinRequest{n.options.Address, n.options.Client, me.Token, n.options.Cluster, layoutSlots}
	nodes := strings.Split(n.options.Join, ",")
	for attempt := 0; ; attempt++ {
		var reply JoinReply
		through := nodes[attempt%len(nodes)]
		// Who cannot serve the cluster port is not registered.
		var theirs Status
		err := n.callAt(through, "Exchange", Status{Cluster: n.options.Cluster}, &theirs, n.options.Timeout)
		var them identity
		them.setName(theirs.Cluster)
		if err == nil && n.options.Announce != "" && them.Layout == layoutHash {
			return noSlots("at " + through + " is a node of a cluster")
		}
		if err == nil {
			err = n.callAt(through, "Join", request, &reply, 10*n.options.Timeout)
		}
		if err == nil && reply.Refused != "" {
			return errors.New(reply.Refused)
		}
		if err == nil {
			me.Number, me.Shards = reply.Number, reply.Directory.Shards
			me.setName(reply.Directory.Cluster)
			n.cluster = me.fullName()
			n.adopt(reply.Directory)
			slog.Info("joined", "node", me.Number, "through", through)
			return nil
		}
		slog.Warn("joining", "through", through, "error", err)
		time.Sleep(time.Second)
	}
}

const directoryKey = "directory"

// recall reads the directory that was last known, or takes the first one. It
// records one that the cluster has just told.
func (n *Node) recall() error {
	text, err := n.storage.Record(directoryKey)
	if err != nil {
		return err
	}
	d := &Directory{}
	if text != "" {
		if err := json.Unmarshal([]byte(text), d); err != nil {
			return err
		}
	}
	joined := n.directory.Swap(&Directory{})
	if text == "" && n.first != nil {
		n.directory.Store(n.first)
	}
	n.adopt(d)
	n.adopt(joined)
	if n.Directory().Revision < max(d.Revision, joined.Revision) {
		return errors.New("the directory could not be recorded")
	}
	return nil
}

// adopt takes over a directory if it is newer, and this cluster's.
func (n *Node) adopt(d *Directory) {
	n.saved.Lock()
	defer n.saved.Unlock()
	if d.Revision <= n.directory.Load().Revision {
		return
	}
	if d.Cluster != n.cluster && !precedes(d.Cluster, n.cluster) {
		n.warnOnce("a directory is not followed: " + n.otherCluster(d.Cluster))
		return
	}
	if record := d.Nodes[n.number]; record != nil && record.Token != "" && record.Token != n.token {
		n.refused(fmt.Sprintf("node %d of the directory is not this one", n.number))
		return
	}
	// It is recorded first: what is done by it must not be undone by a crash.
	if n.storage != nil {
		text, err := json.Marshal(d)
		if err == nil {
			err = n.storage.SetRecord(directoryKey, string(text))
		}
		if err != nil {
			slog.Error("recording the directory", "error", err)
			return
		}
	}
	n.directory.Store(d)
}

// Info is for INFO.
func (n *Node) Info() string {
	var text strings.Builder
	line := func(format string, arguments ...interface{}) {
		fmt.Fprintf(&text, format+"\r\n", arguments...)
	}
	line("# Server\r\nengine:%s", n.storage.Describe())
	line("node_id:%d\r\nraft_address:%s\r\nshards:%d\r\nslots:%t", n.number, n.options.Address, n.Shards(), n.hasSlots())
	line("\r\n# Memory\r\n%s", n.memoryInfo())
	line("\r\n# Replication\r\nsnapshots_sent:%d\r\nsnapshots_received:%d",
		n.events.sent.Load(), n.events.received.Load())
	for shard := uint64(1); shard <= n.Shards(); shard++ {
		line("shard_%d_leader:%d", shard, n.leaderNode(shard))
	}
	return text.String()
}

// events counts snapshots that went from node to node.
type events struct{ sent, received atomic.Uint64 }

func (e *events) SendSnapshotCompleted(raftio.SnapshotInfo)   { e.sent.Add(1) }
func (e *events) SnapshotReceived(raftio.SnapshotInfo)        { e.received.Add(1) }
func (e *events) ConnectionEstablished(raftio.ConnectionInfo) {}
func (e *events) ConnectionFailed(raftio.ConnectionInfo)      {}

func (e *events) NodeHostShuttingDown()                   {}
func (e *events) NodeUnloaded(raftio.NodeInfo)            {}
func (e *events) NodeReady(raftio.NodeInfo)               {}
func (e *events) MembershipChanged(raftio.NodeInfo)       {}
func (e *events) SendSnapshotStarted(raftio.SnapshotInfo) {}
func (e *events) SendSnapshotAborted(raftio.SnapshotInfo) {}
func (e *events) SnapshotRecovered(raftio.SnapshotInfo)   {}
func (e *events) SnapshotCreated(raftio.SnapshotInfo)     {}
func (e *events) SnapshotCompacted(raftio.SnapshotInfo)   {}
func (e *events) LogCompacted(raftio.EntryInfo)           {}
func (e *events) LogDBCompacted(raftio.EntryInfo)         {}
