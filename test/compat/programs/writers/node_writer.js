// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// node_writer.js PACKAGE DIRECTORY COUNT: writes a database with the npm
// package classic-level (LevelDB) or leveldb-zlib (Mojang's LevelDB) and prints
// its contents. The process ends as if it were killed.
'use strict'

const fs = require('fs')
const [name, directory, count] = process.argv.slice(2)
const key = k => Buffer.from('key' + String(k).padStart(8, '0'))

async function main () {
  const module = require(name)
  const options = {
    keyEncoding: 'buffer', valueEncoding: 'buffer', createIfMissing: true,
    writeBufferSize: 65536, blockSize: 512
  }
  const isZlib = name === 'leveldb-zlib'
  const db = isZlib
    ? new module.LevelDB(directory, options)
    : new module.ClassicLevel(directory, options)
  await db.open()
  const remove = k => isZlib ? db.delete(k) : db.del(k)
  await db.put(Buffer.from([0]), Buffer.from('zero'))
  await db.put(Buffer.from([255, 255]), Buffer.from('last'))
  await db.put(Buffer.from('empty'), Buffer.from(''))
  for (let i = 0; i < count; ++i) {
    const k = i * 7919 % count
    const value = 'value' + String(k).padStart(50, '0')
    await db.put(key(k), Buffer.from(value))
    if (i % 5 === 4) await remove(key(Math.floor(i / 5) * 7919 % count))
  }
  let text = ''
  for await (const [k, v] of isZlib ? db.getIterator() : db.iterator()) {
    text += k.toString('hex') + ' => ' + v.toString('hex') + '\n'
  }
  fs.writeSync(1, text)
  process.kill(process.pid, 'SIGKILL')
}

main()
