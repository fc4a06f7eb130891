// Varve: a key-value storage engine. MIT licence, see LICENSE.

//go:build amd64 || arm64

package bench

// pause leaves more of the core to its other hardware thread.
func pause()
