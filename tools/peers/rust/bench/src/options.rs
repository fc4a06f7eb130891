// Varve: a key-value storage engine. MIT licence, see LICENSE.

//! The flags of db_bench.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::data::VALUE_BYTES;
use crate::engine::{Config, Result};
use crate::open_loop::SECOND;

pub struct Options {
    pub benchmarks: Vec<String>,
    pub num: u64,
    pub reads: u64,
    pub threads: usize,
    pub duration: Duration,
    pub seed: u64,
    pub key_bytes: usize,
    pub value_bytes: usize,
    pub ratio: f64,
    pub batch: u64,
    pub read_batch: usize,
    pub seek_nexts: u64,
    pub write_rate: f64,
    pub rate: u64,
    pub put_percent: u64,
    pub existing: bool,
    pub show_work: bool,
    pub version: bool,
    pub config: Config,
}

const FLAGS: &[(&str, &str, &str)] = &[
    ("benchmarks", "fillseq", "benchmarks to run in this order"),
    ("num", "1000000", "entries, and writes of a thread"),
    ("reads", "-1", "reads of a thread; -1: num"),
    ("threads", "1", "threads that run a benchmark"),
    ("duration", "0", "seconds of a benchmark of random keys; 0: no limit"),
    ("seed", "0", "of all random choices; 0: the clock"),
    ("key_size", "16", "bytes of a key"),
    ("value_size", "100", "bytes of a value"),
    ("compression_ratio", "0.5", "values compress to this part"),
    ("batch_size", "", "updates written at once, and keys of a multiread"),
    ("seek_nexts", "0", "entries that seekrandom walks after each seek"),
    ("benchmark_write_rate_limit", "0", "bytes a second; 0: no limit"),
    (
        "rate",
        "100000",
        "operations of openloop due in a second, of all threads",
    ),
    ("put_percent", "50", "of 100 operations of openloop, puts"),
    ("use_existing_db", "false", "keep the database there is"),
    ("show_work", "false", "print the first operations instead"),
    ("db", "", "directory of the database"),
    ("compression_type", "snappy", "none, or snappy: the engine's fast codec"),
    ("cache_size", "268435456", "bytes of the block cache"),
    ("block_size", "4096", "bytes of a block"),
    ("bloom_bits", "-1", "bits a key of the Bloom filters; below 1: none"),
    ("write_buffer_size", "67108864", "bytes of updates in memory"),
    ("max_background_jobs", "2", "flushes and compactions at a time"),
    ("sync", "false", "every write is synced"),
    ("open_files", "-1", "accepted; all files are held open"),
    ("cpu_time", "true", "accepted; CPU time is always printed"),
    ("version", "false", "print the engine's version"),
    ("help", "false", "print the flags"),
];

fn number<T: std::str::FromStr>(
    values: &HashMap<&str, String>,
    name: &str,
) -> Result<T> {
    let text = &values[name];
    text.parse().map_err(|_| format!("--{name}={text}: not a number").into())
}

fn truth(values: &HashMap<&str, String>, name: &str) -> bool {
    matches!(values[name].as_str(), "" | "1" | "true")
}

pub fn parse(name: &str) -> Result<Options> {
    let mut values: HashMap<&str, String> = FLAGS
        .iter()
        .map(|(flag, value, _)| (*flag, value.to_string()))
        .collect();
    let mut benchmarks = Vec::new();
    for argument in std::env::args().skip(1) {
        let Some(flag) = argument.strip_prefix('-') else {
            benchmarks.push(argument);
            continue;
        };
        let flag = flag.trim_start_matches('-');
        let (flag, value) = flag.split_once('=').unwrap_or((flag, ""));
        match FLAGS.iter().find(|(known, _, _)| *known == flag) {
            Some((known, _, _)) => values.insert(known, value.to_string()),
            None => return Err(format!("unknown flag --{flag}").into()),
        };
    }
    if truth(&values, "help") {
        for (flag, value, what) in FLAGS {
            println!("  --{flag}={value}  {what}");
        }
        std::process::exit(0);
    }
    let named = values["benchmarks"].split(',').map(str::to_string);
    benchmarks.splice(0..0, named.collect::<Vec<_>>());
    let num: u64 = number(&values, "num")?;
    let reads: i64 = number(&values, "reads")?;
    let mut seed: u64 = number(&values, "seed")?;
    if seed == 0 {
        seed = SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros() as u64;
    }
    let (batch, read_batch) = if values["batch_size"].is_empty() {
        (1, 32)
    } else {
        (number(&values, "batch_size")?, number(&values, "batch_size")?)
    };
    let compress = match values["compression_type"].as_str() {
        "none" => false,
        "snappy" => true,
        _ => return Err("--compression_type: must be none or snappy".into()),
    };
    let mut path = values["db"].clone();
    if path.is_empty() {
        let parent = std::env::var("TEST_TMPDIR").unwrap_or("/tmp".to_string());
        path = format!("{parent}/varve_bench_{name}");
    }
    let options = Options {
        benchmarks,
        num,
        reads: if reads > 0 { reads as u64 } else { num },
        threads: number(&values, "threads")?,
        duration: Duration::from_secs(number(&values, "duration")?),
        seed,
        key_bytes: number(&values, "key_size")?,
        value_bytes: number(&values, "value_size")?,
        ratio: number(&values, "compression_ratio")?,
        batch,
        read_batch,
        seek_nexts: number(&values, "seek_nexts")?,
        write_rate: number(&values, "benchmark_write_rate_limit")?,
        rate: number(&values, "rate")?,
        put_percent: number(&values, "put_percent")?,
        existing: truth(&values, "use_existing_db"),
        show_work: truth(&values, "show_work"),
        version: truth(&values, "version"),
        config: Config {
            path,
            entries: num,
            key_bytes: number(&values, "key_size")?,
            value_bytes: number(&values, "value_size")?,
            compress,
            cache_bytes: number(&values, "cache_size")?,
            block_bytes: number(&values, "block_size")?,
            bloom_bits: number(&values, "bloom_bits")?,
            write_buffer_bytes: number(&values, "write_buffer_size")?,
            background_jobs: number(&values, "max_background_jobs")?,
            threads: number(&values, "threads")?,
            sync: truth(&values, "sync"),
        },
    };
    if options.num < 1
        || options.threads < 1
        || options.key_bytes < 1
        || options.batch < 1
        || options.value_bytes > VALUE_BYTES
        || !(0.01..=1.0).contains(&options.ratio)
        || !(1..=SECOND).contains(&options.rate)
        || options.put_percent > 100
    {
        return Err("a size or a count is out of its range".into());
    }
    Ok(options)
}
