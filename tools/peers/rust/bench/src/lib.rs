// Varve: a key-value storage engine. MIT licence, see LICENSE.

//! Measures a storage engine with the work and the output of Varve's db_bench:
//! the same keys and values in the same order.

mod data;
mod engine;
mod loops;
mod open_loop;
mod options;
mod record;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use data::{compressible_bytes, Random, VALUE_BYTES};
pub use engine::{Config, Engine, Entries, Result, Session};
use loops::{Context, KeyOrder, Loop, Worker};
use open_loop::Histogram;
use options::Options;
use record::Recorder;

struct Benchmark {
    name: &'static str,
    /// None: see `compact`.
    run: Option<Loop>,
    order: KeyOrder,
    /// Starts with an empty database.
    fresh: bool,
    sync: bool,
    /// In place of num, 1 / part of it.
    part: u64,
    /// In place of batch_size, if not zero.
    batch: u64,
    /// One more thread writes.
    background: bool,
    compact: bool,
}

const BASE: Benchmark = Benchmark {
    name: "",
    run: None,
    order: KeyOrder::Uniform,
    fresh: false,
    sync: false,
    part: 1,
    batch: 0,
    background: false,
    compact: false,
};

const fn fill(name: &'static str, order: KeyOrder) -> Benchmark {
    Benchmark { name, run: Some(Loop::Write), order, fresh: true, ..BASE }
}

const fn other(name: &'static str, run: Loop, order: KeyOrder) -> Benchmark {
    Benchmark { name, run: Some(run), order, ..BASE }
}

const BENCHMARKS: &[Benchmark] = &[
    fill("fillseq", KeyOrder::Sequential),
    fill("fillrandom", KeyOrder::Uniform),
    fill("filluniquerandom", KeyOrder::UniqueRandom),
    Benchmark { sync: true, part: 1000, ..fill("fillsync", KeyOrder::Uniform) },
    Benchmark { batch: 1000, ..fill("fillbatch", KeyOrder::Sequential) },
    other("overwrite", Loop::Write, KeyOrder::Uniform),
    other("readseq", Loop::Scan, KeyOrder::Sequential),
    other("readrandom", Loop::Read, KeyOrder::Uniform),
    other("readmissing", Loop::Read, KeyOrder::Missing),
    other("multireadrandom", Loop::MultiRead, KeyOrder::Uniform),
    other("seekrandom", Loop::Seek, KeyOrder::Uniform),
    Benchmark {
        background: true,
        ..other("readwhilewriting", Loop::Read, KeyOrder::Uniform)
    },
    other("openloop", Loop::Open, KeyOrder::Uniform),
    Benchmark { name: "compact", compact: true, ..BASE },
    Benchmark { name: "waitforcompaction", ..BASE },
];

/// Returns the exact version that a Cargo.toml asks of a package.
fn pinned_version(manifest: &str, package: &str) -> String {
    let start = format!("{package} = \"=");
    manifest
        .lines()
        .find_map(|line| line.strip_prefix(&start))
        .map_or("unknown", |rest| rest.trim_end_matches('"'))
        .to_string()
}

/// Runs a program that measures one engine. `manifest` is its Cargo.toml.
pub fn main(
    name: &str,
    manifest: &str,
    package: &str,
    engine: &mut (dyn Engine + '_),
) {
    let version = pinned_version(manifest, package);
    let done = options::parse(name).and_then(|options| {
        if options.version {
            let remarks = engine.remarks();
            println!("adapter 1\nengine {name} {version} ({remarks})");
            return Ok(());
        }
        if options.show_work {
            return Workload::new(&options).run_recorder();
        }
        let config = &options.config;
        println!("Engine:      {name} {version}");
        println!("             ({})", engine.remarks());
        println!("DB path:     {}\nSeed:        {}", config.path, options.seed);
        println!("Keys:        {} bytes each", options.key_bytes);
        println!("Values:      {} bytes each", options.value_bytes);
        println!("Entries:     {}", options.num);
        println!("------------------------------------------------");
        Workload::new(&options).run(engine, &|_| ())
    });
    if let Err(error) = done {
        eprintln!("{name}: {error}");
        std::process::exit(1);
    }
}

/// User and system time of all threads.
fn usage() -> (Duration, Duration) {
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut used) };
    let duration = |time: libc::timeval| {
        Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000)
    };
    (duration(used.ru_utime), duration(used.ru_stime))
}

struct Workload<'a> {
    options: &'a Options,
    values: Vec<u8>,
    /// Benchmarks that were run, for their seeds.
    started: u64,
    open: bool,
    open_sync: bool,
    untouched: bool,
    has_data: bool,
    /// The last benchmark, whose CPU time is not yet printed, its operations
    /// and the time before it.
    pending: Option<(&'static str, u64, Duration, Duration)>,
}

impl<'a> Workload<'a> {
    fn new(options: &'a Options) -> Self {
        Workload {
            options,
            values: compressible_bytes(
                options.seed,
                options.ratio,
                VALUE_BYTES,
            ),
            started: 0,
            open: false,
            open_sync: false,
            untouched: false,
            has_data: false,
            pending: None,
        }
    }

    fn run_recorder(&mut self) -> Result<()> {
        let printer = Recorder::default();
        let mut engine = Shared(&printer);
        self.run(&mut engine, &|name| printer.print(name))
    }

    /// Runs the benchmarks; calls `done` with the name of each.
    fn run(
        &mut self,
        engine: &mut (dyn Engine + '_),
        done: &dyn Fn(&str),
    ) -> Result<()> {
        let sync = self.options.config.sync;
        if self.options.existing {
            std::fs::metadata(&self.options.config.path)?;
            self.has_data = true;
            self.reopen(engine, sync)?;
        } else {
            self.open_fresh(engine, sync)?;
        }
        for name in self.options.benchmarks.iter().filter(|n| !n.is_empty()) {
            self.run_named(engine, name)?;
            done(name);
        }
        self.close(engine)
    }

    fn close(&mut self, engine: &mut (dyn Engine + '_)) -> Result<()> {
        if self.open {
            self.open = false;
            engine.close()?;
            self.finish_cpu();
        }
        Ok(())
    }

    fn reopen(
        &mut self,
        engine: &mut (dyn Engine + '_),
        sync: bool,
    ) -> Result<()> {
        self.close(engine)?;
        let config = Config { sync, ..self.options.config.clone() };
        engine.open(&config)?;
        (self.open, self.open_sync) = (true, sync);
        Ok(())
    }

    fn open_fresh(
        &mut self,
        engine: &mut (dyn Engine + '_),
        sync: bool,
    ) -> Result<()> {
        self.close(engine)?;
        if !self.options.show_work {
            let path = Path::new(&self.options.config.path);
            if path.exists() {
                std::fs::remove_dir_all(path)?;
            }
            std::fs::create_dir_all(path)?;
        }
        (self.untouched, self.has_data) = (true, false);
        self.reopen(engine, sync)
    }

    fn run_named(
        &mut self,
        engine: &mut (dyn Engine + '_),
        name: &str,
    ) -> Result<()> {
        let Some(benchmark) = BENCHMARKS.iter().find(|b| b.name == name) else {
            let names: Vec<_> = BENCHMARKS.iter().map(|b| b.name).collect();
            let names = names.join(" ");
            return Err(format!(
                "unknown benchmark '{name}'; there are: {names}"
            )
            .into());
        };
        let needs_data = benchmark.run.is_some() && !benchmark.fresh;
        if needs_data && !self.has_data {
            println!("The database is new: filling it first");
            let fill = fill("filluniquerandom", KeyOrder::UniqueRandom);
            self.run_one(engine, &fill, 1)?;
        }
        self.run_one(engine, benchmark, self.options.threads)
    }

    fn run_one(
        &mut self,
        engine: &mut (dyn Engine + '_),
        benchmark: &Benchmark,
        threads: usize,
    ) -> Result<()> {
        let name = benchmark.name;
        let Some(run) = benchmark.run else {
            return self.compact(engine, benchmark);
        };
        if benchmark.fresh && self.options.existing {
            println!("{name:<12} : skipped (--use_existing_db is true)");
            return Ok(());
        }
        let sync = self.options.config.sync || benchmark.sync;
        if benchmark.fresh && !self.untouched {
            self.open_fresh(engine, sync)?;
        } else if sync != self.open_sync {
            self.reopen(engine, sync)?;
        }
        let writes = matches!(run, Loop::Write | Loop::Open);
        if writes || benchmark.background {
            (self.untouched, self.has_data) = (false, true);
        }
        self.finish_cpu();
        self.run_threads(engine, benchmark, run, threads)
    }

    fn compact(
        &mut self,
        engine: &mut (dyn Engine + '_),
        benchmark: &Benchmark,
    ) -> Result<()> {
        let name = benchmark.name;
        self.finish_cpu();
        let (user, system) = usage();
        let start = Instant::now();
        if !benchmark.compact || !engine.compact()? {
            println!("{name:<12} : skipped (the engine has no such operation)");
            return Ok(());
        }
        let seconds = start.elapsed().as_secs_f64();
        print_result(name, 1, seconds, seconds, "");
        self.pending = Some((name, 1, user, system));
        Ok(())
    }

    fn run_threads(
        &mut self,
        engine: &(dyn Engine + '_),
        benchmark: &Benchmark,
        run: Loop,
        threads: usize,
    ) -> Result<()> {
        let options = self.options;
        let all = match run {
            Loop::Write | Loop::Open => options.num,
            _ => options.reads,
        };
        let context = Context {
            options,
            order: benchmark.order,
            operations: (all / benchmark.part).max(1),
            batch: match benchmark.batch {
                0 => options.batch,
                batch => batch,
            },
            threads,
            stop: AtomicBool::new(false),
            foreground: AtomicUsize::new(threads),
        };
        // Each benchmark has its own seeds, so that it does not read the keys
        // that the previous one has brought into the caches.
        self.started += 1;
        let mut seeds = Random(options.seed.wrapping_add(self.started));
        let mut loops = vec![run; threads];
        if benchmark.background {
            loops.push(Loop::BackgroundWrite);
        }
        let mut workers: Vec<_> = loops
            .iter()
            .enumerate()
            .map(|(i, _)| Worker::new(&context, i, seeds.next(), &self.values))
            .collect();
        let (user, system) = usage();
        let barrier = Barrier::new(loops.len());
        let context = &context;
        let barrier = &barrier;
        std::thread::scope(|scope| -> Result<()> {
            let mut running = Vec::new();
            for (number, worker) in workers.iter_mut().enumerate() {
                let run = loops[number];
                running.push(scope.spawn(move || {
                    let session = engine.session(number);
                    barrier.wait();
                    let result = session.and_then(|mut session| {
                        worker.run(run, context, session.as_mut())
                    });
                    // relaxed: the others may end a little later.
                    if result.is_err() {
                        context.stop.store(true, Ordering::Relaxed);
                    }
                    if run != Loop::BackgroundWrite {
                        context.foreground.fetch_sub(1, Ordering::Relaxed);
                    }
                    result
                }));
            }
            let results: Vec<_> = running
                .into_iter()
                .map(|thread| match thread.join() {
                    Ok(result) => result,
                    Err(_) => Err("a thread panicked".into()),
                })
                .collect();
            results.into_iter().collect()
        })?;
        if options.show_work {
            return Ok(());
        }

        let (measured, beside) = workers.split_at(threads);
        let start = measured.iter().map(|w| w.start).min().unwrap();
        let end = measured.iter().map(|w| w.end).max().unwrap();
        let sum = |of: fn(&Worker) -> u64| measured.iter().map(of).sum::<u64>();
        let in_threads: Duration =
            measured.iter().map(|w| w.end - w.start).sum();
        let seconds = (end - start).as_secs_f64();
        let mut rest = String::new();
        let bytes = sum(|w| w.bytes);
        if bytes > 0 {
            let rate = bytes as f64 / 1048576.0 / seconds;
            rest += &format!(" {rate:6.1} MB/s");
        }
        let lookups = sum(|w| w.lookups);
        if lookups > 0 {
            let found = sum(|w| w.found);
            rest += &format!(" ({found} of {lookups} found)");
        }
        for writer in beside {
            rest += &format!(" ({} writes beside)", writer.operations);
        }
        let operations = sum(|w| w.operations);
        let in_threads = in_threads.as_secs_f64();
        print_result(benchmark.name, operations, seconds, in_threads, &rest);
        if run == Loop::Open {
            let (mut puts, mut gets) = (Histogram::new(), Histogram::new());
            for worker in measured {
                puts.merge(&worker.puts);
                gets.merge(&worker.gets);
            }
            println!("{} puts : {}", benchmark.name, puts.line(seconds));
            println!("{} gets : {}", benchmark.name, gets.line(seconds));
        }
        self.pending = Some((benchmark.name, operations, user, system));
        Ok(())
    }

    /// Prints the CPU time of the last benchmark: of all threads, until the
    /// next one begins or the database is closed.
    fn finish_cpu(&mut self) {
        let Some((name, operations, user, system)) = self.pending.take() else {
            return;
        };
        let now = usage();
        let each = |used: Duration| {
            used.as_secs_f64() * 1e6 / operations.max(1) as f64
        };
        let (user, system) = (each(now.0 - user), each(now.1 - system));
        println!(
            "{name:<12} : CPU {:.3} micros/op (user {user:.3}, system \
             {system:.3})",
            user + system
        );
    }
}

/// Prints the line of db_bench.
fn print_result(
    name: &str,
    operations: u64,
    seconds: f64,
    in_threads: f64,
    rest: &str,
) {
    let micros = in_threads * 1e6 / operations.max(1) as f64;
    let rate = if seconds > 0.0 { operations as f64 / seconds } else { 0.0 };
    println!(
        "{name:<12} : {micros:7.3} micros/op {} ops/sec {seconds:.3} seconds \
         {operations} operations;{rest}",
        rate as u64
    );
}

/// Lets the workload own an engine whose notes are printed between benchmarks.
struct Shared<'a>(&'a Recorder);

impl Engine for Shared<'_> {
    fn remarks(&self) -> String {
        self.0.remarks()
    }
    fn open(&mut self, _: &Config) -> Result<()> {
        Ok(())
    }
    fn close(&mut self) -> Result<()> {
        Ok(())
    }
    fn session(&self, number: usize) -> Result<Box<dyn Session + '_>> {
        self.0.session(number)
    }
}
