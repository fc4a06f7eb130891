// Varve: a key-value storage engine. MIT licence, see LICENSE.
package redis

import (
	"sync"

	"github.com/tidwall/redcon"

	"varve.example/replicated/machine"
	"varve.example/replicated/storage"
)

// place is where the answer for a key is: the shard's answer, at an index.
type place struct {
	part  *part
	index int
}

// part is what goes to one shard, and what comes back.
type part struct {
	shard   uint64
	updates []byte
	deletes int
	keys    [][]byte
	data    []byte
	values  [][]byte
	err     error
}

type parts struct {
	shards uint64
	byID   map[uint64]*part
}

func (p *parts) of(key []byte) *part {
	shard := ShardOf(key, p.shards)
	found := p.byID[shard]
	if found == nil {
		found = &part{shard: shard}
		p.byID[shard] = found
	}
	return found
}

// each does it for all parts at the same time.
func (p *parts) each(do func(*part)) {
	var group sync.WaitGroup
	left := len(p.byID)
	for _, one := range p.byID {
		if left--; left == 0 {
			do(one) // The last one here.
			break
		}
		group.Add(1)
		go func() {
			defer group.Done()
			do(one)
		}()
	}
	group.Wait()
}

func failure(places []place) error {
	for _, at := range places {
		if at.part.err != nil {
			return at.part.err
		}
	}
	return nil
}

func (s *Server) write(conn redcon.Conn, run []request) {
	all := parts{s.store.Shards(), map[uint64]*part{}}
	places := make([][]place, len(run))
	for i := range run {
		words := run[i].Args[1:]
		for len(words) > 0 {
			to := all.of(words[0])
			places[i] = append(places[i], place{to, to.deletes})
			if run[i].name == "del" {
				to.updates = storage.AppendDelete(to.updates, machine.Prefix, words[0])
				to.deletes++
				words = words[1:]
			} else {
				to.updates = storage.AppendPut(to.updates, machine.Prefix, words[0], words[1])
				words = words[2:]
			}
		}
	}
	all.each(func(to *part) { to.data, to.err = s.store.Propose(to.shard, to.updates) })
	for i := range run {
		if err := failure(places[i]); err != nil {
			conn.WriteError("ERR " + err.Error())
			continue
		}
		if run[i].name != "del" {
			conn.WriteString("OK")
			continue
		}
		count := 0
		for _, at := range places[i] {
			count += int(at.part.data[at.index])
		}
		conn.WriteInt(count)
	}
}

func (s *Server) read(conn redcon.Conn, run []request) {
	all := parts{s.store.Shards(), map[uint64]*part{}}
	places := make([][]place, len(run))
	for i := range run {
		for _, key := range run[i].Args[1:] {
			to := all.of(key)
			places[i] = append(places[i], place{to, len(to.keys)})
			stored := append(make([]byte, 0, len(key)+1), machine.Prefix...)
			to.keys = append(to.keys, append(stored, key...))
		}
	}
	stale := conn.Context().(*connection).stale
	all.each(func(to *part) {
		var answer interface{}
		answer, to.err = s.store.Read(to.shard, machine.Get{Keys: to.keys}, stale)
		if to.err == nil {
			to.values = answer.([][]byte)
		}
	})
	for i := range run {
		if err := failure(places[i]); err != nil {
			conn.WriteError("ERR " + err.Error())
			continue
		}
		if run[i].name == "exists" {
			count := 0
			for _, at := range places[i] {
				if at.part.values[at.index] != nil {
					count++
				}
			}
			conn.WriteInt(count)
			continue
		}
		if run[i].name == "mget" {
			conn.WriteArray(len(places[i]))
		}
		for _, at := range places[i] {
			if value := at.part.values[at.index]; value != nil {
				conn.WriteBulk(value)
			} else {
				conn.WriteNull()
			}
		}
	}
}
