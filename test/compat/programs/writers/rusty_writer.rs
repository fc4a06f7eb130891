// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// rusty_writer DIRECTORY COUNT COMPRESSION: writes a database with
// rusty-leveldb and prints its contents. COMPRESSION is the number in the
// blocks: 0 none, 1 Snappy, 2 zlib's format, 4 a raw stream of deflate.

use flate2::{read, write, Compression};
use rusty_leveldb::{compressor, Compressor, CompressorList, LdbIterator, Options, DB};
use std::io::{Read, Write};
use std::rc::Rc;

struct Deflate {
    raw: bool,
}

impl Compressor for Deflate {
    fn encode(&self, block: Vec<u8>) -> rusty_leveldb::Result<Vec<u8>> {
        let level = Compression::new(6);
        if self.raw {
            let mut stream = write::DeflateEncoder::new(Vec::new(), level);
            stream.write_all(&block)?;
            return Ok(stream.finish()?);
        }
        let mut stream = write::ZlibEncoder::new(Vec::new(), level);
        stream.write_all(&block)?;
        Ok(stream.finish()?)
    }

    fn decode(&self, block: Vec<u8>) -> rusty_leveldb::Result<Vec<u8>> {
        let mut out = Vec::new();
        if self.raw {
            read::DeflateDecoder::new(&block[..]).read_to_end(&mut out)?;
        } else {
            read::ZlibDecoder::new(&block[..]).read_to_end(&mut out)?;
        }
        Ok(out)
    }
}

fn key(k: usize) -> Vec<u8> {
    format!("key{:08}", k).into_bytes()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{:02x}", b)).collect()
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let count: usize = arguments[2].parse().unwrap();
    let mut list = CompressorList::new();
    list.set(compressor::NoneCompressor);
    list.set(compressor::SnappyCompressor);
    list.set_with_id(2, Deflate { raw: false });
    list.set_with_id(4, Deflate { raw: true });
    let mut options = Options::default();
    options.write_buffer_size = 16384;
    options.block_size = 512;
    options.compressor = arguments[3].parse().unwrap();
    options.compressor_list = Rc::new(list);
    let mut db = DB::open(&arguments[1], options).unwrap();
    db.put(&[0], b"zero").unwrap();
    db.put(&[255, 255], b"last").unwrap();
    db.put(b"empty", b"").unwrap();
    for i in 0..count {
        let k = i * 7919 % count;
        db.put(&key(k), format!("value{:050}", k).as_bytes()).unwrap();
        if i % 5 == 4 {
            db.delete(&key(i / 5 * 7919 % count)).unwrap();
        }
    }
    let mut iterator = db.new_iter().unwrap();
    while let Some((key, value)) = iterator.next() {
        println!("{} => {}", hex(&key), hex(&value));
    }
    // Its log is in the process's memory until then.
    db.close().unwrap();
}
