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

// gauges are of nodes or shards.
func (p *page) gauges(name, label, help string, of []uint64, value func(uint64) any) {
	p.describe(name, "gauge", help)
	for _, number := range of {
		p.value(name, fmt.Sprintf(`%s="%d"`, label, number), value(number))
	}
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
	for _, one := range []struct {
		name, help string
		value      any
	}{
		{"varve_node_up_seconds", "Time since the node was started.", time.Since(n.started).Seconds()},
		{"varve_node_ready", "Whether the node is ready for clients.", number(n.Ready() == nil)},
		{"varve_directory_revision", "Revision of the directory that this node knows.", d.Revision},
		{"varve_directory_settled", "Whether all replicas are where they belong.", number(d.settled())},
		{"varve_nodes", "Nodes of the cluster.", len(d.Nodes)},
	} {
		p.describe(one.name, "gauge", one.help)
		p.value(one.name, "", one.value)
	}
	p.gauges("varve_node_alive", "node", "Whether this node has heard of another one lately.", d.numbers(),
		func(other uint64) any { return number(n.alive(other)) })
	p.describe("varve_snapshots_total", "counter", "Snapshots that were sent to other nodes or received.")
	p.value("varve_snapshots_total", `direction="sent"`, n.events.sent.Load())
	p.value("varve_snapshots_total", `direction="received"`, n.events.received.Load())

	shards := sortedKeys(d.Places)
	p.gauges("varve_shard_leader_node", "shard", "Node that leads the shard, 0 if not known.", shards,
		func(shard uint64) any { return n.leaderNode(shard) })
	p.gauges("varve_shard_replicas", "shard", "Replicas of the shard that vote.", shards,
		func(shard uint64) any { return len(n.voters(shard)) })
	for _, one := range []struct {
		name, help string
		value      func(shard uint64, s ShardStatus) any
	}{
		{"varve_replica_is_leader", "Whether this node leads the shard.",
			func(_ uint64, s ShardStatus) any { return number(s.Leader == s.Replica) }},
		{"varve_replica_applied_index", "Index of the last entry that this node's replica has applied.",
			func(_ uint64, s ShardStatus) any { return s.Applied }},
		{"varve_replica_lag_entries", "Entries that another replica has applied and this node's has not.",
			func(shard uint64, s ShardStatus) any { return n.lag(shard, s.Applied) }},
		{"varve_replica_age_seconds", "Time since this node's replica had all acknowledged updates for certain; below 0 if not known.",
			func(shard uint64, _ ShardStatus) any { return n.age(shard).Seconds() }},
		{"varve_replica_bytes", "Bytes of tables of this node's replica.",
			func(_ uint64, s ShardStatus) any { return s.Bytes }},
		{"varve_replica_written_bytes_per_second", "Bytes that are written to this node's replica in a second, averaged over minutes.",
			func(_ uint64, s ShardStatus) any { return s.Rate }},
	} {
		p.gauges(one.name, "shard", one.help, sortedKeys(own.Shards),
			func(shard uint64) any { return one.value(shard, own.Shards[shard]) })
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
	if n.isConverting() {
		return errConverting
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
