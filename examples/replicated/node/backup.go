// Varve: a key-value storage engine. MIT licence, see LICENSE.
package node

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"varve.example/replicated/machine"
)

// A backup is a manifest, which names pieces of files. It is complete if the
// manifest is there. Its files have its name, but for those of the backups that it
// continues from. In format 1, a file for each shard is a stream of a snapshot.

const (
	manifestName    = "manifest.json"
	droppedName     = "dropped.json" // Of a backup that is being deleted.
	oldBackupFormat = 1
	backupFormat    = 2
	restoreBatch    = 512 << 10 // Bytes of a proposal.
	restoreAttempts = 20
)

// Manifest describes a backup.
type Manifest struct {
	Format  int
	Created time.Time
	Shards  uint64
	Total   machine.Contents // Applied is 0.
	// Whether all shards are of one point in time.
	Moment bool
	Base   string `json:",omitempty"` // The backup that it continues from.
	// Of a backup that was made from what was left: what is known of each shard.
	Salvaged []string `json:",omitempty"`
	Files    []string
	Parts    []Part
}

// Part is what the backup has of a shard.
type Part struct {
	Shard    uint64
	File     string `json:",omitempty"` // Of format 1.
	Bytes    int64  // That this backup had to write.
	Contents machine.Contents
	Pieces   []Piece
}

func newManifest(shards uint64) *Manifest {
	return &Manifest{Format: backupFormat, Created: time.Now().UTC(), Shards: shards, Parts: make([]Part, shards)}
}

// isSame says whether both are of one backup, and not of two of one name.
func (m *Manifest) isSame(other *Manifest) bool {
	return m.Created.Equal(other.Created) && slices.Equal(m.Files, other.Files)
}

func manifestOf(name string) string { return name + "/" + manifestName }

func droppedOf(name string) string { return name + "/" + droppedName }

func (m *Manifest) lines() []string {
	var lines []string
	for _, part := range m.Parts {
		lines = append(lines, fmt.Sprintf("shard=%d applied=%d entries=%d sum=%016x bytes=%d",
			part.Shard, part.Contents.Applied, part.Contents.Entries, part.Contents.Sum, part.Bytes))
	}
	lines = append(lines, m.Salvaged...)
	return append(lines, fmt.Sprintf("moment=%t", m.Moment), m.total())
}

func (m *Manifest) total() string {
	return fmt.Sprintf("entries=%d sum=%016x", m.Total.Entries, m.Total.Sum)
}

var (
	backupName    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)
	errBackupName = errors.New("the name of a backup is up to 100 letters, digits, '.', '_' and '-', and begins with a letter or digit")
)

func errBackupExists(name string) error { return fmt.Errorf("there is a backup %s", name) }

// errNoBackup is the name of what is not there.
type errNoBackup string

func (name errNoBackup) Error() string { return "there is no backup " + string(name) }

// backups is where this node's backups are. A client of the store may not choose
// any other place.
func (n *Node) backups() (place, error) {
	dir := n.options.Backups
	if dir == "" {
		dir = filepath.Join(n.options.Dir, "backups")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if words := strings.Fields(n.options.BackupTo); len(words) > 0 {
		return command{words, dir, n.stop}, nil
	}
	return directory{dir}, nil
}

var errCopying = errors.New("a backup is being written, read or deleted")

// beginCopy begins to work with a backup, one at a time. endCopy ends it.
func (n *Node) beginCopy(names ...string) (place, error) {
	for _, name := range names {
		if !backupName.MatchString(name) {
			return nil, errBackupName
		}
	}
	if n.isConverting() {
		return nil, errConverting
	}
	where, err := n.backups()
	if err != nil {
		return nil, err
	}
	if !n.copying.TryLock() {
		return nil, errCopying
	}
	if err = n.begin(); err != nil {
		n.copying.Unlock()
	}
	return where, err
}

func (n *Node) endCopy() {
	n.tasks.Done()
	n.copying.Unlock()
}

// eachShard does it for all shards, a few at a time, and returns the first error.
func (n *Node) eachShard(do func(shard uint64) error) error {
	var group errgroup.Group
	group.SetLimit(4)
	for shard := uint64(1); shard <= n.Shards(); shard++ {
		group.Go(func() error { return do(shard) })
	}
	return group.Wait()
}

// Backup writes all shards while the cluster serves. Of a backup that it continues
// from, if a name is given, it writes only what is new.
func (n *Node) Backup(name, base string) (m *Manifest, err error) {
	names := []string{name}
	if base != "" {
		names = append(names, base)
	}
	to, err := n.beginCopy(names...)
	if err != nil {
		return nil, err
	}
	defer n.endCopy()
	if found, err := to.list(name + "/"); err != nil {
		return nil, err
	} else if slices.Contains(found, manifestOf(name)) {
		return nil, errBackupExists(name)
	} else if slices.Contains(found, droppedOf(name)) {
		return nil, fmt.Errorf("the backup %s was not deleted to the end: repeat NODE.DROPBACKUP %s", name, name)
	}
	_, marks, err := n.marks()
	if err != nil {
		return nil, err
	}
	if marks > 0 {
		return nil, errors.New("a restore has not ended: the contents are not whole")
	}
	w, err := newBackupWriter(to, name, n.token, n.Shards())
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	defer func() {
		if err = w.finish(err); err == nil {
			slog.Info("backup written", "name", name, "from", base, "entries", w.m.Total.Entries,
				"moment", w.m.Moment, "took", time.Since(begin).String())
		}
	}()
	if n.options.ReserveBytes > 0 { // The backup fails before the node does.
		w.check = func() error { return checkDisk(w.dir, n.options.ReserveBytes+8*spaceChecked) }
	}
	if base != "" {
		from, err := readManifest(to, base)
		if err != nil {
			return nil, err
		}
		w.continueFrom(base, from)
	}
	at, err := n.takeMoment()
	if err != nil {
		slog.Warn("a backup has each shard of another point in time", "error", err)
	}
	defer n.dropMoment(at)
	w.m.Moment = at != nil
	err = n.eachShard(func(shard uint64) error {
		err := n.again(func() error {
			return w.shard(shard, func(to io.Writer) (machine.Contents, error) { return n.stream(shard, at, to) })
		})
		if err != nil {
			return fmt.Errorf("shard %d: %w", shard, err)
		}
		n.dropOfMoment(at, shard)
		return nil
	})
	return w.m, err
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
	if n.isConverting() {
		return total, errConverting
	}
	if err := n.begin(); err != nil {
		return total, err
	}
	defer n.tasks.Done()
	var mutex sync.Mutex
	err = n.eachShard(func(shard uint64) error {
		var contents machine.Contents
		err := n.again(func() (err error) {
			contents, err = n.stream(shard, nil, io.Discard)
			return err
		})
		mutex.Lock()
		defer mutex.Unlock()
		contents.AddTo(&total)
		return err
	})
	return total, err
}

func readAll(from place, name string) ([]byte, error) {
	file, err := from.get(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	text, err := io.ReadAll(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return text, nil
}

// encode writes the manifest as a line, and then the line's SHA-256.
func (m *Manifest) encode(to io.Writer) error {
	sum := sha256.New()
	if err := json.NewEncoder(io.MultiWriter(to, sum)).Encode(m); err != nil {
		return err
	}
	_, err := fmt.Fprintf(to, "%x\n", sum.Sum(nil))
	return err
}

// putTo stores the manifest. It is written to a folder first.
func (m *Manifest) putTo(to place, name, spool string) error {
	file, err := os.Create(filepath.Join(spool, manifestName))
	if err != nil {
		return err
	}
	defer file.Close()
	if err := m.encode(file); err != nil {
		return err
	}
	return to.put(name, file)
}

var errManifest = errors.New("the manifest cannot be used")

// decode reads what encode has written, or an older program without a checksum.
func (m *Manifest) decode(text []byte) error {
	text = bytes.TrimSuffix(text, []byte("\n"))
	at := bytes.LastIndexByte(text, '\n') + 1
	if last := text[at:]; at > 0 && string(last) != "}" { // Or it is indented JSON.
		text = text[:at]
		if string(last) != fmt.Sprintf("%x", sha256.Sum256(text)) {
			return fmt.Errorf("%w: it has another checksum", errManifest)
		}
	}
	if err := json.Unmarshal(text, m); err != nil {
		return fmt.Errorf("%w: %w", errManifest, err)
	}
	return nil
}

// readManifest reads the manifest of a backup.
func readManifest(from place, name string) (*Manifest, error) {
	return readManifestIn(from, name, manifestOf(name))
}

func readManifestIn(from place, name, file string) (*Manifest, error) {
	text, err := readAll(from, file)
	if err != nil {
		if found, failure := from.list(file); failure == nil && len(found) == 0 {
			return nil, errNoBackup(name)
		}
		return nil, err
	}
	m := &Manifest{}
	if err = m.decode(text); err == nil {
		err = m.check(name)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return m, nil
}

// check completes a manifest of format 1, and fails if there is what none has.
func (m *Manifest) check(name string) error {
	if m.Format != backupFormat && m.Format != oldBackupFormat || uint64(len(m.Parts)) != m.Shards {
		return fmt.Errorf("%w: format %d with %d of %d shards", errManifest, m.Format, len(m.Parts), m.Shards)
	}
	if m.Format == oldBackupFormat {
		m.Files = nil
		for i := range m.Parts {
			m.Files = append(m.Files, name+"/"+filepath.Base(m.Parts[i].File))
			m.Parts[i].Pieces = nil
		}
	}
	for _, file := range m.Files {
		if dir, base := filepath.Split(file); !backupName.MatchString(strings.TrimSuffix(dir, "/")) || !backupName.MatchString(base) {
			return fmt.Errorf("%w: %q is not a file of a backup", errManifest, file)
		}
	}
	for _, part := range m.Parts {
		for _, piece := range part.Pieces {
			if piece.File < 0 || piece.File >= len(m.Files) {
				return fmt.Errorf("%w: a piece of shard %d has no file", errManifest, part.Shard)
			}
		}
	}
	return nil
}

// Verify reads all of a backup, and returns an error if anything is missing or
// damaged.
func (n *Node) Verify(name string) (*Manifest, error) {
	from, err := n.beginCopy(name)
	if err != nil {
		return nil, err
	}
	defer n.endCopy()
	return n.verify(from, name)
}

func (n *Node) verify(from place, name string) (*Manifest, error) {
	m, err := readManifest(from, name)
	if err != nil {
		return nil, err
	}
	return m, readBackup(from, m, func(key, _ []byte) error {
		if n.stopped() {
			return errStopping
		}
		if string(machine.UserKey(key)) == restoreMark {
			return errors.New("it was taken during a restore")
		}
		return nil
	})
}

// Backups describes the backups that there are.
func (n *Node) Backups() ([]string, error) {
	from, err := n.beginCopy()
	if err != nil {
		return nil, err
	}
	defer n.endCopy()
	all, err := survey(from)
	if err != nil {
		return nil, err
	}
	lines := []string{} // Not nil, which would be answered by OK.
	for name, m := range all.manifests {
		lines = append(lines, fmt.Sprintf("name=%s created=%s base=%s moment=%t entries=%d",
			name, m.Created.Format(time.RFC3339), m.Base, m.Moment, m.Total.Entries))
	}
	for name, err := range all.unread {
		lines = append(lines, fmt.Sprintf("name=%s error=%q", name, err))
	}
	sort.Strings(lines)
	return lines, nil
}

// stored is what there is in a place.
type stored struct {
	files     []string
	manifests map[string]*Manifest // By name, without pieces.
	unread    map[string]error     // Those that could not be read.
}

func survey(from place) (*stored, error) {
	files, err := from.list("")
	if err != nil {
		return nil, err
	}
	all := &stored{files, map[string]*Manifest{}, map[string]error{}}
	for _, file := range files {
		name, base, _ := strings.Cut(file, "/")
		if base != manifestName || !backupName.MatchString(name) {
			continue
		}
		m, err := readManifest(from, name)
		if errors.As(err, new(errNoBackup)) {
			continue // It was removed just now.
		}
		if err != nil {
			all.unread[name] = err
			continue
		}
		for i := range m.Parts {
			m.Parts[i].Pieces = nil // They are large.
		}
		all.manifests[name] = m
	}
	return all, nil
}

// DropBackup deletes a backup, and what one that was not completed has left. Files
// that other backups continue from stay until those are deleted. If it fails, it
// can be repeated.
func (n *Node) DropBackup(name string) ([]string, error) {
	from, err := n.beginCopy(name)
	if err != nil {
		return nil, err
	}
	defer n.endCopy()
	deleted, err := n.dropBackup(from, name)
	if err != nil && !errors.As(err, new(errNoBackup)) {
		err = fmt.Errorf("%w; repeat NODE.DROPBACKUP %s", err, name)
	}
	if err != nil {
		return nil, err
	}
	return []string{fmt.Sprintf("files=%d", deleted)}, nil
}

// dropBackup returns how many files it has deleted. The manifest goes first, so that
// no other backup continues from this one. Until all is done, a copy says which
// files it has named.
func (n *Node) dropBackup(from place, name string) (deleted int, err error) {
	before, err := survey(from)
	if err != nil {
		return 0, err
	}
	// Of a manifest that is damaged, nobody knows which files it names.
	for other, err := range before.unread {
		if other != name {
			return 0, fmt.Errorf("%w; if it stays so, first delete that one by NODE.DROPBACKUP %s", err, other)
		}
		if !errors.Is(err, errManifest) {
			return 0, err
		}
	}
	copied := droppedOf(name)
	isCopied := slices.Contains(before.files, copied)
	m := before.manifests[name]
	if m != nil {
		spool, failure := newSpool(from, n.token)
		if failure != nil {
			return 0, failure
		}
		defer os.RemoveAll(spool)
		if err = m.putTo(from, copied, spool); err == nil || errors.Is(err, os.ErrExist) {
			isCopied, err = true, from.remove(manifestOf(name))
		}
	} else if before.unread[name] != nil {
		err = from.remove(manifestOf(name))
	} else if isCopied {
		m, err = readManifestIn(from, name, copied)
	}
	if err != nil {
		return 0, err
	}
	drop := map[string]bool{}
	if m != nil {
		for _, file := range m.Files {
			drop[file] = true
		}
	}
	// Again: a backup that is complete by now keeps what it names.
	after, err := survey(from)
	if err != nil {
		return 0, err
	}
	for _, err := range after.unread {
		return 0, err
	}
	// A program that fails but says that it has listed all must not make files look
	// as if no backup needed them.
	for other := range before.manifests {
		if other != name && after.manifests[other] == nil {
			return 0, fmt.Errorf("the backup %s is no longer listed, so no file was deleted", other)
		}
	}
	kept := map[string]bool{}
	for _, m := range after.manifests {
		for _, file := range m.Files {
			kept[file] = true
		}
	}
	for _, file := range before.files {
		dir, base, _ := strings.Cut(file, "/")
		if base == manifestName || base == droppedName || kept[file] || dir != name && (!drop[file] || after.manifests[dir] != nil) {
			continue
		}
		if err := from.remove(file); err != nil {
			return deleted, err
		}
		deleted++
	}
	if isCopied {
		return deleted, from.remove(copied)
	}
	if deleted == 0 && before.unread[name] == nil {
		return 0, errNoBackup(name)
	}
	return deleted, nil
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
	from, err := n.beginCopy(name)
	if err != nil {
		return nil, err
	}
	defer n.endCopy()
	m, err := n.verify(from, name)
	if err != nil {
		return nil, err
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
	err = n.restoreEntries(marks, func(visit func(key, value []byte) error) error {
		return readBackup(from, m, visit)
	})
	if err != nil {
		return nil, err
	}
	if err := n.finishRestore(m, marks); err != nil {
		return nil, err
	}
	slog.Info("backup restored", "name", name, "entries", m.Total.Entries, "took", time.Since(begin).String())
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

// restoreEntries proposes what `each` calls its argument for. The proposals of
// different shards of the cluster are made at the same time.
func (n *Node) restoreEntries(marks [][]byte, each func(visit func(key, value []byte) error) error) error {
	shards := map[uint64]chan []byte{}
	pending := map[uint64][]byte{}
	var group sync.WaitGroup
	ctx, fail := context.WithCancelCause(context.Background())
	defer fail(nil)
	send := func(shard uint64) {
		to := shards[shard]
		if to == nil {
			to = make(chan []byte, 2)
			shards[shard] = to
			group.Add(1)
			go func() {
				defer group.Done()
				for updates := range to {
					if ctx.Err() != nil {
						continue
					}
					if err := n.insist(shard, updates); err != nil {
						fail(err)
					}
				}
			}()
		}
		to <- pending[shard]
		pending[shard] = nil
	}
	err := each(func(key, value []byte) error {
		shard := n.ShardOf(machine.UserKey(key))
		if len(pending[shard]) == 0 {
			pending[shard] = ifMark(marks[shard])
		}
		pending[shard] = machine.AppendStored(pending[shard], key, value)
		if len(pending[shard]) >= restoreBatch {
			send(shard)
		}
		return context.Cause(ctx)
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
	return context.Cause(ctx)
}
