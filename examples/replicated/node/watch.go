// Varve: a key-value storage engine. MIT licence, see LICENSE.
package node

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"strings"
	"sync/atomic"
	"time"

	"varve.example/replicated/storage"
)

// bounds of the buckets of latencies, in seconds.
var bounds = []float64{.0002, .0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 3}

// latencies counts requests of one kind.
type latencies struct {
	buckets [14]atomic.Uint64 // The last is beyond all bounds.
	failed  atomic.Uint64
	nanos   atomic.Uint64
}

func (l *latencies) add(took time.Duration, err error) {
	if err != nil {
		l.failed.Add(1)
		return
	}
	at := 0
	for at < len(bounds) && took.Seconds() > bounds[at] {
		at++
	}
	l.buckets[at].Add(1)
	l.nanos.Add(uint64(took))
}

// meter is of the requests of a shard that clients of this node have made.
type meter struct{ proposals, reads latencies }

// page is a text for Prometheus.
type page struct{ strings.Builder }

func (p *page) describe(name, kind, help string) {
	fmt.Fprintf(p, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func (p *page) value(name, labels string, value interface{}) {
	if labels != "" {
		labels = "{" + labels + "}"
	}
	fmt.Fprintf(p, "%s%s %v\n", name, labels, value)
}

func (p *page) histogram(name, labels string, l *latencies) {
	total := uint64(0)
	for i := range l.buckets {
		total += l.buckets[i].Load()
		bound := "+Inf"
		if i < len(bounds) {
			bound = fmt.Sprint(bounds[i])
		}
		p.value(name+"_bucket", labels+`,le="`+bound+`"`, total)
	}
	p.value(name+"_sum", labels, float64(l.nanos.Load())/1e9)
	p.value(name+"_count", labels, total)
}

func number(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// Metrics is a page for Prometheus.
func (n *Node) Metrics() string {
	var p page
	d := n.Directory()
	own := n.status()
	p.describe("varve_node_up_seconds", "gauge", "Time since the node was started.")
	p.value("varve_node_up_seconds", "", time.Since(n.started).Seconds())
	p.describe("varve_node_ready", "gauge", "Whether the node is ready for clients.")
	p.value("varve_node_ready", "", number(n.Ready() == nil))
	p.describe("varve_directory_revision", "gauge", "Revision of the directory that this node knows.")
	p.value("varve_directory_revision", "", d.Revision)
	p.describe("varve_directory_settled", "gauge", "Whether all replicas are where they belong.")
	p.value("varve_directory_settled", "", number(d.settled()))
	p.describe("varve_nodes", "gauge", "Nodes of the cluster.")
	p.value("varve_nodes", "", len(d.Nodes))
	p.describe("varve_node_alive", "gauge", "Whether this node has heard of another one lately.")
	for _, other := range d.numbers() {
		p.value("varve_node_alive", fmt.Sprintf(`node="%d"`, other), number(n.alive(other)))
	}
	p.describe("varve_snapshots_total", "counter", "Snapshots that were sent to other nodes or received.")
	p.value("varve_snapshots_total", `direction="sent"`, n.events.sent.Load())
	p.value("varve_snapshots_total", `direction="received"`, n.events.received.Load())

	shards := sortedKeys(d.Places)
	p.describe("varve_shard_leader_node", "gauge", "Node that leads the shard, 0 if not known.")
	for _, shard := range shards {
		p.value("varve_shard_leader_node", fmt.Sprintf(`shard="%d"`, shard), n.leaderNode(shard))
	}
	p.describe("varve_shard_replicas", "gauge", "Replicas of the shard that vote.")
	for _, shard := range shards {
		p.value("varve_shard_replicas", fmt.Sprintf(`shard="%d"`, shard), len(n.voters(shard)))
	}
	for _, one := range []struct {
		name, kind, help string
		value            func(shard uint64, s ShardStatus) interface{}
	}{
		{"varve_replica_is_leader", "gauge", "Whether this node leads the shard.",
			func(_ uint64, s ShardStatus) interface{} { return number(s.Leader == s.Replica) }},
		{"varve_replica_applied_index", "gauge", "Index of the last entry that this node's replica has applied.",
			func(_ uint64, s ShardStatus) interface{} { return s.Applied }},
		{"varve_replica_lag_entries", "gauge", "Entries that another replica has applied and this node's has not.",
			func(shard uint64, s ShardStatus) interface{} { return n.lag(shard, s.Applied) }},
		{"varve_replica_age_seconds", "gauge", "Time since this node's replica had all acknowledged updates for certain; below 0 if not known.",
			func(shard uint64, _ ShardStatus) interface{} { return n.age(shard).Seconds() }},
		{"varve_replica_bytes", "gauge", "Bytes of tables of this node's replica.",
			func(_ uint64, s ShardStatus) interface{} { return s.Bytes }},
		{"varve_replica_written_bytes_per_second", "gauge", "Bytes that are written to this node's replica in a second, averaged over minutes.",
			func(_ uint64, s ShardStatus) interface{} { return s.Rate }},
	} {
		p.describe(one.name, one.kind, one.help)
		for _, shard := range sortedKeys(own.Shards) {
			p.value(one.name, fmt.Sprintf(`shard="%d"`, shard), one.value(shard, own.Shards[shard]))
		}
	}
	for _, kind := range []struct {
		name, help string
		of         func(*meter) *latencies
	}{
		{"proposal", "Updates", func(m *meter) *latencies { return &m.proposals }},
		{"read", "Reads", func(m *meter) *latencies { return &m.reads }},
	} {
		name := "varve_shard_" + kind.name
		p.describe(name+"_failures_total", "counter", kind.help+" of clients of this node that have failed.")
		for shard, m := range n.meters {
			p.value(name+"_failures_total", fmt.Sprintf(`shard="%d"`, shard), kind.of(m).failed.Load())
		}
		p.describe(name+"_seconds", "histogram", kind.help+" of clients of this node, by time.")
		for shard, m := range n.meters {
			p.histogram(name+"_seconds", fmt.Sprintf(`shard="%d"`, shard), kind.of(m))
		}
	}
	if engine, ok := n.engine.(storage.Watched); ok {
		p.WriteString(engine.Metrics())
	}
	return p.String()
}

// lag is how many entries another replica of the shard is ahead.
func (n *Node) lag(shard, applied uint64) uint64 {
	lag := uint64(0)
	for _, number := range n.voters(shard) {
		if one, known := n.statusOf(number, shard); known && one.Applied > applied {
			lag = max(lag, one.Applied-applied)
		}
	}
	return lag
}

// Ready says why the node is not ready for clients: it does not know the
// directory, or a replica of its own does not know its leader or is far behind.
func (n *Node) Ready() error {
	if n.stopping.Load() {
		return fmt.Errorf("the node is stopping")
	}
	d := n.Directory()
	if d.Revision == 0 {
		return fmt.Errorf("the directory is not known yet")
	}
	own := n.status()
	for _, shard := range sortedKeys(d.Places) {
		one := own.Shards[shard]
		if running := n.voting(shard); running != nil {
			if !n.steady(shard, running) {
				return fmt.Errorf("shard %d has no leader that was reached", shard)
			}
			if lag := n.lag(shard, one.Applied); lag > 10*nearEnough {
				return fmt.Errorf("shard %d lacks %d entries", shard, lag)
			}
		} else if n.leaderNode(shard) == 0 {
			return fmt.Errorf("shard %d has no leader", shard)
		}
	}
	return nil
}

// Time limits of the port for metrics, which has no password.
const (
	watchRead  = 5 * time.Second
	watchWrite = 30 * time.Second
	watchIdle  = time.Minute
)

// WatchServer serves /metrics, /healthz, /readyz and, if they are wanted, Go's profiles,
// which may take a minute.
func (n *Node) WatchServer(profiles bool) *http.Server {
	server := &http.Server{
		Handler: n.handler(profiles), ReadTimeout: watchRead, WriteTimeout: watchWrite, IdleTimeout: watchIdle,
		MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug),
	}
	if profiles {
		server.WriteTimeout += time.Minute
	}
	return server
}

func (n *Node) handler(profiles bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		fmt.Fprint(w, n.Metrics())
	})
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := n.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	if profiles {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	}
	return mux
}
