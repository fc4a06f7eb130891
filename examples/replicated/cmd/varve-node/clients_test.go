// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: an operator is warned of an address at which no other machine reaches a node.
// Method: addresses.
package main

import (
	"testing"

	"varve.example/replicated/node"
)

func TestAnAnnouncedLoopbackIsNoticed(t *testing.T) {
	for _, one := range []struct {
		address, announce string
		noticed           bool
	}{
		{"10.0.0.1:7000", "127.0.0.1:7001", true}, {"10.0.0.1:7000", "[::1]:7001", true},
		{"10.0.0.1:7000", "10.0.0.1:7001", false}, {"10.0.0.1:7000", "", false},
		{"127.0.0.1:7000", "127.0.0.1:7001", false}, // All on one machine.
	} {
		if got := announcesLoopback(&node.Options{Address: one.address, Announce: one.announce}); got != one.noticed {
			t.Errorf("%+v: %t", one, got)
		}
	}
}
