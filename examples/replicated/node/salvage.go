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
	// Write the backup even if there is nothing of a shard, or its log does not
	// continue where its database ends.
	Partial bool

	shards  uint64
	cluster string
	shown   []string
	close   []func() error
}

// remains are what a node has left of a replica.
type remains struct {
	node, replica uint64
	machine       *machine.Machine
	log           *pebble.DB
	// Entries of the log: the last that the database has applied, that is known to
	// be committed, and that there is.
	applied, committed, last uint64
	lastTerm                 uint64
	// The newest snapshot stands for entries up to one, of which the database
	// has to have applied those up to another.
	snapshot, needed uint64
	voters           int // Of the shard, as far as the node knew.
}

// Run writes the backup. The lines say, of each shard, what was found.
func (s *Salvage) Run() (m *Manifest, lines []string, err error) {
	if !backupName.MatchString(filepath.Base(s.To)) {
		return nil, nil, fmt.Errorf("%s: %w", s.To, errBackupName)
	}
	if _, err := os.Stat(s.To); err == nil {
		return nil, nil, fmt.Errorf("%s exists", s.To)
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
	found := map[uint64][]*remains{}
	for i, dir := range s.Dirs {
		if err := s.open(dir, filepath.Join(work, fmt.Sprint("node-", i)), found); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", dir, err)
		}
	}
	to := directory{filepath.Dir(s.To)}
	w, err := newBackupWriter(to, filepath.Base(s.To), newToken(), s.shards)
	if err != nil {
		return nil, nil, err
	}
	for shard := uint64(1); err == nil && shard <= s.shards; shard++ {
		if err = s.shard(w, shard, found[shard]); err != nil {
			err = fmt.Errorf("shard %d: %w", shard, err)
		}
	}
	w.m.Salvaged = s.shown
	err = w.finish(err)
	return w.m, append(s.shown, w.m.total()), err
}

// open copies a node's directory and finds the replicas in it.
func (s *Salvage) open(dir, copied string, found map[uint64][]*remains) error {
	var me identity
	text, err := os.ReadFile(filepath.Join(dir, identityFile))
	if err == nil {
		err = json.Unmarshal(text, &me)
	}
	if err != nil {
		return err
	}
	if s.shards != 0 && (s.shards != me.Shards || s.cluster != me.fullName()) {
		return fmt.Errorf("it is of the cluster %q with %d shards, and not of %q with %d",
			me.fullName(), me.Shards, s.cluster, s.shards)
	}
	s.shards, s.cluster = me.Shards, me.fullName()
	unlock, err := lockStopped(dir)
	if err != nil {
		return err
	}
	err = copyTree(filepath.Join(dir, "data"), filepath.Join(copied, "data"))
	if err == nil {
		err = copyTree(filepath.Join(dir, "raft"), filepath.Join(copied, "raft"))
	}
	unlock()
	if err != nil {
		return err
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
	logs, err := s.openLogs(copied)
	if err != nil {
		return err
	}
	d := &Directory{}
	if text, err := node.Record(directoryKey); err != nil {
		return err
	} else if text != "" {
		if err := json.Unmarshal([]byte(text), d); err != nil {
			return err
		}
	}
	records, err := node.Records(replicaKey)
	if err != nil {
		return err
	}
	for _, text := range records {
		var record replicaRecord
		if err := json.Unmarshal([]byte(text), &record); err != nil {
			return err
		}
		if record.Removing || record.Shard == directoryShard {
			continue
		}
		r := &remains{node: me.Number, replica: record.Replica, machine: machine.New(node, record.Shard)}
		if place := d.Places[record.Shard]; place != nil {
			for _, replica := range place.Replicas {
				if replica.State != Adding {
					r.voters++
				}
			}
		} else {
			r.voters = len(record.Members)
		}
		if r.applied, err = r.machine.Open(nil); err != nil {
			return fmt.Errorf("shard %d: %w", record.Shard, err)
		}
		s.close = append(s.close, r.machine.Close)
		for _, log := range logs {
			if err := r.inspect(log, record.Shard); err != nil {
				return fmt.Errorf("the log of shard %d: %w", record.Shard, err)
			}
		}
		found[record.Shard] = append(found[record.Shard], r)
	}
	return nil
}

// openLogs opens the parts of dragonboat's log. Each is a Pebble.
func (s *Salvage) openLogs(dir string) ([]*pebble.DB, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "raft", "*", "*", "logdb-*"))
	if err != nil || len(paths) == 0 {
		return nil, errors.New("there is no log of dragonboat")
	}
	var logs []*pebble.DB
	for _, path := range paths {
		log, err := pebble.Open(path, &pebble.Options{ReadOnly: true, Logger: quiet{}})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
		}
		s.close = append(s.close, log.Close)
		logs = append(logs, log)
	}
	return logs, nil
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
func (r *remains) inspect(log *pebble.DB, shard uint64) error {
	text, closer, err := log.Get(logKey(logState, shard, r.replica))
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
	err = eachOfLog(log, logBatch, shard, r.replica, 0, func([]byte) (bool, error) {
		return false, errors.New("it has the format of an older version")
	})
	if err != nil {
		return err
	}
	err = eachOfLog(log, logSnapshot, shard, r.replica, 0, func(value []byte) (bool, error) {
		var snapshot pb.Snapshot
		err := snapshot.Unmarshal(value)
		if snapshot.Index > r.snapshot {
			r.snapshot, r.needed = snapshot.Index, snapshot.OnDiskIndex
			r.last, r.lastTerm = snapshot.Index, snapshot.Term
		}
		return true, err
	})
	if err != nil {
		return err
	}
	text, closer, err = log.Get(logKey(logLast, shard, r.replica))
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
	r.last = binary.BigEndian.Uint64(text)
	return eachOfLog(log, logEntry, shard, r.replica, r.last, func(value []byte) (bool, error) {
		var entry pb.Entry
		err := entry.Unmarshal(value)
		if entry.Index == r.last {
			r.lastTerm = entry.Term
		}
		return false, err
	})
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

// apply has the database apply the entries of the log up to an index.
func (r *remains) apply(shard, end uint64) error {
	var batch []sm.Entry
	size, next, term := 0, max(r.applied, r.snapshot)+1, uint64(0)
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		_, err := r.machine.Update(batch)
		batch, size = nil, 0
		return err
	}
	err := eachOfLog(r.log, logEntry, shard, r.replica, next, func(value []byte) (bool, error) {
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
	if err == nil {
		err = flush()
	}
	if err == nil && next <= end {
		err = fmt.Errorf("entries from %d to %d are missing", next, end)
	}
	return err
}

// shard writes what there is of a shard, from the best of its replicas.
func (s *Salvage) shard(w *backupWriter, shard uint64, all []*remains) error {
	var best *remains
	var failure error
	known := uint64(0)
	for _, r := range all {
		r.last = max(r.last, r.applied)
		known = max(known, r.committed, r.applied)
		if err := r.continues(); err != nil {
			failure = err
		} else if r.betterThan(best) {
			best = r
		}
	}
	if best == nil && len(all) > 0 { // Only with Partial: the database alone.
		for _, r := range all {
			if best == nil || r.applied > best.applied {
				best = r
			}
		}
	} else if best == nil {
		failure = errors.New("no directory has a replica of it")
	} else {
		failure = nil
	}
	if failure == nil {
		end := best.last
		if s.Committed {
			end = min(end, known)
		}
		if end > max(best.applied, best.snapshot) {
			failure = best.apply(shard, end)
		}
		s.show("shard=%d node=%d replica=%d database=%d committed=%d last=%d term=%d uncertain=%d logs=%d/%d",
			shard, best.node, best.replica, best.applied, known, end, best.lastTerm, end-min(end, known), len(all), best.voters)
		if known > end {
			s.show("shard=%d: another log knows entries up to %d as committed, which this one lacks", shard, known)
		}
	}
	if failure != nil && !s.Partial {
		return failure
	}
	if failure != nil {
		s.show("shard=%d is not whole: %v", shard, failure)
	}
	return w.shard(shard, func(to io.Writer) (machine.Contents, error) {
		if best == nil {
			return machine.Contents{}, machine.EmptyStream(to)
		}
		answer, err := best.machine.Lookup(machine.Stream{To: to})
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
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
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
		case !entry.Type().IsRegular() || entry.Name() == "LOCK":
			return nil
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
