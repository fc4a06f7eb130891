// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// goleveldb_recover DIRECTORY [always]: opens a database with goleveldb, and
// recovers it if it seems corrupted, as go-ethereum and other programs do; with
// `always` in any case. Prints the number of entries, or the error.
package main

import (
	"fmt"
	"os"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/errors"
)

func main() {
	db, err := leveldb.OpenFile(os.Args[1], nil)
	if errors.IsCorrupted(err) || len(os.Args) > 2 {
		db, err = leveldb.RecoverFile(os.Args[1], nil)
	}
	if err != nil {
		fmt.Println("refused:", err)
		return
	}
	iterator := db.NewIterator(nil, nil)
	count := 0
	for iterator.Next() {
		count++
	}
	iterator.Release()
	fmt.Println("entries:", count)
	db.Close()
}
