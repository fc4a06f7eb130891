// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// bedrock_writer DIRECTORY COUNT COMPRESSION: writes a database with
// bedrock-leveldb and prints its contents. COMPRESSION is 0 (none), 1 (Snappy)
// or 2 (zlib). The process ends as if it were killed.

use bedrock_leveldb::{CompressionPolicy, Db, OpenOptions, VisitorControl, WriteOptions};

fn key(k: usize) -> Vec<u8> {
    format!("key{:08}", k).into_bytes()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{:02x}", b)).collect()
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let count: usize = arguments[2].parse().unwrap();
    let options = OpenOptions {
        write_buffer_size: 16384,
        compression_policy: match arguments[3].as_str() {
            "0" => CompressionPolicy::None,
            "1" => CompressionPolicy::Snappy,
            _ => CompressionPolicy::Zlib,
        },
        ..Default::default()
    };
    let db = Db::open(&arguments[1], options).unwrap();
    let put = |key: Vec<u8>, value: Vec<u8>| {
        db.put(key, value, WriteOptions::default()).unwrap();
    };
    put(vec![0], b"zero".to_vec());
    put(vec![255, 255], b"last".to_vec());
    put(b"empty".to_vec(), Vec::new());
    for i in 0..count {
        let k = i * 7919 % count;
        put(key(k), format!("value{:050}", k).into_bytes());
        if i % 5 == 4 {
            db.delete(key(i / 5 * 7919 % count), WriteOptions::default())
                .unwrap();
        }
    }
    // It visits the tables one after the other.
    let mut entries = std::collections::BTreeMap::new();
    db.for_each_entry(Default::default(), |key, value| {
        entries.insert(key.to_vec(), value.to_vec());
        Ok(VisitorControl::Continue)
    })
    .unwrap();
    for (key, value) in entries {
        println!("{} => {}", hex(&key), hex(&value));
    }
    std::process::exit(0);
}
