// Varve: a key-value storage engine. MIT licence, see LICENSE.
package node

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"varve.example/replicated/storage"
)

// Memory divides what a process may use among its parts. Each part has a bound of its
// own. All are 0 if there is no bound over everything.
type Memory struct {
	Total       int64
	Databases   int64 // The block cache, with the memtables of all shards.
	Memtables   int64 // Of Databases.
	RaftStore   int64 // Caches and memtables of Raft's log on disk.
	RaftLogs    int64 // Entries of Raft that are not applied yet, of all shards.
	Proposals   int64 // Of clients of this node, until they are answered.
	Clients     int64 // Requests and answers.
	Connections int64 // What each connection has besides.
	Go          int64 // The runtime's limit: all but the engines' memory.
}

// LeastMemory is what a node works with.
const LeastMemory = 256 << 20

const (
	memoryParts     = 32
	connectionBytes = 32 << 10
	fullPercent     = 85 // Of Go, in use after a collection: nothing more is taken then.
	fullPause       = 20 * time.Millisecond
)

// PlanMemory divides. What is left is for copies on their way and for garbage.
func PlanMemory(total int64) (Memory, error) {
	if total == 0 {
		return Memory{}, nil
	}
	if total < LeastMemory {
		return Memory{}, fmt.Errorf("a node needs at least %d MiB of memory", LeastMemory>>20)
	}
	part := total / memoryParts
	m := Memory{
		Total: total, Databases: 8 * part, Memtables: 4 * part, RaftStore: 3 * part,
		RaftLogs: 4 * part, Proposals: part, Clients: 6 * part, Connections: 2 * part,
	}
	m.Go = total - m.Databases - m.RaftStore - 2*part // For what the engines need besides.
	return m, nil
}

// MaxConnections is how many connections there is memory for.
func (m *Memory) MaxConnections() int { return int(m.Connections / connectionBytes) }

// engine says how much memory databases of so many shards may use.
func (m *Memory) engine(shards uint64) storage.Options {
	options := storage.DefaultOptions
	if m.Total > 0 {
		options.CacheBytes, options.MemtableBytes = int(m.Databases), int(m.Memtables)
		options.WriteBufferBytes = min(max(options.MemtableBytes/int(2*shards), 1<<20), options.WriteBufferBytes)
	}
	return options
}

// logs is how many bytes of entries a shard's replica may have in memory. One request
// must fit, although all shards together may then exceed their part.
func (m *Memory) logs(shards, request uint64) uint64 {
	return max(uint64(m.RaftLogs)/(2*shards), request+request/8+1<<20)
}

// memoryUse is what there is of what the plan bounds.
type memoryUse struct {
	proposals atomic.Int64
	limit     atomic.Int64 // Bytes of Go, above which it is full.
	full      atomic.Bool  // Whether Go's memory is nearly used up.
}

// errNoMemory says that updates were not taken because there is no memory for them.
var errNoMemory = fmt.Errorf("%w: there is no memory", errNotTaken)

// takeMemory takes memory for updates, as soon as there is some. One alone is always taken.
func (n *Node) takeMemory(ctx context.Context, bytes int64) bool {
	limit := n.options.Memory.Proposals
	for {
		used := n.use.proposals.Load()
		if limit == 0 || !n.Full() && (used == 0 || used+bytes <= limit) {
			if n.use.proposals.CompareAndSwap(used, used+bytes) {
				return true
			}
			continue
		}
		if !pause(ctx) {
			return false
		}
	}
}

// Full says whether there is no memory for anything more.
func (n *Node) Full() bool { return n.use.full.Load() }

// limitMemory has Go's runtime collect garbage in time. It is called before the engine
// is opened.
func (n *Node) limitMemory(shards uint64) {
	m := &n.options.Memory
	if m.Total == 0 {
		return
	}
	debug.SetMemoryLimit(m.Go)
	n.use.limit.Store(m.Go / 100 * fullPercent)
	storage.BoundMalloc()
	logs := int64(2 * shards * m.logs(shards, uint64(n.options.MaxRequest)))
	slog.Info("memory is bounded", "MiB", m.Total>>20, "databases", m.Databases>>20, "raft-store", m.RaftStore>>20,
		"raft-logs", logs>>20, "proposals", m.Proposals>>20, "clients", m.Clients>>20,
		"connections", m.Connections>>20, "go", m.Go>>20)
	if logs > 2*m.RaftLogs {
		slog.Warn("if all shards lag at the same time, their logs may exceed their part of --max-memory: "+
			"give it more, or lower --max-request-mib", "MiB", logs>>20, "part", m.RaftLogs>>20)
	}
	n.run(n.watchMemory)
}

// watchMemory looks at what was in use after the last collection.
func (n *Node) watchMemory() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	for n.wait(fullPause) {
		metrics.Read(live)
		full := int64(live[0].Value.Uint64()) > n.use.limit.Load()
		if n.use.full.Swap(full) != full {
			n.warnOnce("memory is full: requests are refused until there is some. See INFO memory")
			slog.Debug("memory", "full", full, "MiB", live[0].Value.Uint64()>>20)
		}
	}
}

// memoryInfo are lines for INFO.
func (n *Node) memoryInfo() string {
	m := &n.options.Memory
	used := int64(0)
	if engine, ok := n.engine.(storage.Watched); ok {
		used = engine.Memory()
	}
	goes := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(goes)
	return fmt.Sprintf("databases:%d\r\nmax_databases:%d\r\nproposals:%d\r\nmax_proposals:%d\r\n"+
		"max_raft_store:%d\r\nmax_raft_logs:%d\r\nmax_requests_and_answers:%d\r\nmax_connection_bytes:%d\r\ngo:%d\r\nmax_go:%d\r\nmemory_full:%t",
		used, m.Databases, n.use.proposals.Load(), m.Proposals, m.RaftStore, m.RaftLogs, m.Clients, m.Connections,
		goes[0].Value.Uint64()-goes[1].Value.Uint64(), m.Go, n.Full())
}
