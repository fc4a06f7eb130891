// Varve: a key-value storage engine. MIT licence, see LICENSE.
package node

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"varve.example/replicated/machine"
)

// A backup is a directory with a file for each shard, which is a stream of a
// snapshot, and a manifest. It is complete if the manifest is there.

const (
	manifestName    = "manifest.json"
	backupFormat    = 1
	restoreBatch    = 512 << 10 // Bytes of a proposal.
	restoreAttempts = 20
)

// Manifest describes a backup.
type Manifest struct {
	Format  int
	Created time.Time
	Shards  uint64
	Parts   []Part
	Total   machine.Contents // Applied is 0.
	// Of a backup that was made from what was left: what is known of each shard.
	Salvaged []string `json:",omitempty"`
}

func newManifest(shards uint64) *Manifest {
	return &Manifest{Format: backupFormat, Created: time.Now().UTC(), Shards: shards, Parts: make([]Part, shards)}
}

// write adds the parts up and writes the manifest, with which the backup is
// complete.
func (m *Manifest) write(dir string) error {
	for _, part := range m.Parts {
		part.Contents.AddTo(&m.Total)
	}
	return writeFile(filepath.Join(dir, manifestName), m)
}

// Part is the file of a shard.
type Part struct {
	Shard    uint64
	File     string
	Bytes    int64
	Contents machine.Contents
}

func (m *Manifest) lines() []string {
	var lines []string
	for _, part := range m.Parts {
		lines = append(lines, fmt.Sprintf("shard=%d applied=%d entries=%d sum=%016x bytes=%d",
			part.Shard, part.Contents.Applied, part.Contents.Entries, part.Contents.Sum, part.Bytes))
	}
	return append(lines, m.total())
}

func (m *Manifest) total() string {
	return fmt.Sprintf("entries=%d sum=%016x", m.Total.Entries, m.Total.Sum)
}

var (
	backupName    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)
	errBackupName = errors.New("the name of a backup is up to 100 letters, digits, '.', '_' and '-', and begins with a letter or digit")
)

// backupPath is where a backup of that name is. A client of the store may not
// choose any other place.
func (n *Node) backupPath(name string) (string, error) {
	if !backupName.MatchString(name) {
		return "", errBackupName
	}
	dir := n.options.Backups
	if dir == "" {
		dir = filepath.Join(n.options.Dir, "backups")
	}
	return filepath.Join(dir, name), os.MkdirAll(dir, 0o700)
}

var errCopying = errors.New("a backup is being written or restored")

// beginCopy begins a backup or a restore, one at a time. endCopy ends it.
func (n *Node) beginCopy(name string) (path string, err error) {
	if path, err = n.backupPath(name); err != nil {
		return "", err
	}
	if !n.copying.TryLock() {
		return "", errCopying
	}
	if err = n.begin(); err != nil {
		n.copying.Unlock()
	}
	return path, err
}

func (n *Node) endCopy() {
	n.tasks.Done()
	n.copying.Unlock()
}

// eachShard does it for all shards, a few at a time, and returns the first error.
func (n *Node) eachShard(do func(shard uint64) error) error {
	const atATime = 4
	errs := make(chan error, n.Shards())
	slots := make(chan struct{}, atATime)
	for shard := uint64(1); shard <= n.Shards(); shard++ {
		slots <- struct{}{}
		go func() {
			errs <- do(shard)
			<-slots
		}()
	}
	var failure error
	for shard := uint64(1); shard <= n.Shards(); shard++ {
		if err := <-errs; err != nil && failure == nil {
			failure = err
		}
	}
	return failure
}

// Backup writes all shards to a directory of this node, each at one applied
// index, while the cluster serves.
func (n *Node) Backup(name string) (*Manifest, error) {
	path, err := n.beginCopy(name)
	if err != nil {
		return nil, err
	}
	defer n.endCopy()
	errExists := fmt.Errorf("there is a backup %s", name)
	if _, err := os.Stat(path); err == nil {
		return nil, errExists
	}
	_, marks, err := n.marks()
	if err != nil {
		return nil, err
	}
	if marks > 0 {
		return nil, errors.New("a restore has not ended: the contents are not whole")
	}
	// Only this node writes there, which may share the place with other nodes.
	// What a crash has left goes.
	dir := filepath.Join(filepath.Dir(path), ".partial-"+n.token)
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	begin := time.Now()
	m := newManifest(n.Shards())
	err = n.eachShard(func(shard uint64) error {
		part, err := n.backupShard(dir, shard)
		m.Parts[shard-1] = part
		if err != nil {
			return fmt.Errorf("shard %d: %w", shard, err)
		}
		return nil
	})
	if err == nil {
		err = m.write(dir)
	}
	if err == nil {
		// A directory with files, such as another node's backup, is not replaced.
		if err = os.Rename(dir, path); errors.Is(err, os.ErrExist) {
			err = errExists
		}
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	slog.Info("backup written", "path", path, "entries", m.Total.Entries, "took", time.Since(begin).String())
	return m, nil
}

func (n *Node) backupShard(dir string, shard uint64) (part Part, err error) {
	err = n.again(func() (err error) {
		part, err = writePart(dir, shard, func(to io.Writer) (machine.Contents, error) { return n.stream(shard, to) })
		return err
	})
	return part, err
}

// writePart writes the file of a shard.
func writePart(dir string, shard uint64, stream func(io.Writer) (machine.Contents, error)) (Part, error) {
	part := Part{Shard: shard, File: fmt.Sprintf("shard-%04d", shard)}
	file, err := os.Create(filepath.Join(dir, part.File))
	if err != nil {
		return part, err
	}
	defer file.Close()
	out := bufio.NewWriterSize(file, 1<<20)
	if part.Contents, err = stream(out); err != nil {
		return part, err
	}
	if err := out.Flush(); err != nil {
		return part, err
	}
	if err := file.Sync(); err != nil {
		return part, err
	}
	part.Bytes, err = file.Seek(0, io.SeekCurrent)
	return part, err
}

// again does it up to three times: a leader may have moved.
func (n *Node) again(do func() error) (err error) {
	for attempt := 0; attempt < 3; attempt++ {
		if n.stopped() {
			return errStopping
		}
		if err = do(); err == nil {
			return nil
		}
		if !n.wait(time.Duration(attempt) * time.Second / 2) {
			return errStopping
		}
	}
	return err
}

// Checksum is of all entries of all shards.
func (n *Node) Checksum() (total machine.Contents, err error) {
	if err := n.begin(); err != nil {
		return total, err
	}
	defer n.tasks.Done()
	var mutex sync.Mutex
	err = n.eachShard(func(shard uint64) error {
		var contents machine.Contents
		err := n.again(func() (err error) {
			contents, err = n.stream(shard, io.Discard)
			return err
		})
		mutex.Lock()
		defer mutex.Unlock()
		contents.AddTo(&total)
		return err
	})
	return total, err
}

// ReadManifest reads the manifest of a backup.
func ReadManifest(path string) (*Manifest, error) {
	text, err := os.ReadFile(filepath.Join(path, manifestName))
	if err != nil {
		return nil, err
	}
	m := &Manifest{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, err
	}
	if m.Format != backupFormat || uint64(len(m.Parts)) != m.Shards {
		return nil, fmt.Errorf("%s: format %d with %d of %d shards", path, m.Format, len(m.Parts), m.Shards)
	}
	return m, nil
}

// ReadPart calls visit for the entries of a shard of a backup, and compares
// them with the manifest.
func ReadPart(path string, part Part, visit func(key, value []byte) error) error {
	file, err := os.Open(filepath.Join(path, filepath.Base(part.File)))
	if err != nil {
		return err
	}
	defer file.Close()
	contents, err := machine.ReadStream(bufio.NewReaderSize(file, 1<<20), visit)
	if err != nil {
		return fmt.Errorf("%s: %w", part.File, err)
	}
	if contents != part.Contents {
		return fmt.Errorf("%s: the contents are not those of the manifest", part.File)
	}
	return nil
}

// While a backup is restored, each shard has this key, a mark. Its value says
// which backup it is. Each proposal of the backup's entries is done only if the
// shard has the very mark of this attempt. So what arrives late, after its
// repetition and after the end, changes nothing that clients have written since.
const restoreMark = "\x00varve-restore"

var errMarkLost = errors.New("another restore has begun, or the keys were deleted")

// backupID begins the marks of a backup.
func (m *Manifest) backupID() string {
	return fmt.Sprintf("%d-%016x ", m.Total.Entries, m.Total.Sum)
}

// ifMark begins a proposal that is done only if a shard has a mark, as it is
// stored. nil is none.
func ifMark(stored []byte) []byte {
	now := time.Now().UnixMilli()
	return machine.AppendOperation(machine.NewProposal(nil, now), machine.Check,
		[]byte(restoreMark), machine.Fingerprint(stored, now))
}

// proposeIf proposes what begins with ifMark.
func (n *Node) proposeIf(shard uint64, updates []byte) error {
	data, err := n.Propose(shard, updates)
	if err != nil {
		return err
	}
	replies, err := machine.ParseReplies(data)
	if err == nil && (len(replies) == 0 || replies[0].Int != 1) {
		err = errMarkLost
	}
	return err
}

// insist is proposeIf until there is an answer.
func (n *Node) insist(shard uint64, updates []byte) error {
	err := errStopping
	for attempt := 0; attempt < restoreAttempts && !n.stopped(); attempt++ {
		err = n.proposeIf(shard, updates)
		if err == nil || errors.Is(err, errRefused) || errors.Is(err, errMarkLost) {
			return err
		}
	}
	return err
}

// markOf is the mark of a shard as it is stored, nil if there is none.
func (n *Node) markOf(shard uint64) ([]byte, error) {
	query := machine.Get{Keys: [][]byte{machine.StoredKey([]byte(restoreMark))}}
	var answer interface{}
	err := n.again(func() (err error) {
		answer, _, err = n.Read(shard, query, false)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("shard %d: %w", shard, err)
	}
	return answer.([][]byte)[0], nil
}

// marks are those of all shards, by shard, and how many there are.
func (n *Node) marks() (marks [][]byte, count int, err error) {
	marks = make([][]byte, n.Shards()+1)
	for shard := uint64(1); shard <= n.Shards(); shard++ {
		if marks[shard], err = n.markOf(shard); err != nil {
			return nil, 0, err
		}
		if marks[shard] != nil {
			count++
		}
	}
	return marks, count, nil
}

// mark replaces the mark that a shard was seen to have. Each attempt has a mark
// of its own: nothing is proposed with the mark of one that arrives late.
func (n *Node) mark(shard uint64, id string, seen []byte) ([]byte, error) {
	var tried []string
	err := errStopping
	for attempt := 0; attempt < restoreAttempts && !n.stopped(); attempt++ {
		value := []byte(id + newToken())
		stored := machine.AppendValue(nil, value, 0)
		if err = n.proposeIf(shard, machine.AppendPut(ifMark(seen), []byte(restoreMark), value, 0)); err == nil {
			return stored, nil
		}
		if errors.Is(err, errMarkLost) {
			// Perhaps by an attempt before, whose answer got lost.
			if now, err := n.markOf(shard); err != nil || contains(tried, string(now)) {
				return now, err
			}
			break
		}
		tried = append(tried, string(stored))
	}
	return nil, fmt.Errorf("shard %d: %w", shard, err)
}

// unmark takes away marks that this node has set.
func (n *Node) unmark(marks [][]byte) error {
	for shard, stored := range marks {
		if stored == nil {
			continue
		}
		err := n.insist(uint64(shard), machine.AppendDelete(ifMark(stored), []byte(restoreMark)))
		// One that has gone may be so by an attempt before.
		if err != nil && !errors.Is(err, errMarkLost) {
			return fmt.Errorf("shard %d: %w", shard, err)
		}
	}
	return nil
}

// mayRestore returns the marks of the shards if the cluster is empty but for
// what an attempt to restore the same backup has left.
func (n *Node) mayRestore(m *Manifest) ([][]byte, error) {
	marks, count, err := n.marks()
	if err != nil {
		return nil, err
	}
	for _, stored := range marks {
		if value, _, exists := machine.Value(stored, 0); exists && !strings.HasPrefix(string(value), m.backupID()) {
			return nil, errors.New("the restore of another backup has not ended: repeat that one, or delete all keys")
		}
	}
	now, err := n.Checksum()
	if err != nil {
		return nil, err
	}
	entries := now.Entries - min(now.Entries, uint64(count))
	if entries > 0 && (count == 0 || entries > m.Total.Entries) {
		return nil, fmt.Errorf("the cluster has %d entries: restore into an empty one", entries)
	}
	return marks, nil
}

// Restore proposes all entries of a backup to an empty cluster, which may have
// another number of shards. Nothing is proposed unless all of it can be read.
// If it fails later, it can be repeated.
func (n *Node) Restore(name string) (*Manifest, error) {
	path, err := n.beginCopy(name)
	if err != nil {
		return nil, err
	}
	defer n.endCopy()
	m, err := ReadManifest(path)
	if err != nil {
		return nil, err
	}
	for _, part := range m.Parts {
		err := ReadPart(path, part, func(key, _ []byte) error {
			if n.stopped() {
				return errStopping
			}
			if string(machine.UserKey(key)) == restoreMark {
				return errors.New("it was taken during a restore")
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	seen, err := n.mayRestore(m)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	marks := make([][]byte, n.Shards()+1)
	for shard := uint64(1); shard <= n.Shards(); shard++ {
		if marks[shard], err = n.mark(shard, m.backupID(), seen[shard]); err != nil {
			if errors.Is(err, errMarkLost) {
				n.unmark(marks) // They are in the way of the other restore.
			}
			return nil, err
		}
	}
	for _, part := range m.Parts {
		if err := n.restorePart(path, part, marks); err != nil {
			return nil, err
		}
	}
	if err := n.finishRestore(m, marks); err != nil {
		return nil, err
	}
	slog.Info("backup restored", "path", path, "entries", m.Total.Entries, "took", time.Since(begin).String())
	return m, nil
}

// finishRestore compares the contents with those of the backup, and takes the
// marks away.
func (n *Node) finishRestore(m *Manifest, marks [][]byte) error {
	now, err := n.Checksum()
	if err != nil {
		return err
	}
	for _, stored := range marks[1:] {
		var mark machine.Contents
		mark.Add(machine.StoredKey([]byte(restoreMark)), stored)
		now.Entries--
		now.Lasting--
		now.LastingSum -= mark.LastingSum
	}
	if !now.ContainsLasting(m.Total) {
		return errors.New("the contents are not those of the backup; was there a write?")
	}
	if err := n.unmark(marks); err != nil {
		return err
	}
	_, left, err := n.marks()
	if err == nil && left > 0 {
		err = errMarkLost
	}
	return err
}

// restorePart proposes a shard of a backup. The proposals of different shards
// of the cluster are made at the same time.
func (n *Node) restorePart(path string, part Part, marks [][]byte) error {
	type work chan []byte
	shards := map[uint64]work{}
	pending := map[uint64][]byte{}
	var group sync.WaitGroup
	var mutex sync.Mutex
	var failure error
	failed := func() error {
		mutex.Lock()
		defer mutex.Unlock()
		return failure
	}
	send := func(shard uint64) {
		to := shards[shard]
		if to == nil {
			to = make(work, 2)
			shards[shard] = to
			group.Add(1)
			go func() {
				defer group.Done()
				for updates := range to {
					if failed() != nil {
						continue
					}
					if err := n.insist(shard, updates); err != nil {
						mutex.Lock()
						failure = err
						mutex.Unlock()
					}
				}
			}()
		}
		to <- pending[shard]
		pending[shard] = nil
	}
	err := ReadPart(path, part, func(key, value []byte) error {
		shard := n.ShardOf(machine.UserKey(key))
		if len(pending[shard]) == 0 {
			pending[shard] = ifMark(marks[shard])
		}
		pending[shard] = machine.AppendStored(pending[shard], key, value)
		if len(pending[shard]) >= restoreBatch {
			send(shard)
		}
		return failed()
	})
	for shard, updates := range pending {
		if len(updates) > 0 {
			send(shard)
		}
	}
	for _, to := range shards {
		close(to)
	}
	group.Wait()
	if err != nil {
		return err
	}
	return failure
}
