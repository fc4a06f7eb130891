// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: the parts of a process's memory are together no more than the whole, and a
// write for which there is no memory says so, and was not done.
// Method: plans; a node whose memory is used up by hand.
package node

import (
	"errors"
	"math"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"varve.example/replicated/check"
	"varve.example/replicated/machine"
)

func TestPartsAreNoMoreThanTheWhole(t *testing.T) {
	check.ErrorIf(t, check.Err(PlanMemory(LeastMemory-1)) == nil, "there is a plan for too little")
	if m, err := PlanMemory(0); err != nil || m != (Memory{}) {
		t.Error(m, err)
	}
	for total := int64(LeastMemory); total < 1<<40; total = total*3 + 1 {
		m, err := PlanMemory(total)
		check.OK(t, err)
		if sum := m.Databases + m.RaftStore + m.Go; sum > total-total/20 {
			t.Errorf("%d: %d are used", total, sum)
		}
		if sum := m.RaftLogs + m.Proposals + m.Clients + m.Connections; sum > m.Go/100*fullPercent {
			t.Errorf("%d: %d of %d of Go are used", total, sum, m.Go)
		}
		if o := m.engine(8); o.MemtableBytes > o.CacheBytes || 8*o.WriteBufferBytes > o.MemtableBytes && o.WriteBufferBytes > 1<<20 {
			t.Errorf("%d: %+v", total, o)
		}
	}
}

func TestAWriteWithoutMemoryIsNotDone(t *testing.T) {
	plan, err := PlanMemory(1 << 30)
	check.OK(t, err)
	n := single(t, Options{Shards: 1, Memory: plan, Timeout: time.Second})
	t.Cleanup(func() { debug.SetMemoryLimit(math.MaxInt64) })
	set(t, n, "key", "value")
	write := func() error {
		proposal := machine.AppendPut(machine.NewProposal(nil, n.Now()), []byte("key"), []byte("other"), 0)
		_, err := n.Propose(1, proposal)
		return err
	}
	refused := func(err error) {
		t.Helper()
		var failure *Failure
		check.ErrorIf(t, !errors.As(err, &failure) || failure.Code() != OutOfMemory, "%v", err)
	}
	n.use.proposals.Add(plan.Proposals)
	refused(write())
	for _, want := range []string{"max_proposals:", "max_databases:", "memory_full:false"} {
		if !strings.Contains(n.Info(), want) {
			t.Errorf("%s is missing in %s", want, n.Info())
		}
	}
	n.use.proposals.Add(-plan.Proposals)
	if used := n.use.proposals.Load(); used != 0 {
		t.Errorf("%d bytes are held", used)
	}
	// For other nodes, too.
	var reply Reply
	n.use.limit.Store(1) // Anything is more.
	runtime.GC()
	await(t, "memory is full", n.Full)
	if err := (&Service{n}).Do(Request{Cluster: n.cluster, Shard: 1, Updates: []byte("x")}, &reply); err != nil || !reply.NoMemory || !reply.NotTaken {
		t.Error(err, reply)
	}
	refused(write())
}
