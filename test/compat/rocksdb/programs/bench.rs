// Varve: a key-value storage engine. MIT licence, see LICENSE.

//! Measures one kind of work with RocksDB's Rust crate.
//!
//! Usage: bench DIRECTORY WORK ENTRIES
//!
//! Prints the nanoseconds of an operation, elapsed and of all processors, and
//! then /proc/self/maps. The works `get` and `iterate` read a database that
//! `fill` has made; the others begin with an empty one.

use rocksdb::{BlockBasedOptions, Cache, Options, WriteBatch, DB};
use std::time::Instant;

const VALUE_SIZE: usize = 100;
const BATCH: usize = 100;

fn options() -> Options {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&Cache::new_lru_cache(1 << 30));
    table.set_bloom_filter(10.0, false);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&table);
    options
}

/// What a program writes and reads, made before the time is measured: keys in
/// random order, each number below the count once, and values that compress to
/// about half.
struct Data {
    keys: Vec<[u8; 16]>,
    values: Vec<[u8; VALUE_SIZE]>,
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state >> 20
}

impl Data {
    fn new(count: usize) -> Data {
        let mut keys = Vec::with_capacity(count);
        for number in 0..count as u64 {
            let number = number.wrapping_mul(2654435761) % count as u64;
            keys.push(format!("{number:016}").into_bytes().try_into().unwrap());
        }
        let mut state = 88172645463325252;
        let mut values = vec![[b'v'; VALUE_SIZE]; 1000];
        for byte in values.iter_mut().flat_map(|v| &mut v[..VALUE_SIZE / 2]) {
            *byte = random(&mut state) as u8;
        }
        Data { keys, values }
    }

    fn entry(&self, number: usize) -> (&[u8; 16], &[u8; VALUE_SIZE]) {
        (&self.keys[number], &self.values[number % self.values.len()])
    }
}

/// The processor time of all threads of the process, in nanoseconds.
fn cpu() -> u128 {
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    let microseconds = |time: libc::timeval| {
        time.tv_sec as u128 * 1_000_000 + time.tv_usec as u128
    };
    (microseconds(usage.ru_utime) + microseconds(usage.ru_stime)) * 1000
}

fn put_batches(db: &DB, data: &Data) {
    let count = data.keys.len();
    for first in (0..count).step_by(BATCH) {
        let mut batch = WriteBatch::default();
        for number in first..(first + BATCH).min(count) {
            let (key, value) = data.entry(number);
            batch.put(key, value);
        }
        db.write(batch).unwrap();
    }
}

fn get(db: &DB, data: &Data, order: &[usize]) {
    for &number in order {
        let (key, value) = data.entry(number);
        let got = db.get(key).unwrap().unwrap();
        assert_eq!(got[..8], value[..8], "entry {number}");
    }
}

fn iterate_raw(db: &DB, count: usize) {
    let mut iterator = db.raw_iterator();
    iterator.seek_to_first();
    let (mut entries, mut bytes) = (0, 0);
    while let Some((key, value)) = iterator.item() {
        entries += 1;
        bytes += key.len() + value.len();
        iterator.next();
    }
    assert_eq!((entries, bytes), (count, count * (16 + VALUE_SIZE)));
}

fn iterate(db: &DB, count: usize) {
    let bytes: usize = db
        .iterator(rocksdb::IteratorMode::Start)
        .map(|entry| entry.unwrap())
        .map(|(key, value)| key.len() + value.len())
        .sum();
    assert_eq!(bytes, count * (16 + VALUE_SIZE));
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let (directory, work) = (&arguments[1], arguments[2].as_str());
    let count: usize = arguments[3].parse().unwrap();
    let db = DB::open(&options(), directory).unwrap();
    let data = Data::new(count);
    let mut state = 1;
    let order: Vec<usize> = (0..count)
        .map(|_| random(&mut state) as usize % count)
        .collect();
    match work {
        "get" => get(&db, &data, &order),
        "iterate" | "iterate_raw" => iterate_raw(&db, count),
        _ => (),
    }
    let (began, cpu_began) = (Instant::now(), cpu());
    match work {
        "get" => get(&db, &data, &order),
        "iterate" => iterate(&db, count),
        "iterate_raw" => iterate_raw(&db, count),
        "put" => {
            for number in 0..count {
                let (key, value) = data.entry(number);
                db.put(key, value).unwrap();
            }
        }
        "batch" => put_batches(&db, &data),
        "fill" => {
            put_batches(&db, &data);
            db.compact_range::<&[u8], &[u8]>(None, None);
        }
        _ => panic!("there is no work {work}"),
    }
    let elapsed = began.elapsed().as_nanos();
    let processors = cpu() - cpu_began;
    println!(
        "{} {}",
        elapsed as f64 / count as f64,
        processors as f64 / count as f64
    );
    drop(db);
    println!("{}", std::fs::read_to_string("/proc/self/maps").unwrap());
}
