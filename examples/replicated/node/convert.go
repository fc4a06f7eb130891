// Varve: a key-value storage engine. MIT licence, see LICENSE.
package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"varve.example/replicated/machine"
	"varve.example/replicated/redis"
	"varve.example/replicated/storage"
)

// The conversion of a cluster whose keys are mapped to shards by a hash to one whose
// keys are mapped by slots. It begins by itself when all nodes run with
// --convert-to-slots, and happens once.
//
// A node passes through three layouts: hash, converting, slots. It records the next
// one durably, ends, and starts again in it. It never goes back. Nodes of two layouts
// do not hear each other, because Raft's messages and all calls carry the layout. With
// layoutConverting, requests of clients are refused. The leader of each shard proposes
// keys that belong elsewhere to their new shard, waits until that is applied, and
// then proposes to delete them from the old one. When nothing is left to move, it
// marks the shard in the directory. When all shards have the mark, nodes go on to slots.
//
// Why no key is lost or changed, whichever nodes are killed, whenever:
//
// C1. In the log of a shard, the committed entries of a layout come before those of the
// next one. A leader is elected by a majority of the shard's replicas in its layout, two
// majorities share a replica, and that one does not go back. So a leader in an earlier
// layout has an older term, and only entries that the newer leader has, too, can still be
// committed by it. Changes of a group's members keep this, as majorities before and after
// one overlap.
//
// C2. Nothing proposed in one layout arrives in the next. Proposals wait only in the
// memory of a node, which ends with its layout, and in messages, which nodes of another
// layout drop. An entry that is in a log but not committed is committed before the new
// leader's first own one, or never.
//
// C3. A linearizable read in converting therefore has all writes of clients. A key
// that it finds in the wrong shard does not change any more, so that copying it twice,
// or deleting it twice, is the same as once. It is in the old shard or in the new one,
// or in both with the same value. A shard that has no wrong key never gets one.
//
// C4. By C1 and C2 no copy of a key that comes late can replace what a client has
// written after the conversion.
//
// C5. A node that was down learns of the newer layout from a node that has it, which
// shows a directory with the token of the other node. So a node follows only nodes of
// the cluster that it belongs to, and not those of another one at the same addresses.
// Its replicas are converted by the log, or by a snapshot, as by any other writes.
//
// C1 to C5 do not depend on which nodes know the conversion: nodes of older programs
// would just be alone. It waits for them so that the cluster does not lose their votes.

// Conversion is in the directory since a conversion has begun. It is never removed.
type Conversion struct {
	Sorted map[uint64]bool // Shards that have only keys that slots map to them.
}

// ErrLayout says that the node has to be started again, and has then another layout.
var ErrLayout = errors.New("the layout of the keys has changed: the node starts again")

var errConverting error = &Failure{Loading, "the keys of this cluster are being converted to slots; nothing was done"}

const (
	convertPause    = 100 * time.Millisecond
	maxSortingPause = 5 * time.Second
	maxSorting      = 2       // Shards that a node sorts at a time.
	maxSortingBytes = 8 << 20 // Of copies of keys of a shard, before all of them are proposed.
)

// deployment is the number that dragonboat has recorded with its files. It stays the
// same when the layout changes, but Raft's messages have another one, Node.wire.
func (me *identity) deployment() uint64 {
	if me.Layout == layoutSlots {
		return deployment(me.fullName(), me.Shards)
	}
	return deployment(me.Cluster, me.Shards)
}

// precedes says whether the full names are of one cluster, and the first one has an
// earlier layout.
func precedes(first, second string) bool {
	var a, b identity
	a.setName(first)
	b.setName(second)
	after := map[int]int{layoutHash: 0, layoutConverting: 1, layoutSlots: 2}
	return a.Cluster == b.Cluster && after[a.Layout] < after[b.Layout]
}

func (n *Node) isConverting() bool { return strings.HasSuffix(n.cluster, convertingMark) }

// step is called at each step.
func (n *Node) step(step string) error {
	if n.options.Step == nil {
		return nil
	}
	return n.options.Step(step)
}

// changeLayout records a layout, and ends the node.
func (n *Node) changeLayout(layout int) error {
	n.layout.Lock()
	defer n.layout.Unlock()
	if n.relaid.Load() {
		return nil
	}
	var me identity
	path := filepath.Join(n.options.Dir, identityFile)
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &me)
	}
	if err != nil {
		return err
	}
	if me.Layout == layoutSlots || me.Layout >= layout {
		return fmt.Errorf("the layout %d is not followed by %d", me.Layout, layout)
	}
	me.Layout = layout
	if err := n.step("before the layout " + me.fullName()); err != nil {
		return err
	}
	if err := writeFile(path, me); err != nil {
		return err
	}
	if layout == layoutConverting {
		slog.Info("the keys of this cluster are converted to slots from here on; clients have to wait")
	} else {
		slog.Info("the keys of this cluster have been converted to slots")
	}
	n.relaid.Store(true)
	n.fail(ErrLayout)
	return nil
}

// mayFollow says whether another node is of this cluster but has an earlier layout, and
// may have this directory for a proof of it.
func (n *Node) mayFollow(theirs *Status) bool {
	record := n.Directory().Nodes[theirs.Node]
	return precedes(theirs.Cluster, n.cluster) && record != nil && record.Token != "" && record.Token == theirs.Token
}

// follows has this node follow another one of its cluster to a newer layout. It is true
// as well if the other one will follow this one.
func (n *Node) follows(theirs *Status) bool {
	if n.mayFollow(theirs) {
		return true
	}
	if !precedes(n.cluster, theirs.Cluster) || theirs.Newer == nil {
		return false
	}
	if record := theirs.Newer.Nodes[n.number]; record == nil || record.Token != n.token {
		return false
	}
	var them identity
	layout := layoutConverting
	if them.setName(theirs.Cluster); them.Layout == layoutSlots {
		layout = layoutConverted
	}
	if err := n.changeLayout(layout); err != nil {
		n.lines.Log("layout", slog.LevelError, "following another node to its layout", "error", err)
	}
	return true
}

// convert is the loop of a node that has no slots yet.
func (n *Node) convert() {
	sorting := map[uint64]chan struct{}{} // By shard: closed at its end.
	waits := ""
	for n.wait(convertPause) {
		d := n.Directory()
		var err error
		switch {
		case n.relaid.Load(): // The node is about to end.
		case d.Revision == 0:
		case n.isConverting() && d.sorted():
			err = n.changeLayout(layoutConverted)
		case n.isConverting():
			n.sortShards(d, sorting)
		case d.Conversion != nil:
			err = n.changeLayout(layoutConverting)
		case n.options.Convert && n.leadsNow(directoryShard) && !n.stopping.Load():
			if why := n.beginConversion(); why != nil && why.Error() != waits {
				waits = why.Error()
				slog.Warn("the keys of this cluster are not converted to slots yet", "reason", waits)
			}
		}
		if err != nil {
			n.lines.Log("layout", slog.LevelError, "converting to slots", "error", err)
		}
	}
}

// beginConversion returns why it does not begin.
func (n *Node) beginConversion() error {
	if why := n.cannotBegin(n.Directory()); why != nil {
		return why
	}
	return n.update(func(next *Directory) error {
		if next.Conversion != nil {
			return nil
		}
		next.Conversion = &Conversion{}
		return n.cannotBegin(next)
	})
}

// cannotBegin says which node must change something before a conversion can begin.
func (n *Node) cannotBegin(d *Directory) error {
	for _, number := range d.numbers() {
		record := d.Nodes[number]
		switch last := n.lastOf(number).status; {
		case !n.alive(number):
			return fmt.Errorf("node %d is not up", number)
		case number != n.number && !last.Converts:
			return fmt.Errorf("node %d is of an older program or has no --convert-to-slots", number)
		case record.Token == "":
			return fmt.Errorf("node %d has not introduced itself yet", number)
		}
	}
	if !d.settled() {
		return errors.New("not all replicas are where they belong")
	}
	return nil
}

// sorted says whether all shards have the mark.
func (d *Directory) sorted() bool {
	for shard := uint64(1); shard <= d.Shards; shard++ {
		if d.Conversion == nil || !d.Conversion.Sorted[shard] {
			return false
		}
	}
	return true
}

// sortShards begins with shards that this node leads, unless enough are under way.
func (n *Node) sortShards(d *Directory, sorting map[uint64]chan struct{}) {
	for shard, done := range sorting {
		select {
		case <-done:
			delete(sorting, shard)
		default:
		}
	}
	for shard := uint64(1); shard <= n.Shards() && len(sorting) < maxSorting; shard++ {
		if sorting[shard] != nil || d.Conversion != nil && d.Conversion.Sorted[shard] || !n.leadsNow(shard) {
			continue
		}
		done := make(chan struct{})
		sorting[shard] = done
		n.run(func() {
			defer close(done)
			if err := n.sortShard(shard); err != nil && !n.stopped() {
				n.lines.Log(fmt.Sprint("sort ", shard), slog.LevelWarn, "converting to slots", "shard", shard, "error", err)
			}
		})
	}
}

// sortShard moves keys that belong to other shards, until a look at all keys finds no
// such key, and marks the shard.
func (n *Node) sortShard(shard uint64) error {
	begin, total := time.Now(), 0
	for moved := 1; moved > 0; total += moved {
		var err error
		if moved, err = n.sortOnce(shard); err != nil {
			return err
		}
	}
	if err := n.step("before the mark"); err != nil {
		return err
	}
	err := n.update(func(next *Directory) error {
		if next.Conversion == nil {
			return errors.New("the directory has no conversion")
		}
		if next.Conversion.Sorted == nil {
			next.Conversion.Sorted = map[uint64]bool{}
		}
		next.Conversion.Sorted[shard] = true
		return nil
	})
	if err != nil {
		return err
	}
	slog.Info("a shard was converted to slots", "shard", shard, "moved", total, "took", time.Since(begin).String())
	return n.step("after the mark")
}

// sorter moves the keys of a shard.
type sorter struct {
	n     *Node
	shard uint64
	// By their new shard: proposals to it, and to this one.
	copies, deletions map[uint64][]byte
	bytes             int // Of copies.
	moved             int
}

// sortOnce looks at all keys of a shard, moves those that belong elsewhere, and returns
// how many entries it has moved.
func (n *Node) sortOnce(shard uint64) (int, error) {
	ctx, cancel := context.WithTimeout(n.life, n.options.Timeout)
	defer cancel()
	answer, err := n.host.SyncRead(ctx, clusterOf(shard), machine.Moment{})
	if err != nil {
		return 0, err
	}
	moment := answer.(storage.Snapshot)
	defer moment.Close()
	s := &sorter{n: n, shard: shard, copies: map[uint64][]byte{}, deletions: map[uint64][]byte{}}
	if err = machine.EachEntry(moment, s.entry); err == nil {
		err = s.moveAll()
	}
	return s.moved, err
}

// belongs says whether slots map an entry to a shard. The mark of a restore belongs to
// the shard that has it.
func belongs(stored []byte, shard, shards uint64) (to uint64, here bool) {
	key := machine.UserKey(stored)
	to = redis.ShardOf(key, shards)
	return to, to == shard || string(key) == restoreMark
}

func (s *sorter) entry(key, value []byte) error {
	to, here := belongs(key, s.shard, s.n.Shards())
	if here {
		if s.n.stopped() {
			return errStopping
		}
		return nil
	}
	if len(s.copies[to])+len(key)+len(value) > restoreBatch {
		if err := s.move(to); err != nil {
			return err
		}
	}
	before := len(s.copies[to])
	if before == 0 {
		s.copies[to] = machine.NewProposal(nil, s.n.Now())
		s.deletions[to] = machine.NewProposal(nil, s.n.Now())
	}
	s.copies[to] = machine.AppendStored(s.copies[to], key, value)
	s.deletions[to] = machine.AppendDeleteStored(s.deletions[to], key)
	s.moved++
	if s.bytes += len(s.copies[to]) - before; s.bytes > maxSortingBytes {
		return s.moveAll()
	}
	return nil
}

func (s *sorter) moveAll() error {
	for _, to := range sortedKeys(s.copies) {
		if err := s.move(to); err != nil {
			return err
		}
	}
	return nil
}

// move copies entries to a shard, and then deletes them from the old one.
func (s *sorter) move(to uint64) error {
	if len(s.copies[to]) == 0 {
		return nil
	}
	if err := s.insist(to, s.copies[to]); err != nil {
		return err
	}
	if err := s.n.step("between copy and deletion"); err != nil {
		return err
	}
	if err := s.insist(s.shard, s.deletions[to]); err != nil {
		return err
	}
	s.bytes -= len(s.copies[to])
	delete(s.copies, to)
	delete(s.deletions, to)
	s.n.lines.Log(fmt.Sprint("sorting ", s.shard), slog.LevelInfo, "converting to slots", "shard", s.shard, "moved", s.moved)
	return s.n.step("after a deletion")
}

// insist proposes until it is certain that the proposal was applied. To do that twice
// changes nothing. The pauses grow, since a shard may not answer because it is busy with
// what was proposed before.
func (s *sorter) insist(shard uint64, updates []byte) error {
	for pause := retryPause; ; pause = min(2*pause, maxSortingPause) {
		_, err := s.n.proposeAny(shard, updates)
		switch {
		case err == nil || errors.Is(err, errRefused):
			return err
		case s.n.stopped() || s.n.stopping.Load():
			return errStopping
		case !s.n.leadsNow(s.shard):
			return errNotLeader
		}
		s.n.lines.Log(fmt.Sprint("move ", s.shard), slog.LevelWarn, "converting to slots", "from", s.shard, "to", shard, "error", err)
		if !s.n.wait(pause) {
			return errStopping
		}
	}
}

// movedFrom says which entries of a shard are also in the shard that they belong to, so
// that a backup has them once. It is nil if no conversion has begun.
func (s *Salvage) movedFrom(shard uint64, best []*remains) func(key []byte) (bool, error) {
	converted := false
	for _, me := range s.nodes {
		converted = converted || me.Layout == layoutConverting || me.Layout == layoutConverted
	}
	if !converted {
		return nil
	}
	return func(key []byte) (bool, error) {
		if !machine.ValidEntry(key) {
			return false, nil // The applied index.
		}
		to, here := belongs(key, shard, s.nodes[0].Shards)
		if here || best[to] == nil {
			return false, nil
		}
		answer, err := best[to].machine.Lookup(machine.Get{Keys: [][]byte{key}})
		if err != nil {
			return false, err
		}
		return answer.([][]byte)[0] != nil, nil
	}
}
