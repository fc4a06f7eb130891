// Varve: a key-value storage engine. MIT licence, see LICENSE.
package cluster

import (
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// harm does what can happen to nodes, their network and their disks, and makes
// it good again.
type harm struct {
	c      *cluster
	random *rand.Rand // Of the test's goroutine.

	mutex  sync.Mutex
	counts map[string]int
	ended  map[*process]bool // By themselves, for a disk that failed.
}

func (h *harm) count(what string) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.counts[what]++
}

func (h *harm) log(t *testing.T) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	t.Logf("faults and moves:%s", inLines(h.counts))
}

// inLines is a line for each count, sorted by what was counted.
func inLines(counts map[string]int) string {
	var kinds []string
	for kind := range counts {
		kinds = append(kinds, kind)
	}
	sort.Strings(kinds)
	var lines strings.Builder
	for _, kind := range kinds {
		fmt.Fprintf(&lines, "\n%5d  %s", counts[kind], kind)
	}
	return lines.String()
}

// kinds of faults: how often each is drawn, what it needs, and what it does.
var kinds = []struct {
	name  string
	part  int
	needs func(c *cluster) bool
	do    func(h *harm, p *process, others []*process, wait time.Duration)
}{
	{"kill", 6, always, func(h *harm, p *process, _ []*process, wait time.Duration) {
		h.restart(p, wait)
	}},
	{"pause", 6, always, func(h *harm, p *process, _ []*process, wait time.Duration) {
		p.pause(true)
		time.Sleep(wait)
		p.pause(false)
	}},
	{"kill while another one is paused", 2, always, func(h *harm, p *process, others []*process, wait time.Duration) {
		second := others[h.random.Intn(len(others))]
		second.mutex.Lock()
		defer second.mutex.Unlock()
		if second.command != nil {
			second.pause(true)
			defer second.pause(false)
		}
		h.restart(p, wait)
	}},
	{"kill all", 1, always, func(h *harm, p *process, others []*process, _ time.Duration) {
		p.kill()
		killed := []*process{p}
		for _, one := range others {
			one.mutex.Lock()
			defer one.mutex.Unlock()
			if one.command != nil { // It may have been removed.
				one.kill()
				killed = append(killed, one)
			}
		}
		for _, one := range killed {
			h.c.start(one)
		}
	}},
	{"partition: one node alone", 4, networked, func(h *harm, p *process, others []*process, wait time.Duration) {
		h.partition([]int{p.host.number}, hosts(others), true, true, wait)
	}},
	{"partition: two halves", 2, networked, func(h *harm, p *process, others []*process, wait time.Duration) {
		at := h.random.Intn(len(others))
		h.partition(append(hosts(others[:at]), p.host.number), hosts(others[at:]), true, true, wait)
	}},
	{"partition: nothing comes from a node", 3, networked, func(h *harm, p *process, others []*process, wait time.Duration) {
		h.partition([]int{p.host.number}, hosts(others), true, false, wait)
	}},
	{"partition: nothing goes to a node", 3, networked, func(h *harm, p *process, others []*process, wait time.Duration) {
		h.partition([]int{p.host.number}, hosts(others), false, true, wait)
	}},
	{"partition: on and off", 3, networked, func(h *harm, p *process, others []*process, _ time.Duration) {
		for i := 5 + h.random.Intn(15); i > 0; i-- {
			h.partition([]int{p.host.number}, hosts(others), true, true,
				time.Duration(20+h.random.Intn(300))*time.Millisecond)
			time.Sleep(time.Duration(20+h.random.Intn(200)) * time.Millisecond)
		}
	}},
	{"delays", 3, networked, func(h *harm, p *process, others []*process, wait time.Duration) {
		h.c.network.slow(p.host.number, hosts(others), time.Duration(1+h.random.Intn(150))*time.Millisecond,
			time.Duration(1+h.random.Intn(100))*time.Millisecond, 0)
		time.Sleep(2 * wait)
		h.c.network.slow(p.host.number, hosts(others), 0, 0, 0)
	}},
	{"loss of packets", 3, networked, func(h *harm, p *process, others []*process, wait time.Duration) {
		h.c.network.slow(p.host.number, hosts(others), 0, 0, int64(10+h.random.Intn(300)))
		time.Sleep(2 * wait)
		h.c.network.slow(p.host.number, hosts(others), 0, 0, 0)
	}},
	{"step of a clock", 3, always, func(h *harm, p *process, _ []*process, wait time.Duration) {
		p.setClock(h.c.t, time.Duration(h.random.Int63n(int64(2*longestStep)))-longestStep)
		if time.Sleep(wait); h.random.Intn(2) == 0 {
			p.setClock(h.c.t, 0)
		}
	}},
	{"full disk", 2, hasDisks, func(h *harm, p *process, _ []*process, wait time.Duration) {
		if err := p.disk.fill(false); err != nil {
			h.c.t.Error(err)
		}
		time.Sleep(wait)
		p.disk.empty()
		if p.exited() {
			h.count("full disk: the node has ended, and was started again")
			h.restart(p, 0)
		}
		h.ended[p] = true // It may notice later.
	}},
	{"failing disk", 2, hasDisks, func(h *harm, p *process, _ []*process, wait time.Duration) {
		if err := p.disk.fill(true); err != nil {
			h.c.t.Error(err)
		}
		time.Sleep(wait)
		if p.exited() {
			h.count("failing disk: the node has ended")
		}
		p.kill()
		p.disk.empty()
		if err := p.disk.remount(); err != nil {
			h.c.t.Fatal(err)
		}
		h.c.start(p)
	}},
}

// longestStep is much less than the time to live of the clients' keys.
const longestStep = time.Hour

// setClock has a node's clock be wrong.
func (p *process) setClock(t *testing.T, by time.Duration) {
	temporary := p.clock() + ".new"
	err := os.WriteFile(temporary, []byte(strconv.FormatInt(by.Milliseconds(), 10)), 0o644)
	if err == nil {
		err = os.Rename(temporary, p.clock())
	}
	if err != nil {
		t.Error(err)
	}
}

func always(*cluster) bool      { return true }
func networked(c *cluster) bool { return c.network != nil }
func hasDisks(c *cluster) bool  { return c.disks }

func hosts(of []*process) []int {
	var numbers []int
	for _, p := range of {
		numbers = append(numbers, p.host.number)
	}
	return numbers
}

func (h *harm) restart(p *process, wait time.Duration) {
	p.kill()
	time.Sleep(wait)
	h.c.start(p)
}

func (h *harm) partition(one, others []int, out, in bool, wait time.Duration) {
	if out {
		h.c.network.cut(one, others, true)
	}
	if in {
		h.c.network.cut(others, one, true)
	}
	time.Sleep(wait)
	h.c.network.cut(one, others, false)
	h.c.network.cut(others, one, false)
}

// do does a random fault.
func (h *harm) do() {
	time.Sleep(time.Duration(h.random.Intn(1500)) * time.Millisecond)
	nodes := h.c.list()
	for _, p := range nodes {
		p.mutex.Lock()
		if p.exited() {
			if !h.ended[p] {
				h.c.t.Fatalf("node %d has ended by itself", p.id)
			}
			h.count("full disk: the node has ended later, and was started again")
			h.restart(p, 0)
		}
		p.mutex.Unlock()
	}
	at := h.random.Intn(len(nodes))
	p := nodes[at]
	others := append(append([]*process(nil), nodes[:at]...), nodes[at+1:]...)
	total := 0
	for _, kind := range kinds {
		if kind.needs(h.c) {
			total += kind.part
		}
	}
	choice := h.random.Intn(total)
	for _, kind := range kinds {
		if !kind.needs(h.c) {
			continue
		}
		if choice -= kind.part; choice < 0 {
			p.mutex.Lock()
			defer p.mutex.Unlock()
			if p.command == nil {
				return // It was removed.
			}
			h.count(kind.name)
			kind.do(h, p, others, time.Duration(100+h.random.Intn(3000))*time.Millisecond)
			return
		}
	}
}

// heal makes all good.
func (h *harm) heal() {
	for _, p := range h.c.list() {
		p.mutex.Lock()
		if p.exited() {
			if !h.ended[p] {
				h.c.t.Fatalf("node %d has ended by itself", p.id)
			}
			h.restart(p, 0)
		}
		p.mutex.Unlock()
	}
}

const (
	mostNodes  = 5
	leastNodes = 3
)

// move has nodes join, drained, and lost with their disks, until it is stopped.
func (h *harm) move(stop <-chan struct{}) {
	random := rand.New(rand.NewSource(*seed - 2))
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(1000+random.Intn(4000)) * time.Millisecond):
		}
		nodes := h.c.list()
		p := nodes[random.Intn(len(nodes))]
		var what string
		var err error
		switch choice := random.Intn(10); {
		case choice < 3 && len(nodes) < mostNodes:
			what, err = "a node joins", h.join(random, h.c.add())
		case choice < 5:
			what, err = "spread", h.ask(random, nil, "NODE.SPREAD")
		case choice < 8 && len(nodes) > leastNodes:
			what, err = "a node is drained and removed", h.drain(random, p)
		case choice == 9 && len(nodes) >= leastNodes:
			what, err = "a node is lost with its disk, and a new one comes in its place", h.lose(random, p)
		default:
			continue
		}
		if err != nil {
			h.count(what + ": not in time")
			if *verbose {
				h.c.t.Logf("%s: %v", what, err)
			}
		} else {
			h.count(what)
		}
	}
}

// try asks any of the nodes but one.
func (h *harm) try(random *rand.Rand, not *process, words ...string) ([]interface{}, error) {
	nodes := h.c.list()
	p := nodes[random.Intn(len(nodes))]
	if p == not {
		return nil, errors.New("not that one")
	}
	answer, err := ask(p.client, 10*time.Second, words...)
	if err != nil {
		return nil, err
	}
	return answer.([]interface{}), nil
}

// ask has a command done, by any node but one.
func (h *harm) ask(random *rand.Rand, not *process, words ...string) (err error) {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if _, err = h.try(random, not, words...); err == nil {
			return nil
		}
	}
	return err
}

// until waits until the status, as some node knows it, has a pattern.
func (h *harm) until(random *rand.Rand, not *process, pattern string, limit time.Duration) ([]string, error) {
	expression := regexp.MustCompile(pattern)
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		lines, err := h.try(random, not, "NODE.STATUS")
		if err != nil {
			continue
		}
		for _, line := range lines {
			if found := expression.FindStringSubmatch(line.(string)); found != nil {
				return found, nil
			}
		}
	}
	return nil, fmt.Errorf("no %s in the status", pattern)
}

// settled waits until the newest directory that any node knows says that all
// replicas are where they belong. All nodes must answer.
func (h *harm) settled(limit time.Duration) error {
	expression := regexp.MustCompile(`^revision=(\d+) settled=(true|false)$`)
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		newest, is, all := 0, false, true
		for _, p := range h.c.list() {
			answer, err := ask(p.client, 5*time.Second, "NODE.STATUS")
			if err != nil {
				all = false
				break
			}
			lines := answer.([]interface{})
			found := expression.FindStringSubmatch(lines[len(lines)-1].(string))
			if revision, _ := strconv.Atoi(found[1]); revision > newest {
				newest, is = revision, found[2] == "true"
			}
		}
		if all && is {
			return nil
		}
	}
	return errors.New("not all replicas are where they belong")
}

// numberOf is what the cluster calls a node.
func (h *harm) numberOf(random *rand.Rand, p *process) (string, error) {
	found, err := h.until(random, p, `^node=(\d+) address=`+regexp.QuoteMeta(p.address)+` `, 10*time.Second)
	if err != nil {
		return "", err
	}
	return found[1], nil
}

// join starts a new node. It asks until it is taken in.
func (h *harm) join(random *rand.Rand, p *process) error {
	var through []string
	for _, other := range h.c.list() {
		if other != p {
			through = append(through, other.address)
		}
	}
	p.first = "--join=" + strings.Join(through, ",")
	p.mutex.Lock()
	h.c.start(p)
	p.mutex.Unlock()
	_, err := h.until(random, p, ` address=`+regexp.QuoteMeta(p.address)+` .*state=up `, 2*time.Minute)
	return err
}

func (h *harm) drain(random *rand.Rand, p *process) error {
	number, err := h.numberOf(random, p)
	if err == nil {
		err = h.ask(random, nil, "NODE.DRAIN", number)
	}
	if err != nil {
		return err
	}
	if _, err := h.until(random, nil, `^node=`+number+` .*state=drained `, 40*time.Second); err != nil {
		h.ask(random, nil, "NODE.UNDRAIN", number)
		return err
	}
	if err := h.ask(random, p, "NODE.REMOVE", number); err != nil {
		h.ask(random, nil, "NODE.UNDRAIN", number)
		return err
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	h.c.drop(p)
	p.terminate()
	if p.disk != nil {
		p.disk.remove()
	}
	return nil
}

// lose removes a node's files. No other node may have lost its files since the
// replicas were all in their places.
func (h *harm) lose(random *rand.Rand, p *process) error {
	if err := h.settled(20 * time.Second); err != nil {
		return err
	}
	number, err := h.numberOf(random, p)
	if err != nil {
		return err
	}
	p.mutex.Lock()
	p.kill()
	h.c.drop(p)
	p.mutex.Unlock()
	files, _ := filepath.Glob(filepath.Join(p.dir, "*"))
	for _, file := range files {
		if err := os.RemoveAll(file); err != nil {
			return err
		}
	}
	// What it knew is gone: only that it is removed helps, however long it takes.
	for h.ask(random, nil, "NODE.REMOVE", number) != nil {
		if _, err := h.until(random, nil, `^node=`+number+` `, time.Second); err != nil {
			break // It was removed, but the answer was lost.
		}
	}
	back := &process{
		address: p.address, client: p.client, watch: p.watch, door: p.door, dir: p.dir, host: p.host, disk: p.disk,
	}
	back.id, _ = strconv.Atoi(number)
	h.c.mutex.Lock()
	h.c.nodes = append(h.c.nodes, back)
	h.c.mutex.Unlock()
	if err := h.join(random, back); err != nil {
		return err
	}
	// Until then no other node may be lost.
	for {
		if h.settled(time.Minute) == nil {
			return nil
		}
		if h.c.t.Failed() {
			return errors.New("the test has failed")
		}
	}
}
