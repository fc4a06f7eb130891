// Varve: a key-value storage engine. MIT licence, see LICENSE.
package machine

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/big"
	"strconv"
	"strings"

	sm "github.com/lni/dragonboat/v3/statemachine"

	"varve.example/replicated/storage"
)

const (
	// Bytes that the operations of one proposal may read and write. The first
	// operation may always do its work. Those of a group are all done or none.
	// Replicas batch proposals in different ways, so the limit cannot be one of
	// a batch.
	maxProposalWork = 2 * MaxValueBytes
	// Bytes after which a batch is written, with the index of its last proposal.
	maxBatchBytes = 8 << 20
	maxFetched    = 512 // Keys that are read before a batch is applied.
)

// applier is the state of one Update.
type applier struct {
	db    storage.Database
	batch storage.Batch
	// The stored values of user keys that the batch changes, nil if it removes
	// the key.
	pending      map[string][]byte
	pendingBytes int
	// Values of the database, until a batch is written.
	fetched map[string][]byte

	// Of the proposal that is applied.
	now     int64
	work    int
	first   bool
	aborted bool // By a Check.
	replies []byte
	group   group
}

// group is operations that are done together or not at all, after Together. The
// rest is what there was before.
type group struct {
	left         int64 // Operations to come.
	failed       bool
	limit        int // Bytes of answers, if not 0.
	answered     int // Operations that have answered.
	replies      int
	batch        storage.Batch
	pendingBytes int
	changes      []change
}

// change is what was pending of a key before.
type change struct {
	key    string
	stored []byte
	known  bool
}

// Update applies proposals. Result.Value is the number of operations, 0 if the
// bytes are no proposal. Result.Data has the answers.
func (m *Machine) Update(entries []sm.Entry) ([]sm.Entry, error) {
	applied, err := m.update(entries)
	if err != nil && m.Fatal != nil {
		m.Fatal(err)
	}
	for i := range applied {
		m.written.Add(uint64(len(applied[i].Cmd)))
	}
	return applied, err
}

func (m *Machine) update(entries []sm.Entry) ([]sm.Entry, error) {
	a := &m.apply
	a.db = m.db
	a.batch.Reset()
	var keys [][]byte
	plain := true
	for i := range entries {
		count, err := eachOperation(entries[i].Cmd, func(op operation) {
			if op.code != Put {
				plain = false
				if len(keys) < maxFetched && op.code < Sweep {
					keys = append(keys, op.key)
				}
			}
		})
		if err == nil { // Otherwise each replica skips it.
			entries[i].Result.Value = uint64(count)
		}
	}
	last := entries[len(entries)-1].Index
	if plain {
		for i := range entries {
			if count := entries[i].Result.Value; count > 0 {
				a.batch.Add(entries[i].Cmd[proposalHeader:], int(count))
			}
		}
		if err := a.write(last); err != nil {
			return nil, err
		}
		m.applied.Store(last)
		return entries, nil
	}
	if err := a.fetch(keys); err != nil {
		return nil, err
	}
	for i := range entries {
		if err := a.entry(entries, i); err != nil {
			return nil, err
		}
	}
	err := a.write(last)
	a.pending, a.fetched = nil, nil
	if err != nil {
		return nil, err
	}
	m.applied.Store(last)
	return entries, nil
}

// fetch reads keys in one call. The values are read one at a time if they are
// large, or if a key is not among them.
func (a *applier) fetch(keys [][]byte) error {
	a.pending, a.fetched = map[string][]byte{}, map[string][]byte{}
	if len(keys) < 2 {
		return nil
	}
	values, err := a.db.Get(keys, make([][]byte, 0, len(keys)), maxBatchBytes)
	if err == storage.ErrTooLarge {
		return nil
	}
	for i := range values {
		a.fetched[string(keys[i])] = values[i]
	}
	return err
}

// write writes the batch with the index of the last entry that is in it.
func (a *applier) write(index uint64) error {
	a.batch.Put(indexKey, binary.LittleEndian.AppendUint64(nil, index))
	err := a.db.Write(a.batch.Bytes())
	a.batch.Reset()
	clear(a.pending)
	clear(a.fetched)
	a.pendingBytes = 0
	return err
}

func (a *applier) entry(entries []sm.Entry, i int) error {
	entry := &entries[i]
	if entry.Result.Value == 0 {
		return nil
	}
	// Some work on the database itself, so that all before is written, and they
	// are written before all that comes after.
	code := Code(entry.Cmd[proposalHeader])
	alone := code == Sweep || code == FlushAll
	if alone && i > 0 {
		if err := a.write(entries[i-1].Index); err != nil {
			return err
		}
	}
	a.now, a.work, a.first, a.aborted = proposalTime(entry.Cmd), 0, true, false
	a.replies, a.group = nil, group{}
	var failure error
	eachOperation(entry.Cmd, func(op operation) {
		if failure == nil {
			failure = a.operation(op)
		}
	})
	entry.Result.Data, a.group = a.replies, group{}
	if failure == nil && (alone || a.batch.Size() > maxBatchBytes || a.pendingBytes > maxBatchBytes) {
		failure = a.write(entry.Index)
	}
	return failure
}

func (a *applier) answer(kind ReplyKind, number int64, text []byte) {
	a.replies = appendReply(a.replies, Reply{kind, number, text})
}

func (a *applier) refuse(text string) { a.answer(ReplyError, 0, []byte(text)) }

// current is what there is of a key.
type current struct {
	stored  []byte // nil if there is nothing, also nothing that has expired.
	value   []byte
	expires int64
	exists  bool // And has not expired.
}

func (a *applier) load(key []byte) (current, error) {
	stored, known := a.pending[string(key)]
	if !known {
		if stored, known = a.fetched[string(key)]; !known {
			values, err := a.db.Get([][]byte{key}, make([][]byte, 0, 1), 0)
			if err != nil {
				return current{}, err
			}
			stored = values[0]
		}
	}
	a.work += len(stored)
	c := current{stored: stored}
	if c.value, c.expires, c.exists = Value(stored, a.now); !c.exists {
		c.value = nil
	}
	return c, nil
}

func (a *applier) set(key, stored []byte) {
	a.batch.PutBytes(key, stored)
	a.change(key, stored)
	a.pendingBytes += len(stored)
}

func (a *applier) change(key, stored []byte) {
	if a.group.left > 0 {
		old, known := a.pending[string(key)]
		a.group.changes = append(a.group.changes, change{string(key), old, known})
	}
	a.pending[string(key)] = stored
}

// store sets a key. It records when the key expires, if that is new.
func (a *applier) store(key, value []byte, expires int64, c current) {
	stored := AppendValue(make([]byte, 0, 1+timeBytes+len(value)), value, expires)
	a.work += len(stored)
	a.set(key, stored)
	if expires != 0 && (!c.exists || c.expires != expires) {
		a.batch.PutBytes(appendExpiry(nil, expires, key), nil)
	}
}

func (a *applier) remove(key []byte, c current) {
	if c.stored != nil {
		a.batch.Delete(key)
		a.change(key, nil)
	}
}

const (
	malformed = "ERR malformed operation"
	tooMuch   = "ERR too much data at once"
)

func (a *applier) operation(op operation) error {
	g := &a.group
	if a.aborted || g.failed && g.left > 0 {
		g.left--
		if op.code != Put {
			a.answer(ReplyNil, 0, nil)
		}
		return nil
	}
	if op.code == Together && g.left <= 0 {
		a.begin(op)
		return nil
	}
	err := a.perform(op)
	if g.left > 0 && !g.failed {
		if op.code != Put {
			g.answered++
		}
		if g.limit > 0 && len(a.replies)-g.replies > g.limit {
			a.undo(Reply{Kind: ReplyNil})
		}
		g.left--
	}
	return err
}

// begin begins a group.
func (a *applier) begin(op operation) {
	if len(op.argument) != 16 {
		a.refuse(malformed)
		return
	}
	a.group = group{left: int64(binary.LittleEndian.Uint64(op.argument)),
		limit:   int(min(binary.LittleEndian.Uint64(op.argument[8:]), math.MaxInt32)),
		replies: len(a.replies), batch: a.batch, pendingBytes: a.pendingBytes}
	a.answer(ReplyOK, 0, nil)
}

// undo makes as they were what the operations of the group have changed. This
// is the answer of Together.
func (a *applier) undo(answer Reply) {
	g := &a.group
	a.batch, a.pendingBytes = g.batch, g.pendingBytes
	for i := len(g.changes) - 1; i >= 0; i-- {
		if one := &g.changes[i]; one.known {
			a.pending[one.key] = one.stored
		} else {
			delete(a.pending, one.key)
		}
	}
	a.replies = appendReply(a.replies[:g.replies], answer)
	for ; g.answered > 0; g.answered-- {
		a.answer(ReplyNil, 0, nil)
	}
	g.failed, g.changes = true, nil
}

// tooLarge refuses an operation, or all of its group.
func (a *applier) tooLarge(op operation) {
	if a.group.left > 0 {
		a.undo(Reply{ReplyError, 0, []byte(tooMuch)})
		if op.code != Put {
			a.answer(ReplyNil, 0, nil)
		}
		a.group.left--
		return
	}
	a.refuse(tooMuch)
	a.aborted = op.code == Check // What was not compared is as good as changed.
}

func (a *applier) perform(op operation) error {
	grouped := a.group.left > 0
	if (op.code != Put || grouped) && a.work > maxProposalWork && !a.first {
		a.tooLarge(op)
		return nil
	}
	if op.code == Put {
		if grouped {
			a.work += len(op.argument)
			a.first = false
		}
		if op.key[0] == Prefix[0] {
			a.set(op.key, op.argument)
		} else {
			a.batch.PutBytes(op.key, op.argument)
		}
		return nil
	}
	a.first = false
	switch op.code {
	case Together: // Within a group it is a part of that.
		a.answer(ReplyOK, 0, nil)
		return nil
	case Sweep:
		return a.sweep(op)
	case FlushAll:
		a.batch.DeleteRange(expiryPrefix, prefixEnd)
		a.answer(ReplyOK, 0, nil)
		return nil
	case SetMany:
		return a.setMany(op)
	}
	if op.key[0] == expiryPrefix[0] { // By AppendDeleteStored.
		a.batch.Delete(op.key)
		a.answer(ReplyOK, 0, nil)
		return nil
	}
	c, err := a.load(op.key)
	if err != nil {
		return err
	}
	switch op.code {
	case Delete:
		a.answerBool(c.exists)
		a.remove(op.key, c)
	case Take:
		a.answerValue(c)
		a.remove(op.key, c)
	case Look:
		if c.exists {
			a.answer(ReplyBytes, 0, c.stored)
		} else {
			a.answer(ReplyNil, 0, nil)
		}
	case Check:
		a.aborted = !bytes.Equal(Fingerprint(c.stored, a.now), op.argument)
		a.answerBool(!a.aborted)
	case Set, Expire, Read:
		a.timed(op, c)
	case Incr, SetRange:
		a.numbered(op, c)
	case IncrFloat:
		a.incrFloat(op, c)
	case Append:
		a.answerLength(op.key, c, len(c.value), op.argument)
	}
	return nil
}

func (a *applier) answerBool(yes bool) {
	number := int64(0)
	if yes {
		number = 1
	}
	a.answer(ReplyInt, number, nil)
}

func (a *applier) answerValue(c current) {
	if c.exists {
		a.answer(ReplyBytes, 0, c.value)
	} else {
		a.answer(ReplyNil, 0, nil)
	}
}

func (a *applier) timed(op operation, c current) {
	if len(op.argument) < 2+timeBytes {
		a.refuse(malformed)
		return
	}
	flags := binary.LittleEndian.Uint16(op.argument)
	expires := int64(binary.LittleEndian.Uint64(op.argument[2:]))
	switch op.code {
	case Set:
		a.setIf(op.key, op.argument[2+timeBytes:], flags, expires, c)
	case Expire:
		a.answerBool(c.exists && mayExpire(flags, expires, c.expires))
		if c.exists && mayExpire(flags, expires, c.expires) {
			a.expire(op.key, expires, c)
		}
	default:
		a.answerValue(c)
		if c.exists && (expires != 0 || flags&ExpireNever != 0 && c.expires != 0) {
			a.expire(op.key, expires, c)
		}
	}
}

func (a *applier) setIf(key, value []byte, flags uint16, expires int64, c current) {
	done := !(flags&SetIfMissing != 0 && c.exists || flags&SetIfExists != 0 && !c.exists)
	switch {
	case flags&SetGet != 0:
		a.answerValue(c)
	case done:
		a.answer(ReplyOK, 0, nil)
	default:
		a.answer(ReplyNil, 0, nil)
	}
	if flags&SetKeepExpiry != 0 && c.exists {
		expires = c.expires
	}
	if done {
		a.store(key, value, expires, c)
	}
}

func mayExpire(flags uint16, expires, old int64) bool {
	switch {
	case flags&ExpireNever != 0:
		return old != 0
	case flags&ExpireIfNever != 0 && old != 0, flags&ExpireIfEver != 0 && old == 0:
		return false
	case flags&ExpireIfLater != 0 && (old == 0 || expires <= old):
		return false
	}
	return flags&ExpireIfSooner == 0 || old == 0 || expires < old
}

// expire sets when a key expires, 0 for never.
func (a *applier) expire(key []byte, expires int64, c current) {
	if expires != 0 && expires <= a.now {
		a.remove(key, c)
	} else {
		a.store(key, c.value, expires, c)
	}
}

func (a *applier) numbered(op operation, c current) {
	if len(op.argument) < 8 {
		a.refuse(malformed)
		return
	}
	number := int64(binary.LittleEndian.Uint64(op.argument))
	if op.code == SetRange {
		// Nothing to set leaves a key that is missing so.
		if text := op.argument[8:]; len(text) == 0 {
			a.answer(ReplyInt, int64(len(c.value)), nil)
		} else {
			a.answerLength(op.key, c, int(min(number, MaxValueBytes+1)), text)
		}
		return
	}
	old := int64(0)
	if c.exists {
		var ok bool
		if old, ok = ParseInt(c.value); !ok {
			a.refuse("ERR value is not an integer or out of range")
			return
		}
	}
	if number > 0 && old > math.MaxInt64-number || number < 0 && old < math.MinInt64-number {
		a.refuse("ERR increment or decrement would overflow")
		return
	}
	a.answer(ReplyInt, old+number, nil)
	a.store(op.key, strconv.AppendInt(nil, old+number, 10), c.keep(), c)
}

// keep is the time of expiry that a changed value keeps.
func (c current) keep() int64 {
	if !c.exists {
		return 0
	}
	return c.expires
}

// answerLength sets bytes of a value, which grows with zeros if need be.
func (a *applier) answerLength(key []byte, c current, at int, text []byte) {
	size := max(len(c.value), at+len(text))
	if at < 0 || size > MaxValueBytes {
		a.refuse("ERR string exceeds maximum allowed size")
		return
	}
	value := make([]byte, size)
	copy(value, c.value)
	copy(value[at:], text)
	a.answer(ReplyInt, int64(size), nil)
	a.store(key, value, c.keep(), c)
}

func (a *applier) incrFloat(op operation, c current) {
	old, ok := new(big.Float), true
	if c.exists {
		old, ok = ParseFloat(c.value)
	}
	delta, good := ParseFloat(op.argument)
	if !ok || !good {
		a.refuse("ERR value is not a valid float")
		return
	}
	sum := new(big.Float).SetPrec(floatBits).Add(old, delta)
	if check, _ := sum.Float64(); math.IsInf(check, 0) {
		a.refuse("ERR increment would produce NaN or Infinity")
		return
	}
	text := strings.TrimSuffix(strings.TrimRight(sum.Text('f', 17), "0"), ".")
	if text == "-0" || text == "" {
		text = "0"
	}
	a.answer(ReplyBytes, 0, []byte(text))
	a.store(op.key, []byte(text), c.keep(), c)
}

// setMany sets keys if none of them exists.
func (a *applier) setMany(op operation) error {
	var keys, values [][]byte
	for rest := op.argument; len(rest) > 0; {
		code := Code(rest[0])
		key, after, ok := cutText(rest[1:])
		var value []byte
		if ok {
			value, after, ok = cutText(after)
		}
		if !ok || code != Put || !validKey(operation{Set, key, nil}) {
			a.refuse(malformed)
			return nil
		}
		keys, values, rest = append(keys, key), append(values, value), after
	}
	for _, key := range keys {
		c, err := a.load(key)
		if err != nil {
			return err
		}
		if c.exists {
			a.answerBool(false)
			return nil
		}
	}
	for i := range keys {
		a.work += len(values[i])
		a.set(keys[i], values[i])
	}
	a.answerBool(true)
	return nil
}

// sweep removes keys whose time has come.
func (a *applier) sweep(op operation) error {
	if len(op.argument) != 8 {
		a.refuse(malformed)
		return nil
	}
	limit := int(binary.LittleEndian.Uint64(op.argument))
	var expiries [][]byte
	_, err := eachEntry(a.db, []byte(expiryPrefix), expiryEnd(a.now), func(key, _ []byte) bool {
		expiries = append(expiries, append([]byte(nil), key...))
		return len(expiries) < limit
	})
	if err != nil {
		return err
	}
	for _, expiry := range expiries {
		key := append([]byte(Prefix), expiry[expiryHeader:]...)
		c, err := a.load(key)
		if err != nil {
			return err
		}
		if c.expires == int64(binary.BigEndian.Uint64(expiry[len(expiryPrefix):])) {
			a.remove(key, c)
		}
		a.batch.Delete(expiry)
	}
	a.answer(ReplyInt, int64(len(expiries)), nil)
	return nil
}

// ParseInt takes what Redis takes for an integer: no plus sign, no blanks and
// no zeros in front.
func ParseInt(text []byte) (int64, bool) {
	digits := text
	if len(digits) > 0 && digits[0] == '-' {
		digits = digits[1:]
	}
	if len(digits) == 0 || len(digits) > 19 || digits[0] == '0' && len(text) > 1 {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	number, err := strconv.ParseInt(string(text), 10, 64)
	return number, err == nil
}

const (
	floatBits     = 64 // As the long double of most of Redis's machines.
	maxFloatBytes = 400
)

// ParseFloat takes a finite decimal number. Its cost is bounded.
func ParseFloat(text []byte) (*big.Float, bool) {
	if len(text) == 0 || len(text) > maxFloatBytes {
		return nil, false
	}
	for _, c := range text {
		if !(c >= '0' && c <= '9' || strings.IndexByte("+-.eE", c) >= 0) {
			return nil, false
		}
	}
	near, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return nil, false
	}
	if near == 0 {
		return new(big.Float).SetPrec(floatBits), true // Perhaps with a large exponent.
	}
	number, _, err := big.ParseFloat(string(text), 10, floatBits, big.ToNearestEven)
	return number, err == nil
}
