// Varve: a key-value storage engine. MIT licence, see LICENSE.

package bench

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ErrUnsupported is the error of an operation that the engine does not have.
var ErrUnsupported = errors.New("the engine has no such operation")

const mebibyte = 1 << 20

type options struct {
	name       string
	benchmarks []string
	num        uint64
	reads      uint64
	threads    int
	duration   time.Duration
	seed       uint64
	keyBytes   int
	valueBytes int
	ratio      float64
	batch      uint64
	readBatch  uint64
	seekNexts  int
	writeRate  float64
	rate       uint64
	putPercent uint64
	existing   bool
	showWork   bool
	config     Config
}

// parse reads db_bench's flags. Those that no engine here has are refused
// unless they have the value that means nothing.
func parse(name string) *options {
	o := &options{name: name}
	names := flag.String("benchmarks", "fillseq",
		"benchmarks to run in this order, separated by commas")
	flag.Uint64Var(&o.num, "num", 1000000, "entries, and writes of a thread")
	reads := flag.Int64("reads", -1, "reads of a thread; -1: num")
	flag.IntVar(&o.threads, "threads", 1, "threads that run a benchmark")
	seconds := flag.Int("duration", 0, "seconds of a benchmark of random "+
		"keys, instead of num and reads; 0: no limit")
	flag.Uint64Var(&o.seed, "seed", 0, "of all random choices; 0: the clock")
	flag.IntVar(&o.keyBytes, "key_size", 16, "bytes of a key")
	flag.IntVar(&o.valueBytes, "value_size", 100, "bytes of a value")
	flag.Float64Var(&o.ratio, "compression_ratio", .5,
		"values that compress to this part of their size")
	flag.Uint64Var(&o.batch, "batch_size", 1, "updates written at once, and "+
		"keys of a multireadrandom (there 32 if not given)")
	flag.IntVar(&o.seekNexts, "seek_nexts", 0,
		"entries that seekrandom walks after each seek")
	flag.Float64Var(&o.writeRate, "benchmark_write_rate_limit", 0,
		"bytes a second of all writers; 0: no limit")
	flag.Uint64Var(&o.rate, "rate", 100000,
		"operations of openloop that are due in a second, of all threads")
	flag.Uint64Var(&o.putPercent, "put_percent", 50,
		"of 100 operations of openloop, puts")
	flag.BoolVar(&o.existing, "use_existing_db", false,
		"keep the database there is")
	flag.BoolVar(&o.showWork, "show_work", false,
		"print the first operations instead of running them")
	config := &o.config
	flag.StringVar(&config.Path, "db", "", "directory of the database")
	flag.StringVar(&config.Compression, "compression_type", "snappy",
		"none or snappy")
	flag.Int64Var(&config.CacheBytes, "cache_size", 256<<20,
		"bytes of the block cache")
	flag.IntVar(&config.BlockBytes, "block_size", 4096, "bytes of a block")
	flag.IntVar(&config.BloomBits, "bloom_bits", -1,
		"bits a key of the Bloom filters; below 1: no filters")
	flag.Int64Var(&config.WriteBufferBytes, "write_buffer_size", 64<<20,
		"bytes of updates in memory before they become a table")
	flag.IntVar(&config.BackgroundJobs, "max_background_jobs", 2,
		"flushes and compactions at a time")
	flag.BoolVar(&config.Sync, "sync", false, "every write is synced")
	flag.Int("open_files", -1, "accepted; all files are held open")
	flag.Bool("cpu_time", true, "accepted; CPU time is always printed")
	version := flag.Bool("version", false, "print the engine's version")
	flag.Parse()
	if *version {
		return nil
	}
	o.benchmarks = append(strings.Split(*names, ","), flag.Args()...)
	o.reads = o.num
	if *reads > 0 {
		o.reads = uint64(*reads)
	}
	o.duration = time.Duration(*seconds) * time.Second
	if o.seed == 0 {
		o.seed = uint64(time.Now().UnixMicro())
	}
	o.readBatch = 32
	flag.Visit(func(f *flag.Flag) {
		if f.Name == "batch_size" {
			o.readBatch = o.batch
		}
	})
	if o.num < 1 || o.threads < 1 || o.keyBytes < 1 || o.batch < 1 ||
		o.valueBytes < 0 || o.valueBytes > valueBytes ||
		o.ratio < .01 || o.ratio > 1 || o.rate < 1 || o.rate > second ||
		o.putPercent > 100 {
		fail(name, errors.New("a size or a count is out of its range"))
	}
	if config.Compression != "none" && config.Compression != "snappy" {
		fail(name, errors.New("--compression_type: must be none or snappy"))
	}
	if config.Path == "" {
		parent := os.Getenv("TEST_TMPDIR")
		if parent == "" {
			parent = "/tmp"
		}
		config.Path = filepath.Join(parent, "varve_bench_"+name)
	}
	config.Entries = o.num
	config.KeyBytes, config.ValueBytes = o.keyBytes, o.valueBytes
	config.Threads = o.threads
	return o
}

func fail(name string, err error) {
	fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	os.Exit(1)
}

// ModuleVersion returns the version of a module of this program.
func ModuleVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, module := range info.Deps {
		if module.Path == path {
			return strings.TrimPrefix(module.Version, "v")
		}
	}
	return "unknown"
}

// Main runs a program that measures one engine.
func Main(name string, engine Engine) {
	o := parse(name)
	if o == nil {
		fmt.Printf("adapter 1\nengine %s %s (%s)\n", name, engine.Version(),
			engine.Remarks())
		return
	}
	w := &workload{options: o, engine: engine,
		values: compressibleBytes(o.seed, o.ratio, valueBytes)}
	if o.showWork {
		w.recorder = &recorder{}
		w.engine = w.recorder
	}
	if err := w.run(); err != nil {
		fail(name, err)
	}
}

type workload struct {
	options  *options
	engine   Engine
	recorder *recorder
	values   []byte
	started  uint64 // Benchmarks that were run, for their seeds.

	open      bool
	openSync  bool
	untouched bool
	hasData   bool
	pending   cpuTime
}

// cpuTime is what is not yet said of the last benchmark.
type cpuTime struct {
	name         string
	operations   uint64
	user, system time.Duration
}

func usage() (user, system time.Duration) {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0, 0
	}
	return time.Duration(used.Utime.Nano()), time.Duration(used.Stime.Nano())
}

func (w *workload) run() error {
	o := w.options
	if w.recorder == nil {
		fmt.Printf("Engine:      %s %s\n             (%s)\n", o.name,
			w.engine.Version(), w.engine.Remarks())
		fmt.Printf("Built by:    %s\nDB path:     %s\nSeed:        %d\n",
			runtime.Version(), o.config.Path, o.seed)
		fmt.Printf("Keys:        %d bytes each\nValues:      %d bytes each\n",
			o.keyBytes, o.valueBytes)
		fmt.Printf("Entries:     %d\n", o.num)
		fmt.Println("------------------------------------------------")
	}
	var err error
	if o.existing {
		if _, err = os.Stat(o.config.Path); err == nil {
			w.hasData = true
			err = w.reopen(o.config.Sync)
		}
	} else {
		err = w.openFresh(o.config.Sync)
	}
	for _, name := range o.benchmarks {
		if err == nil {
			err = w.runNamed(name)
		}
	}
	if closed := w.close(); err == nil {
		err = closed
	}
	return err
}

// close closes the database, if it is open, and reports the CPU time of the
// benchmark before it.
func (w *workload) close() error {
	if !w.open {
		return nil
	}
	w.open = false
	err := w.engine.Close()
	if err == nil {
		w.finishCPU()
	}
	return err
}

func (w *workload) reopen(sync bool) error {
	if err := w.close(); err != nil {
		return err
	}
	config := w.options.config
	config.Sync = sync
	w.openSync = sync
	err := w.engine.Open(&config)
	w.open = err == nil
	return err
}

func (w *workload) openFresh(sync bool) error {
	if err := w.close(); err != nil {
		return err
	}
	if w.recorder == nil {
		if err := os.RemoveAll(w.options.config.Path); err != nil {
			return err
		}
		if err := os.MkdirAll(w.options.config.Path, 0o755); err != nil {
			return err
		}
	}
	w.untouched, w.hasData = true, false
	return w.reopen(sync)
}

func (w *workload) runNamed(name string) error {
	for i := range benchmarks {
		if benchmarks[i].name != name {
			continue
		}
		if benchmarks[i].needsData && !w.hasData {
			fmt.Println("The database is new: filling it first")
			fill := benchmark{name: "filluniquerandom", loop: writeLoop,
				order: uniqueRandom, writes: true}
			if err := w.runOne(&fill, 1); err != nil {
				return err
			}
		}
		return w.runOne(&benchmarks[i], w.options.threads)
	}
	names := make([]string, len(benchmarks))
	for i := range benchmarks {
		names[i] = benchmarks[i].name
	}
	return fmt.Errorf("unknown benchmark '%s'; there are: %s", name,
		strings.Join(names, " "))
}

func (w *workload) runOne(b *benchmark, threads int) error {
	skipped := b.absent
	if b.fresh && w.options.existing {
		skipped = "--use_existing_db is true"
	}
	if skipped != "" {
		fmt.Printf("%-12s : skipped (%s)\n", b.name, skipped)
		return nil
	}
	sync := w.options.config.Sync || b.sync
	if b.fresh && !w.untouched {
		if err := w.openFresh(sync); err != nil {
			return err
		}
	} else if b.loop != nil && sync != w.openSync {
		if err := w.reopen(sync); err != nil {
			return err
		}
	}
	if b.writes || b.background {
		w.untouched, w.hasData = false, true
	}
	w.finishCPU()
	user, system := usage()
	if b.compact {
		start := time.Now()
		err := w.engine.Compact()
		if errors.Is(err, ErrUnsupported) {
			fmt.Printf("%-12s : skipped (%v)\n", b.name, err)
			return nil
		}
		if err == nil {
			elapsed := time.Since(start).Seconds()
			w.report(b.name, 1, elapsed, elapsed, 0, 0, 0, 0)
			w.pending = cpuTime{b.name, 1, user, system}
		}
		return err
	}
	return w.runThreads(b, threads, user, system)
}

func (w *workload) runThreads(b *benchmark, count int, user,
	system time.Duration) error {
	o := w.options
	c := &context{options: o, order: b.order, operations: o.reads,
		batch: o.batch, threads: count}
	if b.writes {
		c.operations = o.num
	}
	if b.part > 0 {
		c.operations = max(1, c.operations/b.part)
	}
	if b.batch > 0 {
		c.batch = b.batch
	}
	// Each benchmark has its own seeds, so that it does not read the keys that
	// the previous one has brought into the caches.
	w.started++
	seeds := random{o.seed + w.started}
	var threads []*thread
	for i := range count {
		t := newThread(c, seeds.next(), w.values, w.engine.NewSession())
		t.index = i
		threads = append(threads, t)
	}
	if b.openLoop {
		defer addProcessors(count)()
	}
	c.foreground.Store(int32(count))
	var running sync.WaitGroup
	begin := make(chan struct{})
	start := func(t *thread, loop func(*context, *thread), reader bool) {
		running.Add(1)
		go func() {
			defer running.Done()
			// A thread of its own, as in db_bench. Go stops a goroutine each
			// 10 ms. With a thread of its own it then waits for another thread
			// to start it again, which the latencies of openloop would show.
			if !b.openLoop {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
			}
			<-begin
			loop(c, t)
			if err := t.session.Close(); t.err == nil {
				t.err = err
			}
			if t.err != nil {
				c.stop.Store(true)
			}
			if reader {
				c.foreground.Add(-1)
			}
		}()
	}
	for _, t := range threads {
		start(t, b.loop, true)
	}
	var writer *thread
	if b.background {
		writer = newThread(c, seeds.next(), w.values, w.engine.NewSession())
		start(writer, backgroundWriteLoop, false)
	}
	close(begin)
	running.Wait()
	if w.recorder != nil {
		w.recorder.print(b.name)
		return nil
	}

	first, last := threads[0].start, threads[0].end
	var sum thread
	var inThreads float64
	for _, t := range threads {
		if t.err != nil {
			return t.err
		}
		if t.start.Before(first) {
			first = t.start
		}
		if t.end.After(last) {
			last = t.end
		}
		inThreads += t.end.Sub(t.start).Seconds()
		sum.operations += t.operations
		sum.bytes += t.bytes
		sum.found += t.found
		sum.lookups += t.lookups
		sum.puts.merge(&t.puts)
		sum.gets.merge(&t.gets)
	}
	var beside uint64
	if writer != nil {
		if writer.err != nil {
			return writer.err
		}
		beside = writer.operations
	}
	w.report(b.name, sum.operations, last.Sub(first).Seconds(), inThreads,
		sum.bytes, sum.found, sum.lookups, beside)
	if b.openLoop {
		seconds := last.Sub(first).Seconds()
		fmt.Printf("%s puts : %s\n", b.name, sum.puts.line(seconds))
		fmt.Printf("%s gets : %s\n", b.name, sum.gets.line(seconds))
	}
	w.pending = cpuTime{b.name, sum.operations, user, system}
	return nil
}

// report prints the line of db_bench.
func (w *workload) report(name string, operations uint64, elapsed,
	inThreads float64, bytes, found, lookups, beside uint64) {
	rate := func(amount float64) float64 {
		if elapsed <= 0 {
			return 0
		}
		return amount / elapsed
	}
	line := fmt.Sprintf("%-12s : %7.3f micros/op %d ops/sec %.3f seconds "+
		"%d operations;", name, inThreads*1e6/float64(max(operations, 1)),
		uint64(rate(float64(operations))), elapsed, operations)
	if bytes > 0 {
		line += fmt.Sprintf(" %6.1f MB/s", rate(float64(bytes)/mebibyte))
	}
	if lookups > 0 {
		line += fmt.Sprintf(" (%d of %d found)", found, lookups)
	}
	if beside > 0 {
		line += fmt.Sprintf(" (%d writes beside)", beside)
	}
	fmt.Println(line)
}

// finishCPU prints the CPU time of the last benchmark: of all threads, until
// the next one begins or the database is closed.
func (w *workload) finishCPU() {
	if w.pending.name == "" {
		return
	}
	user, system := usage()
	operations := float64(max(w.pending.operations, 1))
	each := func(used time.Duration) float64 {
		return used.Seconds() * 1e6 / operations
	}
	inUser, inSystem := each(user-w.pending.user), each(system-w.pending.system)
	fmt.Printf("%-12s : CPU %.3f micros/op (user %.3f, system %.3f)\n",
		w.pending.name, inUser+inSystem, inUser, inSystem)
	w.pending = cpuTime{}
}
