// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: a backup that is taken while the cluster serves is restored to the
// same contents, also with another number of shards, and after a restore that
// has failed; nodes that write one together are kept apart; damage is noticed;
// what a node shows of itself can be read. Method: real processes; checksums.
package cluster

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"varve.example/replicated/check"
)

// contents is the number and the checksum of all entries, from an answer.
func contents(lines []string) string { return lines[len(lines)-1] }

func TestABackupIsRestoredIntoANewCluster(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	backups := "--backups=" + filepath.Join(dir, "backups")
	// One node has to fetch shards from others. Slow ticks, as in move_test.go.
	c := newCluster(t, 4, backups, "--round-ms=100")
	const writers = 4
	var filled sync.WaitGroup
	for w := 0; w < writers; w++ {
		filled.Add(1)
		go func() {
			defer filled.Done()
			for i := w; i < *backupMegabytes; i += writers {
				c.fill(c.nodes[w], fmt.Sprintf("old-%d", i), 1000, 1000)
			}
		}()
	}
	if filled.Wait(); t.Failed() {
		return
	}
	want := contents(c.admin(c.nodes[1], "NODE.CHECKSUM"))
	begin := time.Now()
	quiet := c.admin(c.nodes[0], "NODE.BACKUP", "quiet")
	t.Logf("backup of %d MB in %v: %s", *backupMegabytes, time.Since(begin).Round(time.Millisecond), contents(quiet))
	if contents(quiet) != want {
		t.Fatalf("%s, not %s", contents(quiet), want)
	}
	check.FatalIf(t, check.Err(ask(c.nodes[0].client, time.Minute, "NODE.BACKUP", "quiet")) == nil, "a backup was overwritten")
	for _, name := range []string{"../x", "a/b", ".", ""} {
		check.FatalIf(t, check.Err(ask(c.nodes[0].client, time.Minute, "NODE.BACKUP", name)) == nil, "a backup was written to %q", name)
	}
	// Writes go on; no write after the backup is in it.
	l := startLoad(c, 4, 50)
	time.Sleep(500 * time.Millisecond)
	busy := c.admin(c.nodes[3], "NODE.BACKUP", "busy")
	l.finish()
	now := contents(c.admin(c.nodes[2], "NODE.CHECKSUM"))
	if contents(busy) == now {
		t.Log("no write came during the backup")
	}
	check.FatalIf(t, check.Err(ask(c.nodes[0].client, time.Minute, "NODE.RESTORE", "quiet")) == nil, "a backup was restored over contents")
	c.end()

	for _, shards := range []string{fmt.Sprint(*shards), "3"} {
		other := newCluster(t, 3, backups, "--shards="+shards)
		if shards == "3" {
			restoreAndKill(other, "busy")
		}
		begin := time.Now()
		restored := other.admin(other.nodes[0], "NODE.RESTORE", "busy")
		t.Logf("restored to %s shards in %v", shards, time.Since(begin).Round(time.Millisecond))
		if contents(restored) != contents(busy) {
			t.Fatalf("%s, not %s", contents(restored), contents(busy))
		}
		if got := contents(other.admin(other.nodes[2], "NODE.CHECKSUM")); got != contents(busy) {
			t.Fatalf("%s, not %s", got, contents(busy))
		}
		if value, err := ask(other.nodes[1].client, 10*time.Second, "GET", "old-0-7"); err != nil ||
			!strings.HasPrefix(fmt.Sprint(value), "7v") {
			t.Fatal(value, err)
		}
		other.end()
	}

	// Damage at any place is noticed before anything is proposed.
	damaged := newCluster(t, 3, backups)
	found, _ := filepath.Glob(filepath.Join(dir, "backups", "quiet", "shard-0002-*"))
	check.FatalIf(t, len(found) != 1, "%v", found)
	path := found[0]
	good, err := os.ReadFile(path)
	check.OK(t, err)
	for _, at := range []int{5, len(good) / 2, len(good) - 3} {
		bad := append([]byte(nil), good...)
		bad[at] ^= 4
		check.OK(t, os.WriteFile(path, bad, 0o644))
		if _, err := ask(damaged.nodes[0].client, time.Minute, "NODE.RESTORE", "quiet"); err == nil {
			t.Fatalf("damage at %d was restored", at)
		}
	}
	if got := contents(damaged.admin(damaged.nodes[0], "NODE.CHECKSUM")); !strings.HasPrefix(got, "entries=0 ") {
		t.Fatalf("of a damaged backup there is %s", got)
	}
}

// By the steps of operating.md. Only the last ones have writes wait.
func TestAClusterGetsMoreShards(t *testing.T) {
	t.Parallel()
	backups := "--backups=" + t.TempDir()
	old := newCluster(t, 3, backups, "--round-ms=100")
	for i := 0; i < *backupMegabytes; i++ {
		old.fill(old.nodes[i%3], fmt.Sprintf("old-%d", i), 1000, 1000)
	}
	l := startLoad(old, 4, 50)
	old.admin(old.nodes[0], "NODE.BACKUP", "before")
	l.finish()
	begin := time.Now()
	last := old.admin(old.nodes[0], "NODE.BACKUP", "last", "before")
	written := time.Since(begin)
	old.end()
	more := fmt.Sprint(2 * *shards)
	c := newCluster(t, 3, backups, "--shards="+more, "--round-ms=100")
	begin = time.Now()
	restored := c.admin(c.nodes[0], "NODE.RESTORE", "last")
	t.Logf("%d MB to %s shards: backup of what is new in %v, restored in %v", *backupMegabytes, more,
		written.Round(time.Millisecond), time.Since(begin).Round(time.Millisecond))
	if contents(restored) != contents(last) {
		t.Fatalf("%s, not %s", contents(restored), contents(last))
	}
	l.c = c
	l.nodes.Store(append([]*process(nil), c.nodes...))
	l.checkWritten()
	c.end()
}

// Each writer sets the keys of a chain in turn, by different nodes. A backup that
// is of one moment has no later link that is ahead of an earlier one.
func TestABackupOfManyNodesIsOfOneMoment(t *testing.T) {
	t.Parallel()
	backups := t.TempDir()
	c := newCluster(t, 3, "--backups="+backups, "--round-ms=100")
	const writers, links = 6, 24
	stop := make(chan struct{})
	var group, begun sync.WaitGroup
	var slowest [writers]time.Duration
	for w := range slowest {
		group.Add(1)
		begun.Add(1)
		go func() {
			defer group.Done()
			whole := sync.OnceFunc(begun.Done)
			defer whole()
			var connections []*client
			for _, p := range c.nodes {
				connection, err := dial(p.client, 20*time.Second)
				if err != nil {
					t.Error(err)
					return
				}
				defer connection.conn.Close()
				connections = append(connections, connection)
			}
			for round := 0; ; round++ {
				for link := 0; link < links; link++ {
					begin := time.Now()
					err := connections[link%3].insist("SET", fmt.Sprintf("%d/%d", w, link), fmt.Sprint(round))
					if err != nil {
						t.Error(err)
						return
					}
					slowest[w] = max(slowest[w], time.Since(begin))
				}
				whole()
				select {
				case <-stop:
					return
				default:
				}
			}
		}()
	}
	begun.Wait() // Until all chains are whole.
	const count = 5
	for i := 0; i < count; i++ {
		words := []string{"NODE.BACKUP", fmt.Sprint("backup-", i)}
		if i > 0 {
			words = append(words, fmt.Sprint("backup-", i-1))
		}
		lines := c.admin(c.nodes[i%3], words...)
		check.ErrorIf(t, lines[len(lines)-2] != "moment=true", "a backup is not of one moment: %v", lines)
		time.Sleep(200 * time.Millisecond)
	}
	close(stop)
	group.Wait()
	for _, p := range c.nodes {
		log, _ := os.ReadFile(p.dir + ".log")
		for _, line := range strings.Split(string(log), "\n") {
			if strings.Contains(line, "a moment of all shards") {
				t.Log(line)
			}
		}
	}
	t.Log("the slowest requests: ", slowest)
	// A node that is down could do requests that do not wait.
	c.nodes[2].kill()
	lines := c.admin(c.nodes[0], "NODE.BACKUP", "without")
	check.ErrorIf(t, lines[len(lines)-2] != "moment=false", "without a node: %v", lines)
	c.end()
	for _, name := range []string{"backup-0", fmt.Sprint("backup-", count-1), "without"} {
		other := newCluster(t, 3, "--backups="+backups)
		other.admin(other.nodes[0], "NODE.VERIFY", name)
		other.admin(other.nodes[0], "NODE.RESTORE", name)
		for w := range slowest {
			words := []string{"MGET"}
			for link := 0; link < links; link++ {
				words = append(words, fmt.Sprintf("%d/%d", w, link))
			}
			answer, err := ask(other.nodes[1].client, 10*time.Second, words...)
			check.OK(t, err)
			values, last := answer.([]interface{}), 1<<30
			first, _ := strconv.Atoi(fmt.Sprint(values[0]))
			for link, value := range values {
				round, err := strconv.Atoi(fmt.Sprint(value))
				if err != nil || round > last || round < first-1 {
					t.Fatalf("%s: chain %d, link %d: %v after %d", name, w, link, value, last)
				}
				last = round
			}
		}
		other.end()
	}
}

// end ends all nodes and removes their files, which may be large.
func (c *cluster) end() {
	for _, p := range c.nodes {
		p.terminate()
		if err := os.RemoveAll(p.dir); err != nil {
			c.t.Error(err)
		}
	}
}

// restoreAndKill kills a node while it restores a backup, and starts it again.
func restoreAndKill(c *cluster, name string) {
	p := c.nodes[2]
	ended := make(chan error, 1)
	go func() {
		_, err := ask(p.client, time.Hour, "NODE.RESTORE", name)
		ended <- err
	}()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if count, err := ask(c.nodes[1].client, 10*time.Second, "DBSIZE"); err == nil && count.(int64) > 200 {
			c.t.Logf("killed after %d keys", count)
			break
		}
	}
	p.kill()
	check.FatalIf(c.t, <-ended == nil, "a backup was restored before its node was killed")
	c.start(p)
	c.await(p)
	for _, one := range c.nodes {
		c.ready(one)
	}
}

func TestTwoNodesWriteNoBackupTogether(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := newCluster(t, 3, "--backups="+dir)
	c.fill(c.nodes[0], "key", 2000, 1000)
	want := contents(c.admin(c.nodes[0], "NODE.CHECKSUM"))
	results := make(chan error)
	for i := 0; i < 6; i++ {
		go func() {
			_, err := ask(c.nodes[i%2].client, time.Minute, "NODE.BACKUP", "one")
			results <- err
		}()
	}
	written := 0
	for i := 0; i < 6; i++ {
		if <-results == nil {
			written++
		}
	}
	check.FatalIf(t, written != 1, "%d backups of one name were written", written)
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	for _, p := range c.nodes {
		p.terminate()
	}
	other := newCluster(t, 3, "--backups="+dir)
	if got := contents(other.admin(other.nodes[0], "NODE.RESTORE", "one")); got != want {
		t.Fatalf("%s, not %s", got, want)
	}
}

func TestANodeShowsWhatItDoes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, "--log-format=json")
	for _, p := range c.nodes {
		c.ready(p)
	}
	c.fill(c.nodes[0], "key", 2000, 100)
	check.OK(t, check.Err(ask(c.nodes[0].client, 10*time.Second, "GET", "key-1")))
	status, text, err := c.page(c.nodes[0], "/metrics")
	check.FatalIf(t, err != nil || status != http.StatusOK, "%v %v", status, err)
	for _, want := range []string{
		`varve_shard_leader_node\{shard="1"\} [1-3]\n`, `varve_replica_applied_index\{shard="8"\} [1-9]`,
		`varve_replica_lag_entries\{shard="1"\} \d+\n`, `varve_shard_proposal_seconds_count\{shard="2"\} [1-9]`,
		`varve_shard_proposal_seconds_bucket\{shard="2",le="\+Inf"\} [1-9]`, `varve_node_ready 1\n`,
		`varve_node_alive\{node="3"\} 1\n`, `varve_shard_replicas\{shard="0"\} 3\n`, `varve_directory_settled 1\n`,
	} {
		check.ErrorIf(t, !regexp.MustCompile(want).MatchString(text), "%s is not in /metrics", want)
	}
	if info, err := ask(c.nodes[0].client, 10*time.Second, "INFO"); err != nil || strings.Contains(fmt.Sprint(info), "engine:varve") {
		for _, want := range []string{`varve_bytes_written\S* [1-9]`, `varve_block_cache_bytes \d`,
			`varve_database_size_all_mem_tables\{database="shard-1-1"\} [1-9]`} {
			check.ErrorIf(t, !regexp.MustCompile(want).MatchString(text), "%s is not in /metrics", want)
		}
		traced := make(chan []string, 1)
		go func() { traced <- c.admin(c.nodes[1], "NODE.TRACE", "1") }()
		c.fill(c.nodes[0], "more", 2000, 100)
		file := (<-traced)[0]
		trace, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(trace), "DB::Write") {
			t.Errorf("no writes in the trace of %d bytes: %v", len(trace), err)
		}
		if tool, err := exec.LookPath("varve"); err == nil {
			if out, err := exec.Command(tool, "trace", file, "--limit=5").CombinedOutput(); err != nil ||
				!strings.Contains(string(out), "DB::Write") {
				t.Errorf("varve trace: %v\n%s", err, out)
			}
		} else {
			t.Log("the tool `varve` is not in PATH: the trace was not printed")
		}
	}
	// A node without a majority is alive and not ready.
	c.nodes[1].kill()
	c.nodes[2].kill()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if status, _, err := c.page(c.nodes[0], "/readyz"); err == nil && status == http.StatusServiceUnavailable {
			break
		}
		check.FatalIf(t, time.Now().After(end), "a node without a majority says that it is ready")
	}
	if status, _, err := c.page(c.nodes[0], "/healthz"); err != nil || status != http.StatusOK {
		t.Fatal(status, err)
	}
	log, err := os.ReadFile(c.nodes[0].dir + ".log")
	if err != nil || !regexp.MustCompile(`(?m)^\{"time":.*"msg":"replica started".*"shard":1`).Match(log) {
		t.Errorf("the log is not of JSON: %v\n%s", err, log)
	}
}
