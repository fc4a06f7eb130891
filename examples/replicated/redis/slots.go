// Varve: a key-value storage engine. MIT licence, see LICENSE.
package redis

import (
	"bytes"

	"varve.example/replicated/machine"
)

// Slots is how many slots Redis Cluster divides keys into. A cluster has at most as
// many shards, each with a range of slots.
const Slots = 16384

// hashed is what decides about a key's slot: the text in the first braces, or the
// key if there is none.
func hashed(key []byte) []byte {
	if begin := bytes.IndexByte(key, '{'); begin >= 0 {
		if size := bytes.IndexByte(key[begin+1:], '}'); size > 0 {
			return key[begin+1 : begin+1+size]
		}
	}
	return key
}

// crcTable is for the polynomial 0x1021, the highest bit first.
var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for bit := 0; bit < 8; bit++ {
			carry := crc >> 15
			crc = crc<<1 ^ carry*0x1021
		}
		table[i] = crc
	}
	return table
}()

// crc16 is CRC-16/XMODEM, the checksum of Redis Cluster.
func crc16(data []byte) uint16 {
	crc := uint16(0)
	for _, b := range data {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^b]
	}
	return crc
}

// SlotOf is the slot of a key in Redis Cluster.
func SlotOf(key []byte) int { return int(crc16(hashed(key)) % Slots) }

// ShardOf is the shard of a key, from 1. If the key has braces with text in between,
// only that text counts, so that keys can be kept together.
func ShardOf(key []byte, shards uint64) uint64 { return shardOfSlot(SlotOf(key), shards) }

func shardOfSlot(slot int, shards uint64) uint64 { return uint64(slot)*shards/Slots + 1 }

// slotsOf are the first and the last slot of a shard.
func slotsOf(shard, shards uint64) (first, last int) {
	begin := func(shard uint64) int { return int((shard*Slots + shards - 1) / shards) }
	return begin(shard - 1), begin(shard) - 1
}

// HashedShardOf is ShardOf in clusters that were created before there were slots.
func HashedShardOf(key []byte, shards uint64) uint64 {
	hash := machine.Hash(hashed(key))
	return (hash^hash>>32)%shards + 1
}
