// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: no replacement of a node leaves a shard with fewer nodes or more.
// Method: each way to mistype one, against the members of a shard.

package node

import (
	"testing"

	"github.com/lni/dragonboat/v3"
)

func TestReplacementsThatAreMistakes(t *testing.T) {
	members := &dragonboat.Membership{
		Nodes:   map[uint64]string{1: "a:1", 2: "b:1", 4: "d:1"},
		Removed: map[uint64]struct{}{3: {}},
	}
	for _, test := range []struct {
		name         string
		oldID, newID uint64
		address      string
		good         bool
	}{
		{"a new one", 1, 5, "e:1", true},
		{"a new one at the old one's address", 1, 5, "a:1", true},
		{"the first half was done before", 3, 5, "c:1", true},
		{"all was done before", 3, 4, "d:1", true},
		{"by itself", 1, 1, "a:1", false},
		{"by a member", 1, 2, "b:1", false},
		{"by one that was removed", 1, 3, "c:1", false},
		{"of one that never was", 9, 5, "e:1", false},
		{"done before, elsewhere", 3, 4, "x:1", false},
		{"at another one's address", 1, 5, "b:1", false},
	} {
		if err := checkReplacement(members, test.oldID, test.newID, test.address); (err == nil) != test.good {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}
