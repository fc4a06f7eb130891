// Varve: a key-value storage engine. MIT licence, see LICENSE.
package node

import (
	"fmt"
	"syscall"
	"time"
)

const (
	diskPause   = 50 * time.Millisecond // A fast writer fills megabytes meanwhile.
	reservePart = 16                    // A small disk reserves this part of it at most.
)

// watchDisk ends the node in order while there is still space to do so. A write
// that fails, such as one of dragonboat's log, would end the process at once.
func (n *Node) watchDisk() {
	for {
		if err := checkDisk(n.options.Dir, n.options.ReserveBytes); err != nil {
			n.fail(err)
			return
		}
		if !n.wait(diskPause) {
			return
		}
	}
}

// checkDisk returns an error if less than a number of bytes is free. 0 is no check.
func checkDisk(dir string, reserve uint64) error {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(dir, &disk); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	free, size := disk.Bavail*uint64(disk.Bsize), disk.Blocks*uint64(disk.Bsize)
	if reserve = min(reserve, size/reservePart); free < reserve {
		return fmt.Errorf("the disk is full: %s has %d MiB left, and %d are reserved", dir, free>>20, reserve>>20)
	}
	return nil
}
