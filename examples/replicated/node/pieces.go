// Varve: a key-value storage engine. MIT licence, see LICENSE.
package node

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"sync"

	"varve.example/replicated/machine"
	"varve.example/replicated/storage"
)

// The entries of a shard are cut into pieces, in the order of their keys. Where a
// piece ends follows from the last entry alone, so that a change makes one or two
// pieces new. The others are as in an earlier backup, and are named by where they
// are there.

const (
	pieceBytes    = 32 << 10 // On average.
	maxPieceBytes = 1 << 20  // Unless one entry has more.
)

// Piece is entries, in the form of storage.NextEntry.
type Piece struct {
	File int    `json:"f"` // Of Manifest.Files.
	At   int64  `json:"a"` // In bytes.
	Size int64  `json:"n"`
	Sum  []byte `json:"s"` // SHA-256.
}

// pieceKey is what a piece is known by.
type pieceKey struct {
	sum  [sha256.Size]byte
	size int64
}

// backupWriter writes the files of a backup.
type backupWriter struct {
	place
	name, token, dir string
	known            map[pieceKey]located // Of the earlier backup.
	base             *Manifest            // Of it, without parts; nil if there is none.
	check            func() error         // For enough space; may be nil.

	mutex    sync.Mutex
	m        *Manifest
	numbers  map[string]int // Of m.Files.
	put      []string       // For undo.
	complete bool           // Whether there may be a manifest.
}

// located is where a piece is.
type located struct {
	file string
	at   int64
}

// newSpool is an empty folder for files before they are put. What a crash of the
// same owner has left goes.
func newSpool(to place, owner string) (string, error) {
	dir := filepath.Join(to.spool(), ".partial-"+owner)
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o700)
}

// newBackupWriter begins a backup.
func newBackupWriter(to place, name, owner string, shards uint64) (*backupWriter, error) {
	dir, err := newSpool(to, owner)
	return &backupWriter{
		place: to, name: name, token: newToken(), dir: dir, known: map[pieceKey]located{},
		m: newManifest(shards), numbers: map[string]int{},
	}, err
}

// continueFrom takes over what an earlier backup has.
func (w *backupWriter) continueFrom(base string, m *Manifest) {
	w.m.Base, w.base = base, &Manifest{Created: m.Created, Files: m.Files}
	for _, part := range m.Parts {
		for _, piece := range part.Pieces {
			w.known[piece.key()] = located{m.Files[piece.File], piece.At}
		}
	}
}

func (p *Piece) key() pieceKey {
	key := pieceKey{size: p.Size}
	copy(key.sum[:], p.Sum)
	return key
}

// file is the number of a file.
func (w *backupWriter) file(name string) int {
	number, known := w.numbers[name]
	if !known {
		number = len(w.m.Files)
		w.numbers[name], w.m.Files = number, append(w.m.Files, name)
	}
	return number
}

const spaceChecked = 8 << 20 // Bytes of a shard between two checks.

// shard writes what a shard has that the earlier backup has not.
func (w *backupWriter) shard(shard uint64, stream func(io.Writer) (machine.Contents, error)) error {
	name := fmt.Sprintf("%s/shard-%04d-%s", w.name, shard, w.token)
	file, err := os.Create(filepath.Join(w.dir, filepath.Base(name)))
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	out := bufio.NewWriterSize(file, 1<<20)
	part := Part{Shard: shard}
	mine := map[pieceKey]located{}
	var where []located
	var piece []byte
	var written, checked int64
	flush := func() error {
		if len(piece) == 0 {
			return nil
		}
		key := pieceKey{sha256.Sum256(piece), int64(len(piece))}
		found, known := w.known[key]
		if !known {
			found, known = mine[key]
		}
		if !known {
			found = located{name, written}
			mine[key] = found
			if _, err := out.Write(piece); err != nil {
				return err
			}
			written += key.size
		}
		where = append(where, found)
		part.Pieces = append(part.Pieces, Piece{0, found.at, key.size, key.sum[:]})
		piece = piece[:0]
		if written-checked < spaceChecked || w.check == nil {
			return nil
		}
		checked = written
		return w.check()
	}
	part.Contents, err = eachStreamed(stream, func(key, value []byte) error {
		piece = binary.LittleEndian.AppendUint32(piece, uint32(len(key)))
		piece = binary.LittleEndian.AppendUint32(piece, uint32(len(value)))
		piece = append(append(piece, key...), value...)
		if int(machine.Bucket(key)%pieceBytes) < 8+len(key)+len(value) || len(piece) >= maxPieceBytes {
			return flush()
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	if err == nil {
		err = out.Flush()
	}
	if part.Bytes = written; err == nil && written > 0 {
		err = w.store(name, file)
	}
	if err != nil {
		return err
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for i := range where {
		part.Pieces[i].File = w.file(where[i].file)
	}
	w.m.Parts[shard-1] = part
	return nil
}

// eachStreamed calls visit for the entries of a stream. Its chunks have checksums.
func eachStreamed(stream func(io.Writer) (machine.Contents, error), visit func(key, value []byte) error) (machine.Contents, error) {
	from, to := io.Pipe()
	ended := make(chan struct{})
	var contents machine.Contents
	go func() {
		defer close(ended)
		var err error
		contents, err = stream(to)
		to.CloseWithError(err)
	}()
	err := machine.ReadEntries(bufio.NewReaderSize(from, 1<<20), visit)
	if err == nil {
		_, err = io.Copy(io.Discard, from)
	}
	from.CloseWithError(errors.New("the reader of a stream has ended"))
	<-ended
	return contents, err
}

func (w *backupWriter) store(name string, file *os.File) error {
	w.mutex.Lock()
	w.put = append(w.put, name)
	w.mutex.Unlock()
	return w.place.put(name, file)
}

// finish writes the manifest, with which the backup is complete, or removes what
// there is of it.
func (w *backupWriter) finish(err error) error {
	defer os.RemoveAll(w.dir)
	if err == nil {
		err = w.finishManifest()
	}
	if err != nil {
		err = w.undo(err)
	}
	return err
}

// undo removes what was stored. The manifest may be there although storing it has
// failed. Unless it is certainly not, what it names stays.
func (w *backupWriter) undo(err error) error {
	if w.complete {
		manifest := manifestOf(w.name)
		if there, failure := readManifest(w.place, w.name); failure != nil || there.isSame(w.m) {
			w.remove(manifest)
			if names, failure := w.list(manifest); failure != nil || len(names) > 0 {
				return fmt.Errorf("%w; delete what was written by NODE.DROPBACKUP %s", err, w.name)
			}
		}
	}
	for _, name := range w.put {
		w.remove(name)
	}
	return err
}

func (w *backupWriter) finishManifest() error {
	if w.base != nil {
		if err := w.checkFiles(); err != nil {
			return err
		}
	}
	for _, part := range w.m.Parts {
		part.Contents.AddTo(&w.m.Total)
	}
	err := w.m.putTo(w.place, manifestOf(w.name), w.dir)
	if errors.Is(err, os.ErrExist) {
		return errBackupExists(w.name)
	} else if w.complete = true; err != nil {
		return err
	}
	if w.base == nil {
		return nil
	}
	// Whoever deletes the earlier one removes its manifest first, and then keeps
	// what other manifests name.
	base, err := readManifest(w.place, w.m.Base)
	if errors.As(err, new(errNoBackup)) || err == nil && !base.isSame(w.base) {
		err = fmt.Errorf("the backup %s was deleted", w.m.Base)
	}
	return err
}

// checkFiles fails if files of earlier backups are missing.
func (w *backupWriter) checkFiles() error {
	names, err := w.list("")
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, name := range names {
		there[name] = true
	}
	for _, name := range w.m.Files {
		if !there[name] {
			return fmt.Errorf("the file %s is missing, so no backup can continue from %s", name, w.m.Base)
		}
	}
	return nil
}

// readBackup calls visit for all entries of a backup, and compares them with the
// manifest.
func readBackup(from place, m *Manifest, visit func(key, value []byte) error) error {
	contents := make([]machine.Contents, len(m.Parts))
	for file := range m.Files {
		if err := readFile(from, m, file, contents, visit); err != nil {
			return err
		}
	}
	var total machine.Contents
	for i, part := range m.Parts {
		part.Contents.AddTo(&total)
		contents[i].Applied = part.Contents.Applied
		if m.Format == backupFormat && contents[i] != part.Contents {
			return fmt.Errorf("shard %d: the contents are not those of the manifest", part.Shard)
		}
	}
	if total != m.Total {
		return fmt.Errorf("%w: the shards are not all of its contents", errManifest)
	}
	return nil
}

// readFile reads the pieces of one file, and adds their entries to the contents
// of the parts that have them.
func readFile(from place, m *Manifest, file int, contents []machine.Contents, visit func(key, value []byte) error) (err error) {
	name := m.Files[file]
	stored, err := from.get(name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer func() {
		if failure := stored.Close(); failure != nil && (err == nil || errors.Is(err, errPiece)) {
			err = fmt.Errorf("%s: %w", name, failure) // So bytes are missing.
		}
	}()
	reader := bufio.NewReaderSize(stored, 1<<20)
	if m.Format == oldBackupFormat {
		return readOldFile(reader, name, m.Parts[file], visit)
	}
	type use struct {
		part, number int
		piece        Piece
	}
	var uses []use
	for part := range m.Parts {
		for number, piece := range m.Parts[part].Pieces {
			if piece.File == file {
				uses = append(uses, use{part, number, piece})
			}
		}
	}
	sort.SliceStable(uses, func(i, j int) bool { return uses[i].piece.At < uses[j].piece.At })
	var at int64
	var buffer []byte
	for i, u := range uses {
		if i == 0 || u.piece.At != uses[i-1].piece.At || u.piece.Size != uses[i-1].piece.Size {
			if buffer, err = readPiece(reader, u.piece, at, buffer); err != nil {
				return fmt.Errorf("shard %d: piece %d (%d bytes at %d of %s): %w",
					m.Parts[u.part].Shard, u.number, u.piece.Size, u.piece.At, name, err)
			}
			at = u.piece.At + u.piece.Size
		}
		for rest := buffer; len(rest) > 0; {
			var key, value []byte
			if key, value, rest, err = storage.NextEntry(rest); err == nil && !machine.ValidEntry(key) {
				err = storage.ErrMalformed
			}
			if err != nil {
				return err
			}
			contents[u.part].Add(key, value)
			if err := visit(key, value); err != nil {
				return err
			}
		}
	}
	return nil
}

var errPiece = errors.New("the bytes are not those that were written")

func missing(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("%w: %w", errPiece, err)
	}
	return err
}

// readPiece reads one from a reader that is at a byte of its file.
func readPiece(reader *bufio.Reader, piece Piece, at int64, buffer []byte) ([]byte, error) {
	if piece.At < at || piece.Size < 1 || piece.Size > maxPieceBytes+2*machine.MaxValueBytes {
		return nil, errManifest
	}
	if _, err := io.CopyN(io.Discard, reader, piece.At-at); err != nil {
		return nil, missing(err)
	}
	if int64(cap(buffer)) < piece.Size {
		buffer = make([]byte, piece.Size)
	}
	buffer = buffer[:piece.Size]
	if _, err := io.ReadFull(reader, buffer); err != nil {
		return nil, missing(err)
	}
	if sum := sha256.Sum256(buffer); !bytes.Equal(sum[:], piece.Sum) {
		return nil, errPiece
	}
	return buffer, nil
}

// readOldFile reads a file of format 1, a stream of a snapshot.
func readOldFile(from io.Reader, name string, part Part, visit func(key, value []byte) error) error {
	contents, err := machine.ReadStream(from, visit)
	if err == nil && contents != part.Contents {
		err = errors.New("the contents are not those of the manifest")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
