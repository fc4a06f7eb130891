// Varve: a key-value storage engine. MIT licence, see LICENSE.
package node

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble"
	pb "github.com/lni/dragonboat/v3/raftpb"
	sm "github.com/lni/dragonboat/v3/statemachine"

	"varve.example/replicated/machine"
	"varve.example/replicated/storage"
)

// Salvage makes a backup of the directories of nodes that have stopped, for
// shards that have lost their majority. The database of a replica is behind:
// what it has not synced is only in dragonboat's log, which is read too. All of
// it is done with copies, so that the directories stay as they are.
type Salvage struct {
	Dirs []string
	// The backup, a directory that does not exist yet. The copies are made next
	// to it, and removed.
	To string
	// Leave out what no log says is committed.
	Committed bool
	// Write the backup even if something may be lost that is in the directories:
	// of a shard there is nothing, or a log or database is damaged or has a gap.
	Partial bool
	Stop    <-chan struct{} // Closed to end early. May be nil.

	nodes  []identity // Of Dirs.
	newest *Directory // Of those that the nodes knew.
	found  map[uint64][]*remains
	shown  []string
	close  []func() error
}

// remains are what a node has left of a replica.
type remains struct {
	node, shard, replica uint64
	machine              *machine.Machine // Nil if the database cannot be read.
	log                  *pebble.DB
	// Why the log cannot be read, so that nobody knows what it has. And why not all
	// of the replica could be brought back.
	unread, failure error
	// Entries of the log: the last that the database has applied, that is known to
	// be committed, and that there is.
	applied, committed, last uint64
	lastTerm                 uint64
	// The newest snapshot stands for entries up to one, of which the database
	// has to have applied those up to another.
	snapshot, needed uint64
	members          pb.Membership // At the snapshot.
	reached          uint64        // The last entry that was brought back.
}

// Run writes the backup. The lines say, of each shard, what was found.
func (s *Salvage) Run() (m *Manifest, lines []string, err error) {
	if !backupName.MatchString(filepath.Base(s.To)) {
		return nil, nil, fmt.Errorf("%s: %w", s.To, errBackupName)
	}
	if _, err := os.Stat(s.To); err == nil {
		return nil, nil, fmt.Errorf("%s exists", s.To)
	}
	for _, dir := range s.Dirs {
		if err := s.identify(dir); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", dir, err)
		}
	}
	for i, me := range s.nodes {
		if s.Committed && me.Layout == layoutConverting { // Of a key that moves, the copy may not be known to be committed.
			return nil, nil, fmt.Errorf("%s: the keys were being converted to slots, so that --committed could lose keys", s.Dirs[i])
		}
	}
	syscall.Umask(0o077)
	if err := os.MkdirAll(filepath.Dir(s.To), 0o700); err != nil {
		return nil, nil, err
	}
	work, err := os.MkdirTemp(filepath.Dir(s.To), ".salvage-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(work)
	defer func() {
		for i := len(s.close) - 1; i >= 0; i-- {
			if failure := s.close[i](); err == nil {
				err = failure
			}
		}
	}()
	s.newest, s.found = &Directory{}, map[uint64][]*remains{}
	for i, dir := range s.Dirs {
		unlock, err := lockStopped(dir)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", dir, err)
		}
		err = s.open(dir, filepath.Join(work, fmt.Sprint("node-", i)), s.nodes[i])
		unlock()
		if err != nil && (!s.Partial || s.stopped() != nil) {
			return nil, nil, fmt.Errorf("%s: %w", dir, err)
		}
		if err != nil {
			s.show("not all was read of %s: %v", dir, err)
		}
	}
	for i, me := range s.nodes {
		record := s.newest.Nodes[me.Number]
		if len(s.nodes) > 1 && s.newest.Revision > 0 && (record == nil || (record.Token != "" && record.Token != me.Token)) {
			return nil, nil, fmt.Errorf("%s: the cluster of the others has no node %d, or has another directory of it: leave it out",
				s.Dirs[i], me.Number)
		}
	}
	shards := s.nodes[0].Shards
	w, err := newBackupWriter(directory{filepath.Dir(s.To)}, filepath.Base(s.To), newToken(), shards)
	if err != nil {
		return nil, nil, err
	}
	w.check = s.stopped
	best := make([]*remains, shards+1)
	for shard := uint64(1); err == nil && shard <= shards; shard++ {
		if best[shard], err = s.choose(shard, s.found[shard]); err != nil {
			err = fmt.Errorf("shard %d: %w", shard, err)
		}
	}
	for shard := uint64(1); err == nil && shard <= shards; shard++ {
		if err = s.shard(w, shard, best); err != nil {
			err = fmt.Errorf("shard %d: %w", shard, err)
		}
	}
	if stopped := s.stopped(); stopped != nil {
		err = stopped
	}
	w.m.Salvaged = s.shown
	if err = w.finish(err); err != nil {
		return nil, s.shown, err
	}
	return w.m, append(s.shown, w.m.total()), nil
}

func (s *Salvage) stopped() error {
	select {
	case <-s.Stop:
		return errors.New("it was interrupted")
	default:
		return nil
	}
}

// identify reads which node a directory is of. They are different nodes of one
// cluster, because a log counts once.
func (s *Salvage) identify(dir string) error {
	var me identity
	text, err := os.ReadFile(filepath.Join(dir, identityFile))
	if err == nil {
		err = json.Unmarshal(text, &me)
	}
	if err != nil {
		return err
	}
	for i, other := range s.nodes {
		// Their layouts may differ: one was down during a conversion.
		if other.Shards != me.Shards || other.Cluster != me.Cluster {
			return fmt.Errorf("it is of the cluster %q with %d shards, and not of %q with %d",
				me.Cluster, me.Shards, other.Cluster, other.Shards)
		}
		if other.Number == me.Number {
			return fmt.Errorf("it is of node %d, as %s is", me.Number, s.Dirs[i])
		}
	}
	s.nodes = append(s.nodes, me)
	return nil
}

// open copies a node's directory and finds the replicas in it.
func (s *Salvage) open(dir, copied string, me identity) error {
	for _, name := range []string{"data", "raft"} {
		if err := copyTree(filepath.Join(dir, name), filepath.Join(copied, name), s.stopped); err != nil {
			return err
		}
	}
	engine, err := storage.OpenEngine(filepath.Join(copied, "data"), storage.DefaultOptions)
	if err != nil {
		return err
	}
	node, err := storage.OpenNode(engine, int(me.Shards))
	if err != nil {
		engine.Close()
		return err
	}
	s.close = append(s.close, node.Close)
	text, err := node.Record(directoryKey)
	if err != nil {
		return err
	}
	if d := (&Directory{}); text != "" {
		if err := json.Unmarshal([]byte(text), d); err != nil {
			return err
		}
		if d.Revision > s.newest.Revision {
			s.newest = d
		}
	}
	records, err := node.Records(replicaKey)
	if err != nil {
		return err
	}
	logs, unread := s.openLogs(copied)
	for _, text := range records {
		var record replicaRecord
		if err := json.Unmarshal([]byte(text), &record); err != nil {
			return err
		}
		if record.Removing || record.Shard == directoryShard {
			continue
		}
		r := &remains{node: me.Number, shard: record.Shard, replica: record.Replica}
		database := machine.New(node, record.Shard)
		if r.applied, r.failure = database.Open(nil); r.failure == nil {
			r.machine = database
			s.close = append(s.close, database.Close)
		}
		for _, log := range logs {
			r.unread = errors.Join(r.unread, r.inspect(log))
		}
		if r.log == nil { // It may be in a part that cannot be opened.
			r.unread = errors.Join(r.unread, unread)
		}
		r.last = max(r.last, r.applied)
		s.found[record.Shard] = append(s.found[record.Shard], r)
	}
	return nil
}

// openLogs opens the parts of dragonboat's log that can be opened. Each is a
// Pebble.
func (s *Salvage) openLogs(dir string) (logs []*pebble.DB, unread error) {
	paths, _ := filepath.Glob(filepath.Join(dir, "raft", "*", "*", "logdb-*"))
	if len(paths) == 0 {
		return nil, errors.New("there is no log of dragonboat")
	}
	for _, path := range paths {
		log, err := pebble.Open(path, &pebble.Options{ReadOnly: true, Logger: quiet{}})
		if err != nil {
			unread = errors.Join(unread, fmt.Errorf("%s: %w", filepath.Base(path), err))
			continue
		}
		s.close = append(s.close, log.Close)
		logs = append(logs, log)
	}
	return logs, unread
}

type quiet struct{}

func (quiet) Infof(string, ...interface{}) {}
func (quiet) Fatalf(format string, arguments ...interface{}) {
	panic(fmt.Sprintf(format, arguments...))
}

// Keys of dragonboat's log, format "plain" of version 3: the kind twice, two
// zeros, and the numbers of group and replica, and of some an index, 8 bytes
// each with the highest first. Values are messages of raftpb; that of logLast
// is an index alone, after which entries are not valid.
const (
	logEntry    = 1
	logState    = 2
	logLast     = 3
	logSnapshot = 5
	logBatch    = 7 // Of an older format.
)

func logKey(kind byte, shard, replica uint64, index ...uint64) []byte {
	key := binary.BigEndian.AppendUint64([]byte{kind, kind, 0, 0}, clusterOf(shard))
	for _, number := range append([]uint64{replica}, index...) {
		key = binary.BigEndian.AppendUint64(key, number)
	}
	return key
}

// eachOfLog calls visit for the values of keys from an index on, in order.
func eachOfLog(log *pebble.DB, kind byte, shard, replica, from uint64, visit func(value []byte) (bool, error)) error {
	iterator := log.NewIter(&pebble.IterOptions{
		LowerBound: logKey(kind, shard, replica, from), UpperBound: logKey(kind, shard, replica+1, 0),
	})
	more, err := true, error(nil)
	for iterator.First(); more && err == nil && iterator.Valid(); iterator.Next() {
		more, err = visit(iterator.Value())
	}
	return errors.Join(err, iterator.Error(), iterator.Close())
}

// inspect takes what a part of the log says of the replica, if it is in that part.
func (r *remains) inspect(log *pebble.DB) error {
	text, closer, err := log.Get(logKey(logState, r.shard, r.replica))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	var state pb.State
	err = state.Unmarshal(text)
	closer.Close()
	if err != nil {
		return err
	}
	r.log, r.committed = log, state.Commit
	err = eachOfLog(log, logBatch, r.shard, r.replica, 0, func([]byte) (bool, error) {
		return false, errors.New("it has the format of an older version")
	})
	if err != nil {
		return err
	}
	err = eachOfLog(log, logSnapshot, r.shard, r.replica, 0, func(value []byte) (bool, error) {
		var snapshot pb.Snapshot
		err := snapshot.Unmarshal(value)
		if snapshot.Index > r.snapshot {
			r.snapshot, r.needed, r.members = snapshot.Index, snapshot.OnDiskIndex, snapshot.Membership
			r.last, r.lastTerm = snapshot.Index, snapshot.Term
		}
		return true, err
	})
	if err != nil {
		return err
	}
	text, closer, err = log.Get(logKey(logLast, r.shard, r.replica))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer closer.Close()
	if len(text) != 8 {
		return errors.New("its last index is damaged")
	}
	last := binary.BigEndian.Uint64(text)
	if last <= r.snapshot {
		return nil
	}
	err = eachOfLog(log, logEntry, r.shard, r.replica, last, func(value []byte) (bool, error) {
		var entry pb.Entry
		err := entry.Unmarshal(value)
		if entry.Index == last {
			r.last, r.lastTerm = last, entry.Term
		}
		return false, err
	})
	if err == nil && r.last != last {
		err = fmt.Errorf("its last entry, %d, is missing", last)
	}
	return err
}

// betterThan is Raft's rule for who may lead: the log with the later term, or of
// the same term the longer one.
func (r *remains) betterThan(other *remains) bool {
	if other == nil || r.lastTerm != other.lastTerm {
		return other == nil || r.lastTerm > other.lastTerm
	}
	return r.last > other.last
}

// continues says whether the log has all entries after those of the database.
func (r *remains) continues() error {
	switch {
	case r.unread != nil:
		return r.unread
	case r.log == nil:
		return errors.New("there is no log of the replica")
	case r.needed > r.applied:
		return fmt.Errorf("the database ends at entry %d, and a snapshot up to %d was received that it has not loaded",
			r.applied, r.needed)
	}
	return nil
}

const (
	salvageEntries = 1000
	salvageBytes   = 8 << 20
)

// apply has the database apply the entries of the log up to an index, or to a gap.
func (r *remains) apply(end uint64, stopped func() error) error {
	var batch []sm.Entry
	size, next, term := 0, max(r.applied, r.snapshot)+1, uint64(0)
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		_, err := r.machine.Update(batch)
		batch, size = nil, 0
		return errors.Join(err, stopped())
	}
	err := eachOfLog(r.log, logEntry, r.shard, r.replica, next, func(value []byte) (bool, error) {
		var entry pb.Entry
		if err := entry.Unmarshal(value); err != nil {
			return false, err
		}
		if entry.Index > end {
			return false, nil
		}
		if entry.Index != next || entry.Term < term {
			return false, fmt.Errorf("after entry %d comes entry %d of term %d", next-1, entry.Index, entry.Term)
		}
		next, term = next+1, entry.Term
		// The rest are changes of members, and what new leaders begin with.
		if entry.Type == pb.EncodedEntry {
			if len(entry.Cmd) == 0 || entry.Cmd[0] != 0 {
				return false, fmt.Errorf("entry %d has an encoding that is not known", entry.Index)
			}
			batch = append(batch, sm.Entry{Index: entry.Index, Cmd: entry.Cmd[1:]})
			size += len(entry.Cmd)
		}
		if len(batch) >= salvageEntries || size >= salvageBytes {
			return true, flush()
		}
		return true, nil
	})
	err = errors.Join(err, flush())
	if err == nil && next <= end {
		err = fmt.Errorf("entries from %d to %d are missing", next, end)
	}
	return err
}

// bring has the database apply the log up to an index, and reads all of it.
func (s *Salvage) bring(r *remains, end uint64) {
	if r.machine == nil {
		return
	}
	r.failure = r.continues()
	if r.failure == nil {
		r.failure = r.apply(end, s.stopped)
	}
	if r.reached = end; r.failure != nil {
		r.reached = r.machine.Applied()
	}
	if _, err := r.machine.Lookup(machine.Digest{Stop: s.Stop}); err != nil {
		r.failure, r.machine = fmt.Errorf("the database: %w", err), nil
	}
}

// voters are the replicas that vote at the end of the log, and false for those
// that have been removed.
func (r *remains) voters() (map[uint64]bool, error) {
	voters, change, next := map[uint64]bool{}, r.members.ConfigChangeId, r.snapshot+1
	for id := range r.members.Addresses {
		voters[id] = true
	}
	err := eachOfLog(r.log, logEntry, r.shard, r.replica, next, func(value []byte) (bool, error) {
		var entry pb.Entry
		var changed pb.ConfigChange
		if err := entry.Unmarshal(value); err != nil || entry.Index > r.last {
			return false, err
		}
		if next++; entry.Index != next-1 {
			return false, fmt.Errorf("entry %d is missing", next-1)
		}
		if entry.Type != pb.ConfigChangeEntry {
			return true, nil
		}
		err := changed.Unmarshal(entry.Cmd)
		// dragonboat refuses what was proposed before another change was done, and may
		// have refused to add a replica for other reasons. It counts then: rather too
		// many voters than too few.
		valid := changed.Initialize || changed.ConfigChangeId == change
		if valid {
			change = entry.Index
		}
		if _, known := voters[changed.NodeID]; changed.Type == pb.AddNode && !known {
			voters[changed.NodeID] = true
		} else if changed.Type == pb.RemoveNode && valid {
			voters[changed.NodeID] = false
		}
		return true, err
	})
	return voters, err
}

// logs counts the voters, and those of them whose logs were read.
func (r *remains) logs(all []*remains) (read, count int, err error) {
	if r.log == nil || r.unread != nil {
		return 0, 0, nil
	}
	voters, err := r.voters()
	for _, votes := range voters {
		if votes {
			count++
		}
	}
	for _, other := range all {
		if voters[other.replica] && other.log != nil && other.unread == nil {
			read++
		}
	}
	return read, count, err
}

// choose is the best of a shard's replicas. If that one fails, the next one is tried,
// and the one that has got furthest is taken. It is nil if there is none.
func (s *Salvage) choose(shard uint64, all []*remains) (*remains, error) {
	sort.SliceStable(all, func(i, j int) bool { return all[i].betterThan(all[j]) })
	known := uint64(0)
	for _, r := range all {
		known = max(known, r.committed, r.applied)
	}
	var best *remains
	for _, r := range all {
		end := r.last
		if s.Committed {
			end = min(end, known)
		}
		s.bring(r, end)
		if r.machine != nil && (best == nil || r.reached > best.reached) {
			best = r
		}
		if r.failure == nil {
			break
		}
	}
	var doubts []error // Why something may be missing that the directories have.
	if len(all) == 0 {
		doubts = append(doubts, errors.New("no directory has a replica of it"))
	}
	for _, r := range all {
		err := r.failure
		if err == nil {
			err = r.unread
		}
		if err == nil {
			continue
		}
		err = fmt.Errorf("the replica of node %d: %w", r.node, err)
		if r.unread != nil || best == nil || r == best || r.betterThan(best) {
			doubts = append(doubts, err)
		} else {
			s.show("shard=%d: %v", shard, err)
		}
	}
	if best != nil {
		answer, err := best.machine.Lookup(machine.Get{Keys: [][]byte{machine.StoredKey([]byte(restoreMark))}})
		if err == nil && answer.([][]byte)[0] != nil {
			err = errors.New("a backup was being restored into the cluster: restore that one again")
		}
		if err != nil {
			return nil, err
		}
		read, count, err := best.logs(all)
		if err != nil {
			doubts = append(doubts, fmt.Errorf("the replica of node %d: its members are not known: %w", best.node, err))
		}
		s.show("shard=%d node=%d replica=%d database=%d committed=%d last=%d term=%d uncertain=%d logs=%d/%d",
			shard, best.node, best.replica, best.applied, known, best.reached, best.lastTerm,
			best.reached-min(best.reached, known), read, count)
		if known > best.reached {
			doubts = append(doubts, fmt.Errorf("entries up to %d are known to be committed", known))
		}
	}
	for _, err := range doubts {
		s.show("shard=%d is not whole: %v", shard, err)
	}
	if len(doubts) > 0 && !s.Partial {
		return nil, errors.Join(doubts...)
	}
	return best, nil
}

// shard writes what there is of a shard, from the best of the replicas of each.
func (s *Salvage) shard(w *backupWriter, shard uint64, best []*remains) error {
	return w.shard(shard, func(to io.Writer) (machine.Contents, error) {
		if best[shard] == nil {
			return machine.Contents{}, machine.EmptyStream(to)
		}
		answer, err := best[shard].machine.Lookup(machine.Stream{To: to, Without: s.movedFrom(shard, best)})
		if err != nil {
			return machine.Contents{}, err
		}
		return answer.(machine.Contents), nil
	})
}

func (s *Salvage) show(format string, arguments ...interface{}) {
	s.shown = append(s.shown, fmt.Sprintf(format, arguments...))
}

// lockStopped fails if a node runs in a directory, and keeps one from starting
// there. dragonboat locks the file while it runs.
func lockStopped(dir string) (unlock func() error, err error) {
	file, err := os.Open(filepath.Join(dir, "raft", "LOCK"))
	if errors.Is(err, os.ErrNotExist) {
		return func() error { return nil }, nil // A copy.
	}
	if err != nil {
		return nil, err
	}
	lock := syscall.Flock_t{Type: syscall.F_RDLCK, Whence: io.SeekStart}
	if err := syscall.FcntlFlock(file.Fd(), syscall.F_SETLK, &lock); err != nil {
		file.Close()
		return nil, errors.New("a node runs there: stop it first")
	}
	return file.Close, nil
}

// copyTree copies the files below a directory, but for locks and snapshots of
// dragonboat, which have nothing that the databases lack.
func copyTree(from, to string, stopped func() error) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err = errors.Join(err, stopped()); err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch {
		case entry.IsDir() && strings.HasPrefix(entry.Name(), "snapshot-part-"):
			return filepath.SkipDir
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(to, relative), 0o700)
		case entry.Name() == "LOCK":
			return nil
		case !entry.Type().IsRegular():
			return fmt.Errorf("%s is neither a file nor a directory: copy what it stands for, and salvage the copy", path)
		}
		source, err := os.Open(path)
		if err != nil {
			return err
		}
		defer source.Close()
		target, err := os.OpenFile(filepath.Join(to, relative), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(target, source)
		return errors.Join(err, target.Close())
	})
}
