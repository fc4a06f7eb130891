// Varve: a key-value storage engine. MIT licence, see LICENSE.
package cluster

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"varve.example/replicated/check"
)

// process is a node, in a directory that outlives it.
type process struct {
	id      int
	address string // For other nodes.
	client  string // For clients.
	watch   string // For /metrics.
	door    string // For clients of Redis Cluster; empty for none.
	dir     string
	first   string     // --peers or --join.
	create  bool       // Whether the next start is the very first one of a cluster.
	host    *host      // Of the network; nil on loopback.
	disk    *disk      // nil for the file system of the tests.
	mutex   sync.Mutex // Over what happens to it.
	command *exec.Cmd
	paused  bool
}

const testPassword = "river" // Of nodes that are not on loopback.

const replicasWanted = 3 // Of each shard, the default of varve-node.

type cluster struct {
	t       *testing.T
	dir     string
	flags   []string // Of all nodes.
	network *network // nil: all are on loopback.
	disks   bool     // Whether each node has a disk of its own.
	doors   bool     // Whether each node has a cluster port.
	last    int      // The highest number of a node so far.
	shown   bool     // Whether the logs were printed.

	mutex sync.Mutex
	nodes []*process
}

// list returns the nodes that there are.
func (c *cluster) list() []*process {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return append([]*process(nil), c.nodes...)
}

func (c *cluster) drop(p *process) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for i, one := range c.nodes {
		if one == p {
			c.nodes = append(append([]*process(nil), c.nodes[:i]...), c.nodes[i+1:]...)
			return
		}
	}
}

var (
	counting sync.Mutex                  // Over these.
	lastPort = 25000 + 2*rand.Intn(2500) // The last one that freePorts has tried.
	clusters int                         // That were kept.
)

// freePorts are free on loopback, with the port after each, and none is given
// twice: a node may be down, or not be started yet. Not of those that the system
// gives to programs that connect, or one could be taken while its node is down.
func freePorts(t *testing.T, count int) []int {
	t.Helper()
	counting.Lock()
	defer counting.Unlock()
	var ports []int
	for tries := 0; len(ports) < count; tries++ {
		check.FatalIf(t, tries == 2500, "no ports are free")
		if lastPort += 2; lastPort >= 30000 {
			lastPort = 25000
		}
		if isFree(lastPort) && isFree(lastPort+1) {
			ports = append(ports, lastPort)
		}
	}
	return ports
}

func isFree(port int) bool {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	listener.Close()
	return true
}

// newCluster starts nodes with the numbers from 1 on.
func newCluster(t *testing.T, count int, flags ...string) *cluster {
	c := &cluster{t: t, dir: t.TempDir(), flags: append(flags, strings.Fields(*nodeFlags)...)}
	c.prepare()
	c.startFirst(count)
	return c
}

func (c *cluster) prepare() {
	if *keep != "" {
		counting.Lock()
		clusters++
		c.dir = filepath.Join(*keep, fmt.Sprint(clusters))
		counting.Unlock()
	}
	c.t.Cleanup(func() {
		for _, p := range c.list() {
			p.kill()
			if p.disk != nil {
				p.disk.remove()
			}
			log, _ := os.ReadFile(p.dir + ".log")
			if at := bytes.Index(log, []byte("\ngoroutine ")); at >= 0 {
				c.t.Errorf("node %d has ended in a panic:\n%.2000s", p.id, log[max(0, at-500):])
			}
		}
		if c.t.Failed() && !c.shown {
			c.showLogs()
		}
	})
}

func (c *cluster) startFirst(count int) {
	var peers []string
	for i := 0; i < count; i++ {
		p := c.add()
		peers = append(peers, fmt.Sprintf("%d=%s", p.id, p.address))
	}
	for _, p := range c.nodes {
		p.first, p.create = "--peers="+strings.Join(peers, ","), true
		c.start(p)
	}
	for _, p := range c.nodes {
		c.await(p)
	}
}

// add makes a place for one more node.
func (c *cluster) add() *process {
	c.last++
	p := &process{id: c.last, dir: filepath.Join(c.dir, fmt.Sprintf("node%d", c.last))}
	if c.network != nil {
		var err error
		if p.host, err = c.network.host(p.id); err != nil {
			c.t.Fatal(err)
		}
		p.address, p.client, p.watch = address(p.id)+":7000", address(p.id)+":6379", address(p.id)+":9000"
		if c.doors {
			p.door = address(p.id) + ":6479"
		}
	} else {
		ports := freePorts(c.t, 2)
		p.address = fmt.Sprintf("127.0.0.1:%d", ports[0])
		p.client = fmt.Sprintf("127.0.0.1:%d", ports[1])
		p.watch = fmt.Sprintf("127.0.0.1:%d", ports[1]+1)
		if c.doors {
			p.door = fmt.Sprintf("127.0.0.1:%d", ports[0]+1)
		}
	}
	if c.disks {
		var err error
		if p.disk, err = newDisk(p.dir); err != nil {
			c.t.Fatal(err)
		}
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.nodes = append(c.nodes, p)
	return p
}

// join starts one more node.
func (c *cluster) join() *process {
	p := c.add()
	p.first = "--join=" + c.nodes[0].address
	c.start(p)
	c.await(p)
	return p
}

// clock is the file by which a node's clock can be made wrong.
func (p *process) clock() string { return p.dir + ".clock" }

func (c *cluster) start(p *process) {
	c.t.Helper()
	check.OK(c.t, os.MkdirAll(p.dir, 0o755))
	log, err := os.OpenFile(p.dir+".log", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	check.OK(c.t, err)
	defer log.Close()
	words := append([]string{fmt.Sprintf("--id=%d", p.id),
		"--address=" + p.address, "--redis=" + p.client, "--watch=" + p.watch, "--dir=" + p.dir, p.first,
		fmt.Sprintf("--shards=%d", *shards), "--snapshot-entries=500", "--round-ms=50",
		"--clock-file=" + p.clock()}, c.flags...)
	if p.door != "" {
		words = append(words, "--cluster-listen="+p.door)
	}
	if p.create {
		words, p.create = append(words, "--create"), false
	}
	p.command = exec.Command(*nodeProgram, words...)
	p.command.Stdout, p.command.Stderr = log, log
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	begin := p.command.Start
	if p.host != nil {
		begin = func() error { return p.host.do(p.command.Start) }
	}
	check.OK(c.t, begin())
}

// await returns once all shards answer through the node.
func (c *cluster) await(p *process) {
	c.t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		answer, err := ask(p.client, 10*time.Second, "DBSIZE")
		if err == nil {
			return
		}
		check.FatalIf(c.t, p.exited(), "node %d has ended by itself", p.id)
		check.FatalIf(c.t, time.Now().After(end), "node %d does not answer: %v %v", p.id, answer, err)
	}
}

// page reads a page of a node's watch port.
func (c *cluster) page(p *process, path string) (status int, text string, err error) {
	answer, err := http.Get("http://" + p.watch + path)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(body), err
}

// ready waits until a node says that it is.
func (c *cluster) ready(p *process) {
	c.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		status, text, err := c.page(p, "/readyz")
		if status == http.StatusOK {
			return
		}
		check.FatalIf(c.t, time.Now().After(end), "node %d is not ready: %s %v", p.id, text, err)
	}
}

// fill writes keys with values of a size.
func (c *cluster) fill(p *process, name string, keys, size int) {
	c.t.Helper()
	connection, err := dial(p.client, 20*time.Second)
	check.OK(c.t, err)
	defer connection.conn.Close()
	value := strings.Repeat("v", size)
	for at := 0; at < keys; {
		words := []string{"MSET"}
		for ; at < keys && len(words) < 200; at++ {
			words = append(words, fmt.Sprintf("%s-%d", name, at), fmt.Sprintf("%d%s", at, value))
		}
		check.OK(c.t, connection.insist(words...))
	}
}

// admin does a command for operators until it is done.
func (c *cluster) admin(p *process, words ...string) []string {
	c.t.Helper()
	limit := time.Minute + time.Duration(*backupMegabytes)*200*time.Millisecond
	for end := time.Now().Add(limit); ; time.Sleep(200 * time.Millisecond) {
		answer, err := ask(p.client, limit, words...)
		if err == nil {
			var lines []string
			for _, line := range answer.([]interface{}) {
				lines = append(lines, line.(string))
			}
			return lines
		}
		check.FatalIf(c.t, time.Now().After(end), "%v: %v", words, err)
	}
}

// settle waits until all replicas are where they belong.
func (c *cluster) settle() {
	c.t.Helper()
	var lines []string
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		done := true
		for _, p := range c.nodes {
			if p.command == nil {
				continue
			}
			lines = c.admin(p, "NODE.STATUS")
			done = done && strings.HasSuffix(lines[len(lines)-1], "settled=true")
		}
		if done {
			return
		}
		check.FatalIf(c.t, time.Now().After(end), "replicas are not where they belong:\n%s", strings.Join(lines, "\n"))
	}
}

func (p *process) kill() {
	if p.command != nil {
		p.command.Process.Kill()
		p.command.Wait()
		p.command, p.paused = nil, false
	}
}

// terminate ends it in good order.
func (p *process) terminate() {
	if p.command != nil {
		p.command.Process.Signal(syscall.SIGTERM)
		p.command.Wait()
		p.command, p.paused = nil, false
	}
}

func (p *process) pause(pause bool) {
	signal := syscall.SIGCONT
	if pause {
		signal = syscall.SIGSTOP
	}
	p.command.Process.Signal(signal)
	p.paused = pause
}

// exited says whether the node has ended by itself, which it must not.
func (p *process) exited() bool {
	if p.command == nil {
		return false
	}
	var status syscall.WaitStatus
	pid, _ := syscall.Wait4(p.command.Process.Pid, &status, syscall.WNOHANG, nil)
	return pid == p.command.Process.Pid
}

func (c *cluster) showLogs() {
	c.shown = true
	for _, p := range c.list() {
		log, _ := os.ReadFile(p.dir + ".log")
		if len(log) > 4000 {
			log = log[len(log)-4000:]
		}
		c.t.Logf("end of the log of node %d:\n%s", p.id, log)
	}
}

// expectEqual waits until all replicas of each shard have applied the same,
// then compares. Each running node is asked for the replicas that it has.
func (c *cluster) expectEqual() {
	c.t.Helper()
	var lines []string
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		lines = lines[:0]
		states := map[string]map[string]int{} // By shard.
		for _, p := range c.nodes {
			if p.command == nil {
				continue
			}
			answer, err := ask(p.client, 30*time.Second, "NODE.DIGEST")
			if err != nil {
				lines = append(lines, fmt.Sprintf("node %d: %v", p.id, err))
				continue
			}
			for _, line := range answer.([]interface{}) {
				shard, state, _ := strings.Cut(line.(string), " ")
				if states[shard] == nil {
					states[shard] = map[string]int{}
				}
				states[shard][state]++
				lines = append(lines, fmt.Sprintf("node %d: %s", p.id, line))
			}
		}
		same := len(states) == *shards
		for _, of := range states {
			for _, replicas := range of {
				same = same && len(of) == 1 && replicas == replicasWanted
			}
		}
		if same {
			c.t.Logf("all replicas hold the same: %v", states)
			return
		}
		check.FatalIf(c.t, time.Now().After(end), "contents differ:\n%s", strings.Join(lines, "\n"))
	}
}

// checkFiles ends the nodes in good order, and has the tool `varve` look for
// damage in their files, and write out what the replicas of each shard hold,
// which must be the same.
func (c *cluster) checkFiles() {
	c.t.Helper()
	for _, p := range c.nodes {
		p.terminate()
	}
	tool, err := exec.LookPath("varve")
	if err != nil {
		c.t.Log("the tool `varve` is not in PATH: files not checked")
		return
	}
	above := filepath.Dir(c.nodes[0].dir)
	var manifests []string
	for _, p := range c.nodes {
		found, _ := filepath.Glob(filepath.Join(p.dir, "data", "*", "CURRENT"))
		manifests = append(manifests, found...)
	}
	bytes := 0
	if len(manifests) == 0 {
		c.t.Log("no databases of Varve found: files not checked")
		return
	}
	run := func(arguments ...string) {
		c.t.Helper()
		if out, err := exec.Command(tool, arguments...).CombinedOutput(); err != nil {
			c.t.Errorf("varve %s: %v\n%s", strings.Join(arguments, " "), err, out)
		}
	}
	dumps := map[string]int{} // Of shards, by contents.
	// export returns what a database holds in a range.
	export := func(dir, from, to string) string {
		file := filepath.Join(above, "dump")
		defer os.Remove(file)
		run("export-to", "--db="+dir, "--from="+from, "--to="+to, file)
		dump, err := os.ReadFile(file)
		check.OK(c.t, err)
		return string(dump)
	}
	for _, path := range manifests {
		dir := filepath.Dir(path)
		run("check", "--db="+dir)
		if filepath.Base(dir) == "db-names" {
			continue // The node's own.
		}
		dump := export(dir, "e", "l")
		dumps[dump]++ // The last line is a checksum.
		bytes += len(dump)
	}
	for dump, count := range dumps {
		if count%replicasWanted != 0 {
			c.t.Errorf("%d replicas have the same %d bytes, not a multiple of %d", count, len(dump), replicasWanted)
		}
	}
	c.t.Logf("varve check: no damage in %d databases; varve export-to: %d bytes, the same of all replicas",
		len(manifests), bytes)
}

// client speaks RESP.
type client struct {
	conn    net.Conn
	reader  *bufio.Reader
	timeout time.Duration
}

// refusal is an error that the node has answered with.
type refusal string

func (r refusal) Error() string { return string(r) }

func dial(address string, timeout time.Duration) (*client, error) {
	conn, err := net.DialTimeout("tcp", address, timeout)
	if err != nil {
		return nil, err
	}
	c := &client{conn, bufio.NewReader(conn), timeout}
	if !strings.HasPrefix(address, "127.") {
		if _, err := c.do("AUTH", testPassword); err != nil {
			conn.Close()
			return nil, err
		}
	}
	return c, nil
}

const maxHops = 5

// do sends a command; an answer is nil, string, int64 or []interface{}. At a cluster
// port it may be sent elsewhere, and goes on there.
func (c *client) do(words ...string) (interface{}, error) {
	for hops := 0; ; hops++ {
		answer, err := c.once(words...)
		if !isRefusal(err) || !strings.HasPrefix(err.Error(), "MOVED ") || hops == maxHops {
			return answer, err
		}
		fields := strings.Fields(err.Error())
		other, failure := dial(fields[len(fields)-1], c.timeout)
		if failure != nil {
			return nil, err
		}
		c.conn.Close()
		*c = *other
	}
}

func (c *client) once(words ...string) (interface{}, error) {
	var request bytes.Buffer
	fmt.Fprintf(&request, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(&request, "$%d\r\n%s\r\n", len(word), word)
	}
	c.conn.SetDeadline(time.Now().Add(c.timeout))
	if _, err := c.conn.Write(request.Bytes()); err != nil {
		return nil, err
	}
	return c.answer()
}

// insist sends a command that may be done twice until it is not refused: what is
// on its way to a leader that dies, or takes too long on a busy machine, has to
// be asked for again.
func (c *client) insist(words ...string) error {
	for end := time.Now().Add(time.Minute); ; {
		_, err := c.do(words...)
		if err == nil || !isRefusal(err) || time.Now().After(end) {
			return err
		}
	}
}

func (c *client) answer() (interface{}, error) {
	line, err := c.reader.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return nil, errors.New("an empty line for an answer")
	}
	number, _ := strconv.ParseInt(line[1:], 10, 64)
	switch line[0] {
	case '+':
		return line[1:], nil
	case '-':
		return nil, refusal(line[1:])
	case ':':
		return number, nil
	case '$':
		if number < 0 {
			return nil, nil
		}
		text := make([]byte, number+2)
		_, err := io.ReadFull(c.reader, text)
		return string(text[:number]), err
	case '*':
		var list []interface{}
		for ; number > 0; number-- {
			one, err := c.answer()
			if err != nil {
				return nil, err
			}
			list = append(list, one)
		}
		return list, nil
	}
	return nil, fmt.Errorf("not an answer: %q", line)
}

// ask is one command on a connection of its own.
func ask(address string, timeout time.Duration, words ...string) (interface{}, error) {
	c, err := dial(address, timeout)
	if err != nil {
		return nil, err
	}
	defer c.conn.Close()
	return c.do(words...)
}
