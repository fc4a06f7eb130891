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
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// process is a node, in a directory that outlives it.
type process struct {
	id      int
	address string // For other nodes.
	client  string // For clients.
	dir     string
	first   string // --peers or --join.
	command *exec.Cmd
	paused  bool
}

type cluster struct {
	t     *testing.T
	nodes []*process
}

// freeAddresses are on loopback, and nobody's as yet. Not of the ports that the
// system gives to those who connect, or one could be taken while its node is
// down.
func freeAddresses(t *testing.T, count int) []string {
	t.Helper()
	var addresses []string
	for len(addresses) < count {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10000+rand.Intn(20000)))
		if err != nil {
			continue
		}
		defer listener.Close()
		addresses = append(addresses, listener.Addr().String())
	}
	return addresses
}

func newCluster(t *testing.T) *cluster {
	addresses := freeAddresses(t, 6)
	c := &cluster{t: t}
	var peers []string
	dir := t.TempDir()
	if *keep != "" {
		dir = *keep
	}
	for i := 0; i < 3; i++ {
		peers = append(peers, fmt.Sprintf("%d=%s", i+1, addresses[i]))
		c.nodes = append(c.nodes, &process{
			id: i + 1, address: addresses[i], client: addresses[3+i],
			dir: filepath.Join(dir, fmt.Sprintf("node%d", i+1)),
		})
	}
	t.Cleanup(func() {
		for _, p := range c.nodes {
			p.kill()
		}
		if t.Failed() {
			c.showLogs()
		}
	})
	for _, p := range c.nodes {
		p.first = "--peers=" + strings.Join(peers, ",")
		c.start(p)
	}
	for _, p := range c.nodes {
		c.await(p)
	}
	return c
}

func (c *cluster) start(p *process) {
	c.t.Helper()
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		c.t.Fatal(err)
	}
	log, err := os.OpenFile(p.dir+".log", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		c.t.Fatal(err)
	}
	defer log.Close()
	p.command = exec.Command(*nodeProgram, fmt.Sprintf("--id=%d", p.id),
		"--address="+p.address, "--redis="+p.client, "--dir="+p.dir, p.first,
		fmt.Sprintf("--shards=%d", *shards), "--snapshot-entries=500", "--round-ms=20")
	p.command.Stdout, p.command.Stderr = log, log
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.command.Start(); err != nil {
		c.t.Fatal(err)
	}
}

// await returns once all shards answer through the node.
func (c *cluster) await(p *process) {
	c.t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		answer, err := ask(p.client, 10*time.Second, "DBSIZE")
		if err == nil {
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("node %d does not answer: %v %v", p.id, answer, err)
		}
	}
}

func (p *process) kill() {
	if p.command != nil {
		p.command.Process.Kill()
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
	for _, p := range c.nodes {
		log, _ := os.ReadFile(p.dir + ".log")
		if len(log) > 4000 {
			log = log[len(log)-4000:]
		}
		c.t.Logf("end of the log of node %d:\n%s", p.id, log)
	}
}

// expectEqual waits until all nodes have applied the same, then compares.
func (c *cluster) expectEqual() {
	c.t.Helper()
	var digests []string
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		digests = digests[:0]
		for _, p := range c.nodes {
			answer, err := ask(p.client, 30*time.Second, "NODE.DIGEST")
			digests = append(digests, fmt.Sprint(answer, err))
		}
		if digests[0] == digests[1] && digests[1] == digests[2] &&
			strings.Contains(digests[0], "shard=") {
			c.t.Logf("all nodes hold the same: %s", digests[0])
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("contents differ:\n%s", strings.Join(digests, "\n"))
		}
	}
}

// checkFiles ends the nodes in good order, and has the tool `varve` look for
// damage in their files, and write out what the replicas of each shard hold,
// which must be the same.
func (c *cluster) checkFiles() {
	c.t.Helper()
	for _, p := range c.nodes {
		p.command.Process.Signal(syscall.SIGTERM)
		p.command.Wait()
		p.command = nil
	}
	tool, err := exec.LookPath("varve")
	if err != nil {
		c.t.Log("the tool `varve` is not in PATH: files not checked")
		return
	}
	above := filepath.Dir(c.nodes[0].dir)
	manifests, _ := filepath.Glob(filepath.Join(above, "node*", "data", "*", "CURRENT"))
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
	dumps := map[string][]string{} // By node.
	for _, path := range manifests {
		dir := filepath.Dir(path)
		run("check", "--db="+dir)
		file := filepath.Join(above, "dump")
		run("export-to", "--db="+dir, "--from=k", "--to=l", file) // What is of users.
		dump, err := os.ReadFile(file)
		if err != nil {
			c.t.Fatal(err)
		}
		os.Remove(file)
		of := filepath.Dir(filepath.Dir(dir))
		dumps[of] = append(dumps[of], string(dump)) // The last line is a checksum.
	}
	var first string
	for of, parts := range dumps {
		sort.Strings(parts) // A catalog has names of its own for directories.
		all := strings.Join(parts, "")
		if first == "" {
			first = all
		}
		if all != first {
			c.t.Errorf("the files of %s differ from another node's", of)
		}
	}
	c.t.Logf("varve check: no damage in %d databases; varve export-to: %d bytes, the same of %d nodes",
		len(manifests), len(first), len(dumps))
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
	return &client{conn, bufio.NewReader(conn), timeout}, nil
}

// do sends a command; an answer is nil, string, int64 or []interface{}.
func (c *client) do(words ...string) (interface{}, error) {
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
