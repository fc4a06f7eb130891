// Varve: a key-value storage engine. MIT licence, see LICENSE.

//! The loops that are measured, and the state of their threads.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::data::{set_key, Permutation, Random, ValueSource};
use crate::engine::{Entries, Result, Session};
use crate::open_loop::{
    run_open_loop, Histogram, Operations, Schedule, SteadyClock,
};
use crate::options::Options;

/// Calls between looks at the clock.
const CALLS_PER_CHECK: usize = 64;

#[derive(Clone, Copy, PartialEq)]
pub enum KeyOrder {
    Sequential,
    Uniform,
    UniqueRandom,
    /// One byte longer than any stored key.
    Missing,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Loop {
    Write,
    Scan,
    Read,
    MultiRead,
    Seek,
    BackgroundWrite,
    Open,
}

/// What the threads of a benchmark share.
pub struct Context<'a> {
    pub options: &'a Options,
    pub order: KeyOrder,
    /// Of each thread, if no duration ends it.
    pub operations: u64,
    pub batch: u64,
    pub threads: usize,
    pub stop: AtomicBool,
    pub foreground: AtomicUsize,
}

impl Context<'_> {
    fn timed(&self) -> bool {
        !self.options.duration.is_zero()
            && !matches!(
                self.order,
                KeyOrder::Sequential | KeyOrder::UniqueRandom
            )
    }
}

/// The state of one thread, and its results.
pub struct Worker<'a> {
    index: usize,
    random: Random,
    values: ValueSource<'a>,
    key: Vec<u8>,
    permutation: Permutation,
    next: u64,
    pub start: Instant,
    pub end: Instant,
    pub operations: u64,
    pub bytes: u64,
    pub found: u64,
    pub lookups: u64,
    /// The latencies of openloop.
    pub puts: Histogram,
    pub gets: Histogram,
}

impl<'a> Worker<'a> {
    pub fn new(
        context: &Context,
        index: usize,
        seed: u64,
        values: &'a [u8],
    ) -> Self {
        let options = context.options;
        let longer = usize::from(context.order == KeyOrder::Missing);
        let mut random = Random(seed);
        let permutation = Permutation::new(options.num, random.next());
        let now = Instant::now();
        Worker {
            index,
            random,
            values: ValueSource {
                bytes: values,
                size: options.value_bytes,
                position: 0,
            },
            key: vec![b'0'; options.key_bytes + longer],
            permutation,
            next: 0,
            start: now,
            end: now,
            operations: 0,
            bytes: 0,
            found: 0,
            lookups: 0,
            puts: Histogram::new(),
            gets: Histogram::new(),
        }
    }

    fn number(&mut self, context: &Context) -> u64 {
        let num = context.options.num;
        match context.order {
            KeyOrder::Sequential => {
                self.next += 1;
                (self.next - 1) % num
            }
            KeyOrder::UniqueRandom => {
                self.next += 1;
                self.permutation.at((self.next - 1) % num)
            }
            _ => self.random.uniform(num),
        }
    }

    pub fn run(
        &mut self,
        which: Loop,
        context: &Context,
        session: &mut dyn Session,
    ) -> Result<()> {
        match which {
            Loop::Write => self.write(context, session),
            Loop::Scan => self.scan(context, session),
            Loop::Read => self.read(context, session),
            Loop::MultiRead => self.multi_read(context, session),
            Loop::Seek => self.seek(context, session),
            Loop::BackgroundWrite => self.background_write(context, session),
            Loop::Open => self.open_loop(context, session),
        }
    }

    /// Calls `operation` until the thread's share is done. It returns how many
    /// operations it did.
    fn repeat(
        &mut self,
        context: &Context,
        mut operation: impl FnMut(&mut Self) -> Result<u64>,
    ) -> Result<()> {
        let timed = context.timed();
        let limit = if timed { u64::MAX } else { context.operations };
        self.start = Instant::now();
        let deadline = self.start + context.options.duration;
        // relaxed: a thread that ends a little later does no harm.
        while self.operations < limit && !context.stop.load(Ordering::Relaxed) {
            for _ in 0..CALLS_PER_CHECK {
                if self.operations >= limit {
                    break;
                }
                self.operations += operation(self)?;
            }
            if timed && Instant::now() >= deadline {
                break;
            }
        }
        self.end = Instant::now();
        Ok(())
    }

    fn write(
        &mut self,
        context: &Context,
        session: &mut dyn Session,
    ) -> Result<()> {
        let options = context.options;
        let entry_bytes = (options.key_bytes + options.value_bytes) as u64;
        let rate = options.write_rate / context.threads as f64;
        let timed = context.timed();
        let mut left = context.operations;
        let mut entries = Entries::new(options.key_bytes);
        let begin = Instant::now();
        self.repeat(context, |worker| {
            let mut batch = context.batch;
            if !timed {
                batch = batch.min(left);
                left -= batch;
            }
            if batch == 1 {
                set_key(worker.number(context), &mut worker.key);
                session.put_one(&worker.key, worker.values.next())?;
            } else {
                entries.clear();
                for _ in 0..batch {
                    set_key(worker.number(context), &mut worker.key);
                    entries.push(&worker.key, worker.values.next());
                }
                session.put_all(&entries)?;
            }
            worker.bytes += batch * entry_bytes;
            // relaxed: as in `repeat`.
            pace(rate, begin, worker.bytes, || {
                !context.stop.load(Ordering::Relaxed)
            });
            Ok(batch)
        })
    }

    fn background_write(
        &mut self,
        context: &Context,
        session: &mut dyn Session,
    ) -> Result<()> {
        let options = context.options;
        // relaxed: a write more or less does no harm.
        let wanted = || context.foreground.load(Ordering::Relaxed) > 0;
        self.start = Instant::now();
        while wanted() {
            set_key(self.random.uniform(options.num), &mut self.key);
            session.put_one(&self.key, self.values.next())?;
            self.operations += 1;
            self.bytes += (options.key_bytes + options.value_bytes) as u64;
            pace(options.write_rate, self.start, self.bytes, wanted);
        }
        self.end = Instant::now();
        Ok(())
    }

    fn scan(
        &mut self,
        context: &Context,
        session: &mut dyn Session,
    ) -> Result<()> {
        self.start = Instant::now();
        session.seek(None, &mut |key, value| {
            self.operations += 1;
            self.bytes += (key.len() + value.len()) as u64;
            self.operations < context.operations
        })?;
        self.end = Instant::now();
        Ok(())
    }

    fn read(
        &mut self,
        context: &Context,
        session: &mut dyn Session,
    ) -> Result<()> {
        let (mut found, mut bytes) = (0, 0);
        self.repeat(context, |worker| {
            set_key(worker.number(context), &mut worker.key);
            let key_bytes = worker.key.len();
            session.get(&worker.key, &mut |value| {
                found += 1;
                bytes += (key_bytes + value.len()) as u64;
            })?;
            Ok(1)
        })?;
        (self.found, self.bytes, self.lookups) =
            (found, bytes, self.operations);
        Ok(())
    }

    fn multi_read(
        &mut self,
        context: &Context,
        session: &mut dyn Session,
    ) -> Result<()> {
        let options = context.options;
        let mut keys = vec![vec![b'0'; options.key_bytes]; options.read_batch];
        let (mut found, mut bytes) = (0, 0);
        self.repeat(context, |worker| {
            for key in &mut keys {
                set_key(worker.number(context), key);
            }
            session.get_each(&keys, &mut |value| {
                found += 1;
                bytes += (options.key_bytes + value.len()) as u64;
            })?;
            Ok(keys.len() as u64)
        })?;
        (self.found, self.bytes, self.lookups) =
            (found, bytes, self.operations);
        Ok(())
    }

    fn seek(
        &mut self,
        context: &Context,
        session: &mut dyn Session,
    ) -> Result<()> {
        let (mut found, mut bytes) = (0, 0);
        // Values are copied so that reading them is paid for.
        let mut buffer = [0u8; 256];
        self.repeat(context, |worker| {
            set_key(worker.number(context), &mut worker.key);
            let wanted = &worker.key;
            let mut steps = context.options.seek_nexts;
            let mut first = true;
            session.seek(Some(wanted), &mut |key, value| {
                if first {
                    first = false;
                    found += u64::from(key == &wanted[..]);
                }
                if steps == 0 {
                    return false;
                }
                steps -= 1;
                let copied = value.len().min(buffer.len());
                buffer[..copied].copy_from_slice(&value[..copied]);
                std::hint::black_box(&buffer);
                bytes += (key.len() + value.len()) as u64;
                true
            })?;
            Ok(1)
        })?;
        (self.found, self.bytes, self.lookups) =
            (found, bytes, self.operations);
        Ok(())
    }
}

impl Worker<'_> {
    fn open_loop(
        &mut self,
        context: &Context,
        session: &mut dyn Session,
    ) -> Result<()> {
        let schedule = Schedule {
            rate: context.options.rate,
            threads: context.threads as u64,
            index: self.index as u64,
        };
        let count = if context.timed() {
            schedule.count_within(context.options.duration.as_secs())
        } else {
            context.operations
        };
        self.start = Instant::now();
        let clock = SteadyClock(self.start);
        let mut turns = Turns { worker: self, context, session, put: false };
        let done = run_open_loop(&schedule, count, &clock, &mut turns)?;
        self.operations = done;
        self.end = Instant::now();
        Ok(())
    }
}

/// The operations of openloop.
struct Turns<'a, 'b> {
    worker: &'a mut Worker<'b>,
    context: &'a Context<'a>,
    session: &'a mut dyn Session,
    put: bool,
}

impl Operations<Box<dyn std::error::Error + Send + Sync>> for Turns<'_, '_> {
    fn prepare(&mut self) {
        let worker = &mut *self.worker;
        set_key(worker.number(self.context), &mut worker.key);
        self.put =
            worker.random.uniform(100) < self.context.options.put_percent;
    }

    fn run(&mut self) -> Result<Option<&mut Histogram>> {
        // relaxed: a thread that ends a little later does no harm.
        if self.context.stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let Worker { key, values, bytes, found, .. } = &mut *self.worker;
        if self.put {
            let value = values.next();
            self.session.put_one(key, value)?;
            *bytes += (key.len() + value.len()) as u64;
            return Ok(Some(&mut self.worker.puts));
        }
        self.session.get(key, &mut |value| {
            *found += 1;
            *bytes += (key.len() + value.len()) as u64;
        })?;
        self.worker.lookups += 1;
        Ok(Some(&mut self.worker.gets))
    }
}

/// Waits until so many bytes are due at a rate, if there is one.
fn pace(rate: f64, begin: Instant, bytes: u64, wanted: impl Fn() -> bool) {
    if rate <= 0.0 {
        return;
    }
    let due = Duration::from_secs_f64(bytes as f64 / rate);
    while wanted() {
        let left = due.saturating_sub(begin.elapsed());
        if left < Duration::from_millis(1) {
            return;
        }
        std::thread::sleep(left.min(Duration::from_millis(20)));
    }
}
