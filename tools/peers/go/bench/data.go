// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Package bench measures a storage engine with the work and the output of
// Varve's db_bench: the same keys and values in the same order.
package bench

import (
	"encoding/binary"
	"math/bits"
)

const (
	valueBytes  = 1 << 20
	pieceBytes  = 100
	goldenGamma = 0x9E3779B97F4A7C15
)

// random is SplitMix64, the generator of db_bench. Owned by one goroutine.
type random struct{ state uint64 }

func (r *random) next() uint64 {
	r.state += goldenGamma
	z := r.state
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
	z = (z ^ (z >> 27)) * 0x94D049BB133111EB
	return z ^ (z >> 31)
}

// uniform returns a number in [0, n).
func (r *random) uniform(n uint64) uint64 {
	high, _ := bits.Mul64(r.next(), n)
	return high
}

// setKey writes key number `number`: its lowest bytes, up to eight, highest
// first. The rest of the key is '0' already.
func setKey(number uint64, key []byte) {
	if len(key) >= 8 {
		binary.BigEndian.PutUint64(key, number)
		return
	}
	for i := len(key) - 1; i >= 0; i-- {
		key[i] = byte(number)
		number >>= 8
	}
}

func newKey(size int) []byte {
	key := make([]byte, size)
	for i := range key {
		key[i] = '0'
	}
	return key
}

// compressibleBytes returns printable bytes, of which compression reduces each
// 100 to about `ratio` of their size.
func compressibleBytes(seed uint64, ratio float64, size int) []byte {
	randomBytes := max(1, int(ratio*pieceBytes))
	source := random{seed}
	result := make([]byte, 0, size+pieceBytes)
	for len(result) < size {
		start := len(result)
		for i := range pieceBytes {
			if i < randomBytes {
				result = append(result, ' '+byte(source.uniform(95)))
			} else {
				result = append(result, result[start+i-randomBytes])
			}
		}
	}
	return result[:size]
}

// valueSource returns values, as consecutive pieces of the bytes.
type valueSource struct {
	bytes    []byte
	size     int
	position int
}

func (s *valueSource) next() []byte {
	if s.position+s.size > len(s.bytes) {
		s.position = 0
	}
	value := s.bytes[s.position : s.position+s.size]
	s.position += s.size
	return value
}

// permutation has the numbers [0, size) in random order, each once. A Feistel
// network permutes the next power of four.
type permutation struct {
	size     uint64
	halfBits uint
	keys     [4]uint64
}

func newPermutation(size, seed uint64) *permutation {
	p := &permutation{size: size, halfBits: 1}
	for uint64(1)<<(2*p.halfBits) < size {
		p.halfBits++
	}
	source := random{seed}
	for i := range p.keys {
		p.keys[i] = source.next()
	}
	return p
}

func (p *permutation) at(index uint64) uint64 {
	for {
		index = p.permute(index)
		if index < p.size {
			return index
		}
	}
}

func (p *permutation) permute(number uint64) uint64 {
	mask := uint64(1)<<p.halfBits - 1
	left, right := number>>p.halfBits, number&mask
	for _, key := range p.keys {
		mixed := (right ^ key) * goldenGamma
		mixed ^= mixed >> 32
		next := left ^ (mixed * 0xD6E8FEB86659FD93 >> 32 & mask)
		left, right = right, next
	}
	return left<<p.halfBits | right
}
