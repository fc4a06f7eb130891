// Varve: a key-value storage engine. MIT licence, see LICENSE.

//! The parts of openloop. All times are nanoseconds from the start of a thread.
//! This file uses no crate, so that `rustc --test` builds it alone.

use std::time::{Duration, Instant};

const SUB_BITS: usize = 6;
const SUB_BUCKETS: usize = 1 << SUB_BITS;
const BUCKETS: usize = SUB_BUCKETS * (64 - SUB_BITS + 1);
pub const SECOND: u64 = 1_000_000_000;
/// How long before an operation is due a thread stops to sleep: the kernel
/// wakes threads up to 0.1 ms late, which would be part of the latency.
const SPIN: u64 = 200_000;

/// Counts nanoseconds in the buckets of db_bench's: each power of two has 64 of
/// equal width, and values below 128 have buckets of their own. A percentile is
/// the middle of its bucket, so it is off by 1/128 at most.
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    least: u64,
    most: u64,
}

fn bucket_of(value: u64) -> usize {
    if value < SUB_BUCKETS as u64 {
        return value as usize;
    }
    let shift = 63 - SUB_BITS - value.leading_zeros() as usize;
    shift * SUB_BUCKETS + (value >> shift) as usize
}

/// Returns the middle of the values of a bucket.
fn middle_of(bucket: usize) -> u64 {
    if bucket < 2 * SUB_BUCKETS {
        return bucket as u64;
    }
    let shift = bucket / SUB_BUCKETS - 1;
    (((bucket - shift * SUB_BUCKETS) as u64) << shift) + (1u64 << shift) / 2
}

impl Histogram {
    pub fn new() -> Self {
        Histogram {
            buckets: vec![0; BUCKETS],
            count: 0,
            least: u64::MAX,
            most: 0,
        }
    }

    pub fn add(&mut self, value: u64) {
        self.buckets[bucket_of(value)] += 1;
        self.count += 1;
        self.least = self.least.min(value);
        self.most = self.most.max(value);
    }

    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
    }

    pub fn percentile(&self, percent: f64) -> u64 {
        let rank = (percent / 100.0 * self.count as f64).ceil() as u64;
        if rank >= self.count {
            return self.most;
        }
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank.max(1) {
                return middle_of(bucket).clamp(self.least, self.most);
            }
        }
        self.most
    }

    /// Returns the line of db_bench's openloop, without its name.
    pub fn line(&self, seconds: f64) -> String {
        let micros = |value: u64| value as f64 / 1000.0;
        format!(
            "{} operations; {} ops/sec; P50: {:.3} P99: {:.3} P99.9: {:.3} \
             P99.99: {:.3} Max: {:.3} micros",
            self.count,
            (self.count as f64 / seconds) as u64,
            micros(self.percentile(50.0)),
            micros(self.percentile(99.0)),
            micros(self.percentile(99.9)),
            micros(self.percentile(99.99)),
            micros(self.most)
        )
    }
}

/// When the operations of a thread are due: those of all threads together at
/// equal distances, and the threads in turn.
pub struct Schedule {
    pub rate: u64,
    pub threads: u64,
    pub index: u64,
}

impl Schedule {
    pub fn due_at(&self, i: u64) -> u64 {
        let number = i * self.threads + self.index;
        // In two parts, so that the product does not overflow.
        number / self.rate * SECOND + number % self.rate * SECOND / self.rate
    }

    /// Returns how many operations are due before the seconds end.
    pub fn count_within(&self, seconds: u64) -> u64 {
        match seconds * self.rate {
            all if all <= self.index => 0,
            all => (all - self.index - 1) / self.threads + 1,
        }
    }
}

/// The time of a thread.
pub trait Clock {
    fn now(&self) -> u64;
    fn sleep(&self, nanoseconds: u64);
    /// Takes an instant.
    fn pause(&self);
}

pub struct SteadyClock(pub Instant);

impl Clock for SteadyClock {
    fn now(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
    fn sleep(&self, nanoseconds: u64) {
        std::thread::sleep(Duration::from_nanos(nanoseconds));
    }
    fn pause(&self) {
        // Leaves more of the core to its other hardware thread.
        std::hint::spin_loop();
    }
}

pub fn wait_until_due(due: u64, clock: &impl Clock) {
    loop {
        let now = clock.now();
        if now >= due {
            return;
        }
        if due - now > 2 * SPIN {
            clock.sleep(due - now - SPIN);
        } else {
            clock.pause();
        }
    }
}

/// The operations of a thread.
pub trait Operations<E> {
    /// Is called before an operation is due.
    fn prepare(&mut self);
    /// Is called when it is due. Returns the histogram to count the latency in,
    /// or None to end.
    fn run(&mut self) -> Result<Option<&mut Histogram>, E>;
}

/// Does `count` operations of a schedule, and returns how many were done. A
/// latency counts from when the operation was due, so that it has the delay
/// that those before it caused.
pub fn run_open_loop<E>(
    schedule: &Schedule,
    count: u64,
    clock: &impl Clock,
    operations: &mut impl Operations<E>,
) -> Result<u64, E> {
    for i in 0..count {
        operations.prepare();
        let due = schedule.due_at(i);
        wait_until_due(due, clock);
        match operations.run()? {
            Some(latency) => latency.add(clock.now() - due),
            None => return Ok(i),
        }
    }
    Ok(count)
}

/// The tests of db_bench's open loop, with the same figures.
#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn percentiles_are_within_one_percent() {
        let mut state = 1u64;
        let mut next = || {
            // An xorshift generator.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let mut values = Vec::new();
        let (mut whole, mut part) = (Histogram::new(), Histogram::new());
        for _ in 0..100_000 {
            let value = next() >> (20 + next() % 40);
            values.push(value);
            let to = if value % 2 == 0 { &mut whole } else { &mut part };
            to.add(value);
        }
        whole.merge(&part);
        values.sort();
        for percent in [50.0, 99.0, 99.9, 99.99] {
            let exact = values[(percent * 1000.0) as usize - 1];
            let got = whole.percentile(percent);
            assert!(got.abs_diff(exact) * 100 <= exact, "{got}, not {exact}");
        }
        assert_eq!(whole.most, values[values.len() - 1]);
        let mut one = Histogram::new();
        one.add(64000);
        assert_eq!(
            (one.percentile(50.0), one.percentile(99.99)),
            (64000, 64000)
        );
    }

    /// It moves on by itself only while it is waited for.
    #[derive(Default)]
    struct FakeClock {
        time: Cell<u64>,
        sleeps: Cell<u64>,
        pauses: Cell<u64>,
    }

    impl Clock for FakeClock {
        fn now(&self) -> u64 {
            self.time.get()
        }
        fn sleep(&self, nanoseconds: u64) {
            self.time.set(self.time.get() + nanoseconds);
            self.sleeps.set(self.sleeps.get() + 1);
        }
        fn pause(&self) {
            self.time.set(self.time.get() + 100);
            self.pauses.set(self.pauses.get() + 1);
        }
    }

    #[test]
    fn a_schedule_shares_the_rate_among_threads() {
        let of = |rate, threads, index| Schedule { rate, threads, index };
        let (first, last) = (of(100_000, 2, 0), of(100_000, 2, 1));
        assert_eq!([0, 1, 2].map(|i| first.due_at(i)), [0, 20000, 40000]);
        assert_eq!([0, 1, 2].map(|i| last.due_at(i)), [10000, 30000, 50000]);
        // The product with nanoseconds has more than 64 bits.
        let due = of(3, 1, 0).due_at(24_000_000_001);
        assert_eq!(due, 8_000_000_000_333_333_333);
        assert_eq!(of(3, 2, 1).count_within(1), 1);
        assert_eq!(of(3, 2, 0).count_within(1), 2);
        assert_eq!(of(1, 2, 1).count_within(1), 0);
    }

    struct FakeOperations<'a> {
        clock: &'a FakeClock,
        took: Vec<u64>,
        latencies: Vec<Histogram>,
    }

    impl Operations<()> for FakeOperations<'_> {
        fn prepare(&mut self) {}
        fn run(&mut self) -> Result<Option<&mut Histogram>, ()> {
            self.clock.sleep(self.took[self.latencies.len()]);
            self.latencies.push(Histogram::new());
            Ok(self.latencies.last_mut())
        }
    }

    #[test]
    fn a_latency_counts_from_when_an_operation_was_due() {
        // Due each 10 us; each takes 2 us, and the second 35 us.
        let clock = FakeClock::default();
        let mut operations = FakeOperations {
            clock: &clock,
            took: vec![2000, 35000, 2000, 2000, 2000, 2000, 2000],
            latencies: Vec::new(),
        };
        let schedule = Schedule { rate: 100_000, threads: 1, index: 0 };
        assert_eq!(run_open_loop(&schedule, 7, &clock, &mut operations), Ok(7));
        let latencies: Vec<_> =
            operations.latencies.iter().map(|latency| latency.most).collect();
        let wanted = [2000, 35000, 27000, 19000, 11000, 3000, 2000];
        assert_eq!(latencies, wanted);
        assert_eq!(clock.now(), 62000);
    }

    #[test]
    fn it_sleeps_until_shortly_before() {
        let clock = FakeClock::default();
        wait_until_due(1_000_000, &clock);
        assert_eq!((clock.sleeps.get(), clock.pauses.get()), (1, 2000));
        let clock = FakeClock::default();
        wait_until_due(400_000, &clock);
        assert_eq!((clock.sleeps.get(), clock.pauses.get()), (0, 4000));
    }
}
