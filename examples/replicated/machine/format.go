// Varve: a key-value storage engine. MIT licence, see LICENSE.
package machine

import (
	"crypto/sha256"
	"encoding/binary"
	"math"

	"varve.example/replicated/storage"
)

// The entries of a shard's database, format 2:
//
//	"a"                        the index of the last applied log entry, 8 bytes
//	"e" time bucket key        empty: the key may expire at this time
//	"k" bucket key             flags, the time of expiry if a flag says so, value
//
// A bucket is 32 bits of the key's hash, the highest byte first. It orders a
// shard's keys, so that a number is enough to say where a scan continues. A
// time is milliseconds since 1970 in 8 bytes, the highest first in a key and
// the lowest first in a value. Entries of "e" are in the order of time. They
// are not removed when their key is set again, but when their time has come.
const (
	Format       = 2
	Prefix       = "k" // Of users' keys.
	prefixEnd    = "l"
	expiryPrefix = "e"
	indexKey     = "a" // Before all others.
	bucketBytes  = 4
	timeBytes    = 8
	keyHeader    = len(Prefix) + bucketBytes
	expiryHeader = len(expiryPrefix) + timeBytes
)

const flagExpires = 1

// Limits of what a user stores.
const (
	MaxKeyBytes   = 64 << 10
	MaxValueBytes = 16 << 20
)

// Hash is FNV-1a. The shard and the bucket of a key follow from it.
func Hash(key []byte) uint64 {
	hash := uint64(14695981039346656037)
	for _, b := range key {
		hash = (hash ^ uint64(b)) * 1099511628211
	}
	return hash
}

// Bucket is where in its shard a key is. It mixes the bits of the hash, since
// the shard has been chosen by some of them.
func Bucket(key []byte) uint32 {
	hash := Hash(key)
	hash = (hash ^ hash>>32) * 0x9e3779b97f4a7c15
	return uint32(hash >> 32)
}

// AppendKey appends a user's key as it is stored.
func AppendKey(to, key []byte) []byte {
	to = append(to, Prefix...)
	to = binary.BigEndian.AppendUint32(to, Bucket(key))
	return append(to, key...)
}

// StoredKey is AppendKey to nothing.
func StoredKey(key []byte) []byte { return AppendKey(make([]byte, 0, keyHeader+len(key)), key) }

// AppendValue appends a value as it is stored. It expires unless the time is 0.
func AppendValue(to, value []byte, expires int64) []byte {
	if expires == 0 {
		to = append(to, 0)
	} else {
		to = binary.LittleEndian.AppendUint64(append(to, flagExpires), uint64(expires))
	}
	return append(to, value...)
}

// HeadBytes of a stored value are enough to say whether it exists.
const HeadBytes = 1 + timeBytes

// Value takes apart a stored value. There is none if it has expired.
func Value(stored []byte, now int64) (value []byte, expires int64, exists bool) {
	if len(stored) == 0 {
		return nil, 0, false
	}
	if value = stored[1:]; stored[0]&flagExpires == 0 {
		return value, 0, true
	}
	if len(value) < timeBytes {
		return nil, 0, false
	}
	expires = int64(binary.LittleEndian.Uint64(value))
	return value[timeBytes:], expires, expires > now
}

// Fingerprint is equal for equal values with equal expiry, and empty if there is
// no value.
func Fingerprint(stored []byte, now int64) []byte {
	if _, _, exists := Value(stored, now); !exists {
		return nil
	}
	sum := sha256.Sum256(stored)
	return sum[:]
}

// appendExpiry appends the key under which a stored key's expiry is found.
func appendExpiry(to []byte, expires int64, storedKey []byte) []byte {
	to = binary.BigEndian.AppendUint64(append(to, expiryPrefix...), uint64(expires))
	return append(to, storedKey[len(Prefix):]...)
}

// Proposals: the format in a byte, the proposer's time in 8 bytes, then
// operations. An operation is a code, a stored key with its length, and an
// argument with its length, which Delete has not. Put and Delete are as in a
// storage.Batch. So proposals of puts only are copied into batches.
type Code byte

// Operations, and what they answer. Those with times in their arguments have
// absolute ones. All replicas use the proposal's time for what has expired.
const (
	Delete    Code = storage.KindDelete // 1 or 0
	Put       Code = storage.KindPut    // nothing
	Set       Code = iota + 14          // OK or nil; with SetGet the old value or nil
	Incr                                // the sum
	IncrFloat                           // the sum as text
	Append                              // the new length
	SetRange                            // the new length
	Take                                // the value, which is deleted, or nil
	Expire                              // 1 or 0
	Read                                // the value or nil; with a time it is set first
	Look                                // the value as it is stored, or nil
	Check                               // 1; 0 if the key has changed, and the rest is not done
	SetMany                             // 1; 0 if one exists, and nothing is set
	Sweep                               // the number of entries looked at; alone in its proposal
	FlushAll                            // OK; alone in its proposal
	Together                            // OK; nil or an error if the operations after it are not done
	endOfCodes
)

const (
	proposalFormat = 2
	proposalHeader = 1 + timeBytes
)

// NewProposal begins a proposal.
func NewProposal(to []byte, now int64) []byte {
	return binary.LittleEndian.AppendUint64(append(to, proposalFormat), uint64(now))
}

func appendStoredKey(to, key []byte) []byte {
	to = binary.AppendUvarint(to, uint64(keyHeader+len(key)))
	return AppendKey(to, key)
}

func appendText(to, text []byte) []byte {
	return append(binary.AppendUvarint(to, uint64(len(text))), text...)
}

// AppendPut appends an operation without an answer that sets a key, whatever
// there was.
func AppendPut(to, key, value []byte, expires int64) []byte {
	to = appendStoredKey(append(to, byte(Put)), key)
	size := 1 + len(value)
	if expires != 0 {
		size += timeBytes
	}
	to = AppendValue(binary.AppendUvarint(to, uint64(size)), value, expires)
	if expires != 0 {
		to = binary.AppendUvarint(append(to, byte(Put)), uint64(expiryHeader+bucketBytes+len(key)))
		to = binary.BigEndian.AppendUint64(append(to, expiryPrefix...), uint64(expires))
		to = append(binary.BigEndian.AppendUint32(to, Bucket(key)), key...)
		to = append(to, 0) // No bytes of value.
	}
	return to
}

// AppendStored appends an operation that sets an entry as it is stored.
func AppendStored(to, key, value []byte) []byte {
	return storage.AppendPut(to, "", key, value)
}

// AppendDeleteStored appends an operation that removes an entry, which may be one about
// expiry. Only the conversion to slots removes those by a proposal: programs that know
// no conversion take it for malformed.
func AppendDeleteStored(to, key []byte) []byte { return appendText(append(to, byte(Delete)), key) }

// AppendDelete appends an operation that removes a key.
func AppendDelete(to, key []byte) []byte { return appendStoredKey(append(to, byte(Delete)), key) }

// AppendOperation appends one with an argument, which is made by one of the
// functions below.
func AppendOperation(to []byte, code Code, key, argument []byte) []byte {
	return appendText(appendStoredKey(append(to, byte(code)), key), argument)
}

// Flags of Set, and of Expire.
const (
	SetIfMissing = 1 << iota
	SetIfExists
	SetGet
	SetKeepExpiry
	ExpireIfNever
	ExpireIfEver
	ExpireIfLater
	ExpireIfSooner
	ExpireNever // Persist: the time is 0.
)

// TimedArgument is of Set, Expire and Read: flags, a time, and Set's value. The
// time 0 is none.
func TimedArgument(flags uint16, expires int64, value []byte) []byte {
	argument := make([]byte, 0, 2+timeBytes+len(value))
	argument = binary.LittleEndian.AppendUint16(argument, flags)
	return append(binary.LittleEndian.AppendUint64(argument, uint64(expires)), value...)
}

// ReturnsValue says whether Set with this argument answers with the old value.
func ReturnsValue(argument []byte) bool { return argument[0]&SetGet != 0 }

// NumberArgument is of Incr, SetRange and Sweep, with SetRange's bytes.
func NumberArgument(number int64, bytes []byte) []byte {
	argument := make([]byte, 0, 8+len(bytes))
	return append(binary.LittleEndian.AppendUint64(argument, uint64(number)), bytes...)
}

// TogetherArgument is of Together: how many of the operations after it are done
// all or not at all, and how many bytes their answers may have. 0 bytes are no
// limit. Together answers nil if the answers are larger, and an error if the
// operations read and write too much. The operations then answer nil.
func TogetherArgument(operations, answers int64) []byte {
	return NumberArgument(operations, NumberArgument(answers, nil))
}

// AllTogether is a copy of a proposal whose operations are done together.
// Its first answer is the one of Together.
func AllTogether(proposal []byte, answers int64) []byte {
	all := append(make([]byte, 0, len(proposal)+32), proposal[:proposalHeader]...)
	all = AppendOperation(all, Together, nil, TogetherArgument(math.MaxInt64, answers))
	return append(all, proposal[proposalHeader:]...)
}

// ManyArgument is of SetMany: the same form as operations of AppendPut.
func ManyArgument(pairs [][]byte) []byte {
	var argument []byte
	for i := 0; i+1 < len(pairs); i += 2 {
		argument = AppendPut(argument, pairs[i], pairs[i+1], 0)
	}
	return argument
}

// operation is one of a proposal, without copies.
type operation struct {
	code          Code
	key, argument []byte // The key as it is stored.
}

// eachOperation calls visit for the operations in order and returns their
// number. If it returns an error, the bytes are no proposal and visit may have
// been called for some of it.
func eachOperation(proposal []byte, visit func(operation)) (int, error) {
	if len(proposal) <= proposalHeader || proposal[0] != proposalFormat {
		return 0, storage.ErrMalformed
	}
	count, alone := 0, false
	for rest := proposal[proposalHeader:]; len(rest) > 0; count++ {
		var op operation
		var ok bool
		op.code = Code(rest[0])
		if op.key, rest, ok = cutText(rest[1:]); ok && op.code != Delete {
			op.argument, rest, ok = cutText(rest)
		}
		if !ok || !validCode(op.code) || !validKey(op) {
			return 0, storage.ErrMalformed
		}
		alone = alone || op.code == Sweep || op.code == FlushAll
		if visit != nil {
			visit(op)
		}
	}
	if alone && count > 1 {
		return 0, storage.ErrMalformed
	}
	return count, nil
}

func validCode(code Code) bool {
	return code == Delete || code == Put || code >= Set && code < endOfCodes
}

func validKey(op operation) bool {
	isUser := len(op.key) >= keyHeader && op.key[0] == Prefix[0]
	isExpiry := len(op.key) >= expiryHeader+bucketBytes && op.key[0] == expiryPrefix[0]
	return isUser || isExpiry && (op.code == Put || op.code == Delete)
}

// ValidEntry says whether a user's entry may have this key, as it is stored.
func ValidEntry(key []byte) bool { return validKey(operation{Put, key, nil}) }

func cutText(from []byte) (text, rest []byte, ok bool) {
	size, n := binary.Uvarint(from)
	if n <= 0 || size > uint64(len(from)-n) {
		return nil, nil, false
	}
	return from[n : n+int(size) : n+int(size)], from[n+int(size):], true
}

func proposalTime(proposal []byte) int64 {
	return int64(binary.LittleEndian.Uint64(proposal[1:]))
}

// ReplyKind says what an operation has answered.
type ReplyKind byte

// The kinds of answers.
const (
	ReplyNil ReplyKind = iota
	ReplyInt
	ReplyBytes
	ReplyOK
	ReplyError
)

// Reply is the answer of an operation.
type Reply struct {
	Kind  ReplyKind
	Int   int64
	Bytes []byte // Also the text of an error.
}

func appendReply(to []byte, reply Reply) []byte {
	to = append(to, byte(reply.Kind))
	switch reply.Kind {
	case ReplyInt:
		return binary.AppendVarint(to, reply.Int)
	case ReplyBytes, ReplyError:
		return appendText(to, reply.Bytes)
	}
	return to
}

// ParseReplies takes apart the answers of a proposal, one for each operation
// but Put.
func ParseReplies(data []byte) ([]Reply, error) {
	var replies []Reply
	for len(data) > 0 {
		reply := Reply{Kind: ReplyKind(data[0])}
		data = data[1:]
		ok := true
		switch reply.Kind {
		case ReplyNil, ReplyOK:
		case ReplyInt:
			var n int
			reply.Int, n = binary.Varint(data)
			if ok = n > 0; ok {
				data = data[n:]
			}
		case ReplyBytes, ReplyError:
			reply.Bytes, data, ok = cutText(data)
		default:
			ok = false
		}
		if !ok {
			return nil, storage.ErrMalformed
		}
		replies = append(replies, reply)
	}
	return replies, nil
}
