// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// goleveldb_writer DIRECTORY COUNT [close]: writes a database with goleveldb
// and prints its contents. Without `close` the process ends as if it were
// killed.
package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/opt"
)

func key(k int) []byte { return []byte(fmt.Sprintf("key%08d", k)) }

func main() {
	count, _ := strconv.Atoi(os.Args[2])
	db, err := leveldb.OpenFile(os.Args[1], &opt.Options{
		WriteBuffer: 16384, BlockSize: 512, Filter: filter.NewBloomFilter(10)})
	if err != nil {
		panic(err)
	}
	db.Put([]byte{0}, []byte("zero"), nil)
	db.Put([]byte{255, 255}, []byte("last"), nil)
	db.Put([]byte("empty"), nil, nil)
	for i := 0; i < count; i++ {
		k := i * 7919 % count
		db.Put(key(k), []byte(fmt.Sprintf("value%050d", k)), nil)
		if i%5 == 4 {
			db.Delete(key(i/5*7919%count), nil)
		}
	}
	iterator := db.NewIterator(nil, nil)
	for iterator.Next() {
		fmt.Printf("%x => %x\n", iterator.Key(), iterator.Value())
	}
	iterator.Release()
	if len(os.Args) > 3 {
		db.Close()
	}
}
