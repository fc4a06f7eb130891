// Varve: a key-value storage engine. MIT licence, see LICENSE.

//go:build !amd64 && !arm64

package bench

func pause() {}
