// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: a node answers stale reads without a leader, never older than the bound,
// and says of all that fails whether it may have been done. Method: three nodes of
// which two end.
package node

import (
	"errors"
	"strings"
	"testing"
	"time"

	"varve.example/replicated/check"
	"varve.example/replicated/machine"
)

func codeOf(err error) string {
	var failure *Failure
	if errors.As(err, &failure) {
		return failure.Code()
	}
	return ""
}

func TestStaleReadsNeedNoLeader(t *testing.T) {
	t.Parallel()
	nodes := steadyNodes(t, time.Second)
	for _, n := range nodes {
		defer n.Stop()
	}
	last := nodes[2]
	put(t, nodes[0], "key")
	get := machine.Get{Keys: [][]byte{machine.StoredKey([]byte("key"))}}
	read := func(stale bool) (found bool, age time.Duration, err error) {
		answer, age, err := last.Read(1, get, stale)
		return err == nil && answer.([][]byte)[0] != nil, age, err
	}
	await(t, "the replica is current", func() bool {
		found, age, err := read(true)
		return err == nil && found && age >= 0 && age < time.Minute
	})
	await(t, "the leader answers", func() bool {
		_, age, err := read(false)
		return err == nil && age == 0
	})
	nodes[0].Stop()
	nodes[1].Stop()
	await(t, "there is no leader", func() bool { return last.leaderNode(1) == 0 })
	found, age, err := read(true)
	check.FatalIf(t, err != nil || !found || age <= 0, "%v %v %v", found, age, err)
	if _, later, _ := read(true); later <= age {
		t.Fatalf("%v after %v", later, age)
	}
	updates := machine.AppendPut(machine.NewProposal(nil, 1), []byte("key"), []byte("2"), 0)
	if _, err := last.Propose(1, updates); codeOf(err) != ClusterDown {
		t.Errorf("%v: %v", codeOf(err), err)
	}
	_, _, err = read(false)
	if codeOf(err) != ClusterDown {
		t.Errorf("%v: %v", codeOf(err), err)
	}
	for _, n := range nodes {
		check.ErrorIf(t, strings.Contains(err.Error(), n.options.Address), "an address is told: %v", err)
	}
	if _, _, err := last.readStale(1, get, time.Nanosecond); codeOf(last.explain(1, false, err)) != MasterDown {
		t.Error(err)
	}
	if _, _, err := last.readStale(1, get, time.Hour); err != nil {
		t.Error(err)
	}
}

func TestFailuresSayWhatWasDone(t *testing.T) {
	n := &Node{stop: make(chan struct{})}
	n.directory.Store(&Directory{})
	for _, one := range []struct {
		write bool
		err   error
		code  string
	}{
		{true, errors.New("10.0.0.1:7000 does not answer"), UnknownOutcome},
		{true, errNotTaken, Loading}, {true, errNotSent, Loading}, {true, errNotHere, Loading},
		{false, errors.New("10.0.0.1:7000 does not answer"), Loading},
		{false, errTooOld, MasterDown}, {true, errRefused, ""}, {true, nil, ""},
	} {
		err := n.explain(1, one.write, one.err)
		check.ErrorIf(t, codeOf(err) != one.code, "%v: %v", one.err, err)
		check.ErrorIf(t, err != nil && strings.Contains(err.Error(), "10.0.0.1"), "an address is told: %v", err)
	}
}

func TestAStoppingNodeWaitsForNoOthers(t *testing.T) {
	t.Parallel()
	nodes := steadyNodes(t, time.Hour) // For as long it would wait.
	for _, n := range nodes {
		defer n.Stop()
	}
	nodes[0].Stop()
	nodes[1].Stop()
	last := nodes[2]
	await(t, "there is no leader", func() bool { return last.leaderNode(1) == 0 })
	ended := make(chan error)
	updates := machine.AppendPut(machine.NewProposal(nil, 1), []byte("key"), []byte("2"), 0)
	go func() { ended <- check.Err(last.Propose(1, updates)) }()
	go func() {
		_, _, err := last.Read(1, machine.Get{Keys: [][]byte{machine.StoredKey([]byte("key"))}}, false)
		ended <- err
	}()
	go func() { ended <- check.Err(last.forward(Request{Shard: 1, Updates: updates})) }()
	time.Sleep(100 * time.Millisecond) // So that some wait.
	last.Stop()
	for range 3 {
		check.ErrorIf(t, <-ended == nil, "done without a leader")
	}
}
