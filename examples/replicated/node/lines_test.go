// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: an error that comes again and again is a line in a while, and the next one says
// how often it came. Method: times by hand; a removal that always fails.
package node

import (
	"testing"
	"time"

	"varve.example/replicated/check"
)

func TestLinesOfAKindAreFew(t *testing.T) {
	var kind kindOfLine
	start, lines, lost := time.Now(), 0, 0
	for i := 0; i < 3000; i++ {
		if before, allowed := kind.turn(start.Add(time.Duration(i) * kindPause / 1000)); allowed {
			lines++
			lost += before
		}
	}
	check.ErrorIf(t, lines != 3 || lost != 2*999, "%d lines, %d before", lines, lost)
}

// Such as that its data is read by a stream for long.
func TestAReplicaThatCannotBeRemovedIsLoggedOnceInAWhile(t *testing.T) {
	n := single(t, Options{Shards: 2})
	n.Stop()
	n.stop = make(chan struct{}) // The errors of a node that stops are not logged.
	n.removing[1] = &replicaRecord{Shard: 1, Replica: 1}
	begin := time.Now()
	for i := 0; i < 100; i++ {
		n.followAll(n.Directory())
	}
	known, _ := n.lines.kinds.Load("follow 1")
	kind, ok := known.(*kindOfLine)
	check.FatalIf(t, !ok || (kind.silent != 99 && time.Since(begin) < kindPause) || n.removing[1] == nil, "%+v", kind)
}
